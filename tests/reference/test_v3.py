"""One test for each step of Kafka Detailed Replication Design V3, by section; on the variant `v3` where its letter differs."""

import msgspec
import pytest

from reference.config import SAFE, V3, VARIANTS
from reference.controller import leader_selection
from reference.controller.leader_selection import Elect, Keep, Offline
from reference.coordination import paths
from reference.coordination.api import Create, Delete, SetData
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import (
    EpochEnd,
    Fetch,
    FetchReply,
    IsrMember,
    LeaderAndIsr,
    LeaderAndIsrReply,
    PartitionState,
    ProduceReply,
    StopPartition,
    StopReplica,
)
from reference.replica.partition import Follower, Idle, Leader
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicPartition,
    ZkVersion,
)
from tests.reference.lab import T0, Lab

OTHER = TopicPartition("other-0")
THIRD = TopicPartition("third-0")


def full(variant: str = "safe", *, min_isr: int = 1) -> Lab:
    """Three brokers, all in the ISR, b1 leading."""
    lab = Lab(3, variant=VARIANTS[variant], min_isr=min_isr)
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == ([1, 2, 3], [1])
    return lab


def die(lab: Lab, i: int) -> None:
    lab.crash(i)
    lab.expire(i)
    lab.settle()


def member(i: int, incarnation: int = 10) -> IsrMember:
    return IsrMember(BrokerId(i), Incarnation(incarnation + i))


def state(leader: int | None, isr: tuple[int, ...], *, epoch: int = 3) -> PartitionState:
    return PartitionState(
        tp=T0,
        leader=None if leader is None else BrokerId(leader),
        leader_incarnation=NO_INCARNATION if leader is None else member(leader).incarnation,
        leader_epoch=LeaderEpoch(epoch),
        isr=tuple(member(i) for i in isr),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(5),
        replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
    )


def live(*ids: int) -> dict[BrokerId, Incarnation]:
    return {BrokerId(i): member(i).incarnation for i in ids}


# --- A: failover during broker failure -----------------------------------------------------------------------------------------


def test_controller_reads_the_live_brokers() -> None:
    """R-018, V3 §A step 1: get the current live brokers from BrokerPath."""
    lab = full()
    assert [b.broker for b in lab.nodes[1].state.controller.live] == [1, 2, 3]
    die(lab, 3)

    assert [b.broker for b in lab.nodes[1].state.controller.live] == [1, 2]


def test_controller_changes_only_partitions_of_a_dead_broker() -> None:
    """V3 §A step 2: set_p is the partitions that lost their leader or an ISR member."""
    lab = Lab(3, replicas=(1, 2))
    lab.wait(3000)
    before = lab.state()
    die(lab, 3)

    assert lab.state() == before


def test_controller_changes_each_partition_of_a_dead_broker() -> None:
    """V3 §A step 3: for each partition in set_p."""
    lab = full()
    die(lab, 2)

    assert lab.isr() == [1, 3]


def test_controller_reads_the_isr_before_it_elects() -> None:
    """R-020, R-155, V3 §A step 3.1: the leader may have changed the ISR since the controller last read it."""
    lab = full("isr-via-zookeeper")
    known = lab.nodes[1].state.controller.states[T0]
    assert known.isr != lab.state().isr  # the leader added b2 and b3 itself
    die(lab, 3)

    assert lab.isr() == [1, 2]


@pytest.mark.parametrize("variant", [SAFE, V3])
def test_election_picks_leader_and_isr_from_live_isr_members(variant: object) -> None:
    """R-021, V3 §A step 3.2, first case: leader and ISR come from ISR ∩ live."""
    assert leader_selection.select(variant, state(1, (1, 2, 3)), live(2, 3)) == Elect(member(2), (member(2), member(3)))  # type: ignore[arg-type]  # a Variant


def test_v3_elects_any_replica_without_a_live_isr_member() -> None:
    """R-022, V3 §A step 3.2, second case (potential data loss); `safe` stays offline and keeps the ISR (KAFKA-708)."""
    found = state(1, (1,))

    assert leader_selection.select(V3, found, live(2, 3)) == Elect(member(2), (member(2),))
    assert leader_selection.select(SAFE, found, live(2, 3)) == Offline((member(1),))


def test_partition_goes_offline_without_a_live_replica() -> None:
    """R-023, R-155, V3 §A step 3.2, third case: leader -1."""
    assert leader_selection.select(V3, state(1, (1,)), live()) == Offline((member(1),))
    assert leader_selection.select(SAFE, state(None, (1,)), live()) == Keep()


def test_election_writes_conditionally_with_a_new_epoch() -> None:
    """R-024, V3 §A step 3.3: a controller that lost the race must not overwrite the ISR; it reads again (step 3.1)."""
    lab = full()
    before = lab.state()
    die(lab, 3)
    after = lab.state()

    assert after.leader_epoch == before.leader_epoch + 1
    assert after.zk_version == before.zk_version + 1


def test_election_is_sent_to_all_replicas() -> None:
    """R-025, V3 §A step 4: LeaderAndISRCommand to the replicas of the changed partitions."""
    lab = full()
    die(lab, 1)

    assert lab.leaders() == [2]
    assert isinstance(lab.partition(3).role, Follower)
    assert lab.partition(3).leader_epoch == lab.state().leader_epoch


# --- B: creating and deleting topics ----------------------------------------------------------------------------------------


def add_topic(lab: Lab, name: str, *replicas: int) -> None:
    payload = paths.topic_payload((tuple(BrokerId(i) for i in replicas),))
    _, fired = lab.zk.submit(lab.admin, (Create(paths.topic_path(name), payload),))
    lab.watches(fired)
    lab.settle()


def test_new_topic_is_assigned_as_its_znode_says() -> None:
    """R-027, V3 §B step 1: read the TopicPath to get the replica assignment."""
    lab = full()
    add_topic(lab, "other", 2, 3)

    assert lab.nodes[1].state.controller.assignments[OTHER] == (2, 3)


def test_new_topic_gets_leaders() -> None:
    """R-027, V3 §B step 1.1: init_leaders() on all newly created partitions."""
    lab = full()
    add_topic(lab, "other", 2, 3)

    assert isinstance(lab.nodes[2].state.broker.partitions[OTHER].role, Leader)
    assert isinstance(lab.nodes[3].state.broker.partitions[OTHER].role, Follower)


def test_deleted_topic_is_deleted_on_all_brokers() -> None:
    """R-028, V3 §B step 2: send the StopReplicaCommand to all affected brokers."""
    lab = full()
    for path in (paths.state_path(T0), *reversed(paths.state_parents(T0)), paths.topic_path("t")):
        _, fired = lab.zk.submit(lab.admin, (Delete(path),))
        lab.watches(fired)
    lab.settle()

    assert [i for i in lab.ids if T0 in lab.nodes[i].state.broker.partitions] == []
    assert [i for i in lab.ids if T0 in lab.disks[i].logs] == []


def test_first_isr_is_all_live_replicas_with_the_first_leading() -> None:
    """R-029, V3 §B init_leaders step 1.1."""
    first = leader_selection.first_leader((BrokerId(3), BrokerId(1), BrokerId(2)), live(1, 2))

    assert first == Elect(member(1), (member(1), member(2)))
    assert leader_selection.first_leader((BrokerId(3),), live(1, 2)) is None


def test_first_state_is_created_with_epoch_zero() -> None:
    """V3 §B init_leaders step 1.2: created only if there is no state yet."""
    lab = Lab(3)

    assert (lab.state().leader_epoch, lab.state().leader) == (0, 1)


# --- C: brokers act on commands -------------------------------------------------------------------------------------------


def command(lab: Lab, i: int, *states: PartitionState, init: bool = False) -> LeaderAndIsrReply:
    lab.letters.clear()
    epoch = lab.nodes[i].state.broker.controller_epoch
    incarnation = lab.nodes[i].state.broker.incarnation
    lab.tell(i, Received(Address("b2"), LeaderAndIsr(77, BrokerId(2), epoch, incarnation, init, states)))
    replies = [m for _, _, m in lab.letters if isinstance(m, LeaderAndIsrReply)]
    assert len(replies) == 1
    return replies[0]


def told(lab: Lab, leader: int, *, epoch_up: int = 1, tp: TopicPartition = T0) -> PartitionState:
    now = lab.state()
    incarnation = next((m.incarnation for m in now.isr if m.broker == leader), NO_INCARNATION)
    return msgspec.structs.replace(
        now,
        tp=tp,
        leader=BrokerId(leader),
        leader_incarnation=incarnation,
        leader_epoch=LeaderEpoch(now.leader_epoch + epoch_up),
        replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
    )


def test_broker_creates_the_log_of_an_unknown_partition() -> None:
    """R-030, R-038, V3 §C step 2.0 and V3 §C startReplica(): if P does not exist locally, its directory is created."""
    lab = full()
    command(lab, 3, told(lab, 1, tp=OTHER))

    assert lab.disks[3].logs[OTHER] == []


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_broker_becomes_leader_by_leader_and_isr(variant: str) -> None:
    """R-031, V3 §C step 2.1: asked to be the new leader, and not already."""
    lab = full(variant)
    command(lab, 3, told(lab, 3))

    assert isinstance(lab.partition(3).role, Leader)


def test_new_leader_starts_its_epoch_at_its_log_end() -> None:
    """R-010, R-034, V3 §C step 2.1.1, becomeLeader(): the old fetcher is stopped; ISR and version come from the command."""
    lab = full()
    lab.produce(1, "x")
    lab.settle()
    state = told(lab, 3)
    command(lab, 3, state)
    role = lab.partition(3).role

    assert isinstance(role, Leader)
    assert (role.epoch_start, role.isr, role.zk_version) == (1, state.isr, state.zk_version)
    assert f"fetch:{T0}" not in lab.timers[3]


def test_v3_leader_ignores_a_command_to_lead_again() -> None:
    """R-031, V3 §C step 2.1: "and this broker is not already the leader" (U-06): ISR and version stay stale; `safe` obeys."""
    for name, expected in (("v3", 0), ("safe", 1)):
        lab = full(name)
        before = lab.partition(1).leader_epoch
        command(lab, 1, told(lab, 1))

        assert lab.partition(1).leader_epoch - before == expected


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_broker_becomes_follower_by_leader_and_isr(variant: str) -> None:
    """R-032, V3 §C step 2.2: asked to follow L, and not already following L."""
    lab = full(variant)
    command(lab, 3, told(lab, 2))
    role = lab.partition(3).role

    assert isinstance(role, Follower)
    assert role.leader == 2


def test_v3_follower_ignores_a_new_epoch_of_its_leader() -> None:
    """R-032, R-080, V3 §C step 2.2: "and the broker is not already following L" (U-07); `safe` truncates again."""
    for name, expected in (("v3", 0), ("safe", 1)):
        lab = full(name)
        before = lab.partition(3).leader_epoch
        command(lab, 3, told(lab, 1))

        assert lab.partition(3).leader_epoch - before == expected


def test_v3_follower_truncates_to_its_hw() -> None:
    """R-037, V3 §C step 2.2.1 and V3 §C becomeFollower(): the log is truncated to r.hw, fetching starts at r.leo."""
    lab = full("v3")
    lab.produce(1, "a")
    lab.settle()
    lab.wait(600)
    ahead(lab, 3)
    assert (lab.values(3), lab.partition(3).hw) == (["a", "x"], 1)
    command(lab, 3, told(lab, 2))
    fetches = [m for _, to, m in lab.letters if to == "b2" and isinstance(m, Fetch)]

    assert lab.values(3) == ["a"]
    assert [f.offset for f in fetches] == [1]


def test_v3_init_command_deletes_unlisted_partitions() -> None:
    """R-033, V3 §C step 3: with INIT, delete all local partitions not in set_p (U-11); `safe` never deletes on absence."""
    for name, expected in (("v3", False), ("safe", True)):
        lab = full(name)
        command(lab, 3, told(lab, 1, tp=OTHER))
        command(lab, 3, told(lab, 1, tp=THIRD), init=True)
        found = sorted(lab.nodes[3].state.broker.partitions)

        assert found == ([OTHER, T0, THIRD] if expected else [THIRD])
        assert sorted(lab.disks[3].logs) == found


def test_v3_init_command_keeps_listed_partitions() -> None:
    """R-033: only with the flag INIT, and only what is not listed: set_p of a later command is never complete."""
    lab = full("v3")
    command(lab, 3, told(lab, 1, tp=OTHER))
    assert sorted(lab.nodes[3].state.broker.partitions) == [OTHER, T0]
    command(lab, 3, told(lab, 1, tp=OTHER), told(lab, 1), init=True)

    assert sorted(lab.nodes[3].state.broker.partitions) == [OTHER, T0]
    assert (sorted(lab.disks[3].logs), lab.halted) == ([OTHER, T0], {})


def ahead(lab: Lab, i: int) -> None:
    """Let broker `i` hold a record above its HW; from here on no message arrives by itself."""
    lab.held = lambda letter: isinstance(letter[2], FetchReply)
    lab.produce(1, "x")
    lab.settle()
    lab.deliver(lambda x: isinstance(x[2], FetchReply))
    lab.held = lambda _: True
    assert (lab.values(i)[-1], lab.partition(i).log.leo - lab.partition(i).hw) == ("x", 1)


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_every_replica_knows_the_assigned_ones(variant: str) -> None:
    """R-010: AR, at the leader and at the followers, as the last command names it."""
    lab = full(variant)
    before = [lab.partition(i).replicas for i in lab.ids]
    command(lab, 3, msgspec.structs.replace(told(lab, 2), replicas=(BrokerId(3), BrokerId(2))))

    assert before == [(1, 2, 3)] * 3
    assert lab.partition(3).replicas == (3, 2)


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_new_leader_serves_before_its_hw_has_risen(variant: str) -> None:
    """R-035: isLeader enables reads and writes; the follower that fetches is what will raise the HW."""
    lab = full(variant)
    ahead(lab, 3)
    command(lab, 3, told(lab, 3))
    read = fetch(lab, 3, 0, replica=2, epoch=lab.partition(3).leader_epoch)
    lab.produce(3, "y", acks=1, correlation=9)
    written = [m.error for m in lab.inbox if isinstance(m, ProduceReply) and m.correlation == 9]

    assert read is not None
    assert (read.error, [b.base_offset for b in read.batches]) == (ErrorCode.NONE, [0])
    assert written == [ErrorCode.NONE]


@pytest.mark.parametrize("offset", [0, 1])
def test_consumer_from_hw_to_leo_gets_an_empty_set(offset: int) -> None:
    """R-036: the HW of the new leader is 0 and its log end 1; no record, and no error either."""
    lab = full()
    ahead(lab, 3)
    command(lab, 3, told(lab, 3))
    assert fetch(lab, 3, offset) is None  # it waits for the HW
    lab.wait(100)
    (reply,) = [m for m in lab.inbox if isinstance(m, FetchReply)]

    assert (lab.partition(3).hw, lab.partition(3).log.leo) == (0, 1)
    assert (reply.error, reply.batches) == (ErrorCode.NONE, ())


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_leader_that_must_follow_serves_no_more(variant: str) -> None:
    """R-032, R-037: isLeader becomes false, which disables reads and writes; it fetches from the new leader."""
    lab = full(variant)
    command(lab, 1, told(lab, 2))
    role = lab.partition(1).role
    asked = [to for _, to, m in lab.letters if isinstance(m, Fetch | EpochEnd)]
    read = fetch(lab, 1, 0)
    lab.produce(1, "x", acks=1, correlation=9)
    written = [m.error for m in lab.inbox if isinstance(m, ProduceReply) and m.correlation == 9]

    assert isinstance(role, Follower)
    assert (role.leader, asked) == (2, ["b2"])
    assert read is not None
    assert read.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert written == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_follower_ignores_a_late_answer_of_its_former_leader() -> None:
    """R-037: the fetcher of the old leader is stopped before the log is truncated."""
    lab = full("v3")
    lab.held = lambda letter: letter[1] == "b3" and isinstance(letter[2], FetchReply)
    lab.produce(1, "x")
    lab.settle()
    (late,) = [m for _, to, m in lab.letters if to == "b3" and isinstance(m, FetchReply)]
    command(lab, 3, told(lab, 2))
    lab.tell(3, Received(Address("b1"), late))

    assert lab.values(3) == []


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_follower_fetches_from_its_log_end(variant: str) -> None:
    """R-016: topic and partition, its own id, and the offset behind its last record, committed or not."""
    lab = full(variant)
    ahead(lab, 3)
    fetches = [(to, m.tp, m.replica, m.offset) for source, to, m in lab.letters if source == "b3" and isinstance(m, Fetch)]

    assert fetches == [("b1", T0, 3, 1)]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_checkpoint_has_the_hw_of_every_replica(variant: str) -> None:
    """R-038: a follower's too, and from its start on that of a replica that was created later."""
    lab = full(variant)
    lab.produce(1, "x")
    lab.settle()
    lab.wait(600)
    command(lab, 3, told(lab, 1, tp=OTHER))
    lab.wait(6000)

    assert [lab.disks[i].checkpoint for i in (1, 2)] == [((T0, 1),)] * 2
    assert lab.disks[3].checkpoint == ((OTHER, 0), (T0, 1))


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_restarted_replica_has_the_hw_of_the_checkpoint(variant: str) -> None:
    """R-038: without it V3 would truncate a follower that starts again to nothing."""
    lab = full(variant)
    lab.produce(1, "x")
    lab.settle()
    lab.wait(6000)
    die(lab, 3)
    start_without_commands(lab, 3)

    assert (lab.values(3), lab.partition(3).hw) == (["x"], 1)


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_stopped_replica_leaves_the_checkpoint(variant: str) -> None:
    """R-039: else the next partition of that name would begin with its HW."""
    lab = full(variant)
    lab.produce(1, "x")
    lab.settle()
    lab.wait(6000)
    before = lab.disks[3].checkpoint
    stop(lab, 3, 99)

    assert (before, lab.disks[3].checkpoint) == (((T0, 1),), ())


def stop(lab: Lab, i: int, epoch: int) -> None:
    node = lab.nodes[i].state.broker
    request = StopReplica(78, BrokerId(2), node.controller_epoch, node.incarnation, (StopPartition(T0, LeaderEpoch(epoch)),))
    lab.tell(i, Received(Address("b2"), request))


def test_stop_replica_deletes_the_log() -> None:
    """R-039, V3 §C stopReplica(): stop the fetcher, delete the partition directory."""
    lab = full()
    stop(lab, 3, 99)

    assert T0 not in lab.disks[3].logs
    assert f"fetch:{T0}" not in lab.timers[3]


def test_stop_replica_of_an_older_epoch_deletes_nothing() -> None:
    """KIP-570 on V3 §C on_StopReplicaCommand(): a later command assigned the replica again; V3 itself deletes it."""
    for name, expected in (("v3", False), ("safe", True)):
        lab = full(name)
        command(lab, 3, told(lab, 2, epoch_up=4))
        stop(lab, 3, 1)

        assert (T0 in lab.nodes[3].state.broker.partitions) is expected


# --- D: controller failure -----------------------------------------------------------------------------------------------


def controllers(lab: Lab) -> list[int]:
    return [i for i in lab.ids if i in lab.nodes and lab.nodes[i].state.controller.step == "active"]


def test_first_broker_to_create_the_znode_is_controller() -> None:
    """V3 §D step 1: create /controller."""
    lab = full()

    assert controllers(lab) == [1]


def test_other_brokers_watch_the_controller_znode() -> None:
    """R-040, R-041, V3 §D step 2: if not successful, return; the exists watch fires when the znode is deleted."""
    lab = full()
    assert lab.nodes[2].state.controller.step == "watching"
    die(lab, 1)
    assert (controllers(lab), lab.nodes[3].state.controller.step) == ([2], "watching")
    die(lab, 2)

    assert controllers(lab) == [3]


def test_new_controller_reads_every_state() -> None:
    """V3 §D step 3."""
    lab = full()
    die(lab, 1)

    assert lab.nodes[2].state.controller.states[T0].leader == 2


def test_new_controller_sends_init_to_every_broker() -> None:
    """R-042, V3 §D step 4: LeaderAndISR with INIT, since commands of the former controller may have been lost."""
    lab = full()
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)
    die(lab, 1)
    first = [m for _, to, m in lab.letters if to == "b3" and isinstance(m, LeaderAndIsr)]

    assert [m.init for m in first] == [True]


def test_new_controller_handles_brokers_that_died_before() -> None:
    """V3 §D step 5: call on_broker_change()."""
    lab = full()
    die(lab, 1)  # both leader and controller

    assert (lab.leaders(), lab.isr()) == ([2], [2, 3])


def test_new_controller_elects_for_leaderless_partitions() -> None:
    """V3 §D step 6: init_leaders() for the partitions without a leader."""
    lab = Lab(3, start=False)
    lab.start(2)
    lab.settle()

    assert lab.leaders() == [2]


# --- E: broker startup ---------------------------------------------------------------------------------------------------


def start_without_commands(lab: Lab, i: int) -> None:
    """Start the broker again; neither commands of the controller nor records of the leader arrive."""
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr | FetchReply)
    lab.start(i)
    lab.settle()


def test_starting_broker_reads_its_assigned_partitions() -> None:
    """V3 §E step 1: read the replica assignment of all topics."""
    lab = full()
    die(lab, 3)
    add_topic(lab, "other", 3)
    start_without_commands(lab, 3)

    assert sorted(lab.nodes[3].state.broker.partitions) == [T0]  # t-0 only: other-0 has no state yet


def test_starting_broker_reads_leader_and_isr() -> None:
    """V3 §E step 2: read the leader and the ISR of each partition assigned to this broker."""
    lab = full()
    die(lab, 3)
    start_without_commands(lab, 3)

    assert lab.partition(3).leader_epoch == lab.state().leader_epoch


def test_starting_broker_starts_its_replicas() -> None:
    """R-038, R-045, R-046, V3 §E step 3.1: start replica, with the records of its log."""
    lab = full()
    lab.produce(1, "x")
    lab.settle()
    die(lab, 3)
    start_without_commands(lab, 3)

    assert lab.values(3) == ["x"]


def test_v3_starting_broker_leads_without_leader_and_isr() -> None:
    """R-045, V3 §E step 3.2: "shouldn't happen in general"; `safe` waits for the controller's command."""
    for name, expected in (("v3", [1]), ("safe", [])):
        lab = Lab(1, variant=VARIANTS[name])
        lab.crash(1)
        lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)
        fired = lab.zk.expire(lab.sessions[1])
        lab.watches(fired)
        lab.start(1)
        lab.settle()

        assert lab.leaders() == expected


def test_starting_broker_follows_the_leader_in_zookeeper() -> None:
    """R-045, V3 §E step 3.3: become follower."""
    lab = full()
    die(lab, 3)
    start_without_commands(lab, 3)
    role = lab.partition(3).role

    assert isinstance(role, Follower)
    assert role.leader == 1


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_starting_broker_follows_in_each_partition(variant: str) -> None:
    """R-045: for each replica assigned to this broker, of all topics."""
    lab = full(variant)
    for topic in ("other", "third"):
        add_topic(lab, topic, 1, 3)
    die(lab, 3)
    start_without_commands(lab, 3)
    roles = {tp: p.role for tp, p in lab.nodes[3].state.broker.partitions.items()}

    assert {tp: isinstance(role, Follower) for tp, role in roles.items()} == {OTHER: True, T0: True, THIRD: True}


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_starting_broker_deletes_unassigned_partitions(variant: str) -> None:
    """R-046, V3 §E step 4: partitions deleted while the broker was down; V3 never looks again."""
    lab = full(variant)
    die(lab, 3)
    lab.disks[3].logs[OTHER] = []
    lab.disks[3].logs[THIRD] = []
    start_without_commands(lab, 3)

    assert sorted(lab.disks[3].logs) == [T0]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_starting_broker_deletes_what_has_moved_away(variant: str) -> None:
    """R-046: the topic is still there, and its partition has other replicas now."""
    lab = full(variant)
    die(lab, 3)
    lab.zk.submit(lab.admin, (SetData(paths.topic_path("t"), paths.topic_payload(((BrokerId(1), BrokerId(2)),))),))
    start_without_commands(lab, 3)

    assert sorted(lab.disks[3].logs) == []


# --- G: fetching and the high watermark --------------------------------------------------------------------------------------


def fetch(lab: Lab, i: int, offset: int, *, replica: int | None = None, epoch: int = NO_EPOCH) -> FetchReply | None:
    lab.inbox.clear()
    incarnation = lab.nodes[replica].state.broker.incarnation if replica else NO_INCARNATION
    asker = None if replica is None else BrokerId(replica)
    request = Fetch(5, T0, asker, incarnation, LeaderEpoch(epoch), Offset(offset), Millis(100), 10)
    lab.tell(i, Received(Address("c9"), request))
    return next((m for m in lab.inbox if isinstance(m, FetchReply)), None)


def test_fetch_from_a_follower_is_refused() -> None:
    """V3 §G on_ReplicaFetchRequest, R-055, R-131: NotLeaderException; a follower's log may hold uncommitted records."""
    reply = fetch(full(), 2, 0)

    assert reply is not None
    assert reply.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_hw_waits_for_the_whole_isr() -> None:
    """V3 §G: leader.hw = min of leo of every replica in ISR."""
    lab = full()
    lab.held = lambda letter: letter[1] == "b3"
    lab.produce(1, "x")
    lab.settle()
    assert lab.partition(1).hw == 0
    lab.held = lambda _: False
    lab.settle()

    assert lab.partition(1).hw == 1


def test_produce_reply_waits_for_the_hw() -> None:
    """V3 §G: trigger potential acks to produce requests."""
    lab = full()
    lab.held = lambda letter: letter[1] == "b3"
    lab.produce(1, "x")
    lab.settle()
    assert lab.inbox == []
    lab.held = lambda _: False
    lab.settle()

    assert [m.error for m in lab.inbox if isinstance(m, ProduceReply)] == [ErrorCode.NONE]


def test_consumer_between_hw_and_leo_gets_no_records() -> None:
    """V3 §C becomeLeader and Discussion 7: a new leader's HW may lag: an empty set, OutOfRange only beyond the log end."""
    lab = full()
    lab.held = lambda letter: letter[1] == "b3"
    lab.produce(1, "x")
    lab.settle()
    assert fetch(lab, 1, 0) is None  # parked: no committed record yet
    beyond = fetch(lab, 1, 2)

    assert beyond is not None
    assert beyond.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_silent_follower_leaves_the_isr() -> None:
    """R-060, V3 §G maybe_change_ISR: no update for more than MAX_TIME_LAG; a timer checks, since no fetch may come."""
    lab = full()
    lab.held = lambda letter: letter[0] == "b3" and isinstance(letter[2], Fetch)  # it lives, as its heartbeats say
    lab.produce(1, "x")
    lab.settle()
    lab.wait(9000)

    assert lab.isr() == [1, 2]
    assert lab.partition(1).hw == 1


def test_caught_up_follower_joins_the_isr() -> None:
    """V3 §G maybe_change_ISR: newISR = ISR + r, by a conditional write, in force only when ZooKeeper has answered."""
    lab = full()
    die(lab, 3)
    assert lab.isr() == [1, 2]
    lab.start(3)
    lab.settle()
    lab.wait(2000)

    assert lab.isr() == [1, 2, 3]


def test_idle_partition_keeps_its_isr() -> None:
    """KAFKA-7152 on V3 §G maybe_change_ISR: a follower at the log end is caught up; by V3's letter it would leave the ISR."""
    lab = full()
    lab.wait(20_000)

    assert lab.isr() == [1, 2, 3]


def test_follower_appends_and_adopts_the_hw() -> None:
    """V3 §G run(), R-009, R-016: append, r.hw = response.hw, advance."""
    lab = full()
    lab.produce(1, "x")
    lab.settle()
    lab.wait(600)

    assert (lab.values(2), lab.partition(2).hw) == (["x"], 1)


def test_replica_is_idle_without_a_leader() -> None:
    """V3 §A step 3.2, third case, at the brokers (C-10)."""
    lab = full()
    command(lab, 3, msgspec.structs.replace(told(lab, 1), leader=None, leader_incarnation=NO_INCARNATION))

    assert isinstance(lab.partition(3).role, Idle)
