"""The rule of the final reads: a promised record that no final read returned is lost, or nobody knows (docs/promise.md VAC-4).

After healing, readers ask each partition for its end and read it from offset 0. A record that was promised before them must be
among what they were given. Where it is not, the last answers tell more than silence does:

    an answered poll at or below the record was empty, and the log ended above it      the record is lost
    every answer denied that the partition exists, and nobody deleted the topic        the record is lost, unless brokers list
                                                                                       it at the end, without a leader
    the reads failed, were not made, or did not get there                              not known

An end at or below the record, and a read past it, are judged by `client_log` for each read, final or not.
"""

from collections.abc import Sequence
from typing import NamedTuple

from checkers.engine.facts import Facts, is_final
from checkers.engine.rows import Call

# Answers by which a broker, or a client that asked one, denies that the partition exists (Kafka's errors, librdkafka's names).
DENIALS = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"})


class PromisedRecord(NamedTuple):
    """A record that was acknowledged under acks=all, or read: its offset and value, the row that promised it, and its time."""

    offset: int
    value: str
    at: int
    time_ns: int
    how: str = "was acknowledged"


class Loss(NamedTuple):
    """A promised record that a later answer lacks, the row of that answer, and what the answer said."""

    record: PromisedRecord
    at: int
    words: str


class Unread(NamedTuple):
    """Promised records that the final reads neither returned nor showed to be lost, and why; empty if there are none."""

    records: tuple[PromisedRecord, ...] = ()
    why: str = ""


def final_calls(done: Sequence[Call], facts: Facts) -> list[Call]:
    """The polls and the questions for an end that began with the final reads, in order of completion."""
    return [call for call in done if is_final(facts, call.invoked_ns) and call.f in ("poll", "latest")]


def unread(
    promises: Sequence[PromisedRecord], calls: Sequence[Call], final: Sequence[Call], facts: Facts, *, offline: bool = False
) -> tuple[list[Loss], Unread]:
    """The losses that the final reads show, and the promised records of which nobody knows.

    `final` are the `final_calls` among the calls `calls` of one partition, `promises` its records without those that are known to
    be lost. A record that was promised while the final reads were under way may have been read by anyone. So may every record,
    if the history says that it has no final reads. `offline`: brokers list the partition at the end, and name no leader; clients
    may call that unknown, too (librdkafka does).
    """
    began = facts.final_reads_at_ns
    read = _read(final)
    missing = [record for record in promises if (record.offset, record.value) not in read]
    if any(not _needs_a_final_read(record, facts, began) for record in missing):
        read = _read(calls)
        missing = [r for r in missing if _needs_a_final_read(r, facts, began) or (r.offset, r.value) not in read]
    if not missing:
        return [], Unread()
    losses = _losses_shown(missing, final, offline=offline)
    lost = {loss.record for loss in losses}
    undecided = tuple(record for record in missing if record not in lost)
    return losses, Unread(undecided, _reason_unknown(final, facts)) if undecided else Unread()


def _needs_a_final_read(record: PromisedRecord, facts: Facts, began: int | None) -> bool:
    return facts.makes_final_reads and (began is None or record.time_ns <= began)


def _read(calls: Sequence[Call]) -> set[tuple[int | None, str | None]]:
    return {(row.offset, row.value) for call in calls if call.f == "poll" and call.type == "ok" for row in call.rows}


def _losses_shown(missing: Sequence[PromisedRecord], final: Sequence[Call], *, offline: bool) -> list[Loss]:
    """The records that the last answers show to be lost."""
    answered = [call for call in final if call.rows]
    last = denial(final)
    if last is not None and not offline:
        words = f"process {last.process} was told {last.rows[0].error} for its {last.f}: no answer knows the partition any more"
        return [Loss(record, last.ended, words) for record in missing]
    end = max((call.rows[0].offset or 0 for call in answered if call.f == "latest" and call.type == "ok"), default=0)
    empty = _empty_final_poll(answered)
    if empty is None:
        return []
    position = empty.asked[0].offset or 0
    words = f"process {empty.process} was given nothing from offset {position} on, though the log ended at {end}"
    return [Loss(record, empty.ended, words) for record in missing if position <= record.offset < end]


def denial(final: Sequence[Call]) -> Call | None:
    """The last final read, if each that was answered was told that the partition does not exist."""
    answered = [call for call in final if call.rows]
    denied = all(call.type != "ok" and call.rows[0].error in DENIALS for call in answered)
    return answered[-1] if answered and denied else None


def _empty_final_poll(answered: Sequence[Call]) -> Call | None:
    """The last final poll, if it was answered with no records."""
    polls = [call for call in answered if call.f == "poll" and call.asked[0].offset is not None]
    last = polls[-1] if polls else None
    return last if last is not None and last.type == "ok" and all(row.value is None for row in last.rows) else None


def _reason_unknown(final: Sequence[Call], facts: Facts) -> str:
    """Why nobody knows whether the records are there."""
    if not facts.makes_final_reads:
        return "nobody read them"
    if facts.final_reads_at_ns is None:
        return "the history has no final reads"
    if not final:
        return "no final read asked for them"
    failed = [call for call in final if call.type != "ok"]
    if not failed:
        return "the final reads did not get to them"
    last = failed[-1]
    error = last.rows[0].error if last.rows and last.rows[0].error else "no answer"
    return f"{len(failed)} of {len(final)} final reads failed, the last {last.f} with {error}"
