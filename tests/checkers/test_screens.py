"""Verdicts with and without screens are equal, for any history: anomalies, witnesses and counts."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.histories import log_tables
from checkers.engine.checker import Checker
from checkers.engine.columns import NAMES, columns_of
from checkers.engine.facts import facts_of
from checkers.engine.groups import PARTITION
from checkers.engine.tables import Events
from checkers.engine.verdict import Verdict
from checkers.judge import judge
from checkers.registry import ALL
from history import store
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from history.seed import Rng
from proof.manifests import manifest, promise
from tests.checkers.corpus import RUNS
from tests.checkers.corpus import history as stored
from tests.checkers.story import HistoryBuilder
from tests.checkers.toy import Toy

SCREENED = tuple(checker for checker in ALL if checker.screen is not None)
OF_PARTITIONS = tuple(checker for checker in ALL if checker.group_by == PARTITION)
NEVER = 1 << 60
seeds = st.integers(0, 2**32)


def assert_screens_change_nothing(history: History, checkers: tuple[Checker, ...] = OF_PARTITIONS) -> Verdict:
    walked = judge(history, checkers, screened_min=NEVER)
    assert judge(history, checkers, screened_min=0) == walked
    return walked


def good_history(rows: int, seed: int = 1) -> History:
    operations, events, manifest_told = log_tables(rows, seed=seed)
    return History.from_tables(manifest_told, operations=operations, events=events)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RUNS))
def test_fast_prechecks_keep_the_verdicts_of_the_corpus(name: str) -> None:
    assert_screens_change_nothing(stored(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RUNS))
def test_fast_prechecks_keep_verdicts_without_broker_events(name: str) -> None:
    """Screens pass only partitions without events: here all are."""
    history = stored(name)
    assert_screens_change_nothing(History(history.manifest, operations=history.operations))


def test_fast_prechecks_skip_each_partition_of_a_good_history() -> None:
    """Otherwise the tests of this module would compare the walk with itself."""
    history = good_history(4000)
    columns = columns_of(history.operations_of(NAMES))
    assert columns is not None

    assert not columns.odd.any()
    for checker in SCREENED:
        assert checker.screen is not None
        assert not checker.screen(columns, Events(history.events_frame), facts_of(history.manifest)).suspect.any(), checker.name


@pytest.mark.slow
@given(seed=seeds, partitions=st.integers(1, 3), events=st.booleans())
def test_fast_prechecks_keep_the_verdicts_of_small_logs(seed: int, partitions: int, events: bool) -> None:
    history = Toy(Rng(seed), partitions=partitions, m=1).run(150, breaks=12)
    assert_screens_change_nothing(history if events else History(history.manifest, operations=history.operations))


_VALUES = st.sampled_from([None, "a", "b", "c", "d"])
_OFFSETS = st.sampled_from([None, None, 0, 1, 2, 3, 7, -2, 1 << 60])


@st.composite
def scribbles(draw: st.DrawFn) -> History:
    """Any rows over few processes, values and offsets: nearly every anomaly occurs."""
    operations = []
    for index in range(draw(st.integers(1, 14))):
        process, partition = draw(st.integers(0, 2)), draw(st.sampled_from([0, 0, 0, 1]))
        f, kind = draw(st.sampled_from(["produce", "poll"])), draw(st.sampled_from([*OpType, OpType.INVOKE, OpType.OK]))
        acks, once = draw(st.sampled_from([-1, -1, 1, None])), draw(st.booleans())
        operations += [
            Operation(
                index=index, slot=slot, process=process, type=kind, f=f, topic="orders", partition=partition,
                topic_id=draw(st.sampled_from([None] * 8 + ["1", "2"])),
                value=draw(_VALUES), offset=draw(_OFFSETS), acks=acks, delivery="once" if once else None,
                leader_epoch=0, time_ns=index,
            )
            for slot in range(draw(st.integers(1, 3)))
        ]  # fmt: skip
    return History(manifest(promise()), operations=operations)


@pytest.mark.slow
@given(scribbles())
def test_fast_prechecks_keep_the_verdicts_of_random_rows(history: History) -> None:
    assert_screens_change_nothing(history)


@st.composite
def conversations(draw: st.DrawFn) -> History:
    """Paired calls with few values and offsets: regular, so that screens apply."""
    operations: list[Operation] = []
    waiting: dict[int, list[Operation]] = {}
    for index in range(draw(st.integers(2, 20))):
        process = draw(st.integers(0, 3))
        invoked_rows = waiting.pop(process, None)
        if invoked_rows is None:
            f = draw(st.sampled_from(["produce", "poll"]))
            rows = [
                Operation(
                    index=index, slot=slot, process=process, type=OpType.INVOKE, f=f, topic="orders",
                    partition=draw(st.sampled_from([0, 0, 0, 1])) if not slot else 0, time_ns=index,
                    value=f"v{draw(st.integers(0, 8))}" if f == "produce" else None,
                    offset=draw(_OFFSETS) if f == "poll" else None,
                    acks=-1 if f == "produce" else None, delivery=draw(st.sampled_from([None, "once"])),
                )
                for slot in range(draw(st.integers(1, 2)) if f == "produce" else 1)
            ]  # fmt: skip
            rows = [msgspec.structs.replace(row, partition=rows[0].partition) for row in rows]
            waiting[process] = rows
        else:
            kind = draw(st.sampled_from([OpType.OK, OpType.OK, OpType.OK, OpType.FAIL, OpType.INFO]))
            start = draw(st.integers(0, 4))
            count = len(invoked_rows) if invoked_rows[0].f == "produce" else draw(st.integers(1, 3))
            rows = [
                msgspec.structs.replace(
                    invoked_rows[0], index=index, slot=slot, type=kind, time_ns=index, acks=None, delivery=None,
                    value=f"v{draw(st.integers(0, 8))}" if invoked_rows[0].f == "poll" else None,
                    offset=start + slot if kind is OpType.OK else None,
                )
                for slot in range(count)
            ]  # fmt: skip
        operations += rows
    return History(manifest(promise()), operations=operations)


@pytest.mark.slow
@given(conversations())
def test_fast_prechecks_keep_verdicts_of_random_client_calls(history: History) -> None:
    assert_screens_change_nothing(history)


_NOTED: tuple[dict[str, object], ...] = (
    {"kind": EventKind.STATE_WRITTEN, "leader": "b1", "leader_epoch": 0, "isr": ("b1", "b2", "b3")},
    {"kind": EventKind.BECAME_LEADER, "node": "b1", "life": 1, "leader_epoch": 0, "hw": 0, "leo": 0},
    {"kind": EventKind.APPEND, "node": "b1", "life": 1, "leader_epoch": 0, "offset": 0, "value": "v0", "detail": "leader"},
    {"kind": EventKind.HW, "node": "b1", "life": 1, "leader_epoch": 0, "hw": 1, "leo": 1, "detail": "leader"},
    {"kind": EventKind.FENCED, "node": "b1", "life": 1},
    {"kind": EventKind.REGISTERED, "node": "b1", "life": 1, "incarnation": 7},
    {"kind": EventKind.FAULT_BEGUN, "fault": "f", "node": "b1", "detail": "clog"},
    {"kind": EventKind.FAULT_ENDED, "fault": "f", "node": "b1", "detail": "clog"},
)
_OF_NODES = (EventKind.FENCED, EventKind.REGISTERED, EventKind.FAULT_BEGUN, EventKind.FAULT_ENDED)


@st.composite
def observed(draw: st.DrawFn) -> History:
    """Paired calls, also for end offsets, with high watermarks; events beside them; times that pass the bound B (16 s)."""
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    waiting: dict[int, Operation] = {}
    second = 10**9
    for index in range(draw(st.integers(4, 24))):
        time_ns = index * 5 * second
        if draw(st.integers(0, 4)) == 0:
            noted = draw(st.sampled_from(_NOTED))
            where: dict[str, object] = (
                {} if noted["kind"] in _OF_NODES else {"topic": "orders", "partition": draw(st.integers(0, 1))}
            )
            events.append(msgspec.convert({**noted, **where, "index": index, "time_ns": time_ns}, ClusterEvent))
            continue
        process = draw(st.integers(0, 2))
        operation = waiting.pop(process, None)
        if operation is None:
            f = draw(st.sampled_from(["produce", "poll", "poll", "latest"]))
            row = Operation(
                index=index, process=process, type=OpType.INVOKE, f=f, topic="orders", partition=draw(st.integers(0, 1)),
                value=f"v{index % 4}" if f == "produce" else None, acks=-1 if f == "produce" else None,
                offset=draw(st.integers(0, 2)) if f == "poll" else None, time_ns=time_ns,
            )  # fmt: skip
            waiting[process] = row
        else:
            kind = draw(st.sampled_from([OpType.OK] * 5 + [OpType.FAIL, OpType.INFO]))
            row = msgspec.structs.replace(
                operation, index=index, type=kind, time_ns=time_ns, leader_epoch=draw(st.sampled_from([0, 0, 1, None])),
                acks=None, offset=draw(st.sampled_from([None, 0, 1, 2, 3])) if kind is OpType.OK else None,
                value=draw(st.sampled_from([None, "v0", "v1", "v2"])) if operation.f == "poll" else None,
                hw=draw(st.sampled_from([None, None, 1, 4])), error="OFFSET_OUT_OF_RANGE" if kind is OpType.FAIL else None,
            )  # fmt: skip
        operations.append(row)
    times = {"healed_at_ns": 20 * second, "final_reads_at_ns": draw(st.sampled_from([None, 60 * second])), "end_ns": 125 * second}
    manifest_told = msgspec.structs.replace(manifest(promise(), partitions=2), **times)
    return History(manifest_told, operations=operations, events=events)


def end_offset_alone() -> History:
    """One answered request for the end offset: no row that most checkers read names its partition."""
    operation = Operation(index=0, process=0, type=OpType.INVOKE, f="latest", topic="orders", partition=0, time_ns=0)
    answered = msgspec.structs.replace(operation, index=1, type=OpType.OK, time_ns=1)
    return History(manifest(promise(), partitions=2), operations=[operation, answered])


@pytest.mark.slow
@given(observed())
@example(end_offset_alone())
def test_screens_keep_the_verdicts_of_calls_beside_events(history: History) -> None:
    assert_screens_change_nothing(history)


Change = Callable[[Operation, Operation], Operation]
CHANGES: dict[str, Change] = {
    "another offset": lambda row, other: msgspec.structs.replace(row, offset=other.offset),
    "another value": lambda row, other: msgspec.structs.replace(row, value=other.value),
    "another fate": lambda row, other: msgspec.structs.replace(row, type=other.type),
    "another process": lambda row, other: msgspec.structs.replace(row, process=other.process),
    "another partition": lambda row, other: msgspec.structs.replace(row, topic=other.topic, partition=other.partition),
    "another function": lambda row, other: msgspec.structs.replace(row, f=other.f),
    "other acks": lambda row, other: msgspec.structs.replace(row, acks=1),
    "sent once": lambda row, other: msgspec.structs.replace(row, delivery="once"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_fast_prechecks_keep_the_verdict_after_one_corruption(name: str) -> None:
    """Most kinds of changes must lead to a finding, otherwise the comparison is vacuous."""
    rng = Rng(7)
    rows = good_history(800).operations
    found = 0
    for _ in range(25):
        hit, copied_row = rng.pick(rows), rng.pick(rows)
        changed = [
            CHANGES[name](row, copied_row) if row is hit or (name != "another value" and row.index == hit.index) else row
            for row in rows
        ]
        history = History(good_history(16).manifest, operations=changed)
        found += len(assert_screens_change_nothing(history).anomalies)

    assert found or name in ("another process", "another function", "other acks", "sent once")


def sent_once(builder: HistoryBuilder, process: int, value: str, offset: int) -> None:
    builder.op(process, OpType.INVOKE, "produce", ({"value": value, "acks": -1, "delivery": "once"},))
    builder.produce_ok(process, value, offset)


def by_hand(tell: Callable[[HistoryBuilder], object]) -> History:
    builder = HistoryBuilder()
    tell(builder)
    return History(builder.manifest, operations=builder.operations)


def _read_before_sent(builder: HistoryBuilder) -> None:
    builder.poll(2, 0, "a")
    builder.produce(1, "a", 0)


def _read_while_sent(builder: HistoryBuilder) -> None:
    """A value is read before its produce is acknowledged."""
    builder.op(2, OpType.INVOKE, "poll", ({"offset": 0},))
    builder.invoke_produce(1, "a")
    builder.op(2, OpType.OK, "poll", ({"offset": 0, "value": "a"},))
    builder.produce_ok(1, "a", 0)


def _turned_round(builder: HistoryBuilder) -> None:
    sent_once(builder, 1, "a", 1)
    sent_once(builder, 1, "b", 0)
    builder.poll(2, 0, "b a")


def _in_order_of_two(builder: HistoryBuilder) -> None:
    sent_once(builder, 1, "a", 1)
    sent_once(builder, 3, "b", 0)
    builder.poll(2, 0, "b a")


def _refused_and_read(builder: HistoryBuilder) -> None:
    builder.invoke_produce(1, "a")
    builder.produce_fail(1, "a")
    builder.poll(2, 0, "a")


def _refused_and_sent_again(builder: HistoryBuilder) -> None:
    """A produce is refused, and its value is acknowledged when it is sent again."""
    builder.invoke_produce(1, "a")
    builder.produce_fail(1, "a")
    builder.produce(1, "a", 0)
    builder.poll(2, 0, "a")


def _acknowledged_twice(builder: HistoryBuilder) -> None:
    builder.produce(1, "a", 4)
    builder.produce(2, "b", 4)


def _acknowledged_back(builder: HistoryBuilder) -> None:
    builder.produce(1, "a", 4)
    builder.produce(2, "b", 3)


def _acknowledged_at_once(builder: HistoryBuilder) -> None:
    """Two concurrent produces are acknowledged, the later offset first."""
    builder.invoke_produce(1, "a")
    builder.invoke_produce(2, "b")
    builder.produce_ok(1, "a", 4)
    builder.produce_ok(2, "b", 3)


def _passed_over(builder: HistoryBuilder) -> None:
    for offset, value in enumerate("abc"):
        builder.produce(1, value, offset)
    builder.poll(2, 0, "a - c")


def _passed_over_nothing(builder: HistoryBuilder) -> None:
    """A transaction marker takes an offset that no client is given."""
    builder.produce(1, "a", 0)
    builder.produce(1, "c", 2)
    builder.poll(2, 0, "a - c")


def _sent_to_another_partition(builder: HistoryBuilder) -> None:
    builder.on_partition(1).produce(1, "a", 0)
    builder.on_partition(0).poll(2, 0, "a")


def _sent_to_both_partitions(builder: HistoryBuilder) -> None:
    """One value is sent to two partitions, and read in each."""
    builder.on_partition(0).produce(1, "a", 0)
    builder.on_partition(1).produce(1, "a", 0)
    builder.on_partition(0).poll(2, 0, "a")
    builder.on_partition(1).poll(2, 0, "a")


def _sent_to_another_partition_first(builder: HistoryBuilder) -> None:
    builder.on_partition(0).produce(1, "a", 0)
    builder.on_partition(1).poll(2, 0, "a")
    builder.on_partition(1).produce(1, "a", 0)


def _refused_to_say_where_the_log_begins(builder: HistoryBuilder) -> None:
    builder.produce(1, "a", 0)
    builder.op(2, OpType.INVOKE, "earliest")
    builder.op(2, OpType.INFO, "earliest", ({"error": "OFFSET_NOT_AVAILABLE"},))


@pytest.mark.parametrize(
    ("tell", "kinds"),
    [
        (_read_before_sent, {"phantom-read"}),
        (_read_while_sent, set()),
        (_turned_round, {"reordered", "offset-order"}),
        (_in_order_of_two, {"offset-order"}),
        (_refused_and_read, {"failed-write-read"}),
        (_refused_and_sent_again, set()),
        (_acknowledged_twice, {"inconsistent-offsets", "offset-order"}),
        (_acknowledged_back, {"offset-order"}),
        (_acknowledged_at_once, set()),
        (_passed_over_nothing, set()),
        (_sent_to_another_partition, {"phantom-read"}),
        (_sent_to_both_partitions, set()),
        (_sent_to_another_partition_first, {"phantom-read"}),
        (_refused_to_say_where_the_log_begins, {"wrong-error"}),
    ],
)
def test_fast_prechecks_keep_the_verdict_at_rule_boundaries(tell: Callable[[HistoryBuilder], object], kinds: set[str]) -> None:
    verdict = assert_screens_change_nothing(by_hand(tell))

    assert {anomaly.kind for anomaly in verdict.anomalies} == kinds


def test_fast_prechecks_keep_record_skipped_by_read_unchecked() -> None:
    """Without ISR changes the cause of the loss is unknown: unchecked, hence UNKNOWN."""
    assert assert_screens_change_nothing(by_hand(_passed_over)).unchecked


@pytest.mark.slow
@given(seed=seeds)
def test_fast_prechecks_keep_verdict_after_swapped_records(seed: int) -> None:
    """Two records are exchanged in all rows; every producer is idempotent."""
    rng = Rng(seed)
    rows = [msgspec.structs.replace(row, delivery="once" if row.f == "produce" else None) for row in good_history(200).operations]
    placed = [row for row in rows if row.offset is not None and row.f == "poll" and row.type is OpType.OK]
    first_operation = rng.pick(placed)
    second_operation = rng.pick(
        [row for row in placed if (row.topic, row.partition) == (first_operation.topic, first_operation.partition)]
    )
    names = {first_operation.value: second_operation.value, second_operation.value: first_operation.value}
    operations = [
        msgspec.structs.replace(row, value=names.get(row.value, row.value)) if row.type is OpType.OK and row.f == "poll" else row
        for row in rows
    ]

    assert_screens_change_nothing(History(good_history(16).manifest, operations=operations))


def test_stored_partition_is_read_and_checked_alone(tmp_path: Path) -> None:
    """The file is read twice, some columns and some rows of it, and never as a whole."""
    history = good_history(4000)
    rows = list(history.operations)
    at = next(i for i, row in enumerate(rows) if row.f == "poll" and row.type is OpType.OK)
    rows[at] = msgspec.structs.replace(rows[at], value="never sent")
    store.save(tmp_path, History(history.manifest, operations=rows))
    stored = store.load(tmp_path)

    verdict = judge(stored, SCREENED, screened_min=0)

    assert verdict == judge(History(history.manifest, operations=rows), SCREENED, screened_min=NEVER)
    assert {anomaly.kind for anomaly in verdict.anomalies} == {"inconsistent-offsets", "phantom-read"}
    assert "operations_table" not in vars(stored)


def test_only_partitions_that_a_precheck_suspects_are_checked() -> None:
    """One read gets a wrong value: the verdict names it, and fifteen partitions are not walked."""
    history = good_history(4000)
    rows = list(history.operations)
    at = next(i for i, row in enumerate(rows) if row.f == "poll" and row.type is OpType.OK)
    rows[at] = msgspec.structs.replace(rows[at], value="never sent")
    columns = columns_of(History(history.manifest, operations=rows).operations_of(NAMES))
    assert columns is not None

    suspects = [
        columns.partitions[i]
        for c in SCREENED
        if c.screen
        for i in c.screen(columns, Events(history.events_frame), facts_of(history.manifest)).suspect.nonzero()[0].tolist()
    ]

    assert set(suspects) == {(rows[at].topic, rows[at].partition)}
