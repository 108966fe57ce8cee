"""A worker performs some runs of the gate and judges them: `python -m mutation.worker ORDER.json` in a copy of the tree.

A run whose history has the digest that the unmutated code gave is not judged again: the simulator is deterministic, and the same
history has the same verdict.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Literal

import msgspec
from coverage import Coverage
from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.verdict import Validity, Verdict
from highwater.backends.sim.backend import SimBackend
from highwater.errors import CrashError, HarnessError
from highwater.plans.plan import Plan
from highwater.runs.provenance import Build
from highwater.runs.run import attempting, judge, perform
from mutation.trees import ROOT

SERVES = "serves"  # a run without faults, before those of the gate: a mutant that crashes here proves nothing
_BUILD = Build(commit="", dirty=False, versions={})


class Run(Struct, frozen=True, kw_only=True):
    """A run to perform. `digest` is that of the unmutated code."""

    name: str
    plan: Plan
    digest: str = ""


class Order(Struct, frozen=True, kw_only=True):
    """What a worker performs: runs, until one kills, or until one differs. `reach`: all runs, and the lines each executes."""

    runs: tuple[Run, ...]
    reach: bool = False
    until: Literal["killed", "differs"] = "killed"

    def is_last(self, row: "RunRow") -> bool:
        """Whether the runs after this one are not wanted."""
        return not self.reach and (bool(row.killed_by) or (self.until == "differs" and row.differs))


class RunRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of a mutant or of the unmutated code; a worker prints it as a line of JSON."""

    run: str
    digest: str = ""
    differs: bool = False  # from the unmutated code
    killed_by: str = ""  # `checker/kind`, `not live`, `crash` or `hang`; empty if the gate lets the run pass
    unknown: bool = False  # the verdict is UNKNOWN
    words: str = ""  # the anomaly, the exception, or why the verdict is UNKNOWN
    events: int = 0  # handled by the simulator
    cpu_seconds: float = 0.0
    shared: int = 0  # mutants that were in the tree at once; 0: this one alone
    lines: Mapping[str, Sequence[int]] = {}


def rows(order: Order) -> Iterator[RunRow]:
    """Perform the runs of an order, to the one after which no more are wanted."""
    for run in order.runs:
        row = _row_with_lines(run) if order.reach else _row_of(run)
        yield row
        if order.is_last(row):
            return


def _row_of(run: Run) -> RunRow:
    """Perform a run and judge it if its digest differs from the one without a mutation."""
    start = process_time()
    try:
        with attempting(f"performing {run.name}", ""):
            done = perform(run.plan, SimBackend(), _BUILD)
        manifest = done.history.manifest
        row = RunRow(run=run.name, digest=manifest.digest, differs=manifest.digest != run.digest, events=manifest.events_handled)
        if done.failure is not None:
            row = replace(row, killed_by="hang", words=done.failure)
        elif row.differs and run.name != SERVES:
            with attempting(f"judging {run.name}", ""):
                verdict = judge(done.history)
            row = _with_verdict(row, verdict)
    except CrashError as error:
        row = RunRow(run=run.name, differs=True, killed_by="crash", words=error.where)
    except HarnessError as error:  # red in the gate too, but nothing says that the protocol is wrong
        row = RunRow(run=run.name, differs=True, unknown=True, words=str(error))
    return replace(row, cpu_seconds=round(process_time() - start, 3))


def _with_verdict(row: RunRow, verdict: Verdict) -> RunRow:
    """The row with what killed the mutant, if anything did."""
    if verdict.validity is Validity.INVALID:
        anomaly = verdict.anomalies[0]
        return replace(row, killed_by=f"{anomaly.checker}/{anomaly.kind}", words=anomaly.words)
    if verdict.live is False:
        return replace(row, killed_by="not live", words=verdict.not_live[0] if verdict.not_live else "")
    if verdict.validity is Validity.UNKNOWN:
        return replace(row, unknown=True, words=verdict.unchecked[0] if verdict.unchecked else "")
    return row


def _row_with_lines(run: Run) -> RunRow:
    """The row with the lines of the protocol that the run executed."""
    cover = Coverage(data_file=None, include=[str(ROOT / "reference" / "*")], config_file=False)
    cover.start()
    try:
        row = _row_of(run)
    finally:
        cover.stop()
    data = cover.get_data()
    lines_by_file = {Path(file).relative_to(ROOT).as_posix(): sorted(data.lines(file) or ()) for file in data.measured_files()}
    return replace(row, lines=lines_by_file)


def main() -> int:
    """Perform the order in the named file; print one line for each run."""
    order = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order)
    for row in rows(order):
        sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
