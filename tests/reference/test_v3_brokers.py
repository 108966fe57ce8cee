"""One test for each step of V3 §C and §E, what brokers do; on the variant `v3` where its letter differs."""

import msgspec
import pytest

from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import Delete, SetData
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import (
    EARLIEST,
    Batch,
    EpochEnd,
    Fetch,
    FetchReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsets,
    ListOffsetsReply,
    ProduceReply,
    StopPartition,
    StopReplica,
)
from reference.replica.partition import Follower, Leader
from reference.types import NO_EPOCH, NO_INCARNATION, Address, BrokerId, LeaderEpoch, Offset, ZkVersion, topic_partition
from tests.reference.lab import T0, Lab, carries
from tests.reference.v3 import (
    OTHER,
    THIRD,
    add_topic,
    cluster_in_sync,
    crash_and_expire,
    fetch,
    hold_record_above_hw,
    next_state,
    send_leader_and_isr,
    start_without_commands,
)

# --- C: brokers act on commands -------------------------------------------------------------------------------------------


def test_broker_creates_the_log_of_an_unknown_partition() -> None:
    """R-030, R-038, V3 §C step 2.0 and V3 §C startReplica(): if P does not exist locally, its directory is created."""
    lab = cluster_in_sync()
    send_leader_and_isr(lab, 3, next_state(lab, 1, tp=OTHER))
    send_leader_and_isr(lab, 3, msgspec.structs.replace(next_state(lab, 1, tp=THIRD), leader=None))  # nobody leads it yet
    unassigned = topic_partition("fourth", 0)
    send_leader_and_isr(lab, 3, msgspec.structs.replace(next_state(lab, 1, tp=unassigned), replicas=()))  # as in V3's layout

    assert (lab.disks[3].logs[OTHER], lab.disks[3].logs[THIRD], lab.disks[3].logs[unassigned]) == ([], [], [])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_broker_becomes_leader_by_leader_and_isr(variant: str, named: bool) -> None:
    """R-031, V3 §C step 2.1: asked to be the new leader, and not already; V3's layout names no registration."""
    lab = cluster_in_sync(variant)
    state = next_state(lab, 3)
    send_leader_and_isr(lab, 3, state if named else msgspec.structs.replace(state, leader_incarnation=NO_INCARNATION))

    assert isinstance(lab.partition(3).role, Leader)


def test_new_leader_starts_its_epoch_at_its_log_end() -> None:
    """R-010, R-034, V3 §C step 2.1.1, becomeLeader(): the old fetcher is stopped; ISR and version come from the command."""
    lab = cluster_in_sync()
    lab.produce(1, "x")
    lab.settle()
    state = msgspec.structs.replace(next_state(lab, 3), replicas=(BrokerId(3), BrokerId(2)))  # b1 is still in the ISR
    send_leader_and_isr(lab, 3, state)
    role = lab.partition(3).role

    assert isinstance(role, Leader)
    assert (role.epoch_start, role.isr, role.zk_version) == (1, state.isr, state.zk_version)
    assert f"fetch:{T0}" not in lab.timers[3]
    again = msgspec.structs.replace(next_state(lab, 3, epoch_up=2), zk_version=ZkVersion(state.zk_version + 1))
    send_leader_and_isr(lab, 3, again)
    role = lab.partition(3).role
    assert isinstance(role, Leader)
    assert (role.isr, role.zk_version) == (again.isr, again.zk_version)


def test_v3_leader_ignores_a_command_to_lead_again() -> None:
    """R-031, V3 §C step 2.1: "and this broker is not already the leader" (U-06): ISR and version stay stale; `safe` obeys."""
    for name, expected in (("v3", 0), ("safe", 1)):
        lab = cluster_in_sync(name)
        before = lab.partition(1).leader_epoch
        send_leader_and_isr(lab, 1, next_state(lab, 1))

        assert lab.partition(1).leader_epoch - before == expected


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_broker_becomes_follower_by_leader_and_isr(variant: str) -> None:
    """R-032, V3 §C step 2.2: asked to follow L, and not already following L."""
    lab = cluster_in_sync(variant)
    send_leader_and_isr(lab, 3, next_state(lab, 2))
    role = lab.partition(3).role

    assert isinstance(role, Follower)
    assert role.leader == 2


def test_v3_follower_changes_its_leader_whatever_its_id() -> None:
    """R-032, V3 §C step 2.2: "not already following L" asks which broker it follows, and not which id is greater."""
    lab = cluster_in_sync("v3")
    followed = []
    for leader in (2, 1, 2):
        send_leader_and_isr(lab, 3, next_state(lab, leader))
        role = lab.partition(3).role
        followed.append(role.leader if isinstance(role, Follower) else None)

    assert followed == [2, 1, 2]


def test_v3_follower_ignores_a_new_epoch_of_its_leader() -> None:
    """R-032, R-080, V3 §C step 2.2: "and the broker is not already following L" (U-07); `safe` truncates again."""
    for name, expected in (("v3", 0), ("safe", 1)):
        lab = cluster_in_sync(name)
        before = lab.partition(3).leader_epoch
        send_leader_and_isr(lab, 3, next_state(lab, 1))

        assert lab.partition(3).leader_epoch - before == expected


@pytest.mark.parametrize("committed", [[], ["a"]])
def test_v3_follower_truncates_to_its_hw(committed: list[str]) -> None:
    """R-037, V3 §C step 2.2.1 and V3 §C becomeFollower(): the log is truncated to r.hw, fetching starts at r.leo."""
    lab = cluster_in_sync("v3")
    for value in committed:
        lab.produce(1, value)
    lab.settle()
    lab.wait(600)
    hold_record_above_hw(lab, 3)
    assert (lab.values(3), lab.partition(3).hw) == ([*committed, "x"], len(committed))
    send_leader_and_isr(lab, 3, next_state(lab, 2))
    fetches = [message for _, to, message in lab.in_flight if to == "b2" and isinstance(message, Fetch)]

    assert lab.values(3) == committed
    assert [f.offset for f in fetches] == [len(committed)]


def test_v3_init_command_deletes_unlisted_partitions() -> None:
    """R-033, V3 §C step 3: with INIT, delete all local partitions not in set_p (U-11); `safe` never deletes on absence."""
    for name, expected in (("v3", False), ("safe", True)):
        lab = cluster_in_sync(name)
        send_leader_and_isr(lab, 3, next_state(lab, 3, tp=OTHER))  # it leads, and is deleted all the same
        for states, left in (((next_state(lab, 1, tp=THIRD),), [THIRD]), ((), [])):
            send_leader_and_isr(lab, 3, *states, init=True)
            tps = sorted(lab.nodes[3].state.broker.partitions)

            assert tps == ([OTHER, T0, THIRD] if expected else left)
            assert sorted(lab.disks[3].logs) == tps


def test_v3_init_command_keeps_listed_partitions() -> None:
    """R-033: only with the flag INIT, and only what is not listed: set_p of a later command is never complete."""
    lab = cluster_in_sync("v3")
    send_leader_and_isr(lab, 3, next_state(lab, 1, tp=OTHER))
    assert sorted(lab.nodes[3].state.broker.partitions) == [OTHER, T0]
    without_leader = msgspec.structs.replace(next_state(lab, 1, epoch_up=2, tp=OTHER), leader=None)
    send_leader_and_isr(lab, 3, without_leader, next_state(lab, 1), init=True)

    assert sorted(lab.nodes[3].state.broker.partitions) == [OTHER, T0]
    assert (sorted(lab.disks[3].logs), lab.halted) == ([OTHER, T0], {})


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_every_replica_knows_the_assigned_ones(variant: str) -> None:
    """R-010: AR, at the leader and at the followers, as the last command names it."""
    lab = cluster_in_sync(variant)
    before = [lab.partition(i).replicas for i in lab.ids]
    send_leader_and_isr(lab, 3, msgspec.structs.replace(next_state(lab, 2), replicas=(BrokerId(3), BrokerId(2))))

    assert before == [(1, 2, 3)] * 3
    assert lab.partition(3).replicas == (3, 2)
    send_leader_and_isr(lab, 3, next_state(lab, 2))  # of the same epoch: V3 starts a move so
    assert lab.partition(3).replicas == (1, 2, 3)


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_new_leader_serves_before_its_hw_has_risen(variant: str) -> None:
    """R-035: isLeader enables reads and writes; the follower that fetches is what will raise the HW."""
    lab = cluster_in_sync(variant)
    hold_record_above_hw(lab, 3)
    send_leader_and_isr(lab, 3, next_state(lab, 3))
    assert fetch(lab, 3, 0) is None  # a consumer's waits; nothing is refused
    lab.produce(3, "y", acks=1, correlation=9)
    written = [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.correlation == 9]
    read = fetch(lab, 3, 0, replica=2, epoch=lab.partition(3).leader_epoch)

    assert read is not None
    assert (read.error, [batch.base_offset for batch in read.batches]) == (ErrorCode.NONE, [0, 1])
    assert written == [ErrorCode.NONE]


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_consumer_from_hw_to_leo_gets_an_empty_set(offset: int) -> None:
    """R-009, R-036: the HW of the new leader is 0 and its log end 2; no record, and no error either."""
    lab = cluster_in_sync()
    lab.is_held = carries(FetchReply)
    lab.produce(1, "x", "y")
    lab.settle()
    lab.deliver(carries(FetchReply))
    lab.is_held = lambda _: True
    send_leader_and_isr(lab, 3, next_state(lab, 3))
    assert fetch(lab, 3, offset) is None  # it waits for the HW
    lab.wait(100)
    (reply,) = [m for m in lab.client_replies if isinstance(m, FetchReply)]

    assert (lab.partition(3).hw, lab.partition(3).log.leo) == (0, 2)
    assert (reply.error, reply.batches) == (ErrorCode.NONE, ())


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_leader_that_must_follow_serves_no_more(variant: str) -> None:
    """R-032, R-037: isLeader becomes false, which disables reads and writes; it fetches from the new leader."""
    lab = cluster_in_sync(variant)
    lab.produce(1, "committed")
    lab.settle()
    send_leader_and_isr(lab, 1, next_state(lab, 2))
    role = lab.partition(1).role
    addresses = [to for _, to, message in lab.in_flight if isinstance(message, Fetch | EpochEnd)]
    read = fetch(lab, 1, 0)
    lab.produce(1, "lost", acks=0, correlation=8)
    lab.produce(1, "x", acks=1, correlation=9)
    written = [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.correlation == 9]

    lab.handle_event(1, Received(Address("c9"), ListOffsets(10, T0, NO_EPOCH, timestamp=EARLIEST)))
    (earliest,) = [reply.error for reply in lab.client_replies if isinstance(reply, ListOffsetsReply)]

    assert isinstance(role, Follower)
    assert (role.leader, addresses) == (2, ["b2"])
    assert earliest is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert read is not None
    assert read.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert written == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert lab.values(1) == ["committed"]


def test_former_leader_commits_nothing_more() -> None:
    """R-037, V3 §C becomeFollower: the commit thread is stopped; a record that not all replicas had stays uncommitted."""
    lab = cluster_in_sync("v3")
    lab.is_held = carries(receiver="b1")
    lab.produce(1, "x", correlation=9)
    lab.settle()
    before = lab.partition(1).hw
    send_leader_and_isr(lab, 1, next_state(lab, 2))
    lab.is_held = lambda envelope: envelope.receiver != "b1"
    lab.settle()

    assert (before, lab.partition(1).hw) == (0, 0)
    role = lab.partition(1).role
    assert isinstance(role, Follower)
    epoch = lab.partition(1).leader_epoch
    committed = FetchReply(role.outstanding, T0, ErrorCode.NONE, epoch, Offset(1), (Batch(Offset(0), epoch, ("other",)),))
    lab.handle_event(1, Received(Address("b2"), committed))
    acknowledged = [reply for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE]
    assert (lab.values(1), lab.partition(1).hw, acknowledged) == (["other"], 1, [])


def test_follower_ignores_a_late_answer_of_its_former_leader() -> None:
    """R-037: the fetcher of the old leader is stopped before the log is truncated."""
    lab = cluster_in_sync("v3")
    lab.is_held = carries(FetchReply, receiver="b3")
    lab.produce(1, "x")
    lab.settle()
    (late_reply,) = [message for _, to, message in lab.in_flight if to == "b3" and isinstance(message, FetchReply)]
    send_leader_and_isr(lab, 3, next_state(lab, 2))
    lab.handle_event(3, Received(Address("b1"), late_reply))

    assert lab.values(3) == []


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_follower_fetches_from_its_log_end(variant: str) -> None:
    """R-016: topic and partition, its own id, and the offset behind its last record, committed or not."""
    lab = cluster_in_sync(variant)
    hold_record_above_hw(lab, 3)
    fetches = {
        (source, to, message.tp, message.replica, message.offset)
        for source, to, message in lab.in_flight
        if isinstance(message, Fetch)
    }

    assert fetches == {("b2", "b1", T0, 2, 1), ("b3", "b1", T0, 3, 1)}


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_checkpoint_has_the_hw_of_every_replica(variant: str) -> None:
    """R-038: a follower's too, and from its start on that of a replica that was created later."""
    lab = cluster_in_sync(variant)
    lab.produce(1, "x")
    lab.settle()
    lab.wait(600)
    send_leader_and_isr(lab, 3, next_state(lab, 1, tp=OTHER))
    lab.wait(6000)

    assert [lab.disks[i].checkpoint for i in (1, 2)] == [((T0, 1),)] * 2
    assert lab.disks[3].checkpoint == ((OTHER, 0), (T0, 1))


def test_checkpoint_has_the_hw_and_not_what_is_flushed() -> None:
    """R-038: the leader has flushed the record, and b3 lacks it: it is not committed."""
    lab = Lab(3, before_ack=True)
    lab.wait(3000)
    lab.is_held = carries(receiver="b3")
    lab.produce(1, "x")
    lab.settle()
    lab.fire(1, "checkpoint")

    assert (lab.partition(1).flushed, lab.disks[1].checkpoint) == (1, ((T0, 0),))


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_restarted_replica_has_the_hw_of_the_checkpoint(variant: str) -> None:
    """R-038: without it V3 would truncate a follower that starts again to nothing."""
    lab = cluster_in_sync(variant)
    lab.produce(1, "x")
    lab.settle()
    lab.wait(6000)
    crash_and_expire(lab, 3)
    start_without_commands(lab, 3)

    assert (lab.values(3), lab.partition(3).hw) == (["x"], 1)


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_stopped_replica_leaves_the_checkpoint(variant: str) -> None:
    """R-039: else the next partition of that name would begin with its HW."""
    lab = cluster_in_sync(variant)
    lab.produce(1, "x")
    lab.settle()
    lab.wait(6000)
    before = lab.disks[3].checkpoint
    stop(lab, 3, 99)

    assert (before, lab.disks[3].checkpoint) == (((T0, 1),), ())


def stop(lab: Lab, i: int, epoch: int, *, delete: bool = True) -> None:
    node = lab.nodes[i].state.broker
    stopped = StopPartition(T0, LeaderEpoch(epoch), delete)
    request = StopReplica(78, BrokerId(2), node.controller_epoch, node.incarnation, (stopped,))
    lab.handle_event(i, Received(Address("b2"), request))


def test_stop_replica_deletes_the_log() -> None:
    """R-039, V3 §C stopReplica(): stop the fetcher, delete the partition directory."""
    lab = cluster_in_sync()
    stop(lab, 3, 99)
    stop(lab, 2, 99, delete=False)

    assert [T0 in lab.disks[i].logs for i in (2, 3)] == [True, False]
    assert [f"fetch:{T0}" in lab.timers[i] for i in (2, 3)] == [False, False]


def test_stop_replica_of_an_older_epoch_deletes_nothing() -> None:
    """KIP-570 on V3 §C on_StopReplicaCommand(): a later command assigned the replica again; V3 itself deletes it."""
    for name, expected in (("v3", False), ("safe", True)):
        lab = cluster_in_sync(name)
        send_leader_and_isr(lab, 3, next_state(lab, 2, epoch_up=4))
        stop(lab, 3, 1)

        assert (T0 in lab.nodes[3].state.broker.partitions) is expected


# --- E: broker startup ---------------------------------------------------------------------------------------------------


def test_starting_broker_reads_its_assigned_partitions() -> None:
    """V3 §E step 1: read the replica assignment of all topics."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 3)
    add_topic(lab, "other", 3)
    start_without_commands(lab, 3)

    assert sorted(lab.nodes[3].state.broker.partitions) == [T0]  # t-0 only: other-0 has no state yet


def test_starting_broker_reads_leader_and_isr() -> None:
    """V3 §E step 2: read the leader and the ISR of each partition assigned to this broker."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 3)
    start_without_commands(lab, 3)

    assert lab.partition(3).leader_epoch == lab.state().leader_epoch


def test_starting_broker_starts_its_replicas() -> None:
    """R-038, R-045, R-046, V3 §E step 3.1: start replica, with the records of its log, though its state is gone.

    Nor does the command that created a replica touch it when it comes again.
    """
    lab = cluster_in_sync()
    lab.is_held = carries(LeaderAndIsrReply, sender="b3")
    add_topic(lab, "other", 1, 3)
    lab.fire(1, "channel:3")
    lab.settle()
    lab.is_held = lambda _: False
    lab.produce(1, "x")
    lab.settle()
    crash_and_expire(lab, 3)
    lab.zk.submit(lab.admin, (Delete(paths.state_path(T0)),))
    start_without_commands(lab, 3)
    assert lab.values(3) == ["x"]
    lab.disks[3].topic_ids.clear()  # a command in an older layout created it
    crash_and_expire(lab, 3)
    start_without_commands(lab, 3)

    assert lab.values(3) == ["x"]


def test_v3_starting_broker_leads_without_leader_and_isr() -> None:
    """R-045, V3 §E step 3.2: "shouldn't happen in general"; `safe` waits for the controller's command."""
    for name, expected in (("v3", [2]), ("safe", [])):
        lab = Lab(2, variant=VARIANTS[name])
        lab.wait(3000)
        for i in (1, 2):  # b2 leads after b1, and dies in its turn
            crash_and_expire(lab, i)
        lab.is_held = carries(LeaderAndIsr)
        lab.start(2)
        lab.settle()

        assert lab.leaders() == expected


def test_starting_broker_follows_the_leader_in_zookeeper() -> None:
    """R-045, V3 §E step 3.3: become follower; of b2, though b1 is the preferred one and alive."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 1)
    lab.start(1)
    lab.settle()
    crash_and_expire(lab, 3)
    start_without_commands(lab, 3)
    role = lab.partition(3).role

    assert isinstance(role, Follower)
    assert role.leader == 2


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_starting_broker_follows_in_each_partition(variant: str) -> None:
    """R-045: for each replica assigned to this broker, of all topics; a-0, which nobody can lead yet, has no state."""
    lab = cluster_in_sync(variant)
    for topic in ("other", "third"):
        add_topic(lab, topic, 1, 3)
    crash_and_expire(lab, 3)
    add_topic(lab, "a", 3)
    start_without_commands(lab, 3)
    roles = {tp: p.role for tp, p in lab.nodes[3].state.broker.partitions.items()}

    assert {tp: isinstance(role, Follower) for tp, role in roles.items()} == {OTHER: True, T0: True, THIRD: True}


def test_v3_starting_broker_creates_what_it_missed() -> None:
    """R-070: it holds no replica at all, and ZooKeeper assigns one to it; then it holds one, and gets another."""
    lab = Lab(4, variant=VARIANTS["v3"], replicas=(1, 2, 3))
    lab.wait(3000)
    crash_and_expire(lab, 4)
    add_topic(lab, "other", 1, 4)
    start_without_commands(lab, 4)
    role = lab.nodes[4].state.broker.partitions[OTHER].role
    assert isinstance(role, Follower)
    assert role.leader == 1
    crash_and_expire(lab, 4)
    add_topic(lab, "third", 1, 4)
    start_without_commands(lab, 4)

    assert sorted(lab.nodes[4].state.broker.partitions) == [OTHER, THIRD]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_starting_broker_deletes_unassigned_partitions(variant: str) -> None:
    """R-046, R-074, V3 §E step 4: partitions deleted while the broker was down; V3 never looks again."""
    lab = cluster_in_sync(variant)
    crash_and_expire(lab, 3)
    lab.disks[3].logs[OTHER] = []
    lab.disks[3].logs[THIRD] = []
    start_without_commands(lab, 3)

    assert sorted(lab.disks[3].logs) == [T0]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_starting_broker_deletes_what_has_moved_away(variant: str) -> None:
    """R-046: the topic is still there, and its partition has other replicas now."""
    lab = cluster_in_sync(variant)
    crash_and_expire(lab, 3)
    lab.zk.submit(lab.admin, (SetData(paths.topic_path("t"), paths.topic_payload(((BrokerId(1), BrokerId(2)),))),))
    start_without_commands(lab, 3)

    assert sorted(lab.disks[3].logs) == []
