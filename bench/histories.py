"""Generates large realistic histories for `make bench-checkers`: seeded, and in columns, because they have millions of rows.

Every history is valid, so the checkers have to read all of it, which is their usual case. Calls overlap: each takes effect at its
own moment, begins up to half a round of all processes before that moment and ends up to half a round after it.
"""

from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from history import parquet, schema, store
from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, Call
from history.manifest import RunManifest
from history.promise import Promise, TopicPromise
from history.seed import Rng

Ints = NDArray[np.int64]

_TOPICS = ("audit", "clicks", "orders", "payments")
_PARTITIONS = 4  # of each topic
_PRODUCERS = 4  # of each partition
_BATCH = 8  # records of a produce
_POLL = 64  # records of a poll
_READERS = 2  # consumers that read each partition from its beginning
PROCESSES = _PRODUCERS + _READERS  # of each partition: first its producers
_GAP_NS = 1_000  # between the moments of two calls
_LOST_PERCENT = 1  # produces with unknown outcome; half of them are in the log
_FAILED_PERCENT = 1
_PROCESSES = 16  # in a history of calls
_APPENDS = 0.4  # share of the calls of a log
_KEYS = 10  # keys in use by transactions at the same time
_READ, _APPEND = "r", "append"
_BUSY_VALUES = 5
INVOKE, OK, FAIL, INFO = range(4)
_TYPES = ("invoke", "ok", "fail", "info")


def log_tables(rows: int, *, seed: int = 1) -> tuple[pa.Table, pa.Table, RunManifest]:
    """Generate about `rows` rows of produces and polls on 16 partitions: the tables of `history.schema`, and a manifest.

    A produce of 8 records has 16 rows; two consumers read each record, in polls of 64 records.
    """
    draws = np.random.default_rng(seed)
    partitions = [(topic, number) for topic in _TOPICS for number in range(_PARTITIONS)]
    records = rows // len(partitions) // (2 + _READERS)
    parts = [partition_rows(draws, place, records) for place in range(len(partitions))]
    return operations_table(parts, partitions), schema.to_table("events", ()), _manifest()


def write_log(folder: Path, rows: int, *, seed: int = 1) -> int:
    """Generate a history with `log_tables` and store it as a run's folder; return its number of rows."""
    operations, events, manifest = log_tables(rows, seed=seed)
    store.write_file(folder / store.OPERATIONS, parquet.encode(operations))
    store.write_file(folder / store.EVENTS, parquet.encode(events))
    store.write_file(folder / store.MANIFEST, store.encode_manifest(manifest))
    return int(operations.num_rows)


def log_calls(count: int, *, seed: int = 1) -> list[Call]:
    """Generate calls on one partition by 16 processes: two appends for every three reads."""
    draws = np.random.default_rng(seed)
    appends = draws.random(count) < _APPENDS
    appends[0] = True
    starts, end_times = _intervals(draws, count)
    offsets = np.cumsum(appends) - 1
    read = (draws.random(count) * (offsets + 1)).astype(np.int64)
    recent = draws.random(count) < 0.5
    read[recent] = offsets[recent]  # half of the reads are at the end
    return [
        Call(index=i, line=i + 1, process=i % _PROCESSES, f="append", argument=at, result=at, start=start, end=end)
        if append
        else Call(index=i, line=i + 1, process=i % _PROCESSES, f="read", argument=old, result=old, start=start, end=end)
        for i, (append, at, old, start, end) in enumerate(
            zip(appends.tolist(), offsets.tolist(), read.tolist(), starts.tolist(), end_times.tolist(), strict=True)
        )
    ]


def transactions(count: int, *, seed: int = 1, writes: int = 32) -> Paired:
    """Generate list-append transactions as Jepsen does: 1 to 4 micro-operations on ten keys in use, half of them appends.

    A key is replaced after `writes` appends (Jepsen: 32), so lists grow to that length. One transaction in a hundred fails, and
    one has an unknown outcome. Every transaction takes effect at one moment within its call.
    """
    draws = np.random.default_rng(seed)
    starts, end_times = (column.tolist() for column in _intervals(draws, count))
    sizes, fates = draws.integers(1, 5, count).tolist(), draws.integers(0, 100, count).tolist()
    micro = iter(draws.integers(0, 2 * _KEYS, int(sum(sizes))).tolist())
    keys = list(range(_KEYS))
    writes_of_key = [0] * _KEYS
    lists: list[tuple[int, ...]] = [()] * _KEYS
    calls: list[Call] = []
    failed: list[Call] = []
    for i, (size, fate) in enumerate(zip(sizes, fates, strict=True)):
        lands = fate > 1 or (fate == 1 and i % 2 == 0)
        invoked_micros: list[tuple[str, int, object]] = []
        answers: list[tuple[str, int, object]] = []
        kept = list(lists)
        for place, reads in (divmod(drawn, 2) for drawn in islice(micro, size)):
            key = keys[place]
            answers.append((_READ, key, lists[place]) if reads else (_APPEND, key, writes_of_key[place]))
            invoked_micros.append((_READ, key, None) if reads else answers[-1])
            if not reads:
                lists[place] = (*lists[place], writes_of_key[place])
                writes_of_key[place] += 1
        if not lands:
            lists = kept
        for place in range(_KEYS):
            if writes_of_key[place] >= writes:
                keys[place], writes_of_key[place], lists[place] = max(keys) + 1, 0, ()
        into = failed if fate == 0 else calls
        into.append(
            Call(
                index=len(into), line=i + 1, process=i % _PROCESSES, f="txn", argument=tuple(invoked_micros), start=starts[i],
                result=tuple(answers) if fate > 1 else UNKNOWN, end=end_times[i] if fate > 1 else None,
            )
        )  # fmt: skip
    return Paired(calls=tuple(calls), failed=tuple(failed), steps=2 * count)


def with_unread_appends(history: Paired) -> Paired:
    """Add four transactions to each hundred, all at once: two make a write skew, and two append to one key that nobody reads.

    Of the two orders of these appends one makes a cycle that snapshot isolation forbids: the earlier one to end must be last.
    """
    calls: list[Call] = []
    for number, call in enumerate(history.calls):
        calls.append(call)
        if number % 100 == 0:
            skew_key, skewed_key, unread, seen_key = (f"{name}{number}" for name in ("skew", "skewed", "unread", "seen"))
            for added in (
                ((_READ, skew_key, None), (_APPEND, skewed_key, 1)),
                ((_READ, skewed_key, None), (_APPEND, skew_key, 1)),
                ((_APPEND, seen_key, 1), (_APPEND, unread, 1)),
                ((_READ, seen_key, None), (_APPEND, unread, 2)),
            ):
                calls.append(replace(call, process=len(calls), argument=added, result=added, end=call.end or call.start + 1))
    numbered = tuple(replace(call, index=at, line=at + 1) for at, call in enumerate(calls))
    return Paired(calls=numbered, failed=history.failed, steps=history.steps)


def _intervals(draws: np.random.Generator, count: int) -> tuple[Ints, Ints]:
    """The begin and end times of calls, around moments that are 1000 apart; call i is by process i modulo `_PROCESSES`."""
    moment = (_PROCESSES + np.arange(count)) * 1000
    reach = 500 * _PROCESSES
    return moment - draws.integers(1, reach, count), moment + draws.integers(1, reach, count)


def partition_rows(draws: np.random.Generator, place: int, records: int, *, rereads: bool = False) -> dict[str, Ints]:
    """The rows of partition number `place` in no order, as columns of numbers.

    If it `rereads`, the second consumer reads everything after the last produce and not beside the first consumer.
    """
    count = max(1, records // _BATCH)
    fate = draws.integers(0, 100, count)
    kind = np.full(count, OK)
    kind[fate < _FAILED_PERCENT] = FAIL
    kind[fate >= 100 - _LOST_PERCENT] = INFO
    lands = (kind == OK) | ((kind == INFO) & (np.arange(count) % 2 == 0))
    moment = np.arange(1, count + 1) * _GAP_NS + draws.integers(0, _GAP_NS // 2, count)
    base = (np.cumsum(lands) - lands) * _BATCH
    first_process = place * (_PRODUCERS + _READERS)
    produces = _calls(draws, moment, first_process + np.arange(count) % _PRODUCERS, _PRODUCERS)
    slots = np.tile(np.arange(_BATCH), count)
    each = {name: np.repeat(column, _BATCH) for name, column in produces.items()}
    value = np.arange(count * _BATCH)
    invocations = _rows(each, "begin", kind=INVOKE, f=0, slot=slots, value=value, place=place)
    poll_answers = _rows(each, "end", kind=np.repeat(kind, _BATCH), f=0, slot=slots, value=value, place=place)
    poll_answers["offset"] = np.where(poll_answers["kind"] == OK, np.repeat(base, _BATCH) + slots, -1)
    in_log = np.flatnonzero(np.repeat(lands, _BATCH))  # offset -> value
    appended = np.repeat(moment, _BATCH)[in_log]
    after = [(2 + count) * _GAP_NS if rereads and reader else 0 for reader in range(_READERS)]
    polls = [_polls(draws, place, reader, in_log, appended + after[reader]) for reader in range(_READERS)]
    parts = [invocations, poll_answers, *(part for pair in polls for part in pair)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _polls(
    draws: np.random.Generator, place: int, reader: int, in_log: Ints, appended: Ints
) -> tuple[dict[str, Ints], dict[str, Ints]]:
    starts = np.arange(0, len(in_log), _POLL)
    sizes = np.minimum(_POLL, len(in_log) - starts)
    last = starts + sizes - 1
    moment = appended[last] + _GAP_NS // 2
    process = place * (_PRODUCERS + _READERS) + _PRODUCERS + reader
    # A consumer's polls do not overlap: the next one begins after the last one has ended.
    calls = _calls(draws, moment, np.full(len(starts), process), 1)
    ask = _rows(calls, "begin", kind=INVOKE, f=1, slot=np.zeros(len(starts), np.int64), value=np.int64(-1), place=place)
    ask["offset"] = starts
    each = {name: np.repeat(column, sizes) for name, column in calls.items()}
    slots = np.arange(len(in_log)) - np.repeat(starts, sizes)
    got = _rows(each, "end", kind=OK, f=1, slot=slots, value=in_log, place=place)
    got["offset"] = np.arange(len(in_log))
    return ask, got


def _calls(draws: np.random.Generator, moment: Ints, process: Ints, round_of: int) -> dict[str, Ints]:
    """Begin and end of each call around its moment. Calls of one process do not overlap: its next is `round_of` calls later."""
    reach = max(2, round_of * _GAP_NS // 4)
    begin = moment - draws.integers(1, reach, len(moment))
    end = moment + draws.integers(1, reach, len(moment))
    return {"begin": begin, "end": end, "process": process}


def _rows(
    calls: dict[str, Ints], at: str, *, kind: Ints | int, f: int, slot: Ints, value: Ints | np.int64, place: int
) -> dict[str, Ints]:
    size = len(slot)
    return {
        "time_ns": calls[at],
        "process": calls["process"],
        "kind": np.broadcast_to(np.int64(kind) if isinstance(kind, int) else kind, size),
        "f": np.full(size, f),
        "slot": slot,
        "value": np.broadcast_to(value, size),
        "offset": np.full(size, -1),
        "place": np.full(size, place),
    }


def operations_table(parts: list[dict[str, Ints]], partitions: list[tuple[str, int]]) -> pa.Table:
    """The operations of partitions given by `partition_rows`, in the order of time."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((columns["slot"], columns["process"], columns["time_ns"]))
    columns = {name: column[order] for name, column in columns.items()}
    # Rows of one invocation or completion share an index: the same time, the same process, a slot that grows.
    new = np.ones(len(order), np.bool_)
    new[1:] = columns["slot"][1:] == 0
    frame = pl.DataFrame({**columns, "index": np.cumsum(new) - 1}).with_columns(
        type=_name_column(_TYPES, "kind"),
        topic=_name_column([topic for topic, _ in partitions], "place"),
        partition=_number_column([number for _, number in partitions], "place"),
        value=pl.when(pl.col("value") >= 0).then(pl.format("v{}-{}", "place", "value")),
        offset=pl.when(pl.col("offset") >= 0).then("offset"),
        acks=pl.when(pl.col("f") == 0).then(pl.lit(-1, pl.Int64)),
        leader_epoch=pl.when(pl.col("kind") == OK).then(pl.lit(0, pl.Int64)),
        attempts=pl.when((pl.col("f") == 0) & (pl.col("kind") != INVOKE)).then(pl.lit(1, pl.Int64)),
    )
    frame = frame.with_columns(f=_name_column(("produce", "poll"), "f"))
    wanted = schema.arrow_schema("operations")
    missing = [
        pl.lit(None, pl.String if pa.types.is_string(f.type) else pl.Int64).alias(f.name)
        for f in wanted
        if f.name not in frame.columns
    ]
    return frame.with_columns(missing).select(wanted.names).to_arrow().cast(wanted)


def _name_column(names: tuple[str, ...] | list[str], column: str) -> pl.Expr:
    return pl.col(column).replace_strict(list(range(len(names))), list(names), return_dtype=pl.String)


def _number_column(numbers: list[int], column: str) -> pl.Expr:
    return pl.col(column).replace_strict(list(range(len(numbers))), numbers, return_dtype=pl.Int64)


def _manifest() -> RunManifest:
    topics = tuple(TopicPromise(topic=topic, min_insync_replicas=1) for topic in _TOPICS)
    return RunManifest(
        run_id="bench", seed=None, draws=0, plan_digest="", protocol="none", backend="generated", commit="", dirty=False,
        versions={}, outcome="completed", brokers=(), assignments=(),
        promise=Promise(topics=topics, session_timeout_ms=1, replica_lag_time_max_ms=1, request_timeout_ms=1),
    )  # fmt: skip


def busy_calls(clients: int, count: int, *, seed: int = 1, impossible: bool = False) -> list[Call]:
    """Generate calls on a compare-and-set register of five values by clients who are nearly always busy, as a list by invocation.

    Each takes effect at a moment between its invocation and its return. `impossible`: one of the last reads has a value that
    nobody wrote, so that a search for an order must try all of them.
    """
    rng = Rng(seed).fork(f"busy {clients} {count}")
    register: int | None = None
    calls: list[Call] = []
    idle, waiting, done = list(range(clients)), dict[int, tuple[Call, int, int]](), dict[int, Call]()  # by process
    now = 0
    while len(calls) < count or waiting or done:
        now += 1
        step = rng.below(3)
        if step == 0 and idle and len(calls) < count:
            process, old, new = idle.pop(rng.below(len(idle))), rng.below(_BUSY_VALUES), rng.below(_BUSY_VALUES)
            f, argument = rng.pick((("read", None), ("write", new), ("cas", (old, new))))
            at = len(calls)
            calls.append(Call(index=at, line=at + 1, process=process, f=f, argument=argument, result=None, start=now, end=None))
            waiting[process] = calls[at], old, new
        elif step == 1 and waiting:
            process = rng.pick(sorted(waiting))
            call, old, new = waiting.pop(process)
            acts = call.f == "write" or (call.f == "cas" and register == old)
            answer = {"read": register, "write": None, "cas": True if acts else "false"}[call.f]
            register = new if acts else register
            done[process] = replace(call, result=answer)
        elif step == 2 and done and (rng.below(5) == 0 or len(idle) < clients / 5 or len(calls) == count):
            process = rng.pick(sorted(done))
            call = done.pop(process)
            calls[call.index] = replace(call, end=now)
            idle.append(process)
    if impossible:
        read = rng.pick([call for call in calls[count * 3 // 5 :] if call.f == "read"])
        calls[read.index] = replace(read, result=2 * _BUSY_VALUES)
    return calls
