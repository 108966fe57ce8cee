"""produce-consume against a fake log: the claims of its module docstring."""

from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from history.op import OpType
from workloads.client import Completion, Done, Invocation, Phase, PolledRecord, Process, Sleep
from workloads.generate import generate
from workloads.parameters import Parameters, PartitionName
from workloads.produce_consume import BEYOND, FINAL_ATTEMPTS_MAX, FINAL_BACKOFF_MS

PHASES: tuple[Phase, ...] = ("faults", "quiet", "final")
PARTITIONS = (PartitionName("orders", 0), PartitionName("orders", 1), PartitionName("events", 0))
Ended = tuple[int, Phase, int, Invocation, Completion]


class FakeCluster:
    """A log for each partition that answers at once; `fails` says with which error, before it acts."""

    def __init__(self, fails: Callable[[Invocation], str | None] = lambda invocation: None) -> None:
        self.logs: dict[tuple[str, int], list[str]] = {}
        self._fails = fails

    def perform(self, invocation: Invocation) -> Completion:
        log = self.logs.setdefault((invocation.topic, invocation.partition), [])
        error = self._fails(invocation)
        if error is not None:
            return Completion(type=OpType.INFO if invocation.f == "produce" else OpType.FAIL, error=error)
        match invocation.f:
            case "produce":
                log.extend(invocation.values)
                return Completion(type=OpType.OK, offset=len(log) - len(invocation.values))
            case "poll":
                records_there = list(enumerate(log))[invocation.offset : invocation.offset + invocation.max_records]
                return Completion(
                    type=OpType.OK, records=tuple(PolledRecord(offset=o, value=v, leader_epoch=1) for o, v in records_there)
                )
            case "earliest":
                return Completion(type=OpType.OK, offset=0)
            case "latest":
                return Completion(type=OpType.OK, offset=len(log))
            case _:
                raise AssertionError(invocation)


def perform(processes: tuple[Process, ...], cluster: FakeCluster, *, phase_ms: int = 5000, call_ms: int = 7) -> list[Ended]:
    """Run the phases in virtual time, each process sequential; the final phase until everybody is done."""
    ended: list[Ended] = []
    start_ms = 0
    for phase in PHASES:
        end_ms = start_ms + (phase_ms if phase != "final" else 10**9)
        for number, process in enumerate(processes):
            ended += [(number, phase, at, i, c) for at, i, c in perform_one(process, cluster, phase, (start_ms, end_ms, call_ms))]
        start_ms += phase_ms
    return ended


def perform_one(
    process: Process, cluster: FakeCluster, phase: Phase, times: tuple[int, int, int]
) -> list[tuple[int, Invocation, Completion]]:
    now_ms, end_ms, call_ms = times
    ended: list[tuple[int, Invocation, Completion]] = []
    while now_ms < end_ms:
        match process.next(now_ms=now_ms, phase=phase):
            case Done():
                return ended
            case Sleep(ms=ms):
                assert ms > 0
                now_ms += ms
            case Invocation() as invocation:
                completion = cluster.perform(invocation)
                process.completed(invocation, completion)
                ended.append((now_ms, invocation, completion))
                now_ms += call_ms
    assert phase != "final"
    return ended


parameters = st.builds(
    Parameters,
    partitions=st.sampled_from([PARTITIONS[:1], PARTITIONS[:2], PARTITIONS]),
    producers=st.integers(1, 4),
    consumers=st.integers(0, 3),
    final_readers=st.integers(1, 4),
    produce_per_s=st.integers(1, 60),
    records_per_produce=st.integers(1, 3),
    acks=st.sampled_from([(-1,), (0, 1, -1)]),
    poll_interval_ms=st.integers(1, 400),
)


@settings(max_examples=25, deadline=None)
@given(draws=st.integers(0, 2**64 - 1), parameters=parameters)
def test_final_readers_read_every_unique_value(draws: int, parameters: Parameters) -> None:
    cluster = FakeCluster()

    ended = perform(generate("produce-consume", draws, parameters), cluster)

    count_of_value = Counter(value for _, _, _, invocation, _ in ended for value in invocation.values)
    assert set(count_of_value.values()) <= {1}
    finally_read: dict[tuple[str, int], list[str]] = {key: [] for key in cluster.logs}
    for _, phase, _, invocation, completion in ended:
        if phase == "final":
            finally_read[(invocation.topic, invocation.partition)] += [record.value for record in completion.records]
    assert cluster.logs == finally_read


@settings(max_examples=25, deadline=None)
@given(draws=st.integers(0, 2**64 - 1), parameters=parameters)
def test_final_phase_produces_acks_all_to_every_partition(draws: int, parameters: Parameters) -> None:
    """These writes show that the cluster accepts writes again (docs/promise.md LIVE-2)."""
    ended = perform(generate("produce-consume", draws, parameters), FakeCluster())

    written = {
        PartitionName(i.topic, i.partition)
        for _, phase, _, i, _ in ended
        if phase == "quiet" and i.f == "produce" and i.acks == -1
    }
    assert written == set(parameters.partitions)


@settings(max_examples=25, deadline=None)
@given(draws=st.integers(0, 2**64 - 1), parameters=parameters)
def test_consumers_read_from_offset_to_offset(draws: int, parameters: Parameters) -> None:
    """Without a fault a consumer sees each record of a partition once and in order."""
    ended = perform(generate("produce-consume", draws, parameters), FakeCluster())

    positions: Counter[tuple[int, str, int]] = Counter()
    for number, phase, _, invocation, completion in ended:
        if phase == "final" or invocation.f != "poll":
            continue
        key = (number, invocation.topic, invocation.partition)
        assert invocation.offset == positions[key]
        positions[key] += len(completion.records)


@given(draws=st.integers(0, 2**64 - 1))
def test_produce_rate_is_of_all_producers_together(draws: int) -> None:
    """60 s at 50 per second are about 3000 produces; drawn gaps vary."""
    chosen = Parameters(partitions=PARTITIONS, producers=5, consumers=0, produce_per_s=50)
    processes = generate("produce-consume", draws, chosen)[:5]

    produced = sum(len(perform_one(process, FakeCluster(), "faults", (0, 60_000, 3))) for process in processes)

    assert 2900 <= produced <= 3100


def test_delayed_producer_does_not_catch_up() -> None:
    """A burst after each outage would exceed the configured rate."""
    (producer, *_) = generate("produce-consume", 1, Parameters(partitions=PARTITIONS, producers=1, produce_per_s=10))

    slow = perform_one(producer, FakeCluster(), "faults", (0, 10_000, 2000))
    after = perform_one(producer, FakeCluster(), "faults", (10_000, 11_000, 1))

    assert len(slow) == 5
    assert len(after) <= 20


def test_random_draws_of_a_client_do_not_affect_others() -> None:
    """Removing a consumer or delaying a call does not change the k-th choice of a producer."""
    full = generate("produce-consume", 7, Parameters(partitions=PARTITIONS, producers=2, consumers=3, acks=(0, 1, -1)))
    fewer = generate("produce-consume", 7, Parameters(partitions=PARTITIONS, producers=2, consumers=0, acks=(0, 1, -1)))

    invocations = [i for _, i, _ in perform_one(full[0], FakeCluster(), "faults", (0, 20_000, 1))]
    perform_one(full[1], FakeCluster(), "faults", (0, 20_000, 1))
    perform_one(fewer[1], FakeCluster(), "faults", (0, 20_000, 300))
    with_fewer_clients = [i for _, i, _ in perform_one(fewer[0], FakeCluster(), "faults", (0, 20_000, 300))]

    assert len(with_fewer_clients) > 30
    assert invocations[: len(with_fewer_clients)] == with_fewer_clients


def test_other_random_draws_give_other_client_operations() -> None:
    process, second_process = (generate("produce-consume", draws, Parameters(partitions=PARTITIONS))[0] for draws in (1, 2))

    assert perform_one(process, FakeCluster(), "faults", (0, 5000, 1)) != perform_one(
        second_process, FakeCluster(), "faults", (0, 5000, 1)
    )


def test_out_of_range_consumer_restarts_at_the_beginning() -> None:
    """A jump to the end would skip the records that the log has now."""
    errors: list[str | None] = [None]
    cluster = FakeCluster(lambda invocation: errors[0])
    cluster.logs["orders", 0] = ["a", "b"]
    (_, consumer, _) = generate(
        "produce-consume", 3, Parameters(partitions=PARTITIONS[:1], producers=1, consumers=1, final_readers=1)
    )

    perform_one(consumer, cluster, "faults", (0, 2000, 1))
    errors[0] = "NOT_LEADER_OR_FOLLOWER"
    refused = perform_one(consumer, cluster, "faults", (2000, 4000, 1))
    errors[0] = "OFFSET_OUT_OF_RANGE"
    outside = perform_one(consumer, cluster, "faults", (4000, 8000, 1))

    assert {i.offset for _, i, _ in refused if i.f == "poll"} == {2}
    reads = [(i.f, i.offset) for _, i, _ in outside if i.f != "latest"]
    assert reads[0] == ("poll", 2)
    assert {f for f, _ in reads[1:]} == {"earliest"}
    errors[0] = None
    assert next(i.offset for _, i, _ in perform_one(consumer, cluster, "faults", (8000, 9000, 1)) if i.f == "poll") == 0


def test_consumer_seeks_to_log_start_end_back_and_beyond_end() -> None:
    """R-036, R-136: the beginning, the end, an earlier offset, and an offset behind the end, after which it restarts."""
    cluster = FakeCluster()
    cluster.logs["orders", 0] = ["a", "b", "c", "d"]
    chosen = Parameters(partitions=PARTITIONS[:1], producers=1, consumers=1, final_readers=1, seek_one_in=2)
    (_, consumer, _) = generate("produce-consume", 3, chosen)

    reads = [(i.f, i.offset if i.f == "poll" else None) for _, i, _ in perform_one(consumer, cluster, "faults", (0, 60_000, 1))]

    offsets = {offset for f, offset in reads if f == "poll" and offset is not None}
    assert offsets >= {0, 4, 4 + BEYOND}
    assert offsets & {1, 2, 3}
    follows = [after for before, after in pairwise(reads) if before[0] == "earliest"]
    assert ("poll", 0) in follows


def test_final_reader_gives_up_only_unanswered_partitions() -> None:
    """The reader must end, and offline partitions must not keep it from reading the others."""
    cluster = FakeCluster(lambda invocation: "LEADER_NOT_AVAILABLE" if invocation.topic == "orders" else None)
    cluster.logs = {("orders", 0): ["a"], ("orders", 1): ["b"], ("events", 0): ["c"]}
    *_, reader = generate("produce-consume", 3, Parameters(partitions=PARTITIONS, final_readers=1))

    ended = perform_one(reader, cluster, "final", (0, 10**9, 2000))

    assert [r.value for _, _, c in ended for r in c.records] == ["c"]
    assert sum(c.type is OpType.FAIL for _, _, c in ended) == 2 * FINAL_ATTEMPTS_MAX


def test_final_reader_retries_unanswered_partitions_last() -> None:
    """docs/promise.md SILENT-2, LIVE-3: questions that nobody answers must not use up the time in which the others are to be
    read.
    """
    cluster = FakeCluster(lambda invocation: "LEADER_NOT_AVAILABLE" if invocation.topic == "orders" else None)
    cluster.logs = {("orders", 0): ["a"], ("orders", 1): ["b"], ("events", 0): ["c"]}
    *_, reader = generate("produce-consume", 3, Parameters(partitions=PARTITIONS, final_readers=1))

    reads = [(i.topic, i.partition) for _, i, _ in perform_one(reader, cluster, "final", (0, 10**9, 2000))]

    assert reads[:6] == [("orders", 0), ("orders", 1), ("events", 0), ("events", 0), ("orders", 0), ("orders", 1)]


def test_final_reader_backs_off_and_gives_up_without_progress() -> None:
    """Three of four calls fail in total, more than the limit of consecutive ones without progress."""
    calls = count()
    cluster = FakeCluster(lambda invocation: "REQUEST_TIMED_OUT" if next(calls) % 4 else None)
    cluster.logs = {("orders", 0): [f"v{k}" for k in range(5000)]}
    *_, reader = generate("produce-consume", 3, Parameters(partitions=PARTITIONS[:1], final_readers=1))

    ended = perform_one(reader, cluster, "final", (0, 10**9, 5))

    assert [r.value for _, _, c in ended for r in c.records] == cluster.logs["orders", 0]
    gaps_ms = {after - at for (at, _, c), (after, _, _) in pairwise(ended) if c.type is OpType.FAIL}
    assert gaps_ms == {5 + FINAL_BACKOFF_MS}
