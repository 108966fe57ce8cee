"""The process backend: a process for each broker, a ZooKeeper where one is needed, TCP over loopback, real files."""

from highwater.backends.real.processes.site import ProcessSite, missing_for
from highwater.backends.real.stage import perform, unplayable
from highwater.backends.real.systems.registry import system_for
from highwater.backends.real.zookeeper.local import missing
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance, Run
from nemesis.capability import refusals


class ProcessBackend:
    """Performs plans with processes, in real time; `name` is the backend's name on the command line."""

    name = "process"

    def refuse(self, plan: Plan) -> str | None:
        """Why this machine cannot perform the plan: a fault, the workload, or something that is not installed; else None.

        UsageError for an unknown system.
        """
        system = system_for(plan)
        return (
            unplayable(plan)
            or next(iter(refusals("process", plan.schedule)), None)
            or missing_for(plan)
            or system.refuse()
            or (missing() if system.zookeeper else None)
        )

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Perform the plan with processes. A KeyboardInterrupt ends the run early and keeps the rows recorded so far."""
        system = system_for(plan)
        return perform(plan, provenance, ProcessSite(plan, system), system, backend=self.name)
