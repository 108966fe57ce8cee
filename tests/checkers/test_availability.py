"""Liveness after healing: what is judged, when, and which silence is right (docs/promise.md §6)."""

import msgspec
import pytest

from checkers.engine.facts import facts_of
from checkers.engine.tables import Operations
from checkers.engine.verdict import Verdict
from checkers.judge import judge
from checkers.liveness.audits import pending_requests
from checkers.sketches import sketch
from history.event import EventKind
from history.history import History
from history.manifest import Assignment
from history.op import OpType
from proof.manifests import promise
from tests.checkers.corpus import history as stored
from tests.checkers.story import BOUND_NS, MS, HistoryBuilder, commit_record, healthy_partition, lose_power


def healed_history(builder: HistoryBuilder, **facts: object) -> History:
    """Let the bound pass after the rows so far; then the run ends."""
    healed_at = builder.time_ns
    builder.time_ns += BOUND_NS
    builder.event(EventKind.FINAL_READS, whole_node=True)
    return builder.history(healed_at_ns=healed_at, **facts)


def quiet_cluster(m: int = 2) -> HistoryBuilder:
    """One committed record; all brokers agree."""
    builder = healthy_partition(promise(m=m))
    builder.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b2", controller_epoch=1)
    for node in ("b2", "b3"):
        builder.follows(node, 1, "b1")
    commit_record(builder)
    return builder


def test_liveness_is_not_judged_if_run_ends_before_the_bound() -> None:
    history = stored("ok/availability-whole-again")
    early = msgspec.structs.replace(history.manifest, end_ns=BOUND_NS)

    assert judge(History(early, operations=history.operations, events=history.events)).live is None


def test_liveness_of_an_interrupted_run_is_not_judged() -> None:
    history = stored("ok/availability-whole-again")
    stopped = msgspec.structs.replace(history.manifest, outcome="interrupted")

    assert judge(History(stopped, operations=history.operations, events=history.events)).live is None


def test_cluster_without_faults_is_live() -> None:
    verdict = judge(healed_history(quiet_cluster()))

    assert (verdict.live, verdict.not_live) == (True, ())


def test_cluster_that_elects_nobody_is_not_live() -> None:
    builder = HistoryBuilder(promise(m=2))
    for node, incarnation in (("b1", 11), ("b2", 12), ("b3", 13)):
        builder.event(EventKind.REGISTERED, whole_node=True, node=node, incarnation=incarnation)
    history = healed_history(builder)
    assignments = (Assignment(topic="orders", partition=0, replicas=("b1", "b2", "b3")),)
    manifest = msgspec.structs.replace(history.manifest, assignments=assignments)
    verdict = judge(History(manifest, operations=history.operations, events=history.events))

    assert verdict.live is False
    assert {"no broker is controller at the end", "orders-0 never had a leader"} <= set(verdict.not_live)


def test_leaders_without_states_leave_the_cluster_unchecked() -> None:
    history = healed_history(quiet_cluster())
    unseen = tuple(event for event in history.events if event.kind is not EventKind.STATE_WRITTEN)
    verdict = judge(History(history.manifest, operations=history.operations, events=unseen))

    assert "availability-cluster: became-leader rows, but no state-written rows" in verdict.unchecked


@pytest.mark.parametrize(("backend", "waited_ms", "live"), [("sim", 999, True), ("sim", 1100, False), ("process", 1100, True)])
def test_request_after_the_bound_waits_a_second_at_most(backend: str, waited_ms: int, live: bool) -> None:
    """LIVE-8: only simulated machines are never late."""
    builder = quiet_cluster()
    healed_at = builder.time_ns
    builder.time_ns += BOUND_NS
    builder.op(3, OpType.INVOKE, "poll", ({"offset": 0},))
    builder.time_ns += waited_ms * MS - MS
    builder.op(3, OpType.OK, "poll", ({"offset": 0, "value": "x", "leader_epoch": 1},))
    builder.event(EventKind.FINAL_READS, whole_node=True)
    slow = builder.history(healed_at_ns=healed_at, backend=backend)

    assert judge(slow).live is live


def test_partition_whose_replicas_were_all_emptied_is_live() -> None:
    """SILENT-2: it waits for an operator, and no other partition is affected."""
    builder = quiet_cluster()
    lose_power(builder, "b1 b2 b3", why="swapped")
    for node, incarnation in (("b1", 21), ("b2", 22), ("b3", 23)):
        builder.registered(node, incarnation)
    builder.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b3", controller_epoch=2)
    builder.state(None, 2, "b1 b2 b3")

    verdict = judge(healed_history(builder))

    assert (verdict.live, verdict.counts["offline_rightly"]) == (True, 1)


def emptied_and_healed() -> tuple[HistoryBuilder, int]:
    """A cluster whose only partition lost all replicas, at the bound after healing; and the time of healing."""
    builder = quiet_cluster()
    lose_power(builder, "b1 b2 b3", why="swapped")
    builder.state(None, 2, "b1 b2 b3")
    healed_at = builder.time_ns
    builder.time_ns += BOUND_NS
    return builder, healed_at


@pytest.mark.parametrize(("error", "is_reported"), [("LEADER_NOT_AVAILABLE", True), ("REQUEST_TIMED_OUT", False)])
def test_clients_are_told_that_emptied_partition_has_no_leader(error: str, is_reported: bool) -> None:
    """SILENT-2: error 5, which says more than that time is up."""
    builder, healed_at = emptied_and_healed()
    builder.invoke_produce(7, "y")
    builder.op(7, OpType.FAIL, "produce", ({"value": "y", "acks": -1, "error": error},))
    builder.event(EventKind.FINAL_READS, whole_node=True)

    complaints = judge(builder.history(healed_at_ns=healed_at)).not_live

    assert ("no client was told that orders-0 has no leader" not in complaints) is is_reported


def test_clients_that_are_served_need_not_be_told_of_no_leader() -> None:
    """SILENT-2 is about an offline partition; another call was acknowledged."""
    builder, healed_at = emptied_and_healed()
    builder.invoke_produce(7, "y")
    builder.op(7, OpType.FAIL, "produce", ({"value": "y", "acks": -1, "error": "REQUEST_TIMED_OUT"},))
    builder.invoke_produce(8, "z")
    builder.op(8, OpType.OK, "produce", ({"value": "z", "acks": -1, "offset": 0},))
    builder.event(EventKind.FINAL_READS, whole_node=True)

    assert "no client was told that orders-0 has no leader" not in judge(builder.history(healed_at_ns=healed_at)).not_live


def test_partition_offline_after_power_loss_is_not_live() -> None:
    builder = quiet_cluster()
    lose_power(builder, "b1 b2 b3")
    for node, incarnation in (("b1", 21), ("b2", 22), ("b3", 23)):
        builder.registered(node, incarnation)
    builder.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b3", controller_epoch=2)
    builder.state(None, 2, "b1 b2 b3")

    verdict = judge(healed_history(builder))

    assert verdict.not_live == ("orders-0 has no leader at the end",)


def before_it_heard(*, made: bool = False, why: str | None = "swapped") -> Verdict:
    """A new partition whose whole ISR is b1, which dies before it hears so (or has made its log, and not in that directory)."""
    builder = HistoryBuilder(promise())
    for node, incarnation in (("b1", 11), ("b2", 12), ("b3", 13)):
        builder.registered(node, incarnation)
    builder.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b2", controller_epoch=1)
    builder.state("b1", 0, "b1", stamps=(11,))
    if made:
        builder.leads("b1", 0, leo=0, isr="b1")
    if why is not None:
        builder.event(EventKind.WOUND, whole_node=True, node="b1", incarnation=11, dir=0, detail=why)
    builder.session_ended("b1", 11)
    builder.state(None, 1, "b1", version=1, stamps=(11,))
    builder.registered("b1", 21)
    return judge(healed_history(builder))


def test_partition_with_dir_swapped_before_log_may_be_offline() -> None:
    """SILENT-2, DUR-6: b1 comes back with an empty directory and cannot know whether it held a log."""
    verdict = before_it_heard()

    assert (verdict.live, verdict.counts["offline_rightly"]) == (True, 1)


@pytest.mark.parametrize(("made", "why"), [(False, None), (False, "power-loss"), (True, "swapped")])
def test_dir_swap_does_not_excuse_another_offline_partition(made: bool, why: str | None) -> None:
    """SILENT-2 is about swapped directories; a log that was made has a wound row of its own."""
    assert before_it_heard(made=made, why=why).not_live == ("orders-0 has no leader at the end",)


def test_broker_that_missed_a_leader_epoch_is_not_live() -> None:
    builder = quiet_cluster()
    builder.state("b1", 2, "b1 b2 b3")
    builder.leads("b1", 2, leo=1, hw=1)
    builder.follows("b2", 2, "b1")

    verdict = judge(healed_history(builder))

    assert verdict.not_live == ("b3 acts in epoch 1 of orders-0, ZooKeeper has 2, at the end",)


def test_operation_that_never_ends_is_not_live() -> None:
    builder = quiet_cluster()
    at = builder.invoke_produce(7, "late")

    verdict = judge(healed_history(builder))

    assert verdict.not_live == (f"process 7 got no answer to its produce at row {at}",)


def test_partition_without_acks_after_the_bound_is_not_live() -> None:
    builder = quiet_cluster()
    healed_at = builder.time_ns
    builder.time_ns += BOUND_NS
    builder.invoke_produce(1, "y")
    builder.produce_fail(1, "y")

    verdict = judge(builder.history(healed_at_ns=healed_at))

    assert verdict.not_live == ("no acks=all produce to orders-0 was answered with success after the bound",)


def test_first_ack_within_the_bound_after_healing_is_in_time() -> None:
    builder = quiet_cluster()
    healed_at = builder.time_ns
    builder.time_ns += BOUND_NS - 100 * MS
    builder.invoke_produce(1, "y")
    builder.append("b1 b2 b3", 1, "y")
    builder.hw("b1", 2)
    builder.produce_ok(1, "y", 1)
    builder.time_ns += 200 * MS
    builder.event(EventKind.FINAL_READS, whole_node=True)

    assert judge(builder.history(healed_at_ns=healed_at)).live is True


def test_partition_that_was_never_created_is_not_live() -> None:
    builder = quiet_cluster()
    history = healed_history(builder)
    second_assignments = (*history.manifest.assignments, msgspec.structs.replace(history.manifest.assignments[0], partition=1))

    verdict = judge(
        History(msgspec.structs.replace(history.manifest, assignments=second_assignments), operations=(), events=history.events)
    )

    assert verdict.not_live == ("orders-1 never had a leader",)


def test_pending_admin_request_at_the_end_is_not_live() -> None:
    """LIVE-4: a request that stays in /admin never ended; without an answer there is no evidence that it did."""
    rows: tuple[tuple[OpType, tuple[dict[str, object], ...]], ...] = (
        (OpType.OK, ({},)),
        (OpType.OK, ({"value": "/admin/delete_topics"},)),
        (OpType.FAIL, ({"error": "REQUEST_TIMED_OUT"},)),
    )
    found = []
    for type_, completed in rows:
        builder = healthy_partition()
        at = builder.op(9, OpType.INVOKE, "admin-pending")
        builder.op(9, type_, "admin-pending", completed)
        history = builder.history(final_reads_at_ns=0)
        assert at > 0
        found.append(pending_requests(Operations(history.operations_frame).calls, facts_of(history.manifest)))

    assert found == [
        [],
        ["/admin/delete_topics is still requested at the end"],
        ["at the end no administrator could read the open requests under /admin"],
    ]


def test_moved_partition_is_judged_by_its_new_assignment() -> None:
    """LIVE-2, V3 §F: the ISR must hold the replicas of the new assignment, not those of the plan."""
    builder = quiet_cluster()
    builder.event(EventKind.ASSIGNED, replicas=("b1", "b2"))
    builder.state("b1", 2, "b1 b2")
    builder.leads("b1", 2, leo=1, hw=1, isr="b1 b2")
    builder.follows("b2", 2, "b1")
    builder.event(EventKind.REPLICA_DELETED, node="b3")

    assert judge(healed_history(builder)).not_live == ()


def test_added_partition_must_have_a_full_isr() -> None:
    """LIVE-2, V3 §H: its assignment is in ZooKeeper, not in the plan."""
    builder = quiet_cluster().on_partition(1)
    builder.event(EventKind.ASSIGNED, replicas=("b1", "b2"))
    builder.state("b1", 0, "b1")
    builder.leads("b1", 0, leo=0, isr="b1")
    builder.follows("b2", 0, "b1")

    assert "b2 not in the ISR of orders-1 at the end" in judge(healed_history(builder)).not_live


def test_reassignment_of_an_emptied_partition_may_be_pending() -> None:
    """SILENT-2, LIVE-4: without a leader a move waits for the operator; with a leader it must end."""
    for leader, why in ((None, False), ("b1", True)):
        builder = quiet_cluster()
        lose_power(builder, "b1 b2 b3", why="swapped")
        builder.state(leader, 2, "b1 b2 b3")
        builder.time_ns += BOUND_NS
        final = builder.event(EventKind.FINAL_READS, whole_node=True)
        builder.op(50, OpType.INVOKE, "admin-pending")
        builder.op(50, OpType.OK, "admin-pending", ({"value": "/admin/reassign_partitions"},))
        history = builder.history(healed_at_ns=0, final_reads_at_ns=final * MS)

        said = judge(history).not_live

        assert ("/admin/reassign_partitions is still requested at the end" in said) is why


def test_replica_logs_of_equal_length_but_other_values_differ() -> None:
    """LIVE-2: logs must be equal; b3 has another record instead of x."""
    builder = quiet_cluster()
    builder.truncate("b3", 0)
    builder.event_append("b3", 0, "y", 1)

    verdict = judge(healed_history(builder))

    assert any("the log of b3 differs from that of leader" in complaint for complaint in verdict.not_live)


def test_offline_at_the_bound_is_not_excused_by_later_loss() -> None:
    """SILENT-2 is judged at each moment: B after healing no replica was emptied, and there was no leader."""
    builder = healthy_partition()
    builder.state(None, 2, "b1 b2 b3")
    builder.time_ns += 2 * BOUND_NS
    healed_at = builder.time_ns - 2 * BOUND_NS
    for node, incarnation in (("b1", 11), ("b2", 12), ("b3", 13)):
        builder.wound(node, 0, incarnation, "swapped")

    verdict = judge(builder.history(healed_at_ns=healed_at))

    assert "orders-0 has no leader B after healing" in verdict.not_live


def test_topic_that_was_made_and_never_led_is_told() -> None:
    builder = quiet_cluster()
    builder.on_partition(3).event(EventKind.ASSIGNED, replicas=("b1", "b2", "b3"))

    assert "orders-3 never had a leader" in judge(healed_history(builder)).not_live


def test_topic_that_was_made_and_deleted_need_not_be_led() -> None:
    builder = quiet_cluster()
    builder.on_partition(3).event(EventKind.ASSIGNED, replicas=("b1", "b2", "b3"))
    builder.event(EventKind.TOPIC_DELETED)

    assert judge(healed_history(builder)).not_live == ()


def test_end_offset_that_an_answer_leaves_out_is_told() -> None:
    builder = quiet_cluster()
    builder.op(7, OpType.INVOKE, "latest")
    at = builder.op(7, OpType.OK, "latest", ({"leader_epoch": 1},))

    assert f"process 7 was told no end offset of orders-0 by the answer at row {at}" in judge(healed_history(builder)).not_live


ENTRIES = '{"topic":"orders","partition":0,"replicas":[1,2,3]},{"topic":"orders"},7'
WRITTEN = "/admin/reassign_partitions created with '{\"partitions\":[%s]}'"


@pytest.mark.parametrize(
    ("entries", "then", "heard"),
    [
        (ENTRIES, None, False),
        (ENTRIES, "refused", True),
        (ENTRIES, "begun", True),
        (ENTRIES, "/admin/reassign_partitions deleted", True),
        (ENTRIES, "cancel-reassignments", True),
        (ENTRIES, WRITTEN % "7", False),  # the znode of the first request was free, so somebody had read it
        (ENTRIES.replace("[1,2,3]", "[1,1]"), None, True),
        (ENTRIES.replace("[1,2,3]", "[3,2,1]"), None, True),
        (ENTRIES.replace('"partition":0', '"partition":8'), None, True),
    ],
)
def test_valid_entry_beside_an_invalid_one_is_heard(entries: str, then: str | None, *, heard: bool) -> None:
    """LIVE-4, KAFKA-2234."""
    builder = quiet_cluster()
    builder.event(EventKind.ASSIGNED, replicas=("b3", "b2", "b1"))
    builder.op(10, OpType.INVOKE, "edit-znode", ({"value": WRITTEN % entries},))
    builder.op(10, OpType.OK, "edit-znode")
    if then == "begun":
        builder.event(EventKind.REASSIGNMENT_BEGUN, node="b1", detail="forward to 1,2,3")
    elif then == "refused":
        builder.event(EventKind.REASSIGNMENT_REFUSED, node="b1", detail="why")
    elif then is not None:
        f = then if then.startswith("cancel") else "edit-znode"
        builder.op(10, OpType.INVOKE, f, ({"value": then},))
        builder.op(10, OpType.OK, f, ({"value": then},))

    assert any("which nobody heard" in complaint for complaint in judge(healed_history(builder)).not_live) is not heard


@pytest.mark.parametrize(
    ("text", "then", "is_reported"),
    [
        ("no json", None, True),
        ("no json", "/admin/reassign_partitions: 1 entries are invalid", False),
        ("no json", "/admin/reassign_partitions_extra: 1 entries are invalid", True),
        ('{"partitions":7}', None, True),
        ('{"partitions":[]}', None, False),
    ],
)
def test_what_is_no_request_is_refused_by_name(text: str, then: str | None, *, is_reported: bool) -> None:
    """LIVE-4: nothing else tells the operator why it is gone."""
    builder = quiet_cluster()
    builder.op(10, OpType.INVOKE, "edit-znode", ({"value": f"/admin/reassign_partitions created with {text!r}"},))
    builder.op(10, OpType.OK, "edit-znode")
    if then is not None:
        builder.event(EventKind.REQUEST_REFUSED, whole_node=True, node="b1", detail=then)

    assert any("nobody refused it" in complaint for complaint in judge(healed_history(builder)).not_live) is is_reported


@pytest.mark.parametrize(
    ("f", "value", "effect"),
    [
        ("create-topic", "events on 1,2,3", EventKind.ASSIGNED),
        ("delete-topic", "events", EventKind.TOPIC_DELETED),
        ("reassign", "events-0 on 1,2,3", EventKind.REASSIGNMENT_BEGUN),
    ],
)
@pytest.mark.parametrize(
    ("outcome", "rival", "complaints_expected"), [("fail", None, 1), ("info", None, 0), ("fail", "ok", 0), ("fail", "fail", 2)]
)
def test_refused_request_is_not_carried_out(
    f: str, value: str, effect: EventKind, outcome: str, rival: str | None, complaints_expected: int
) -> None:
    """LIVE-5: the znode that an administrator finds may be its own."""
    builder = quiet_cluster()
    builder.op(10, OpType.INVOKE, f, ({"value": value},))
    if rival is not None:
        builder.op(11, OpType.INVOKE, f, ({"value": value},))
    detail = "forward to 1,2,3" if effect is EventKind.REASSIGNMENT_BEGUN else None
    builder.event(effect, topic="events", topic_id="9", replicas=("b1", "b2", "b3"), node="b1", detail=detail)
    builder.op(10, OpType(outcome), f)
    if rival is not None:
        builder.op(11, OpType(rival), f)

    assert (
        sum("though it was carried out" in complaint for complaint in judge(healed_history(builder)).not_live)
        == complaints_expected
    )


@pytest.mark.parametrize(("ms", "is_reported"), [(59_000, True), (59_999, False)], ids=["long before", "just before"])
def test_leader_that_was_just_replaced_may_still_answer(ms: int, is_reported: bool) -> None:
    """A client without retries then asks it once too often (seed 10499 of `--faults all`)."""
    rows = (
        "state-written leader=b1 isr=b1,b2",
        "healed time_ns=1000000000",
        f"state-written leader=b2 isr=b1,b2 leader_epoch=2 time_ns={ms}000000",
        "invoke produce acks=-1 value=a process=3 time_ns=60000000000",
        "ok produce value=a offset=0 process=3 time_ns=60005000000",
        "invoke produce acks=1 value=b process=3 time_ns=60500000000",
        "fail produce error=NOT_LEADER_OR_FOLLOWER process=3 time_ns=60501000000",
        "final-reads time_ns=90000000000",
    )

    findings = sketch("availability", *rows)

    assert any("process 3 knew the leader" in words for words in findings) is is_reported
