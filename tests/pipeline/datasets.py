"""Datasets of made-up runs with planted facts, written from the schema alone."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from msgspec import UNSET, Struct
from msgspec.structs import replace

from history.seed import Rng
from pipeline import dataset, inventory
from pipeline.dataset import Entry, Part, commit, ingest, parts_of
from pipeline.record import Record
from pipeline.storage import Storage, storage_at
from pipeline.tables import OF_A_RECORD, TABLES, Table, arrow_schema

FAULTS = ("clog", "crash-leader", "disk-full", "isolate-leader", "pause-long")
STATES = ("became-leader", "became-follower", "controller-elected", "isr-shrunk", "truncate")
OPERATIONS = ("latest", "poll", "produce")
MS = 1_000_000

Row = dict[str, object]
Rows = dict[Table, list[Row]]


class Made(Struct, frozen=True, kw_only=True):
    """A made-up campaign. Runs of one seed have the same plan in all campaigns; `chance` names the outcomes that are drawn."""

    campaign: str
    protocol: str = "safe"
    mix: str = ""
    seeds: range
    chance: str = "first"
    invalid: int = 0  # per mille of the runs
    not_live: int = 0
    kinds: tuple[str, ...] = ("lost-write", "duplicate")
    steps: tuple[str, ...] = ("truncate:to its high watermark", "elected-outside-isr")
    slower: int = 100  # percent of the usual recovery
    states: tuple[str, ...] = STATES
    backend: str = "sim"


def write_dataset(folder: Path, campaigns: Sequence[Made]) -> Path:
    """Write these campaigns as `highwater store ingest` does."""
    for made in campaigns:
        ingest(
            storage_at(str(folder)),
            made.campaign,
            [Entry(run_of(made, seed), partial(_record, made, seed)) for seed in made.seeds],
        )
    return folder


def without_inventory(storage: Storage) -> list[Part]:
    """Make a dataset one from before there was an inventory; returns its parts."""
    for part in parts_of(storage):
        earlier = replace(part, listed=UNSET)
        commit(storage, replace(earlier, seal=dataset._seal(earlier)))
    storage.delete([inventory.NAME])
    return parts_of(storage)


def _record(made: Made, seed: int) -> Record:
    rows = _run(made, seed)
    return Record(protocol=made.protocol, tables={t: pa.Table.from_pylist(rows[t], schema=arrow_schema(t)) for t in OF_A_RECORD})


def _run(made: Made, seed: int) -> Rows:
    plan = Rng(seed).fork(f"{made.protocol} {made.mix}")
    drawn = plan.fork(made.chance)
    rows: Rows = {table: [] for table in TABLES}
    kinds = [FAULTS[plan.below(len(FAULTS))] for _ in range(plan.between(1, 6))]
    windows = [_window(f"w{number}", kind, made, drawn) for number, kind in enumerate(kinds)]
    invalid, not_live = drawn.ratio(made.invalid, 1000), drawn.ratio(made.not_live, 1000)
    rows["windows"] = windows
    rows["faults"] = _faults(windows)
    rows["coverage"] = _coverage(made, kinds, drawn)
    rows["calls"] = [_call(kinds, drawn) for _ in range(drawn.between(20, 60))]
    rows["anomalies"] = [_anomaly(made, kinds, drawn) for _ in range(drawn.between(1, 3))] if invalid else []
    unknown = not invalid and drawn.ratio(1, 30)
    rows["runs"] = [_run_row(made, seed, windows=len(windows), drawn=drawn)]
    rows["runs"][0] |= _outcome(rows["anomalies"], unknown=unknown, not_live=not_live)
    rows["runs"][0]["signature"] = _signature(made, rows["anomalies"], unknown=unknown, not_live=not_live, drawn=drawn)
    rows["verdicts"] = [_verdict(unknown=unknown, not_live=not_live)]
    for table in TABLES:
        for row in rows[table]:
            row["run"] = run_of(made, seed)
    return rows


def run_of(made: Made, seed: int) -> str:
    """The key of the run of a seed."""
    return f"seed-{seed}{made.mix and '-' + made.mix}/{made.backend}-{made.protocol}"


def _outcome(anomalies: Sequence[Row], *, unknown: bool, not_live: bool) -> Row:
    return {
        "verdict": "INVALID" if anomalies else "UNKNOWN" if unknown else "VALID",
        "live": None if unknown else not not_live,
        "exit": 10 if anomalies else 11 if unknown else 12 if not_live else 0,
    }


def _verdict(*, unknown: bool, not_live: bool) -> Row:
    words = ["orders-0 has no leader", "b1 is not registered"] if not_live and not unknown else []
    return {
        "checkers": "c4",
        "verdict": "UNKNOWN",
        "live": None,
        "unchecked": ["vacuity: no fault acted"] if unknown else [],
        "not_live": words,
        "judgement": "{}",
    }


def _signature(made: Made, anomalies: Sequence[Row], *, unknown: bool, not_live: bool, drawn: Rng) -> str | None:
    if anomalies:
        named = drawn.pick(anomalies)
        return f"{named['kind']}/{named['checker']}/{drawn.pick(made.steps)}"
    if unknown:
        return "unknown/vacuity/no fault acted"
    return "not-live/availability/a partition has no leader" if not_live else None


def _run_row(made: Made, seed: int, *, windows: int, drawn: Rng) -> Row:
    counts = ("operations", "acked", "operation_rows", "event_rows")
    zeros = ("excused", "leader_changes", "recovery_elections", "elections_from_elr", "wounds_counted_on")
    return {
        "run": run_of(made, seed),
        "seed": seed,
        "plan": f"seed-{seed}",
        "plan_digest": f"plan-{made.protocol}-{made.mix}-{seed}",
        "mix": made.mix,
        "profile": "within",
        "workload": "mixed",
        "backend": made.backend,
        "commit": "c0ffee",
        "outcome": "completed",
        "digest": f"digest-{made.protocol}-{made.mix}-{seed}-{made.chance}",
        **{name: drawn.between(50, 900) for name in counts},
        **dict.fromkeys(zeros, 0),
        "fault_windows": windows,
        "healed_ns": 60_000 * MS,
        "end_ns": 64_000 * MS,
        "sim_seconds": 64.0,
        "wall_seconds": 1.5,
        "repeat": f"highwater run --seed {seed} --protocol {made.protocol}",
        "failure": None,
    }


def _window(name: str, kind: str, made: Made, drawn: Rng) -> Row:
    begun = drawn.below(50_000) * MS
    recovery = drawn.between(5, 3_000) * MS * made.slower // 100
    return {
        "window": name,
        "kind": kind,
        "nodes": sorted({f"b{drawn.between(1, 3)}", f"b{drawn.between(1, 3)}"}),
        "begun_ns": begun,
        "ended_ns": begun + drawn.between(100, 5_000) * MS,
        "acted": 0 if drawn.ratio(1, 8) else drawn.between(1, 20),
        "unavailable_ns": drawn.below(4_000) * MS,
        "recovery_ns": None if drawn.ratio(1, 25) else recovery,
    }


def _faults(windows: Sequence[Row]) -> list[Row]:
    own: dict[str, list[int]] = {}
    for window in windows:
        acted = window["acted"]
        assert isinstance(acted, int)
        own.setdefault(str(window["kind"]), []).append(acted)
    return [{"kind": kind, "begun": len(acted), "acted": sum(acted)} for kind, acted in sorted(own.items())]


def _coverage(made: Made, kinds: Sequence[str], drawn: Rng) -> list[Row]:
    pairs = [(state, fault) for state in made.states for fault in ("", *sorted(set(kinds)))]
    return [{"state": s, "fault": f, "count": drawn.between(1, 9)} for s, f in pairs if drawn.ratio(2 if f else 9, 10)]


def _call(kinds: Sequence[str], drawn: Rng) -> Row:
    answered = drawn.ratio(19, 20)
    in_effect = sorted({kind for kind in kinds if drawn.ratio(1, 4)})
    slow = 20 if in_effect else 1
    return {
        "process": drawn.below(8),
        "f": drawn.pick(OPERATIONS),
        "topic": "orders",
        "partition": drawn.below(3),
        "type": drawn.pick(("ok", "ok", "ok", "fail", "info")) if answered else "info",
        "invoked_ns": drawn.below(60_000) * MS,
        "latency_ns": drawn.between(100_000, slow * 20 * MS) if answered else None,
        "records": drawn.below(5),
        "error": None,
        "in_effect": in_effect,
    }


def _anomaly(made: Made, kinds: Sequence[str], drawn: Rng) -> Row:
    kind = drawn.pick(made.kinds)
    return {
        "kind": kind,
        "checker": f"{kind}-checker",
        "key": f"orders-{drawn.below(3)}",
        "words": f"{kind} at offset {drawn.below(90)}",
        "witness": [drawn.below(500)],
        "at_ns": None if drawn.ratio(1, 6) else drawn.below(60_000) * MS,
        "in_effect": sorted({kind for kind in kinds if drawn.ratio(1, 3)}),
    }
