"""Laws over random histories: kept promises are VALID, broken ones are found, and the ledger lists every missing record."""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation
from history.seed import Rng
from tests.checkers.toy import Toy

seeds = st.integers(0, 2**32)


def kinds(verdict: Verdict) -> set[str]:
    return {anomaly.kind for anomaly in verdict.anomalies}


@pytest.mark.slow
@given(seed=seeds, m=st.sampled_from([1, 2]), flush=st.sampled_from(["none", "before_ack"]))
def test_history_that_keeps_the_promise_is_valid(seed: int, m: int, flush: str) -> None:
    """Crashes, power losses, recovery elections and excused losses included; under before_ack the ledger stays empty."""
    toy = Toy(Rng(seed), partitions=2, m=m, flush="none" if flush == "none" else "before_ack")

    verdict = judge(toy.run(150, breaks=12))

    assert (verdict.validity, verdict.anomalies) == (Validity.VALID, ())
    assert flush == "none" or not verdict.excused


@pytest.mark.slow
@given(seed=seeds)
def test_loss_checker_finds_each_record_the_last_leader_lacks(seed: int) -> None:
    """No more and no fewer: each excused record is really gone, and each that is gone is excused."""
    toy = Toy(Rng(seed), m=1)
    history = toy.run(150, breaks=10)
    partition = toy.partitions[0]
    assert partition.leader is not None
    kept = {value for value, _ in partition.replicas[partition.leader].log}
    acked = {row.value for row in history.operations if row.type == "ok" and row.f == "produce"}

    excused = {loss.value for loss in judge(history).excused}

    assert excused & acked == acked - kept
    assert not excused & kept


@pytest.mark.slow
@given(seed=seeds)
def test_no_loss_is_excused_without_destroyed_bytes(seed: int) -> None:
    """The same histories without their wounds: every excused record is then lost."""
    history = Toy(Rng(seed), m=1).run(150, breaks=10)
    excused = judge(history).excused
    events = [event for event in history.events if event.kind != EventKind.WOUND]

    verdict = judge(History(history.manifest, operations=history.operations, events=events))

    assert ("lost-write" in kinds(verdict)) == bool(excused)


Edit = Callable[[History, Rng], History | None]


def _with_operations(history: History, operations: list[Operation]) -> History:
    return History(history.manifest, operations=operations, events=history.events)


def drops_a_record_from_a_read(history: History, rng: Rng) -> History | None:
    """Remove a record from the middle of a poll."""
    rows = [row for row in history.operations if row.f == "poll" and row.type == "ok"]
    inner = [row for row, after in pairwise(rows) if row.slot and row.index == after.index]
    if not inner:
        return None
    hit = rng.pick(inner)
    return _with_operations(history, [row for row in history.operations if row is not hit])


def changes_a_value_that_was_read(history: History, rng: Rng) -> History | None:
    """Change a value that a consumer read."""
    read = [row for row in history.operations if row.f == "poll" and row.type == "ok" and row.value]
    if not read:
        return None
    hit = rng.pick(read)
    changed = msgspec.structs.replace(hit, value="other")
    return _with_operations(history, [changed if row is hit else row for row in history.operations])


def acknowledges_an_offset_again(history: History, rng: Rng) -> History | None:
    """A later call is acknowledged the offset of an earlier one."""
    acked = [row for row in history.operations if row.f == "produce" and row.type == "ok"]
    if len(acked) < 2:
        return None
    at = 1 + rng.below(len(acked) - 1)
    changed = msgspec.structs.replace(acked[at], offset=acked[0].offset)
    return _with_operations(history, [changed if row is acked[at] else row for row in history.operations])


def lowers_a_high_watermark(history: History, rng: Rng) -> History | None:
    """A leader's HW falls right after it rose."""
    rows = [row for row in history.events if row.kind == EventKind.HW and row.detail == "leader" and row.hw]
    if not rows:
        return None
    hit = rng.pick(rows)
    assert hit.hw is not None
    return _insert(history, hit, hw=hit.hw - 1)


def truncates_an_isr_member(history: History, rng: Rng) -> History | None:
    """A follower in the ISR drops a committed record."""
    rows = [row for row in history.events if row.kind == EventKind.HW and row.detail == "leader" and row.hw]
    state: ClusterEvent | None = None
    hits: list[tuple[ClusterEvent, str]] = []
    for row in history.events:
        if row.kind == EventKind.STATE_WRITTEN:
            state = row
        elif row in rows and state is not None and state.isr and len(state.isr) > 1:
            hits.append((row, next(node for node in state.isr if node != row.node)))
    if not hits:
        return None
    hit, member = rng.pick(hits)
    assert hit.hw is not None
    return _insert(history, hit, kind=EventKind.TRUNCATE, node=member, offset=hit.hw - 1, hw=None, leo=None)


def lets_another_commit(history: History, rng: Rng) -> History | None:
    """Another broker advances the HW in the same epoch."""
    rows = [row for row in history.events if row.kind == EventKind.HW and row.detail == "leader" and row.hw]
    if not rows:
        return None
    hit = rng.pick(rows)
    assert hit.hw is not None
    new_leader = "b1" if hit.node != "b1" else "b2"
    between = _insert(history, hit, kind=EventKind.BECAME_LEADER, node=new_leader, hw=hit.hw - 1)
    return _insert(between, between.events[between.events.index(hit) + 1], kind=EventKind.HW, node=new_leader, hw=hit.hw)


def _insert(history: History, after: ClusterEvent, **columns: object) -> History:
    """One event more right behind `after`; all later rows move up by one."""
    row = msgspec.structs.replace(after, index=after.index + 1, **columns)
    events: list[ClusterEvent] = []
    for event in history.events:
        later = event.index > after.index
        events.append(msgspec.structs.replace(event, index=event.index + 1) if later else event)
        if event is after:
            events.append(row)
    operations = [
        msgspec.structs.replace(row, index=row.index + 1) if row.index > after.index else row for row in history.operations
    ]
    return History(history.manifest, operations=operations, events=events)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "kinds_expected"),
    [
        (drops_a_record_from_a_read, {"lost-write"}),
        (changes_a_value_that_was_read, {"phantom-read", "inconsistent-offsets"}),
        (acknowledges_an_offset_again, {"inconsistent-offsets"}),
        (lowers_a_high_watermark, {"hw-regressed"}),
        (truncates_an_isr_member, {"weak-isr", "strong-isr"}),
        (lets_another_commit, {"two-leaders"}),
    ],
)
@given(seed=seeds)
def test_corruption_planted_in_a_good_history_is_found(edit: Edit, kinds_expected: set[str], seed: int) -> None:
    """Each edit puts one lie into a healthy history; its checker must report it."""
    rng = Rng(seed)
    history = Toy(rng, m=2, power=False).run(120, breaks=40)
    planted = edit(history, rng.fork("edit"))

    if planted is not None:
        assert kinds_expected <= kinds(judge(planted))


@pytest.mark.slow
@given(seed=seeds)
def test_verdict_of_a_partition_is_independent_of_others(seed: int) -> None:
    """Groups are independent: two partitions judged together, or one after the other, give the same anomalies."""
    history = Toy(Rng(seed), partitions=2, m=1).run(120, breaks=12)
    together = judge(history)

    apart = [
        judge(
            History(
                history.manifest,
                operations=[row for row in history.operations if row.partition == number],
                events=[row for row in history.events if row.partition in (number, None)],
            )
        )
        for number in (0, 1)
    ]

    assert together.excused == tuple(sorted(loss for verdict in apart for loss in verdict.excused))
    assert together.anomalies == tuple(sorted(anomaly for verdict in apart for anomaly in verdict.anomalies))
