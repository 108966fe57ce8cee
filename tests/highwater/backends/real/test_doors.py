"""Clients' bytes are parsed only in runs whose plan does something to single messages."""

import asyncio

import pytest
from msgspec.structs import replace

from highwater.backends.real.processes.site import ProcessSite
from highwater.backends.real.site import CLIENTS, LinkCondition, Pick
from highwater.backends.real.systems.registry import system_for
from highwater.errors import HarnessError
from highwater.plans.plan import Plan, on_system
from highwater.plans.systems import parsed_system
from highwater.plans.text import load_plan
from reference.types import Address
from tests.tidy.sources import ROOT

LATE = on_system(load_plan(ROOT / "corpus" / "real" / "end-txn-late.yaml"), parsed_system("kafka:4.1.0"))
PICKED = LinkCondition(picks=(Pick(window="w", seed=1),))


def set_at_the_door(plan: Plan, *links: tuple[str, str]) -> None:
    """Pick messages on these links of a cluster that is built and not started."""

    async def scene() -> None:
        system = system_for(plan)
        site = ProcessSite(plan, system)
        try:
            await site.open()
            await site.links.set({(Address(source), Address(target)): PICKED for source, target in links})
        finally:
            await site.leave()
            site.close()

    asyncio.run(scene())


def test_doors_tell_messages_apart_where_the_plan_picks_some() -> None:
    set_at_the_door(LATE, (CLIENTS, "b1"), ("b1", CLIENTS), ("b1", "b2"))


def test_doors_pass_bytes_where_the_plan_picks_no_message() -> None:
    with pytest.raises(HarnessError, match="no proxy tells messages from p1 to b1 apart"):
        set_at_the_door(replace(LATE, schedule=()), (CLIENTS, "b1"))
