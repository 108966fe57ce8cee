"""Catalogued mistakes, each shown on the protocol that makes it and absent on `safe` (docs/protocol.md)."""

from msgspec.structs import replace

from reference.config import VARIANTS
from reference.controller import channel, failover, leader_election
from reference.controller.context import ChangeStep, Controller, ControllerStep, Listing, StateChange
from reference.coordination import paths
from reference.coordination.api import GetChildren
from reference.effects import ZkRequest
from reference.errors import ErrorCode
from reference.events import Received
from reference.machine import Now, Turn
from reference.messages import Batch, Fetch, FetchReply, LeaderAndIsr, LogInfo, LogInfoReply, ProduceReply, StopPartition
from reference.node import Node
from reference.replica.partition import Follower, Leader
from reference.types import NO_EPOCH, NO_INCARNATION, Address, BrokerId, Incarnation, LeaderEpoch, Millis, Offset, TopicPartition
from tests.reference.failing_dirs import restart
from tests.reference.lab import T0, Lab, carries
from tests.reference.v3 import crash_and_expire


def acknowledgements(lab: Lab) -> list[ProduceReply]:
    return [reply for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE]


def two_brokers_with_a_lagging_hw(protocol: str) -> Lab:
    """b1 leads and has acknowledged m1; b2 holds m1, but does not know that it is committed."""
    lab = Lab(2, variant=VARIANTS[protocol])
    lab.wait(3000)
    assert lab.isr() == [1, 2]
    lab.produce(1, "m1")
    lab.settle()
    assert len(acknowledgements(lab)) == 1
    assert lab.partition(2).hw == 0
    assert lab.values(2) == ["m1"]
    return lab


def log_of_the_third_leader(protocol: str) -> list[str]:
    """The log of the third leader in KIP-101 scenario 1 with three replicas.

    A record is acknowledged, but no follower learns that it is committed, and two leaders die one after the other.
    """
    lab = Lab(3, variant=VARIANTS[protocol])
    lab.wait(3000)
    assert lab.isr() == [1, 2, 3]
    lab.produce(1, "m1")
    lab.settle()
    assert len(acknowledgements(lab)) == 1
    lab.is_held = carries(FetchReply)  # no follower receives records from the second leader
    for _ in range(2):
        crash_and_expire(lab, lab.leader())
    return lab.values(lab.leader())


def test_truncation_to_hw_loses_acknowledged_records() -> None:
    """KIP-101 scenario 1 (U-01, B-01, B-28): a follower truncates to its lagging HW, and leads before it has fetched again."""
    assert log_of_the_third_leader("truncate-to-hw") == []
    assert log_of_the_third_leader("v3") == []
    assert log_of_the_third_leader("safe") == ["m1"]


def test_restarted_follower_does_not_lead_before_it_caught_up() -> None:
    """The restarted follower is stale: the partition has no leader until b1 is back, and no record is truncated."""
    lab = two_brokers_with_a_lagging_hw("safe")
    lab.is_held = carries(FetchReply)
    restart(lab, 2)
    lab.crash(1)
    lab.expire(1)
    lab.wait(1000)
    assert lab.leaders() == []
    lab.is_held = lambda _: False
    lab.start(1)
    lab.wait(5000)

    assert len(lab.leaders()) == 1
    assert lab.values(1) == lab.values(2) == ["m1"]


def test_v3_isr_expansion_admits_a_replica_behind_the_hw() -> None:
    """B-29, R-058: V3's condition has its sign reversed, so every replica that is behind qualifies."""
    assert _isr_after_a_lagging_follower_fetches("isr-expand-v3") == [1, 2]
    assert _isr_after_a_lagging_follower_fetches("v3") == [1, 2]
    assert _isr_after_a_lagging_follower_fetches("safe") == [1]


def _isr_after_a_lagging_follower_fetches(protocol: str) -> list[int]:
    lab = Lab(2, variant=VARIANTS[protocol])
    crash_and_expire(lab, 2)
    lab.produce(1, "m1")
    assert len(acknowledgements(lab)) == 1
    lab.is_held = carries(FetchReply)
    lab.start(2)
    lab.wait(1000)
    return lab.isr()


def test_leader_resigns_when_it_learns_that_its_session_expired() -> None:
    """Its incarnation in the ISR is void, so the cluster does not rely on what it appends from now on."""
    lab = Lab(3)
    lab.expire(1)

    assert not isinstance(lab.partition(1).role, Leader)


def test_paused_leader_cannot_commit_after_a_new_election() -> None:
    """V3 Discussion 3 (R-071): the old leader cannot commit without its ISR, and cannot change its ISR in ZooKeeper."""
    lab = Lab(3)
    lab.wait(3000)
    assert lab.isr() == [1, 2, 3]
    lab.cut_off_from_zk.add(1)  # b1 is cut off from ZooKeeper
    lab.expire(1)
    lab.settle()
    assert lab.state().leader in lab.isr() == [2, 3]
    lab.produce(1, "zombie", correlation=9)
    lab.settle()

    assert [
        reply
        for reply in lab.client_replies
        if isinstance(reply, ProduceReply) and reply.correlation == 9 and reply.error is ErrorCode.NONE
    ] == []
    assert lab.partition(1).hw == 0


def test_leader_and_isr_for_another_incarnation_is_refused() -> None:
    """KIP-380: a command that was sent before a restart must not act on the new process."""
    lab = Lab(2)
    lab.is_held = carries(LeaderAndIsr)
    state = lab.state()
    command = LeaderAndIsr(
        7, lab.configs[1].broker, lab.nodes[1].state.controller.epoch, state.leader_incarnation, init=False, states=(state,)
    )
    restart(lab, 2)
    before = lab.partition(2).leader_epoch
    lab.handle_event(2, Received(Address("b1"), command))

    assert lab.partition(2).leader_epoch == before


def test_follower_takes_a_new_epoch_of_the_same_leader() -> None:
    """KAFKA-7164: a new epoch of the same leader must make the follower truncate before it fetches."""
    lab = Lab(3)
    lab.wait(3000)
    follower = lab.partition(2)
    assert isinstance(follower.role, Follower)
    epoch = follower.leader_epoch
    crash_and_expire(lab, 3)

    assert lab.partition(2).leader_epoch > epoch
    assert lab.state().leader == 1


def test_log_info_reply_about_another_log_is_ignored() -> None:
    """Recovery election: a broker's reply to an earlier request must not be taken as "no log here" (seed 5)."""
    lab = Lab(1)
    controller = lab.nodes[1].state.controller
    base = lab.state()
    asking = StateChange(step=ChangeStep.ASKING, base=base, waiting=(BrokerId(1),))
    controller.changes[T0] = asking
    turn = Turn(Now(Millis(0), Millis(0)), lab.nodes[1].state.ids, lab.configs[1], base.leader_incarnation)
    request = LogInfo(1, BrokerId(1), controller.epoch, base.leader_incarnation, (TopicPartition("other-0"),))
    leader_election.on_log_info(turn, controller, BrokerId(1), request, LogInfoReply(1, ErrorCode.NONE))

    assert asking.waiting == (1,)
    assert turn.effects == []


def test_torn_batch_is_truncated_before_the_next_append() -> None:
    """A torn batch that stays in the file loses all records behind it at the next start (seed 387)."""
    lab = Lab(1)
    lab.produce(1, "kept")
    lab.crash(1)
    lab.expire(1)
    lab.disks[1].logs[T0].append(Batch(Offset(1), LeaderEpoch(0), ("torn",), intact=False))
    lab.start(1)
    lab.settle()
    lab.produce(1, "later")
    assert len(acknowledgements(lab)) == 2
    restart(lab, 1)

    assert lab.values(1) == ["kept", "later"]


def test_acks_1_produce_does_not_wait_for_followers() -> None:
    """acks=1 under flush=before_ack waits for the leader's own flush, also while a member of the ISR has not fetched yet."""
    lab = Lab(3, before_ack=True)
    lab.wait(3000)
    lab.is_held = carries(Fetch)  # no follower fetches in the epoch that begins with b3's death
    crash_and_expire(lab, 3)
    assert (lab.leaders(), lab.isr()) == ([1], [1, 2])
    lab.produce(1, "x", acks=1)

    assert len(acknowledgements(lab)) == 1


def test_topic_created_during_a_failover_is_found() -> None:
    """Without partitions, the last steps of a failover run together; a watch that fired meanwhile must be handled there too."""
    lab = Lab(1, start=False)
    node = Node.boot(lab.configs[1], (), 1)
    turn = Turn(Now(Millis(0), Millis(0)), node.state.ids, lab.configs[1], Incarnation(1))
    controller = Controller(step=ControllerStep.READING, topics_listing=Listing(again=True))
    failover.on_read(turn, controller, ())

    assert controller.step == "active"
    assert [e.ops for e in turn.effects if isinstance(e, ZkRequest)] == [(GetChildren(paths.TOPICS, watch=True),)]


def test_resent_leader_and_isr_omits_a_stopped_partition() -> None:
    """A command that is sent again after StopReplica would otherwise create the deleted replica again."""
    lab = Lab(1)
    controller = lab.nodes[1].state.controller
    (queued,) = controller.channels
    state = lab.state()
    queued.in_flight = LeaderAndIsr(3, BrokerId(1), controller.epoch, state.leader_incarnation, init=False, states=(state,))
    stop = StopPartition(T0, state.leader_epoch)
    channel.stop_replica(controller, stop, (BrokerId(1),))

    assert isinstance(queued.in_flight, LeaderAndIsr)
    assert queued.in_flight.states == ()
    assert dict(queued.stops) == {T0: replace(stop, topic_id=controller.topic_ids["t"])}


def test_parked_fetch_that_a_newer_one_replaces_gets_a_reply() -> None:
    """Either fetch may be the late copy of the other. Without a reply, the client would wait for its whole timeout."""
    lab = Lab(1)
    for correlation in (1, 2):
        request = Fetch(
            correlation,
            T0,
            replica=None,
            incarnation=NO_INCARNATION,
            leader_epoch=NO_EPOCH,
            offset=Offset(0),
            max_wait_ms=Millis(500),
            max_records=10,
        )
        lab.handle_event(1, Received(Address("c1"), request))

    assert [(reply.correlation, reply.error) for reply in lab.client_replies if isinstance(reply, FetchReply)] == [
        (1, ErrorCode.NONE)
    ]


def test_invalid_produce_is_refused_before_the_append() -> None:
    lab = Lab(1)
    lab.produce(1, "x", acks=7)
    lab.produce(1)

    errors = [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)]
    assert errors == [ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.INVALID_REQUEST]
    assert lab.values(1) == []
