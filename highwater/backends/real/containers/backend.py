"""The docker backend: containers on this machine's Docker engine, with their own networks, real files and a real ZooKeeper."""

import asyncio
import os
from collections.abc import Callable

from msgspec.structs import replace

from highwater.backends.real.containers import images
from highwater.backends.real.containers.engine import Engine, missing
from highwater.backends.real.containers.links import AgentClient
from highwater.backends.real.containers.place import make_grounds, make_place
from highwater.backends.real.containers.site import ContainerSite
from highwater.backends.real.means import means
from highwater.backends.real.node.directories import MOUNT_NEEDS_ROOT
from highwater.backends.real.stage import missing_library, perform, unplayable
from highwater.backends.real.systems.port import System, controllers_of
from highwater.backends.real.systems.registry import system_for
from highwater.plans.plan import Plan, system_of
from highwater.plans.systems import words_of
from highwater.rig.backend import Provenance, Run
from highwater.run_folder import RunFolder
from nemesis.capability import refusals
from reference.types import Address

_PLACE = Address("b1")
_OF_AGENT = ("held", "loss_per_mille", "delay_ms", "reset")


class DockerBackend:
    """Performs plans in Docker containers, in real time; `name` is the backend's name on the command line."""

    name = "docker"

    def __init__(self, make: Callable[[Plan], System] = system_for) -> None:
        """`make` makes the system for a plan; a program may give its own in place of the systems that plans name."""
        self._make = make

    def refuse(self, plan: Plan) -> str | None:
        """Why this machine cannot perform the plan: a fault, the workload, the engine, the images or the kernel; else None."""
        system = self._make(plan)
        if system.packing is None:
            return f"{words_of(system_of(plan))} does not run in containers; run it with --backend process"
        if controllers_of(system):
            return f"{words_of(system_of(plan))}: controllers run apart from the brokers as processes only; --backend process"
        reason = unplayable(plan) or next(iter(refusals("docker", plan.schedule)), None) or system.refuse()
        reason = reason or missing_library(plan) or missing()
        if reason is not None:
            return reason
        with Engine() as engine:
            return images.missing(engine) or missing_for(engine, plan)

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Perform the plan in containers. A KeyboardInterrupt ends the run early and keeps the rows recorded so far."""
        plan = with_time_for_containers(plan)
        system = self._make(plan)
        return perform(plan, provenance, ContainerSite(plan, system), system, backend=self.name)


def with_time_for_containers(plan: Plan) -> Plan:
    """Change a plan for containers: a longer bound B (time to recover) and a longer quiet phase to match.

    docs/promise.md §6: B is 20 s longer in containers, because the engine takes time to create and start them.
    """
    promise = replace(plan.promise, containers=True)
    return replace(plan, promise=promise, quiet_ms=plan.quiet_ms + promise.bound_ms - plan.promise.bound_ms)


def missing_for(engine: Engine, plan: Plan) -> str | None:
    """What the kernel or the user of this machine lacks for a fault of this plan, in a sentence; None if nothing."""
    needs = [(window, means(window.fault)) for window in plan.schedule]
    # The kernel is tested in a container, which takes two seconds: only if a fault depends on the answer.
    cannot = _refused_by_agent(engine) if any(needed in _OF_AGENT for _, needed in needs) else {}
    for window, needed in needs:
        if needed in cannot:
            return f"window {window.id} ({window.kind}): this machine's kernel cannot apply the fault: {cannot[needed]}"
        if needed == "small-dirs" and os.geteuid():
            return f"window {window.id} ({window.kind}): {MOUNT_NEEDS_ROOT}"
    return None


def _refused_by_agent(engine: Engine) -> dict[str, str]:
    """What an agent in a container cannot do on this machine, with the reasons; the container is removed again."""
    folder = RunFolder()
    try:
        place = make_place(engine, make_grounds(engine, folder), _PLACE)
        return asyncio.run(_ask(AgentClient(place.socket, _PLACE)))
    finally:
        for leftover in engine.left(folder.run):
            engine.remove(leftover)
        folder.remove()


async def _ask(agent: AgentClient) -> dict[str, str]:
    try:
        await agent.open()
        reasons: dict[str, str] = await agent.ask(do="cannot")
        return reasons
    finally:
        await agent.close()
