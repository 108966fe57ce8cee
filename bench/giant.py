"""Histories larger than one process should hold: written part by part, judged part by part, with planted anomalies.

A history has partitions of half a million rows: produces, a consumer beside them, and one that reads everything at the end.
Three brokers, elections, faults and healing are in the events, so that every checker has rows to judge. The writer holds one
partition at a time. Row `n` of partition `p` has an index made of both numbers, so the partitions are interleaved in time.

    python -m bench.giant write FOLDER --rows 10000000 [--planted SEED]
    python -m bench.giant judge FOLDER [--spark local[2]]
"""

import argparse
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
from msgspec import Struct

from bench.histories import PROCESSES, Ints, operations_table, partition_rows
from checkers.engine.verdict import Verdict
from checkers.judge import judge as judge_run
from highwater.cli.output import say
from highwater.runs.memory import peak_mib
from history import schema, store
from history.event import ClusterEvent, EventKind
from history.manifest import Assignment, FaultCount, RunManifest
from history.parts import Part
from history.promise import Promise, TopicPromise
from pipeline import giant
from pipeline.items import Job
from pipeline.ledger import Ledger
from pipeline.session import session
from pipeline.storage import storage_at
from pipeline.work import perform

PARTITION_ROWS = 500_000
_ROWS_OF_RECORD = 4  # sent, acknowledged, read twice
_PARTITIONS_OF_TOPIC = 16
_BROKERS = ("b1", "b2", "b3")
_RUN_NS = 3_600 * 10**9
_POLL = 64
_PLANTED = "planted.json"
_SAMPLE_S = 0.25


class Planted(Struct, frozen=True, kw_only=True):
    """The anomalies that one planted error must cause: their partition, their kinds and an index that all of them witness."""

    key: str
    kinds: tuple[str, ...]
    index: int


class _Clock(NamedTuple):
    """The index of row `turn` of a partition: between two turns of one partition lies one turn of each other one."""

    partitions: int
    load_turns: int  # the first consumer has read everything by then
    turns: int

    def at(self, turn: int, place: int) -> int:
        """The even index of a call; the next odd one is free for an event."""
        return 2 * (turn * (self.partitions + 1) + place)

    @property
    def step_ns(self) -> int:
        return _RUN_NS // self.at(self.turns, 0)

    def time_ns(self, turn: int) -> int:
        return self.at(turn, 0) * self.step_ns


def write(folder: Path, rows: int, *, seed: int = 1, planted: int | None = None) -> tuple[Planted, ...]:
    """Write a history of about `rows` rows; with `planted`, a seed, put every kind of error into three of its partitions."""
    count = max(1, rows // PARTITION_ROWS)
    records = min(rows, PARTITION_ROWS) // _ROWS_OF_RECORD
    names = [(f"topic-{place // _PARTITIONS_OF_TOPIC:03}", place % _PARTITIONS_OF_TOPIC) for place in range(count)]
    clock = _clock(count, records)
    draws = np.random.default_rng(seed)
    errors: list[Planted] = []
    hit = {0, count // 2, count - 1} if planted is not None else set()
    shared = schema.to_table("events", _shared_events(clock))
    stored = [store.save_part(folder, 0, Part((), _operations_of([], clock, 0, names), shared))]
    for place, name in enumerate(names):
        frame = schema.to_frame(_operations_of([partition_rows(draws, place, records, rereads=True)], clock, place, names))
        if place in hit:
            frame, found = _plant(frame, name, np.random.default_rng([planted or 0, place]))
            errors.extend(found)
        operations = frame.to_arrow().cast(schema.arrow_schema("operations"))
        stored.append(store.save_part(folder, place + 1, Part((name,), operations, _events(clock, place, name))))
    store.save_manifest_of_parts(folder, _manifest(names, clock), stored)
    return tuple(errors)


def _clock(partitions: int, records: int) -> _Clock:
    polls = 2 * -(-records // _POLL)
    load = 2 * -(-records // 8) + polls + 2
    return _Clock(partitions, load, load + polls + 2)


def _operations_of(parts: list[dict[str, Ints]], clock: _Clock, place: int, names: list[tuple[str, int]]) -> pa.Table:
    """The rows of one partition under the indices of the whole history."""
    if not parts:
        return schema.to_table("operations", ())
    frame = schema.to_frame(operations_table(parts, names))
    rereader = (place + 1) * PROCESSES - 1
    moved = clock.load_turns - int(frame.filter(pl.col("process") == rereader)["index"].to_numpy()[0])
    turn = pl.col("index") + pl.when(pl.col("index") >= clock.load_turns - moved).then(moved).otherwise(0)
    frame = frame.with_columns(index=2 * (turn * (clock.partitions + 1) + place))
    return frame.with_columns(time_ns=pl.col("index") * clock.step_ns).to_arrow().cast(schema.arrow_schema("operations"))


# --- events ---------------------------------------------------------------------------------------------------------------------


def _shared_events(clock: _Clock) -> list[ClusterEvent]:
    """Brokers that start and register, a controller, a fault that acts, healing, and the beginning of the final reads."""
    early: list[tuple[EventKind, dict[str, object]]] = []
    for number, node in enumerate(_BROKERS):
        early.append((EventKind.NODE_STARTED, {"node": node, "life": 1}))
        early.append((EventKind.REGISTERED, {"node": node, "life": 1, "incarnation": 10 + number}))
    early.append((EventKind.CONTROLLER_ELECTED, {"node": "b1", "controller_epoch": 1}))
    fault: dict[str, object] = {"fault": "f1", "node": "b2", "detail": "clog"}
    begun = clock.load_turns // 3
    late_rows: list[tuple[int, EventKind, dict[str, object]]] = [
        (begun, EventKind.FAULT_BEGUN, fault),
        (begun + 1, EventKind.FAULT_ACTED, {**fault, "count": 7}),
        (begun + 9, EventKind.FAULT_ENDED, fault),
        (_healed_ns(clock), EventKind.HEALED, {}),
        (clock.load_turns - 1, EventKind.FINAL_READS, {}),
    ]
    rows = [(turn, kind, columns) for turn, (kind, columns) in enumerate(early)] + late_rows
    return [_event(clock, turn, clock.partitions, kind, columns) for turn, kind, columns in rows]


def _healed_ns(clock: _Clock) -> int:
    return clock.load_turns * 6 // 10


def _events(clock: _Clock, place: int, name: tuple[str, int]) -> pa.Table:
    """Leader epoch 0 from the start and epoch 1, of another leader, from the middle on."""
    rows: list[ClusterEvent] = []
    for epoch, turn in enumerate((20, clock.load_turns // 2)):
        leader, *others = _BROKERS[epoch:] + _BROKERS[:epoch]
        state = {"leader": leader, "leader_epoch": epoch, "controller_epoch": 1, "zk_version": epoch, "isr": _BROKERS}
        what: list[tuple[EventKind, dict[str, object]]] = [
            (EventKind.STATE_WRITTEN, {"node": "b1", **state, "stamps": (10, 11, 12)}),
            (EventKind.BECAME_LEADER, {"node": leader, "life": 1, "leader_epoch": epoch, "leo": 0, "hw": 0, "isr": _BROKERS}),
        ]
        what += [
            (EventKind.BECAME_FOLLOWER, {"node": node, "life": 1, "leader_epoch": epoch, "leader": leader}) for node in others
        ]
        about = {"topic": name[0], "partition": name[1]}
        rows += [_event(clock, turn + step, place, kind, {**about, **columns}) for step, (kind, columns) in enumerate(what)]
    return schema.to_table("events", rows)


def _event(clock: _Clock, turn: int, place: int, kind: EventKind, columns: dict[str, object]) -> ClusterEvent:
    index = clock.at(turn, place) + 1
    return ClusterEvent(index=index, kind=kind, time_ns=index * clock.step_ns, **columns)  # type: ignore[arg-type]  # by kind


def _manifest(names: list[tuple[str, int]], clock: _Clock) -> RunManifest:
    topics = tuple(TopicPromise(topic=topic) for topic in sorted({topic for topic, _ in names}))
    return RunManifest(
        run_id="giant", seed=None, draws=0, plan_digest="", protocol="none", backend="generated", commit="", dirty=False,
        versions={}, outcome="completed", brokers=_BROKERS,
        assignments=tuple(Assignment(topic=topic, partition=number, replicas=_BROKERS) for topic, number in names),
        promise=Promise(topics=topics, session_timeout_ms=6_000, replica_lag_time_max_ms=10_000, request_timeout_ms=2_000),
        healed_at_ns=clock.time_ns(_healed_ns(clock)), final_reads_at_ns=clock.time_ns(clock.load_turns - 1), end_ns=_RUN_NS,
        faults=(FaultCount(kind="clog", begun=1, acted=7),),
    )  # fmt: skip


# --- planted errors -------------------------------------------------------------------------------------------------------------


class _Site(NamedTuple):
    """A record that a poll read after its first one, and where the history names it."""

    offset: int
    value: str
    beside: int  # index of the poll beside the produces that read it
    late: int  # index of the poll at the end that read it
    told: int  # index of its acknowledgement


def _plant(frame: pl.DataFrame, name: tuple[str, int], draws: np.random.Generator) -> tuple[pl.DataFrame, list[Planted]]:
    """Put one error of each kind into the rows of a partition, at records that the seed draws."""
    errors = []
    for kind, site in zip(_ERRORS, _sites(frame, draws, len(_ERRORS)), strict=True):
        index = kind.at(site)
        frame = kind.change(frame, site)
        errors.append(Planted(key=f"{name[0]}-{name[1]}", kinds=kind.causes, index=index))
    return frame, errors


def _sites(frame: pl.DataFrame, draws: np.random.Generator, count: int) -> list[_Site]:
    read = frame.filter((pl.col("f") == "poll") & (pl.col("type") == "ok")).select("process", "index", "offset", "value")
    late_reads = read.filter(pl.col("process") == frame["process"].max()).drop("process").rename({"index": "late"})
    beside = read.filter(pl.col("process") < frame["process"].max()).select("offset", beside="index")
    acknowledged = frame.filter((pl.col("f") == "produce") & (pl.col("type") == "ok")).select("offset", told="index")
    known_frame = late_reads.join(beside, on="offset").join(acknowledged, on="offset").sort("offset")
    # A poll must return only what was acknowledged before it began, which holds for the first half of its records.
    middle = known_frame.filter((pl.col("offset") % _POLL > 0) & (pl.col("offset") % _POLL < _POLL // 2))
    # Records of different polls, so that no error hides another.
    polls = draws.choice(int(known_frame["offset"].to_numpy()[-1]) // _POLL, count, replace=False)
    chosen = [middle.filter(pl.col("offset") // _POLL == poll) for poll in polls.tolist()]
    return [_Site(**rows.row(int(draws.integers(rows.height)), named=True)) for rows in chosen]


def _lost_frame(frame: pl.DataFrame, site: _Site) -> pl.DataFrame:
    return frame.filter(~((pl.col("index") == site.beside) & (pl.col("offset") == site.offset)))


def _never_sent(frame: pl.DataFrame, site: _Site) -> pl.DataFrame:
    here = (pl.col("index") == site.late) & (pl.col("offset") == site.offset)
    return frame.with_columns(value=pl.when(here).then(pl.lit(f"never-{site.value}")).otherwise("value"))


def _refused_frame(frame: pl.DataFrame, site: _Site) -> pl.DataFrame:
    is_refused = pl.col("index") == site.told
    return frame.with_columns(
        type=pl.when(is_refused).then(pl.lit("fail")).otherwise("type"),
        offset=pl.when(~is_refused).then("offset"),
        leader_epoch=pl.when(~is_refused).then("leader_epoch"),
    )


def _above_hw(frame: pl.DataFrame, site: _Site) -> pl.DataFrame:
    here = (pl.col("index") == site.beside) & (pl.col("offset") == site.offset)
    return frame.with_columns(hw=pl.when(here).then("offset").otherwise("hw"))


class _Error(NamedTuple):
    """A kind of error: the change of the rows, the anomalies that it causes, and the row that all of them witness."""

    causes: tuple[str, ...]
    change: Callable[[pl.DataFrame, _Site], pl.DataFrame]
    at: Callable[[_Site], int]


_ERRORS = (
    _Error(("int-poll-skip", "lost-write"), _lost_frame, lambda site: site.beside),
    _Error(("inconsistent-offsets", "phantom-read"), _never_sent, lambda site: site.late),
    _Error(("failed-write-read",), _refused_frame, lambda site: site.told),
    _Error(("read-above-hw",), _above_hw, lambda site: site.beside),
)


# --- measuring ------------------------------------------------------------------------------------------------------------------


class Measured(Struct, frozen=True, kw_only=True):
    """The cost of judging: seconds by the clock, CPU seconds of all processes, and the peak MiB of each kind of process."""

    clock_s: float
    cpu_s: float
    peak_mib: dict[str, int]


class _Watch:
    """Samples the memory of this process and of its descendants; the peak of one kind is that of its largest process."""

    def __init__(self) -> None:
        self.peak_mib: dict[str, int] = {}
        self._cpu_s: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self._look()

    def _look(self) -> None:
        for pid in _tree(os.getpid()):
            with suppress(OSError, IndexError, StopIteration):  # it may end at any moment
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                self._cpu_s[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                status = Path(f"/proc/{pid}/status").read_text()
                peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) >> 10
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                kind = "driver" if pid == os.getpid() else "jvm" if name == "java" else "worker"
                self.peak_mib[kind] = max(peak, self.peak_mib.get(kind, 0))


def _tree(root: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    process_ids = [root]
    for pid in process_ids:
        process_ids.extend(children.get(pid, []))
    return process_ids


def judge(folder: Path, *, master: str | None, ledger: Path) -> tuple[Verdict, Measured]:
    """Judge a history in this process, or on Spark; reading and starting Spark are counted."""
    before, start = process_time(), perf_counter()
    with _Watch() as watch:
        verdict = judge_run(store.load_run(folder)) if master is None else _on_spark(folder, master, ledger)
    cpu_s = process_time() - before if master is None else watch.cpu_s
    return verdict, Measured(clock_s=perf_counter() - start, cpu_s=cpu_s, peak_mib=watch.peak_mib)


def _on_spark(folder: Path, master: str, ledger: Path) -> Verdict:
    history = store.load_run(folder)
    items = giant.pieces(history, folder, key="giant")
    with session(master) as spark:
        perform(items, Job(function=giant.judge_piece, ledger=str(ledger)), spark=spark)
    return giant.verdict_of(history, items, Ledger(storage_at(ledger)))


def unexpected(verdict: Verdict, errors: Sequence[Planted]) -> list[str]:
    """Compare the anomalies with the planted errors: what is missing, and what no error explains."""
    wanted = {(error.key, kind): error.index for error in errors for kind in error.kinds}
    anomalies = {(anomaly.key, anomaly.kind): anomaly for anomaly in verdict.anomalies}
    complaints = [f"missing: {kind} in {key}" for key, kind in sorted(wanted.keys() - anomalies.keys())]
    complaints += [f"not planted: {anomalies[key].words}" for key in sorted(anomalies.keys() - wanted.keys())]
    complaints += [
        f"other row: {anomaly.words}"
        for anomaly in verdict.anomalies
        if wanted.get((anomaly.key, anomaly.kind)) not in (None, *anomaly.witness)
    ]
    return [*complaints, *verdict.unchecked, *verdict.not_live]


def main() -> None:
    """Write a history, or judge one and compare the findings with the planted errors. Exit code 1 if they differ."""
    parser = argparse.ArgumentParser(prog="bench.giant", description=__doc__)
    parser.add_argument("what", choices=("write", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--planted", type=int, metavar="SEED", help="put errors into three partitions, at drawn rows")
    parser.add_argument("--spark", metavar="MASTER", help="judge on Spark and not in this process")
    arguments = parser.parse_args()
    if arguments.what == "write":
        errors = write(arguments.folder, arguments.rows, planted=arguments.planted)
        store.write_file(arguments.folder / _PLANTED, msgspec.json.encode(errors))
        say(f"{store.load_manifest(arguments.folder).operation_rows:,} operations, {len(errors)} errors, peak {peak_mib()} MiB")
        return
    with tempfile.TemporaryDirectory() as ledger:
        verdict, measured = judge(arguments.folder, master=arguments.spark, ledger=Path(ledger))
    peaks = ", ".join(f"{kind} {peak} MiB" for kind, peak in sorted(measured.peak_mib.items()))
    say(f"{verdict.validity.name}, live {verdict.live}: {len(verdict.anomalies)} anomalies, {verdict.counts['read']:,} reads")
    say(f"{measured.clock_s:.1f} s by the clock, {measured.cpu_s:.1f} s of processor, peaks: {peaks}")
    errors = msgspec.json.decode((arguments.folder / _PLANTED).read_bytes(), type=tuple[Planted, ...])
    complaints = unexpected(verdict, errors)
    say("\n".join(complaints) or f"all {len(errors)} planted errors were found, and nothing else")
    raise SystemExit(1 if complaints else 0)


if __name__ == "__main__":
    main()
