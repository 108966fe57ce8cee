"""The workload on compacted topics: produce-consume, and each record has a key."""

from tests.workloads.test_admin_storm import run
from workloads import compacted
from workloads.generate import generate
from workloads.parameters import Parameters, PartitionName

PARAMETERS = Parameters(partitions=(PartitionName("t", 0),), producers=2, consumers=1, produce_per_s=50, records_per_produce=2)


def values() -> list[str]:
    clients = [client for client in generate("compacted", 3, PARAMETERS) if isinstance(client, compacted.Producer)]
    produced = [invocation for client in clients for invocation in run(client, "faults", until_ms=30_000)]
    return [value for invocation in produced for value in invocation.values]


def test_keys_are_written_again_and_values_are_unique() -> None:
    """The cleaner has something to remove, and each record is known by its value."""
    keys = [value.partition("=")[0] for value in values()]

    assert len(set(values())) == len(values()) > 500
    assert {*keys} == {f"k{number}" for number in range(compacted.KEYS)}
    assert min(map(keys.count, {*keys})) > 20


def test_keys_do_not_change_when_values_are_written() -> None:
    plain = generate("produce-consume", 3, PARAMETERS)[:2]
    produced = [value for client in plain for invocation in run(client, "faults", until_ms=30_000) for value in invocation.values]

    assert [value.partition("=")[2] for value in values()] == produced
