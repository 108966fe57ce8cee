"""Every bad history of the corpus has a sentence of cause."""

import re

import pytest

from checkers.causes.cause import cause_of
from checkers.causes.telling import names, seconds
from checkers.engine.verdict import Anomaly, Findings, merge
from checkers.judge import judge
from checkers.sketches import history_of
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation
from tests.checkers.corpus import RUNS, history

FAILED = [name for name, run in sorted(RUNS.items()) if run.anomalies or run.not_live]


@pytest.mark.parametrize("name", FAILED)
def test_bad_history_has_a_sentence_that_names_its_rows(name: str) -> None:
    """Histories of all kinds, some without evidence of brokers: a sentence must come, and say nothing that no row tells."""
    this_history = history(name)
    cause = cause_of(this_history, judge(this_history))
    assert cause is not None
    assert cause.sentence.endswith(".")
    assert "None" not in cause.sentence
    assert all(this_history.row(index) is not None for index in cause.rows)
    assert cause.step is None or this_history.row(cause.step) is not None


def test_record_that_a_read_passed_over_was_removed_by_no_step() -> None:
    """Every replica holds it: who looks for a truncation looks in the wrong place."""
    this_history = history("bad/acked-loss-read-past")
    cause = cause_of(this_history, judge(this_history))

    assert cause is not None
    assert (cause.name, cause.step) == ("read-past", 25)
    assert cause.sentence.endswith("; client 2 read past offset 1 at 0.025 s without y, although b1, b2 and b3 held it.")


def test_read_by_an_unknown_broker_is_told_without_one() -> None:
    this_history = history("bad/monotonic-hw-read-above")
    cause = cause_of(this_history, judge(this_history))

    assert cause is not None
    assert "client 2 read x at offset 0 at 0.009 s" in cause.sentence


def test_not_live_replica_tells_its_restart_and_lost_command() -> None:
    """KAFKA-1120: the controller takes a broker that came back for the one before, and repeats what is not answered."""
    this_history = history_of(
        "state-written node=b4 leader=b1 leader_epoch=0 isr=b1,b2",
        "became-leader node=b1 leader_epoch=0 isr=b1,b2",
        "node-stopped node=b1 detail=power-loss",
        "node-started node=b1",
        "command-unanswered node=b4 broker=b1 detail=UpdateMetadata",
        "command-unanswered node=b4 broker=b1 detail=UpdateMetadata",
    )
    lack = "b1 acts in no epoch of t-0, ZooKeeper has 0, at the end"
    cause = cause_of(this_history, merge([Findings(not_live=(lack,), live_judged=True)]))

    assert cause is not None
    assert cause.step == 4
    assert {2, 3, 4} <= {*cause.rows}


def test_duplicate_that_only_its_readers_tell_has_a_sentence() -> None:
    """Without rows of brokers nobody knows who appended the record twice; the produce was never answered."""
    this_history = history_of(
        "invoke produce process=2 value=a delivery=once", "ok poll offset=0 value=a", "ok poll offset=1 value=a"
    )
    twice = Anomaly(kind="duplicate", checker="duplicates", key="t-0", witness=(2, 4), words="a is at offsets 0 and 1")
    cause = cause_of(this_history, merge([Findings(anomalies=(twice,))]))

    assert cause is not None
    assert cause.sentence.startswith("duplicate on t-0: a is at offsets 0 and 1; ")


def test_not_live_run_tells_the_moves_that_it_still_has() -> None:
    """A request under /admin is about no single partition, and its rows are about one."""
    this_history = history_of("reassignment-begun node=b1", "session-ended node=b2")
    verdict = merge([Findings(not_live=("the move of t-0 is still requested under /admin at the end",), live_judged=True)])
    cause = cause_of(this_history, verdict)

    assert cause is not None
    assert 0 in cause.rows


@pytest.mark.parametrize("name", FAILED)
def test_facts_of_a_cause_are_in_the_rows_beside_it(name: str) -> None:
    """A reader of a page has the sentence and its rows: whom a replica follows, which ISR counts and who holds the record."""
    this_history = history(name)
    verdict = judge(this_history)
    cause = cause_of(this_history, verdict)
    assert cause is not None
    rows_shown = [row for index in (*cause.rows, *cause.facts) for row in _rows_at(this_history, index)]
    events = [row for row in rows_shown if isinstance(row, ClusterEvent)]
    sentence = "" if not cause.rows or cause.words in cause.sentence else cause.sentence

    moments = {seconds(row.time_ns) for row in rows_shown}
    assert [moment for moment in re.findall(r"\d+\.\d{3} s", sentence) if moment not in moments] == []
    followed = {row.leader for row in events if row.kind is EventKind.BECAME_FOLLOWER}
    assert [leader for leader in re.findall(r"as a follower of (\w+)", sentence) if events and leader not in followed] == []
    sets = {names(members) for row in events for members in (row.isr, row.elr)}
    assert [members for members in re.findall(r"\{[\w,]*\}", sentence) if members not in sets] == []
    holders = {row.node for row in events if row.kind is EventKind.APPEND}
    still = re.search(r"although (.*?) still held it|while (.*?), which held it", sentence)
    assert [node for node in re.findall(r"\bb\d", still[0] if still else "") if node not in holders] == []
    ends_known = {
        number for row in events for number in (row.leo, row.offset, row.offset + 1 if row.offset is not None else None)
    }
    assert [end for end in re.findall(r"ended at (\d+)", sentence) if events and int(end) not in ends_known] == []


def _rows_at(of: History, index: int) -> tuple[Operation | ClusterEvent, ...]:
    found = of.row(index)
    return found if isinstance(found, tuple) else () if found is None else (found,)
