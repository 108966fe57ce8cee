"""The runs of the gate, and a worker that performs some of them: `python -m mutation.gate ORDER.json` in a copy of the tree.

The gate is the first three phases of `make test-chaos FIRST=1`: the corpus, the stored plans and the seeds, all on `safe`. A run
whose history has the digest that the unmutated code gave is not judged again: the simulator is deterministic, and the same
history has the same verdict.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import process_time

import msgspec
from coverage import Coverage
from msgspec import Struct
from msgspec.structs import replace

from checkers.verdict import Validity, Verdict
from highwater.backends.sim.backend import SimBackend
from highwater.campaigns.chaos import cases_of
from highwater.campaigns.corpus import SAFE, Case, load_corpus, load_plans
from highwater.errors import HarnessError
from highwater.plans.derive import derive
from highwater.plans.plan import Plan
from highwater.runs.provenance import Build
from highwater.runs.run import attempting, judge, perform
from highwater.runs.workers import crash_of

FIRST, SEEDS = 1, 200  # of `make test-chaos FIRST=1`
SERVES = "serves"  # a run without faults: a mutant that crashes here proves nothing
_BUILD = Build(commit="", dirty=False, versions={})
_ROOT = Path(__file__).resolve().parents[1]


class Order(Struct, frozen=True, kw_only=True):
    """What a worker performs: runs by name, until one kills. `digests` are those of the unmutated code."""

    runs: tuple[str, ...]
    digests: Mapping[str, str] = {}
    reach: bool = False  # also tell which lines of `reference` each run executes


class RunRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of a mutant or of the unmutated code; a worker prints it as a line of JSON."""

    run: str
    digest: str = ""
    differs: bool = False  # from the unmutated code
    killed_by: str = ""  # `checker/kind`, `not live`, `crash` or `hang`; empty if the gate lets the run pass
    words: str = ""  # the anomaly or the exception
    events: int = 0  # handled by the simulator
    cpu_seconds: float = 0.0
    lines: Mapping[str, Sequence[int]] = {}


def plans() -> dict[str, Plan]:
    """The plan of each run of the gate by name, in the gate's order; before them the run without faults."""
    entries = load_corpus(_ROOT / "corpus" / "seeds")
    corpus = [case for case in entries if case.expectation.protocol == SAFE]
    stored = load_plans(_ROOT / "corpus" / "plans", entries)
    found = {SERVES: replace(derive(FIRST, seconds=10), schedule=())}
    for part, cases in (("corpus", corpus), ("plans", stored), ("seeds", cases_of(range(FIRST, FIRST + SEEDS)))):
        found |= {_named(part, case): case.plan for case in cases}
    return found


def _named(part: str, case: Case) -> str:
    return f"{part}/{case.entry}"


def rows(order: Order) -> Iterator[RunRow]:
    """Perform the runs of an order; the first that kills the mutant is the last."""
    known = plans()
    for name in order.runs:
        perform_one = _measured if order.reach else _row
        row = perform_one(name, known[name], order.digests.get(name, ""))
        yield row
        if row.killed_by and not order.reach:
            return


def _row(name: str, plan: Plan, expected: str) -> RunRow:
    start = process_time()
    try:
        with attempting(f"performing {name}", ""):
            run = perform(plan, SimBackend(), _BUILD)
        manifest = run.history.manifest
        seen = RunRow(run=name, digest=manifest.digest, differs=manifest.digest != expected, events=manifest.events_handled)
        if run.failure is not None:
            seen = replace(seen, killed_by="hang", words=run.failure)
        elif seen.differs:
            with attempting(f"judging {name}", ""):
                verdict = judge(run.history)
            killed_by, words = _kill(verdict)
            seen = replace(seen, killed_by=killed_by, words=words)
    except HarnessError as error:
        seen = RunRow(run=name, differs=True, killed_by="crash", words=crash_of(error) or str(error))
    return replace(seen, cpu_seconds=round(process_time() - start, 3))


def _kill(verdict: Verdict) -> tuple[str, str]:
    if verdict.validity is Validity.INVALID:
        anomaly = verdict.anomalies[0]
        return f"{anomaly.checker}/{anomaly.kind}", anomaly.words
    if verdict.live is False:
        return "not live", verdict.not_live[0] if verdict.not_live else ""
    return "", ""


def _measured(name: str, plan: Plan, expected: str) -> RunRow:
    cover = Coverage(data_file=None, include=[str(_ROOT / "reference" / "*")], config_file=False)
    cover.start()
    try:
        row = _row(name, plan, expected)
    finally:
        cover.stop()
    data = cover.get_data()
    found = {Path(file).relative_to(_ROOT).as_posix(): sorted(data.lines(file) or ()) for file in data.measured_files()}
    return replace(row, lines=found)


def main() -> int:
    """Perform the order in the named file; print one line for each run."""
    order = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order)
    for row in rows(order):
        sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
