"""The promise of a run: what its history is judged by, whatever the protocol's config switches say (docs/promise.md §1)."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

# min.insync.replicas of the topics in which a cluster keeps the state of sessions (docs/promise.md §8)
SESSIONS_KEEP = 2
Flush = Literal["none", "before_ack"]
Keeps = Literal["last-of-key"]  # on a topic that is compacted (docs/promise.md DUR-9)


def time_to_replace_ms(session_timeout_ms: int) -> int:
    """How long a broker that alone is cut off may lead a partition (docs/promise.md LIVE-6).

    Its session or its heartbeats end within a session timeout, a new controller needs another, and requests to it a third.
    """
    return 3 * session_timeout_ms + 2000


class TopicPromise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run promises for one topic: its min.insync.replicas, whether acknowledged records are flushed, which are kept."""

    topic: str
    min_insync_replicas: int = 2
    flush: Flush = "none"
    keeps: Keeps | UnsetType = UNSET  # all records if unset


class Promise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run promises its clients (topics, elections, time to recover); the same for every protocol variant."""

    topics: tuple[TopicPromise, ...]
    unclean_election: Literal["never", "by_operator"] = "never"
    profile: Literal["within", "beyond"] = "within"
    session_timeout_ms: int
    replica_lag_time_max_ms: int
    request_timeout_ms: int
    containers: bool = False
    replacement_ms: int = 0  # after which a broker that alone is cut off leads nothing (LIVE-6); 0: not promised

    def topic(self, name: str) -> TopicPromise:
        """What the run promises for one topic. Raises KeyError for a topic without a promise."""
        for topic in self.topics:
            if topic.topic == name:
                return topic
        raise KeyError(name)

    @property
    def bound_ms(self) -> int:
        """The bound B of docs/promise.md §6, in ms after healing: the cluster must be whole by then."""
        allowance_ms = 30_000 if self.containers else 10_000
        return 2 * self.session_timeout_ms + 2 * self.replica_lag_time_max_ms + 4 * self.request_timeout_ms + allowance_ms
