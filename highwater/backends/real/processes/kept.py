"""Clusters that stand for several runs: brokers are started once, and perform one plan after the other.

    plan ─▶ same brokers as before? cluster clean? ─yes─▶ run on it ─▶ files read while the brokers are frozen ─▶ topics deleted
                          └───────no──────▶ taken down, built anew ─▶ run

A run on such a cluster has topics of its own, and its history has no row of other runs (`share`).
The brokers are frozen (SIGSTOP) while their files are read, where those of another cluster are killed.
The cluster is clean if no link has a fault, all processes run, their directories are whole, each broker lists all of them, every
replica is in its ISR, and no transaction is open.
With `next_plans` several plans are performed on the cluster at a time (`together`).
A plan whose faults are not undone with the run (`Lasting.unshared`) gets a cluster of its own.

The proxies between the brokers belong to an asyncio loop, which runs in a thread of its own as long as the cluster stands.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from time import monotonic
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from highwater.backends.real.interrupts import held
from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.real.processes.site import ProcessSite
from highwater.backends.real.processes.together import fits, joint, parts
from highwater.backends.real.stage import Stage, perform
from highwater.backends.real.systems.kafka.quorum import delete
from highwater.backends.real.systems.metadata import transaction_open_at
from highwater.backends.real.systems.port import Lasting, LastingCluster, LastingNode, System
from highwater.backends.real.systems.registry import system_for
from highwater.errors import HarnessError
from highwater.exit_codes import WORDS, ExitCode
from highwater.plans.plan import Plan, plan_digest
from highwater.rig.backend import Provenance, Run
from highwater.rig.scene import Scene
from history.history import History
from workloads.registry import OF_SESSIONS

RUNS_MAX = 50  # on one cluster: its metadata log is read from its beginning after each run
CLEAN_S_MAX = 15.0  # until a cluster is clean; to build a new one takes about as long
LOOK_S = 0.3
_AWAKE_S = 0.2
_FIRST = "the first run"
T = TypeVar("T")


class Standing(Protocol):
    """A cluster that stands until it is closed."""

    def unfit(self, plan: Plan, system: System) -> str | None:
        """Why the plan cannot be performed on this cluster, in a few words; None if it can. Waits until the cluster is clean."""

    def perform(self, plan: Plan, provenance: Provenance, system: System, *, backend: str, scene: Scene | None = None) -> Run:
        """Perform a plan that fits; `scene` is of a plan that is several in one."""

    def close(self) -> None:
        """Take the cluster down and remove its files."""


class KeptBackend(ProcessBackend):
    """The process backend, whose cluster stands until a plan needs another one. Close it in the end.

    `built` counts why clusters were built, in words. A copy in another process has clusters of its own.
    """

    def __init__(
        self,
        make: Callable[[Plan], System] = system_for,
        build: "Callable[[Plan, System], Standing] | None" = None,
        *,
        next_plans: Callable[[Plan], Sequence[Plan]] | None = None,
    ) -> None:
        """`make` as in ProcessBackend; `build` makes a cluster for a first plan, which is built in its first run.

        `next_plans`: those that will be asked for after a plan, and may be performed together with it.
        """
        super().__init__(make)
        self._next_plans = next_plans
        self._performed: dict[str, History] = {}  # by digest of the plan: parts of joint runs that nobody has asked for yet
        self._apart: set[str] = set()  # digests of plans that must be performed without others
        self.built: Counter[str] = Counter()
        self._build = build or StandingCluster
        self._cluster: Standing | None = None
        self._ended = _FIRST  # why there is no cluster

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(KeptBackend, next_plans=self._next_plans), (self._make, self._build)

    def close(self) -> None:
        """Take the standing cluster down, if there is one."""
        if self._cluster is not None:
            with held():
                cluster, self._cluster = self._cluster, None
                cluster.close()

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Perform the plan on the standing cluster, or on a new one. A KeyboardInterrupt ends the run early, and the cluster."""
        held_back = self._performed.pop(provenance.plan_digest, None)
        if held_back is not None:
            return Run(history=_signed(held_back, provenance))
        system = self._make(plan)
        alone = system.unshared() if isinstance(system, Lasting) else f"{system.name} has brokers that perform one plan"
        if alone is not None:
            self._end(f"before was one for one run: {alone}")
            self.built[f"for one run: {alone}"] += 1
            return super().perform(plan, provenance)
        unfit = None if self._cluster is None else self._cluster.unfit(plan, system)
        if unfit is not None:
            self._end(unfit)
        if self._cluster is None:
            self.built[self._ended] += 1
        cluster = self._cluster = self._cluster or self._build(plan, system)
        ended = False
        try:
            run = self._perform_on(cluster, plan, provenance, system)
            ended = run.failure is None and run.history.manifest.outcome == "completed"
            return run
        finally:
            if not ended:
                self._end("the run before did not end")

    def _perform_on(self, cluster: "Standing", plan: Plan, provenance: Provenance, system: System) -> Run:
        """Perform a plan on a cluster, together with those of the next ones that fit it; their histories are kept."""
        others = [] if provenance.plan_digest in self._apart else self._others(plan, system)
        if not others:
            return cluster.perform(plan, provenance, system, backend=self.name)
        plans = joint((plan, *others))
        run = cluster.perform(plans.plan, provenance, self._make(plans.plan), backend=self.name, scene=plans.scene)
        own, *of_others = parts(run.history, plans)
        if run.failure is None and run.history.manifest.outcome == "completed":
            self._performed |= {plan_digest(other): history for other, history in zip(others, of_others, strict=True)}
        return Run(history=_signed(own, provenance), failure=run.failure)

    def _others(self, plan: Plan, system: System) -> list[Plan]:
        """Those of the next plans that can be performed together with this one."""
        assert isinstance(system, Lasting)
        others = []
        for other in self._next_plans(plan) if self._next_plans is not None else ():
            of_other = self._make(other)
            alike = isinstance(of_other, Lasting) and of_other.unshared() is None and of_other.brokers() == system.brokers()
            if alike and fits(plan, other) and self.refuse(other) is None and plan_digest(other) not in self._performed:
                others.append(other)
        return others

    def is_to_be_repeated(self, plan: Plan, code: ExitCode, *, shared: bool) -> bool:
        """Take in how the last run was judged, and say whether it must be performed again, on a cluster of its own.

        What is lost or wrong is the run's own. That something did not happen in time, or that the harness failed, may come from
        other runs of the cluster, where it was `shared`.
        """
        again = shared and code in (ExitCode.NOT_LIVE, ExitCode.LABORATORY_FAILED)
        if code is not ExitCode.VALID and code is not ExitCode.UNKNOWN:
            self._end(f"{plan.name}: {WORDS[code]}{', and performed again, alone' if again else ''}")
        self._apart.add(plan_digest(plan))
        return again

    def _end(self, reason: str) -> None:
        """Take the cluster down, if there is one, and remember why the next one is built."""
        if self._cluster is not None:
            self._ended = reason
            self.close()


class StandingCluster:
    """One cluster, and the thread with the loop of its proxies. It is the `Stay` of each of its runs."""

    def __init__(self, plan: Plan, system: System) -> None:
        assert isinstance(system, Lasting)
        self._brokers = system.brokers()
        self._site = ProcessSite(plan, system, lasting=True)
        self._runs = 0
        self._names: set[str] = set()  # of all topics so far
        self._transactional = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def unfit(self, plan: Plan, system: System) -> str | None:
        """Why the plan cannot be performed on this cluster, in a few words; None if it can. Waits until the cluster is clean."""
        assert isinstance(system, Lasting)
        if system.brokers() != self._brokers:
            return "other settings of brokers"
        if self._runs >= RUNS_MAX:
            return f"{RUNS_MAX} runs on one cluster"
        if self._names & _topics(plan):
            return "topics of an earlier run"
        unclean = self._run(self._unclean(plan, system))
        return None if unclean is None else f"not clean: {unclean}"

    def perform(self, plan: Plan, provenance: Provenance, system: System, *, backend: str, scene: Scene | None = None) -> Run:
        """Perform a plan that fits; afterwards its topics are deleted."""
        earlier, self._runs = self._runs, self._runs + 1
        self._names |= _topics(plan)
        self._transactional = self._transactional or plan.workload.name in OF_SESSIONS
        self._site.links.begin_run()
        run = perform(plan, provenance, self._site, system, backend=backend, stay=self, earlier_runs=earlier, scene=scene)
        if run.failure is None and run.history.manifest.outcome == "completed":
            delete(self._site.harness.values(), tuple(sorted(_topics(plan))))
        return run

    def close(self) -> None:
        """Take the cluster down and remove its files."""
        try:
            self._run(self._site.leave())
        finally:
            try:
                self._site.close()
            finally:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()

    # --- the stay of a run -------------------------------------------------------------------------------------------------

    def play(self, stage: Stage) -> None:
        """Perform all phases of the run; the cluster is built for the first one."""
        if not self._site.nodes:
            self._run(self._site.open())
        self._run(stage.perform_phases())

    def still(self) -> None:
        """Freeze all brokers."""
        self._run(self._freeze())

    def end(self) -> None:
        """Let the brokers go on."""
        self._run(self._thaw())

    async def _freeze(self) -> None:
        for node in self._site.nodes.values():
            await node.pause()

    async def _thaw(self) -> None:
        for node in self._site.nodes.values():
            await node.resume()

    async def _unclean(self, plan: Plan, system: System) -> str | None:
        """What an earlier run has left on the cluster after `CLEAN_S_MAX`, in a sentence; None if it is clean."""
        cluster = system.cluster(self._site.zookeeper, self._site.harness)
        assert isinstance(cluster, LastingCluster)
        began_s = monotonic()
        try:
            while True:
                reason = await self._left_over() or await cluster.unready(_topics(plan))
                if reason is None or monotonic() - began_s > CLEAN_S_MAX:
                    return reason
                await asyncio.sleep(LOOK_S)
        except HarnessError as error:
            return str(error)
        finally:
            cluster.close()

    async def _left_over(self) -> str | None:
        """What of an earlier run's faults and transactions is not over, in a sentence."""
        faulty = self._site.links.faulty()
        if faulty is not None:
            return f"the link from {faulty[0]} to {faulty[1]} has a fault"
        for node in self._site.nodes.values():
            if not await node.is_running():
                return f"{node.address} does not run"
            assert isinstance(node, LastingNode)
            broken = next((dir_ for dir_ in range(node.dirs) if not node.is_whole(dir_)), None)
            if broken is not None:
                return f"log directory {broken} of {node.address} is not whole"
        for address in self._site.harness.values() if self._transactional else ():
            reason = await asyncio.to_thread(transaction_open_at, address)
            if reason is not None:
                return reason
        return None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Perform a coroutine in the cluster's loop and wait for it. An interrupt cancels it, and is raised when it has ended."""
        ended = threading.Event()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # interrupted before it was handed to the loop
                work.close()
                ended.set()

        try:
            self._loop.call_soon_threadsafe(begin)
            while not ended.wait(_AWAKE_S):  # the kernel may give a signal to the other thread, which wakes nobody here
                pass
        except BaseException:
            self._loop.call_soon_threadsafe(cancel)
            ended.wait()
            raise
        return tasks[0].result()


def _signed(history: History, provenance: Provenance) -> History:
    """A part of a joint run as the run of its own plan."""
    facts = {name: getattr(provenance, name) for name in ("run_id", "plan_digest", "commit", "dirty", "versions")}
    manifest = replace(history.manifest, **facts)
    return History(manifest, operations=history.operations, events=history.events)


def _topics(plan: Plan) -> set[str]:
    """The names of a plan's topics."""
    return {topic.name for topic in plan.cluster.topics}
