"""The bytes of an ExternalView, in one znode or in one for each partition (`bench.external_view`)."""

import msgspec

from bench.external_view import BYTES_MAX, most_partitions, one_znode, row_of, znode_of_a_partition


def test_one_znode_names_the_leader_of_each_partition() -> None:
    view = msgspec.json.decode(one_znode(4))["topics"]["orders"]

    assert view == {"0": [0, 17], "1": [1, 17], "2": [2, 17], "3": [0, 17]}
    assert msgspec.json.decode(znode_of_a_partition(2)) == {"version": 1, "leader": 2, "leader_epoch": 17}


def test_failover_writes_a_third_of_the_partitions() -> None:
    row = row_of(6)

    assert (row.failover_each, row.each) == (2 * len(znode_of_a_partition(0)), 6 * len(znode_of_a_partition(0)))
    assert row.failover_one == 2 * row.one


def test_limit_is_the_last_number_that_zookeeper_takes() -> None:
    most = most_partitions()

    assert len(one_znode(most)) < BYTES_MAX <= len(one_znode(most + 1))
