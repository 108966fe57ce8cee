"""KIP-112: what is written, asked and told after a log directory failed, step by step, and what every broker then tells clients.

In the scripted scenarios b1 is the controller and has no replica; b2 leads t-0, b3 and b4 follow.
"""

from functools import partial

import pytest

from reference.coordination import paths
from reference.coordination.api import Create, Data, Delete, GetChildren, GetData, SetData
from reference.effects import AnyEffect, Send, ZkRequest
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import LeaderAndIsr, Metadata, MetadataReply, PartitionState, UpdateMetadata
from reference.replica.partition import brokers_of
from reference.types import Address, BrokerId, TopicPartition
from server.wire.clients.metadata import _topic_in_response
from tests.reference.failing_dirs import (
    U0,
    break_dir,
    cluster_with_dirs,
    create_topic,
    dir_notifications,
    error_of_produce,
    restart,
)
from tests.reference.interrupted import Interrupted
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.moving import cluster, fetches_from, write
from tests.reference.recorded import STATE, Recorded, leader_of, settled_cluster
from tests.reference.v3 import crash_and_expire

V0 = TopicPartition("v-0")
ASK = 70  # correlation of the questions of these tests


def steps_after_dir_failure(lab: Recorded) -> list[str]:
    """What the brokers did about a bad directory, in order; the receivers of equal commands stand in one line."""
    receivers_by_step: dict[str, set[str]] = {}
    for i, entry in lab.log:
        match entry:
            case Create(path=paths.LOG_DIR_EVENT, sequential=True):
                receivers_by_step[f"b{i} notifies"] = set()
            case GetChildren(path=paths.LOG_DIR_EVENTS):
                receivers_by_step.setdefault(f"b{i} lists", set())
            case GetData(path=path) if path.startswith(paths.LOG_DIR_EVENT):
                receivers_by_step[f"b{i} reads"] = set()
            case Delete(path=path) if path.startswith(paths.LOG_DIR_EVENT):
                receivers_by_step[f"b{i} deletes"] = set()
            case SetData(path=path, data=data) if path == STATE:
                receivers_by_step[f"b{i} writes: {_words(paths.decode_state(T0, (), Data(data, 0, 0)))}"] = set()
            case Send(to=to, message=LeaderAndIsr(states=(state,))):
                receivers_by_step.setdefault(f"command {_words(state)}:", set()).add(to)
            case Send(to=to, message=UpdateMetadata(states=(state,))) if state.offline:
                receivers_by_step.setdefault(f"metadata {_words(state)}, offline {_row(state.offline)}:", set()).add(to)
    return [" ".join([words, *sorted(receivers)]) for words, receivers in receivers_by_step.items()]


def _words(state: PartitionState) -> str:
    return f"{state.leader} leads {_row(tuple(member.broker for member in state.isr))}"


def _row(brokers: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, brokers))


def test_failed_dir_of_a_leader_takes_the_steps_of_kip_112() -> None:
    """R-294, R-299, R-300: notify, read, delete, ask that broker, elect; then commands and metadata when that is written."""
    lab = settled_cluster("safe", log_dirs=2)
    break_dir(lab, 2)

    leader = lab.leader()
    assert steps_after_dir_failure(lab) == [
        "b2 notifies",
        "b1 lists",
        "b1 reads",
        "b1 deletes",
        "command 2 leads 2,3,4: b2",
        "metadata 2 leads 2,3,4, offline 2: b1 b3 b4",
        f"b1 writes: {leader} leads 3,4",
        f"command {leader} leads 3,4: b2 b3 b4",
        f"metadata {leader} leads 3,4, offline 2: b1 b2 b3 b4",
    ]
    lab = settled_cluster("safe", log_dirs=2)
    perform = lab._perform
    deletions: list[AnyEffect] = []

    def hold_deletions(i: int, effect: AnyEffect) -> str | None:
        if isinstance(effect, ZkRequest) and any(isinstance(op, Delete) for op in effect.ops):
            deletions.append(effect)
            return None
        return perform(i, effect)

    lab._perform = hold_deletions  # type: ignore[method-assign]  # ZooKeeper does not answer them
    break_dir(lab, 2)
    assert (len(deletions), lab.sent(LeaderAndIsr)) == (1, [])


def test_leader_hears_that_a_follower_lost_its_directory() -> None:
    """R-300: the offline replica leaves the ISR in ZooKeeper, and a LeaderAndIsr tells the leader, which stays."""
    lab = settled_cluster("safe", log_dirs=2)
    break_dir(lab, 3)

    assert steps_after_dir_failure(lab)[4:] == [
        "command 2 leads 2,3,4: b3",
        "metadata 2 leads 2,3,4, offline 3: b1 b2 b4",
        "b1 writes: 2 leads 2,4",
        "command 2 leads 2,4: b2 b3 b4",
        "metadata 2 leads 2,4, offline 3: b1 b2 b3 b4",
    ]
    assert [member.broker for member in leader_of(lab).isr] == [2, 4]


def test_controller_hears_of_every_failed_directory() -> None:
    """R-300: it watches for notifications again after each, and so hears of the next one too."""
    lab = settled_cluster("safe", log_dirs=2)
    break_dir(lab, 2)
    break_dir(lab, 3)

    assert (lab.isr(), lab.leaders(), dir_notifications(lab)) == ([4], [4], ())


def test_broker_answers_for_every_replica_in_the_directory() -> None:
    """R-300: the controller asks for all partitions of that broker; those of its good directory stay."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1, 2, 3)
    create_topic(lab, "v", 2, 1, 3)  # it follows there
    break_dir(lab, 1)

    states = {tp: lab.nodes[3].state.broker.metadata[tp] for tp in (T0, U0, V0)}
    isr_and_offline = {tp: (brokers_of(state.isr), state.offline) for tp, state in states.items()}
    assert isr_and_offline == {T0: ((2, 3), (1,)), U0: ((1, 2, 3), ()), V0: ((2, 3), (1,))}


def test_controller_asks_nobody_after_an_event_of_another_type() -> None:
    """R-299, R-300: event 1 is the failure of a directory. Notifications that are found together are all read and deleted."""
    lab = settled_cluster("safe", log_dirs=2)
    notifications = (
        b'{"version":1,"broker":2,"event":1}',
        b'{"version":1,"broker":3,"event":2}',
        b'{"version":1,"broker":4,"event":1}',
    )
    write(lab, *(Create(paths.LOG_DIR_EVENT, data, sequential=True) for data in notifications))

    assert dir_notifications(lab) == ()
    assert [to for _, to, _ in lab.sent(LeaderAndIsr)] == ["b2", "b4"]


def test_new_controller_deletes_notifications_that_it_finds() -> None:
    """R-300: a directory fails while there is no controller."""
    lab = settled_cluster("safe", log_dirs=2)
    lab.crash(1)
    break_dir(lab, 3)
    assert len(dir_notifications(lab)) == 1
    lab.expire(1)
    lab.settle()

    assert (dir_notifications(lab), lab.isr()) == ((), [2, 4])


def test_controller_sees_a_notification_while_it_deletes_another() -> None:
    """R-300: the watch fires while it is at work; it lists once more."""
    lab = cluster()
    brokers_asked: list[str] = []

    def watching(envelope: Envelope) -> bool:
        if isinstance(envelope.message, LeaderAndIsr):
            brokers_asked.append(envelope.receiver)
        return False

    def notify(broker: int) -> None:
        write(lab, Create(paths.LOG_DIR_EVENT, paths.log_dir_event_payload(BrokerId(broker)), sequential=True))

    lab.is_held = watching
    lab.before[f"gone: {paths.LOG_DIR_EVENT}0000000000"] = partial(notify, 3)
    notify(2)

    assert (brokers_asked, dir_notifications(lab)) == (["b2", "b3"], ())


@pytest.mark.parametrize("lost", range(4))
def test_lost_answer_of_zookeeper_loses_no_notification(lost: int) -> None:
    """R-300: the controller lists again; a notification that is gone by then was deleted by the request without an answer."""
    lab = Interrupted(4, replicas=(2, 3, 4), log_dirs=2)
    lab.wait(3000)
    assert (lab.nodes[1].state.controller.step, lab.leaders()) == ("active", [2])
    lab.unanswered_request = lost
    break_dir(lab, 2)
    lab.wait(5000)

    assert lab.lost_answers == 1
    assert (dir_notifications(lab), len(lab.leaders()), lab.isr()) == ((), 1, [3, 4])


# --- metadata -----------------------------------------------------------------------------------------------------------------


def offline_seen(lab: Lab, tp: TopicPartition = T0) -> dict[int, tuple[int, ...]]:
    """The offline replicas of a partition that each broker tells a client."""
    offline_by_broker: dict[int, tuple[int, ...]] = {}
    for i in lab.nodes:
        lab.client_replies.clear()
        lab.handle_event(i, Received(Address("c1"), Metadata(ASK)))
        (reply,) = [m for m in lab.client_replies if isinstance(m, MetadataReply)]
        (offline_by_broker[i],) = [state.offline for state in reply.states if state.tp == tp]
    return offline_by_broker


def cluster_with_lagging_b3() -> Lab:
    """b4 has no replica, b3 has left the ISR: no election follows when its replica goes offline."""
    lab = Lab(4, replicas=(1, 2, 3), log_dirs=2)
    lab.wait(3000)
    lab.is_held = fetches_from(3)
    lab.produce(1, "x", acks=1)
    lab.wait(15_000)
    assert (lab.isr(), offline_seen(lab)) == ([1, 2], dict.fromkeys((1, 2, 3, 4), ()))
    return lab


def test_every_broker_tells_of_a_replica_on_a_bad_disk() -> None:
    """R-294, R-304, R-305: also where the replica was not in sync, so that neither leader nor ISR change."""
    lab = cluster_with_lagging_b3()
    break_dir(lab, 3)

    assert (lab.isr(), offline_seen(lab)) == ([1, 2], dict.fromkeys((1, 2, 3, 4), (3,)))


def test_every_broker_tells_of_a_replica_on_a_dead_broker() -> None:
    """R-304, R-305: KIP-112's union of offline replicas on live brokers and replicas on dead ones."""
    lab = cluster_with_lagging_b3()
    crash_and_expire(lab, 3)

    assert (lab.isr(), offline_seen(lab)) == ([1, 2], dict.fromkeys((1, 2, 4), (3,)))


# --- answers without a notification -------------------------------------------------------------------------------------------


def test_controller_learns_of_bad_replicas_from_a_new_broker() -> None:
    """R-301, R-304: b3 starts with a bad directory. It is told its partitions, and its answer alone says that one is offline."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1, 2, 3)
    w0 = create_topic(lab, "w", 1, 2, 3)
    lab.disks[3].dirs[0].bad = True
    restart(lab, 3)

    assert (dir_notifications(lab), 3 in lab.nodes) == ((), True)
    assert offline_seen(lab) == offline_seen(lab, w0) == dict.fromkeys(lab.ids, (3,))
    assert offline_seen(lab, U0) == dict.fromkeys(lab.ids, ())
    lab = Lab(4, replicas=(2, 3), log_dirs=2)
    lab.wait(3000)
    for i in (3, 2):
        crash_and_expire(lab, i)
    lab.disks[3].dirs[0].bad = True
    lab.start(3)
    lab.settle()

    assert (lab.state().leader, offline_seen(lab)) == (None, dict.fromkeys((1, 3, 4), (2, 3)))


def test_offline_replicas_are_listed_without_a_leader_too() -> None:
    """R-305: both replicas are gone, and a client asks where its partition is."""
    lab = Lab(4, replicas=(2, 3))
    lab.wait(3000)
    for i in (2, 3):
        crash_and_expire(lab, i)

    assert offline_seen(lab) == {1: (2, 3), 4: (2, 3)}
    reply = lab.client_replies[-1]
    assert isinstance(reply, MetadataReply)
    (partition,) = _topic_in_response("t", list(reply.states), reply.brokers).partitions
    assert (partition.leader_id, partition.offline_replicas) == (-1, (2, 3))


def test_new_replica_is_offline_if_its_creation_fails() -> None:
    """R-297: b3 cannot notify the controller; its answer to the command with isNewReplica says that nothing was created."""
    lab = cluster_with_dirs()
    lab.cut_off_from_zk.add(3)
    lab.disks[3].dirs[1].bad = True  # the emptier directory, where u-0 would go
    create_topic(lab, "u", 1, 2, 3)
    lab.wait(5000)

    assert dir_notifications(lab) == ()
    assert offline_seen(lab, U0) == dict.fromkeys(lab.ids, (3,))


def test_new_controller_asks_every_broker_for_its_partitions() -> None:
    """R-307: by LeaderAndIsr, and though nothing is to be elected: the former controller had no replica."""
    lab = settled_cluster("safe")
    crash_and_expire(lab, 1)

    commands_sent = lab.sent(LeaderAndIsr)
    assert {(i, to, message.init) for i, to, message in commands_sent if T0 in [state.tp for state in message.states]} == {
        (2, "b2", True),
        (2, "b3", True),
        (2, "b4", True),
    }
    assert lab.state_writes() == []
    lab = settled_cluster("safe", brokers=5)  # b5 has no replica
    crash_and_expire(lab, 1)
    assert {to for _, to, message in lab.sent(LeaderAndIsr) if message.init} == {"b2", "b3", "b4", "b5"}


def test_new_controller_marks_only_new_replicas() -> None:
    """R-307: t-0 was created under the former controller, u-0 while there was none."""
    lab = cluster_with_dirs()
    controller = next(i for i in lab.ids if lab.nodes[i].state.controller.step == "active")
    lab.crash(controller)
    create_topic(lab, "u", *(i for i in lab.ids if i != controller))
    is_new_by_receiver: dict[TopicPartition, set[tuple[str, bool]]] = {T0: set(), U0: set()}

    def watching(envelope: Envelope) -> bool:
        if isinstance(envelope.message, LeaderAndIsr):
            for state in envelope.message.states:
                is_new_by_receiver[state.tp].add((envelope.receiver, state.tp in envelope.message.new))
        return False

    lab.is_held = watching
    lab.expire(controller)
    lab.settle()
    others = [f"b{i}" for i in lab.ids if i != controller]

    assert is_new_by_receiver == {T0: {(to, False) for to in others}, U0: {(to, True) for to in others}}


def test_repaired_broker_is_told_that_its_replicas_are_old() -> None:
    """R-303: isNewReplica is false; the broker creates the replica because it can access all its directories."""
    lab = cluster_with_dirs()
    assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
    lab.disks[3].dirs[0] = type(lab.disks[3].dirs[0])()
    new_placements: list[tuple[TopicPartition, ...]] = []

    def watching(envelope: Envelope) -> bool:
        if isinstance(envelope.message, LeaderAndIsr) and envelope.receiver == "b3":
            new_placements.append(envelope.message.new)
        return False

    lab.is_held = watching
    restart(lab, 3)
    lab.wait(3000)

    assert set(new_placements) == {()}
    assert (lab.isr(), lab.values(3)) == ([1, 2, 3], ["x"])
    new_placements.clear()
    lab.is_held = carries(LeaderAndIsr, receiver="b3")
    create_topic(lab, "u", 1, 2, 3)
    lab.crash(3)  # it was told that u-0 is new, and has not answered
    lab.zk.expire(lab.sessions[3])
    lab.is_held = watching
    lab.start(3)
    lab.settle()

    assert set(new_placements) == {()}
