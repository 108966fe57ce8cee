"""Makes the client processes of a run from the workload's name, its random number and its parameters."""

from workloads import asynchronous, audit, operator, script
from workloads.client import Process
from workloads.parameters import Parameters, ParametersError, check_parameters
from workloads.registry import WORKLOADS


def generate(name: str, draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the client processes of a workload. Final readers are idle before the final phase.

    Those of the workload, then those of the script, then those of the audit and the operator, then asynchronous producers.

    Raises ParametersError, with one line for the user, for an unknown name or parameters that make no workload.
    """
    factory = WORKLOADS.get(name)
    if factory is None:
        raise ParametersError(f"unknown workload {name!r}; there are: {', '.join(WORKLOADS)}")
    check_parameters(parameters)
    factories = [factory, script.processes, audit.processes, operator.processes]
    if parameters.asynchronous is not None:
        factories.append(asynchronous.processes)
    return tuple(process for factory in factories for process in factory(draws, parameters))
