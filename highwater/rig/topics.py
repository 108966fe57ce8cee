"""Topic ids by name, from the commits of ZooKeeper, for the evidence of a run (docs/promise.md DUR-8).

The promises of a topic end when its deletion is requested or its znode is deleted, whichever comes first. The promises of one
partition end when its removal is requested (V3 §H).
"""

from collections.abc import Iterable

from reference.coordination import paths
from reference.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition, topic_of, topic_partition

_BELOW = f"{paths.TOPICS}/"


def brokers_named(topics: Iterable[tuple[str, bytes]]) -> frozenset[BrokerId]:
    """The brokers on which these topics (name, bytes of the znode) have replicas."""
    return frozenset(broker for topic, data in topics for _, replicas in paths.decode_topic(topic, data) for broker in replicas)


class TopicIds:
    """Topic ids by name; must be told of every ZooKeeper commit, in order."""

    __slots__ = ("_ended", "_ids")

    def __init__(self) -> None:
        self._ids: dict[str, TopicId] = {}
        self._ended: set[TopicId] = set()

    def created(self, path: str, czxid: int) -> None:
        """Register a created znode; if it is a topic's, its czxid is the topic's id."""
        topic = topic_of_path(path)
        if topic is not None:
            self._ids[topic] = TopicId(czxid)

    def of(self, tp: TopicPartition) -> str | None:
        """The id of the topic that has this name now or had it last; None where no topic had it."""
        return written(self._ids.get(topic_of(tp)))

    def newly_ended(self, path: str, data: bytes | None) -> tuple[tuple[str, str], ...]:
        """The topics (name, id) that a ZooKeeper commit is the first to end; `data`: what it wrote, None for a deleted znode."""
        deleted_topic = topic_of_path(path) if data is None else None
        topics_to_delete = () if data is None else _topics_to_delete(path, data)
        topics = topics_to_delete if deleted_topic is None else (deleted_topic,)
        ended_ids = [(topic, self._ids[topic]) for topic in topics if topic in self._ids]
        fresh = [(topic, topic_id) for topic, topic_id in ended_ids if topic_id not in self._ended]
        self._ended.update(topic_id for _, topic_id in fresh)
        return tuple((topic, str(topic_id)) for topic, topic_id in fresh)

    def is_ended(self, topic: str) -> bool:
        """True if the present topic of this name has no promises any more: its deletion was requested."""
        return self._ids.get(topic) in self._ended


def _topics_to_delete(path: str, data: bytes) -> tuple[str, ...]:
    """The topics whose deletion this znode requests: the reference names them in its data, Kafka in the path of a child."""
    if path == paths.DELETE_TOPICS:
        return paths.decode_delete_topics(data)
    above, _, topic = path.rpartition("/")
    return (topic,) if above == paths.DELETE_TOPICS else ()


def topic_of_path(path: str) -> str | None:
    """The topic to which this znode path belongs; None for other paths."""
    return path.removeprefix(_BELOW) if path.startswith(_BELOW) and path.count("/") == _BELOW.count("/") else None


def removed(path: str) -> TopicPartition | None:
    """The partition whose removal this znode requests (R-008); None for other paths."""
    above, _, index = path.rpartition("/")
    topic = above.removeprefix(f"{paths.PARTITIONS_REMOVE}/")
    return topic_partition(topic, int(index)) if above != topic and index.isdecimal() else None


def written(topic_id: TopicId | None) -> str | None:
    """Format a topic id as history rows hold it; None for no id."""
    return None if topic_id is None or topic_id == NO_TOPIC_ID else str(topic_id)
