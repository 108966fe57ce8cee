"""`highwater describe --bootstrap` on a cluster of three broker processes (R-306)."""

import time

import pytest

from bench.local_cluster import LocalCluster
from highwater.admin.describe import Description, of_cluster
from reference.types import BrokerId
from tests.server.stock.confluent import Confluent

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

PATIENCE_S = 30.0


def until_described(cluster: LocalCluster, topic: str, isr: set[int], offline: set[int]) -> Description:
    """The only partition of this topic, as soon as it has this ISR and these offline replicas."""
    end_s = time.monotonic() + PATIENCE_S
    # A broker that the controller has not told of a new topic yet answers without it.
    while True:
        rows = [row for row in of_cluster(tuple(cluster.listening.values())) if row.topic == topic]
        if [(set(row.isr), set(row.offline)) for row in rows] == [(isr, offline)]:
            return rows[0]
        assert time.monotonic() < end_s, rows
        time.sleep(0.05)


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
