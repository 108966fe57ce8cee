"""The backend port: who performs a plan, and what is handed back.

A backend plays the plan's cluster, workload and schedule on its own stage and records what it sees. It never judges. What it
cannot perform it refuses before anything starts (`refuse`), so that no fault is silently skipped.
"""

from typing import Protocol

from msgspec import Struct

from highwater.plans.plan import Plan
from history.history import History


class Provenance(Struct, frozen=True, kw_only=True):
    """What the caller knows of a run and the backend copies into the manifest."""

    run_id: str
    plan_digest: str
    commit: str = ""
    dirty: bool = False
    versions: dict[str, str] = {}


class Run(Struct, frozen=True, kw_only=True):
    """One performed plan. `history.manifest.outcome` says how it ended; `failure` puts a failure of the laboratory into words."""

    history: History
    failure: str | None = None


class Backend(Protocol):
    """A stage: the simulator, local processes, containers."""

    @property
    def name(self) -> str:
        """As the manifest and the command line call it."""

    def refuse(self, plan: Plan) -> str | None:
        """Why this plan cannot be performed here, in a sentence; None where it can."""

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Perform and record. KeyboardInterrupt ends the run early: what was recorded is kept, outcome "interrupted"."""
