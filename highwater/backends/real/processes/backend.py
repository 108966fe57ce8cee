"""The process backend: a ZooKeeper and a process for each broker on this machine, TCP over loopback, real files."""

from highwater.backends.real.processes.site import ProcessSite, missing_for
from highwater.backends.real.stage import perform, unplayable
from highwater.backends.real.zookeeper.local import missing
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance, Run
from nemesis.capability import refusals


class ProcessBackend:
    """Performs plans with processes, in real time; `name` is the backend's name on the command line."""

    name = "process"

    def refuse(self, plan: Plan) -> str | None:
        """Why this machine cannot perform the plan: a fault, the workload, or something that is not installed; else None."""
        return unplayable(plan) or next(iter(refusals("process", plan.schedule)), None) or missing_for(plan) or missing()

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Perform the plan with processes. A KeyboardInterrupt ends the run early and keeps the rows recorded so far."""
        return perform(plan, provenance, ProcessSite(plan), backend=self.name)
