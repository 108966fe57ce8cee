"""A stored run for a notebook: its tables, its findings, and the states of its replicas at any moment, as Polars frames.

run = highwater.load("store/seed-21/sim-v3-3e53dd08141a")
run.operations, run.events, run.anomalies
run.states(every_ms=1_000)
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from checkers.engine.verdict import Verdict
from highwater.errors import UsageError
from highwater.inspect.states import states
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.rig.backend import REPEATABLE
from highwater.runs.records import verdict_of
from history import store
from history.history import History

_NS_PER_MS = 1_000_000


class StoredRun:
    """A run in a folder of a store. What is asked for is read then, and kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history: History = store.load_run(folder)

    @property
    def operations(self) -> pl.DataFrame:
        """What clients asked and were told; the columns are those of docs/history-format.md."""
        return self.history.operations_frame

    @property
    def events(self) -> pl.DataFrame:
        """What was observed of brokers, ZooKeeper and the harness; the columns are those of docs/history-format.md."""
        return self.history.events_frame

    @cached_property
    def plan(self) -> Plan:
        """The plan as it was performed."""
        return load_plan(self.folder / store.PLAN)

    @cached_property
    def verdict(self) -> Verdict:
        """The stored verdict; judged now if none is stored."""
        return verdict_of(self.folder, self.history)

    @cached_property
    def anomalies(self) -> pl.DataFrame:
        """The anomalies of the verdict: kind, checker, key, words, and the indices of the rows that prove it (witness)."""
        columns: dict[str, Any] = {
            "kind": pl.String,
            "checker": pl.String,
            "key": pl.String,
            "words": pl.String,
            "witness": pl.List(pl.Int64),
        }
        rows = [{name: getattr(anomaly, name) for name in columns} for anomaly in self.verdict.anomalies]
        return pl.DataFrame(rows, schema=columns)

    def states(self, *, at_ns: Sequence[int] = (), every_ms: int = 1_000) -> pl.DataFrame:
        """All replicas, and what ZooKeeper holds, at these times, or every so many ms of virtual time to the end of the run.

        Columns: time_ns, node, partition, role, leader, leader_epoch, isr, hw, leo (offsets). The run is performed again, which
        takes as long as performing it did. UsageError for a run on real brokers, or if the code behaves otherwise by now.
        """
        manifest = self.history.manifest
        if manifest.backend not in REPEATABLE:
            raise UsageError(
                f"{self.folder}: backend is {manifest.backend}; states are those of simulated runs and explored paths"
            )
        if every_ms < 1:
            raise UsageError(f"every_ms must be at least 1, not {every_ms}")
        times_ns = at_ns or range(0, (manifest.end_ns or 0) + 1, every_ms * _NS_PER_MS)
        return states(self.plan, self.history, times_ns)


def load(folder: str | Path) -> StoredRun:
    """Open a stored run. HistoryError if the folder holds none, or a damaged one."""
    return StoredRun(Path(folder))
