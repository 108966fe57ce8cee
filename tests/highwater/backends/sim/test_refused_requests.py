"""The simulator refuses faults of messages that its processes do not send, or that its connections cannot pick."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from nemesis.faults import AnyFault, Clog, Packets, Reset, Slow
from nemesis.schedule import Window
from nemesis.targets import AnyTarget, ClientPlace, Everyone
from tests.tidy.sources import ROOT

PLAN = load_plan(ROOT / "corpus" / "real" / "failover.yaml")
PICKS = "its connections cannot pick single messages by kind, chance or connection"


def with_fault(fault: AnyFault, target: AnyTarget) -> Plan:
    window = Window(id="f1", kind="late", at_ms=0, until_ms=1, fault=fault, target=target)
    return replace(PLAN, system=UNSET, schedule=(window,))


@pytest.mark.parametrize(
    ("fault", "target", "why"),
    [
        (Clog(links=("peers",), kinds=("end-txn",)), Everyone(), "its processes do not send end-txn"),
        (Packets(drop_per_mille=9, kinds=("vote-reply",)), Everyone(), "its processes do not send vote-reply"),
        (Slow(extra_ms=9, links=("clients",), kinds=("produce",)), ClientPlace(place=1), PICKS),
        (Reset(links=("clients",), kinds=("produce-reply",)), ClientPlace(place=1), PICKS),
        (Clog(links=("clients",), connection="one"), ClientPlace(place=1), PICKS),
        (Packets(drop_per_mille=9, kinds=("produce",)), ClientPlace(place=1), PICKS),
    ],
)
def test_simulator_refuses_requests_with_a_sentence(fault: AnyFault, target: AnyTarget, why: str) -> None:
    assert SimBackend().refuse(with_fault(fault, target)) == f"window f1 (late): the sim backend cannot: {why}"


@pytest.mark.parametrize(
    "fault",
    [
        Clog(links=("peers",), kinds=("fetch-reply",)),
        Packets(drop_per_mille=9, kinds=("fetch",)),
        Slow(extra_ms=9, direction="inbound"),
    ],
)
def test_simulator_takes_kinds_of_its_own_brokers(fault: AnyFault) -> None:
    assert SimBackend().refuse(with_fault(fault, Everyone())) is None
