"""`make bench-checkers`: time and memory of judging large histories, as medians over rounds.

Each round is a process of its own, so it measures its own peak of memory, and only the file cache is warm. Seconds are printed
twice: of the processor, on which other jobs of the machine have little influence, and of the wall clock. Generating a history is
not counted; reading it from a file is. Every history is VALID, and the benchmark fails on any other verdict. Those of busy
clients are impossible, and it fails if one is VALID.
"""

import argparse
import gc
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import msgspec
from msgspec import Struct

from bench.histories import busy_calls, log_calls, transactions, with_unread_appends, write_log
from bench.plot import Series, plot
from checkers.clients import committed_offsets, duplicates, order, polls
from checkers.durability import acked_loss, offset_agreement
from checkers.elle.judge import judge as judge_transactions
from checkers.engine.verdict import Validity
from checkers.judge import judge as judge_run
from checkers.linearizability.collections import PartitionLog
from checkers.linearizability.judge import judge
from checkers.linearizability.registers import CasRegister
from highwater.cli.output import say
from highwater.foreign.files import ModelChoice, judge_file
from highwater.runs.memory import peak_mib
from history import store

_ROUNDS = 3
_CORPORA = Path("../shared/corpora")
_LOG_CHECKERS = (
    acked_loss.CHECKER,
    offset_agreement.CHECKER,
    order.CHECKER,
    duplicates.CHECKER,
    polls.CHECKER,
    committed_offsets.CHECKER,
)
_FOLDERS = (
    ("porcupine-kv", "kv"),
    ("porcupine-etcd", "cas-register"),
    ("knossos/cas-register", "cas-register"),
    ("knossos/multi-register", "multi-register"),
)
_BUSY = (10, 20, 30)  # clients
_BUSY_SEEDS = 20
_ONE = "--one"


class Measured(Struct, frozen=True, kw_only=True):
    """The cost of judging one history: CPU seconds, wall-clock seconds, and the peak memory of the judging process."""

    processor: float
    clock: float
    peak_mb: int


class Subject(Struct, frozen=True, kw_only=True):
    """A judge to measure. `prepare` makes a history of a given size and returns a function that judges it: True if VALID."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    prepare: Callable[[int, Path], Callable[[], bool]]


def _log_checkers(size: int, folder: Path) -> Callable[[], bool]:
    run = folder / str(size)
    return lambda: judge_run(store.load_run(run), _LOG_CHECKERS).validity is Validity.VALID


def _partition_log(size: int, folder: Path) -> Callable[[], bool]:
    calls = log_calls(size)
    return lambda: judge(PartitionLog(), calls).validity is Validity.VALID


def _list_append(size: int, folder: Path) -> Callable[[], bool]:
    history = transactions(size)
    return lambda: judge_transactions("list-append", history).validity is Validity.VALID


def _unread_appends(size: int, folder: Path) -> Callable[[], bool]:
    history = with_unread_appends(transactions(size))
    return lambda: judge_transactions("list-append", history, ("snapshot-isolation",)).validity is Validity.VALID


_MILLION = 1_000_000
SUBJECTS = (
    Subject(
        name="log checkers", unit="rows, from Parquet", sizes=(10_000, 100_000, _MILLION, 10 * _MILLION), prepare=_log_checkers
    ),
    Subject(name="partition-log", unit="calls", sizes=(10_000, 100_000, _MILLION), prepare=_partition_log),
    Subject(name="list-append", unit="transactions", sizes=(10_000, 100_000, _MILLION), prepare=_list_append),
    Subject(name="unread appends", unit="transactions", sizes=(10_000, 100_000, _MILLION), prepare=_unread_appends),
)


def _round(subject: Subject, size: int, folder: Path) -> Measured:
    """Generate and judge one history in this process. Raises SystemExit if the verdict is not VALID."""
    work = subject.prepare(size, folder)
    gc.collect()
    gc.freeze()  # the collector need not walk the generated history
    clock, processor = perf_counter(), process_time()
    good = work()
    found = Measured(processor=process_time() - processor, clock=perf_counter() - clock, peak_mb=peak_mib())
    if not good:
        raise SystemExit(f"{subject.name}, size {size}: the generated history is valid, but the checkers' verdict is not VALID")
    return found


def _median(subject: Subject, size: int, folder: Path, rounds: int) -> Measured:
    """The medians over rounds, each in a process of its own."""
    command = [sys.executable, "-m", "bench.checkers", _ONE, subject.name, str(size), str(folder)]
    found = [
        msgspec.json.decode(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, type=Measured)
        for _ in range(rounds)
    ]
    return Measured(
        processor=median(measurement.processor for measurement in found),
        clock=median(measurement.clock for measurement in found),
        peak_mb=round(median(measurement.peak_mb for measurement in found)),
    )


def _corpora(folder: Path, rounds: int) -> None:
    """Judge whole folders of published histories in one process and print the times; imports are not counted."""
    for name, model in _FOLDERS:
        files = sorted(path for path in (folder / name).rglob("*") if path.suffix in (".txt", ".log", ".edn"))
        took = []
        for _ in range(rounds):
            for path in files:
                start, clock = process_time(), perf_counter()
                judge_file(path, ModelChoice(model=model))
                took.append((path.name, process_time() - start, perf_counter() - clock))
        each = {path: median(p for _, p, _ in group) for path, group in groupby(sorted(took), key=lambda row: row[0])}
        whole = median(sum(p for _, p, _ in took[at : at + len(files)]) for at in range(0, len(took), len(files)))
        slowest = max(each, key=each.__getitem__)
        say(f"{name:<24} {len(files):>4} files {whole:7.2f} s of processor, the slowest {slowest} {each[slowest]:.2f} s")


def _impossible_calls() -> None:
    """Judge busy histories that have no order: a search must try all orders, unless a short part of the history has none."""
    for clients in _BUSY:
        took, undecided = [], 0
        for seed in range(_BUSY_SEEDS):
            calls = busy_calls(clients, 400, seed=seed, impossible=True)
            start = process_time()
            found = judge(CasRegister(), calls).validity
            took.append(process_time() - start)
            undecided += found is Validity.UNKNOWN
            if found is Validity.VALID:
                raise SystemExit(f"{clients} clients, seed {seed}: a value was read that nobody wrote, and that is VALID")
        words = f"{median(took):7.2f} s of processor, the slowest {max(took):7.2f} s, {undecided} of {len(took)} undecided"
        say(f"400 calls of {clients} busy clients, impossible: {words}")


def main() -> None:
    """Measure every judge on histories of growing size and print a table; `--plot` also writes an SVG."""
    parser = argparse.ArgumentParser(prog="bench.checkers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--largest", type=int, default=10 * _MILLION, help="leave out histories that are larger")
    parser.add_argument("--plot", type=Path, help="write processor time over size as SVG")
    parser.add_argument("--corpora", type=Path, default=_CORPORA, help="folder of published histories; left out if absent")
    parser.add_argument(_ONE, nargs=3, metavar=("NAME", "SIZE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, size, folder = arguments.one
        subject = next(subject_named for subject_named in SUBJECTS if subject_named.name == name)
        sys.stdout.buffer.write(msgspec.json.encode(_round(subject, int(size), Path(folder))))
        return
    series = []
    with tempfile.TemporaryDirectory() as folder:
        for subject in SUBJECTS:
            points = []
            for size in (size for size in subject.sizes if size <= arguments.largest):
                if subject.prepare is _log_checkers:
                    write_log(Path(folder) / str(size), size)
                found = _median(subject, size, Path(folder), arguments.rounds)
                points.append((size, found.processor))
                rate = f"{size / found.processor / 1e6:5.2f} M/s"
                say(
                    f"{subject.name:<14} {size:>11,} {subject.unit:<20} {found.processor:7.2f} s of processor "
                    f"{found.clock:7.2f} s {found.peak_mb:>6,} MB {rate}"
                )
            series.append(Series(name=f"{subject.name}: {subject.unit}", points=tuple(points)))
    if arguments.plot:
        store.write_file(arguments.plot, plot(series))
    _impossible_calls()
    if arguments.corpora.is_dir():
        _corpora(arguments.corpora, arguments.rounds)


if __name__ == "__main__":
    main()
