"""Catalogued mistakes, each played once on the protocol that makes it and once on `safe` (docs/protocol.md)."""

from msgspec.structs import replace

from reference.config import VARIANTS
from reference.controller import channel, failover, leader_election
from reference.controller.context import Controller, Listing, StateChange
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
from tests.reference.lab import T0, Lab


def acked(lab: Lab) -> list[ProduceReply]:
    return [m for m in lab.inbox if isinstance(m, ProduceReply) and m.error is ErrorCode.NONE]


def two_brokers_with_one_ack_unheard(protocol: str) -> Lab:
    """b1 leads and has acknowledged m1; b2 holds it, but has not heard that it is committed."""
    lab = Lab(2, variant=VARIANTS[protocol])
    lab.wait(3000)
    assert lab.isr() == [1, 2]
    lab.produce(1, "m1")
    lab.settle()
    assert len(acked(lab)) == 1
    assert lab.partition(2).hw == 0
    assert lab.values(2) == ["m1"]
    return lab


def restart(lab: Lab, i: int) -> None:
    lab.crash(i)
    lab.expire(i)
    lab.settle()
    lab.start(i)
    lab.settle()


def log_of_the_last_leader(protocol: str) -> list[str]:
    """KIP-101 scenario 1 with three replicas: a record is acknowledged, nobody but the leader hears of it, two leaders die."""
    lab = Lab(3, variant=VARIANTS[protocol])
    lab.wait(3000)
    assert lab.isr() == [1, 2, 3]
    lab.produce(1, "m1")
    lab.settle()
    assert len(acked(lab)) == 1
    lab.held = lambda letter: isinstance(letter[2], FetchReply)  # nothing is fetched from the second leader
    for i in (1, 2):
        lab.crash(i)
        lab.expire(i)
        lab.settle()
    assert lab.leaders() == [3]
    return lab.values(3)


def test_truncation_to_the_high_watermark_loses_what_was_acknowledged() -> None:
    """KIP-101 scenario 1 (U-01, B-01, B-28): a follower truncates to its lagging HW and leads before it has fetched again."""
    assert log_of_the_last_leader("truncate-to-hw") == []
    assert log_of_the_last_leader("v3") == []
    assert log_of_the_last_leader("safe") == ["m1"]


def test_a_restarted_follower_does_not_lead_alone() -> None:
    """The restarted follower is stale: nobody leads until b1 is back, and nothing is cut."""
    lab = two_brokers_with_one_ack_unheard("safe")
    lab.held = lambda letter: isinstance(letter[2], FetchReply)
    restart(lab, 2)
    lab.crash(1)
    lab.expire(1)
    lab.wait(1000)
    assert lab.leaders() == []
    lab.held = lambda _: False
    lab.start(1)
    lab.wait(5000)

    assert len(lab.leaders()) == 1
    assert lab.values(1) == lab.values(2) == ["m1"]


def test_a_literal_expansion_takes_in_a_replica_that_lacks_what_is_committed() -> None:
    """B-29: V3's test has its sign reversed, any replica that is behind qualifies."""
    assert _isr_after_a_far_follower_fetches("isr-expand-v3") == [1, 2]
    assert _isr_after_a_far_follower_fetches("safe") == [1]


def _isr_after_a_far_follower_fetches(protocol: str) -> list[int]:
    lab = Lab(2, variant=VARIANTS[protocol])
    lab.crash(2)
    lab.expire(2)
    lab.settle()
    lab.produce(1, "m1")
    assert len(acked(lab)) == 1
    lab.held = lambda letter: isinstance(letter[2], FetchReply)
    lab.start(2)
    lab.wait(1000)
    return lab.isr()


def test_a_leader_resigns_when_it_hears_that_its_session_is_over() -> None:
    """Its stamp in the ISR is void: what it did from here on would be done by a replica that nobody counts on."""
    lab = Lab(3)
    lab.expire(1)

    assert not isinstance(lab.partition(1).role, Leader)


def test_a_paused_leader_commits_nothing_after_its_followers_left() -> None:
    """V3 Discussion 3 (R-071): the old leader cannot commit without its ISR, and cannot change its ISR in ZooKeeper."""
    lab = Lab(3)
    lab.wait(3000)
    assert lab.isr() == [1, 2, 3]
    lab.muted.add(1)  # b1 stands still for ZooKeeper
    lab.expire(1)
    lab.settle()
    assert lab.state().leader == 2
    lab.produce(1, "zombie", correlation=9)
    lab.settle()

    assert [m for m in lab.inbox if isinstance(m, ProduceReply) and m.correlation == 9 and m.error is ErrorCode.NONE] == []
    assert lab.partition(1).hw == 0


def test_a_command_for_another_incarnation_is_refused() -> None:
    """KIP-380: a command that was sent before the restart must not act on the next life."""
    lab = Lab(2)
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)
    state = lab.state()
    command = LeaderAndIsr(
        7, lab.configs[1].broker, lab.nodes[1].state.controller.epoch, state.leader_incarnation, False, (state,)
    )
    restart(lab, 2)
    before = lab.partition(2).leader_epoch
    lab.tell(2, Received(Address("b1"), command))

    assert lab.partition(2).leader_epoch == before


def test_a_follower_whose_leader_comes_back_truncates_first() -> None:
    """KAFKA-7164: the leader's id is the old one, its epoch is not."""
    lab = Lab(3)
    lab.wait(3000)
    follower = lab.partition(2)
    assert isinstance(follower.role, Follower)
    epoch = follower.leader_epoch
    lab.crash(3)
    lab.expire(3)
    lab.settle()

    assert lab.partition(2).leader_epoch > epoch
    assert lab.state().leader == 1


def test_an_answer_about_other_logs_says_nothing_of_this_one() -> None:
    """Recovery election: a broker's answer to an earlier question must not pass for "no log here" (seed 5)."""
    lab = Lab(1)
    controller = lab.nodes[1].state.controller
    base = lab.state()
    asking = StateChange(step="asking", base=base, waiting=(BrokerId(1),))
    controller.changes[T0] = asking
    turn = Turn(Now(Millis(0), Millis(0)), lab.nodes[1].state.ids, lab.configs[1], base.leader_incarnation)
    request = LogInfo(1, BrokerId(1), controller.epoch, base.leader_incarnation, (TopicPartition("other-0"),))
    leader_election.on_log_info(turn, controller, BrokerId(1), request, LogInfoReply(1, ErrorCode.NONE))

    assert asking.waiting == (1,)
    assert turn.effects == []


def test_a_bad_batch_is_cut_off_the_disk_before_anything_is_appended_behind_it() -> None:
    """A torn batch that stays in the file takes all later records with it at the next start (seed 387)."""
    lab = Lab(1)
    lab.produce(1, "kept")
    lab.crash(1)
    lab.expire(1)
    lab.disks[1].logs[T0].append(Batch(Offset(1), LeaderEpoch(0), ("torn",), intact=False))
    lab.start(1)
    lab.settle()
    lab.produce(1, "later")
    assert len(acked(lab)) == 2
    restart(lab, 1)

    assert lab.values(1) == ["kept", "later"]


def test_a_produce_for_the_leader_alone_does_not_wait_for_followers() -> None:
    """acks=1 under flush=before_ack waits for the leader's own flush, also while a member of the ISR has not fetched yet."""
    lab = Lab(3, before_ack=True)
    lab.wait(3000)
    lab.held = lambda letter: isinstance(letter[2], Fetch)  # nobody fetches in the epoch that begins with b3's death
    lab.crash(3)
    lab.expire(3)
    lab.settle()
    assert (lab.leaders(), lab.isr()) == ([1], [1, 2])
    lab.produce(1, "x", acks=1)

    assert len(acked(lab)) == 1


def test_a_topic_that_is_made_during_a_failover_is_seen() -> None:
    """On a cluster without partitions the last steps of a failover are one: the watch that fired meanwhile counts there too."""
    lab = Lab(1, start=False)
    node = Node.boot(lab.configs[1], (), 1)
    turn = Turn(Now(Millis(0), Millis(0)), node.state.ids, lab.configs[1], Incarnation(1))
    controller = Controller(step="reading", topics_listing=Listing(again=True))
    failover.on_read(turn, controller, ())

    assert controller.step == "active"
    assert [e.ops for e in turn.effects if isinstance(e, ZkRequest)] == [(GetChildren(paths.TOPICS, watch=True),)]


def test_a_command_in_flight_does_not_make_a_deleted_replica_anew() -> None:
    """What is sent again after StopReplica must not name the partition that was stopped."""
    lab = Lab(1)
    controller = lab.nodes[1].state.controller
    (queued,) = controller.channels
    state = lab.state()
    queued.in_flight = LeaderAndIsr(3, BrokerId(1), controller.epoch, state.leader_incarnation, False, (state,))
    stop = StopPartition(T0, state.leader_epoch)
    channel.stop_replica(controller, stop, (BrokerId(1),))

    assert isinstance(queued.in_flight, LeaderAndIsr)
    assert queued.in_flight.states == ()
    assert dict(queued.stops) == {T0: replace(stop, topic_id=controller.topic_ids["t"])}


def test_a_fetch_that_another_replaces_is_answered() -> None:
    """Either may be the late copy of the other: whoever waits for an answer must not wait for its whole timeout."""
    lab = Lab(1)
    for correlation in (1, 2):
        request = Fetch(correlation, T0, None, NO_INCARNATION, NO_EPOCH, Offset(0), Millis(500), 10)
        lab.tell(1, Received(Address("c1"), request))

    assert [(m.correlation, m.error) for m in lab.inbox if isinstance(m, FetchReply)] == [(1, ErrorCode.NONE)]


def test_a_produce_that_makes_no_sense_is_refused_before_the_append() -> None:
    lab = Lab(1)
    lab.produce(1, "x", acks=7)
    lab.produce(1)

    errors = [m.error for m in lab.inbox if isinstance(m, ProduceReply)]
    assert errors == [ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.INVALID_REQUEST]
    assert lab.values(1) == []
