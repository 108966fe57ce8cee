"""LIVE-5: after the bound each kind of request of clients and administrators is carried out (docs/promise.md)."""

import pytest

from checkers.judge import judge
from checkers.sketches import sketch
from history.event import EventKind
from history.op import OpType
from tests.checkers.story import BOUND_NS, MS, HistoryBuilder, lose_power
from tests.checkers.test_availability import quiet_cluster


def after_the_bound() -> tuple[HistoryBuilder, int]:
    """A healed cluster whose bound has passed, and the time of healing."""
    builder = quiet_cluster()
    healed_at = builder.time_ns
    builder.time_ns += BOUND_NS
    return builder, healed_at


def not_live(builder: HistoryBuilder, healed_at: int) -> tuple[str, ...]:
    builder.event(EventKind.FINAL_READS, whole_node=True)
    return judge(builder.history(healed_at_ns=healed_at)).not_live


@pytest.mark.parametrize(("outcome", "served"), [(OpType.OK, True), (OpType.FAIL, False), (OpType.INFO, False)])
def test_admin_request_that_fails_after_the_bound_is_not_live(outcome: OpType, served: bool) -> None:
    builder, healed_at = after_the_bound()
    builder.op(9, OpType.INVOKE, "add-partition", ({"value": "orders-7 on 1,2,3"},))
    builder.op(9, outcome, "add-partition", ({"error": None if served else "REQUEST_TIMED_OUT"},))

    missed = ("add-partition orders-7 on 1,2,3 was requested after the bound and failed: REQUEST_TIMED_OUT",)

    assert not_live(builder, healed_at) == (() if served else missed)


@pytest.mark.parametrize(
    ("leader", "f", "error", "served"),
    [
        (None, "reassign", "REASSIGNMENT_IN_PROGRESS", True),
        ("b1", "reassign", "REASSIGNMENT_IN_PROGRESS", False),
        (None, "reassign", "REQUEST_TIMED_OUT", False),
        (None, "add-partition", "REQUEST_TIMED_OUT", False),
    ],
    ids=["move waits", "all have leaders", "no answer", "no move"],
)
def test_move_may_wait_for_one_of_an_emptied_partition(leader: str | None, f: str, error: str, served: bool) -> None:
    """SILENT-2: a partition without a leader cannot be moved, and all moves share one znode."""
    builder, healed_at = after_the_bound()
    lose_power(builder, "b1 b2 b3", why="swapped")
    builder.state(leader, 2, "b1 b2 b3")
    builder.time_ns += BOUND_NS
    builder.op(9, OpType.INVOKE, f, ({"value": "orders-7 on 1,2,3"},))
    builder.op(9, OpType.FAIL, f, ({"error": error},))
    missed = f"{f} orders-7 on 1,2,3 was requested after the bound and failed: {error}"

    assert (missed not in not_live(builder, healed_at)) is served


@pytest.mark.parametrize(("waited_ms", "missed"), [(900, ()), (1200, ("process 9 waited 1200 ms",))])
def test_admin_request_after_the_bound_waits_a_second_at_most(waited_ms: int, missed: tuple[str, ...]) -> None:
    """LIVE-8."""
    builder, healed_at = after_the_bound()
    builder.op(9, OpType.INVOKE, "depose-controller")
    builder.time_ns += (waited_ms - 1) * MS
    builder.op(9, OpType.OK, "depose-controller")
    builder.event(EventKind.FINAL_READS, whole_node=True)
    complaints = judge(builder.history(healed_at_ns=healed_at, backend="sim")).not_live

    assert tuple(words.partition(" for ")[0] for words in complaints) == missed


def test_admin_request_that_fails_before_the_bound_is_live() -> None:
    builder = quiet_cluster()
    builder.op(9, OpType.INVOKE, "depose-controller")
    builder.op(9, OpType.INFO, "depose-controller")
    healed_at = builder.time_ns
    builder.time_ns += BOUND_NS

    assert not_live(builder, healed_at) == ()


@pytest.mark.parametrize(("replicas", "led"), [(("b1", "b2", "b3"), True), (("b2", "b1", "b3"), False)])
def test_preferred_replica_leads_after_its_late_election(replicas: tuple[str, ...], led: bool) -> None:
    """R-147: b1 leads at the end; the first replica is the preferred one."""
    builder = quiet_cluster()
    builder.event(EventKind.ASSIGNED, replicas=replicas)
    healed_at = builder.time_ns
    builder.time_ns += BOUND_NS
    builder.op(9, OpType.INVOKE, "elect-preferred", ({"value": "orders-0"},))
    builder.op(9, OpType.OK, "elect-preferred")

    missed = ("b1 leads orders-0 at the end, though its preferred replica b2 was elected after the bound",)

    assert not_live(builder, healed_at) == (() if led else missed)


def test_partition_moved_later_needs_no_preferred_leader() -> None:
    builder, healed_at = after_the_bound()
    builder.op(9, OpType.INVOKE, "elect-preferred", ({"value": "orders-0"},))
    builder.op(9, OpType.OK, "elect-preferred")
    builder.event(EventKind.ASSIGNED, replicas=("b2", "b1", "b3"))

    assert not_live(builder, healed_at) == ()


@pytest.mark.parametrize(("f", "words"), [("poll", "poll of"), ("latest", "question for the latest offset of")])
def test_request_never_served_after_the_bound_is_not_live(f: str, words: str) -> None:
    builder, healed_at = after_the_bound()
    builder.op(9, OpType.INVOKE, f, ({"offset": 0} if f == "poll" else {},))
    builder.op(9, OpType.FAIL, f)

    assert not_live(builder, healed_at) == (f"no {words} orders-0 was answered with success after the bound",)


def knows_the_leader(builder: HistoryBuilder, process: int) -> None:
    """The process has a record acknowledged under acks=all, and its request timeout passes after the last write of a state."""
    builder.invoke_produce(process, "x2")
    builder.append("b1 b2 b3", 1, "x2")
    builder.hw("b1", 2)
    builder.produce_ok(process, "x2", 1)


@pytest.mark.parametrize(("outcome", "served"), [(OpType.OK, True), (OpType.INFO, False)])
def test_process_knowing_the_leader_is_answered_under_acks_1(outcome: OpType, served: bool) -> None:
    builder, healed_at = after_the_bound()
    knows_the_leader(builder, 9)
    builder.invoke_produce(9, "y", acks=1)
    builder.append("b1 b2 b3", 2, "y")
    builder.hw("b1", 3)
    builder.op(9, outcome, "produce")

    missed = ("no acks=1 produce to orders-0 was answered with success after the bound",)

    assert not_live(builder, healed_at) == (() if served else missed)


def test_partition_unknown_to_the_client_is_not_judged() -> None:
    """librdkafka refuses to send to it by itself, so nothing was asked of the cluster."""
    builder, healed_at = after_the_bound()
    builder.invoke_produce(9, "y")
    builder.op(9, OpType.FAIL, "produce", ({"error": "_UNKNOWN_PARTITION"},))

    assert not_live(builder, healed_at) == ()


@pytest.mark.parametrize(("error", "served"), [("OUT_OF_ORDER_SEQUENCE_NUMBER", False), ("REQUEST_TIMED_OUT", True)])
def test_process_knowing_the_leader_is_not_refused(error: str, served: bool) -> None:
    """A slow machine may let a request time out; a refusal is the protocol's."""
    builder, healed_at = after_the_bound()
    knows_the_leader(builder, 9)
    at = builder.invoke_produce(9, "y")
    builder.op(9, OpType.FAIL, "produce", ({"error": error},))

    missed = (f"process 9 knew the leader of orders-0 and got {error} for its produce at row {at}",)

    assert not_live(builder, healed_at) == (() if served else missed)


def test_stale_metadata_may_lose_a_record_under_acks_0() -> None:
    """No answer tells it that it asks the wrong broker: only what it sends after an acknowledgement is judged."""
    builder, healed_at = after_the_bound()
    builder.invoke_produce(9, "y", acks=0)
    builder.op(9, OpType.OK, "produce")
    knows_the_leader(builder, 9)
    builder.state("b1", 1, "b1 b2 b3", version=1)
    builder.invoke_produce(9, "z", acks=0)
    builder.op(9, OpType.OK, "produce")

    assert not_live(builder, healed_at) == ()


@pytest.mark.parametrize("arrives", [True, False])
def test_late_record_under_acks_0_must_be_in_the_log(arrives: bool) -> None:
    """acks=0 has no answer that could say that the leader took the record."""
    builder, healed_at = after_the_bound()
    knows_the_leader(builder, 9)
    builder.invoke_produce(9, "y", acks=0)
    builder.op(9, OpType.OK, "produce")
    if arrives:
        builder.append("b1 b2 b3", 2, "y")
        builder.hw("b1", 3)

    missed = ("none of 1 records that were sent to orders-0 with acks=0 after the bound is in the log at the end",)

    assert not_live(builder, healed_at) == (() if arrives else missed)


def test_partition_added_after_the_bound_need_not_exist_before() -> None:
    builder, healed_at = after_the_bound()
    partition_7 = builder.on_partition(7)
    partition_7.event(EventKind.ASSIGNED, replicas=("b1", "b2", "b3"))
    partition_7.state("b1", 0, "b1 b2 b3")
    partition_7.leads("b1", 0, leo=0, isr="b1 b2 b3")
    for node in ("b2", "b3"):
        partition_7.follows(node, 0, "b1")

    assert not_live(builder, healed_at) == ()


_ASKED = "invoke delete-topic value=a process=0 time_ns=5000000"
_MOVE = ("invoke reassign value=t-0 process=0", "fail reassign process=0 error=REASSIGNMENT_IN_PROGRESS")
_REFUSED = "fail delete-topic process=0 error=REASSIGNMENT_IN_PROGRESS time_ns=9000000"


@pytest.mark.parametrize(
    ("before", "refused", "is_reported"),
    [
        ((), (_ASKED, _REFUSED), True),
        (("invoke delete-topic value=b process=1",), (_ASKED, _REFUSED), False),
        (("invoke delete-topic value=b process=1", "info delete-topic process=1"), (_ASKED, _REFUSED), False),
        (("invoke delete-topic value=b process=1", "ok delete-topic process=1"), (_ASKED, _REFUSED), True),
        (("invoke elect-preferred value=t-0 process=1",), (_ASKED, _REFUSED), True),
        (("invoke edit-znode value=/admin/x process=1",), (_ASKED, _REFUSED), False),
        ((), ("invoke create-topic value=t process=0", "fail create-topic process=0 error=TOPIC_ALREADY_EXISTS"), False),
        ((), ("invoke create-topic value=u process=0", "fail create-topic process=0 error=TOPIC_ALREADY_EXISTS"), True),
        (
            ("invoke create-topic value=u process=1", "ok create-topic process=1"),
            ("invoke create-topic value=u process=0", "fail create-topic process=0 error=TOPIC_ALREADY_EXISTS"),
            False,
        ),
        (("invoke reassign-extra value=u-0 process=1", "ok reassign-extra process=1"), _MOVE, False),  # seed 34
        (("invoke cancel-reassignments process=1", "ok cancel-reassignments process=1"), _MOVE, True),
    ],
    ids=[
        *("alone", "another is open", "another may stand", "another is done", "another kind", "by hand", "first", "new", "made"),
        *("an extra move", "a cancellation"),
    ],
)
def test_request_is_refused_only_because_of_another(before: tuple[str, ...], refused: tuple[str, ...], is_reported: bool) -> None:
    found = sketch("availability-cluster", "registered node=b1 incarnation=1", *before, *refused, "healed time_ns=10000000")

    assert any("though no other such request" in words for words in found) is is_reported
