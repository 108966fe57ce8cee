"""The process backend: a process for each broker, a ZooKeeper where one is needed, TCP over loopback, real files."""

from collections.abc import Callable

from highwater.backends.real.processes.site import ProcessSite, missing_for
from highwater.backends.real.site import Site
from highwater.backends.real.stage import missing_library, perform, unplayable
from highwater.backends.real.systems.external.system import External
from highwater.backends.real.systems.port import System
from highwater.backends.real.systems.registry import system_for
from highwater.backends.real.zookeeper.local import missing
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance, Run
from nemesis.capability import refusals


class ProcessBackend:
    """Performs plans with processes, in real time; `name` is the backend's name on the command line."""

    name = "process"

    def __init__(self, make: Callable[[Plan], System] = system_for) -> None:
        """`make` makes the system for a plan; a program may give its own in place of the systems that plans name."""
        self._make = make

    def refuse(self, plan: Plan) -> str | None:
        """Why this machine cannot perform the plan: a fault, the workload, or something that is not installed; else None.

        UsageError for an unknown system.
        """
        system = self._make(plan)
        return (
            unplayable(plan)
            or next(iter(refusals("process", plan.schedule)), None)
            or system.refuse()
            or missing_library(plan)
            or missing_for(plan)
            or (missing() if system.zookeeper else None)
        )

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Perform the plan with processes. A KeyboardInterrupt ends the run early and keeps the rows recorded so far."""
        system = self._make(plan)
        site: Site = system.site() if isinstance(system, External) else ProcessSite(plan, system)
        return perform(plan, provenance, site, system, backend=self.name)
