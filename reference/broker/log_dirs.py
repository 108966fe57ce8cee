"""Log directories that have failed, and the replicas in them (KIP-112).

A directory counts as good until an access to it fails (R-291), and then stays out of service until the process ends. Its replicas
resign at once, without waiting for the controller (B-63 a), and are remembered as offline: requests for them are answered
KAFKA_STORAGE_ERROR (C-22, KAFKA-6027), and they are not created again elsewhere, because their records still exist (KAFKA-16234).
The broker writes a notification for the controller, and repeats it until it is known to be written (R-299). Replicas in other
directories go on (R-290); with no good directory left the process ends (R-292).

The contents of a directory that is unreadable at startup are unknown. So a missing replica is created only if it is new, or if
every directory is readable (R-296, R-301).

    state         event                               next       effects                         by
    any           a directory fails                   due                                        on_dir_failed
    due           the broker is registered            writing    create a notification           notify
    writing       it is created                       none                                       on_notified
    writing       no answer                           due        retry later                     on_notified
"""

from collections import Counter

from reference.broker.broker import Broker, DirEvent
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Create, Created
from reference.effects import Halt, Note, ZkRequest
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import PartitionState
from reference.replica import follower
from reference.replica.partition import Leader, Partition
from reference.types import NO_INCARNATION, NO_TOPIC_ID, Incarnation, TopicId, TopicPartition

OFFLINE_REPLICAS = "kafka.server:name=OfflineReplicaCount,type=ReplicaManager"
OFFLINE_DIRECTORIES = "kafka.server:name=OfflineLogDirectoryCount,type=LogManager"  # C-21


def on_dir_failed(turn: Turn, broker: Broker, dir_: int, error: str) -> None:
    """An access to `dir_` failed: its replicas stop as if by command (R-298). Later failures of it are ignored.

    Clients get KAFKA_STORAGE_ERROR instead of the KIP's UnknownTopicOrPartitionException (C-22).
    A disk that is slow but reports no error is not detected (R-314).
    """
    if dir_ in broker.offline_dirs:
        return
    take_offline(turn, broker, dir_, error)
    if ends_the_process(turn, broker):
        return
    for partition in [p for p in broker.partitions.values() if p.log.dir == dir_]:
        if not (turn.config.variant.dir_fail_keep_leader and isinstance(partition.role, Leader)):
            _go_offline(turn, broker, partition)
    broker.flushes = [flush for flush in broker.flushes if flush.dir != dir_]
    note_gauges(turn, broker)
    broker.dir_event = DirEvent.DUE
    notify(turn, broker)


def take_offline(turn: Turn, broker: Broker, dir_: int, error: str) -> None:
    """R-291: mark a log directory as failed, and record that in the history."""
    broker.offline_dirs = tuple(sorted((*broker.offline_dirs, dir_)))
    incarnation = None if broker.incarnation == NO_INCARNATION else broker.incarnation
    turn.note(Note(kind="dir-failed", dir=dir_, incarnation=incarnation, detail=error))


def good(turn: Turn, broker: Broker) -> tuple[int, ...]:
    """The indices of the log directories that have not failed."""
    return tuple(dir_ for dir_ in range(turn.config.log_dirs) if dir_ not in broker.offline_dirs)


def ends_the_process(turn: Turn, broker: Broker) -> bool:
    """R-292: halt if all log directories failed; before KIP-112 if one did (R-073, C-23). True if it halts.

    A broker that is shutting down ends at once, without a clean-shutdown marker.
    """
    some_are_good = len(broker.offline_dirs) < turn.config.log_dirs
    if some_are_good and turn.config.variant.log_dir_failure == "replicas" and broker.closing is None:
        return False
    bad = ", ".join(map(str, broker.offline_dirs))
    turn.effects.append(Halt(f"log directory {bad} failed" if turn.config.log_dirs == 1 else f"log directories {bad} failed"))
    return True


def _go_offline(turn: Turn, broker: Broker, partition: Partition) -> None:
    """R-293, R-295: the replica in a failed directory resigns its role, and its fetcher stops; other replicas go on."""
    follower.resign(turn, partition, ErrorCode.KAFKA_STORAGE_ERROR)
    del broker.partitions[partition.tp]
    _remember(broker, partition.tp, partition.log.topic_id)


def _remember(broker: Broker, tp: TopicPartition, topic_id: TopicId) -> None:
    broker.offline[tp] = topic_id
    broker.offline = {name: broker.offline[name] for name in sorted(broker.offline)}


# --- commands and requests for a replica --------------------------------------------------------------------------------


def is_out_of_reach(turn: Turn, broker: Broker, state: PartitionState, *, new: bool) -> bool:
    """True if the replica that a command names is, or may be, in a failed directory: KAFKA_STORAGE_ERROR (R-301)."""
    tp, variant = state.tp, turn.config.variant
    partition = broker.partitions.get(tp)
    if partition is not None:
        if partition.log.dir in broker.offline_dirs:  # B-63 a: it has led until now
            _go_offline(turn, broker, partition)
            return True
        return False
    if not broker.offline_dirs or variant.offline_replica_recreated:
        broker.offline.pop(tp, None)
        return False
    topic_id = broker.offline.get(tp)
    offline = topic_id is not None and (topic_id == state.topic_id or NO_TOPIC_ID in (topic_id, state.topic_id))
    if new and not offline:
        # never created under this id, so no directory holds it; a log of its name there is of another topic
        broker.offline.pop(tp, None)
        return False
    if not offline:
        _remember(broker, tp, state.topic_id)
        note_gauges(turn, broker)
    return True


def is_offline(broker: Broker, tp: TopicPartition) -> bool:
    """True if the replica is in a failed directory; an unknown replica may be in one, if one has failed."""
    partition = broker.partitions.get(tp)
    return bool(broker.offline_dirs) and (partition is None or partition.log.dir in broker.offline_dirs)


def place_for_replica(turn: Turn, broker: Broker) -> tuple[int, Incarnation]:
    """The directory of a new replica, the good one with the fewest replicas (R-293), and the birth of its log.

    While a directory is bad, the birth is the present registration: that directory may hold the log that was counted on.
    """
    used = Counter([partition.log.dir for partition in broker.partitions.values()])
    births = () if broker.offline_dirs else broker.dir_births
    return min(good(turn, broker), key=lambda dir_: (used[dir_], dir_)), max(births, default=turn.incarnation)


# --- notifying the controller -----------------------------------------------------------------------------------------------


def notify(turn: Turn, broker: Broker) -> None:
    """R-299: create a sequential znode under /log_dir_event_notification that names this broker, if one is due.

    Without a registration it waits for the next one.
    """
    if broker.dir_event is DirEvent.DUE and broker.incarnation != NO_INCARNATION:
        broker.dir_event = DirEvent.WRITING
        broker.dir_event_request = turn.zk_id()
        payload = paths.log_dir_event_payload(turn.config.broker)
        turn.effects.append(ZkRequest(broker.dir_event_request, (Create(paths.LOG_DIR_EVENT, payload, sequential=True),)))


def on_notified(turn: Turn, broker: Broker, answers: tuple[AnyAnswer, ...]) -> None:
    """ZooKeeper answered the creation of the failure notification: create it again unless it was created."""
    broker.dir_event_request = 0
    if isinstance(answers[0], Created):
        broker.dir_event = DirEvent.NONE
        return
    broker.dir_event = DirEvent.DUE
    turn.retry("dir-event")


# --- metrics ----------------------------------------------------------------------------------------------------------------


def note_gauges(turn: Turn, broker: Broker) -> None:
    """R-312: record the numbers of offline replicas and directories. The broker knows only some replicas of a bad directory."""
    for name, value in ((OFFLINE_REPLICAS, len(broker.offline)), (OFFLINE_DIRECTORIES, len(broker.offline_dirs))):
        turn.note(Note(kind="gauge", gauge=value, detail=name))
