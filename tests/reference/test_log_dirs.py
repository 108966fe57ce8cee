"""KIP-112 on the table: what a bad log directory takes out of service, who hears of it, and how it comes back."""

from msgspec.structs import replace

from reference.broker import log_dirs
from reference.config import SAFE, VARIANTS, Variant
from reference.controller import log_dirs as notifications
from reference.controller.context import DirEvents, electable
from reference.coordination import paths
from reference.coordination.api import Children, Create, Data, GetChildren, GetData, Unknown
from reference.effects import ZkRequest
from reference.errors import ErrorCode
from reference.events import DirFailed, Received, ZkReplied
from reference.machine import Now, Turn
from reference.messages import (
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsets,
    ListOffsetsReply,
    LogInfo,
    LogInfoReply,
    Metadata,
    MetadataReply,
    Produce,
    ProduceReply,
    StopPartition,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
)
from reference.replica.partition import Follower, Leader
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    LeaderEpoch,
    Millis,
    Offset,
    TopicPartition,
    topic_partition,
)
from tests.reference.lab import T0, Disk, Lab

U0 = TopicPartition("u-0")
EIO = ErrorCode.KAFKA_STORAGE_ERROR


def jbod(brokers: int = 3, *, variant: Variant = SAFE, min_isr: int = 1, dirs: int = 2) -> Lab:
    """Brokers with several directories; t-0 lies in the first of each, b1 leads, all are in sync."""
    lab = Lab(brokers, variant=variant, min_isr=min_isr, log_dirs=dirs)
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == (list(lab.ids), [1])
    assert all(T0 in lab.disks[i].dirs[0].logs for i in lab.ids)
    return lab


def break_dir(lab: Lab, i: int, index: int = 0) -> None:
    """The directory goes bad, and its broker notices at its next checkpoint."""
    lab.disks[i].dirs[index].bad = True
    lab.fire(i, "checkpoint")
    lab.settle()


def create_topic(lab: Lab, name: str, *replicas: int) -> TopicPartition:
    """A topic with one partition is made in ZooKeeper."""
    payload = paths.topic_payload((tuple(BrokerId(i) for i in replicas),))
    _, fired = lab.zk.submit(lab.admin, (Create(paths.topic_path(name), payload),))
    lab.watches(fired)
    lab.settle()
    return topic_partition(name, 0)


def restart(lab: Lab, i: int) -> None:
    lab.crash(i)
    lab.expire(i)
    lab.settle()
    lab.start(i)
    lab.settle()


def produced(lab: Lab, i: int, value: str, correlation: int) -> ErrorCode:
    """What a producer with acks=all is told in the end."""
    lab.produce(i, value, correlation=correlation)
    lab.settle()
    return next(m.error for m in lab.inbox if isinstance(m, ProduceReply) and m.correlation == correlation)


def bad_dirs(lab: Lab, i: int) -> tuple[int, ...]:
    return lab.nodes[i].state.broker.offline_dirs


def notification(lab: Lab, i: int) -> str:
    """How far a broker is with telling the controller."""
    return lab.nodes[i].state.broker.dir_event


def events(lab: Lab) -> tuple[str, ...]:
    """The notifications that lie in ZooKeeper."""
    (answer,), _ = lab.zk.submit(lab.admin, (GetChildren(paths.LOG_DIR_EVENTS),))
    assert isinstance(answer, Children)
    return answer.names


def command(lab: Lab, i: int, tp: TopicPartition, *, new: bool, epoch: int = 0) -> ErrorCode:
    """What a broker answers when the controller makes it a follower of b9."""
    controller = next(n.state.controller for n in lab.nodes.values() if n.state.controller.step == "active")
    node = lab.nodes[i]
    state = replace(lab.state(), tp=tp, leader=BrokerId(9), leader_epoch=LeaderEpoch(epoch), replicas=(BrokerId(i),))
    request = LeaderAndIsr(
        77, BrokerId(2), controller.epoch, node.state.broker.incarnation, False, (state,), (tp,) if new else ()
    )
    lab.letters.clear()
    lab.tell(i, Received(Address("b2"), request))
    (reply,) = [m for _, _, m in lab.letters if isinstance(m, LeaderAndIsrReply)]
    return dict(reply.errors)[tp]


# --- at the broker -----------------------------------------------------------------------------------------------------------


def test_a_broker_serves_its_good_directories_while_another_is_bad() -> None:
    """R-290: one disk of many would else take all replicas of its broker with it."""
    lab = jbod()
    create_topic(lab, "u", 1, 2, 3)
    assert U0 in lab.disks[1].dirs[1].logs
    break_dir(lab, 1)

    assert lab.halted == {}
    assert list(lab.nodes[1].state.broker.partitions) == [U0]
    assert isinstance(lab.nodes[1].state.broker.partitions[U0].role, Leader)


def test_before_kip_112_one_bad_directory_ends_the_broker() -> None:
    """C-23, V3 Discussion 4: an I/O problem concerns the whole broker."""
    for name, halted in (("log-dir-fails-broker", {1: "log directories 0 failed"}), ("safe", {})):
        lab = jbod(variant=VARIANTS[name])
        break_dir(lab, 1)

        assert lab.halted == halted


def test_a_directory_is_good_until_an_access_fails_and_bad_from_then_on() -> None:
    """R-291: a directory that works now and then would serve replicas with a hole."""
    lab = jbod()
    lab.disks[2].dirs[0].bad = True
    assert bad_dirs(lab, 2) == ()
    assert produced(lab, 1, "x", 1) is ErrorCode.NONE  # b2 fails to append it
    assert bad_dirs(lab, 2) == (0,)
    lab.disks[2].dirs[0].bad = False
    lab.wait(10_000)

    assert T0 not in lab.nodes[2].state.broker.partitions
    assert lab.isr() == [1, 3]
    assert lab.disks[2].dirs[0].logs[T0] == []


def test_a_broker_ends_when_its_last_directory_is_bad() -> None:
    """R-292: it could do nothing but hold its leaderships."""
    lab = jbod()
    break_dir(lab, 1)
    assert 1 in lab.nodes
    lab.disks[1].dirs[1].bad = True
    lab.fire(1, "checkpoint")

    assert lab.halted == {1: "log directories 0, 1 failed"}


def test_a_broker_does_not_start_without_a_good_directory() -> None:
    """R-292, at bootstrap."""
    lab = jbod()
    lab.crash(1)
    for directory in lab.disks[1].dirs:
        directory.bad = True
    lab.start(1)

    assert list(lab.halted) == [1]


def test_new_replicas_go_to_good_directories_and_to_the_emptiest_of_them() -> None:
    """R-293: a replica that is made in a bad directory is offline from its birth."""
    lab = jbod(dirs=3)
    break_dir(lab, 1)
    for name in ("u", "v", "w"):
        create_topic(lab, name, 1, 2, 3)

    assert [sorted(directory.logs) for directory in lab.disks[1].dirs] == [["t-0"], ["u-0", "w-0"], ["v-0"]]


def test_who_waits_at_a_leader_whose_directory_fails_is_told_so() -> None:
    """R-298, C-22: KAFKA_STORAGE_ERROR makes a client look for the next leader; that it was not written is not said."""
    lab = jbod()
    lab.held = lambda letter: isinstance(letter[2], Fetch)
    lab.produce(1, "x", correlation=5)
    lab.tell(1, DirFailed(0, "EIO"))

    assert [m.error for m in lab.inbox if isinstance(m, ProduceReply) and m.correlation == 5] == [EIO]


def test_every_access_to_an_offline_replica_is_answered_with_a_storage_error() -> None:
    """B-63 g (KAFKA-6027): an offline replica that is answered for as unknown, or served, misleads whoever asks."""
    lab = jbod()
    break_dir(lab, 1)
    lab.inbox.clear()
    asker = Address("c1")
    lab.tell(1, Received(asker, Fetch(1, T0, None, NO_INCARNATION, NO_EPOCH, Offset(0), Millis(0), 10)))
    lab.tell(1, Received(asker, EpochEnd(2, T0, BrokerId(2), NO_EPOCH, LeaderEpoch(0))))
    lab.tell(1, Received(asker, ListOffsets(3, T0, NO_EPOCH)))
    lab.produce(1, "x", correlation=4)

    answered = [m for m in lab.inbox if isinstance(m, FetchReply | EpochEndReply | ListOffsetsReply | ProduceReply)]
    assert [(m.correlation, m.error) for m in answered] == [(1, EIO), (2, EIO), (3, EIO), (4, EIO)]
    assert command(lab, 1, T0, new=False, epoch=9) is EIO


def test_the_fetcher_of_an_offline_replica_stops_and_the_others_fetch_on() -> None:
    """R-295, B-63 b (KAFKA-5864, KAFKA-8346): one bad partition must not end the fetcher of all."""
    lab = jbod()
    create_topic(lab, "u", 1, 2, 3)
    break_dir(lab, 2)
    lab.letters.clear()
    lab.wait(3000)
    lab.tell(1, Received(Address("c1"), Produce(50, U0, -1, ("y",), Millis(1000))))
    lab.settle()

    assert f"fetch:{T0}" not in lab.timers[2]
    assert isinstance(lab.nodes[2].state.broker.partitions[U0].role, Follower)
    assert [b.values for b in lab.disks[2].dirs[1].logs[U0]] == [("y",)]


def test_a_leader_goes_on_shrinking_the_isr_of_its_other_partitions() -> None:
    """B-63 c (KAFKA-7837): the loop over partitions must not end at the first offline one."""
    lab = jbod()
    create_topic(lab, "u", 1, 2, 3)
    lab.wait(3000)
    break_dir(lab, 1)
    lab.muted.add(3)
    lab.crash(3)  # silent, and its session lives on
    lab.tell(1, Received(Address("c1"), Produce(50, U0, 1, ("y",), Millis(1000))))
    lab.wait(9000)

    role = lab.nodes[1].state.broker.partitions[U0].role
    assert isinstance(role, Leader)
    assert [m.broker for m in role.isr] == [1, 2]


def test_a_leader_gives_up_at_once_when_its_directory_fails() -> None:
    """B-63 a: until the controller has heard of it, it would take records that it cannot keep."""
    for name, leads in (("log-dir-keep-leader", True), ("safe", False)):
        lab = jbod(variant=VARIANTS[name])
        lab.muted.add(1)  # no word reaches the controller
        lab.tell(1, DirFailed(0, "EIO"))

        found = lab.nodes[1].state.broker.partitions.get(T0)
        assert (found is not None and isinstance(found.role, Leader)) is leads


def test_a_record_that_failed_to_be_written_is_not_acknowledged() -> None:
    """B-63 f (KAFKA-10778): the write fails once, the next one would succeed; neither may be acknowledged here."""
    lab = jbod(1)
    lab.disks[1].dirs[0].bad = True
    lab.produce(1, "x", acks=1, correlation=1)
    lab.disks[1].dirs[0].bad = False
    lab.produce(1, "y", acks=1, correlation=2)

    errors = {m.correlation: m.error for m in lab.inbox if isinstance(m, ProduceReply)}
    assert errors == {2: EIO}  # the first was answered behind the write that failed, so it was not answered at all
    assert lab.disks[1].dirs[0].logs[T0] == []


def test_a_stopped_replica_stays_known_as_offline() -> None:
    """R-308, B-63 d (KAFKA-7313): StopReplica fails, and the next command must not make the replica anew elsewhere."""
    for name, expected in (("offline-replica-recreated", ErrorCode.NONE), ("safe", EIO)):
        lab = jbod()
        lab.configs[1] = replace(lab.configs[1], variant=VARIANTS[name])
        lab.nodes[1].state.config = lab.configs[1]
        lab.muted.add(1)
        lab.tell(1, DirFailed(0, "EIO"))
        lab.muted.clear()
        lab.letters.clear()
        controller = lab.nodes[1].state.controller
        incarnation = lab.nodes[1].state.broker.incarnation
        stop = StopReplica(9, BrokerId(1), controller.epoch, incarnation, (StopPartition(T0, LeaderEpoch(99)),))
        lab.tell(1, Received(Address("b2"), stop))
        (reply,) = [m for _, _, m in lab.letters if isinstance(m, StopReplicaReply)]

        assert reply.errors == ((T0, EIO),)
        assert command(lab, 1, T0, new=True, epoch=9) is expected


def test_a_bad_directory_keeps_its_checkpoint() -> None:
    """B-21 (KAFKA-6604): a checkpoint without the replicas of a reloaded directory has them truncate to 0."""
    lab = jbod()
    assert produced(lab, 1, "x", 1) is ErrorCode.NONE
    lab.wait(6000)
    before = lab.disks[2].dirs[0].checkpoint
    assert before == ((T0, 1),)
    break_dir(lab, 2)
    lab.disks[2].dirs[0].bad = False
    lab.wait(6000)
    assert lab.disks[2].dirs[0].checkpoint == before
    restart(lab, 2)

    assert lab.partition(2).hw == 1


def test_the_gauges_count_bad_directories_and_the_replicas_in_them() -> None:
    """R-312, C-21: what an operator must watch to know that a disk is to be replaced."""
    lab = jbod()
    create_topic(lab, "u", 1, 2, 3)
    create_topic(lab, "v", 1, 2, 3)
    broker = lab.nodes[1].state.broker
    before = (log_dirs.offline_replica_count(broker), log_dirs.offline_log_directory_count(broker))
    break_dir(lab, 1)
    broker = lab.nodes[1].state.broker

    assert before == (0, 0)
    assert (log_dirs.offline_replica_count(broker), log_dirs.offline_log_directory_count(broker)) == (2, 1)
    told = [(note.detail, note.offset) for i, note in lab.notes if i == 1 and note.kind == "gauge"]
    assert told == [(log_dirs.OFFLINE_REPLICAS, 2), (log_dirs.OFFLINE_DIRECTORIES, 1)]


# --- what is made where -----------------------------------------------------------------------------------------------------


def test_a_replica_that_is_not_found_is_made_where_all_directories_are_good() -> None:
    """R-296: it was never made, or its disk was replaced by an empty one."""
    lab = jbod()

    assert command(lab, 3, U0, new=False) is ErrorCode.NONE
    assert U0 in lab.disks[3].dirs[1].logs


def test_beside_a_bad_directory_only_a_new_replica_is_made() -> None:
    """R-301, B-63 h (KAFKA-16234): one that is not found may be in the bad directory, with records that were counted on."""
    lab = jbod()
    lab.crash(3)
    lab.expire(3)
    lab.settle()
    lab.disks[3].dirs[0].bad = True
    lab.start(3)
    lab.settle()

    assert lab.nodes[3].state.broker.offline.keys() == {T0}
    assert command(lab, 3, TopicPartition("w-0"), new=False) is EIO
    assert command(lab, 3, U0, new=True) is ErrorCode.NONE
    assert list(lab.disks[3].dirs[1].logs) == [U0]


def test_the_replicas_of_a_new_topic_are_new_and_others_are_not() -> None:
    """R-297, R-302: new is a replica on its way from NewReplica to Online, and nothing else."""
    lab = jbod()
    seen: list[tuple[str, tuple[TopicPartition, ...]]] = []

    def watching(letter: tuple[Address, Address, object]) -> bool:
        if isinstance(letter[2], LeaderAndIsr):
            seen.append((letter[1], letter[2].new))
        return False

    lab.held = watching
    create_topic(lab, "u", 1, 2, 3)
    told_of_u = set(seen)
    seen.clear()
    restart(lab, 3)

    assert {(f"b{i}", (U0,)) for i in lab.ids} <= told_of_u
    assert {new for _, new in seen} == {()}


def test_a_replica_is_new_until_its_broker_has_answered() -> None:
    """R-302: a command that was lost is sent again as it was."""
    lab = jbod()
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)
    create_topic(lab, "u", 1, 2, 3)
    lab.letters = type(lab.letters)(x for x in lab.letters if not isinstance(x[2], LeaderAndIsr))
    lab.wait(2500)
    again = [m.new for _, _, m in lab.letters if isinstance(m, LeaderAndIsr)]
    lab.held = lambda _: False
    lab.wait(2500)

    assert again
    assert set(again) == {(U0,)}
    controller = next(n.state.controller for n in lab.nodes.values() if n.state.controller.step == "active")
    assert [queued.new for queued in controller.channels] == [(), (), ()]


def test_a_replica_that_cannot_be_made_is_offline() -> None:
    """R-297: created is what was answered without an error, everything else is offline."""
    lab = jbod()
    lab.disks[3].dirs[1].bad = True  # the emptier one, where u-0 would go
    create_topic(lab, "u", 1, 2, 3)
    lab.wait(5000)

    (answer,), _ = lab.zk.submit(lab.admin, (GetData(paths.state_path(U0)),))
    assert isinstance(answer, Data)
    assert [m.broker for m in paths.decode_state(U0, (), answer).isr] == [1, 2]


# --- the controller ------------------------------------------------------------------------------------------------------------


def test_a_broker_leaves_a_notification_and_repeats_it_until_it_is_written() -> None:
    """R-299: a lost answer says nothing, and a controller that does not hear of it leaves the partition without a leader."""
    lab = jbod()
    lab.muted.add(1)
    lab.disks[1].dirs[0].bad = True
    lab.fire(1, "checkpoint")
    assert notification(lab, 1) == "writing"
    lab.tell(1, ZkReplied(lab.nodes[1].state.broker.dir_event_request, (Unknown(),)))
    assert notification(lab, 1) == "due"
    for node in lab.nodes.values():
        node.state.controller.step = "off"  # nobody reads it
    lab.muted.clear()
    lab.fire(1, "dir-event")

    assert notification(lab, 1) == "none"
    (name,) = events(lab)
    assert name.startswith("log_dir_event_")
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(f"{paths.LOG_DIR_EVENTS}/{name}"),))
    assert isinstance(answer, Data)
    assert answer.data == b'{"version":1,"broker":1,"event":1}'


def test_a_failed_directory_of_a_leader_moves_its_partition() -> None:
    """R-294, R-300: read, delete, ask, elect, take it out of the ISR, tell everybody; nothing that was acknowledged is lost."""
    lab = jbod()
    assert produced(lab, 1, "x", 1) is ErrorCode.NONE
    break_dir(lab, 1)

    assert events(lab) == ()
    assert (lab.leaders(), lab.isr()) == ([2], [2, 3])
    assert lab.values(2) == ["x"]
    assert produced(lab, 2, "y", 2) is ErrorCode.NONE
    for i in lab.ids:
        assert lab.nodes[i].state.broker.metadata[T0].offline == (1,)


def test_a_failed_directory_of_a_follower_shrinks_the_isr() -> None:
    """R-300, U-16: a broker that is alive with its replica out of reach is not in sync and is never elected."""
    lab = jbod()
    break_dir(lab, 3)

    assert (lab.leaders(), lab.isr()) == ([1], [1, 2])
    for i in (1, 2):
        lab.crash(i)
        lab.expire(i)
        lab.settle()
    lab.wait(3000)
    assert lab.leaders() == []
    controller = lab.nodes[3].state.controller
    assert electable(controller, T0) == {}
    assert list(electable(controller, U0)) == [3]


def test_a_notification_alone_moves_nothing() -> None:
    """R-300: who is offline follows from the answers of the broker, so it must be asked."""
    for name, leader in (("no-notification-requery", 1), ("safe", 2)):
        lab = jbod(variant=VARIANTS[name])
        break_dir(lab, 1)

        assert events(lab) == ()
        assert lab.state().leader == leader


def test_a_new_controller_asks_everybody_who_is_offline() -> None:
    """R-307, U-22, B-63 i: the notification is gone and so is the controller that read it."""
    for name, leader in (("no-failover-query", 2), ("safe", 3)):
        lab = Lab(3, variant=VARIANTS[name], log_dirs=2, replicas=(2, 3))
        lab.wait(3000)
        assert lab.leaders() == [2]
        controller = next(i for i in lab.ids if lab.nodes[i].state.controller.step == "active")
        assert controller == 1
        lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)  # the question does not arrive
        break_dir(lab, 2)
        assert events(lab) == ()
        lab.crash(1)
        lab.letters.clear()
        lab.held = lambda _: False
        lab.expire(1)
        lab.wait(3000)

        assert lab.state().leader == leader


def test_a_deposed_controller_takes_no_notification_away() -> None:
    """U-22: its successor asked before the directory failed, and would never hear of it."""
    lab = jbod()
    old = next(i for i in lab.ids if lab.nodes[i].state.controller.step == "active")
    lab.muted.add(old)
    lab.expire(old)
    lab.wait(3000)
    epoch = lab.nodes[old].state.controller.epoch_version
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(paths.CONTROLLER_EPOCH),))
    assert isinstance(answer, Data)
    assert answer.version > epoch
    controller = lab.nodes[old].state.controller
    controller.dir_events = DirEvents(step="reading", request=900, names=("log_dir_event_0000000000",))
    turn = Turn(Now(Millis(0), Millis(0)), lab.nodes[old].state.ids, lab.configs[old], NO_INCARNATION)
    notifications.on_answer(turn, controller, 900, (Data(paths.log_dir_event_payload(BrokerId(1)), 0, 5),))
    (request,) = [e for e in turn.effects if isinstance(e, ZkRequest)]
    answers, _ = lab.zk.submit(lab.admin, request.ops, atomic=request.atomic)

    assert notifications.on_answer(turn, controller, request.id, answers) is False


def test_everybody_can_see_which_replicas_are_offline() -> None:
    """R-304, R-305, R-306: those in bad directories and those on dead brokers."""
    lab = jbod()
    break_dir(lab, 3)
    lab.crash(2)
    lab.expire(2)
    lab.settle()
    lab.inbox.clear()
    lab.tell(1, Received(Address("c1"), Metadata(1)))
    (seen,) = [m for m in lab.inbox if isinstance(m, MetadataReply)]
    lab.start(2)
    lab.settle()
    lab.tell(1, Received(Address("c1"), Metadata(2)))
    later = [m for m in lab.inbox if isinstance(m, MetadataReply)][-1]

    assert [state.offline for state in seen.states] == [(2, 3)]
    assert [state.offline for state in later.states] == [(3,)]


def test_requests_carry_what_kip_112_added() -> None:
    """R-310, R-311: is_new_replica for each partition, offline_replicas beside the rest of the state."""
    lab = jbod()
    sent: list[object] = []

    def watching(letter: tuple[Address, Address, object]) -> bool:
        sent.append(letter[2])
        return False

    lab.held = watching
    create_topic(lab, "u", 1, 2, 3)
    break_dir(lab, 2)

    assert any(isinstance(m, LeaderAndIsr) and m.new == (U0,) and m.controller_epoch == 1 for m in sent)
    told = [state for m in sent if isinstance(m, UpdateMetadata) and m.live_brokers == (1, 2, 3) for state in m.states]
    assert (2,) in {state.offline for state in told if state.tp == T0}
    assert {state.replicas for state in told} == {(1, 2, 3)}


def test_a_topic_with_an_offline_replica_is_deleted_as_if_its_broker_were_down() -> None:
    """R-309: the replica is deleted when its broker starts and finds it assigned to nobody."""
    lab = jbod()
    break_dir(lab, 3)
    payload = paths.delete_topics_payload(("t",))
    _, fired = lab.zk.submit(lab.admin, (Create("/admin", b""), Create(paths.DELETE_TOPICS, payload)))
    lab.watches(fired)
    lab.settle()
    lab.wait(3000)
    (gone,), _ = lab.zk.submit(lab.admin, (GetData(paths.topic_path("t")),))
    assert not isinstance(gone, Data)
    assert T0 in lab.disks[3].dirs[0].logs
    lab.disks[3].dirs[0].bad = False
    restart(lab, 3)

    assert lab.disks[3].dirs[0].logs == {}


def a_new_topic_is_served_alone(lab: Lab, i: int) -> None:
    """KIP-112 system tests 2 and 3, second half: another topic, the other two brokers killed, a producer and a consumer."""
    create_topic(lab, "u", 1, 2, 3)
    for other in lab.ids:
        if other != i:
            lab.crash(other)
            lab.expire(other)
            lab.settle()
    lab.wait(3000)
    lab.inbox.clear()
    asker = Address("c1")
    lab.tell(i, Received(asker, Produce(60, U0, -1, ("y",), Millis(1000))))
    lab.settle()
    lab.tell(i, Received(asker, Fetch(61, U0, None, NO_INCARNATION, NO_EPOCH, Offset(0), Millis(0), 10)))
    lab.tell(i, Received(asker, Metadata(62)))

    assert [m.error for m in lab.inbox if isinstance(m, ProduceReply)] == [ErrorCode.NONE]
    assert [b.values for m in lab.inbox if isinstance(m, FetchReply) for b in m.batches] == [("y",)]
    (seen,) = [m for m in lab.inbox if isinstance(m, MetadataReply)]
    others = tuple(other for other in lab.ids if other != i)
    assert {state.tp: (state.leader, state.offline) for state in seen.states}[U0] == (i, others)


def test_a_leader_that_lost_a_directory_serves_new_topics_from_its_good_one() -> None:
    """R-318: the failure is found on the leader; then nobody else is left."""
    lab = jbod()
    break_dir(lab, 1)
    assert lab.leaders() == [2]
    a_new_topic_is_served_alone(lab, 1)


def test_a_follower_that_lost_a_directory_serves_new_topics_from_its_good_one() -> None:
    """R-319: the failure is found on a follower; then nobody else is left."""
    lab = jbod()
    break_dir(lab, 3)
    assert lab.leaders() == [1]
    a_new_topic_is_served_alone(lab, 3)


# --- elections and repair -------------------------------------------------------------------------------------------------------


def test_a_recovery_election_waits_for_a_directory_that_cannot_be_read() -> None:
    """docs/promise.md U1: a log that cannot be read is not an empty one, and what it holds was counted on."""
    lab = jbod(2)
    assert produced(lab, 1, "x", 1) is ErrorCode.NONE
    for i in lab.ids:
        lab.crash(i)
    for i in lab.ids:
        lab.expire(i)
    lab.disks[1].dirs[0].bad = True
    for i in lab.ids:
        lab.start(i)
    lab.wait(5000)
    assert lab.leaders() == []
    lab.disks[1].dirs[0].bad = False
    restart(lab, 1)
    lab.wait(5000)

    assert len(lab.leaders()) == 1
    assert lab.values(1) == lab.values(2) == ["x"]


def test_a_broker_says_which_of_its_logs_it_cannot_reach() -> None:
    """docs/promise.md U1: "no log here" would let the others elect without it."""
    lab = jbod()
    break_dir(lab, 3)
    lab.letters.clear()
    node = lab.nodes[3].state
    lab.tell(3, Received(Address("b1"), LogInfo(5, BrokerId(1), node.broker.controller_epoch, node.broker.incarnation, (T0,))))

    assert [m for _, _, m in lab.letters if isinstance(m, LogInfoReply)] == [LogInfoReply(5, ErrorCode.NONE, (), (T0,))]


def test_an_offline_replica_made_anew_elsewhere_would_lead_with_nothing() -> None:
    """B-63 h (KAFKA-16234): the last member of the ISR is made anew, empty, and counts as the one that is stamped there."""
    for name, kept in (("offline-replica-recreated", []), ("safe", ["x"])):
        lab = Lab(1, variant=VARIANTS[name], log_dirs=2)
        assert produced(lab, 1, "x", 1) is ErrorCode.NONE
        break_dir(lab, 1)
        led_by = lab.leaders()
        if name == "safe":
            assert led_by == []
            lab.disks[1].dirs[0].bad = False
            restart(lab, 1)
            lab.wait(1000)

        assert lab.leaders() == [1]
        assert lab.values(1) == kept


def test_a_directory_that_was_repaired_serves_again_after_a_restart() -> None:
    """R-303: with its records, where they are still there."""
    lab = jbod()
    assert produced(lab, 1, "x", 1) is ErrorCode.NONE
    break_dir(lab, 1)
    lab.disks[1].dirs[0].bad = False
    restart(lab, 1)
    lab.wait(3000)

    assert lab.isr() == [1, 2, 3]
    assert lab.values(1) == ["x"]


def test_a_directory_that_was_replaced_is_filled_again_and_its_replica_leads_nobody_meanwhile() -> None:
    """R-303, U-17, B-33 (KAFKA-3410): isNewReplica is false, all directories are good, so the replica is made, empty."""
    for alone in (False, True):
        lab = jbod(2)
        if alone:
            lab.crash(2)
            lab.expire(2)
            lab.settle()
        assert produced(lab, 1, "x", 1) is ErrorCode.NONE
        lab.crash(1)
        lab.disks[1].dirs[0] = type(lab.disks[1].dirs[0])()
        lab.expire(1)
        lab.settle()
        if alone:
            lab.start(2)
        lab.start(1)
        lab.wait(3000)

        assert lab.leaders() == ([] if alone else [2])
        if not alone:
            assert lab.isr() == [1, 2]
            assert lab.values(1) == ["x"]


def test_a_directory_that_was_taken_out_of_the_configuration_is_missed() -> None:
    """R-315: its replicas are made anew in the others; P6: such a replica is younger than its stamp, and never elected."""
    lab = jbod(1)
    create_topic(lab, "u", 1)
    assert U0 in lab.disks[1].dirs[1].logs
    assert produced(lab, 1, "x", 1) is ErrorCode.NONE
    lab.crash(1)
    rest = Disk()
    rest.dirs = lab.disks[1].dirs[1:]
    lab.disks[1] = rest
    lab.configs[1] = replace(lab.configs[1], log_dirs=1)
    lab.expire(1)
    lab.start(1)
    lab.wait(3000)

    assert sorted(rest.logs) == [T0, U0]
    partitions = lab.nodes[1].state.broker.partitions
    assert isinstance(partitions[U0].role, Leader)
    assert lab.leaders() == []


def test_of_two_logs_of_one_replica_the_younger_is_meant() -> None:
    """R-293: what was left over in a bad directory comes back beside the replica that was made while it was away."""
    lab = jbod()
    lab.crash(3)
    lab.expire(3)
    lab.settle()
    lab.disks[3].dirs[0].bad = True
    lab.start(3)
    lab.settle()
    left_over = lab.disks[3].dirs[0]
    create_topic(lab, "u", 1, 2, 3)
    left_over.logs[U0], left_over.born[U0] = [], left_over.born[T0]
    left_over.bad = False
    restart(lab, 3)

    assert lab.nodes[3].state.broker.partitions[U0].log.dir == 1
    assert U0 not in left_over.logs


def test_a_follower_with_more_than_its_leader_cuts_and_goes_on() -> None:
    """B-17 (KAFKA-3924): ending the broker over one partition takes the unflushed records of all its others."""
    lab = jbod(2)
    lab.held = lambda letter: isinstance(letter[2], FetchReply)
    lab.produce(1, "x", acks=1)
    lab.crash(1)
    lab.expire(1)
    lab.settle()
    assert lab.leaders() == [2]
    lab.held = lambda _: False
    lab.start(1)
    lab.wait(3000)

    assert lab.halted == {}
    assert lab.values(1) == lab.values(2) == []
