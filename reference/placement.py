"""Where the replicas of a new topic go (R-132; 0.8 article, "Replica placement").

The article sorts brokers and partitions and puts partition i on broker i mod n, its replica j on broker (i + j) mod n: leaders,
and the load of a broker that dies, are spread over all brokers. The first replica is the preferred one (R-003).
"""

from reference.types import BrokerId


def placed(brokers: tuple[BrokerId, ...], *, partitions: int, replication_factor: int) -> tuple[tuple[BrokerId, ...], ...]:
    """R-132: the replicas of each partition, preferred first."""
    assert 1 <= replication_factor <= len(brokers)
    order, n = sorted(brokers), len(brokers)
    return tuple(tuple(order[(i + j) % n] for j in range(replication_factor)) for i in range(partitions))
