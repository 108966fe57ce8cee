"""Partitions are given other replicas: V3 §F and KIP-236 proposal A, statement by statement."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from reference.config import VARIANTS
from reference.controller import reassign_selection
from reference.controller.context import Move
from reference.controller.leader_selection import Elect, Keep
from reference.coordination import admin_paths, paths
from reference.coordination.api import Create, Delete, SetData, Unknown
from reference.effects import AnyEffect, ZkRequest
from reference.errors import ErrorCode
from reference.events import Received, ZkReplied
from reference.messages import (
    Fetch,
    IsrMember,
    LeaderAndIsr,
    PartitionState,
    StopReplica,
    StopReplicaReply,
)
from reference.replica.partition import Follower, Leader
from reference.types import (
    Address,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    TopicPartition,
    ZkVersion,
    broker_address,
)
from tests.reference.lab import T0, Lab, Letter
from tests.reference.moving import (
    OAR,
    RAR,
    Mortal,
    assigned,
    cancel,
    cluster,
    data,
    entries,
    extra,
    finish,
    holders,
    ids,
    is_at,
    pending,
    reassign,
    remove_cancel,
    write,
)

GHOST = TopicPartition("ghost-0")


def silent(*brokers: int) -> Callable[[Letter], bool]:
    """Fetches of these brokers go nowhere."""
    return lambda letter: isinstance(letter[2], Fetch) and letter[0] in [broker_address(b) for b in ids(*brokers)]


def stuck(protocol: str = "safe", *, target: tuple[int, ...] = RAR) -> Mortal:
    """A move under way: new replicas are told of, and fetch nothing."""
    lab = cluster(VARIANTS[protocol])
    lab.held = silent(4, 5, 6)
    reassign(lab, target)
    return lab


def state(leader: int | None, isr: tuple[int, ...], replicas: tuple[int, ...]) -> PartitionState:
    return PartitionState(
        tp=T0,
        leader=None if leader is None else BrokerId(leader),
        leader_incarnation=Incarnation(leader or -1),
        leader_epoch=LeaderEpoch(3),
        isr=tuple(IsrMember(b, Incarnation(b)) for b in ids(*isr)),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(5),
        replicas=ids(*replicas),
    )


def live(*brokers: int) -> dict[BrokerId, Incarnation]:
    return {b: Incarnation(b) for b in ids(*brokers)}


# --- the znodes ---------------------------------------------------------------------------------------------------------------


def test_an_entry_has_the_documented_form() -> None:
    """R-148, R-230: the example of KIP-236, with `original_replicas`; R-231: without them in the extra znode."""
    tp = TopicPartition("foo1-0")
    with_original = b'{"version":1,"partitions":[{"topic":"foo1","partition":0,"replicas":[1,2,4],"original_replicas":[1,2,3]}]}'
    without = b'{"version":1,"partitions":[{"topic":"foo1","partition":0,"replicas":[1,2,5]}]}'

    assert admin_paths.reassignments_payload(entries((1, 2, 4), (1, 2, 3), tp)) == with_original
    assert admin_paths.reassignments_payload(entries((1, 2, 5), (), tp)) == without
    assert admin_paths.decode_reassignments(with_original) == (entries((1, 2, 4), (1, 2, 3), tp), 0)


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
def test_an_entry_that_makes_no_sense_is_left_out(row: str) -> None:
    """KAFKA-2234: one bad entry never blocks the others."""
    good = '{"topic":"t","partition":1,"replicas":[2,3]}'
    found = admin_paths.decode_reassignments(f'{{"version":1,"partitions":[{row},{good}]}}'.encode())

    assert found == (entries((2, 3), (), TopicPartition("t-1")), 1)


def test_the_path_of_v3_names_one_partition_each() -> None:
    """R-006, C-06: /admin/partitions_reassigned/[topic]/[partition]."""
    assert admin_paths.partition_reassigned_path(T0) == "/admin/partitions_reassigned/t/0"


def test_a_move_asked_for_in_the_way_of_v3_is_done_and_removed() -> None:
    """R-006, R-049, R-054, C-06, V3 §F step 1 and step 3.2.6, to the letter where that can run."""
    lab = cluster(VARIANTS["v3"])
    path = admin_paths.partition_reassigned_path(T0)
    roots = (Create(admin_paths.PARTITIONS_REASSIGNED, b""), Create(f"{admin_paths.PARTITIONS_REASSIGNED}/t", b""))
    write(lab, *roots, Create(path, paths.replicas_payload(ids(*RAR))))

    assert finish(lab, lambda: assigned(lab) == RAR and data(lab, path) is None)
    assert (sorted(lab.isr()), holders(lab)) == ([4, 5, 6], [4, 5, 6])
    assert data(lab, f"{admin_paths.PARTITIONS_REASSIGNED}/t") is None


# --- V3 §F --------------------------------------------------------------------------------------------------------------------


def test_a_partition_is_moved() -> None:
    """V3 §F on_wakeup: no broker is down, nobody waits for a timer."""
    lab = cluster()
    reassign(lab)

    assert is_at(lab, RAR)
    assert lab.now < 4000  # nobody waits for the agent's timer


def test_the_request_is_read_when_it_is_made() -> None:
    """R-049, V3 §F step 1: on_partitions_reassigned gets set_p; R-050, V3 §F step 1.1.2: it wakes the agent up."""
    lab = stuck()

    assert list(lab.nodes[1].state.controller.agent.moves) == [T0]


def test_new_replicas_start_and_follow() -> None:
    """R-051, V3 §F step 2.1, step 2.2: LeaderAndISR to the brokers in RAR, and the move is in progress."""
    lab = stuck()

    assert all(isinstance(lab.partition(i).role, Follower) for i in RAR)
    assert lab.nodes[1].state.controller.agent.moves[T0].step == "joining"


def test_a_new_replica_is_told_that_it_is_new() -> None:
    """R-302, R-308: of a replica that is to be made there, and to nobody else."""
    lab = cluster()
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)
    reassign(lab)

    news = {to: m.new for _, to, m in lab.letters if isinstance(m, LeaderAndIsr)}
    assert news == {"b1": (), "b2": (), "b3": (), "b4": (T0,), "b5": (T0,), "b6": (T0,)}


def test_what_is_assigned_is_widened_first() -> None:
    """C-12: AR := OAR + RAR in the topic znode, so that a failover, and a broker's start, find the new replicas."""
    assert assigned(stuck()) == (*OAR, *RAR)
    assert assigned(stuck("reassign-without-widening")) == OAR


def test_a_leader_that_is_told_nothing_takes_no_new_replica_in() -> None:
    """C-12: with V3's order "the leader has no reason to accept RAR in ISR"."""
    lab = cluster(VARIANTS["reassign-without-widening"])
    reassign(lab)
    lab.wait(20_000)

    assert (sorted(lab.isr()), assigned(lab)) == ([1, 2, 3], OAR)


def test_the_isr_decides_when_the_move_is_done() -> None:
    """R-052, V3 §F step 3.1, step 3.2: while new replicas lag behind, all stays as it is."""
    lab = stuck()
    lab.wait(5000)
    assert (lab.isr(), lab.leaders(), holders(lab)) == ([1, 2, 3], [1], [1, 2, 3, 4, 5, 6])
    lab.held = silent(6)
    lab.wait(5000)
    assert (lab.isr(), lab.leaders()) == ([1, 2, 3, 4, 5], [1])
    lab.held = lambda _: False

    assert finish(lab, lambda: is_at(lab, RAR))


@pytest.mark.parametrize(("protocol", "done"), [("safe", True), ("reassign-isr-is-all", False)])
def test_a_dead_old_replica_does_not_block_the_move(protocol: str, done: bool) -> None:
    """C-11: V3 §F step 3.2 waits for ISR == AR + RAR, for ever where a member of AR is dead."""
    lab = cluster(VARIANTS[protocol])
    lab.bury(3)
    reassign(lab)
    finish(lab, lambda: assigned(lab) == RAR, limit_ms=10_000)

    assert (assigned(lab) == RAR) == done


def test_a_replica_on_a_dead_broker_is_deleted_when_it_starts_after_the_move() -> None:
    """V3 §E step 4: what a dead broker holds waits for its start."""
    lab = cluster()
    lab.bury(3)
    reassign(lab)
    assert finish(lab, lambda: assigned(lab) == RAR)
    assert holders(lab) == [3, 4, 5, 6]
    lab.start(3)
    lab.settle()

    assert finish(lab, lambda: is_at(lab, RAR))


def in_order(lab: Mortal) -> list[str]:
    """What the controller did, without the metadata and whose StopReplica it was."""
    words = [word.rpartition(" b")[0] or word for word in lab.steps if not word.startswith("metadata")]
    return list(dict.fromkeys(words))


def test_the_steps_come_in_their_order() -> None:
    """R-053, R-054, V3 §F step 3.2.1: one after the other under one controller; AR is narrowed last (B-59).

    V3 §F step 3.2.2, V3 §F step 3.2.3, V3 §F step 3.2.4, V3 §F step 3.2.5, V3 §F step 3.2.6, V3 §F step 3.2.7.
    """
    lab = cluster()
    lab.look_from_here()
    reassign(lab)
    by_controller = [word for word in in_order(lab) if not word.startswith(("state: 1 leads 1,2,3,4", "command"))]

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


def test_an_isr_that_moved_is_read_again() -> None:
    """R-054, V3 §F step 3.2.2: the write is conditional on what was read."""
    lab = stuck()
    before = lab.state()
    write(lab, SetData(paths.state_path(T0), paths.state_payload(before), before.zk_version))
    lab.held = lambda _: False

    assert finish(lab, lambda: is_at(lab, RAR))


def test_old_replicas_are_stopped_before_they_are_deleted() -> None:
    """R-054, R-236, R-237: StopReplica(delete=false), answered by all, then StopReplica(delete=true)."""
    lab = cluster()
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    reassign(lab)
    stops = [m.partitions[0].delete for _, _, m in lab.letters if isinstance(m, StopReplica)]

    assert (stops, holders(lab), assigned(lab)) == ([False], [1, 2, 3, 4, 5, 6], (*OAR, *RAR))


def test_a_replica_whose_directory_is_offline_does_not_hold_the_move_up() -> None:
    """R-308: StopReplica fails there; the broker deletes what it holds when it starts and finds no assignment."""
    lab = cluster()
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    reassign(lab)
    for _ in range(2):
        ((_, _, stop),) = [x for x in lab.letters if isinstance(x[2], StopReplica)]
        lab.letters = type(lab.letters)(x for x in lab.letters if not isinstance(x[2], StopReplica))
        failed = StopReplicaReply(stop.correlation, ErrorCode.NONE, ((T0, ErrorCode.KAFKA_STORAGE_ERROR),))
        lab.tell(1, Received(Address("b3"), failed))
        lab.settle()

    assert (assigned(lab), pending(lab), holders(lab)) == (RAR, None, [3, 4, 5, 6])


def test_a_stop_that_was_overtaken_begins_the_move_again() -> None:
    """KIP-570: the replica knows a later epoch than the controller does, from a write whose answer was lost."""
    lab = cluster()
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    reassign(lab)
    ((_, _, stop),) = [x for x in lab.letters if isinstance(x[2], StopReplica)]
    lab.letters = type(lab.letters)(x for x in lab.letters if not isinstance(x[2], StopReplica))
    fenced = StopReplicaReply(stop.correlation, ErrorCode.NONE, ((T0, ErrorCode.FENCED_LEADER_EPOCH),))
    epoch = lab.state().leader_epoch
    lab.tell(1, Received(Address("b3"), fenced))
    lab.held = lambda _: False

    assert finish(lab, lambda: is_at(lab, RAR))
    assert lab.state().leader_epoch > epoch


def test_a_broker_that_read_the_old_assignment_does_not_keep_its_replica() -> None:
    """B-59: it registers after the last StopReplica was answered, and before AR is narrowed."""
    lab = cluster()
    lab.bury(3)
    lab.before["AR 4,5,6"] = lambda: lab.start(3)
    reassign(lab)

    assert lab.before == {}
    assert finish(lab, lambda: is_at(lab, RAR))


# --- requests that make no sense, and those that must wait --------------------------------------------------------------------


def test_an_unknown_partition_blocks_nobody() -> None:
    """KAFKA-2234, KAFKA-9478: a topic and a partition that do not exist are dropped, the others are moved."""
    lab = cluster()
    asked = entries(RAR) | entries((4,), (), GHOST) | entries((5,), (), TopicPartition("t-7"))
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(asked)))

    assert finish(lab, lambda: is_at(lab, RAR))


@pytest.mark.parametrize("payload", [b"{", b"", b'{"version":1,"partitions":[]}', b'{"version":1,"partitions":[{"topic":"t"}]}'])
def test_a_request_that_nobody_can_read_is_dropped(payload: bytes) -> None:
    """KAFKA-9478: neither znode stays behind for ever."""
    lab = cluster()
    write(lab, Create(admin_paths.REASSIGN, payload), Create(admin_paths.REASSIGN_EXTRA, payload))
    lab.wait(3000)

    assert is_at(lab, OAR)


@pytest.mark.parametrize("replicas", [(1, 2, 3), (3, 1, 2)])
def test_a_request_for_what_is_assigned_already_ends_at_once(replicas: tuple[int, ...]) -> None:
    """R-148: another order is another preferred replica, and nobody copies anything."""
    lab = cluster()
    reassign(lab, replicas)

    assert is_at(lab, replicas)


def test_too_few_replicas_are_refused() -> None:
    """As R-253 for proposal B: with fewer than min.insync.replicas no record could be committed any more."""
    lab = cluster()
    reassign(lab, (4,))

    assert is_at(lab, OAR)
    assert [n.kind for _, n in lab.notes if n.kind.startswith("reassignment")] == ["reassignment-refused"]


def test_a_new_replica_that_is_down_is_waited_for() -> None:
    """B-58, KAFKA-4214: and when it comes the move goes on."""
    lab = cluster()
    lab.bury(5)
    reassign(lab)
    lab.wait(5000)
    assert (sorted(lab.isr()), pending(lab)) == ([1, 2, 3, 4, 6], entries(RAR, OAR))
    lab.start(5)
    lab.settle()

    assert finish(lab, lambda: is_at(lab, RAR))


def test_an_entry_taken_out_by_hand_ends_the_move_where_it_is() -> None:
    """The way to stop a reassignment before KIP-236: AR stays OAR + RAR, and serves."""
    lab = stuck()
    write(lab, Delete(admin_paths.REASSIGN))
    lab.held = lambda _: False
    lab.wait(5000)

    assert (assigned(lab), sorted(lab.isr()), lab.nodes[1].state.controller.agent.moves) == ((*OAR, *RAR), [1, 2, 3, 4, 5, 6], {})


def test_a_topic_that_is_deleted_while_it_is_moved_leaves_nothing() -> None:
    """Deletion goes by AR, which names all who hold a replica; the entry goes with the topic."""
    lab = stuck()
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))
    lab.held = lambda _: False

    assert finish(lab, lambda: pending(lab) is None and data(lab, paths.topic_path("t")) is None)
    assert holders(lab) == []


def test_what_is_written_later_is_seen() -> None:
    """KAFKA-9478, B-58: the znode is changed while it is there; with the watch not armed again nobody ever looks."""
    late = TopicPartition("t-7")
    found = {}
    for protocol in ("safe", "reassign-failover-zombie"):
        lab = cluster(VARIANTS[protocol])
        write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries((4, 5), (), late))))
        if pending(lab) is None:
            reassign(lab)
        else:
            for asked in (entries((4,), (), GHOST), entries(RAR)):
                write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(asked)))
        lab.wait(5000)
        found[protocol] = assigned(lab)

    assert found == {"safe": RAR, "reassign-failover-zombie": OAR}


# --- who leads, who is in the ISR ---------------------------------------------------------------------------------------------


def test_the_leader_is_elected_among_those_who_stay() -> None:
    """R-235: the first of AR that is in the ISR and live as it joined; one that leads already keeps the role."""
    here = live(1, 2, 3, 4, 5)
    moved = state(1, (1, 2, 3, 4, 5), (5, 4))

    assert reassign_selection.lead(VARIANTS["safe"], moved, here, 2) == Elect(IsrMember(BrokerId(5), Incarnation(5)), moved.isr)
    kept = state(4, (1, 2, 3, 4, 5), (5, 4))
    assert reassign_selection.lead(VARIANTS["safe"], kept, here, 2) == Elect(IsrMember(BrokerId(4), Incarnation(4)), kept.isr)


def test_nobody_is_elected_while_too_few_are_in_sync() -> None:
    """U-21: nor with one that is registered anew, and may have lost what it held."""
    moved = state(1, (1, 4), (4, 5))

    assert reassign_selection.lead(VARIANTS["safe"], moved, live(1, 4, 5), 2) == Keep()
    assert (
        reassign_selection.lead(VARIANTS["safe"], state(1, (1, 4, 5), (4, 5)), {**live(1, 4), BrokerId(5): Incarnation(9)}, 2)
        == Keep()
    )


def test_the_isr_shrinks_to_those_who_stay() -> None:
    """R-236, V3 §F step 3.2.2: and where the leader goes, one of those who stay leads."""
    left = tuple(IsrMember(b, Incarnation(b)) for b in ids(4, 5))

    assert reassign_selection.shrink(VARIANTS["safe"], state(4, (1, 4, 5), (5, 4)), live(1, 4, 5), 2) == Elect(left[0], left)
    assert reassign_selection.shrink(VARIANTS["safe"], state(1, (1, 4, 5), (5, 4)), live(1, 4, 5), 2) == Elect(left[1], left)


@pytest.mark.parametrize(("protocol", "back", "wanted"), [("safe", False, 3), ("safe", True, 2), ("cancel-without-isr", True, 0)])
def test_a_rollback_waits_for_fewer(protocol: str, back: bool, wanted: int) -> None:
    """R-244, U-21: min.insync.replicas of OAR, where a move forward waits for all of RAR."""
    config = cluster(VARIANTS[protocol]).configs[1]
    move = Move(target=ids(*OAR), original=ids(*OAR), back=back)

    assert reassign_selection.members_wanted(config, state(1, OAR, OAR), move) == wanted


def test_a_dropped_replica_that_still_fetches_does_not_come_back() -> None:
    """B-38, KAFKA-1097, R-235: on an idle partition it is always caught up, and nothing would put it out of the ISR again."""
    assert _isr_after_a_late_fetch("safe") == [4, 5, 6]
    assert 2 in _isr_after_a_late_fetch("isr-unassigned")


def _isr_after_a_late_fetch(protocol: str) -> list[int]:
    lab = cluster(VARIANTS[protocol])
    lab.held = lambda letter: isinstance(letter[2], StopReplica)
    reassign(lab)
    leader = lab.partition(4)
    assert isinstance(leader.role, Leader)
    incarnation = next(b.incarnation for b in lab.nodes[1].state.controller.live if b.broker == 2)
    fetch = Fetch(99, T0, BrokerId(2), incarnation, leader.leader_epoch, leader.log.leo, Millis(0), 10)
    lab.tell(4, Received(Address("b2"), fetch))
    lab.settle()
    return sorted(lab.isr())


def test_a_leader_puts_out_whom_it_was_given_and_who_is_not_assigned() -> None:
    """B-39, KAFKA-9672: its ISR is wider than what is assigned, and the controller died before it shrank it."""
    assert _isr_of_a_leader_with_too_wide_an_isr("safe") == [1, 2]
    assert _isr_of_a_leader_with_too_wide_an_isr("isr-unassigned") == [1, 2, 3]


def _isr_of_a_leader_with_too_wide_an_isr(protocol: str) -> list[int]:
    lab = cluster(msgspec.structs.replace(VARIANTS[protocol], isr_change_via="zookeeper"))
    held = lab.state()
    narrow = msgspec.structs.replace(held, leader_epoch=LeaderEpoch(held.leader_epoch + 1), replicas=ids(1, 2))
    controller = lab.nodes[1].state.controller
    lab.tell(
        1, Received(Address("b1"), LeaderAndIsr(99, BrokerId(1), controller.epoch, held.leader_incarnation, False, (narrow,)))
    )
    lab.wait(3000)
    return lab.isr()


def test_a_late_copy_of_an_earlier_command_assigns_nothing() -> None:
    """B-38: the command that widened the assignment arrives once more after the one that narrowed it."""
    lab = cluster()
    copies: list[LeaderAndIsr] = []
    lab.held = lambda letter: _copied(letter, copies)
    reassign(lab)
    assert is_at(lab, RAR)
    for copy in copies:
        lab.tell(4, Received(Address("b1"), copy))

    assert lab.partition(4).replicas == RAR


@pytest.mark.parametrize(("fenced", "made"), [(True, False), (False, True)])
def test_a_late_copy_does_not_make_a_replica_again_that_was_dropped(fenced: bool, made: bool) -> None:
    """B-38, R-237: nobody would ask for it again, so nobody would delete it: the log would lie there for ever."""
    lab = cluster(msgspec.structs.replace(VARIANTS["safe"], stop_replica_epoch=fenced))
    copies: list[LeaderAndIsr] = []
    lab.held = lambda letter: _copied(letter, copies)
    reassign(lab)
    reassign(lab, OAR)
    assert is_at(lab, OAR)
    lab.tell(4, Received(Address("b1"), copies[0]))

    assert (T0 in lab.disks[4].logs) is made


def test_a_replica_that_was_dropped_can_be_given_back() -> None:
    """R-237: what is refused are the commands of before, not those of another move to the same brokers."""
    lab = cluster()
    for target in (RAR, OAR, RAR):
        reassign(lab, target)

    assert is_at(lab, RAR)


def _copied(letter: Letter, copies: list[LeaderAndIsr]) -> bool:
    if letter[1] == "b4" and isinstance(letter[2], LeaderAndIsr) and letter[2] not in copies:
        copies.append(letter[2])
    return False


# --- KIP-236: rolling back ----------------------------------------------------------------------------------------------------


def test_the_original_replicas_are_written_down_before_anything_is_done() -> None:
    """R-230, R-232: the client submits `replicas` alone; what is assigned is read and stored."""
    assert pending(stuck()) == entries(RAR, OAR)


def test_a_cancellation_rolls_everything_back() -> None:
    """R-233: through a watch on /admin/reassign_cancel, without waiting for anything."""
    lab = stuck()
    before = lab.now
    cancel(lab)

    assert is_at(lab, OAR)
    assert lab.now == before


def test_the_steps_of_a_rollback_come_in_their_order() -> None:
    """R-234 to R-238, KIP-236 steps 1 to 7: the leader in a new epoch with AR = OAR, the ISR, stop, delete, AR, entry, metadata.

    R-234 is in memory, R-235 the first command, R-236 the second and the stop, R-237 the deletion, R-238 the rest.
    """
    lab = stuck()
    lab.held = silent(5, 6)
    assert finish(lab, lambda: sorted(lab.isr()) == [1, 2, 3, 4])
    lab.look_from_here()
    cancel(lab)

    commands = [word for word in in_order(lab) if word.startswith("command")]
    assert commands == ["command: 1 leads 1,2,3,4 of 1,2,3", "command: 1 leads 1,2,3 of 1,2,3"]
    assert [word for word in in_order(lab) if word not in commands] == [
        "state: 1 leads 1,2,3,4",
        "state: 1 leads 1,2,3",
        "stop",
        "delete",
        "AR 1,2,3",
        f"gone: {admin_paths.REASSIGN}",
    ]
    assert {word for word in lab.steps if word.startswith("metadata")} == {f"metadata to b{i}: 1 of 1,2,3" for i in lab.ids}


def test_a_rollback_elects_from_the_original_replicas() -> None:
    """R-235: the leader is one of RAR - OAR, whose replica goes."""
    lab = cluster()
    lab.before["AR 4,5,6"] = lambda: setattr(lab, "dead", 1)
    reassign(lab)
    assert lab.state().leader == 4
    cancel(lab)
    lab.bury(1)
    lab.start(1)
    lab.settle()

    assert finish(lab, lambda: is_at(lab, OAR))


def test_the_leader_takes_no_replica_back_that_is_dropped() -> None:
    """C-17: AR = OAR in the request keeps RAR - OAR out of the ISR; the text of KIP-236 says OAR - RAR."""
    lab = stuck()
    lab.held = lambda letter: isinstance(letter[2], StopReplica)
    lab.wait(1)
    cancel(lab)
    lab.wait(3000)

    assert (lab.isr(), lab.partition(1).replicas) == ([1, 2, 3], OAR)


@pytest.mark.parametrize(("protocol", "elected"), [("safe", [4]), ("cancel-without-isr", [2])])
def test_a_rollback_elects_nobody_who_is_not_in_the_isr(protocol: str, elected: list[int]) -> None:
    """B-60, U-21: 2 and 3 are out of sync, 4 and 5 are in, 1 dies; "elect a new leader from OAR" would take 2."""
    lab = cluster(VARIANTS[protocol], min_isr=1)
    lab.held = silent(2, 3, 6)
    lab.wait(9000)
    reassign(lab)
    assert finish(lab, lambda: lab.isr() == [1, 4, 5])
    lab.mortal = 6
    lab.bury(1)
    lab.wait(1000)
    cancel(lab)
    lab.wait(500)

    assert lab.leaders() == elected


def test_a_cancellation_stays_until_it_is_removed() -> None:
    """R-239: while it is there nothing new is begun; the extra znode waits, a pending entry is taken out."""
    lab = stuck()
    cancel(lab)
    lab.held = lambda _: False
    extra(lab, (2, 3, 4))
    lab.wait(3000)
    assert (data(lab, admin_paths.REASSIGN_CANCEL), assigned(lab)) == (b"", OAR)
    reassign(lab)
    lab.wait(3000)
    assert (assigned(lab), pending(lab)) == (OAR, None)
    remove_cancel(lab)

    assert finish(lab, lambda: is_at(lab, (2, 3, 4)))


def test_a_cancellation_of_nothing_does_nothing() -> None:
    """R-233."""
    lab = cluster()
    cancel(lab)
    lab.wait(3000)

    assert is_at(lab, OAR)


def test_what_was_there_before_a_move_in_flight_is_not_forgotten() -> None:
    """C-20: the request is overwritten without originals while AR is OAR + RAR; a rollback restores OAR, not the union."""
    lab = stuck()
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries((4, 5)))))
    assert pending(lab) == entries((4, 5), OAR)
    cancel(lab)

    assert finish(lab, lambda: is_at(lab, OAR))


def test_a_move_in_flight_is_given_another_target() -> None:
    """Who was to be new and is not any more is dropped at the end with the others."""
    lab = stuck()
    lab.held = silent(6)
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries((4, 5), OAR))))

    assert finish(lab, lambda: is_at(lab, (4, 5)))


# --- KIP-236: more while some are in flight -----------------------------------------------------------------------------------


def test_more_is_asked_for_while_some_are_in_flight() -> None:
    """R-231, R-242, R-244: the slowest partition does not block another; the extra znode goes when it is empty."""
    lab = stuck()
    other = TopicPartition("t-1")
    assignment = {T0: ids(*assigned(lab)), other: ids(1, 2)}
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload(assignment)))
    for i in (1,):
        lab.bury(i)
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    payload = admin_paths.reassignments_payload(entries((2, 3), (), other))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert finish(lab, lambda: assigned(lab, other) == (2, 3) and data(lab, admin_paths.REASSIGN_EXTRA) is None)
    assert (holders(lab, other), pending(lab)) == ([2, 3], entries(RAR, OAR))


def test_an_extra_request_is_begun_as_any_other() -> None:
    """R-242: added to /admin/reassign_partitions with its originals, then triggered."""
    lab = cluster()
    lab.held = silent(4)
    extra(lab, (2, 3, 4))

    assert (pending(lab), data(lab, admin_paths.REASSIGN_EXTRA)) == (entries((2, 3, 4), OAR), None)


def test_a_conflict_is_rolled_back_before_the_new_request_is_begun() -> None:
    """R-243: "first cancel / rollback, then submit new reassignments"."""
    lab = stuck()
    lab.held = silent(4)
    lab.look_from_here()
    extra(lab, (2, 3, 4))
    words = list(lab.steps)

    assert words.index("AR 1,2,3") < words.index(f"{admin_paths.REASSIGN}: 2,3,4 from 1,2,3") < len(words)
    assert finish(lab, lambda: pending(lab) == entries((2, 3, 4), OAR))
    lab.held = lambda _: False
    assert finish(lab, lambda: is_at(lab, (2, 3, 4)))


def test_an_unknown_partition_among_the_extra_ones_is_dropped() -> None:
    """KAFKA-2234."""
    lab = cluster()
    payload = admin_paths.reassignments_payload(entries((4, 5), (), GHOST))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert is_at(lab, OAR)


# --- the controller dies ------------------------------------------------------------------------------------------------------


def test_a_new_controller_takes_up_what_was_asked_for_while_there_was_none() -> None:
    """R-043, V3 §D step 7: on_partitions_reassigned() comes after the leaders and before partitions are added or removed."""
    lab = cluster()
    lab.crash(1)
    reassign(lab, (2, 3, 4))
    assert assigned(lab) == OAR
    lab.expire(1)
    lab.settle()

    assert finish(lab, lambda: assigned(lab) == (2, 3, 4) and pending(lab) is None)


def test_an_extra_request_that_was_there_first_has_the_last_word() -> None:
    """R-243: nobody read it before the other znode was filled, and it is what the other one holds that is rolled back."""
    lab = cluster()
    lab.crash(1)
    extra(lab, (2, 3, 4))
    reassign(lab, (3, 4, 5))
    lab.expire(1)
    lab.settle()

    assert finish(lab, lambda: assigned(lab) == (2, 3, 4) and pending(lab) is None)
    assert data(lab, admin_paths.REASSIGN_EXTRA) is None


def test_a_new_controller_begins_again_by_reading() -> None:
    """B-58, KAFKA-4214: also where a new replica is down with the controller."""
    assert _after_a_failover("safe") == (RAR, None)


def test_a_move_is_given_up_when_the_controller_and_a_new_replica_bounce_together() -> None:
    """B-58, KAFKA-4214: AR stays OAR + RAR for ever, and nobody knows of the request any more."""
    assert _after_a_failover("reassign-failover-aborts") == ((*OAR, *RAR), None)


def _after_a_failover(protocol: str) -> tuple[tuple[int, ...], object]:
    lab = stuck(protocol)
    lab.crash(5)
    lab.expire(5)
    lab.bury(1)
    lab.held = lambda _: False
    lab.wait(3000)
    lab.start(5)
    lab.start(1)
    lab.settle()
    finish(lab, lambda: is_at(lab, RAR), limit_ms=15_000)
    return assigned(lab), pending(lab)


@pytest.mark.parametrize(("protocol", "both"), [("safe", True), ("reassign-failover-premature", False)])
def test_a_new_controller_forgets_no_entry(protocol: str, both: bool) -> None:
    """B-58, KAFKA-6193: the map holds the first entry alone when it is written back."""
    lab = cluster(VARIANTS[protocol])
    other = TopicPartition("t-1")
    lab.crash(1)
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: ids(*OAR), other: ids(2, 3)})))
    asked = entries((2, 3, 4)) | entries((4, 5), (), other)
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(asked)))
    lab.expire(1)
    lab.settle()

    assert finish(lab, lambda: assigned(lab) == (2, 3, 4) and pending(lab) is None)
    assert (assigned(lab, other) == (4, 5)) == both


def test_a_lost_answer_is_read_back() -> None:
    """B-62: whichever of the agent's requests it was, it is begun again by reading."""
    for lost in range(12):
        lab = Deaf(6, replicas=OAR, min_isr=2)
        write(lab, Create("/admin", b""))
        lab.wait(1000)
        lab.produce(1, "m1")
        lab.settle()
        lab.lost = lost
        reassign(lab)

        assert lab.losses == 1
        assert finish(lab, partial(is_at, lab, RAR))


class Deaf(Lab):
    """Its controller b1 loses the answer to its request number `lost`."""

    lost: int | None = None
    losses: int = 0

    def _perform(self, i: int, effect: AnyEffect) -> None:
        if i == 1 and isinstance(effect, ZkRequest) and self.lost is not None:
            self.lost -= 1
            if self.lost < 0:
                self.lost = None
                self.losses += 1
                _, fired = self.zk.submit(self.sessions[1], effect.ops, atomic=effect.atomic)
                self.tell(1, ZkReplied(effect.id, (Unknown(),) * len(effect.ops)))
                self.watches(fired)
                return
        super()._perform(i, effect)


def test_the_agent_wakes_up_after_a_time_as_well() -> None:
    """V3 §F: "a certain amount of time has passed (e.g., 30 secs)"; and sleeps where nothing is to be done."""
    lab = stuck()
    assert "reassign" in lab.timers[1]
    lab.held = lambda _: False
    assert finish(lab, lambda: is_at(lab, RAR))
    lab.wait(2000)

    assert "reassign" not in lab.timers[1]
