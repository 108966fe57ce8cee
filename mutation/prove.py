"""Proofs: apply the edit of a row in a copy of the tree, and see its tests or its plan turn red.

A verdict is one of

    proved           each test fails, or the plan is not VALID and live, under the edit and not without it, and the mutant serves
    survived         a test passes under the edit, or the plan is VALID and live
    does not apply   the edit does not fit the code exactly once
    does not serve   the mutant cannot be imported, or a single broker serves no produce and fetch: this proves nothing
    hangs            the tests or the plan ran into the deadline
    left out         there was no time for it

A row with two edits needs both; what became of the second is told with `second edit: ` before it.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from time import monotonic

from highwater.exit_codes import ExitCode
from mutation.rows import MutationError, Row, plan_of, present_proof, proofs, rows, store_proofs
from mutation.trees import ROOT, copy_of_the_tree, mutated

SERVES = "tests/reference/test_serving.py"
_RED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)


def to_prove(ids: Sequence[str], *, again: bool) -> tuple[Row, ...]:
    """The rows with tests or a plan that must be proved, of these ids (all if there is none)."""
    proofs_known = proofs()
    named = [row for row in rows() if row.edit and (row.tests or row.plan) and (not ids or {row.id, row.statement} & set(ids))]
    return tuple(row for row in named if again or proofs_known.get(row.id) != present_proof(row))


def red(tree: Path, tests: Sequence[str], plans: Sequence[str], deadline_s: float) -> set[str]:
    """The tests and plans that are red in this tree; tests by id without parameters. Raises TimeoutError at the deadline."""
    run, out = run_in(tree, ["pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *tests], deadline_s)
    names = set(_RED.findall(out))
    if run != 0 and not names:
        names = {SERVES}  # pytest could not even begin
        sys.stderr.write(out)
    for plan in plans if SERVES not in names else ():
        run, out = run_in(tree, ["highwater", "run", "--plan", plan, "--protocol", "safe", "--no-store"], deadline_s)
        if run in (ExitCode.INVALID, ExitCode.NOT_LIVE):
            names.add(plan)
        elif run not in (ExitCode.VALID, ExitCode.UNKNOWN):
            raise MutationError(f"{plan} ended with {run}: {out[-300:]}")
    return names


def run_in(tree: Path, command: Sequence[str], deadline_s: float) -> tuple[int, str]:
    """Run a module in a copy of the tree: exit code and output. Raises TimeoutError at the deadline."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPATH": str(tree)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=tree,
        env=env,
        stdout=pipe,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            out, _ = run.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            raise TimeoutError from None
    return run.returncode, out


def verdict(tree: Path, row: Row, deadline_s: float) -> str:
    """The verdict on a row: that on its first edit, or that on its second one if the first is proved."""
    first, *others = row.by_edit
    outcome = _verdict_on_edit(tree, first, deadline_s)
    for other in others if outcome == "proved" else ():
        outcome = _verdict_on_edit(tree, other, deadline_s)
        if outcome != "proved":
            return f"second edit: {outcome}"
    return outcome


def _verdict_on_edit(tree: Path, row: Row, deadline_s: float) -> str:
    """Apply the first edit of a row to this tree, see what is red, undo the edit."""
    path = tree / row.file
    plans = [plan_of(row)] if row.plan else []
    try:
        with mutated(path, row.applied_to(path.read_text(encoding="utf-8") if path.is_file() else "")):
            red_tests = red(tree, (SERVES, *row.tests), plans, deadline_s)
    except MutationError:
        return "does not apply"
    except TimeoutError:
        return "hangs"
    if any(test.startswith(SERVES) or "::" not in test for test in red_tests - set(plans)):
        return "does not serve"
    green = [test for test in (*row.tests, *plans) if test not in red_tests]
    return "proved" if not green else f"survived: {', '.join(green)}"


def verdicts(
    chosen: Sequence[Row],
    *,
    jobs: int,
    deadline_s: float,
    within_s: float,
    judge: Callable[[Path, Row, float], str] = verdict,
) -> Iterator[tuple[Row, str]]:
    """Each row with its verdict, as they come. `judge` finds it in a tree, within a deadline."""
    end_s = monotonic() + within_s
    stop = Event()
    with ExitStack() as stack:
        trees: SimpleQueue[Path] = SimpleQueue()
        for _ in range(jobs):
            tree = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutation-")))
            copy_of_the_tree(tree)
            trees.put(tree)

        def judge_in_a_tree(row: Row) -> str:
            if stop.is_set() or monotonic() > end_s:
                return "left out"
            tree = trees.get()
            try:
                return judge(tree, row, deadline_s)
            finally:
                trees.put(tree)

        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        stack.callback(stop.set)
        waiting = {pool.submit(judge_in_a_tree, row): row for row in chosen}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _red_without_edit(chosen: Sequence[Row], deadline_s: float) -> set[str]:
    """The tests and plans of these rows that are red already without an edit."""
    tests = sorted({SERVES, *(test for row in chosen for test in row.tests)})
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy_of_the_tree(Path(folder))
        return red(Path(folder), tests, sorted({plan_of(row) for row in chosen if row.plan}), deadline_s)


def prove(chosen: Sequence[Row], *, jobs: int, deadline_s: float, within_s: float, check: bool) -> int:
    """Print a verdict for each row, and store the proofs unless they are only checked. 0 if each row that was tried is proved."""
    try:
        red_before = _red_without_edit(chosen, deadline_s * 10) if chosen else set()
    except TimeoutError:
        _say("the tests run into the deadline without an edit")
        return 1
    provable = {row.id for row in rows() if row.edit and (row.tests or row.plan)}
    proved = {id_: proof for id_, proof in proofs().items() if id_ in provable}
    tried, left_out = 0, []
    try:
        for row, outcome in verdicts(chosen, jobs=jobs, deadline_s=deadline_s, within_s=within_s):
            if outcome == "left out":
                left_out.append(row.id)
                continue
            tried += 1
            proved.pop(row.id, None)
            if outcome == "proved" and red_before & {*row.tests, plan_of(row)}:
                outcome = "red without an edit"
            if outcome == "proved":
                proved[row.id] = present_proof(row)
            _say(f"{row.id:10} {outcome}")
    finally:
        if not check:
            store_proofs(proved)
    if not check:  # the tables of docs/requirements.md and README.md, and what `highwater protocol` shows
        subprocess.run([sys.executable, "-m", "tests.tidy.protocol", "--rewrite"], cwd=ROOT, check=True)
    good = sum(proved.get(row.id) == present_proof(row) for row in chosen if row.id not in left_out)
    _say(f"{good} of {tried} rows proved; of {len(provable)} with tests or a plan {len(proved)} are proved")
    if left_out:
        _say(f"not tried within {within_s:g} s: {' '.join(left_out)}")
    return 0 if good == tried else 1


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()
