"""Containers on the Docker engine of this machine as a backend: networks of their own, real disks, a real ZooKeeper."""

from highwater.backends.api import Provenance, Run
from highwater.containers import engine, images
from highwater.containers.container_site import ContainerSite
from highwater.local.stage import perform, unplayable
from highwater.plan import Plan
from nemesis.capability import refusals


class DockerBackend:
    """Performs plans in containers, in real time."""

    name = "docker"

    def refuse(self, plan: Plan) -> str | None:
        """A fault that containers cannot do, a workload that clients refuse, no engine, no images."""
        return unplayable(plan) or next(iter(refusals("docker", plan.schedule)), None) or self.missing()

    @staticmethod
    def missing() -> str | None:
        """Why no run at all can be done in containers here; None where it can."""
        reason = engine.missing()
        if reason is not None:
            return reason
        with engine.Engine() as connection:
            return images.missing(connection)

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Play the plan. A KeyboardInterrupt ends it early, with what was recorded."""
        return perform(plan, provenance, ContainerSite(plan), backend=self.name)
