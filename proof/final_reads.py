"""The definition of what clients alone show to be lost (docs/promise.md DUR-1, VAC-4), and random histories with final reads."""

from collections.abc import Iterator

from msgspec.structs import replace

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import OpType
from history.seed import Rng
from proof.log_histories import Clients, misspoken
from proof.log_rows import Call, Case, calls

_SECOND = 1_000_000_000
_HEALED_NS, _WHOLE_NS, _FINAL_READS_NS, _END_NS = 10 * _SECOND, 26 * _SECOND, 32 * _SECOND, 40 * _SECOND
_DENIALS = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC")
_READER = 7

Record = tuple[int, str]  # offset and value
Seen = tuple[int, int]  # index and time of the row that promised it


def black_box(case: Case) -> set[str]:
    """Definition of `client-log`: what is lost, how many records nobody knows of, and why the partition is not live."""
    wounded = {row.node for row in case.events if row.kind is K.WOUND}
    final = _final_calls(case)
    found = set(_complaints(case, final))
    if len(wounded) >= case.m:
        return found | {"unjudged"}
    promised = _promised_records(case)
    lost = {record[0] for record, seen in promised.items() if _is_contradicted(case, final, record, seen)}
    unknown = 0
    for record, seen in promised.items():
        if record[0] in lost or _is_read(case, final, record, seen):
            continue
        if _is_denied(final) or _is_below_the_end(final, record):
            found.add("lost-write")
        else:
            unknown += 1
    return found | ({"lost-write"} if lost else set()) | ({f"{unknown} unread"} if unknown else set())


def _promised_records(case: Case) -> dict[Record, Seen]:
    """Each record that was acknowledged under acks=all, or read, with the first row that says so."""
    reading_calls = [call for call in calls(case.operations, "produce") if call.ok and call.asked[0].acks == -1]
    reading_calls += [call for call in calls(case.operations, "poll") if call.ok]
    rows = [(row.offset, row.value, row) for call in reading_calls for row in call.answer]
    promised: dict[Record, Seen] = {}
    for offset, value, row in sorted(rows, key=lambda named: named[2].index):
        if offset is not None and value is not None:
            promised.setdefault((offset, value), (row.index, row.time_ns))
    return promised


def _final_calls(case: Case) -> list[Call]:
    """The polls and the questions for an end that were asked since the final reads began."""
    return [
        call
        for f in ("poll", "latest")
        for call in calls(case.operations, f)
        if case.final_reads_at_ns is not None and call.asked[0].time_ns >= case.final_reads_at_ns
    ]


def _is_contradicted(case: Case, final: list[Call], record: Record, seen: Seen) -> bool:
    """Whether a later poll passed the record over, or a later final question was told an end at or below it."""
    offset, value = record
    for call in calls(case.operations, "poll"):
        start = call.asked[0].offset
        read = [(row.offset, row.value) for row in call.answer if row.offset is not None and row.value is not None]
        if not call.ok or start is None or seen[0] >= call.asked[0].index:
            continue
        values_there = [at_value for at, at_value in read if at == offset]
        if start <= offset and any(at >= offset for at, _ in read) and (not values_there or values_there[-1] != value):
            return True
    return any(
        call.asked[0].f == "latest" and call.ok and seen[0] < call.asked[0].index and _end(call) is not None
        and offset >= (_end(call) or 0)
        for call in final
    )  # fmt: skip


def _end(call: Call) -> int | None:
    return call.answer[0].offset


def _is_read(case: Case, final: list[Call], record: Record, seen: Seen) -> bool:
    """Whether a read showed the record: a final one, unless there are none or the record is younger than their beginning."""
    must_be_final = case.makes_final_reads and (case.final_reads_at_ns is None or seen[1] <= case.final_reads_at_ns)
    reads = [call for call in (final if must_be_final else calls(case.operations, "poll")) if call.asked[0].f == "poll"]
    return any(call.ok and (row.offset, row.value) == record for call in reads for row in call.answer)


def _is_denied(final: list[Call]) -> bool:
    """Whether every answer of the final reads denied that the partition exists."""
    answered = [call for call in final if call.answer]
    return bool(answered) and all(not call.ok and call.answer[0].error in _DENIALS for call in answered)


def _is_below_the_end(final: list[Call], record: Record) -> bool:
    """Whether the last answer to a final poll was empty, at or below the record, and the log ended above the record."""
    polls = [call for call in final if call.answer and call.asked[0].f == "poll" and call.asked[0].offset is not None]
    known_ends = [_end(call) or 0 for call in final if call.ok and call.asked[0].f == "latest"]
    if not polls or not known_ends:
        return False
    last = max(polls, key=lambda call: call.answer[0].index)
    is_empty = last.ok and all(row.value is None for row in last.answer)
    return is_empty and (last.asked[0].offset or 0) <= record[0] < max(known_ends)


def _complaints(case: Case, final: list[Call]) -> Iterator[str]:
    """LIVE-1 as clients see it: after the bound B a produce is acknowledged, and the final readers get to the end."""
    late_produces = [c for c in calls(case.operations, "produce") if c.asked[0].acks == -1 and c.asked[0].time_ns >= _WHOLE_NS]
    if late_produces and not any(call.ok for call in late_produces):
        yield "unacknowledged"
    ends_read = [_end(call) for call in final if call.asked[0].f == "latest" and call.ok]
    known = [end for end in ends_read if end is not None]
    offsets = [row.offset for call in final if call.asked[0].f == "poll" for row in call.answer if row.offset is not None]
    if not known:
        yield "no end"
    elif max(offsets, default=-1) + 1 < max(known):
        yield "short of the end"


def drawn_final_reads(rng: Rng) -> Case:
    """Return a random history of clients whose last reader asks for the end and reads from offset 0, with some mistakes."""
    clients = Clients(rng)
    for _ in range(5 + rng.below(9)):
        clients.step()
    if rng.below(4) == 0 and clients.log:
        del clients.log[rng.below(len(clients.log)) :]
    before = len(clients.rows)
    _read_at_the_end(clients, rng)
    rows = clients.rows
    for _ in range(max(0, rng.below(5) - 2)):
        at = rng.below(len(rows))
        rows[at] = misspoken(rows[at], rng)
    last = rows[before - 1].index
    times = sorted(rng.below(34 if rng.below(4) == 0 else 32) * _SECOND for _ in range(last + 1))
    rows = [
        replace(row, time_ns=times[row.index] if row.index <= last else max(times[last], _FINAL_READS_NS) + row.index)
        for row in rows
    ]
    wounded = [f"b{1 + number}" for number in range(rng.below(4) if rng.below(4) == 0 else 0)]
    events = [
        ClusterEvent(
            index=rows[-1].index + 1 + number, kind=K.WOUND, time_ns=rows[-1].time_ns, node=node, topic="t", partition=0, life=1
        )
        for number, node in enumerate(wounded)
    ]
    began = None if rng.below(6) == 0 else _FINAL_READS_NS
    return Case(
        rows, events, m=1 + rng.below(3), healed_at_ns=_HEALED_NS, final_reads_at_ns=began,
        end_ns=_END_NS, makes_final_reads=rng.below(4) > 0,
    )  # fmt: skip


def _read_at_the_end(clients: Clients, rng: Rng) -> None:
    """Append the calls of the final reader, which may fail, be denied, end early, or get no answer."""
    denied = rng.below(8) == 0
    position = 0
    for _ in range(1 + rng.below(6)):
        f = "poll" if rng.below(3) else "latest"
        invocation: dict[str, object] = {"offset": position} if f == "poll" else {}
        clients.write(_READER, OpType.INVOKE, f, invocation)
        if rng.below(12) == 0:
            continue
        if denied or rng.below(6) == 0:
            error = rng.pick(_DENIALS) if denied or rng.below(2) else "TIMED_OUT"
            clients.write(_READER, rng.pick((OpType.FAIL, OpType.FAIL, OpType.INFO)), f, {"error": error})
        elif f == "latest":
            clients.write(
                _READER, OpType.OK, f, {"offset": len(clients.log) + (rng.below(8) == 0), "leader_epoch": clients.epoch}
            )
        else:
            got = list(enumerate(clients.log))[position : position + 1 + rng.below(6)]
            records_read: list[dict[str, object]] = [{"value": value, "offset": offset} for offset, value in got]
            clients.write(_READER, OpType.OK, f, *(records_read or [{}]))
            position += len(got)
