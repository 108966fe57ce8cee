"""Proves clauses of the documents by mutation: break the code of a clause on purpose, and see its tests fail.

    python -m tests.clauses [ID ...] [--again] [--jobs N] [--deadline S] [--within S] [--check]

It takes the clauses whose mutation, file or tests changed since they were proved (`--again`: all of them), or only those with one
of the ids (R-308 chooses R-308.1 too), each in a copy of the tree. A verdict is one of

    proved           each test of the clause fails under the mutation and passes without it, and the mutant still serves
    survived         a test of the clause passes under the mutation
    does not apply   the old text is not in the file exactly once
    does not serve   the mutant cannot be imported, or a single broker serves no produce and fetch: this proves nothing
    hangs            the tests ran into the deadline

`--within S`: begin no clause after S seconds and say which are left. Proofs go to highwater/catalogue/proofs.json and into the
tables of docs/requirements.md; with `--check` they do not.
The exit code is 0 if every clause that was tried is proved, 1 if one is not, 2 if the arguments are wrong.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from time import monotonic

from highwater.catalogue.clauses import Clause, Proof, clauses, proofs, store
from mutation.trees import ROOT, copy_of_the_tree, mutated
from tests.tidy.protocol import rewrite

SERVES = "tests/reference/test_serving.py"
_RED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)


@cache
def _digest(name: str) -> str:
    path = ROOT / name
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def present_proof(row: Clause) -> Proof:
    """The proof of a clause as it would be stored now: for its mutation, its file and the files of its tests as they are."""
    files = sorted({row.file, *(test.partition("::")[0] for test in row.tests)})
    return Proof(row.mutant, sha256("".join(map(_digest, files)).encode()).hexdigest()[:16])


def to_prove(ids: Sequence[str], *, again: bool) -> tuple[Clause, ...]:
    """The clauses with a mutation that must be proved, of these ids (all if there is none)."""
    named = [row for row in clauses() if row.file and (not ids or row.id in ids or row.statement in ids)]
    return tuple(row for row in named if again or proofs().get(row.id) != present_proof(row))


def red(tree: Path, tests: tuple[str, ...], deadline_s: float) -> set[str]:
    """The tests that fail in this tree, by id without parameters. Raises TimeoutError at the deadline."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *tests]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tree, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as run:
        try:
            out, err = run.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            raise TimeoutError from None
    found = set(_RED.findall(out))
    if run.returncode != 0 and not found:
        found = {SERVES}  # pytest could not even begin
        sys.stderr.write(out + err)
    return found


def verdict(tree: Path, row: Clause, deadline_s: float) -> str:
    """Apply the mutation of a clause to this tree, run its tests, undo the mutation."""
    path = tree / row.file
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    if before.count(row.old) != 1:
        return "does not apply"
    try:
        with mutated(path, before.replace(row.old, row.new)):
            failed = red(tree, (SERVES, *row.tests), deadline_s)
    except TimeoutError:
        return "hangs"
    if any(test.startswith(SERVES) or "::" not in test for test in failed):
        return "does not serve"
    green = [test for test in row.tests if test not in failed]
    return "proved" if not green else f"survived: {', '.join(green)}"


def verdicts(rows: Sequence[Clause], *, jobs: int, deadline_s: float, within_s: float) -> Iterator[tuple[Clause, str]]:
    """Each clause with its verdict, as they come; `left out` if it was not begun in time."""
    ends = monotonic() + within_s
    stop = Event()
    with ExitStack() as stack:
        trees: SimpleQueue[Path] = SimpleQueue()
        for _ in range(jobs):
            tree = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clauses-")))
            copy_of_the_tree(tree)
            trees.put(tree)

        def judge(row: Clause) -> str:
            if stop.is_set() or monotonic() > ends:
                return "left out"
            tree = trees.get()
            try:
                return verdict(tree, row, deadline_s)
            finally:
                trees.put(tree)

        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        stack.callback(stop.set)
        waiting = {pool.submit(judge, row): row for row in rows}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def red_without_mutation(rows: Sequence[Clause], deadline_s: float) -> set[str]:
    """The tests of these clauses that fail already without a mutation."""
    tests = tuple(sorted({SERVES, *(test for row in rows for test in row.tests)}))
    with tempfile.TemporaryDirectory(prefix="clauses-") as folder:
        copy_of_the_tree(Path(folder))
        return red(Path(folder), tests, deadline_s)


def main() -> int:
    """Print a verdict for each clause that is tried, and store the proofs."""
    asked = _arguments()
    rows = to_prove(asked.ids, again=asked.again)
    try:
        red_before = red_without_mutation(rows, asked.deadline * 10) if rows else set()
    except TimeoutError:
        _say("the tests run into the deadline without a mutation")
        return 1
    known = {row.id for row in clauses() if row.file}
    tried, left = 0, []
    proved = {id_: proof for id_, proof in proofs().items() if id_ in known}
    try:
        for row, found in verdicts(rows, jobs=asked.jobs, deadline_s=asked.deadline, within_s=asked.within):
            if found == "left out":
                left.append(row.id)
                continue
            tried += 1
            proved.pop(row.id, None)
            if found == "proved" and red_before.intersection(row.tests):
                found = "red without a mutation"
            if found == "proved":
                proved[row.id] = present_proof(row)
            _say(f"{row.id:10} {found}")
    finally:
        if not asked.check:
            store(proved)
    if not asked.check:
        rewrite()
    good = sum(proved.get(row.id) == present_proof(row) for row in rows)
    _say(f"{good} of {tried} clauses proved; of {len(known)} with a mutation {len(proved)} are proved")
    if left:
        _say(f"not tried within {asked.within:g} s: {' '.join(left)}")
    return 0 if good == tried else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.clauses", description="Prove clauses by mutation.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="R-024 or R-024.1; all clauses if there is none")
    parser.add_argument("--again", action="store_true", help="also clauses that were proved and did not change")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="copies of the tree at work at once")
    parser.add_argument("--deadline", type=float, default=60.0, metavar="S", help="seconds for the tests of one clause")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="S", help="begin no clause after S seconds")
    parser.add_argument("--check", action="store_true", help="store nothing")
    asked = parser.parse_args()
    known = {id_ for row in clauses() for id_ in (row.id, row.statement)}
    if strange := [id_ for id_ in asked.ids if id_ not in known]:
        parser.error(f"no clause has the id {', '.join(strange)}")
    if asked.jobs < 1:
        parser.error("--jobs must be at least 1")
    return asked


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
