"""Which runs share a cluster, and when a cluster is taken down. The clusters and the system are stand-ins."""

import asyncio
import pickle
import signal
import socketserver
import threading
from collections.abc import Iterator
from typing import cast

import pytest
from msgspec import UNSET, Struct
from msgspec.structs import replace

from highwater.backends.real.processes import kept
from highwater.backends.real.processes.kept import KeptBackend, StandingCluster
from highwater.backends.real.systems.kafka.system import Kafka
from highwater.backends.real.systems.metadata import BrokerMetadata, transaction_open_at, unwhole
from highwater.backends.real.systems.port import System
from highwater.campaigns import folder
from highwater.campaigns.campaign import Request
from highwater.errors import HarnessError
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan, on_system, plan_digest
from highwater.plans.scaled import own_topics
from highwater.plans.systems import parsed_system
from highwater.rig.backend import Backend, Provenance, Run
from highwater.rig.scene import Scene
from highwater.runs.provenance import Build
from highwater.runs.run import Judged, judge
from highwater.runs.summary import Summary, of_failure
from highwater.runs.workers import Task
from history.history import History
from nemesis.faults import AnyFault, Decommission, DiskFull, Join, PowerLoss, Roll
from nemesis.schedule import Window
from nemesis.targets import Named
from reference.messages import IsrMember, PartitionState
from reference.types import (
    NO_INCARNATION,
    Address,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
    broker_address,
)
from server.wire.entities import read_request, write_response
from server.wire.framing import encode_frame, encode_response_header, read_request_header
from tests.strategies import MANIFEST

REQUEST = Request(system="kafka:4.1.0", backend="process", settings="alike", seconds=8, workload="produce-consume")
PROVENANCE = Provenance(run_id="r", plan_digest="d")


class Cluster:
    """A cluster that performs nothing. `unclean`: what the last run leaves on it; `outcome`: how its runs end."""

    unclean: str | None = None
    outcome = "completed"

    def __init__(self, plan: Plan, system: System) -> None:
        self.plans = [plan.name]
        self.runs = 0
        self.closed = False
        self.key = cast(Kafka, system).brokers()

    def unfit(self, plan: Plan, system: System) -> str | None:
        return self.unclean or (None if cast(Kafka, system).brokers() == self.key else "other settings of brokers")

    def perform(self, plan: Plan, provenance: Provenance, system: System, *, backend: str, scene: Scene | None = None) -> Run:
        self.runs += 1
        if self.outcome == "interrupted":
            raise KeyboardInterrupt
        manifest = replace(MANIFEST, earlier_runs=self.runs - 1)
        failure = "it failed" if self.outcome == "failed" else None
        return Run(history=History(manifest, operations=(), events=()), failure=failure)

    def close(self) -> None:
        self.closed = True


class Kept(KeptBackend):
    """The backend with stand-ins for clusters, which it lists."""

    def __init__(self) -> None:
        self.clusters: list[Cluster] = []
        super().__init__(Kafka, self._new)

    def _new(self, plan: Plan, system: System) -> Cluster:
        self.clusters.append(Cluster(plan, system))
        return self.clusters[-1]

    def performs(self, *plans: Plan) -> list[int]:
        """How many earlier runs each plan's cluster had."""
        runs = [self.perform(plan, PROVENANCE).history.manifest.earlier_runs for plan in plans]
        return [0 if earlier is UNSET else earlier for earlier in runs]


def seed(number: int) -> Plan:
    return REQUEST.plan(number)


def test_plans_of_equal_brokers_share_a_cluster() -> None:
    kept = Kept()

    assert kept.performs(*map(seed, range(1, 5))) == [0, 1, 2, 3]
    assert len(kept.clusters) == 1


def test_plans_of_other_settings_get_a_new_cluster() -> None:
    kept = Kept()
    other = seed(2)
    slower = replace(other, cluster=replace(other.cluster, session_timeout_ms=9000))

    assert kept.performs(seed(1), slower) == [0, 0]
    assert [cluster.closed for cluster in kept.clusters] == [True, False]
    assert kept.built == {"the first run": 1, "other settings of brokers": 1}


def test_unclean_cluster_is_taken_down_before_the_next_run() -> None:
    kept = Kept()
    kept.performs(seed(1))
    kept.clusters[0].unclean = "not clean: b1 does not run"

    assert kept.performs(seed(2)) == [0]
    assert kept.clusters[0].closed
    assert kept.built["not clean: b1 does not run"] == 1


@pytest.mark.parametrize("outcome", ["failed", "interrupted"])
def test_cluster_of_a_run_that_did_not_end_is_taken_down(outcome: str) -> None:
    """Nobody knows what such a run has left."""
    kept = Kept()
    kept.performs(seed(1))
    kept.clusters[0].outcome = outcome
    try:
        kept.performs(seed(2))
    except KeyboardInterrupt:
        assert outcome == "interrupted"

    assert kept.clusters[0].closed


@pytest.mark.parametrize(
    ("code", "shared", "repeated"),
    [
        (ExitCode.VALID, True, False),
        (ExitCode.UNKNOWN, True, False),
        (ExitCode.INVALID, True, False),
        (ExitCode.NOT_LIVE, True, True),
        (ExitCode.LABORATORY_FAILED, True, True),
        (ExitCode.NOT_LIVE, False, False),
    ],
)
def test_run_that_other_runs_may_have_slowed_is_repeated(code: ExitCode, shared: bool, repeated: bool) -> None:
    """A loss is the run's own: its topics are new. Silence may come from what earlier runs left."""
    kept = Kept()
    kept.performs(seed(1))

    assert kept.is_to_be_repeated(seed(1), code, shared=shared) is repeated
    assert kept.clusters[0].closed is (code not in (ExitCode.VALID, ExitCode.UNKNOWN))


def test_repeated_run_that_is_not_live_again_ends_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run must not begin on it."""
    kept = Kept()
    kept.performs(seed(1))
    summary = replace(of_failure("p", seed=2, protocol="safe", backend="process", failure="", repeat=""), live=False)
    summary = replace(summary, verdict="VALID", outcome="completed")

    def attempt(task: Task, backend: Backend) -> tuple[Summary, Judged | None]:
        run = backend.perform(task.plan, PROVENANCE)
        return summary, Judged(plan=task.plan, history=run.history, verdict=judge(run.history), summary=summary)

    monkeypatch.setattr(folder, "attempt", attempt)
    task = Task(plan=seed(2), repeat="", build=Build(commit="", dirty=False, versions={}), backend="process")
    folder._attempt_on(kept, task)

    assert [(cluster.runs, cluster.closed) for cluster in kept.clusters] == [(2, True), (1, True)]


@pytest.mark.parametrize("fault", [PowerLoss(), Roll(), DiskFull(dir=0), Join(), Decommission()])
def test_fault_that_outlasts_its_run_is_refused_a_shared_cluster(fault: AnyFault) -> None:
    plan = seed(1)
    window = Window(id="w", kind="k", at_ms=0, until_ms=9, fault=fault, target=Named(brokers=(1,)))

    assert (Kafka(replace(plan, schedule=(window,))).unshared() or "").startswith("window w (k)")
    assert Kafka(replace(plan, schedule=())).unshared() is None
    apart = on_system(plan, parsed_system("kafka:4.1.0-apart3"))
    assert (Kafka(replace(apart, schedule=())).unshared() or "").startswith("controllers that run apart")


def test_copy_in_another_process_has_no_cluster() -> None:
    """A worker process gets the backend by pickling, and builds its own cluster."""
    kept = KeptBackend()
    kept.built["the first run"] += 1

    assert not pickle.loads(pickle.dumps(kept)).built


# --- plans and clusters that fit each other --------------------------------------------------------------------------------


def test_seeds_with_alike_settings_have_topics_of_their_own() -> None:
    first, second = seed(1), seed(2)

    assert Kafka(first).brokers() == Kafka(second).brokers()
    assert not {topic.name for topic in first.cluster.topics} & {topic.name for topic in second.cluster.topics}
    assert {topic.topic for topic in first.promise.topics} == {topic.name for topic in first.cluster.topics}


def test_plan_that_takes_over_topics_renames_them() -> None:
    """An edited plan must not write to the topics of its parent."""
    edited = own_topics(replace(seed(1), name="guided-1-7"))

    assert all(topic.name.startswith("guided-1-7.") and topic.name.count(".") == 1 for topic in edited.cluster.topics)


def _state(isr: tuple[int, ...]) -> PartitionState:
    members = tuple(IsrMember(BrokerId(broker), NO_INCARNATION) for broker in isr)
    replicas = (BrokerId(1), BrokerId(2))
    return PartitionState(
        TopicPartition("t-0"), BrokerId(1), NO_INCARNATION, LeaderEpoch(0), members, ControllerEpoch(0), ZkVersion(0), replicas
    )


def _told(brokers: tuple[int, ...], isr: tuple[int, ...]) -> dict[Address, BrokerMetadata | None]:
    listed = {broker: ("localhost", 9000 + broker) for broker in brokers}
    metadata = BrokerMetadata(brokers=listed, controller=None, partitions=(_state(isr),))
    return {broker_address(BrokerId(1)): metadata, broker_address(BrokerId(2)): metadata}


@pytest.mark.parametrize(
    ("told", "free", "reason"),
    [
        (_told((1, 2), (1, 2)), {"u"}, None),
        (_told((1, 2), (1, 2)), {"t"}, "topic t exists"),
        (_told((1, 2), (1,)), {"u"}, "b1 tells that t-0 has 1 of 2 replicas in its ISR"),
        (_told((1,), (1, 2)), {"u"}, "b1 lists 1 of 2 brokers"),
        ({**_told((1, 2), (1, 2)), Address("b2"): None}, {"u"}, "b2 does not answer"),
    ],
)
def test_cluster_is_whole_when_all_brokers_tell_so(
    told: dict[Address, BrokerMetadata | None], free: set[str], reason: str | None
) -> None:
    assert unwhole(told, free) == reason


# --- plans that share a cluster at a time ----------------------------------------------------------------------------------


class Together(Kept):
    """The backend that performs three seeds at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._next_plans = lambda plan: [seed((plan.seed or 0) + 1), seed((plan.seed or 0) + 2)]

    def performs_by_digest(self, *plans: Plan) -> list[Run]:
        return [self.perform(plan, replace(PROVENANCE, plan_digest=plan_digest(plan))) for plan in plans]


def test_plans_that_share_a_cluster_are_performed_once() -> None:
    kept = Together()

    runs = kept.performs_by_digest(*map(seed, range(1, 7)))

    assert kept.clusters[0].runs == 2
    assert [run.history.manifest.beside for run in runs[:2]] == [("seed-2", "seed-3"), ("seed-1", "seed-3")]
    assert [run.history.manifest.plan_digest for run in runs] == [plan_digest(seed(number)) for number in range(1, 7)]


def test_run_that_is_repeated_has_the_cluster_for_itself() -> None:
    kept = Together()
    kept.performs_by_digest(seed(1))

    assert kept.is_to_be_repeated(seed(1), ExitCode.NOT_LIVE, shared=True)
    (run,) = kept.performs_by_digest(seed(1))
    assert (run.history.manifest.beside, run.history.manifest.earlier_runs) == (UNSET, 0)
    assert kept.built["seed-1: not live, and performed again, alone"] == 1  # the first verdict is told, too


def test_joint_run_that_failed_keeps_no_history_of_the_others() -> None:
    kept = Together()
    kept.performs_by_digest(*map(seed, range(1, 4)))
    kept.clusters[0].outcome = "failed"

    failed, again = kept.performs_by_digest(seed(4), seed(5))
    assert (failed.failure, again.failure) == ("it failed", None)
    assert [cluster.runs for cluster in kept.clusters] == [2, 1]


class _Version(Struct, frozen=True, kw_only=True):
    api_key: int = 66
    min_version: int = 0
    max_version: int = 1


class _Versions(Struct, frozen=True, kw_only=True):
    error_code: int = 0
    api_keys: tuple[_Version, ...] = (_Version(),)


class _Asked(Struct, frozen=True, kw_only=True):
    state_filters: tuple[str, ...]


class _Open(Struct, frozen=True, kw_only=True):
    transactional_id: str


class _Listed(Struct, frozen=True, kw_only=True):
    error_code: int = 0
    transaction_states: tuple[_Open, ...]


class Coordinator(socketserver.BaseRequestHandler):
    """A broker that says which versions it serves, and which transactions are open."""

    open: tuple[_Open, ...] = ()

    def handle(self) -> None:
        """Answer one request."""
        stream = self.request.makefile("rb")
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
        header, at = read_request_header(frame)
        body: Struct = _Versions()
        if header.api_key == 66:
            asked = read_request(66, header.api_version, _Asked, frame, at)
            body = _Listed(transaction_states=self.open if "Ongoing" in asked.state_filters else ())
        answer = encode_response_header(header.api_key, header.api_version, header.correlation)
        self.request.sendall(encode_frame(answer, *write_response(header.api_key, header.api_version, body)))


@pytest.mark.parametrize(("ids", "reason"), [((), None), (("t1",), "transaction t1 is open")])
def test_open_transaction_of_an_earlier_run_is_found(ids: tuple[str, ...], reason: str | None) -> None:
    handler = type("Handler", (Coordinator,), {"open": tuple(_Open(transactional_id=each) for each in ids)})
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        told = transaction_open_at(("127.0.0.1", server.server_address[1]))
        server.shutdown()
        thread.join()

    assert told == reason


def test_broker_that_does_not_tell_its_transactions_is_not_clean() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), Coordinator) as server:
        port = server.server_address[1]

    assert "does not say which transactions are open" in (transaction_open_at(("127.0.0.1", port)) or "")


# --- the loop of a standing cluster ----------------------------------------------------------------------------------------


@pytest.fixture
def standing() -> Iterator[StandingCluster]:
    """A cluster that was never built."""
    plan = seed(1)
    cluster = StandingCluster(plan, Kafka(plan))
    yield cluster
    cluster.close()


def test_interrupt_ends_the_run_on_a_standing_cluster_in_order(standing: StandingCluster) -> None:
    """The run ends its clients before the brokers' files are read."""
    ended: list[str] = []

    async def run() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append("clients")

    with pytest.raises(KeyboardInterrupt):
        standing._run(run())
    assert ended == ["clients"]


def test_failure_on_a_standing_cluster_is_raised(standing: StandingCluster) -> None:
    async def run() -> None:
        raise HarnessError("no leader")

    with pytest.raises(HarnessError, match="no leader"):
        standing._run(run())


def test_standing_cluster_says_why_a_plan_does_not_fit_it(standing: StandingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of an earlier run would be read as the next one's, where both have topics of one name."""
    whole = History(MANIFEST, operations=(), events=())
    monkeypatch.setattr(kept, "perform", lambda *_, **__: Run(history=whole, failure="it failed"))
    first, other = seed(1), replace(seed(2), cluster=replace(seed(2).cluster, brokers=4))
    standing.perform(first, PROVENANCE, Kafka(first), backend="process")

    assert standing.unfit(first, Kafka(first)) == "topics of an earlier run"
    assert standing.unfit(other, Kafka(other)) == "other settings of brokers"
    monkeypatch.setattr(kept, "RUNS_MAX", 1)
    assert standing.unfit(seed(2), Kafka(seed(2))) == "1 runs on one cluster"
