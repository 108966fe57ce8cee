"""The simulator as a backend: one process, virtual time, the same history for the same plan."""

from collections.abc import Callable
from time import perf_counter

from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.sim.node import Boot
from highwater.backends.sim.transport import is_sent
from highwater.backends.sim.world import TooManyEvents, World
from highwater.plans.plan import Plan, beyond_reference, is_foreign, names_releases, system_of
from highwater.plans.systems import words_of
from highwater.rig.backend import Provenance, Run
from highwater.rig.releases import unfit
from highwater.rig.scene import manifest, scene_of
from history.digest import digest
from history.manifest import Outcome
from nemesis.capability import refusals
from nemesis.faults import kinds_of
from reference.node import Node


def _kind_never_sent(plan: Plan) -> str | None:
    """Which kind of message a fault names that no simulated process sends, in a sentence; None if there is none."""
    for window in plan.schedule:
        for kind in kinds_of(window.fault):
            if not is_sent(kind):
                return f"window {window.id} ({window.kind}): the sim backend cannot: its processes do not send {kind}"
    return None


class SimBackend:
    """Performs plans in virtual time. `boot` creates the broker machine of a node; `watch` is given each world before its run."""

    name = "sim"

    def __init__(self, boot: Boot = Node.boot, watch: Callable[[World], None] = lambda world: None) -> None:
        self._boot = boot
        self._watch = watch

    def refuse(self, plan: Plan) -> str | None:
        """Why the simulator cannot perform this plan; None if it can."""
        if is_foreign(plan):
            return f"the simulator runs the reference only, not {words_of(system_of(plan))}; run it with --backend process"
        if plan.workload.client is not UNSET:
            return f"the simulator has clients of its own, not {plan.workload.client}; run it with --backend process"
        rolls_wrongly = unfit(plan) if names_releases(plan) else None
        return (
            beyond_reference(plan) or rolls_wrongly or next(iter(refusals("sim", plan.schedule)), None) or _kind_never_sent(plan)
        )

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Simulate the plan and record its history.

        A KeyboardInterrupt or the plan's bound ends it early; recorded rows are kept.
        """
        start = perf_counter()
        scene = scene_of(plan)
        outcome: Outcome = "completed"
        facts = manifest(scene, provenance, backend=self.name, outcome=outcome)
        world = World(scene, self._boot)
        self._watch(world)
        failure = None
        try:
            world.play()
        except KeyboardInterrupt:
            outcome = "interrupted"
        except TooManyEvents as error:
            outcome = "harness-fault"
            failure = str(error)
        recorder, now_ns = world.sim.recorder, world.sim.scheduler.now
        run_manifest = replace(
            facts,
            outcome=outcome,
            faults=world.faults.counts(),
            decommissioned=world.faults.gone() or UNSET,
            healed_at_ns=world.healed_at_ns,
            final_reads_at_ns=world.final_reads_at_ns,
            end_ns=now_ns,
            messages=world.sim.transport.traffic.counts(),
            digest=digest(recorder.operations, recorder.events),
            sim_seconds=now_ns / 1e9,
            wall_seconds=perf_counter() - start,
            events_handled=world.sim.handled,
        )
        return Run(history=recorder.history(run_manifest), failure=failure)
