"""Containers on the Docker engine of this machine as a backend: networks of their own, real disks, a real ZooKeeper."""

from msgspec.structs import replace

from highwater.backends.real.containers import images
from highwater.backends.real.containers.engine import Engine, missing
from highwater.backends.real.containers.lacking import lacking
from highwater.backends.real.containers.site import ContainerSite
from highwater.backends.real.stage import perform, unplayable
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance, Run
from nemesis.capability import refusals


class DockerBackend:
    """Performs plans in containers, in real time."""

    name = "docker"

    def refuse(self, plan: Plan) -> str | None:
        """What containers, clients or the kernel cannot do, no engine, or images that are not of this source."""
        reason = unplayable(plan) or next(iter(refusals("docker", plan.schedule)), None) or missing()
        if reason is not None:
            return reason
        with Engine() as engine:
            return images.missing(engine) or lacking(engine, plan)

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Play the plan. A KeyboardInterrupt ends it early, with what was recorded."""
        plan = with_time_for_containers(plan)
        return perform(plan, provenance, ContainerSite(plan), backend=self.name)


def with_time_for_containers(plan: Plan) -> Plan:
    """docs/promise.md §6: an engine makes and starts containers, so B is 20 s longer for them, and the quiet time with it."""
    promise = replace(plan.promise, containers=True)
    return replace(plan, promise=promise, quiet_ms=plan.quiet_ms + promise.bound_ms - plan.promise.bound_ms)
