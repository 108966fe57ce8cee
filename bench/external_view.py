"""How many bytes the ExternalView of V3's Discussion 6 would have in ZooKeeper: encoded here, not performed.

    python -m bench.external_view --partitions 1000 10000

V3 leaves the path out and says nothing of its form. Taken here: JSON without spaces as in the other znodes, with the leader and
the leader epoch of a partition, either in one znode for all partitions or in one for each. A failover changes the partitions
that one of three brokers led, and the controller writes each when its new leader has answered: in one znode that is the whole
znode each time, unless it gathers the answers.
"""

import argparse
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from highwater.cli.output import say

BYTES_MAX = 1024 * 1024  # jute.maxbuffer of ZooKeeper: a longer request is refused
_BROKERS = 3
_EPOCH = 17  # any of two digits


class Row(Struct, frozen=True):
    """The bytes for so many partitions: of one znode for all, of the znodes for each, and what a failover writes of both."""

    partitions: int
    one: int
    each: int
    failover_one: int
    failover_each: int


def one_znode(partitions: int) -> bytes:
    """The payload of one znode for all partitions of a topic `orders`."""
    view = {str(index): (index % _BROKERS, _EPOCH) for index in range(partitions)}
    return msgspec.json.encode({"version": 1, "topics": {"orders": view}})


def znode_of_a_partition(index: int) -> bytes:
    """The payload of the znode of one partition."""
    return msgspec.json.encode({"version": 1, "leader": index % _BROKERS, "leader_epoch": _EPOCH})


def row_of(partitions: int) -> Row:
    """The bytes for so many partitions."""
    one, each = len(one_znode(partitions)), [len(znode_of_a_partition(index)) for index in range(partitions)]
    changed = each[::_BROKERS]
    return Row(partitions, one, sum(each), len(changed) * one, sum(changed))


def most_partitions() -> int:
    """The most partitions whose one znode ZooKeeper takes."""
    length, partitions = len(one_znode(1)), 1
    while length < BYTES_MAX:  # another entry, with the comma before it
        length += len(f',"{partitions}":[0,{_EPOCH}]')
        partitions += 1
    return partitions - 1


def lines(numbers: Sequence[int]) -> Iterator[str]:
    """The table, a line for each number of partitions."""
    yield "partitions    one znode   a znode each   failover: one, each time   one, once   a znode each"
    for row in map(row_of, numbers):
        yield (
            f"{row.partitions:10,}  {row.one:11,}  {row.each:13,}  {row.failover_one:25,}  {row.one:10,}  {row.failover_each:13,}"
        )
    yield f"one znode has less than {BYTES_MAX:,} bytes up to {most_partitions():,} partitions"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    numbers: list[int] = parser.parse_args().partitions
    if min(numbers) < 1:
        parser.error(f"--partitions must be at least 1, not {min(numbers)}")
    for line in lines(numbers):
        say(line)


if __name__ == "__main__":
    main()
