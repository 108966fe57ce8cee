"""Which brokers hold a partition (R-132)."""


def replicas_of(index: int, brokers: tuple[int, ...], replication_factor: int) -> tuple[int, ...]:
    """R-132: replica j of partition i on broker (i + j) mod n, of the brokers in order."""
    return tuple(brokers[(index + j) % len(brokers)] for j in range(replication_factor))
