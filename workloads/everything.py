"""everything: produce-consume beside the administrators of admin-storm and create-delete and the client of misuse.

The administrator of admin-storm also elects and moves the partitions of the scratch topic, which may be in deletion, and deposes
controllers. So requests of several kinds are pending at once, for the same topics.
"""

from history.seed import Draws
from workloads import create_delete, misuse, produce_consume
from workloads.admin_storm import Administrator, writer_and_reader
from workloads.client import Process
from workloads.parameters import Parameters, ParametersError, PartitionName


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """The processes of produce-consume, then those of admin-storm, create-delete and misuse."""
    if parameters.scratch is None:
        raise ParametersError("workload everything needs the parameter `scratch`, the topic that it creates and deletes")
    shared = Draws(draws)
    added: list[PartitionName] = []
    existing: list[PartitionName] = []
    producers = parameters.producers
    return (
        *produce_consume.processes(draws, parameters),
        *writer_and_reader(shared, parameters, producers, added),
        Administrator(shared, parameters, added, others=existing, deposes=True),
        # A script's producer has the number between the two.
        *writer_and_reader(shared, parameters, producers + 2, existing),
        create_delete.Administrator(shared, parameters.scratch, existing),
        misuse.Misfit(shared, parameters),
    )
