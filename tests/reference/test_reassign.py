"""Reassigning partitions, statement by statement: the znodes, V3 §F, and requests that are refused or must wait."""

import pytest
from msgspec.structs import replace

from reference.config import VARIANTS
from reference.controller.context import MoveStep
from reference.controller.leader_selection import Keep, members_wanted, shrink_to_target
from reference.coordination import admin_paths, paths
from reference.coordination.api import AnyAnswer, AnyOp, Create, Delete, SetData
from reference.coordination.memory import Fired
from reference.coordination.reassignment_requests import decode_request
from reference.errors import ErrorCode
from reference.events import AnyEvent, Received
from reference.messages import (
    Fetch,
    LeaderAndIsr,
    MetadataHeartbeat,
    StopReplica,
    StopReplicaReply,
)
from reference.replica.partition import Follower
from reference.types import (
    Address,
    TopicPartition,
)
from tests.reference.lab import T0, Envelope, carries
from tests.reference.moving import (
    GHOST,
    OAR,
    RAR,
    Mortal,
    assigned_replicas,
    broker_ids,
    brokers_with_log,
    cluster,
    controller_steps,
    fetches_from,
    is_moved_to,
    pending_moves,
    reassign,
    reassignment_of,
    request_rollback,
    stuck_move,
    wait_until,
    write,
    znode_data,
)
from tests.reference.recorded import settled_cluster, shrink

# --- the znodes ---------------------------------------------------------------------------------------------------------------


def test_reassignment_znodes_have_the_documented_paths() -> None:
    """R-148, R-231, R-233, R-245, R-246: operators and their scripts use them by name."""
    assert admin_paths.REASSIGN == "/admin/reassign_partitions"
    assert admin_paths.REASSIGN_EXTRA == "/admin/reassign_partitions_extra"
    assert admin_paths.REASSIGN_CANCEL == "/admin/reassign_cancel"
    assert admin_paths.REQUEST == "/admin/reassignment_requests/request_"
    assert admin_paths.reassignment_path(T0) == "/admin/reassignments/t/0"


def test_controller_obeys_requests_at_the_documented_paths() -> None:
    """R-148, R-231, R-233: a move, another one beside it, and their rollback, each written by its literal path."""
    lab = stuck_move()
    write(lab, Create("/admin/reassign_partitions_extra", admin_paths.reassignments_payload(reassignment_of((2, 3)))))
    assert wait_until(lab, lambda: is_moved_to(lab, (2, 3)))
    lab = cluster()
    lab.is_held = fetches_from(4, 5, 6)
    write(lab, Create("/admin/reassign_partitions", admin_paths.reassignments_payload(reassignment_of(RAR))))
    assert assigned_replicas(lab) == (*OAR, *RAR)
    write(lab, Create("/admin/reassign_cancel", b""))

    assert wait_until(lab, lambda: is_moved_to(lab, OAR))


def test_reassignment_entry_has_the_documented_json() -> None:
    """R-148, R-230: the example of KIP-236, with `original_replicas`; R-231: without them in the extra znode."""
    tp = TopicPartition("foo1-0")
    with_original = b'{"version":1,"partitions":[{"topic":"foo1","partition":0,"replicas":[1,2,4],"original_replicas":[1,2,3]}]}'
    without = b'{"version":1,"partitions":[{"topic":"foo1","partition":0,"replicas":[1,2,5]}]}'

    assert admin_paths.reassignments_payload(reassignment_of((1, 2, 4), (1, 2, 3), tp)) == with_original
    assert admin_paths.reassignments_payload(reassignment_of((1, 2, 5), (), tp)) == without
    assert admin_paths.decode_reassignments(with_original) == (reassignment_of((1, 2, 4), (1, 2, 3), tp), 0)


@pytest.mark.parametrize(
    "row",
    [
        '{"topic":"t","partition":0}',
        '{"topic":"t","partition":"zero","replicas":[1]}',
        '{"topic":"t","partition":-1,"replicas":[1]}',
        '{"topic":"t","partition":0,"replicas":[]}',
        '{"topic":"t","partition":0,"replicas":[1,1]}',
        '{"topic":"t","partition":0,"replicas":[-1]}',
        '{"topic":"","partition":0,"replicas":[1]}',
        "7",
    ],
)
def test_malformed_reassignment_entry_is_skipped(row: str) -> None:
    """R-003, KAFKA-2234: one bad entry, as with two replicas on one broker, never blocks the others."""
    good = '{"topic":"t","partition":1,"replicas":[2,3]}'
    decoded = admin_paths.decode_reassignments(f'{{"version":1,"partitions":[{row},{good}]}}'.encode())

    requested = decode_request(b'{"version":1,"assignments":{"t":{"0":[1,1],"1":[2,3],"2":[-1],"3":[]}}}')  # of proposal B

    assert decoded == (reassignment_of((2, 3), (), TopicPartition("t-1")), 1)
    assert requested.replicas == {TopicPartition("t-1"): (2, 3)}


def test_v3_reassignment_path_names_one_partition() -> None:
    """R-006, C-06: /admin/partitions_reassigned/[topic]/[partition]."""
    assert admin_paths.partition_reassigned_path(T0) == "/admin/partitions_reassigned/t/0"


def test_reassignment_by_the_v3_path_is_done_and_removed() -> None:
    """R-006, R-049, R-052, R-054, C-06, V3 §F step 1 and step 3.2.6, to the letter where the letter works."""
    lab = cluster(VARIANTS["v3"])
    path = admin_paths.partition_reassigned_path(T0)
    roots = (Create(admin_paths.PARTITIONS_REASSIGNED, b""), Create(f"{admin_paths.PARTITIONS_REASSIGNED}/t", b""))
    write(lab, *roots, Create(path, paths.replicas_payload(broker_ids(*RAR))))

    assert wait_until(lab, lambda: assigned_replicas(lab) == RAR and znode_data(lab, path) is None)
    assert (sorted(lab.isr()), brokers_with_log(lab)) == ([4, 5, 6], [4, 5, 6])
    assert znode_data(lab, f"{admin_paths.PARTITIONS_REASSIGNED}/t") is None


# --- V3 §F --------------------------------------------------------------------------------------------------------------------


def test_reassignment_without_dead_brokers_needs_no_timer() -> None:
    """R-054, R-148, V3 §F on_wakeup: no broker is down; in the end only the brokers in RAR have the partition."""
    lab = cluster()
    reassign(lab, (6, 4, 5))

    assert is_moved_to(lab, (6, 4, 5))
    assert lab.now < 4000  # before the agent's timer


def test_controller_reads_a_reassignment_when_it_is_written() -> None:
    """R-049, V3 §F step 1: on_partitions_reassigned gets set_p; R-050, V3 §F step 1.1.2: it wakes the agent up."""
    lab = stuck_move()

    assert list(lab.nodes[1].state.controller.agent.moves) == [T0]


def test_new_replicas_of_a_reassignment_become_followers() -> None:
    """R-050, R-051, V3 §F step 2.1, step 2.2: LeaderAndISR to the brokers in RAR, and the move is in progress."""
    lab = stuck_move()

    assert all(isinstance(lab.partition(i).role, Follower) for i in RAR)
    assert lab.nodes[1].state.controller.agent.moves[T0].step == "joining"
    lab = cluster()
    epoch = lab.state().leader_epoch
    reassign(lab, (3, 1))  # no replica is new
    assert wait_until(lab, lambda: is_moved_to(lab, (3, 1)))
    assert lab.state().leader_epoch == epoch + 3  # all are told to begin, one of RAR leads, the ISR is cut


def test_new_replica_is_told_to_begin_after_a_change_under_way() -> None:
    """R-051: the ISR is being changed when the move begins, and that change is told to no follower."""
    lab = settled_cluster("safe", brokers=5)
    lab.delays_write = lambda i, _: i == 1
    shrink(lab, 4)
    lab.settle()
    assert len(lab.delayed_writes) == 1
    write(lab, Create("/admin", b""), Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignment_of((2, 3, 5)))))
    assert lab.nodes[1].state.controller.agent.moves[T0].step == "joining"
    lab.release_writes()
    lab.settle()

    assert isinstance(lab.partition(5).role, Follower)


def test_only_new_replicas_of_a_reassignment_are_marked_new() -> None:
    """R-302, R-308: is_new_replica is set for the replicas that are to be created, and for no other."""
    lab = cluster()
    lab.is_held = carries(LeaderAndIsr)
    reassign(lab)

    news = {to: message.new for _, to, message in lab.in_flight if isinstance(message, LeaderAndIsr)}
    assert news == {"b1": (), "b2": (), "b3": (), "b4": (T0,), "b5": (T0,), "b6": (T0,)}
    lab = cluster()
    lab.is_held = carries(Fetch, sender="b3")
    lab.produce(1, "m2")
    lab.wait(9000)
    assert lab.isr() == [1, 2]
    told: set[tuple[str, tuple[TopicPartition, ...]]] = set()

    def watching(envelope: Envelope) -> bool:
        if isinstance(envelope.message, LeaderAndIsr) and envelope.message.states:
            told.add((envelope.receiver, envelope.message.new))
        return fetches_from(3, 5, 6)(envelope)

    lab.is_held = watching
    reassign(lab, (3, 4, 5))
    assert sorted(lab.isr()) == [1, 2, 4]
    assert told == {("b1", ()), ("b2", ()), ("b3", ()), ("b4", (T0,)), ("b5", (T0,))}  # b3 had its replica before
    told.clear()
    lab.remove_dead_broker(1)  # the next controller begins again

    assert {new for to, new in told if to in ("b3", "b4")} == {()}


def test_reassignment_first_adds_new_replicas_to_the_assignment() -> None:
    """C-12: AR := OAR + RAR in the topic znode, so that a failover and a starting broker find the new replicas."""
    assert assigned_replicas(stuck_move()) == (*OAR, *RAR)
    assert assigned_replicas(stuck_move("reassign-without-widening")) == OAR


def test_leader_without_the_new_assignment_adds_no_replica() -> None:
    """C-12: with V3's order "the leader has no reason to accept RAR in ISR"."""
    lab = cluster(VARIANTS["reassign-without-widening"])
    reassign(lab)
    lab.wait(20_000)

    assert (sorted(lab.isr()), assigned_replicas(lab)) == ([1, 2, 3], OAR)


def test_reassignment_waits_for_new_replicas_to_join_the_isr() -> None:
    """R-052, V3 §F step 3.1, step 3.2: until then leader, ISR and old replicas stay as they are."""
    lab = stuck_move()
    lab.wait(5000)
    assert (lab.isr(), lab.leaders(), brokers_with_log(lab)) == ([1, 2, 3], [1], [1, 2, 3, 4, 5, 6])
    lab.is_held = fetches_from(6)
    lab.wait(5000)
    assert (lab.isr(), lab.leaders()) == ([1, 2, 3, 4, 5], [1])
    variant, state = lab.configs[1].variant, replace(lab.state(), replicas=broker_ids(*RAR))
    wanted = members_wanted(lab.configs[1], state, lab.nodes[1].state.controller.agent.moves[T0])
    live = {broker: lab.nodes[broker].state.broker.incarnation for broker in state.replicas}
    assert shrink_to_target(variant, state, live, wanted) == Keep()  # b6 may also leave again after a leader was elected
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


@pytest.mark.parametrize(("protocol", "done"), [("safe", True), ("reassign-isr-is-all", False)])
def test_dead_old_replica_does_not_block_the_reassignment(protocol: str, done: bool) -> None:
    """R-052, R-148, C-11: V3 §F step 3.2 waits for ISR == AR + RAR, which never comes if a member of AR is dead."""
    lab = cluster(VARIANTS[protocol])
    lab.remove_dead_broker(3)
    reassign(lab)
    wait_until(lab, lambda: assigned_replicas(lab) == RAR and pending_moves(lab) is None, limit_ms=10_000)

    assert (assigned_replicas(lab), pending_moves(lab) is None) == ((RAR, True) if done else ((*OAR, *RAR), False))


def test_old_replica_on_a_dead_broker_is_deleted_at_its_start() -> None:
    """V3 §E step 4: replicas of a dead broker are deleted when the broker starts."""
    lab = cluster()
    lab.remove_dead_broker(3)
    reassign(lab)
    assert wait_until(lab, lambda: assigned_replicas(lab) == RAR)
    assert brokers_with_log(lab) == [3, 4, 5, 6]
    lab.start(3)
    lab.settle()

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_reassignment_performs_its_steps_in_order() -> None:
    """R-053, R-054, V3 §F step 3.2.1: one after the other under one controller; AR is narrowed last (B-59).

    V3 §F step 3.2.2, V3 §F step 3.2.3, V3 §F step 3.2.4, V3 §F step 3.2.5, V3 §F step 3.2.6, V3 §F step 3.2.7.
    """
    lab = cluster()
    lab.clear_record()
    reassign(lab)
    by_controller = [word for word in controller_steps(lab) if not word.startswith(("state: 1 leads 1,2,3,4", "command"))]

    assert by_controller == [
        "AR 1,2,3,4,5,6",
        f"{admin_paths.REASSIGN}: 4,5,6 from 1,2,3",
        "state: 1 leads 1,2,3",
        "state: 4 leads 1,2,3,4,5,6",
        "state: 4 leads 4,5,6",
        "stop",
        "delete",
        "AR 4,5,6",
        f"gone: {admin_paths.REASSIGN}",
    ]
    assert [word for word in lab.steps if word.startswith("command")][-1] == "command: 4 leads 4,5,6 of 4,5,6"


def test_reassignment_rereads_the_isr_after_a_version_conflict() -> None:
    """R-054, V3 §F step 3.2.2: the write is conditional on the version that was read."""
    lab = stuck_move()
    before = lab.state()
    write(lab, SetData(paths.state_path(T0), paths.state_payload(before), before.zk_version))
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_reassignment_stops_old_replicas_before_it_deletes_them() -> None:
    """R-054, R-236, R-237: StopReplica(delete=false), answered by all, then StopReplica(delete=true)."""
    lab = cluster()
    lab.is_held = carries(StopReplica, receiver="b3")
    reassign(lab)
    stops = [message.partitions[0].delete for _, _, message in lab.in_flight if isinstance(message, StopReplica)]

    assert (stops, brokers_with_log(lab), assigned_replicas(lab)) == ([False], [1, 2, 3, 4, 5, 6], (*OAR, *RAR))
    lab = stuck_move()
    lab.is_held = carries(StopReplica, receiver="b5")
    request_rollback(lab)
    stops = [message.partitions[0].delete for _, _, message in lab.in_flight if isinstance(message, StopReplica)]

    assert (stops, brokers_with_log(lab)) == ([False], [1, 2, 3, 4, 5, 6])


def test_offline_replica_does_not_block_the_reassignment() -> None:
    """R-308: StopReplica fails there; the broker deletes the replica when it starts and finds no assignment."""
    lab = cluster()
    lab.is_held = carries(StopReplica, receiver="b3")
    reassign(lab)
    for _ in range(2):
        ((_, _, stop),) = [envelope for envelope in lab.in_flight if isinstance(envelope.message, StopReplica)]
        lab.drop(carries(StopReplica))
        failed = StopReplicaReply(stop.correlation, ErrorCode.NONE, ((T0, ErrorCode.KAFKA_STORAGE_ERROR),))
        lab.handle_event(1, Received(Address("b3"), failed))
        lab.settle()

    assert (assigned_replicas(lab), pending_moves(lab), brokers_with_log(lab)) == (RAR, None, [3, 4, 5, 6])


def test_fenced_stop_replica_restarts_the_reassignment() -> None:
    """KIP-570: the replica knows a later epoch than the controller, from a write whose answer was lost."""
    lab = cluster()
    lab.is_held = carries(StopReplica, receiver="b3")
    reassign(lab)
    ((_, _, stop),) = [envelope for envelope in lab.in_flight if isinstance(envelope.message, StopReplica)]
    lab.drop(carries(StopReplica))
    fenced = StopReplicaReply(stop.correlation, ErrorCode.NONE, ((T0, ErrorCode.FENCED_LEADER_EPOCH),))
    epoch = lab.state().leader_epoch
    lab.handle_event(1, Received(Address("b3"), fenced))
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))
    assert lab.state().leader_epoch > epoch


def test_broker_that_read_the_old_assignment_drops_its_replica() -> None:
    """B-59: the broker registers after the last StopReplica was answered, and before AR is narrowed."""
    lab = cluster()
    lab.remove_dead_broker(3)
    lab.before["AR 4,5,6"] = lambda: lab.start(3)
    reassign(lab)

    assert lab.before == {}
    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


class _Returning(Mortal):
    """A cluster whose controller hears broker 3 again between the last step of a move and the write of the assignment."""

    is_back = False

    def handle_event(self, i: int, event: AnyEvent) -> None:
        move = self.nodes[1].state.controller.agent.moves.get(T0) if 1 in self.nodes else None
        if not self.is_back and move is not None and move.step is MoveStep.NARROWING:
            self.is_back = True
            beats = [
                envelope
                for envelope in self.in_flight
                if envelope.sender == "b3" and isinstance(envelope.message, MetadataHeartbeat)
            ]
            super().handle_event(1, Received(Address("b3"), beats[-1][2]))
        super().handle_event(i, event)


def test_broker_that_returns_is_waited_for_before_ar_narrows() -> None:
    """R-236, R-238: a silent broker counts as absent; one that is heard again answers StopReplica before AR leaves it out."""
    lab = cluster(kind=_Returning)
    assert isinstance(lab, _Returning)
    lab.is_held = lambda envelope: (
        "b3" in (envelope.sender, envelope.receiver) and isinstance(envelope.message, StopReplica | MetadataHeartbeat)
    )
    lab.wait(6000)
    reassign(lab)
    narrowed = assigned_replicas(lab) == RAR
    lab.is_held = lambda _: False

    assert (lab.is_back, narrowed) == (True, False)
    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_move_ends_though_a_broker_registers_meanwhile() -> None:
    """A broker that registers while the entry is being removed is told to delete its replica; the move is done all the same."""
    lab = cluster()

    def registers() -> None:
        lab.nodes[1].state.controller.agent.moves[T0].step = MoveStep.DELETING  # as `reassign.move.proceed` does

    lab.before[f"gone: {admin_paths.REASSIGN}"] = registers
    reassign(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, RAR))
    epoch = lab.state().leader_epoch
    lab.wait(2000)

    assert lab.before == {}
    assert [n.kind for _, n in lab.notes if n.kind.startswith("reassignment")] == ["reassignment-begun", "reassignment-ended"]
    assert lab.state().leader_epoch == epoch


# --- invalid requests, and those that must wait -------------------------------------------------------------------------------


def test_unknown_partition_does_not_block_other_reassignments() -> None:
    """KAFKA-2234, KAFKA-9478: entries with an unknown topic or partition are dropped, the others are moved."""
    lab = cluster()
    reassignments = reassignment_of(RAR) | reassignment_of((4,), (), GHOST) | reassignment_of((5,), (), TopicPartition("t-7"))
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignments)))

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


@pytest.mark.parametrize("payload", [b"{", b"", b'{"version":1,"partitions":[]}', b'{"version":1,"partitions":[{"topic":"t"}]}'])
def test_unreadable_reassignment_is_dropped(payload: bytes) -> None:
    """KAFKA-9478: neither znode stays behind."""
    lab = cluster()
    write(lab, Create(admin_paths.REASSIGN, payload), Create(admin_paths.REASSIGN_EXTRA, payload))
    lab.wait(3000)

    assert is_moved_to(lab, OAR)


@pytest.mark.parametrize("replicas", [(1, 2, 3), (3, 1, 2)])
def test_reassignment_to_the_present_replicas_ends_at_once(replicas: tuple[int, ...]) -> None:
    """R-148: another order is another preferred replica; no replica copies data."""
    lab = cluster()
    reassign(lab, replicas)

    assert is_moved_to(lab, replicas)


def test_reassignment_to_too_few_replicas_is_refused() -> None:
    """As R-253 for proposal B: with fewer than min.insync.replicas, no record could be committed."""
    lab = cluster()
    reassign(lab, (4,))

    assert is_moved_to(lab, OAR)
    assert [n.kind for _, n in lab.notes if n.kind.startswith("reassignment")] == ["reassignment-refused"]


def test_controller_says_which_reassignments_it_refuses() -> None:
    lab = cluster()
    ghost = admin_paths.reassignments_payload(reassignment_of(RAR, tp=GHOST))
    write(lab, Create(admin_paths.REASSIGN, ghost))
    lab.wait(5000)
    write(lab, Create(admin_paths.REASSIGN, b'{"version":1,"partitions":[7,{"topic":"t","partition":0,"replicas":[1,1]}]}'))
    lab.wait(5000)

    lines = [n.detail for _, n in lab.notes if n.kind == "request-refused"]
    assert list(dict.fromkeys(lines)) == [
        f"{admin_paths.REASSIGN}: no such partition: {GHOST}",
        f"{admin_paths.REASSIGN}: 2 entries are invalid",
    ]
    assert (is_moved_to(lab, OAR), pending_moves(lab)) == (True, None)


def test_reassignment_waits_for_a_new_replica_that_is_down() -> None:
    """B-58, KAFKA-4214: when the broker starts, the move goes on."""
    lab = cluster()
    lab.remove_dead_broker(5)
    reassign(lab)
    lab.wait(5000)
    assert (sorted(lab.isr()), pending_moves(lab)) == ([1, 2, 3, 4, 6], reassignment_of(RAR, OAR))
    lab.start(5)
    lab.settle()

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_deleting_the_znode_by_hand_stops_the_reassignment() -> None:
    """The way to stop a reassignment before KIP-236: AR stays OAR + RAR and is served."""
    lab = stuck_move()
    write(lab, Delete(admin_paths.REASSIGN))
    lab.is_held = lambda _: False
    lab.wait(5000)

    assert (assigned_replicas(lab), sorted(lab.isr()), lab.nodes[1].state.controller.agent.moves) == (
        (*OAR, *RAR),
        [1, 2, 3, 4, 5, 6],
        {},
    )


def test_topic_deleted_during_reassignment_leaves_no_replica() -> None:
    """Deletion goes by AR, which names all holders of a replica."""
    lab = stuck_move()
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: znode_data(lab, paths.topic_path("t")) is None)
    assert brokers_with_log(lab) == []


@pytest.mark.parametrize("successor", [False, True], ids=["same controller", "next controller"])
def test_entry_of_a_move_is_gone_before_its_topic(successor: bool) -> None:
    """It names original replicas: a topic that is created again would be rolled back to those (seed 1614 of `--faults all`)."""
    lab = stuck_move()
    if successor:
        lab.remove_dead_broker(1)
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))
    remaining_moves = []

    def note(_: object) -> bool:
        if znode_data(lab, paths.topic_path("t")) is None:
            remaining_moves.append(pending_moves(lab))
        return False

    lab.is_held = note
    lab.wait(20_000)

    assert remaining_moves
    assert not any(remaining_moves)


def test_deletion_waits_for_an_entry_that_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's write fails once and is repeated after a pause; the topic's znode must not go before."""
    lab = stuck_move()
    entry = znode_data(lab, admin_paths.REASSIGN)
    assert entry is not None
    submit = lab.zk.submit
    raced: list[object] = []
    topics: list[object] = []

    def race(self: object, session: int, ops: tuple[AnyOp, ...], *, atomic: bool = False) -> tuple[tuple[AnyAnswer, ...], Fired]:
        if not raced and any(isinstance(op, Delete) and op.path == admin_paths.REASSIGN for op in ops):
            raced.append(self)
            submit(lab.admin, (SetData(admin_paths.REASSIGN, entry),))
        if any(isinstance(op, Delete) and op.path == paths.topic_path("t") for op in ops):
            topics.append(pending_moves(lab))
        return submit(session, ops, atomic=atomic)

    monkeypatch.setattr(type(lab.zk), "submit", race)
    lab.is_held = lambda _: False
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))
    lab.wait(20_000)

    assert (len(raced), topics) == (1, [None])


def test_controller_sees_a_reassignment_changed_in_place() -> None:
    """KAFKA-9478, B-58: the znode changes while it exists; the controller misses this if it does not set its watch again."""
    late_tp = TopicPartition("t-7")
    found = {}
    for protocol in ("safe", "reassign-failover-zombie"):
        lab = cluster(VARIANTS[protocol])
        write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignment_of((4, 5), (), late_tp))))
        if pending_moves(lab) is None:
            reassign(lab)
        else:
            for reassignments in (reassignment_of((4,), (), GHOST), reassignment_of(RAR)):
                write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignments)))
        lab.wait(5000)
        found[protocol] = assigned_replicas(lab)

    assert found == {"safe": RAR, "reassign-failover-zombie": OAR}
