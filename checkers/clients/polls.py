"""Checker of polls: the records of one call are in log order, none left out (Jepsen's int-nonmonotonic-poll, poll-skip …).

A poll at a position returns the records from there on, each once and none left out: the log has no gaps, because there are no
transactions. A record was certainly left out if another poll read a record at that offset in the same generation (docs/promise.md
CUT-1), unless its topic is compacted (DUR-9). The values of one produce are appended in their order.

This checker does not say whether a skipped record is lost; the ledger does.

    >>> from checkers.sketches import sketch
    >>> sketch("polls", "ok poll offset=1 value=a", "ok poll offset=0 value=b")
    ['poll-skip']
"""

from collections.abc import Iterator
from itertools import pairwise

from checkers.engine import screens
from checkers.engine.anomalies import BROKEN_MACHINE, HISTORIES, Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import Facts, is_compacted
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call, OperationRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "polls"
_Known = dict[tuple[int, int], int]  # (offset, generation) -> the first row that read it


def _generation_of_offset(cuts: tuple[Cut, ...], offset: int, epoch: int | None) -> int | None:
    """The number of excused losses that affect this offset up to this epoch; None if that is unknown."""
    above = [cut for cut in cuts if offset >= cut.offset]
    if above and epoch is None:
        return None
    return sum(1 for cut in above if epoch is not None and epoch >= cut.leader_epoch)


def _records(call: Call) -> list[OperationRow]:
    return [row for row in call.rows if row.offset is not None and row.value is not None]


def _offsets_read(polls: list[Call], cuts: tuple[Cut, ...]) -> _Known:
    """Each offset that any poll returned, by generation of the log, with the first row that shows it."""
    first_rows: _Known = {}
    for call in polls:
        for row in _records(call):
            assert row.offset is not None
            generation = _generation_of_offset(cuts, row.offset, row.leader_epoch)
            if generation is not None:
                first_rows.setdefault((row.offset, generation), row.at)
    return first_rows


def _falling_neighbours(call: Call) -> Iterator[tuple[OperationRow, OperationRow]]:
    """Find neighbouring records in the answer to one poll whose offsets do not rise."""
    got = _records(call)
    for first, then in pairwise(got):
        if first.offset is not None and then.offset is not None and then.offset <= first.offset:
            yield first, then


def _skipped_record(call: Call, first_rows: _Known, cuts: tuple[Cut, ...]) -> tuple[str, int, int] | None:
    """Find the first record that a poll left out and another poll read."""
    before = call.asked[0].offset
    kind = "poll-skip"
    for row in _records(call):
        assert row.offset is not None
        for offset in range(row.offset if before is None else before, row.offset):
            generation = _generation_of_offset(cuts, offset, row.leader_epoch)
            at = first_rows.get((offset, generation)) if generation is not None else None
            if at is not None:
                return kind, offset, at
        before = row.offset + 1
        kind = "int-poll-skip"
    return None


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the polls and produces of one partition by the order of records within each call."""
    topic, partition = partition_of(operations, events)
    key, cuts = f"{topic}-{partition}", cuts_of(cuts, topic, partition)
    compacted = is_compacted(facts, topic)
    calls = [call for call in operations.calls if call.type == "ok"]
    polls = [call for call in calls if call.f == "poll"]
    first_rows = _offsets_read(polls, cuts)
    anomalies: list[Anomaly] = []
    for call in calls:
        if call.f == "produce" and call.asked[0].acks != -1:
            continue
        did = "poll" if call.f == "poll" else "produce"
        for first, then in _falling_neighbours(call):
            where = f"{then.value} at offset {then.offset} after {first.value} at offset {first.offset}"
            words = f"one {did} of process {call.process} has {where}"
            kind = f"int-nonmonotonic-{'poll' if call.f == 'poll' else 'send'}"
            anomalies.append(Anomaly(kind=kind, checker=NAME, key=key, witness=(then.at,), words=words))
            break
        else:
            skipped = _skipped_record(call, first_rows, cuts) if call.f == "poll" and not compacted else None
            if skipped is not None:
                kind, offset, at = skipped
                words = f"a poll of process {call.process} left out offset {offset}, where another poll read a record"
                witness = tuple(sorted({at, call.ended}))
                anomalies.append(Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=words))
    return Findings(anomalies=tuple(anomalies))


INT_NONMONOTONIC_POLL = Kind("int-nonmonotonic-poll", Harm.DISORDER, 50, breaks=("MONO",), unshown=HISTORIES)
INT_POLL_SKIP = Kind("int-poll-skip", Harm.MISSED, 20, breaks=("MONO",), unshown=HISTORIES)
POLL_SKIP = Kind("poll-skip", Harm.MISSED, 10, breaks=("MONO",), unshown=BROKEN_MACHINE)
INT_NONMONOTONIC_SEND = Kind("int-nonmonotonic-send", Harm.DISORDER, 60, breaks=("MONO",), unshown=HISTORIES)

CHECKER = Checker(
    name=NAME,
    claim="A poll returns the records from its position on, in log order and none left out; a produce appends in order.",
    assumes="Logs have no gaps: no transactions, no compaction. After an excused loss, answers carry a leader epoch.",
    blind="Records that no poll returned; polls that failed or whose outcome is unknown.",
    reports=(
        INT_NONMONOTONIC_POLL,
        INT_POLL_SKIP,
        POLL_SKIP,
        INT_NONMONOTONIC_SEND,
    ),
    group_by=PARTITION,
    operations=("produce", "poll"),
    check=check,
    screen=screens.polls,
)
