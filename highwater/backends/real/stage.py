"""The phases of a run on real brokers: build the cluster, perform the plan on it, take it down.

    ZooKeeper ─▶ topics ─▶ brokers ─▶ faults (workload and schedule) ─▶ heal ─▶ quiet ─▶ audit ─▶ final reads ─▶ end

The history has the same rows as the simulator's. Operations and faults are recorded here as they happen; brokers' rows come from
their notes, ZooKeeper's from its transaction log; probes add what they saw of each fault. Times are real, so the same plan gives
a different history each time. The site is removed when the run ends, also after an error or an interrupt.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic_ns
from typing import Any, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.real.clients import libraries
from highwater.backends.real.clients.worker import Phases, Worker, ZooKeeperAdministrator
from highwater.backends.real.cluster_state import EndState, at_rest, znodes_of
from highwater.backends.real.evidence import ZooKeeperEvidence, recorded_notes, stamped, wall_ahead_ns, whole_until
from highwater.backends.real.faults import Faults
from highwater.backends.real.interrupts import held
from highwater.backends.real.load import CpuTime
from highwater.backends.real.merge import merged
from highwater.backends.real.orders import with_orders
from highwater.backends.real.scraper import Scraper
from highwater.backends.real.share import Share
from highwater.backends.real.site import CLIENTS, Life, Site
from highwater.backends.real.systems.port import Administered, Administrator, Client, Cluster, ColdClient, System, chronicle_of
from highwater.backends.real.zookeeper.admin import states_of
from highwater.errors import HarnessError
from highwater.plans.plan import Plan, beyond_reference, is_foreign, joining, system_of
from highwater.plans.systems import REFERENCE, words_of
from highwater.rig.attempts import Attempts
from highwater.rig.backend import Provenance, Run
from highwater.rig.commits import AnyCommit
from highwater.rig.end_state import log_rows
from highwater.rig.scene import Scene, manifest, scene_of
from highwater.run_folder import tmpdir_too_long
from history.digest import digest
from history.event import EventKind
from history.history import History
from history.manifest import Outcome, SystemFacts
from history.recorder import Recorder
from nemesis.targets import INTERNAL
from reference.events import DirImage
from reference.types import Address, BrokerId, topic_partition
from server.lab.notes import NoteLine

LED_S_MAX = 60.0  # five brokers in containers took over 30 s on two cores with other work
FULL_S_MAX = 10.0  # to wait for full ISRs; a known-bad protocol may never reach them
FINAL_S_MAX = 60.0
OPEN_S_MAX = 15.0  # to wait for operations in progress before the final reads
SLICE_S = 0.2  # between two checks for dead brokers


def unplayable(plan: Plan) -> str | None:
    """Why this plan cannot be performed on real brokers on this machine, in a sentence; None if it can."""
    if plan.workload.name in ("misuse", "everything"):
        return f"the workload {plan.workload.name!r} breaks rules that librdkafka cannot break; run it with --backend sim"
    if plan.metrics_ms is not UNSET and is_foreign(plan):
        return f"metrics_ms reads the metrics of the reference's brokers; {words_of(system_of(plan))} has others"
    if plan.cluster.zookeeper_write_ms is not UNSET:
        return "zookeeper_write_ms is of the simulated ZooKeeper: a real one takes its own time; run it with --backend sim"
    return beyond_reference(plan) or libraries.refusal(plan) or tmpdir_too_long()


def missing_library(plan: Plan) -> str | None:
    """What this machine lacks for the client library of the plan, in a sentence; None if nothing."""
    return libraries.missing(plan)


class Stay(Protocol):
    """How long the cluster of a run stands: for this run alone, or also for others before and after it (`kept`)."""

    def play(self, stage: "Stage") -> None:
        """Perform all phases of the run. HarnessError if the harness fails, KeyboardInterrupt after Ctrl-C."""

    def still(self) -> None:
        """Let no broker write any more, so that its files can be read. HarnessError on failure."""

    def end(self) -> None:
        """End the stay, after the files were read. HarnessError on failure."""


class OneRun:
    """A cluster that is built for one run and taken down after it."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def play(self, stage: "Stage") -> None:
        """Build the cluster and perform the run in an asyncio loop of its own."""
        asyncio.run(stage.play())

    def still(self) -> None:
        """Kill all brokers."""
        self._site.stop()

    def end(self) -> None:
        """Remove everything."""
        self._site.close()


def perform(
    plan: Plan,
    provenance: Provenance,
    site: Site,
    system: System,
    *,
    backend: str,
    stay: Stay | None = None,
    earlier_runs: int = 0,
    scene: Scene | None = None,
) -> Run:
    """Perform the plan on a cluster of real brokers and take it down. Ctrl-C ends the run early and keeps the rows so far.

    Once the run has ended, further Ctrl-C are held back until its history is made. With a `stay` the cluster stands for other
    runs, too, and `earlier_runs` of them are over. `scene` is of a plan that is several in one (`processes.together`).
    """
    logging.getLogger("kazoo").addHandler(logging.NullHandler())  # a lost ZooKeeper is a fault; rows report it, stderr need not
    outcome: Outcome = "completed"
    stage = Stage(scene or scene_of(plan), site, system, earlier_runs=None if stay is None else earlier_runs)
    stay = stay or OneRun(site)
    try:
        try:
            with stage.collecting_failures():
                stay.play(stage)
        except KeyboardInterrupt:
            outcome = "interrupted"
        # Failures and interrupts from here on must not lose the recorded rows: they may prove an anomaly.
        with held() as first:
            with stage.collecting_failures():
                stay.still()
            stage.read(outcome)
    finally:
        with held() as last, stage.collecting_failures():
            stay.end()
    with held() as late:
        history = stage.history(provenance, outcome, backend=backend)
    if not stage.failures and (first.pressed or last.pressed or late.pressed):
        history = _ending(history, "interrupted")
    return Run(history=history, failure=next(iter(stage.failures), None))


def _ending(history: History, outcome: Outcome) -> History:
    return History(replace(history.manifest, outcome=outcome), operations=history.operations, events=history.events)


class Stage:
    """One run on real brokers. Attributes in ns count from `_start_ns` and are None until that moment has come."""

    def __init__(self, scene: Scene, site: Site, system: System, *, earlier_runs: int | None = None) -> None:
        """`earlier_runs`: of a cluster that stands for several runs; None for one that is built for this run alone."""
        self._plan = plan = scene.plan
        self._earlier_runs = earlier_runs
        self._share = None if earlier_runs is None else Share.of(plan)
        self._scene = scene
        self._site = site
        self._system = system
        self._start_ns = monotonic_ns()
        self._wall_ahead_ns = wall_ahead_ns()
        self._recorder = Recorder(self._now_ns)
        self._faults: Faults | None = None
        self._healed_at_ns: int | None = None
        self._final_reads_at_ns: int | None = None
        self._end_ns: int | None = None
        self._slowed: float | None = None  # by other work on this machine, from healing to the end
        self._end_states: tuple[EndState, ...] = ()  # cluster state at the end of the run
        self._broken: str | None = None  # an error in a callback of the asyncio loop
        self._begun_ns = 0  # when all brokers had been started
        self._commits: list[AnyCommit] = []  # what is read when the brokers are still
        self._notes: list[list[NoteLine]] = []
        self._images: dict[BrokerId, tuple[DirImage, ...]] = {}
        self.failures: list[str] = []  # of the harness, as sentences

    @contextmanager
    def collecting_failures(self) -> Iterator[None]:
        """A context that ends at a HarnessError and adds its message to the run's `failures`."""
        try:
            yield
        except HarnessError as error:
            self.failures.append(str(error))

    def _now_ns(self) -> int:
        return monotonic_ns() - self._start_ns

    # --- phases ------------------------------------------------------------------------------------------------------------

    async def play(self) -> None:
        """Run all phases of the run. HarnessError if the harness fails; the rows recorded so far are kept."""
        try:
            await self._site.open()
            await self.perform_phases()
        finally:
            await self._site.leave()

    async def perform_phases(self) -> None:
        """Start the brokers, run clients and faults, heal, rest, and look at the cluster a last time."""
        asyncio.get_running_loop().set_exception_handler(self._callback_failed)
        cluster = self._system.cluster(self._site.zookeeper, self._site.harness)
        clients: list[Client] = []
        administrators: list[Administrator] = []
        try:
            faults = self._faults = Faults(self._plan, self._site, self._recorder, cluster)
            await self._start_brokers()
            await self._wait_for_brokers(cluster, faults)
            await cluster.create_topics(self._scene)
            await self._wait_for_leaders(cluster, faults)
            phases = Phases()
            performers = list(self._new_workers(clients, administrators))
            await asyncio.gather(*(client.open() for client in clients if isinstance(client, ColdClient)))
            await asyncio.gather(*(administrator.open() for administrator in administrators))
            async with asyncio.TaskGroup() as tasks:
                workers = [tasks.create_task(worker.run(phases)) for worker in performers]
                nemesis = tasks.create_task(faults.run())
                scraper = None if self._plan.metrics_ms is UNSET else Scraper(self._site, self._recorder, self._plan.metrics_ms)
                scraping = None if scraper is None else tasks.create_task(scraper.run())
                await self._sleep_and_watch(self._plan.faults_ms / 1000, faults)
                await nemesis  # every window closes within faults_ms
                await faults.heal()
                before = CpuTime.now()
                await self._pass_quiet_phase(faults, phases)
                await faults.settle()
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.gather(*workers, return_exceptions=True), FINAL_S_MAX)
                self._slowed = CpuTime.now().slowed_since(before)
                if scraper is not None and scraping is not None:
                    scraping.cancel()
                    await scraper.look(whole=True)
                self._end_states = await at_rest(partial(self._look, cluster))
        except* HarnessError as group:
            raise _first_harness_error(group) from None
        finally:
            self._end_ns = self._now_ns()
            await asyncio.gather(*(client.close() for client in clients))
            for administrator in administrators:
                await administrator.close()
            cluster.close()

    async def _start_brokers(self) -> None:
        """Start the brokers that are there at first; of a cluster that stands for several runs they run already."""
        later = joining(self._plan)
        for broker, node in self._site.nodes.items():
            if broker in later:
                continue
            runs = self._share is not None and await node.is_running()
            self._recorder.event(EventKind.NODE_STARTED, node=node.address, life=node.life if runs else node.life + 1)
            if not runs:
                await node.start()
        self._begun_ns = self._now_ns()

    async def _look(self, cluster: Cluster) -> EndState:
        """Read the final state of this run's topics once."""
        state = await cluster.look()
        return state if self._share is None else self._share.of_state(state)

    def _callback_failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Remember an error in a callback; asyncio alone would log it and continue with a broken client."""
        self._broken = f"{context['message']}: {context.get('exception')!r}"

    async def _pass_quiet_phase(self, faults: Faults, phases: Phases) -> None:
        """Let the quiet phase pass, then tell the consumers to read every partition to its end."""
        self._healed_at_ns = self._now_ns()
        phases.enter("quiet")
        await self._sleep_and_watch(self._plan.quiet_ms / 1000, faults)
        if self._plan.audit_ms:
            phases.enter("audit")
            await self._sleep_and_watch(self._plan.audit_ms / 1000, faults)
        await phases.stop(OPEN_S_MAX)  # the final readers are owed what is acknowledged before they ask for the ends
        self._recorder.event(EventKind.FINAL_READS)
        self._final_reads_at_ns = self._now_ns()
        phases.enter("final")

    async def _wait_for_brokers(self, cluster: Cluster, faults: Faults) -> None:
        """Wait until the brokers that are there at first serve and list each other.

        HarnessError if one stops or it takes too long.
        """
        count = len(self._site.nodes) - len(cluster.absent)
        began_ns = self._now_ns()
        while not await cluster.gathered():
            for node in self._site.nodes.values():
                if node.address not in cluster.absent and not await node.is_running():
                    raise HarnessError(f"{node.address} stopped before it served: {node.stopped_itself() or node.last_words()}")
            for server in self._site.servers:
                if not await server.is_running():
                    raise HarnessError(f"{server.address} stopped before the brokers served: {server.last_words()}")
            if self._now_ns() - began_ns > LED_S_MAX * 1e9:
                raise HarnessError(f"not every broker listed all {count} brokers within {LED_S_MAX:.0f} s")
            await self._sleep_and_watch(SLICE_S, faults)

    async def _wait_for_leaders(self, cluster: Cluster, faults: Faults) -> None:
        """Wait until every partition has a leader, and at most FULL_S_MAX until its ISR holds all replicas."""
        replicas = {
            topic_partition(topic, index): of
            for topic, partitions in self._scene.assignment.items()
            for index, of in enumerate(partitions)
        }
        began_ns = self._now_ns()
        while True:
            await self._sleep_and_watch(SLICE_S, faults)
            states = states_of(await cluster.seen(tuple(replicas)), tuple(replicas))
            waited_s = (self._now_ns() - began_ns) / 1e9
            all_led = all(tp in states and states[tp].leader is not None for tp in replicas)
            if all_led and (waited_s > FULL_S_MAX or all(len(states[tp].isr) == len(of) for tp, of in replicas.items())):
                return
            if waited_s > LED_S_MAX:
                raise HarnessError(f"not every partition had a leader {LED_S_MAX:.0f} s after the brokers were started")

    async def _sleep_and_watch(self, seconds: float, faults: Faults) -> None:
        """Sleep, and look for dead processes. A broker that noted why it stopped stays down; other deaths are HarnessErrors."""
        end_ns = self._now_ns() + int(seconds * 1e9)
        while (left_ns := end_ns - self._now_ns()) > 0:
            await asyncio.sleep(min(SLICE_S, left_ns / 1e9))
            if self._broken is not None:
                raise HarnessError(f"a callback in the harness's asyncio loop failed: {self._broken}")
            for broker, node in self._site.nodes.items():
                life = node.life
                if await node.is_running() or faults.keeps_down(broker) or node.life != life:
                    continue
                if node.stopped_itself() is None:
                    raise _died(node)
            for server in self._site.servers:
                if faults.keeps_server_down(server) or await server.is_running() or faults.keeps_server_down(server):
                    continue  # asked twice: a fault may have ended, or begun, while the process was looked for
                raise _died(server)

    def _new_workers(self, clients: list[Client], administrators: list[Administrator]) -> list[Worker]:
        """A worker for each process of the workload; its clients are added to the lists, so that they are closed."""
        processes = self._scene.processes
        timeout_ms = self._plan.cluster.session_timeout_ms
        for number, _ in enumerate(processes):
            name = Address(f"c{number}")
            place = self._site.clients[CLIENTS if len(self._site.clients) == 1 else self._scene.client_places[number]]
            clients.append(self._system.client(name, place))
            if isinstance(self._system, Administered):
                administrators.append(self._system.administrator(Address(f"a{number}"), place))
            else:
                administrators.append(ZooKeeperAdministrator(self._site.zookeeper, session_timeout_ms=timeout_ms))
        return [
            Worker(Attempts(self._recorder, process, number, processes=len(processes)), client, administrator)
            for number, (process, client, administrator) in enumerate(zip(processes, clients, administrators, strict=True))
        ]

    # --- the end -----------------------------------------------------------------------------------------------------------

    def read(self, outcome: Outcome) -> None:
        """Read what the run left on disks: commits, the brokers' reports, their logs. No broker may write meanwhile."""
        with self.collecting_failures():  # without commits the checkers find less, but the rest of the history is valid
            self._commits = [commit for commit in self._site.commits() if f"/{INTERNAL}" not in getattr(commit, "path", "")]
        nodes = self._site.nodes
        self._notes = [node.notes() for node in nodes.values()]
        if outcome == "completed" and not self.failures:
            self._images = {broker: node.disks() for broker, node in nodes.items()}
        if self._share is not None:
            ahead_ns = self._start_ns + self._wall_ahead_ns
            begun_ms = (self._begun_ns + ahead_ns) // 1_000_000 + 1
            self._commits = self._share.of_commits(self._commits, from_ms=ahead_ns // 1_000_000, begun_ms=begun_ms)
            self._notes = [self._share.of_notes(lines, from_ns=self._start_ns) for lines in self._notes]
            self._images = {broker: self._share.of_images(images) for broker, images in self._images.items()}

    def history(self, provenance: Provenance, outcome: Outcome, *, backend: str) -> History:
        """The history of the run: all recorded rows in one order. Call it after `read`."""
        commits = self._commits
        if isinstance(self._system, Administered):
            zero_ms = (self._start_ns + self._wall_ahead_ns) // 1_000_000
            commits = with_orders(commits, self._recorder.operations, zero_ms=zero_ms)
        outcome = "harness-fault" if self.failures else outcome
        end_ns = whole_until(
            commits,
            end_ns=self._now_ns() if self._end_ns is None else self._end_ns,
            start_ns=self._start_ns,
            wall_ahead_ns=self._wall_ahead_ns,
        )
        evidence = ZooKeeperEvidence(
            [line for lines in self._notes for line in lines],
            self._recorder.events,
            start_ns=self._start_ns,
            wall_ahead_ns=self._wall_ahead_ns,
        )
        for commit in commits:
            evidence.add(commit)
        if chronicle_of(self._system) is not None:
            until_ms = (end_ns + self._start_ns + self._wall_ahead_ns) // 1_000_000
            topics, states = znodes_of(commit for commit in commits if commit.time_ms <= until_ms)
            self._end_states = tuple(replace(end_state, topics=topics, states=states) for end_state in self._end_states)
        end_rows = Recorder(lambda: end_ns)
        for end_state in self._end_states:
            end_rows.record(end_state.rows())
        for broker, images in self._images.items():
            end_rows.record(log_rows(broker, images, noted="notes" in self._system.observes))
        sources = [
            self._recorder,
            evidence.recorder,
            *(recorded_notes(lines, start_ns=self._start_ns) for lines in self._notes),
            end_rows,
        ]
        operations, events = merged(sources, until_ns=end_ns)
        events = stamped(events)
        run_manifest = replace(
            manifest(self._scene, provenance, backend=backend, outcome=outcome),
            faults=() if self._faults is None else self._faults.counts(),
            decommissioned=UNSET if self._faults is None else self._faults.gone() or UNSET,
            system=facts_of(self._system),
            healed_at_ns=self._healed_at_ns,
            final_reads_at_ns=self._final_reads_at_ns,
            end_ns=end_ns,
            digest=digest(operations, events),
            sim_seconds=end_ns / 1e9,
            wall_seconds=end_ns / 1e9,
            slowed=self._slowed,
            earlier_runs=UNSET if self._earlier_runs is None else self._earlier_runs,
            events_handled=len(events),
        )
        return History(run_manifest, operations=operations, events=events)


def facts_of(system: System) -> SystemFacts | None:
    """The system as the manifest of a run names it; None for the reference."""
    if system.name == REFERENCE:
        return None
    observes = tuple(sorted(system.observes))
    return SystemFacts(name=system.name, version=system.version, files=dict(system.files), observes=observes)


def _died(process: Life) -> HarnessError:
    return HarnessError(f"the process of {process.address} died: {process.last_words() or 'it printed nothing'}")


def _first_harness_error(group: BaseExceptionGroup[HarnessError]) -> HarnessError:
    """Find the first HarnessError in an exception group, which may be nested."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, HarnessError)
    return error
