"""KIP-112 at the controller: how it learns of a bad log directory, and what it does then."""

from msgspec.structs import replace

from reference.config import VARIANTS
from reference.controller import controller as controllers
from reference.controller import log_dirs as notifications
from reference.controller.context import ControllerStep, DirEvents, DirEventsStep, OwnElection, electable
from reference.coordination import paths
from reference.coordination.api import Create, Data, GetData, Unknown
from reference.effects import ZkRequest
from reference.errors import ErrorCode
from reference.events import DirFailed, Received, ZkReplied, ZkState
from reference.machine import Now, Turn
from reference.messages import (
    Fetch,
    FetchReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    Metadata,
    MetadataReply,
    Produce,
    ProduceReply,
    UpdateMetadata,
)
from reference.replica.partition import Leader
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    Millis,
    Offset,
    TopicPartition,
)
from tests.reference.failing_dirs import (
    EIO,
    U0,
    bad_dirs,
    break_dir,
    cluster_with_dirs,
    create_topic,
    dir_notifications,
    error_of_produce,
    notification,
    restart,
)
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.recorded import settled_cluster
from tests.reference.v3 import crash_and_expire

V0, W0 = TopicPartition("v-0"), TopicPartition("w-0")


def test_broker_repeats_its_dir_notification_until_written() -> None:
    """R-299: a lost answer leaves it open; without the notification the partition would stay without a leader."""
    lab = cluster_with_dirs()
    lab.cut_off_from_zk.add(1)
    lab.disks[1].dirs[0].bad = True
    lab.fire(1, "checkpoint")
    assert notification(lab, 1) == "writing"
    lab.handle_event(1, ZkReplied(lab.nodes[1].state.broker.dir_event_request, (Unknown(),)))
    assert notification(lab, 1) == "due"
    for node in lab.nodes.values():
        node.state.controller.step = ControllerStep.OFF  # no controller reads the notification
    lab.cut_off_from_zk.clear()
    lab.fire(1, "dir-event")

    assert notification(lab, 1) == "none"
    (name,) = dir_notifications(lab)
    assert name == "log_dir_event_0000000000"  # with the number of a sequential znode
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(f"{paths.LOG_DIR_EVENTS}/{name}"),))
    assert isinstance(answer, Data)
    assert answer.data == b'{"version":1,"broker":1,"event":1}'


def test_broker_notifies_of_a_second_bad_dir_meanwhile() -> None:
    """R-299: the controller may have read the first one, and asked the broker, before the second directory failed."""
    lab = settled_cluster("safe", log_dirs=3)
    lab.cut_off_from_zk.add(2)
    for directory in lab.disks[2].dirs[:2]:
        directory.bad = True
        lab.fire(2, "checkpoint")

    written = [op for i, op in lab.log if i == 2 and isinstance(op, Create)]
    assert [(op.path, op.sequential) for op in written] == [(paths.LOG_DIR_EVENT, True)] * 2


def test_command_is_answered_though_its_dir_fails() -> None:
    """R-294, KIP-112: else the controller waits for its request timeout before it tells the broker more (seed 90847).

    The replica of u-0 is created in the directory that fails; b2 alone has w-0, which the controller makes at the same time.
    """
    lab = cluster_with_dirs()
    lab.disks[2].dirs[1].bad = True
    create_topic(lab, "u", 1, 2, 3)
    create_topic(lab, "w", 2)

    assert bad_dirs(lab, 2) == (1,)
    offline = {tp: lab.nodes[3].state.broker.metadata[tp].offline for tp in (U0, W0)}
    assert offline == {U0: (2,), W0: ()}
    assert isinstance(lab.nodes[2].state.broker.partitions[W0].role, Leader)


def test_late_answer_names_the_replicas_of_the_bad_dir() -> None:
    """R-294: t-0 is in the directory that failed; u-0 was made in the other one, and v-0 is refused for a reason of its own."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1, 2, 3)
    none, refused = ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH
    lab.is_held = carries(LeaderAndIsrReply)
    reply = LeaderAndIsrReply(77, none, ((T0, none), (U0, none), (V0, refused)))
    lab.handle_event(2, DirFailed(0, "EIO", ((Address("b1"), reply),)))

    answers = [message for _, to, message in lab.in_flight if to == "b1" and isinstance(message, LeaderAndIsrReply)]
    assert answers == [replace(reply, errors=((T0, EIO), (U0, none), (V0, refused)))]


def test_broker_without_a_registration_notifies_after_the_next() -> None:
    """R-299: the directory fails between two sessions."""
    lab = cluster_with_dirs()
    for node in lab.nodes.values():
        node.state.controller.step = ControllerStep.OFF  # no controller reads the notification
    lab.cut_off_from_zk.add(3)
    lab.expire(3)
    lab.handle_event(3, ZkState("expired"))
    break_dir(lab, 3)
    assert (notification(lab, 3), dir_notifications(lab)) == ("due", ())
    lab.cut_off_from_zk.clear()
    lab.handle_event(3, ZkReplied(lab.nodes[3].state.broker.registration_request, (Unknown(),)))
    lab.fire(3, "register")

    assert (notification(lab, 3), len(dir_notifications(lab))) == ("none", 1)


def test_failed_dir_of_a_leader_moves_the_leadership() -> None:
    """R-294, R-300: the controller reads and deletes the notification, asks, elects, shrinks the ISR and updates all brokers."""
    lab = cluster_with_dirs()
    assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
    create_topic(lab, "u", 1, 2, 3)  # in the good directory
    break_dir(lab, 1)
    _, fired = lab.zk.submit(lab.admin, (Create(paths.LOG_DIR_EVENT, b"{", sequential=True),))
    lab.deliver_watches(fired)
    lab.settle()

    assert dir_notifications(lab) == ()
    assert lab.leader() in lab.isr() == [2, 3]
    assert lab.values(lab.leader()) == ["x"]
    assert error_of_produce(lab, lab.leader(), "y", 2) is ErrorCode.NONE
    for i in lab.ids:
        assert lab.nodes[i].state.broker.metadata[T0].offline == (1,)


def test_failed_dir_of_a_follower_shrinks_the_isr() -> None:
    """R-300, U-16: a live broker whose replica is offline is not in sync and is never elected."""
    lab = cluster_with_dirs()
    break_dir(lab, 3)

    assert (lab.leaders(), lab.isr()) == ([1], [1, 2])
    for i in (1, 2):
        crash_and_expire(lab, i)
    lab.wait(3000)
    assert lab.leaders() == []
    controller = lab.nodes[3].state.controller
    assert electable(controller, T0) == {}
    assert list(electable(controller, U0)) == [3]


def test_controller_asks_the_broker_after_a_dir_notification() -> None:
    """R-300: only the broker's answer says which replicas are offline."""
    for name, stays in (("no-notification-requery", True), ("safe", False)):
        lab = cluster_with_dirs(variant=VARIANTS[name])
        break_dir(lab, 1)

        assert dir_notifications(lab) == ()
        assert (lab.state().leader == 1) is stays


def test_new_controller_asks_all_brokers_for_offline_replicas() -> None:
    """R-307, U-22, B-63 i: the old controller deleted the notification and died."""
    for name, leader in (("no-failover-query", 2), ("safe", 3)):
        lab = Lab(3, variant=VARIANTS[name], log_dirs=2, replicas=(2, 3))
        lab.wait(3000)
        assert lab.leaders() == [2]
        controller = next(i for i in lab.ids if lab.nodes[i].state.controller.step == "active")
        assert controller == 1
        lab.is_held = carries(LeaderAndIsr)  # the controller's question does not arrive
        break_dir(lab, 2)
        assert dir_notifications(lab) == ()
        lab.crash(1)
        lab.in_flight.clear()
        lab.is_held = lambda _: False
        lab.expire(1)
        lab.wait(3000)

        assert lab.state().leader == leader
    lab = Lab(4, replicas=(2, 3, 4), log_dirs=2)
    lab.wait(3000)
    lab.crash(1)
    lab.crash(2)
    lab.zk.expire(lab.sessions[2])  # the leader is gone before there is a new controller
    lab.expire(1)
    lab.settle()

    assert lab.state().leader == 3


def test_deposed_controller_deletes_no_dir_notification() -> None:
    """U-22: its successor asked before the directory failed, and would never learn of the failure."""
    lab = cluster_with_dirs()
    old = next(i for i in lab.ids if lab.nodes[i].state.controller.step == "active")
    lab.cut_off_from_zk.add(old)
    lab.expire(old)
    lab.wait(3000)
    epoch = lab.nodes[old].state.controller.epoch_version
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(paths.CONTROLLER_EPOCH),))
    assert isinstance(answer, Data)
    assert answer.version > epoch
    controller = lab.nodes[old].state.controller
    controller.dir_events = DirEvents(step=DirEventsStep.READING, names=("log_dir_event_0000000000",))
    turn = Turn(Now(Millis(0), Millis(0)), lab.nodes[old].state.ids, lab.configs[old], NO_INCARNATION)
    notifications.on_answer(turn, controller, (Data(paths.log_dir_event_payload(BrokerId(1)), 0, 5),))
    (request,) = [e for e in turn.effects if isinstance(e, ZkRequest)]
    answers, _ = lab.zk.submit(lab.admin, request.ops, atomic=request.atomic)
    (sent,) = [sent for sent in controller.outstanding if sent.request == request.id]
    controllers.on_answer(turn, controller, sent, answers, lab.sessions[old])

    assert controller.step == "looking"
    assert [type(sent.pending) for sent in controller.outstanding] == [OwnElection]


def test_metadata_names_offline_replicas() -> None:
    """R-304, R-305, R-306: replicas in bad directories and on dead brokers."""
    lab = cluster_with_dirs()
    break_dir(lab, 3)
    crash_and_expire(lab, 2)
    lab.client_replies.clear()
    lab.handle_event(1, Received(Address("c1"), Metadata(1)))
    (answer,) = [reply for reply in lab.client_replies if isinstance(reply, MetadataReply)]
    lab.start(2)
    lab.settle()
    lab.handle_event(1, Received(Address("c1"), Metadata(2)))
    later = [reply for reply in lab.client_replies if isinstance(reply, MetadataReply)][-1]

    assert [state.offline for state in answer.states] == [(2, 3)]
    assert [state.offline for state in later.states] == [(3,)]


def test_requests_carry_the_fields_of_kip_112() -> None:
    """R-310, R-311: is_new_replica for each partition, offline_replicas beside the rest of the state."""
    lab = cluster_with_dirs()
    sent: list[object] = []

    def watching(envelope: Envelope) -> bool:
        sent.append(envelope.message)
        return False

    lab.is_held = watching
    create_topic(lab, "u", 1, 2, 3)
    break_dir(lab, 2)

    assert any(isinstance(m, LeaderAndIsr) and m.new == (U0,) and m.controller_epoch == 1 for m in sent)
    states = [state for m in sent if isinstance(m, UpdateMetadata) and m.live_brokers == (1, 2, 3) for state in m.states]
    assert (2,) in {state.offline for state in states if state.tp == T0}
    assert {state.replicas for state in states} == {(1, 2, 3)}


def test_offline_replica_of_a_deleted_topic_goes_at_restart() -> None:
    """R-309: topic deletion does not wait for it, and metadata forgets it; its broker deletes it when it starts and finds no
    assignment.
    """
    lab = cluster_with_dirs()
    break_dir(lab, 3)
    payload = paths.delete_topics_payload(("t",))
    _, fired = lab.zk.submit(lab.admin, (Create("/admin", b""), Create(paths.DELETE_TOPICS, payload)))
    lab.deliver_watches(fired)
    lab.settle()
    lab.wait(3000)
    (gone,), _ = lab.zk.submit(lab.admin, (GetData(paths.topic_path("t")),))
    assert not isinstance(gone, Data)
    assert [T0 in lab.nodes[i].state.broker.metadata for i in lab.ids] == [False] * 3
    assert T0 in lab.disks[3].dirs[0].logs
    lab.disks[3].dirs[0].bad = False
    restart(lab, 3)

    assert lab.disks[3].dirs[0].logs == {}


def assert_new_topic_is_served_alone(lab: Lab, i: int) -> None:
    """KIP-112 system tests 2 and 3, second half: a new topic, the other two brokers killed, a producer and a consumer."""
    create_topic(lab, "u", 1, 2, 3)
    for other_broker in lab.ids:
        if other_broker != i:
            crash_and_expire(lab, other_broker)
    lab.wait(3000)
    lab.client_replies.clear()
    asker = Address("c1")
    lab.handle_event(i, Received(asker, Produce(60, U0, -1, ("y",), Millis(1000))))
    lab.settle()
    lab.handle_event(
        i,
        Received(
            asker,
            Fetch(
                61,
                U0,
                replica=None,
                incarnation=NO_INCARNATION,
                leader_epoch=NO_EPOCH,
                offset=Offset(0),
                max_wait_ms=Millis(0),
                max_records=10,
            ),
        ),
    )
    lab.handle_event(i, Received(asker, Metadata(62)))

    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [ErrorCode.NONE]
    assert [batch.values for reply in lab.client_replies if isinstance(reply, FetchReply) for batch in reply.batches] == [("y",)]
    (answer,) = [reply for reply in lab.client_replies if isinstance(reply, MetadataReply)]
    others = tuple(other_broker for other_broker in lab.ids if other_broker != i)
    assert {state.tp: (state.leader, state.offline) for state in answer.states}[U0] == (i, others)


def test_leader_with_a_bad_dir_serves_new_topics_alone() -> None:
    """R-318: a leader's directory fails, and then the other brokers die."""
    lab = cluster_with_dirs()
    break_dir(lab, 1)
    assert lab.leader() in lab.isr() == [2, 3]
    assert_new_topic_is_served_alone(lab, 1)


def test_follower_with_a_bad_dir_serves_new_topics_alone() -> None:
    """R-319: a follower's directory fails, and then the other brokers die."""
    lab = cluster_with_dirs()
    break_dir(lab, 3)
    assert (lab.leaders(), lab.isr()) == ([1], [1, 2])
    assert_new_topic_is_served_alone(lab, 3)
