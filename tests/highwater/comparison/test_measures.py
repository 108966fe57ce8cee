"""What is measured of a run, on histories written by hand: each row is a millisecond later than the one before."""

import pytest

from highwater.backends.sim.backend import SimBackend
from highwater.comparison.coordination import Coordination, Looking
from highwater.comparison.measures import MEASURES, Performed
from highwater.comparison.pairs import measured
from highwater.runs.provenance import present_build
from highwater.runs.run import perform
from history.event import EventKind
from history.op import OpType
from tests.checkers.story import HistoryBuilder
from tests.highwater.shrink.plans import plan_with

OF = {measure.name: measure.of for measure in MEASURES}


def figure(name: str, builder: HistoryBuilder) -> float | None:
    return OF[name](Performed(history=builder.history(), coordination=Coordination()))


def moved(builder: HistoryBuilder, kind: EventKind, words: str) -> None:
    builder.event(kind, node="b1", detail=words)


def test_latency_counts_acknowledged_produces_to_all() -> None:
    builder = HistoryBuilder()
    builder.produce(0, "a", 0, acks=1)  # a row for the invocation, a row for the answer
    assert figure("produce_median_ms", builder) is None

    builder.produce(0, "b", 1)

    assert figure("produce_median_ms", builder) == 1


def test_slowest_produce_is_seen_beside_the_median() -> None:
    builder = HistoryBuilder()
    builder.produce(0, "a", 0)
    builder.produce(0, "b", 1)
    builder.invoke_produce(1, "c", -1)
    builder.invoke_produce(2, "d", -1)
    builder.produce_ok(1, "c", 2)

    assert (figure("produce_median_ms", builder), figure("produce_p99_ms", builder)) == (1, 2)


def test_leaderless_time_begins_when_the_leader_ends() -> None:
    builder = HistoryBuilder()
    builder.leads("b1", 1, leo=0)
    builder.event(EventKind.NODE_STOPPED, whole_node=True, node="b2", life=1, detail="crash")  # a follower
    builder.event(EventKind.NODE_STOPPED, whole_node=True, node="b1", life=1, detail="crash")
    builder.follows("b3", 2, "b2")
    builder.leads("b2", 2, leo=0)

    assert figure("leaderless_most_ms", builder) == 2


def test_partition_that_gets_no_leader_again_has_no_sample() -> None:
    builder = HistoryBuilder()
    builder.leads("b1", 1, leo=0)
    builder.event(EventKind.NODE_STOPPED, whole_node=True, node="b1", life=1, detail="crash")

    assert figure("leaderless_median_ms", builder) is None


def test_isr_change_lasts_until_its_outcome_is_known() -> None:
    builder = HistoryBuilder()
    builder.change_isr("b1", 1, ("b1",))
    builder.change_isr("b1", 1, ("b1",))  # sent again
    builder.change_isr("b1", 1, ("b1",), ended=True)

    assert figure("isr_change_median_ms", builder) == 2


@pytest.mark.parametrize(("rows", "move", "cancel"), [
    (["begun forward to 1,2", "ended forward to 1,2"], 1, None),
    (["begun forward to 1,2", "begun forward to 1,2", "ended forward to 1,2"], 2, None),
    (["begun forward to 1,2", "begun back to 2,3", "ended back to 2,3"], None, 1),
    (["begun forward to 1,2"], None, None),
])  # fmt: skip
def test_move_and_its_cancellation_are_timed_apart(rows: list[str], move: float | None, cancel: float | None) -> None:
    builder = HistoryBuilder()
    for row in rows:
        kind = EventKind.REASSIGNMENT_BEGUN if row.startswith("begun ") else EventKind.REASSIGNMENT_ENDED
        moved(builder, kind, row.partition(" ")[2])

    assert (figure("move_median_ms", builder), figure("cancel_median_ms", builder)) == (move, cancel)


def test_copies_are_in_vain_where_the_replica_is_deleted() -> None:
    builder = HistoryBuilder()
    builder.append("b1 b2 b3", 0, "a")
    builder.append("b1 b2 b3", 1, "b")
    assert figure("copied_in_vain", builder) is None

    builder.event(EventKind.REPLICA_DELETED, node="b3", life=1)

    assert figure("copied_in_vain", builder) == 2


@pytest.mark.slow
def test_looking_at_zookeeper_changes_no_run() -> None:
    plan, build = plan_with(1), present_build()
    looking = Looking()

    watched = perform(plan, SimBackend(watch=looking.watch), build).history

    assert watched.digest == perform(plan, SimBackend(), build).history.digest
    assert looking.seen.transactions > 0
    assert looking.seen.watches > 0
    assert measured(plan, build).figures["zookeeper_writes"] == looking.seen.transactions


def test_wanted_replicas_count_from_the_last_request() -> None:
    """A move to the first target is none to the second, whenever it ends."""
    builder = HistoryBuilder()
    for replicas in ("2,3", "2,4"):
        builder.op(1, OpType.INVOKE, "reassign-extra", ({"value": f"orders-0 on {replicas}"},))
    moved(builder, EventKind.REASSIGNMENT_ENDED, "forward to 2,3")
    assert figure("wanted_median_ms", builder) is None

    moved(builder, EventKind.REASSIGNMENT_ENDED, "forward to 2,4")
    moved(builder, EventKind.REASSIGNMENT_ENDED, "forward to 2,4")

    assert figure("wanted_median_ms", builder) == 2


def test_refused_request_asks_for_no_replicas() -> None:
    builder = HistoryBuilder()
    builder.op(1, OpType.INVOKE, "reassign-extra", ({"value": "orders-0 on 2,3"},))
    builder.op(1, OpType.OK, "reassign-extra", ({"value": "orders-0 on 2,3"},))
    builder.op(1, OpType.INVOKE, "reassign-extra", ({"value": "orders-0 on 3,4"},))
    builder.op(1, OpType.FAIL, "reassign-extra", ({"value": "orders-0 on 3,4"},))
    moved(builder, EventKind.REASSIGNMENT_ENDED, "forward to 2,3")

    assert figure("wanted_median_ms", builder) == 4


def test_leader_is_not_ready_from_the_write_until_it_leads() -> None:
    builder = HistoryBuilder()
    builder.state("b1", 1, "b1 b2")
    builder.leads("b1", 1, leo=0)
    builder.state("b2", 2, "b2")
    builder.follows("b1", 2, "b2")
    builder.leads("b2", 2, leo=0)
    builder.state("b2", 3, "b2 b1")
    builder.leads("b2", 3, leo=0)  # it was ready

    assert (figure("unready_median_ms", builder), figure("unready_most_ms", builder)) == (1.5, 2)


@pytest.mark.parametrize(("by", "count"), [("b1", 0), ("b2", 1)])
def test_refusals_of_the_named_leader_are_counted(by: str, count: int) -> None:
    """The old leader refuses, too; that is no fault of the way in which clients are routed to the new one."""
    builder = HistoryBuilder()
    builder.state("b1", 1, "b1 b2")
    builder.state("b2", 2, "b2")
    builder.op(1, OpType.INVOKE, "produce")
    builder.op(1, OpType.FAIL, "produce", ({"error": "NOT_LEADER_OR_FOLLOWER", "node": by},))

    assert figure("refused_unready", builder) == count


def shuts_down(builder: HistoryBuilder, kind: str = "shutdown") -> None:
    builder.event(EventKind.FAULT_BEGUN, whole_node=True, node="b3", fault="f1", detail=kind)


def test_every_record_acknowledged_to_all_counts() -> None:
    builder = HistoryBuilder()
    builder.produce(0, "a", 0, acks=1)
    builder.produce(0, "b", 1)
    builder.invoke_produce(1, "c")
    builder.produce_info(1, "c")

    assert figure("acknowledged", builder) == 1
    builder.op(2, OpType.INVOKE, "produce", tuple({"value": value, "acks": -1} for value in "de"))
    builder.op(2, OpType.OK, "produce", tuple({"value": value, "acks": -1, "offset": at} for at, value in enumerate("de", 2)))
    assert figure("acknowledged", builder) == 3
    assert figure("produce_median_ms", builder) == 1


def test_produces_in_the_second_after_a_shutdown_are_measured() -> None:
    """What is asked for within the second counts until its answer, and what is acknowledged within it."""
    builder = HistoryBuilder()
    builder.invoke_produce(1, "early")
    shuts_down(builder)
    builder.produce_ok(1, "early", 0)
    builder.invoke_produce(1, "within")
    builder.time_ns += 2_000_000_000
    builder.produce_ok(1, "within", 1)
    builder.produce(1, "late", 2)

    assert (figure("acknowledged", builder), figure("shutdown_acknowledged", builder)) == (3, 1)
    assert figure("shutdown_most_ms", builder) == figure("shutdown_p99_ms", builder) == 2001


def test_run_without_a_controlled_shutdown_has_no_such_figure() -> None:
    builder = HistoryBuilder()
    shuts_down(builder, "crash-random")
    builder.produce(1, "a", 0)

    assert (figure("shutdown_acknowledged", builder), figure("shutdown_most_ms", builder)) == (None, None)
