"""Log directories that have failed, and the replicas in them (KIP-112).

A directory is taken to be good until an access to it fails (R-291), and stays out of service for the rest of this life. Its
replicas lay down their roles at once, without waiting for the controller (B-63 a), and are remembered as offline: whoever asks
for one is answered KAFKA_STORAGE_ERROR (C-22, KAFKA-6027), and it is not made anew elsewhere, for its records still exist
(KAFKA-16234). The controller is told by a notification that is repeated until it is known to be written (R-299). Replicas in
other directories go on (R-290); with no directory left the process ends (R-292).

What an unreadable directory held is not known at startup. So a replica that is not found is made only if it is new, or if every
directory can be read (R-296, R-301).
"""

from reference.broker.broker import Broker
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Create, Created
from reference.effects import Halt, Note, SetTimer, ZkRequest
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import PartitionState
from reference.replica import follower
from reference.replica.partition import Leader, Partition
from reference.types import NO_INCARNATION, NO_TOPIC_ID, Incarnation, TopicId, TopicPartition

OFFLINE_REPLICAS = "kafka.server:name=OfflineReplicaCount,type=ReplicaManager"
OFFLINE_DIRECTORIES = "kafka.server:name=OfflineLogDirectoryCount,type=LogManager"  # C-21


def on_dir_failed(turn: Turn, broker: Broker, dir_: int, error: str) -> None:
    """An access failed; again is nothing new. The replicas there stop as if the controller had said so (R-298).

    A disk that is slow without an error comes to nobody's notice (R-314).
    """
    if dir_ in broker.offline_dirs:
        return
    take_offline(turn, broker, dir_, error)
    if ends_the_process(turn, broker):
        return
    for partition in [p for p in broker.partitions.values() if p.log.dir == dir_]:
        if not (turn.config.variant.dir_fail_keep_leader and isinstance(partition.role, Leader)):
            _lay_down(turn, broker, partition)
    broker.flushes = [flush for flush in broker.flushes if flush.dir != dir_]
    note_gauges(turn, broker)
    broker.dir_event = "due"
    if broker.incarnation != NO_INCARNATION:
        notify(turn, broker)


def take_offline(turn: Turn, broker: Broker, dir_: int, error: str) -> None:
    """R-291: the directory is bad from here on."""
    broker.offline_dirs = tuple(sorted((*broker.offline_dirs, dir_)))
    incarnation = None if broker.incarnation == NO_INCARNATION else broker.incarnation
    turn.note(Note(kind="dir-failed", dir=dir_, incarnation=incarnation, detail=error))


def good(turn: Turn, broker: Broker) -> tuple[int, ...]:
    """The directories in service."""
    return tuple(dir_ for dir_ in range(turn.config.log_dirs) if dir_ not in broker.offline_dirs)


def ends_the_process(turn: Turn, broker: Broker) -> bool:
    """R-292: the broker ends where all its directories are bad; before KIP-112 where one is (C-23, V3 Discussion 4).

    One that is about to end in good order anyway ends at once, without a marker.
    """
    some_are_good = len(broker.offline_dirs) < turn.config.log_dirs
    if some_are_good and turn.config.variant.log_dir_failure == "replicas" and broker.closing is None:
        return False
    bad = ", ".join(map(str, broker.offline_dirs))
    turn.effects.append(Halt(f"log directory {bad} failed" if turn.config.log_dirs == 1 else f"log directories {bad} failed"))
    return True


def _lay_down(turn: Turn, broker: Broker, partition: Partition) -> None:
    """R-293, R-295: neither leads nor follows any more, and its fetcher stops; other partitions have fetchers of their own."""
    follower.resign(turn, partition, ErrorCode.KAFKA_STORAGE_ERROR)
    del broker.partitions[partition.tp]
    _remember(broker, partition.tp, partition.log.topic_id)


def _remember(broker: Broker, tp: TopicPartition, topic_id: TopicId) -> None:
    broker.offline[tp] = topic_id
    broker.offline = {name: broker.offline[name] for name in sorted(broker.offline)}


# --- what becomes of commands and questions ---------------------------------------------------------------------------------


def is_out_of_reach(turn: Turn, broker: Broker, state: PartitionState, *, new: bool) -> bool:
    """Is the replica of a command in a bad directory, for all that is known? Then the answer is KAFKA_STORAGE_ERROR (R-301)."""
    tp, variant = state.tp, turn.config.variant
    partition = broker.partitions.get(tp)
    if partition is not None:
        if partition.log.dir in broker.offline_dirs:  # B-63 a: it led on until now
            _lay_down(turn, broker, partition)
            return True
        return False
    if not broker.offline_dirs or variant.offline_replica_recreated:
        broker.offline.pop(tp, None)
        return False
    known = broker.offline.get(tp)
    offline = known is not None and (known == state.topic_id or NO_TOPIC_ID in (known, state.topic_id))
    if new and not offline:
        # never made before under this id, so no directory can hold it (what bears its name there is another topic's)
        broker.offline.pop(tp, None)
        return False
    if not offline:
        _remember(broker, tp, state.topic_id)
        note_gauges(turn, broker)
    return True


def is_offline(broker: Broker, tp: TopicPartition) -> bool:
    """Is this replica, which may have records, in a directory that cannot be read? One that nobody knows may be there as well."""
    partition = broker.partitions.get(tp)
    return bool(broker.offline_dirs) and (partition is None or partition.log.dir in broker.offline_dirs)


def place_for_replica(turn: Turn, broker: Broker) -> tuple[int, Incarnation]:
    """Where a new replica goes, and its birth: the good directory with the fewest replicas (R-293).

    While a directory is bad the birth is the present registration. A replica of the same name may lie in that directory, left
    over from another time; when it comes back, the younger of the two is the one that is meant (`startup`).
    """
    used = dict.fromkeys(good(turn, broker), 0)
    for partition in broker.partitions.values():
        if partition.log.dir in used:
            used[partition.log.dir] += 1
    births = () if broker.offline_dirs else broker.dir_births
    return min(used, key=lambda dir_: (used[dir_], dir_)), max(births, default=turn.incarnation)


# --- telling the controller -------------------------------------------------------------------------------------------------


def notify(turn: Turn, broker: Broker) -> None:
    """R-299: a sequential znode under /log_dir_event_notification says that a directory of this broker failed."""
    if broker.dir_event == "due":
        broker.dir_event = "writing"
        broker.dir_event_request = turn.zk_id()
        payload = paths.log_dir_event_payload(turn.config.broker)
        turn.effects.append(ZkRequest(broker.dir_event_request, (Create(paths.LOG_DIR_EVENT, payload, sequential=True),)))


def on_notified(turn: Turn, broker: Broker, answers: tuple[AnyAnswer, ...]) -> None:
    """Written, or to be written again: twice does no harm, the controller only asks once more."""
    broker.dir_event_request = 0
    if isinstance(answers[0], Created):
        broker.dir_event = "none"
        return
    broker.dir_event = "due"
    pause = turn.config.retry_backoff_ms
    turn.effects.append(SetTimer("dir-event", pause, 2 * pause))


def on_timer(turn: Turn, broker: Broker) -> None:
    """Once more; where the session is over it waits for the next registration."""
    if broker.incarnation != NO_INCARNATION:
        notify(turn, broker)


# --- metrics ----------------------------------------------------------------------------------------------------------------


def offline_replica_count(broker: Broker) -> int:
    """R-312 OfflineReplicaCount: replicas of this broker on bad log directories, as far as it knows of them."""
    return len(broker.offline)


def offline_log_directory_count(broker: Broker) -> int:
    """R-312 OfflineLogDirectoryCount: bad log directories of this broker."""
    return len(broker.offline_dirs)


def note_gauges(turn: Turn, broker: Broker) -> None:
    """Say what the two metrics are now: told when they may have changed."""
    for name, value in (
        (OFFLINE_REPLICAS, offline_replica_count(broker)),
        (OFFLINE_DIRECTORIES, offline_log_directory_count(broker)),
    ):
        turn.note(Note(kind="gauge", gauge=value, detail=name))
