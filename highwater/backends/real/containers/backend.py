"""Containers on the Docker engine of this machine as a backend: networks of their own, real disks, a real ZooKeeper."""

import asyncio
import os

from msgspec.structs import replace

from highwater.backends.real.containers import images
from highwater.backends.real.containers.engine import Engine, missing
from highwater.backends.real.containers.links import AgentClient
from highwater.backends.real.containers.place import make_grounds, make_place
from highwater.backends.real.containers.site import ContainerSite
from highwater.backends.real.run_folder import RunFolder
from highwater.backends.real.stage import perform, unplayable
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance, Run
from nemesis.capability import refusals
from nemesis.faults import AnyFault, Clog, DiskFull, Packets, Partition, Reset, Slow
from reference.types import Address

_PLACE = Address("b1")
_FEATURES = (((Partition, Clog), "held"), ((Packets,), "loss_per_mille"), ((Slow,), "delay_ms"), ((Reset,), "reset"))


class DockerBackend:
    """Performs plans in containers, in real time."""

    name = "docker"

    def refuse(self, plan: Plan) -> str | None:
        """What containers, clients or the kernel cannot do, no engine, or images that are not of this source."""
        reason = unplayable(plan) or next(iter(refusals("docker", plan.schedule)), None) or missing()
        if reason is not None:
            return reason
        with Engine() as engine:
            return images.missing(engine) or missing_for(engine, plan)

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Play the plan. A KeyboardInterrupt ends it early, with what was recorded."""
        plan = with_time_for_containers(plan)
        return perform(plan, provenance, ContainerSite(plan), backend=self.name)


def with_time_for_containers(plan: Plan) -> Plan:
    """docs/promise.md §6: an engine makes and starts containers, so B is 20 s longer for them, and the quiet time with it."""
    promise = replace(plan.promise, containers=True)
    return replace(plan, promise=promise, quiet_ms=plan.quiet_ms + promise.bound_ms - plan.promise.bound_ms)


def missing_for(engine: Engine, plan: Plan) -> str | None:
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
