"""One test for each step of V3 §A, §B, §D and §G; on the variant `v3` where its letter differs."""

import msgspec
import pytest
from msgspec.structs import replace

from reference.config import SAFE, V3, Variant
from reference.controller import leader_selection
from reference.controller.leader_selection import Elect, Keep, Offline
from reference.coordination import paths
from reference.coordination.api import Data, Delete, GetData
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import (
    EARLIEST,
    LATEST,
    Fetch,
    LeaderAndIsr,
    ListOffsets,
    ListOffsetsReply,
    ProduceReply,
    StopReplica,
)
from reference.replica.partition import Follower, Idle
from reference.types import NO_EPOCH, NO_INCARNATION, Address, BrokerId
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.moving import wait_until
from tests.reference.v3 import (
    OTHER,
    add_topic,
    cluster_in_sync,
    controllers,
    crash_and_expire,
    fetch,
    isr_member,
    live_brokers,
    next_state,
    partition_state,
    send_leader_and_isr,
)

# --- A: failover during broker failure -----------------------------------------------------------------------------------------


def test_controller_reads_the_live_brokers() -> None:
    """R-018, V3 §A step 1: get the current live brokers from BrokerPath."""
    lab = cluster_in_sync()
    assert [b.broker for b in lab.nodes[1].state.controller.live] == [1, 2, 3]
    crash_and_expire(lab, 3)

    assert [b.broker for b in lab.nodes[1].state.controller.live] == [1, 2]


def test_controller_changes_only_partitions_of_a_dead_broker() -> None:
    """V3 §A step 2: set_p is the partitions that lost their leader or an ISR member."""
    lab = Lab(3, replicas=(1, 2))
    lab.wait(3000)
    before = lab.state()
    crash_and_expire(lab, 3)

    assert lab.state() == before


def test_controller_changes_each_partition_of_a_dead_broker() -> None:
    """V3 §A step 3: for each partition in set_p."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 2)

    assert lab.isr() == [1, 3]


def test_controller_reads_the_isr_before_it_elects() -> None:
    """R-020, R-155, V3 §A step 3.1: the leader may have changed the ISR since the controller last read it."""
    lab = cluster_in_sync("isr-via-zookeeper")
    known_state = lab.nodes[1].state.controller.states[T0]
    assert known_state.isr != lab.state().isr  # the leader added b2 and b3 itself
    crash_and_expire(lab, 3)

    assert lab.isr() == [1, 2]


@pytest.mark.parametrize("variant", [SAFE, V3])
def test_election_picks_leader_and_isr_from_live_isr_members(variant: Variant) -> None:
    """R-021, V3 §A step 3.2, first case: leader and ISR come from ISR ∩ live."""
    elected = leader_selection.select(variant, partition_state(leader=1, isr=(1, 2, 3)), live_brokers(2, 3))

    assert elected == Elect(isr_member(2), (isr_member(2), isr_member(3)))
    last = leader_selection.select(variant, partition_state(leader=1, isr=(1, 2, 3)), live_brokers(3))
    assert last == Elect(isr_member(3), (isr_member(3),))


def test_election_prefers_the_first_live_member_assigned() -> None:
    """R-021: not the member with the least id, nor the last one."""
    state_found = replace(partition_state(1, (1, 2, 3, 4)), replicas=(1, 3, 4, 2))

    assert leader_selection.select(SAFE, state_found, live_brokers(2, 3, 4)) == Elect(
        isr_member(3), (isr_member(2), isr_member(3), isr_member(4))
    )


def test_v3_elects_any_replica_without_a_live_isr_member() -> None:
    """R-022, V3 §A step 3.2, second case (potential data loss); `safe` stays offline and keeps the ISR (KAFKA-708)."""
    state_found = partition_state(1, (1,))

    assert leader_selection.select(V3, state_found, live_brokers(2, 3)) == Elect(isr_member(2), (isr_member(2),))
    assert leader_selection.select(SAFE, state_found, live_brokers(2, 3)) == Offline((isr_member(1),))


def test_partition_goes_offline_without_a_live_replica() -> None:
    """R-023, R-155, V3 §A step 3.2, third case: leader -1."""
    assert leader_selection.select(V3, partition_state(1, (1,)), live_brokers()) == Offline((isr_member(1),))
    assert leader_selection.select(SAFE, partition_state(None, (1,)), live_brokers()) == Keep()
    alone = replace(partition_state(1, (1,)), replicas=(BrokerId(1),))
    assert leader_selection.select(SAFE, alone, live_brokers(2)) == Offline((isr_member(1),))


def test_election_writes_conditionally_with_a_new_epoch() -> None:
    """R-024, V3 §A step 3.3: a controller that lost the race must not overwrite the ISR; it reads again (step 3.1)."""
    lab = cluster_in_sync()
    before = lab.state()
    crash_and_expire(lab, 3)
    after = lab.state()

    assert after.leader_epoch == before.leader_epoch + 1
    assert after.zk_version == before.zk_version + 1


def test_election_is_sent_to_all_replicas() -> None:
    """R-025, V3 §A step 4: LeaderAndISRCommand to the replicas of the changed partitions."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 1)

    (follower,) = lab.followers()
    assert isinstance(lab.partition(follower).role, Follower)
    assert lab.partition(follower).leader_epoch == lab.state().leader_epoch


# --- B: creating and deleting topics ----------------------------------------------------------------------------------------


def test_new_topic_is_assigned_as_its_znode_says() -> None:
    """R-027, V3 §B step 1: read the TopicPath to get the replica assignment."""
    lab = cluster_in_sync()
    add_topic(lab, "other", 2, 3)

    assert lab.nodes[1].state.controller.assignments[OTHER] == (2, 3)


def test_new_topic_gets_leaders() -> None:
    """R-027, V3 §B step 1.1: init_leaders() on all newly created partitions."""
    lab = cluster_in_sync()
    add_topic(lab, "other", 2, 3)

    (follower,) = lab.followers(OTHER)
    assert isinstance(lab.nodes[follower].state.broker.partitions[OTHER].role, Follower)


def test_deleted_topic_is_deleted_on_all_brokers() -> None:
    """R-028, V3 §B step 2: send the StopReplicaCommand to all affected brokers."""
    lab = cluster_in_sync()
    brokers_asked: set[str] = set()

    def seen(envelope: Envelope) -> bool:
        if isinstance(envelope.message, StopReplica) and any(
            stop.tp == T0 and stop.delete for stop in envelope.message.partitions
        ):
            brokers_asked.add(envelope.receiver)
        return False

    lab.is_held = seen
    for path in (paths.state_path(T0), *reversed(paths.state_parents(T0)), paths.topic_path("t")):
        _, fired = lab.zk.submit(lab.admin, (Delete(path),))
        lab.deliver_watches(fired)
    lab.settle()

    assert brokers_asked == {"b1", "b2", "b3"}
    assert [i for i in lab.ids if T0 in lab.nodes[i].state.broker.partitions] == []
    assert [i for i in lab.ids if T0 in lab.disks[i].logs] == []


def test_first_isr_is_all_live_replicas_with_the_first_leading() -> None:
    """R-029, V3 §B init_leaders step 1.1."""
    first = leader_selection.first_leader((BrokerId(3), BrokerId(2), BrokerId(1)), live_brokers(1, 2))

    assert first == Elect(isr_member(2), (isr_member(1), isr_member(2)))
    assert leader_selection.first_leader((BrokerId(3),), live_brokers(1, 2)) is None


def test_first_state_is_created_with_epoch_zero() -> None:
    """V3 §B init_leaders step 1.2: created only if there is no state yet."""
    lab = Lab(3)

    assert (lab.state().leader_epoch, lab.state().leader) == (0, 1)


# --- D: controller failure -----------------------------------------------------------------------------------------------


def test_first_broker_to_create_the_znode_is_controller() -> None:
    """V3 §D step 1: create /controller."""
    lab = cluster_in_sync()

    assert controllers(lab) == [1]


def test_other_brokers_watch_the_controller_znode() -> None:
    """R-040, R-041, V3 §D step 2: if not successful, return; the exists watch fires when the znode is deleted."""
    lab = cluster_in_sync()
    assert lab.nodes[2].state.controller.step == "watching"
    crash_and_expire(lab, 1)
    assert (controllers(lab), lab.nodes[3].state.controller.step) == ([2], "watching")
    crash_and_expire(lab, 2)

    assert controllers(lab) == [3]


def test_controller_acts_on_the_deletion_of_its_znode() -> None:
    """R-040: an administrator deletes /controller: who held it resigns, and whoever creates it again is the only controller."""
    lab = cluster_in_sync()
    _, fired = lab.zk.submit(lab.admin, (Delete(paths.CONTROLLER),))
    lab.deliver_watches(fired)
    lab.settle()
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(paths.CONTROLLER),))

    assert isinstance(answer, Data)
    assert controllers(lab) == [paths.decode_controller(answer.data)]


def test_new_controller_reads_every_state() -> None:
    """V3 §D step 3."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 1)

    assert lab.nodes[2].state.controller.states[T0].leader == lab.leader()


def test_new_controller_sends_init_to_every_broker() -> None:
    """R-042, V3 §D step 4: LeaderAndISR with INIT, since commands of the former controller may have been lost."""
    lab = cluster_in_sync()
    lab.is_held = carries(LeaderAndIsr)
    crash_and_expire(lab, 1)
    first = [message for _, to, message in lab.in_flight if to == "b3" and isinstance(message, LeaderAndIsr)]

    assert [message.init for message in first] == [True]


def test_new_controller_handles_brokers_that_died_before() -> None:
    """V3 §D step 5: call on_broker_change()."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 1)  # both leader and controller

    assert lab.leader() in lab.isr() == [2, 3]


def test_new_controller_elects_for_leaderless_partitions() -> None:
    """V3 §D step 6: init_leaders() for the partitions without a leader."""
    lab = Lab(3, start=False)
    lab.start(2)
    lab.settle()

    assert lab.leaders() == [2]


# --- G: fetching and the high watermark --------------------------------------------------------------------------------------


def test_fetch_from_a_follower_is_refused() -> None:
    """V3 §G on_ReplicaFetchRequest, R-055, R-131: NotLeaderException; a follower's log may hold uncommitted records."""
    reply = fetch(cluster_in_sync(), 2, 0)

    assert reply is not None
    assert reply.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_hw_waits_for_the_whole_isr() -> None:
    """V3 §G: leader.hw = min of leo of every replica in ISR."""
    lab = cluster_in_sync()
    lab.is_held = carries(receiver="b3")
    lab.produce(1, "x")
    lab.settle()
    assert lab.partition(1).hw == 0
    lab.is_held = lambda _: False
    lab.settle()

    assert lab.partition(1).hw == 1


def test_produce_reply_waits_for_the_hw() -> None:
    """V3 §G: trigger potential acks to produce requests."""
    lab = cluster_in_sync()
    lab.is_held = carries(receiver="b3")
    lab.produce(1, "x")
    lab.settle()
    assert lab.client_replies == []
    lab.is_held = lambda _: False
    lab.settle()

    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [ErrorCode.NONE]


def test_consumer_between_hw_and_leo_gets_no_records() -> None:
    """V3 §C becomeLeader and Discussion 7: a new leader's HW may lag: an empty set, OutOfRange only beyond the log end."""
    lab = cluster_in_sync()
    lab.is_held = carries(receiver="b3")
    lab.produce(1, "x")
    lab.settle()
    assert fetch(lab, 1, 0) is None  # parked: no committed record yet
    beyond = fetch(lab, 1, 2)

    assert beyond is not None
    assert beyond.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_silent_follower_leaves_the_isr() -> None:
    """R-060, V3 §G maybe_change_ISR: no update for more than MAX_TIME_LAG; a timer checks, since no fetch may come."""
    lab = cluster_in_sync()
    lab.is_held = carries(Fetch, sender="b3")  # it lives, as its heartbeats say
    lab.produce(1, "x")
    lab.settle()
    lab.wait(9000)

    assert lab.isr() == [1, 2]
    assert lab.partition(1).hw == 1


def test_silent_follower_leaves_the_isr_of_a_new_leader() -> None:
    """R-060: the leader's timer has run before, while it led nothing."""
    lab = cluster_in_sync()
    lab.wait(5000)
    crash_and_expire(lab, 1)
    leader, (follower,) = lab.leader(), lab.followers()
    lab.is_held = carries(Fetch, sender=f"b{follower}")
    lab.produce(leader, "x")
    lab.settle()
    lab.wait(9000)

    assert lab.isr() == [leader]


def test_v3_leader_looks_for_silent_followers_when_idle() -> None:
    """R-060: nothing was ever written, and no fetch comes."""
    lab = cluster_in_sync("v3")
    lab.is_held = carries(Fetch)
    lab.wait(20_000)
    assert lab.isr() == [1]
    lab.is_held = lambda _: False
    lab.settle()
    lab.wait(3000)
    assert len(lab.isr()) > 1
    crash_and_expire(lab, 1)  # the next leader has followed until now
    leader = lab.leader()
    lab.start(1)
    lab.settle()
    assert wait_until(lab, lambda: lab.isr() != [leader])
    lab.is_held = carries(Fetch)
    lab.wait(20_000)

    assert lab.isr() == lab.leaders() == [leader]


def test_caught_up_follower_joins_the_isr() -> None:
    """V3 §G maybe_change_ISR: newISR = ISR + r, by a conditional write, in force only when ZooKeeper has answered."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 3)
    assert lab.isr() == [1, 2]
    lab.start(3)
    lab.settle()
    lab.wait(2000)

    assert lab.isr() == [1, 2, 3]


def test_idle_partition_keeps_its_isr() -> None:
    """KAFKA-7152 on V3 §G maybe_change_ISR: a follower at the log end is caught up; by V3's letter it would leave the ISR."""
    lab = cluster_in_sync()
    lab.wait(20_000)

    assert lab.isr() == [1, 2, 3]


def test_follower_appends_and_adopts_the_hw() -> None:
    """V3 §G run(), R-009, R-016: append, r.hw = response.hw, advance."""
    lab = cluster_in_sync()
    lab.produce(1, "x")
    lab.settle()
    lab.wait(600)

    assert (lab.values(2), lab.partition(2).hw) == (["x"], 1)


def test_replica_is_idle_without_a_leader() -> None:
    """R-075, V3 §A step 3.2, third case, at the brokers (C-10)."""
    lab = cluster_in_sync()
    lab.produce(1, "m")
    lab.settle()
    send_leader_and_isr(lab, 3, msgspec.structs.replace(next_state(lab, 1), leader=None, leader_incarnation=NO_INCARNATION))

    assert isinstance(lab.partition(3).role, Idle)
    lab.produce(3, "x", acks=1, correlation=9)  # the client must look up the leader again
    answers = [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.correlation == 9]
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    for timestamp in (EARLIEST, LATEST):
        lab.handle_event(3, Received(Address("c1"), ListOffsets(10, T0, NO_EPOCH, timestamp=timestamp)))
    offsets = [(reply.error, reply.offset) for reply in lab.client_replies if isinstance(reply, ListOffsetsReply)]
    assert offsets == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)] * 2
