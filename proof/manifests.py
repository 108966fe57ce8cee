"""The promise and the manifest with which small histories of tests and proofs are judged."""

from history.manifest import Assignment, FaultCount, RunManifest
from history.promise import Flush, Promise, TopicPromise


def promise(*, m: int = 2, flush: Flush = "none", by_operator: bool = False, topics: tuple[str, ...] = ("orders",)) -> Promise:
    """Return a promise for small histories: B = 2 * 1 s + 2 * 1 s + 4 * 0.5 s + 10 s = 16 s, and 5 s to replace a broker."""
    return Promise(
        topics=tuple(TopicPromise(topic=topic, min_insync_replicas=m, flush=flush) for topic in topics),
        unclean_election="by_operator" if by_operator else "never",
        profile="beyond",
        session_timeout_ms=1000,
        replica_lag_time_max_ms=1000,
        request_timeout_ms=500,
        replacement_ms=5000,
    )


def manifest(promised: Promise, brokers: tuple[str, ...] = ("b1", "b2", "b3"), partitions: int = 1) -> RunManifest:
    """Return a manifest for small histories, to which the vacuity checker has no objection."""
    return RunManifest(
        run_id="by-hand",
        seed=None,
        draws=0,
        plan_digest="",
        protocol="by-hand",
        backend="by-hand",
        commit="",
        dirty=False,
        versions={},
        outcome="completed",
        promise=promised,
        brokers=brokers,
        assignments=tuple(
            Assignment(topic=topic.topic, partition=partition, replicas=brokers[:3])
            for topic in promised.topics
            for partition in range(partitions)
        ),
        min_acked=0,
        faults=(FaultCount(kind="crash", begun=1, acted=1),),
    )
