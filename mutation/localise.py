"""Does the page of a red run name the function that was edited? `python -m mutation --localise N --seed SEED`.

The edits of `reference/` in the register are drawn in an order that the seed gives. Each is made in a copy of the tree, whose
last commit is the tree without it, and then a user's commands follow: `highwater run` on the run that is known to catch it, or on
the first of a few that does, and `highwater report RUN --beside HEAD`. Nothing is read but the text of the page: the function
that answers otherwise. Edits that are red in none of the runs are left out, and those that end in an exception without a page;
both are counted.

    exact   the edited function; of an edit outside of functions (a constant, a field) a function that reads it
    near    one of the two functions through which the named one was called
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from pathlib import Path
from random import Random
from typing import Literal

from msgspec import Struct

from highwater.exit_codes import ExitCode
from highwater.plans.text import plan_to_yaml
from history import store
from mutation.causes import TRIED, caught, is_in_function
from mutation.decisions import names_given
from mutation.gate import plans
from mutation.rows import Row, rows
from mutation.trees import copy_of_the_tree, mutated

_RED = (ExitCode.INVALID, ExitCode.NOT_LIVE)
_PLAN = "localised.yaml"
_SECTION = re.compile(r'<section id="otherwise">(.*?)</section>', re.DOTALL)
_CODE = re.compile(r"<code>([^<]*)</code>")
_SENTENCE = re.compile(r'id="first-call">(.*?)</p>', re.DOTALL)
Hit = Literal["exact", "near", "another", "none", "no page", "not red"]
HITS: tuple[Hit, ...] = ("exact", "near", "another", "none")


class Localised(Struct, frozen=True, kw_only=True):
    """What the page of one edit says. `named`: the function that answers otherwise; `words`: the sentence of the page."""

    row: Row
    run: str = ""
    hit: Hit
    named: str = ""
    words: str = ""


def order_of(seed: int) -> list[Row]:
    """All edits of the protocol in the register, in the order in which this seed draws them."""
    found = [row for row in rows() if row.edit and row.file.startswith("reference/") and not row.gone]
    Random(seed).shuffle(found)
    return found


def measured(count: int, *, seed: int, say: Callable[[str], None]) -> list[Localised]:
    """Draw edits and look at the pages of the red ones, until there are so many pages."""
    run_by_row = {measured_row.row.id: measured_row.run for measured_row in caught()}
    localised_rows: list[Localised] = []
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder)
        copy_of_the_tree(tree)
        _commit(tree)
        for row in order_of(seed):
            if sum(measured_row.hit in HITS for measured_row in localised_rows) >= count:
                break
            localised_rows.append(_localised(tree, row, (run_by_row[row.id],) if row.id in run_by_row else TRIED))
            measured_row = localised_rows[-1]
            say(
                f"{measured_row.hit:<7}  {row.id} {row.aim.at}: {measured_row.words or 'no sentence'} {measured_row.run}".rstrip()
            )
    return localised_rows


def _commit(tree: Path) -> None:
    """Make the tree a repository with one commit."""
    who = ("-c", "user.name=highwater", "-c", "user.email=highwater@localhost")
    for arguments in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "--message", "base")):
        subprocess.run(["git", *arguments], cwd=tree, check=True, capture_output=True)


def _localised(tree: Path, row: Row, runs: Sequence[str]) -> Localised:
    """Make an edit, perform runs until one is red, and read its page."""
    path = tree / row.file
    before = path.read_text(encoding="utf-8")
    with mutated(path, row.applied_to(before)):
        for run in runs:
            with tempfile.TemporaryDirectory(prefix="mutation-store-") as folder:
                (tree / _PLAN).write_text(plan_to_yaml(plans()[run]), encoding="utf-8")
                code = _highwater(tree, "run", "--plan", _PLAN, "--store", folder)
                stored = [manifest.parent for manifest in Path(folder).glob(f"*/*/{store.MANIFEST}")]
                if code == ExitCode.LABORATORY_FAILED or not stored:
                    return Localised(row=row, run=run, hit="no page")
                if code in _RED:
                    _highwater(tree, "report", str(stored[0]), "--beside", "HEAD")
                    page = (stored[0] / store.REPORT).read_text(encoding="utf-8")
                    return judged(row, run, page, tree)
    return Localised(row=row, hit="not red")


def _highwater(tree: Path, *arguments: str) -> int:
    variables = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "highwater", *arguments]
    return subprocess.run(command, cwd=tree, env=variables, capture_output=True, check=False).returncode


def judged(row: Row, run: str, page: str, tree: Path) -> Localised:
    """Whether a page names the edited function. `tree` holds the code that the function is looked up in."""
    sentence = _SENTENCE.search(page)
    words = "" if sentence is None else unescape(re.sub(r"<[^>]*>", "", sentence[1])).strip()
    section = _SECTION.search(page)
    if section is None:
        return Localised(row=row, run=run, hit="none", words=words)
    names = [unescape(name) for name in _CODE.findall(section[1])]
    named = names[-1]
    edited = row.aim.at.removeprefix("reference.")
    if is_in_function(row):
        dotted = [name.replace("/", ".") for name in names]
        hit: Hit = "exact" if dotted[-1] == edited else "near" if edited in dotted[-3:] else "another"
    else:
        hit = "exact" if names_read(tree, named) & {*names_given(row.aim.old)} else "another"
    return Localised(row=row, run=run, hit=hit, named=named, words=words)


def names_read(tree: Path, function: str) -> set[str]:
    """The names and attributes in a function of the protocol, named as a page does: `replica/isr.on_result`."""
    module, _, scope = function.partition(".")
    node: ast.AST = ast.parse((tree / "reference" / f"{module}.py").read_text(encoding="utf-8"))
    for name in scope.split("."):
        inner = (found for found in ast.walk(node) if isinstance(found, ast.FunctionDef | ast.ClassDef) and found.name == name)
        node = next(inner, ast.Pass())
    names = {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}
    return names | {found.attr for found in ast.walk(node) if isinstance(found, ast.Attribute)}


def table(localised_rows: Sequence[Localised], *, seed: int) -> Iterator[str]:
    """Lines of Markdown: what the pages of one draw name."""
    counts = Counter(measured_row.hit for measured_row in localised_rows)
    elsewhere = counts["another"] + counts["none"]
    cells = (
        f"`Random({seed})`",
        len(localised_rows),
        counts["not red"],
        counts["no page"],
        counts["exact"],
        counts["near"],
        elsewhere,
    )
    yield "| draw | edits | not red | no page | exact | near | another or none |"
    yield "|---|---|---|---|---|---|---|"
    yield f"| {' | '.join(map(str, cells))} |"
