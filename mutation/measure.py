"""Measure which mutants the gate kills: each runs in a copy of the tree, and each run that it performed is a line of its ledger.

    <ledger>/<stamp>/baseline.jsonl   each run of the gate on the unmutated code: digest, and the lines of `reference` it executes
    <ledger>/<stamp>/M-001.jsonl      the runs of a mutant so far

The stamp identifies code and corpus, so a ledger is never continued on other code. A run whose baseline never executes the edited
statement is skipped: until that statement is reached, mutant and original are the same program, so the digest is the same
(`test_mutant_gives_the_same_digests_where_it_is_not_reached`).
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Timer
from time import monotonic
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from highwater.plans.plan import Plan
from mutation.rows import MutationError, Row, texts_with
from mutation.sample import lines_of
from mutation.trees import ROOT, copy_of_the_tree, mutated
from mutation.worker import SERVES, Order, Run, RunRow
from pipeline.stamp import present_stamp

LEDGER = ROOT / "store" / "mutation"
ORDER = Path(__file__).with_name("order.txt")
ROUNDS = (5, 20, 60, 10_000)  # runs of a mutant: all mutants do the first few before any does more
_CHUNK = 25  # runs of the baseline that a worker performs at once

BASELINE = "baseline.jsonl"
T = TypeVar("T")
Outcome = Literal["killed", "survived", "undecided", "does not serve"]


class Progress(Struct, frozen=True, kw_only=True):
    """How far a mutant has come: the runs that it performed, and those that reach its edit and are left."""

    mutant: Row
    rows: tuple[RunRow, ...]
    left: tuple[str, ...]
    reached: int  # runs of the gate that execute the edited statement

    @property
    def outcome(self) -> Outcome:
        """What is known of the mutant."""
        if self.rows and self.rows[0].run == SERVES and self.rows[0].killed_by in ("crash", "hang"):
            return "does not serve"
        if self.kill is not None:
            return "killed"
        return "undecided" if self.left else "survived"

    @property
    def kill(self) -> RunRow | None:
        """The first run that killed the mutant. Runs that it performed with other mutants at the same time may follow it."""
        return next((row for row in self.rows if row.killed_by), None)

    @property
    def is_known(self) -> bool:
        """Whether anything is known of the mutant: it was run, or no run of the gate reaches it."""
        return bool(self.rows) or self.outcome == "survived"

    @property
    def differed(self) -> int:
        """In how many runs the history was not that of the unmutated code."""
        return sum(row.differs for row in self.rows if row.run != SERVES)

    @property
    def unknown(self) -> int:
        """In how many runs the verdict was UNKNOWN."""
        return sum(row.unknown for row in self.rows)

    @property
    def shared(self) -> int:
        """How many runs it performed with other mutants in the tree."""
        return sum(row.shared > 0 for row in self.rows)

    @property
    def performed(self) -> int:
        """How many runs of the gate it performed until one killed it."""
        counted = self.rows if self.kill is None else self.rows[: self.rows.index(self.kill) + 1]
        return sum(row.run != SERVES for row in counted)


def stamp() -> str:
    """Identifies the code and the corpus that a measurement is of."""
    digest = sha256(present_stamp().code.encode())
    for path in sorted((ROOT / "corpus").rglob("*.yaml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Bench:
    """Copies of the tree in which workers perform runs, one at a time in each, and the ledger of what they performed."""

    def __init__(
        self,
        jobs: int,
        plans: Mapping[str, Plan],
        *,
        say: Callable[[str], None],
        ledger: Path = LEDGER,
        within_s: float = float("inf"),
        deadline_s: float = 90.0,
    ) -> None:
        self.stamp = stamp()
        self.folder = ledger / self.stamp
        self._plans = plans
        self._deadline_s = deadline_s  # of a run that takes a second of CPU in the baseline; longer ones have more
        self.jobs = jobs
        self.say = say
        self._end_s = monotonic() + within_s
        self._stop = Event()
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._trees: SimpleQueue[Path] = SimpleQueue()

    @contextmanager
    def open(self) -> Iterator["Bench"]:
        """Make the copies; remove them at the end."""
        with ExitStack() as stack:
            for _ in range(self.jobs):
                tree = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutation-")))
                copy_of_the_tree(tree)
                self._trees.put(tree)
            self.folder.mkdir(parents=True, exist_ok=True)
            yield self

    def forget(self, ids: Sequence[str]) -> None:
        """Delete the ledgers of these mutants."""
        for id_ in ids:
            (self.folder / f"{id_}.jsonl").unlink(missing_ok=True)

    def baseline(self, names: Sequence[str]) -> None:
        """Perform the runs of the unmutated code that the ledger does not hold."""
        path = self.folder / BASELINE
        runs_there = {row.run for row in _rows_in(path)}
        missing = [name for name in names if name not in runs_there]
        chunks = [tuple(missing[n : n + _CHUNK]) for n in range(0, len(missing), _CHUNK)]

        def perform(chunk: tuple[str, ...]) -> None:
            with self._free_tree() as tree:
                runs = tuple(Run(name=name, plan=self._plans[name]) for name in chunk)
                for row in self.runs(tree, Order(runs=runs, reach=True), {}):
                    _append(path, row)
            self.say(f"baseline: {len(_rows_in(path))} runs")

        self.each(perform, chunks)

    @property
    def is_over(self) -> bool:
        """Whether nothing more may begin."""
        return monotonic() >= self._end_s or self._stop.is_set()

    def measure(
        self,
        gate: "Gate",
        mutants: Callable[[], Sequence[Row]],
        *,
        rounds: Sequence[int] = ROUNDS,
    ) -> None:
        """Perform the mutants, a few runs of each before more of any, until all are decided or time is up.

        `mutants` is asked again after each round: mutants of the reserve take the places of those that do not serve.
        """
        for limit in rounds:
            ids_known: set[str] = set()
            while fresh := [m for m in mutants() if m.id not in ids_known]:
                ids_known |= {m.id for m in fresh}
                self.each(partial(self._measure_mutant, gate, limit), fresh)

    def _measure_mutant(self, gate: "Gate", limit: int, mutant: Row) -> None:
        """Perform the next runs of a mutant, until it is killed or the limit is reached."""
        progress = gate.progress(mutant)
        names = [name for name in progress.left if name in gate.baseline][: max(0, limit - progress.performed)]
        if progress.outcome != "undecided" or not names:
            return
        for row in self.performed([mutant], names if progress.rows else [SERVES, *names], gate):
            self.add(mutant, row)
        self.say(words(gate.progress(mutant)))

    def add(self, mutant: Row, row: RunRow) -> None:
        """Add a run to the ledger of a mutant."""
        _append(self.folder / f"{mutant.id}.jsonl", row)

    def performed(
        self, mutants: Sequence[Row], names: Sequence[str], gate: "Gate", until: Literal["killed", "differs"] = "killed"
    ) -> Iterator[RunRow]:
        """Perform these runs with these mutants in one tree, until one is red, or until one differs from the unmutated code."""
        runs = tuple(Run(name=name, plan=self._plans[name], digest=gate.baseline[name].digest) for name in names)
        with self._free_tree() as tree, ExitStack() as stack:
            for file, text in texts_with(mutants).items():
                stack.enter_context(mutated(tree / file, text))
            yield from self.runs(tree, Order(runs=runs, until=until), gate.baseline)

    def each(self, function: Callable[[T], None], arguments: Sequence[T]) -> None:
        """Call a function for each argument, as many at once as there are copies; none is begun when the time is up."""

        def unless_late(argument: T) -> None:
            if not self.is_over:
                function(argument)

        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                for _ in pool.map(unless_late, arguments):
                    pass
            except BaseException:
                self._stop.set()
                for worker in tuple(self._workers):
                    _end(worker)
                raise

    @contextmanager
    def _free_tree(self) -> Iterator[Path]:
        """A copy of the tree that nobody else uses."""
        tree = self._trees.get()
        try:
            yield tree
        finally:
            self._trees.put(tree)

    def runs(self, tree: Path, order: Order, baseline: Mapping[str, RunRow]) -> Iterator[RunRow]:
        """The runs of a worker in a copy of the tree; one that ends or hangs without an answer has killed its mutant."""
        (tree / "order.json").write_bytes(msgspec.json.encode(order))
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
            "POLARS_MAX_THREADS": "1"
        }
        with (tree / "worker.err").open("w+b") as errors:
            command = [sys.executable, "-m", "mutation.worker", "order.json"]
            with subprocess.Popen(
                command, cwd=tree, env=env, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            ) as worker:
                self._workers.add(worker)
                try:
                    for name in (run.name for run in order.runs):
                        row = self._answer(worker, name, baseline.get(name))
                        if self._stop.is_set():
                            return
                        if row is None:
                            if worker.wait() < 0:  # not by `_end`: it says nothing of the mutant
                                raise MutationError(
                                    f"signal {-worker.returncode} ended the worker of {name}; the run is not stored"
                                )
                            errors.seek(0)
                            last = (errors.read().decode(errors="replace").strip().splitlines() or ["no answer"])[-1]
                            row = RunRow(run=name, differs=True, killed_by="crash", words=last[:300])
                        yield row
                        if order.is_last(row):
                            return
                finally:
                    _end(worker)
                    self._workers.discard(worker)

    def _answer(self, worker: "subprocess.Popen[bytes]", name: str, base: RunRow | None) -> RunRow | None:
        """The next line of a worker; None if it has died."""
        is_cancelled = Event()

        def end() -> None:
            is_cancelled.set()
            _end(worker)

        seconds = self._deadline_s * max(1.0, base.cpu_seconds if base is not None else 10.0)
        watch = Timer(seconds, end)
        watch.start()
        assert worker.stdout is not None
        try:
            line = worker.stdout.readline()
        finally:
            watch.cancel()
        if is_cancelled.is_set():
            return RunRow(run=name, differs=True, killed_by="hang", words=f"not ready after {seconds:.0f} s")
        return msgspec.json.decode(line, type=RunRow) if line.endswith(b"\n") else None


def _end(worker: "subprocess.Popen[bytes]") -> None:
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)


class Gate:
    """The runs of the gate on the unmutated code, as far as a ledger holds them, and what they say about mutants."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        names_known = set(names)
        self.baseline: Mapping[str, RunRow] = {row.run: row for row in _rows_in(folder / BASELINE) if row.run in names_known}
        self.names = [name for name in in_order(names) if name != SERVES]
        self.red = [row for row in self.baseline.values() if row.killed_by]  # without a mutation
        self._folder = folder

    def progress(self, mutant: Row) -> Progress:
        """How far a mutant has come. A run whose baseline is not known yet counts as left."""
        rows = tuple(_rows_in(self._folder / f"{mutant.id}.jsonl"))
        done = {row.run for row in rows}
        edited = lines_of(mutant, (ROOT / mutant.file).read_text(encoding="utf-8"))
        reached = [name for name in self.names if self._may_reach(name, mutant.file, edited)]
        return Progress(mutant=mutant, rows=rows, left=tuple(n for n in reached if n not in done), reached=len(reached))

    def _may_reach(self, name: str, file: str, edited: list[tuple[int, int]] | None) -> bool:
        """Whether the run executes the edited lines, as far as that is known."""
        row = self.baseline.get(name)
        if row is None:
            return True
        if row.killed_by:
            return False  # the gate is red without a mutation
        lines = row.lines.get(file, ())
        return edited is None or any(first <= line <= last for first, last in edited for line in lines)

    def most_reaching(self) -> list[str]:
        """An order of runs: the next one executes the most lines, for its events, that no earlier one did."""
        lines_left = {
            name: {(file, n) for file, lines in row.lines.items() for n in lines} for name, row in self.baseline.items()
        }
        lines_left.pop(SERVES, None)
        chosen: list[str] = []
        while lines_left:
            name = max(lines_left, key=lambda name: (len(lines_left[name]) / (1000 + self.baseline[name].events), name))
            lines_reached = lines_left.pop(name)
            if not lines_reached:
                break
            chosen.append(name)
            for lines in lines_left.values():
                lines -= lines_reached
        return chosen


def in_order(names: Sequence[str]) -> list[str]:
    """The run without faults, stored plans that reach much, the seeds, the other plans, most of which aim at one switch."""
    first = ORDER.read_text(encoding="utf-8").split() if ORDER.is_file() else []
    seeds = [name for name in names if name.startswith("seeds/")]
    names_in_order = [SERVES, *first[:18], *seeds[:16], *first, *seeds, *names]
    return [name for name in dict.fromkeys(names_in_order) if name in set(names)]


def serving(mutants: Sequence[Row], folder: Path, size: int) -> list[Row]:
    """The first `size` of these mutants that are not known to not serve."""
    return [m for m in mutants if not _is_dead(folder / f"{m.id}.jsonl")][:size]


def _is_dead(path: Path) -> bool:
    first = next(iter(_rows_in(path)), None)
    return first is not None and first.run == SERVES and first.killed_by in ("crash", "hang")


def words(progress: Progress) -> str:
    """One line about a mutant."""
    where = f"{progress.mutant.id} {progress.mutant.aim.at} {progress.mutant.text}"
    if progress.outcome == "killed" and progress.kill is not None:
        return f"{where}: killed by {progress.kill.killed_by} in {progress.kill.run}, run {progress.performed}"
    numbers = f"{progress.differed} differ, {progress.unknown} are UNKNOWN"
    return f"{where}: {progress.outcome} after {progress.performed} of {progress.reached} runs, {numbers}"


def _append(path: Path, row: RunRow) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.encode(row) + b"\n")


def _rows_in(path: Path) -> list[RunRow]:
    """The whole rows of a ledger; a line that was cut is left out."""
    if not path.is_file():
        return []
    return [
        msgspec.json.decode(line, type=RunRow) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")
    ]
