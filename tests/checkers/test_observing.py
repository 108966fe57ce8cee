"""A system that shows little is judged by its clients, and the verdict says who did not judge."""

import pytest
from msgspec.structs import replace

from checkers.clients.client_log import CHECKER
from checkers.durability.stored_records import CHECKER as STORED
from checkers.engine.facts import source_of
from checkers.engine.verdict import Validity
from checkers.judge import judge
from checkers.liveness.convergence import CHECKER as CONVERGENCE
from checkers.registry import ALL
from checkers.sketches import history_of
from history.event import EventKind
from history.history import History
from history.manifest import SOURCES, Source, SystemFacts

ENDS = ("fault-begun fault=f", "fault-acted fault=f count=1 node=b1", "healed")
WRITTEN = "ok produce value=a offset=0 process=1"
AFTER = "time_ns=100000000000"  # the bound B after healing has passed
SERVED = (f"invoke produce value=z {AFTER}", f"ok produce value=z offset=1 {AFTER}")
LATE = "time_ns=3599999500000000"


def black_box(*lines: str, observes: tuple[Source, ...] = ()) -> History:
    history = history_of(*lines)
    manifest = replace(history.manifest, system=SystemFacts(name="box", version="1", observes=observes))
    return History(manifest, operations=history.operations, events=history.events)


def read_back(*values: str) -> tuple[str, ...]:
    """The final reader asks for the end of the log and reads all of it."""
    answers = [("latest", 0, f"offset={len(values)}")]
    answers += [("poll", at, f"offset={at} value={value}") for at, value in enumerate(values)]
    pairs = [(f"invoke {f} offset={at} process=2 {LATE}", f"ok {f} {message} process=2 {LATE}") for f, at, message in answers]
    return tuple(line for pair in pairs for line in pair)


def test_black_box_that_keeps_its_records_is_valid_and_live() -> None:
    verdict = judge(black_box(WRITTEN, *ENDS, *SERVED, *read_back("a", "z")))

    assert (verdict.validity, verdict.live, verdict.anomalies) == (Validity.VALID, True, ())


def test_verdict_names_the_checkers_without_rows() -> None:
    message = " ".join(judge(black_box(WRITTEN, *ENDS, *SERVED, *read_back("a", "z"))).unchecked)

    assert "box 1 gives no notes" in message
    assert "acked-loss" in message
    assert "convergence" in message


def test_acknowledged_record_that_another_replaced_is_lost() -> None:
    verdict = judge(black_box(WRITTEN, *ENDS, *SERVED, *read_back("b", "z")))

    assert verdict.validity is Validity.INVALID
    assert "lost-write" in {anomaly.kind for anomaly in verdict.anomalies}


def test_acknowledged_record_behind_the_end_of_the_log_is_lost() -> None:
    verdict = judge(black_box(WRITTEN, *ENDS, *SERVED, *read_back("a")))

    assert [(anomaly.kind, anomaly.checker) for anomaly in verdict.anomalies] == [("lost-write", "client-log")]


def test_record_acknowledged_after_the_read_began_is_not_lost() -> None:
    """A read that was under way may have been answered before the record was written."""
    lines = ("invoke poll offset=0 process=2", WRITTEN, "ok poll offset=0 value=b process=2")

    assert "lost-write" not in {anomaly.kind for anomaly in judge(black_box(*lines)).anomalies}


def asked_at_the_end(f: str, answer: str) -> tuple[str, ...]:
    """A call of the final reader and its answer: "ok offset=1", "ok", "fail error=..."."""
    kind, _, rest = answer.partition(" ")
    return f"invoke {f} offset=0 process=2 {LATE}", f"{kind} {f} {rest} process=2 {LATE}"


@pytest.mark.parametrize("error", ["UNKNOWN_TOPIC_OR_PARTITION", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID"])
def test_records_of_a_topic_that_is_denied_at_the_end_are_lost(error: str) -> None:
    denied = (*asked_at_the_end("latest", f"fail error={error}"), *asked_at_the_end("poll", f"fail error={error}"))

    assert [anomaly.kind for anomaly in judge(black_box(WRITTEN, *ENDS, *denied)).anomalies] == ["lost-write"]


def test_empty_final_poll_below_the_end_shows_a_loss() -> None:
    answers = (*asked_at_the_end("latest", "ok offset=1"), *asked_at_the_end("poll", "ok"))

    assert [anomaly.kind for anomaly in judge(black_box(WRITTEN, *ENDS, *answers)).anomalies] == ["lost-write"]


def test_record_read_after_an_empty_poll_is_not_lost() -> None:
    """A new leader's HW may lie below the epoch's start for a while, and polls are empty until then (VIS-2)."""
    first = (*asked_at_the_end("latest", "ok offset=1"), *asked_at_the_end("poll", "ok"))
    verdict = judge(black_box(WRITTEN, *ENDS, *first, *asked_at_the_end("poll", "ok offset=0 value=a")))

    assert verdict.anomalies == ()


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((), "no final read asked for them"),
        (
            asked_at_the_end("poll", "fail error=REQUEST_TIMED_OUT"),
            "1 of 1 final reads failed, the last poll with REQUEST_TIMED_OUT",
        ),
        (
            (*asked_at_the_end("latest", "fail error=UNKNOWN_TOPIC_OR_PARTITION"), *asked_at_the_end("latest", "ok offset=1")),
            "1 of 2 final reads failed, the last latest with UNKNOWN_TOPIC_OR_PARTITION",
        ),
    ],
    ids=["none", "timed out", "denied once"],
)
def test_record_not_read_at_the_end_is_unknown(answers: tuple[str, ...], reason: str) -> None:
    """docs/promise.md VAC-4: reads before the end count for nothing, since the record may have been lost since."""
    read = "ok poll offset=0 value=a process=3"
    verdict = judge(black_box(WRITTEN, read, *ENDS, *answers))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert f"client-log: 1 promised records of t-0 were not read at the end: {reason}" in verdict.unchecked


def test_record_that_was_only_read_is_promised() -> None:
    """Its produce has an unknown outcome, and a consumer was given it: it may not be gone at the end (DUR-1)."""
    lines = ("invoke produce value=a acks=1", "ok poll offset=0 value=a process=3")
    verdict = judge(black_box(*lines, *ENDS, *asked_at_the_end("latest", "ok offset=0")))

    assert [anomaly.kind for anomaly in verdict.anomalies] == ["lost-write"]


def test_partition_that_cannot_be_read_at_the_end_is_not_live() -> None:
    verdict = judge(black_box(WRITTEN, *ENDS, *SERVED))

    assert verdict.live is False
    assert verdict.not_live == ("the end of t-0 could not be read after the quiet time",)


def test_silence_after_the_bound_is_not_live() -> None:
    refused_produce = (SERVED[0], f"fail produce value=z error=NOT_ENOUGH_REPLICAS {AFTER}")

    verdict = judge(black_box(WRITTEN, *ENDS, *refused_produce, *read_back("a")))

    assert verdict.not_live == ("no acks=all produce to t-0 was acknowledged from the bound B after healing on",)


def wounds(*nodes: str) -> tuple[str, ...]:
    return tuple(f"wound node={node} dir=0 offset=0 detail=power-loss" for node in nodes)


def test_wounds_on_min_insync_brokers_accuse_nobody() -> None:
    """Without notes nobody knows whether the destroyed copies were the last ones that counted."""
    verdict = judge(black_box(WRITTEN, *wounds("b1", "b2"), *ENDS, *SERVED, *read_back("z")))

    assert "lost-write" not in {anomaly.kind for anomaly in verdict.anomalies}
    assert any("was wounded on b1, b2" in complaint for complaint in verdict.unchecked)


def test_wounds_on_fewer_brokers_excuse_no_loss() -> None:
    """DUR-4: the last replica standing loses power, and others hold what was acknowledged."""
    verdict = judge(black_box(WRITTEN, *wounds("b1", "b1"), *ENDS, *SERVED, *read_back("z")))

    assert "lost-write" in {anomaly.kind for anomaly in verdict.anomalies}


VIEWS = tuple(f"metadata-view node={node} leader=b1 isr=b1,b2 replicas=b1,b2,b3" for node in ("b1", "b2", "b3"))


def rows_of_log(node: str, value: str, *, epoch: int = 1, hw: int = 1) -> tuple[str, ...]:
    """The log of a broker at the end: one record, and the high watermark of its checkpoint."""
    record = f"record-on-disk node={node} dir=0 offset=0 leader_epoch={epoch} value={value}"
    return f"log-on-disk node={node} dir=0 leo=1 hw={hw}", record


def found_on_disks(*lines: str) -> list[str]:
    return [anomaly.kind for anomaly in judge(black_box(*lines, *VIEWS, observes=("disks",)), (STORED,)).anomalies]


def test_equal_records_on_all_disks_are_no_anomaly() -> None:
    assert found_on_disks(*rows_of_log("b1", "a"), *rows_of_log("b2", "a"), *rows_of_log("b3", "a")) == []


def test_one_record_epoch_with_two_values_is_a_log_mismatch() -> None:
    assert found_on_disks(*rows_of_log("b1", "a"), *rows_of_log("b3", "b")) == ["log-mismatch"]


def test_isr_member_with_other_record_below_its_hw_is_accused() -> None:
    assert found_on_disks(*rows_of_log("b1", "a", epoch=2), *rows_of_log("b2", "b")) == ["uncommitted-below-hw"]


def test_other_record_above_the_checkpointed_hw_is_no_anomaly() -> None:
    assert found_on_disks(*rows_of_log("b1", "a", epoch=2), *rows_of_log("b2", "b", hw=0)) == []


def test_replica_outside_of_the_isr_may_hold_a_divergent_tail() -> None:
    assert found_on_disks(*rows_of_log("b1", "a", epoch=2), *rows_of_log("b3", "b")) == []


def test_wounded_replica_outside_of_the_isr_is_left_out() -> None:
    assert found_on_disks(*wounds("b3"), *rows_of_log("b1", "a"), *rows_of_log("b3", "b")) == []


def test_disks_are_compared_where_brokers_note_nothing() -> None:
    lines = (WRITTEN, *ENDS, *SERVED, *read_back("a", "z"), *rows_of_log("b1", "a"), *rows_of_log("b3", "b"), *VIEWS)

    assert [anomaly.checker for anomaly in judge(black_box(*lines, observes=("disks",))).anomalies] == ["stored-records"]
    assert judge(black_box(*lines)).anomalies == ()


def test_rows_of_an_incomplete_source_accuse_nobody() -> None:
    """A broker's log shows a truncation, but not the append before it."""
    lines = ("became-leader node=b1 leo=0 hw=5", "truncate node=b1 offset=0", WRITTEN, *ENDS, *SERVED, *read_back("a", "z"))

    assert judge(black_box(*lines)).validity is Validity.VALID


def test_system_that_shows_everything_is_judged_as_the_reference() -> None:
    lines = ("state-written leader=b1 isr=b1,b2", "ok produce value=a offset=0", "ok poll offset=1 value=b")

    assert judge(black_box(*lines, observes=SOURCES)) == judge(history_of(*lines))


def test_reference_is_not_judged_by_its_clients_alone() -> None:
    assert CHECKER not in ALL


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_of_event_has_a_source(kind: EventKind) -> None:
    assert source_of(kind) in (None, *SOURCES)


def complaints_at_end(*logs: str) -> tuple[str, ...]:
    """Why a partition whose brokers all name leader b1 is not live, if its brokers have these logs at the end.

    The metadata has no leader epoch, as before Kafka 2.1.
    """
    history = history_of("healed", "zk-state leader=b1 leader_epoch=7 isr=b1,b2 replicas=b1,b2,b3", *VIEWS, *logs)
    views = [replace(row, leader_epoch=None) if row.kind is EventKind.METADATA_VIEW else row for row in history.events]
    return judge(History(history.manifest, operations=(), events=views), (CONVERGENCE,)).not_live


def test_metadata_without_a_leader_epoch_agrees_with_any() -> None:
    assert complaints_at_end(*(f"log-on-disk node=b{broker} dir=0 leo=5 digest=d" for broker in (1, 2, 3))) == ()


def test_logs_without_digests_are_compared_by_their_ends() -> None:
    """Replicas need not delete their first segments at once, so their digests would differ."""
    logs = ("log-on-disk node=b1 dir=0 leo=5 digest=d", "log-on-disk node=b2 dir=0 leo=5", "log-on-disk node=b3 dir=0 leo=4")

    (why,) = complaints_at_end(*logs)

    assert why.startswith("the log of t-0 on b3 ends at 4 ")
