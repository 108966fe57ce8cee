"""Mutants are performed in copies of the tree, and the ledger tells who killed them and in which run."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from highwater.plans.plan import Plan
from mutation.gate import FIRST, SEEDS, plans
from mutation.groups import measure_together
from mutation.measure import Bench, Gate, Progress, serving
from mutation.rows import MutationError, Row, drawn, rows
from mutation.trees import ROOT
from mutation.worker import SERVES, Order, Run, RunRow
from tests.tidy.sources import ROOT as TREE

FAST = "corpus/jepsen-2013"


def mutant(id_: str, edit: str) -> Row:
    return Row(id=id_, text="statement", edit=edit)


KILLED = mutant("M-1", "replica.leader._record_progress follower.leo = fetch.offset => pass")
DEAD = mutant("M-2", "replica.leader.on_produce base = partition.log.leo => raise ValueError")
HANGS = mutant("M-3", "replica.isr.maybe_shrink if slow: ... =>\nwhile slow: pass\nif slow: ...")
UNREACHED = mutant("M-4", "controller.reassign.move.go_on move.step = order[order.index(move.step) + 1] => raise ValueError")


@pytest.fixture(scope="module")
def gate_plans() -> Mapping[str, Plan]:
    return plans()


def measured(mutants: list[Row], chosen: Mapping[str, Plan], ledger: Path) -> dict[str, Progress]:
    """Measure mutants against these runs alone, and read the ledger."""
    bench = Bench(1, chosen, say=lambda words: None, ledger=ledger, deadline_s=20.0)
    with bench.open():
        bench.baseline(list(chosen))
        gate = Gate(list(chosen), bench.folder)
        bench.measure(gate, lambda: mutants)
    return {row.id: gate.progress(row) for row in mutants}


@pytest.mark.slow
def test_ledger_tells_how_each_mutant_ended(tmp_path: Path, gate_plans: Mapping[str, Plan]) -> None:
    chosen = {name: gate_plans[name] for name in (SERVES, FAST)}
    progresses = measured([KILLED, DEAD, HANGS, UNREACHED], chosen, tmp_path)
    kills = {id_: (row.outcome, row.rows[-1].killed_by if row.rows else "", row.performed) for id_, row in progresses.items()}

    assert kills == {
        "M-1": ("killed", "not live", 1),
        "M-2": ("does not serve", "crash", 0),
        "M-3": ("killed", "hang", 1),
        "M-4": ("survived", "", 0),
    }
    assert "follower.leo = fetch.offset\n" in (ROOT / KILLED.file).read_text(encoding="utf-8")  # the tree itself is never edited


@pytest.mark.slow
def test_measurement_goes_on_where_its_ledger_ends(tmp_path: Path, gate_plans: Mapping[str, Plan]) -> None:
    chosen = {name: gate_plans[name] for name in (SERVES, FAST)}
    first = measured([KILLED], chosen, tmp_path)
    texts = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}

    assert measured([KILLED], chosen, tmp_path) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")} == texts


def test_kill_counts_when_a_shared_run_is_stored_after_it() -> None:
    """Two workers perform a group: one finds the mutant that kills, the other stores its run of the whole group."""
    kill = RunRow(run="seeds/seed-1", differs=True, killed_by="not live")
    progress = Progress(mutant=KILLED, rows=(RunRow(run=SERVES), kill, RunRow(run="seeds/seed-2", shared=4)), left=(), reached=2)

    assert (progress.outcome, progress.kill, progress.performed) == ("killed", kill, 1)


def together(group: list[Row], gate_plans: Mapping[str, Plan], ledger: Path) -> dict[str, Progress]:
    """Measure mutants that served, all in one tree against the fast run, and read the ledger."""
    chosen = {name: gate_plans[name] for name in (SERVES, FAST)}
    bench = Bench(1, chosen, say=lambda words: None, ledger=ledger)
    with bench.open():
        bench.baseline(list(chosen))
        gate = Gate(list(chosen), bench.folder)
        for row in group:
            bench.add(row, RunRow(run=SERVES))
        measure_together(bench, gate, group)
    return {row.id: gate.progress(row) for row in group}


SILENT = (
    mutant("M-6", "replica.leader.on_produce base = partition.log.leo => base = 0 + partition.log.leo"),
    mutant("M-7", "replica.isr.maybe_shrink if slow: ... => if slow and True: ..."),
)


@pytest.mark.slow
def test_mutant_that_changes_a_run_is_found_among_others(tmp_path: Path, gate_plans: Mapping[str, Plan]) -> None:
    """Halves of the group perform the run again: here each of the three ends up alone."""
    progresses = together([SILENT[0], KILLED, SILENT[1]], gate_plans, tmp_path)

    assert {id_: (row.outcome, row.performed, row.rows[-1].shared) for id_, row in progresses.items()} == {
        "M-6": ("survived", 1, 0),
        "M-1": ("killed", 1, 0),
        "M-7": ("survived", 1, 0),
    }


@pytest.mark.slow
def test_group_without_a_change_is_performed_once(tmp_path: Path, gate_plans: Mapping[str, Plan]) -> None:
    progresses = together(list(SILENT), gate_plans, tmp_path)

    assert [(row.outcome, row.shared) for row in progresses.values()] == [("survived", 1)] * 2


@pytest.mark.slow
def test_mutant_gives_the_same_digests_where_it_is_not_reached(tmp_path: Path, gate_plans: Mapping[str, Plan]) -> None:
    """Runs that never execute the edited statement are skipped; that is sound only if they cannot differ."""
    chosen = {name: gate_plans[name] for name in (SERVES, FAST, "corpus/kip112-leader", "plans/mutants/kip-343-copy")}
    bench = Bench(1, chosen, say=lambda words: None, ledger=tmp_path)
    with bench.open():
        bench.baseline(list(chosen))
        gate = Gate(list(chosen), bench.folder)
        skipped = {m: sorted(set(chosen) - {SERVES} - set(gate.progress(m).left)) for m in drawn()[::15]}
        rows = [row for m, names in skipped.items() if names for row in bench.performed([m], names, gate)]

    assert len(rows) == sum(map(len, skipped.values())) > 5
    assert [row for row in rows if row.differs] == []


def test_gate_is_the_one_of_the_makefile(gate_plans: Mapping[str, Plan]) -> None:
    seeds = [name for name in gate_plans if name.startswith("seeds/")]

    assert f"SEEDS ?= {SEEDS}\n" in (TREE / "Makefile").read_text(encoding="utf-8")
    assert len(seeds) == SEEDS
    assert gate_plans[seeds[0]].seed == FIRST
    assert {plan.protocol for plan in gate_plans.values()} == {"safe"}


def test_mutant_that_does_not_serve_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "M-2.jsonl").write_bytes(b'{"run":"serves","differs":true,"killed_by":"crash"}\n')

    assert serving([KILLED, DEAD, HANGS], tmp_path, size=2) == [KILLED, HANGS]


@pytest.mark.parametrize(("end", "killer"), [("os.kill(os.getpid(), 9)", None), ("sys.exit('died')", "crash")])
def test_worker_killed_from_outside_is_no_crash(
    tmp_path: Path, gate_plans: Mapping[str, Plan], end: str, killer: str | None
) -> None:
    """A ledger that held such a run would say that the gate noticed a mutant, or that a run is red without one."""
    (tmp_path / "mutation").mkdir()
    (tmp_path / "mutation" / "__init__.py").touch()
    (tmp_path / "mutation" / "worker.py").write_text(f"import os, sys\n{end}\n", encoding="utf-8")
    bench = Bench(1, gate_plans, say=lambda words: None, ledger=tmp_path)
    runs = bench.runs(tmp_path, Order(runs=(Run(name=FAST, plan=gate_plans[FAST]),)), {})

    if killer is None:
        with pytest.raises(MutationError, match="signal 9 ended the worker of corpus/jepsen-2013"):
            next(runs)
    else:
        assert next(runs).killed_by == killer


def test_torn_last_line_of_a_ledger_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "M-1.jsonl").write_bytes(b'{"run":"serves"}\n{"run":"cor')

    assert Gate([SERVES], tmp_path).progress(KILLED).rows == (RunRow(run=SERVES),)


@pytest.mark.parametrize(("left", "known"), [((), True), (("corpus/a",), False)], ids=["reached by no run", "not run yet"])
def test_mutant_that_no_run_reaches_is_a_survivor(left: tuple[str, ...], known: bool) -> None:
    progress = Progress(mutant=drawn()[0], rows=(), left=left, reached=len(left))

    assert (progress.is_known, progress.outcome) == (known, "survived" if known else "undecided")


@pytest.mark.slow
def test_every_edit_of_the_protocol_can_be_measured() -> None:
    """Also what is not in the sample."""
    some = [[row.id for row in rows(name) if row.file.startswith("reference/")][-1] for name in ("by-hand", "kip-343")]
    chosen = [sys.executable, "-m", "mutation", "--gate", *some, "--within", "0"]
    completed = subprocess.run(chosen, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert (completed.returncode, completed.stdout) == (1, "0 killed, 0 survived, 2 undecided\n")
