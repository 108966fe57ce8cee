"""A move that nothing hinders takes its next step at once (docs/promise.md LIVE-12)."""

import pytest

from checkers.liveness.debts import DUE_MS, RETRY_MS, TERM_MS, TURN_MS
from tests.checkers.test_promptness import LAST, complaints, row_at

ENDED_MOVE = "reassignment-ended node=b9"


@pytest.mark.parametrize(
    ("way", "is_reported"),
    [("forward to 1,2", True), ("forward to 1,3", False), ("back to 1,3", False), ("back to 2,1", True)],
    ids=["target in the ISR", "target not in the ISR", "too few of the target", "rollback"],
)
def test_move_goes_on_once_its_target_is_in_the_isr(way: str, is_reported: bool) -> None:
    """V3 §F, KIP-236; a rollback needs min.insync.replicas of the target replicas (R-244), here two."""
    words = way.replace("1", "b1").replace("2", "b2").replace("3", "b3").replace(",", ", ")
    stands = [f"the move of t-0 {words} took no step {DUE_MS} ms after row {LAST + 1}"]

    assert complaints(f"reassignment-begun node=b9 detail='{way}'") == (stands if is_reported else [])
    assert complaints(f"reassignment-begun node=b9 detail='{way}'", ENDED_MOVE) == []


def test_move_that_ended_a_step_owes_the_next_one() -> None:
    rows = "reassignment-begun node=b9 detail='forward to 1,2'", "assigned replicas=b1,b2"

    assert complaints(*rows) == [f"the move of t-0 forward to b1, b2 took no step {DUE_MS} ms after row {LAST + 2}"]


def test_replica_that_a_move_stopped_is_told_nothing() -> None:
    """It waits for others to stop, too, before the assignment is smaller (seed 1500 of `--faults all`)."""
    move_begun, left = "reassignment-begun node=b9 detail='forward to 1,2'", "resigned node=b3"
    elected = "state-written node=b9 leader=b2 isr=b1,b2 stamps=1,2 leader_epoch=2"
    followers_know = [f"became-follower node={node} leader=b2 leader_epoch=2" for node in ("b1", "b2")]

    assert complaints(move_begun, left, elected, *followers_know, ENDED_MOVE) == []
    assert complaints("ok edit-znode value=/admin/reassign_partitions", move_begun, left, elected, *followers_know) == []
    assert complaints(move_begun, "resigned node=b2", elected, followers_know[0], ENDED_MOVE) != []


@pytest.mark.parametrize(
    ("way", "isr", "is_reported"),
    [
        ("forward to 1,2", "b1,b2", False),
        ("forward to 1,2", "b2,b3", True),
        ("forward to 2,3", "b2,b3", True),
        ("back to 1,3", "b1,b2", True),
        ("", "b1,b2", True),
    ],
    ids=["leaves", "target not in the ISR", "stays", "stays, target not in the ISR", "no move"],
)
def test_replica_that_leaves_is_told_nothing(way: str, isr: str, is_reported: bool) -> None:
    """R-234: the controller has the target assignment in memory as soon as the ISR allows it (seed 70454 of `--faults all`)."""
    move_begun = (f"reassignment-begun node=b9 detail='{way}'",) if way else ()
    shrunk = f"state-written node=b9 leader=b2 isr={isr} stamps={isr.replace('b', '')}"
    elected = row_at(f"state-written node=b9 leader=b2 isr={isr} stamps={isr.replace('b', '')} leader_epoch=2", TERM_MS)
    followers_know = [row_at(f"became-follower node={node} leader=b2 leader_epoch=2", TERM_MS) for node in ("b1", "b2")]
    complaint = f"b3 does not know epoch 2 of t-0 {DUE_MS} ms after row {LAST + len(move_begun) + 2}"

    ended = row_at(ENDED_MOVE, TERM_MS) if way else row_at("final-reads", TERM_MS)

    assert (complaint in complaints(*move_begun, shrunk, elected, *followers_know, ended)) is is_reported


def test_replica_that_leaves_is_told_nothing_of_a_shorter_isr() -> None:
    """The write that names the target replicas alone may also take one that died out of the ISR."""
    rows = "reassignment-begun node=b9 detail='forward to 1,2'", "state-written node=b9 leader=b2 isr=b1,b2 stamps=1,2"
    elected = "state-written node=b9 leader=b2 isr=b2 stamps=2 leader_epoch=2"
    followers_know = [f"became-follower node={node} leader=b2 leader_epoch=2" for node in ("b1", "b2")]

    assert complaints(*rows, elected, *followers_know, ENDED_MOVE) == []


def test_move_that_an_operator_may_have_stopped_owes_no_step() -> None:
    """The entry of the move may be gone from /admin/reassign_partitions (seeds 207, 213 and 227 of `--faults all`)."""
    move_begun, edit = "reassignment-begun node=b9 detail='forward to 1,2'", "ok edit-znode value=/admin/reassign_partitions"

    assert complaints(move_begun, edit) == []
    assert complaints(edit, move_begun) == []
    assert complaints("ok poll offset=0", move_begun) != []


def test_move_does_not_wait_for_an_inactive_broker() -> None:
    """R-183, R-244: the move goes on without the answer of an inactive broker, whatever fault it has."""
    fault = "fault-begun fault=f node=b3 detail=cut-peers-long"
    move_begun = "reassignment-begun node=b9 detail='forward to 1,2'"
    inactive = "broker-state node=b9 broker=b3 incarnation=3 detail=inactive"

    assert complaints(fault, move_begun) == []
    assert complaints(fault, move_begun, inactive) == [
        f"the move of t-0 forward to b1, b2 took no step {DUE_MS} ms after row {LAST + 3}"
    ]


@pytest.mark.parametrize(("back", "is_reported"), [("incarnation=7", False), ("incarnation=2", True)], ids=["anew", "in the ISR"])
def test_move_waits_for_target_replicas_that_registered_anew(back: str, is_reported: bool) -> None:
    """They join the ISR first; where nobody else is in it, after a recovery election (docs/promise.md SILENT-1)."""
    move_begun = row_at("reassignment-begun node=b9 detail='forward to 1,2'", TERM_MS)
    ended = row_at("session-ended node=b2 incarnation=2", TERM_MS + 100)
    stands = f"the move of t-0 forward to b1, b2 took no step {DUE_MS} ms after row {LAST + 1}"

    assert (stands in complaints(move_begun, ended, row_at(f"registered node=b2 {back}", TERM_MS + 200))) is is_reported


@pytest.mark.parametrize(
    "other_write", ["assigned partition=1 replicas=b1", "reassignment-begun node=b9 partition=1 detail='forward to 1'"]
)
@pytest.mark.parametrize(("more_ms", "is_reported"), [(0, False), (10, True)])
def test_move_may_repeat_a_write_that_met_another_one(other_write: str, more_ms: int, is_reported: bool) -> None:
    """The agent's multi checks every version that it read; it waits for retry.backoff.ms (seed 130179 of `--faults all`)."""
    move_begun = row_at("reassignment-begun node=b9 detail='forward to 1,2'", TERM_MS)
    ended = row_at("reassignment-ended node=b9 detail='forward to 1,2'", TERM_MS + 100 + DUE_MS + RETRY_MS + more_ms)
    complaint = f"the move of t-0 forward to b1, b2 took no step {DUE_MS + RETRY_MS} ms after row {LAST + 1}"

    assert (complaint in complaints(move_begun, row_at(other_write, TERM_MS + 100), ended)) is is_reported


def test_move_waits_for_a_broker_that_is_active_again() -> None:
    """It may have a replica to be deleted (seed 60632 of `--faults all`)."""
    fault = "fault-begun fault=f node=b3 detail=cut-peers-long"
    move_begun = "reassignment-begun node=b9 detail='forward to 1,2'"
    states_in_memory = [f"broker-state node=b9 broker=b3 incarnation=3 detail={what}" for what in ("inactive", "active")]

    assert complaints(fault, move_begun, *states_in_memory) == []


@pytest.mark.parametrize("what", ["stopping", "inactive"])
def test_move_waits_for_a_stopping_process_with_a_session(what: str) -> None:
    """The controller asks it in vain until then (seeds 60291 and 60597 of `--faults all`)."""
    states_in_memory = f"broker-state node=b9 broker=b3 incarnation=3 detail={what}"
    move_begun = "reassignment-begun node=b9 detail='forward to 1,2'"

    lines = complaints(states_in_memory, "node-stopped node=b3 detail=shutdown", move_begun)

    assert ("took no step" in " ".join(lines)) is (what == "inactive")


@pytest.mark.parametrize(("others", "is_reported"), [(0, True), (2, False)])
def test_move_waits_for_writes_of_other_moves(others: int, is_reported: bool) -> None:
    """Seed 70592 of `--faults all`: five moves at once, and a step took 587 ms."""
    moves = [f"reassignment-begun node=b9 partition={number} detail='forward to 1,2'" for number in (*range(1, others + 1), 0)]

    lines = complaints(*moves, row_at("reassignment-ended node=b9 detail='forward to 1,2'", TERM_MS + DUE_MS + 2 * TURN_MS - 10))

    assert ("the move of t-0" in " ".join(lines)) is is_reported
