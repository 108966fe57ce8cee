"""`highwater describe --bootstrap` on a cluster of three broker processes (R-306)."""

import time

import pytest

from bench.local_cluster import LocalCluster
from highwater.admin.describe import Description, of_cluster
from reference.types import BrokerId
from tests.server.stock.confluent import Confluent

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

PATIENCE_S = 30.0


def described(cluster: LocalCluster, topic: str) -> Description:
    """The only partition of this topic."""
    (row,) = [row for row in of_cluster(tuple(cluster.listening.values())) if row.topic == topic]
    return row


def until_described(cluster: LocalCluster, topic: str, isr: set[int], offline: set[int]) -> Description:
    """The partition as soon as it has this ISR and these offline replicas."""
    end_s = time.monotonic() + PATIENCE_S
    while (set((row := described(cluster, topic)).isr), set(row.offline)) != (isr, offline):
        assert time.monotonic() < end_s, row
        time.sleep(0.05)
    return row


def test_describe_shows_replica_of_killed_broker_as_offline(cluster: LocalCluster) -> None:
    """R-306: the broker that was first in the list is the dead one, so the next one answers; later it is in the ISR again."""
    client = Confluent(cluster.bootstrap)
    assert client.create("described", replicas=3) == ""
    client.close()
    before = until_described(cluster, "described", {1, 2, 3}, set())
    with cluster.without(BrokerId(1)):
        without = until_described(cluster, "described", {2, 3}, {1})

    assert before.leader in (1, 2, 3)
    assert sorted(before.replicas) == sorted(without.replicas) == [1, 2, 3]
    assert without.leader in (2, 3)
    assert without.leader_epoch > before.leader_epoch
    until_described(cluster, "described", {1, 2, 3}, set())
