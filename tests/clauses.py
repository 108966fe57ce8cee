"""Proves clauses of the documents by mutation: break the code of a clause on purpose, and see its tests fail.

`python -m tests.clauses [--deadline S] [ID ...]` takes the rows of highwater/catalogue/clauses.yaml one after the other, all of
them or those with one of the ids (R-308 chooses R-308.1 too), in a copy of the tree. A verdict is one of

    proved           each cited test fails under the mutation and passes without it, and the mutant still serves
    survived         a cited test passes under the mutation
    does not apply   the old text is not in the file exactly once
    does not serve   the mutant cannot be imported, or a single broker serves no produce and fetch: this proves nothing
    hangs            the tests ran into the deadline

The exit code is 0 if every chosen row is proved, 1 if one is not, 2 if the arguments are wrong.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from msgspec import Struct

from nemesis.text import Document

ROOT = Path(__file__).resolve().parents[1]
CLAUSES = ROOT / "highwater" / "catalogue" / "clauses.yaml"
SERVES = "tests/reference/test_serving.py"
_RED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)


class Clause(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A clause of a statement, and a mutation (`old` -> `new` in `file`) that breaks it and turns each of `tests` red."""

    id: str
    text: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@cache
def clauses() -> tuple[Clause, ...]:
    """The rows of clauses.yaml. Raises TextError with the line of an invalid row."""
    document = Document(CLAUSES.read_text(encoding="utf-8"), CLAUSES.name)
    return document.convert(tuple[Clause, ...], document.value)


def chosen(rows: tuple[Clause, ...], ids: list[str]) -> tuple[Clause, ...]:
    """The rows with one of these ids, or with a clause of one of them; all rows if there is no id."""
    return tuple(row for row in rows if not ids or row.id in ids or row.id.partition(".")[0] in ids)


def copy_of_the_tree(to: Path) -> None:
    """Copy every file of the repository that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)


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


def _write(path: Path, text: str) -> None:
    """Write a module. Its bytecode goes: Python would believe it where size and second of the text are the same."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def verdict(tree: Path, row: Clause, deadline_s: float) -> str:
    """Apply the mutation of a row to this tree, run its tests, undo the mutation."""
    path = tree / row.file
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    if before.count(row.old) != 1:
        return "does not apply"
    _write(path, before.replace(row.old, row.new))
    try:
        failed = red(tree, (SERVES, *row.tests), deadline_s)
    except TimeoutError:
        return "hangs"
    finally:
        _write(path, before)
    if any(test.startswith(SERVES) or "::" not in test for test in failed):
        return "does not serve"
    green = [test for test in row.tests if test not in failed]
    return "proved" if not green else f"survived: {', '.join(green)}"


def main() -> int:
    """Print a verdict for each chosen row."""
    parser = argparse.ArgumentParser(prog="python -m tests.clauses", description="Prove clauses by mutation.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="R-024 or R-024.1; all clauses if there is none")
    parser.add_argument("--deadline", type=float, default=60.0, metavar="S", help="seconds for the tests of one clause")
    arguments = parser.parse_args()
    rows = chosen(clauses(), arguments.ids)
    if not rows:
        parser.error(f"no clause has an id among {', '.join(arguments.ids)}")
    with tempfile.TemporaryDirectory(prefix="clauses-") as folder:
        tree = Path(folder)
        copy_of_the_tree(tree)
        tests = tuple(sorted({SERVES, *(test for row in rows for test in row.tests)}))
        try:
            failed = red(tree, tests, arguments.deadline * len(rows))
        except TimeoutError:
            failed = {"the tests run into the deadline"}
        if failed:
            sys.stdout.write("red without a mutation: " + ", ".join(sorted(failed)) + "\n")
            return 1
        verdicts = []
        for row in rows:
            verdicts.append(verdict(tree, row, arguments.deadline))
            sys.stdout.write(f"{row.id:10} {verdicts[-1]}\n")
            sys.stdout.flush()
    proved = verdicts.count("proved")
    sys.stdout.write(f"{proved} of {len(rows)} clauses proved\n")
    return 0 if proved == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
