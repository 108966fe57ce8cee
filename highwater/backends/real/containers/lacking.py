"""What this machine's kernel and user do not allow in containers, found out by trying, before a run."""

import asyncio
import os

from highwater.backends.real.containers.engine import Engine
from highwater.backends.real.containers.links import AgentClient
from highwater.backends.real.containers.place import make_grounds, make_place
from highwater.backends.real.run_folder import RunFolder
from highwater.plans.plan import Plan
from nemesis.faults import AnyFault, Clog, DiskFull, Packets, Partition, Reset, Slow
from reference.types import Address

_PLACE = Address("b1")
_FEATURES = (((Partition, Clog), "held"), ((Packets,), "loss_per_mille"), ((Slow,), "delay_ms"), ((Reset,), "reset"))


def lacking(engine: Engine, plan: Plan) -> str | None:
    """What a fault of this plan lacks here, in a sentence; None where nothing."""
    wanted = [(window, _of_agent(window.fault)) for window in plan.schedule]
    # One container is made and asked, and only where the answer matters: it takes two seconds.
    cannot = _asked(engine) if any(feature for _, feature in wanted) else {}
    for window, feature in wanted:
        if feature in cannot:
            return f"window {window.id} ({window.kind}): the kernel of this machine cannot: {cannot[feature]}"
        if isinstance(window.fault, DiskFull) and os.geteuid():
            return f"window {window.id} ({window.kind}): only root can mount a small file system"
    return None


def _of_agent(fault: AnyFault) -> str | None:
    """As `agent` calls what this fault needs of it."""
    return next((feature for kinds, feature in _FEATURES if isinstance(fault, kinds)), None)


def _asked(engine: Engine) -> dict[str, str]:
    folder = RunFolder()
    try:
        place = make_place(engine, make_grounds(engine, folder), _PLACE)
        return asyncio.run(_ask(AgentClient(place.socket, _PLACE)))
    finally:
        for left in engine.left(folder.run):
            engine.remove(left)
        folder.remove()


async def _ask(agent: AgentClient) -> dict[str, str]:
    try:
        await agent.open()
        found: dict[str, str] = await agent.ask(do="cannot")
        return found
    finally:
        await agent.close()
