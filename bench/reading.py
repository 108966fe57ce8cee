"""`make bench-checkers`: seconds of processor of `highwater check` on large EDN histories, from the command to the verdict.

Each round is a process of its own. The least of the rounds counts, because other jobs of the machine only add to it. The
histories are generated, valid and written as Jepsen writes them; the benchmark fails on any other verdict.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import numpy as np
from msgspec import Struct

from bench.histories import transactions
from highwater.cli.output import say
from highwater.exit_codes import ExitCode
from history import store
from history.foreign import export
from history.foreign.pairing import Paired
from history.foreign.read import steps
from history.foreign.step import UNKNOWN, Call, Pairs, Step
from history.op import OpType

_ROUNDS = 5
_KEYS, _PROCESSES = 8, 10
_POLLED_KEYS, _POLL = 2, 32  # keys of a poll, records of each
_GIGABYTE = 1 << 30


class Subject(Struct, frozen=True, kw_only=True):
    """A history to read and judge. `steps` generates it; `aim`: half of what Jepsen's checker takes on a JVM, in seconds."""

    model: str
    name: str
    steps: Callable[[], list[Step]]
    aim: float


def list_append(count: int) -> list[Step]:
    """The steps of `bench.histories.transactions`, in the order of their times."""
    history = transactions(count)
    return sorted((*_steps(history), *_failed_steps(history)), key=lambda step: step.time or 0)


def _steps(history: Paired) -> Iterator[Step]:
    for call in history.calls:
        yield _asked_step(call)
        if call.end is None or call.result is UNKNOWN:
            yield Step(0, call.process, OpType.INFO, call.f, call.argument, None, call.start + 1)
        else:
            yield Step(0, call.process, OpType.OK, call.f, call.result, None, call.end)


def _failed_steps(history: Paired) -> Iterator[Step]:
    for call in history.failed:
        yield _asked_step(call)
        yield Step(0, call.process, OpType.FAIL, call.f, call.argument, None, call.start + 1)


def _asked_step(call: Call) -> Step:
    return Step(0, call.process, OpType.INVOKE, call.f, call.argument, None, call.start)


def sends_and_polls(lines: int, *, seed: int = 1) -> list[Step]:
    """Ten processes, assigned eight keys, send, poll, and do up to 4 of both in a transaction; in the end they read the rest."""
    draws = np.random.default_rng(seed)
    logs: list[list[int]] = [[] for _ in range(_KEYS)]
    position = [[0] * _KEYS for _ in range(_PROCESSES)]
    steps_told: list[Step] = []
    keys = tuple(range(_KEYS))
    for process in range(_PROCESSES):
        _tell(steps_told, process, "assign", keys, keys)
    while len(steps_told) < lines:
        process = int(draws.integers(_PROCESSES))
        invoked: list[tuple[object, ...]] = []
        answer: list[tuple[object, ...]] = []
        sent: list[tuple[int, int]] = []
        f = ("send", "poll", "txn", "txn")[int(draws.integers(4))]
        micros = draws.integers(0, 2, int(draws.integers(1, 5))).tolist() if f == "txn" else [f == "send"]
        for sends in micros:
            if sends:
                key = int(draws.integers(_KEYS))
                value = len(logs[key]) + sum(1 for sent_key, _ in sent if sent_key == key)
                sent.append((key, value))
                invoked.append(("send", key, value))
                answer.append(("send", key, (2 * value, value)))
            else:
                invoked.append(("poll",))
                answer.append(
                    ("poll", _polled_pairs(logs, position[process], draws.permutation(_KEYS)[:_POLLED_KEYS].tolist(), _POLL))
                )
        for key, value in sent:  # a transaction does not see its own records
            logs[key].append(value)
        _tell(steps_told, process, f, tuple(invoked), tuple(answer))
    for process in range(_PROCESSES):
        other_pairs = _polled_pairs(logs, position[process], list(keys), max(map(len, logs)))
        _tell(steps_told, process, "poll", (("poll",),), (("poll", other_pairs),))
    return steps_told


def _polled_pairs(logs: list[list[int]], position: list[int], keys: list[int], most: int) -> Pairs:
    found = []
    for key in sorted(keys):
        values = logs[key][position[key] : position[key] + most]
        position[key] += len(values)
        if values:
            found.append((key, tuple((2 * value, value) for value in values)))
    return Pairs(found)


def _tell(steps_told: list[Step], process: int, f: str, asked: tuple[object, ...], answer: tuple[object, ...]) -> None:
    for kind, value in ((OpType.INVOKE, asked), (OpType.OK, answer)):
        steps_told.append(Step(0, process, kind, f, value, None, 100_000 * len(steps_told)))


SUBJECTS = (
    Subject(model="list-append", name="100,000 transactions", steps=lambda: list_append(100_000), aim=6.7),
    Subject(model="kafka", name="88,500 lines of sends and polls", steps=lambda: sends_and_polls(88_500), aim=3.5),
)


def write(path: Path, told: list[Step]) -> None:
    """Write a generated history as Jepsen's EDN."""
    store.write_lines(path, export.lines(lambda: told))


def _seconds_of_check(path: Path, model: str) -> float:
    """Seconds of processor of one `highwater check`, imports included. SystemExit if the verdict is not VALID."""
    before = os.times()
    command = [sys.executable, "-m", "highwater", "check", str(path), "--model", model]
    completed = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    after = os.times()
    if completed.returncode != ExitCode.VALID:
        raise SystemExit(f"{path.name}: the generated history is valid, but highwater check said: {completed.stdout.strip()}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def _read(path: Path) -> float:
    start = process_time()
    for _ in steps(path):
        pass
    return process_time() - start


def main() -> None:
    """Generate each history, judge it by `highwater check`, and print the least seconds of processor."""
    parser = argparse.ArgumentParser(prog="bench.reading", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        for subject in SUBJECTS:
            path = Path(folder) / f"{subject.model}.edn"
            write(path, subject.steps())
            size = path.stat().st_size
            read = min(_read(path) for _ in range(rounds))
            whole = min(_seconds_of_check(path, subject.model) for _ in range(rounds))
            say(
                f"{subject.model:<12} {subject.name:<32} {size / 1e6:5.1f} MB: check {whole:5.2f} s of processor "
                f"(aim {subject.aim}), reading {read:5.2f} s, {read * _GIGABYTE / size:4.0f} s a gigabyte"
            )


if __name__ == "__main__":
    main()
