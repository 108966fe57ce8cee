"""The interface of all backends: a backend performs a plan and returns the history of the run.

A backend plays the plan's cluster, workload and schedule, and records rows. It never judges. It refuses a plan that it cannot
perform before anything starts (`refuse`), so that no fault is silently skipped.
"""

from typing import Literal, Protocol

from msgspec import Struct

from highwater.plans.plan import Plan
from history.history import History

BackendName = Literal["sim", "process", "docker"]
REPEATABLE = ("sim", "explore")  # backends that give the same history for the same plan


class Provenance(Struct, frozen=True, kw_only=True):
    """Facts about a run that the caller knows (such as the commit), which the backend copies into the manifest."""

    run_id: str
    plan_digest: str
    commit: str = ""
    dirty: bool = False
    versions: dict[str, str] = {}


class Run(Struct, frozen=True, kw_only=True):
    """The result of performing a plan: the history, or why the harness failed.

    `history.manifest.outcome` says how it ended; `failure` describes a failure of the harness.
    """

    history: History
    failure: str | None = None


class Backend(Protocol):
    """One way to perform plans: the simulator, local processes, containers, the explorer."""

    @property
    def name(self) -> str:
        """The name of the backend in the manifest and on the command line."""

    def refuse(self, plan: Plan) -> str | None:
        """Why this backend cannot perform the plan, in a sentence; None if it can."""

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Perform the plan and record its history.

        KeyboardInterrupt ends the run early with outcome "interrupted"; recorded rows are kept.
        """
