"""Requests of administrators to brokers: recorded runs on Kafka 4.1.0 are live; with one row changed they are not.

The runs performed corpus/real/moves.yaml and elections.yaml.
"""

from collections.abc import Callable
from functools import cache

import pytest
from msgspec.structs import replace

from checkers.clients import client_log, order
from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge
from checkers.liveness.administration import CHECKER
from checkers.sketches import history_of
from history import store
from history.event import ClusterEvent
from history.event import EventKind as K
from history.history import History
from history.op import Operation, OpType
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater"
STANDING = ("assigned replicas=b1,b2,b3", "state-written leader=b1 isr=b1,b2,b3")
Events = list[ClusterEvent]


@cache
def recorded_history(name: str) -> History:
    return store.load(RECORDED / f"kafka-4.1.0-{name}")


def complaints(*rows: str) -> list[str]:
    return list(judge(history_of(*rows, "healed"), (CHECKER,)).not_live)


def asked(value: str, f: str = "reassign", answer: str = "ok", process: int = 1) -> tuple[str, str]:
    return f"invoke {f} process={process} value='{value}'", f"{answer} {f} process={process}"


@pytest.mark.parametrize("name", ["moves", "elections"])
def test_recorded_run_with_administrators_is_valid_and_live(name: str) -> None:
    verdict = judge(recorded_history(name))

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())


def changed_verdict(name: str, change: Callable[[Events], Events]) -> Verdict:
    history = recorded_history(name)
    events = change(list(history.events))
    return judge(History(history.manifest, operations=history.operations, events=events), (CHECKER,))


def without_last(kind: K, partition: int | None = None) -> Callable[[Events], Events]:
    """Leaves out the last row of this kind, and of this partition if one is named."""

    def change(events: Events) -> Events:
        last = max(i for i, row in enumerate(events) if row.kind is kind and row.partition == partition)
        return [*events[:last], *events[last + 1 :]]

    return change


def on_target(events: Events) -> Events:
    """The cancelled move of t-0 ended where it was to go."""
    last = max(i for i, row in enumerate(events) if row.kind is K.ASSIGNED and row.partition == 0)
    return [*events[:last], replace(events[last], replicas=("b1", "b2", "b3")), *events[last + 1 :]]


def without_partition(events: Events) -> Events:
    return [row for row in events if row.partition != 2]


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("moves", without_last(K.ASSIGNED, 1), "t-1 was to go back to b2, b3, b4 and is on b1, b4, b3, b2 at the end"),
        ("moves", without_last(K.ASSIGNED, 0), "t-0 was to go back to b4, b2, b3 and is on b1, b2, b3, b4 at the end"),
        ("moves", on_target, "t-0 was to go back to b4, b2, b3 and is on b1, b2, b3 at the end"),
        ("elections", without_last(K.CONFIGURED), "t min.insync.replicas is 3 at the end, though 1 was confirmed at row "),
        ("elections", without_partition, "t-2 was never made, though its addition was confirmed at row "),
    ],
)
def test_recorded_run_with_one_thing_changed_is_not_live(name: str, change: Callable[[Events], Events], words: str) -> None:
    (said,) = changed_verdict(name, change).not_live

    assert said.startswith(words)


def test_move_that_is_listed_at_the_end_is_not_live() -> None:
    history = recorded_history("moves")
    rows: list[Operation] = list(history.operations)
    at = next(i for i, row in enumerate(rows) if row.f == "admin-pending" and row.type is OpType.OK)
    rows[at] = replace(rows[at], value="the move of t-0 (adds [1], removes [4])")

    verdict = judge(History(history.manifest, operations=rows, events=history.events), (CHECKER,))
    assert verdict.not_live == ("the move of t-0 (adds [1], removes [4]) is still requested at the end",)


def test_later_request_replaces_the_move_before() -> None:
    rows = (*STANDING, *asked("t-0 on 1,2,4"), *asked("t-0 on 1,2,5"), "assigned replicas=b1,b2,b5")

    assert complaints(*rows) == []
    assert complaints(*rows[:-1], "assigned replicas=b1,b2,b4") == [
        "t-0 was to be moved to b1, b2, b5 and is on b1, b2, b4 at the end"
    ]


def test_cancelled_second_move_goes_back_to_before_the_first() -> None:
    """KIP-455: a request that replaces one in flight leaves the origin as it was."""
    first = (*STANDING, *asked("t-0 on 1,2,4"), "assigned replicas=b1,b2,b4,b3")
    cancelled = ("invoke cancel-reassignments", "ok cancel-reassignments value=t-0")
    rows = (*first, *asked("t-0 on 1,2,5"), "assigned replicas=b1,b2,b5,b3", *cancelled)

    assert complaints(*rows, "assigned replicas=b2,b3,b1") == []
    assert complaints(*rows, "assigned replicas=b1,b2,b4") == ["t-0 was to go back to b1, b2, b3 and is on b1, b2, b4 at the end"]


def test_cancellation_leaves_moves_that_it_does_not_name() -> None:
    cancelled = ("invoke cancel-reassignments", "ok cancel-reassignments value=t-1")
    rows = (*STANDING, *asked("t-0 on 1,2,4"), *cancelled, "assigned replicas=b1,b2,b4")

    assert complaints(*rows) == []


def test_move_of_unknown_outcome_may_end_on_either_set() -> None:
    rows = (*STANDING, *asked("t-0 on 1,2,4", answer="info"), *asked("t-0 on 1,2,5", process=2))

    assert complaints(*rows) == []
    assert complaints(*rows, "assigned replicas=b1,b2,b4") == []
    assert complaints(*rows, "assigned replicas=b1,b2,b4,b3") == ["t-0 is on b1, b2, b4, b3 at the end, which nobody asked for"]


def test_partition_without_a_leader_owes_no_move() -> None:
    assert complaints(*STANDING, *asked("t-0 on 1,2,4"), "state-written isr=b1 leader_epoch=2") == []


def test_deleted_topic_that_is_there_at_the_end_is_not_live() -> None:
    rows = (*STANDING, *asked("t", "delete-topic"), "zk-state leader=b1 isr=b1 replicas=b1")

    assert complaints(*rows)[0].startswith("t is there at the end, though its deletion was confirmed at row ")
    assert complaints(*STANDING, *asked("t", "delete-topic"), *asked("t on 1", "create-topic", "info"), rows[-1]) == []


def test_least_min_insync_replicas_decides_what_wounds_excuse() -> None:
    """The promise changes with the setting: with one replica in sync, one wound may be on the last copy."""
    rows = (
        "ok produce value=a offset=0",
        "wound node=b1 partition=0 offset=0 dir=0 detail=power-loss",
        "ok poll offset=0 value=b",
    )
    verdict = judge(history_of("configured detail='t min.insync.replicas=1'", *rows), (client_log.CHECKER,))

    assert (verdict.validity, len(verdict.unchecked)) == (Validity.UNKNOWN, 1)
    assert judge(history_of(*rows), (client_log.CHECKER,)).validity is Validity.INVALID


def test_records_gone_after_an_ordered_election_are_unchecked() -> None:
    """DUR-7: the order excuses what the elected replica lacked, and nobody knows what that was; later records are judged."""
    before = ("state-written leader=b1 isr=b1,b2 leader_epoch=1", "ok produce value=a offset=0", "ok produce value=b offset=1")
    order_rows = ("unclean-election-ordered leader=b3", "state-written leader=b3 isr=b3 leader_epoch=2")
    after = ("ok produce value=c offset=0 leader_epoch=2", "ok poll offset=0 value=c leader_epoch=2")
    history = history_of(*before, *order_rows, *after)
    manifest = replace(history.manifest, promise=replace(history.manifest.promise, unclean_election="by_operator"))
    ordered = History(manifest, operations=history.operations, events=history.events)

    verdict = judge(ordered, (client_log.CHECKER, order.CHECKER))
    assert (verdict.validity, verdict.anomalies, verdict.cuts[0].offset) == (Validity.UNKNOWN, (), 0)
    assert "are gone after an unclean election that an operator ordered" in verdict.unchecked[0]
    assert judge(history, (client_log.CHECKER,)).validity is Validity.INVALID
    lost = history_of(*before, *order_rows, *after, "ok poll offset=0 value=d leader_epoch=2")
    lost = History(manifest, operations=lost.operations, events=lost.events)
    assert [one.kind for one in judge(lost, (client_log.CHECKER,)).anomalies] == ["lost-write"]


BEFORE = ("state-written leader=b1 isr=b1,b2 leader_epoch=1", "ok produce value=a offset=0", "ok produce value=b offset=1")
ORDER = ("unclean-election-ordered leader=b3", "state-written leader=b3 isr=b3 leader_epoch=2")
STOPPED = "node-stopped node=b1"


def ordered(*rows: str, final_at: int | None = None) -> Verdict:
    """The verdict on these rows where an operator may order unclean elections; `final_at`: the row of the first final read."""
    history = history_of(*rows)
    promise = replace(history.manifest.promise, unclean_election="by_operator")
    manifest = replace(history.manifest, promise=promise)
    if final_at is not None:
        times = [row.time_ns for row in history.operations if row.type is OpType.INVOKE]
        manifest = replace(manifest, final_reads_at_ns=times[final_at])
    return judge(History(manifest, operations=history.operations, events=history.events), (client_log.CHECKER,))


@pytest.mark.parametrize(
    "rows",
    [
        # An answer lacked the record before the election.
        (*BEFORE, "ok poll offset=0 value=x", STOPPED, *ORDER),
        # The elected replica had it.
        (*BEFORE, STOPPED, *ORDER, "ok poll process=2 offset=0 value=a", "ok poll process=2 offset=0 value=x"),
        # The order was of no election, and of another era.
        (*BEFORE, STOPPED, *ORDER, "ok produce value=c offset=0", "ok poll process=2 offset=0 value=x"),
    ],
)
def test_loss_that_an_ordered_election_does_not_explain(rows: tuple[str, ...]) -> None:
    """DUR-7: the order excuses what the elected replica lacked, and nothing else."""
    verdict = ordered(*rows)

    assert (verdict.validity, verdict.anomalies[0].kind) == (Validity.INVALID, "lost-write")


def test_log_with_a_later_record_had_those_before() -> None:
    """A replica that lacks a record lacks all behind it: the hole came in another way."""
    read = ("ok poll process=2 offset=0 value=x", "invoke poll process=2 offset=1")
    verdict = ordered(*BEFORE, STOPPED, *ORDER, *read, "ok poll process=2 offset=1 value=b", final_at=-2)

    assert [(one.kind, one.words[:22]) for one in verdict.anomalies] == [("lost-write", "a was acknowledged at ")]
    gone = ordered(*BEFORE, STOPPED, *ORDER, *read, "ok poll process=2 offset=1 value=y", final_at=-2)
    assert (gone.validity, gone.anomalies, gone.cuts[0].offset) == (Validity.UNKNOWN, (), 0)


def test_topic_that_is_gone_is_not_explained_by_an_order() -> None:
    denied = ("invoke latest process=2", "fail latest process=2 error=UNKNOWN_TOPIC_OR_PARTITION")

    assert ordered(*BEFORE, STOPPED, *ORDER, *denied, final_at=-1).validity is Validity.INVALID


def test_former_leader_may_acknowledge_after_the_order() -> None:
    """VIS-3: it serves clients until it is told; what it acknowledged in vain is no loss that anybody can prove."""
    late = ("ok produce value=c offset=2 leader_epoch=1", "ok poll process=2 offset=2 value=x")

    assert ordered(*BEFORE, *ORDER, *late).validity is Validity.UNKNOWN
    assert ordered(*BEFORE, STOPPED, *ORDER, *late).validity is Validity.INVALID


def test_partition_nobody_asked_and_nobody_leads_is_not_live() -> None:
    """Nobody knew that it was made, so no client reads it at the end: it is not well for that."""
    offline = ("state-written isr=b1 leader_epoch=2", "healed")

    assert judge(history_of(STANDING[1], *offline), (client_log.CHECKER,)).not_live == ("t-0 has no leader at the end",)
    wounded = judge(history_of(STANDING[1], "wound node=b1 offset=0 dir=0", *offline), (client_log.CHECKER,))
    assert (wounded.not_live, len(wounded.unchecked)) == ((), 1)
    assert judge(history_of(*STANDING, "healed"), (client_log.CHECKER,)).not_live == ()
    gone = ("topic-deleted topic_id=1", "healed")
    assert judge(history_of("state-written isr=b1 topic_id=1", *gone), (client_log.CHECKER,)).not_live == ()


def test_offline_partition_is_unread_and_not_lost() -> None:
    """librdkafka calls a partition without a leader unknown; the brokers list it, so it is there."""
    rows = ("ok produce value=a offset=0", "final-reads", "invoke latest", "fail latest error=_UNKNOWN_PARTITION")
    history = history_of(*rows, "metadata-view node=b1 isr=b1")
    manifest = replace(history.manifest, final_reads_at_ns=history.operations[-2].time_ns)
    listed = History(manifest, operations=history.operations, events=history.events)
    gone = History(manifest, operations=history.operations, events=[])

    assert judge(listed, (client_log.CHECKER,)).validity is Validity.UNKNOWN
    assert [one.kind for one in judge(gone, (client_log.CHECKER,)).anomalies] == ["lost-write"]
