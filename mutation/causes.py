"""Does the cause of a run name the mistake? For each caught edit of the register, whose row does its cause begin with.

An edit is caught if a run is INVALID or not live under it: the plan of a mistake that a reader made up, the run of the gate that
killed a drawn mutant. The run is performed in a copy of the tree with the edit and its history judged here. The cause
(`checkers.causes`) begins with a row, and that row is one in which the edited function decided, or not (mutation/decisions.py).

    store/causes/<id>/   history and steps of the run, kept until code, plan or edit change

A function that runs in every step would always be hit. So each edit has its chance, too: the share of all rows of its run in
which the function decided, which a row drawn blindly would hit.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from random import Random

import msgspec
from msgspec import Struct

from checkers.causes.cause import cause_of
from checkers.causes.signature import signature
from checkers.judge import judge
from highwater.plans.plan import Plan, plan_digest
from history import store
from mutation.decisions import HISTORY, TOLD, Order, Relation, Watched, decisions, names_given
from mutation.gate import plans
from mutation.page import load_results
from mutation.rows import BY_HAND, DRAWN, Row, clauses, rows
from mutation.trees import ROOT, copy_of_the_tree, mutated

LEDGER = ROOT / "store" / "causes"
_SIMULATED = ("reference", "history", "nemesis", "workloads", "highwater/rig", "highwater/backends/sim", "highwater/plans")
_KEY = "key"
_HELD_OUT = 8  # seed of the sample; the edits of seed 7 were looked at
TRIED = ("plans/mutants/isr-eager", "corpus/elr-joined-short", "plans/mutants/rollback-unclean", "plans/steps/dirs-fail-alone")
_DEADLINE_S = 600.0
_PAGE = ROOT / "docs" / "evidence.md"
_BEGIN, _END = "<!-- causes -->", "<!-- end of causes -->"


class Caught(Struct, frozen=True, kw_only=True):
    """An edit, and the run of the gate that is red under it."""

    row: Row
    run: str


class Judged(Struct, frozen=True, kw_only=True):
    """The cause of one edit. `first`: how its first row relates to the edited function; `step`: how the row that did it does."""

    id: str
    at: str
    run: str
    checker: str = ""
    kind: str = ""
    name: str = ""  # of the cause
    first: Relation | None = None
    step: Relation | None = None
    rows: tuple[int, ...] = ()  # told by the cause
    chance: float = 0.0
    words: str = ""  # the cause, or why there is none

    @property
    def is_hit(self) -> bool:
        """Whether the first row of the cause is a row in which the edited function decided."""
        return self.first is not None


def caught(ids: Sequence[str] = ()) -> tuple[Caught, ...]:
    """The edits of the register that a run catches, of these ids; all if there is none."""
    killed = {found.id: found.run for found in load_results() if found.outcome == "killed"}
    named = [(row, f"plans/{row.plan}") for row in rows(BY_HAND) if row.plan]
    named += [(row, killed[row.id]) for row in rows(DRAWN) if row.id in killed and not row.gone]
    return tuple(Caught(row=row, run=run) for row, run in named if not ids or row.id in ids)


# --- performing -----------------------------------------------------------------------------------------------------------------


@cache
def _code() -> str:
    """Identifies the code that gives a history, and the code that watches it."""
    files = [path for folder in _SIMULATED for path in sorted((ROOT / folder).rglob("*.py"))]
    digest = sha256()
    for path in [*files, ROOT / "mutation" / "decisions.py"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _key(one: Caught, plan: Plan) -> str:
    return f"{_code()[:16]} {plan_digest(plan)[:16]} {one.row.digest}"


def perform(chosen: Sequence[Caught], of_gate: Mapping[str, Plan], *, jobs: int, say: Callable[[str], None]) -> None:
    """Perform the runs that the ledger does not hold, each in a copy of the tree with its edit."""
    missing = [
        caught_mutant for caught_mutant in chosen if _held(caught_mutant) != _key(caught_mutant, of_gate[caught_mutant.run])
    ]
    if not missing:
        return
    with ExitStack() as stack:
        trees: SimpleQueue[Path] = SimpleQueue()
        for _ in range(min(jobs, len(missing))):
            tree = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutation-")))
            copy_of_the_tree(tree)
            trees.put(tree)

        def do(caught_mutant: Caught) -> None:
            tree = trees.get()
            try:
                _perform(tree, caught_mutant, of_gate[caught_mutant.run])
            finally:
                trees.put(tree)

        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        for n, _ in enumerate(pool.map(do, missing), 1):
            if n % 20 == 0 or n == len(missing):
                say(f"performed {n} of {len(missing)} runs")


def _held(one: Caught) -> str:
    path = LEDGER / one.row.id / _KEY
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _perform(tree: Path, caught_mutant: Caught, plan: Plan) -> None:
    row = caught_mutant.row
    folder = LEDGER / caught_mutant.row.id
    folder.mkdir(parents=True, exist_ok=True)
    for name in (_KEY, HISTORY, TOLD):
        (folder / name).unlink(missing_ok=True)
    names = () if is_in_function(row) else names_given(row.aim.old)
    order = Order(plan=plan, file=row.file, scope=row.aim.scope, names=names, folder=str(folder))
    (tree / "order.json").write_bytes(msgspec.json.encode(order))
    path = tree / row.file
    with mutated(path, row.applied_to(path.read_text(encoding="utf-8"))):
        command = [sys.executable, "-m", "mutation.decisions", "order.json"]
        try:
            done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
        except subprocess.TimeoutExpired:
            (folder / TOLD).write_bytes(msgspec.msgpack.encode(Watched(crash="it does not end")))
        else:
            if done.returncode != 0:
                last = (done.stderr.strip().splitlines() or ["no words"])[-1]
                (folder / TOLD).write_bytes(msgspec.msgpack.encode(Watched(crash=last)))
    (folder / _KEY).write_text(_key(caught_mutant, plan), encoding="utf-8")


def is_in_function(row: Row) -> bool:
    """Whether an edit changes a function, and not a constant or a field."""
    return row.aim.scope.rpartition(".")[2][:1].islower() or row.aim.scope.rpartition(".")[2].startswith("_")


# --- judging --------------------------------------------------------------------------------------------------------------------


def judged(caught_mutant: Caught) -> Judged:
    """Judge the history of an edit and ask which row its cause begins with."""
    folder = LEDGER / caught_mutant.row.id
    watched = msgspec.msgpack.decode((folder / TOLD).read_bytes(), type=Watched)
    found = Judged(id=caught_mutant.row.id, at=caught_mutant.row.aim.at, run=caught_mutant.run)
    if watched.crash:
        return msgspec.structs.replace(found, words=f"crash: {watched.crash}")
    history = store.load(folder / HISTORY)
    verdict = judge(history)
    cause, sign = cause_of(history, verdict), signature(history, verdict)
    if cause is None or sign is None:
        return msgspec.structs.replace(found, words=watched.failure or "the run is not red")
    decided = decisions(watched)
    touched = {*decided.here, *decided.asked, *decided.answered}
    return msgspec.structs.replace(
        found,
        checker=sign.checker if cause.anomaly is None else cause.anomaly.checker,
        kind="not-live" if cause.anomaly is None else cause.anomaly.kind,
        name=cause.name,
        first=decided.relation(cause.rows[0]) if cause.rows else None,
        step=None if cause.step is None else decided.relation(cause.step),
        rows=cause.rows,
        chance=len(touched) / max(1, len(watched.steps)),
        words=cause.sentence,
    )


def held_out(count: int, *, jobs: int, say: Callable[[str], None]) -> tuple[Judged, ...]:
    """The causes of edits by which the rules of `checkers.causes` were not made: of that many clauses, drawn by a fixed seed.

    A clause names tests and no run, so its edit is tried with a few runs until one is red; edits that none catches are left out.
    """
    left = [row for row in clauses() if row.file.startswith("reference/") and row.tests]
    Random(_HELD_OUT).shuffle(left)
    left, judged_mutants = left[:count], list[Judged]()
    for run in TRIED:
        chosen = [Caught(row=row, run=run) for row in left]
        perform(chosen, plans(), jobs=jobs, say=say)
        red = [judged_mutant for judged_mutant in _judge(chosen, jobs) if judged_mutant.checker]
        judged_mutants += red
        left = [row for row in left if row.id not in {judged_mutant.id for judged_mutant in red}]
    return tuple(judged_mutants)


def _judge(chosen: Sequence[Caught], jobs: int) -> list[Judged]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(judged, chosen, chunksize=4))


def measured(ids: Sequence[str], *, jobs: int, say: Callable[[str], None]) -> tuple[Judged, ...]:
    """The causes of the caught edits, in the order of the register."""
    chosen = caught(ids)
    perform(chosen, plans(), jobs=jobs, say=say)
    return tuple(_judge(chosen, jobs))


# --- telling --------------------------------------------------------------------------------------------------------------------


def table(judged_mutants: Iterable[Judged]) -> Iterator[str]:
    """Lines of Markdown: for each checker how many causes begin with a row in which the edited function decided."""
    with_cause = [judged_mutant for judged_mutant in judged_mutants if judged_mutant.checker]
    yield "| checker | edits | in its row | asked for it | on it | another row | no row |"
    yield "|---|---|---|---|---|---|---|"
    for checker in [*sorted({judged_mutant.checker for judged_mutant in with_cause}), ""]:
        caught = [judged_mutant for judged_mutant in with_cause if checker in (judged_mutant.checker, "")]
        seen = Counter(judged_mutant.first for judged_mutant in caught)
        empty = sum(not judged_mutant.rows for judged_mutant in caught)
        cells = (len(caught), seen["here"], seen["asked"], seen["answered"], seen[None] - empty, empty)
        yield f"| {checker or '**all**'} | {' | '.join(map(str, cells))} |"


def summary(judged_mutants: Sequence[Judged]) -> str:
    """The figure in one sentence."""
    causes = [judged_mutant for judged_mutant in judged_mutants if judged_mutant.checker]
    hits = sum(judged_mutant.is_hit for judged_mutant in causes)
    chance = sum(judged_mutant.chance for judged_mutant in causes) / max(1, len(causes))
    share = 100 * hits // max(1, len(causes))
    none = len(judged_mutants) - len(causes)
    return (
        f"{hits} of {len(causes)} causes ({share} %) begin with a row in which the edited function decided; "
        f"a row drawn blindly would in {100 * chance:.0f} %; {none} of {len(judged_mutants)} edits have no cause"
    )


def missed(judged_mutants: Iterable[Judged]) -> Iterator[str]:
    """A line for each cause that does not begin with a row of the edited function, and for each edit without a cause."""
    for mutant in judged_mutants:
        if not mutant.checker:
            yield f"{mutant.id} {mutant.at}: no cause: {mutant.words}"
        elif not mutant.is_hit:
            first = mutant.rows[0] if mutant.rows else "none"
            cause = f"{mutant.checker}/{mutant.kind} begins with row {first}"
            yield f"{mutant.id} {mutant.at} in {mutant.run}: {cause}: {mutant.words}"


def tell(judged_mutants: Sequence[Judged], others: Sequence[Judged], *, say: Callable[[str], None], write: bool) -> None:
    """Print the table, the misses and the figures; with `write` put table and figures into docs/evidence.md.

    `others`: edits by which the rules were not made; none were measured if it is empty.
    """
    figures = [f"{summary(judged_mutants)}."]
    if others:
        figures.append(f"Of clauses that were not looked at when the rules were written: {summary(others)}.")
    for line in (*table(judged_mutants), *missed(judged_mutants), *missed(others), *figures):
        say(line)
    if write:
        before, _, rest = _PAGE.read_text(encoding="utf-8").partition(f"{_BEGIN}\n")
        text = "\n".join([_BEGIN, "", *table(judged_mutants), "", *figures, "", _END])
        _PAGE.write_text(f"{before}{text}{rest.partition(_END)[2]}", encoding="utf-8")
