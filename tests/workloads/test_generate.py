"""Invalid parameters are refused in one line each."""

import pytest

from workloads.generate import generate
from workloads.parameters import Parameters, ParametersError, PartitionName
from workloads.registry import WORKLOADS

PARTITIONS = (PartitionName("orders", 0),)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "produce",
            Parameters(partitions=PARTITIONS),
            f"unknown workload 'produce'; there are: {', '.join(WORKLOADS)}",
        ),
        ("produce-consume", Parameters(partitions=()), "workload: partitions is empty; at least one partition is needed"),
        ("produce-consume", Parameters(partitions=PARTITIONS, producers=0), "workload: producers must be at least 1, not 0"),
        (
            "produce-consume",
            Parameters(partitions=PARTITIONS, produce_per_s=0),
            "workload: produce_per_s must be at least 1, not 0",
        ),
        (
            "produce-consume",
            Parameters(partitions=PARTITIONS, consumers=-1),
            "workload: consumers must not be negative, but is -1",
        ),
        ("produce-consume", Parameters(partitions=PARTITIONS, acks=(2,)), "workload: acks must be some of -1, 0 and 1, not [2]"),
        ("produce-consume", Parameters(partitions=PARTITIONS, acks=()), "workload: acks must be some of -1, 0 and 1, not []"),
    ],
)
def test_invalid_workload_parameters_are_refused_in_one_line(name: str, parameters: Parameters, message: str) -> None:
    with pytest.raises(ParametersError) as refusal:
        generate(name, 1, parameters)

    assert str(refusal.value) == message


def test_workload_has_producers_consumers_and_final_readers() -> None:
    """The index of a process is its first process number."""
    kinds = [type(process).__name__ for process in generate("produce-consume", 1, Parameters(partitions=PARTITIONS, producers=2))]

    assert kinds == ["Producer"] * 2 + ["Consumer"] * 3 + ["FinalReader"] * 2
