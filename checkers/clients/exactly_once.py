"""Checker of read-process-write in a run of a black box: what a group commits together with its results is done exactly once.

Operations `process` have a JSON value: `{"group":"g"}`, answered, whatever the outcome, by what the member polled, sent and
wanted to commit: `{"group":"g","records":{"t-0":[[7,"a"]]},"results":{"out-0":[[3,"t-0@7=a"]]},"positions":{"t-0":8}}`. A result
names the record that it is of (`history.results`). Operations `read-committed` are answered by
`{"records":{"out-0":[[3,"t-0@7=a"]]}}`, with `"end":true` if every partition was read to its end.

What is judged (docs/promise.md SES-3):

* No record has two results that can be read (`doubled-result`), and all readers find the same at one offset
  (`inconsistent-offsets`).
* What a failed transaction sent cannot be read (`aborted-result`), nor what nobody had sent by then, or what is of a record
  that nobody had produced (`phantom-result`).
* Results of a transaction that certainly committed, and results that others had read, are given to each reader that comes to the
  end (`lost-result`).
* A record below a position that certainly was committed has a result (`unprocessed-record`): it was acknowledged under acks=all,
  or a member polled it.
* A member that was told that a position is committed is given no record below it again (`resumed-behind`, SES-2): it asks for
  the position after each failure, and gets an old one from a coordinator that does not know that it is none any more.

A transaction of unknown outcome explains a result that is read. It promises none, unless a result was read that nobody else can
have sent: then it committed. A member that never answered may have sent a result of any record: beside one, only a result at the
very offset at which a failed transaction placed it is accused, or one of a record that nobody produced. What is
missing is judged once a final reader came to the end of all results; neither that nor what comes twice is judged if lost bytes
excuse it (`checkers.clients.excuses`). The run is not live if no reader came to the end, or if the group did not pass the
acknowledged records.

    >>> from checkers.clients.exactly_once import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> sent = '{"group":"g","results":{"out-0":[[0,"t-0@7=a"]]},"positions":{"t-0":8}}'
    >>> read = '{"records":{"out-0":[[0,"t-0@7=a"],[2,"t-0@7=a"]]},"end":true}'
    >>> history = history_of(f"ok process value={sent}", f"ok read-committed value={read}")
    >>> sorted({one.kind for one in judge(history, (CHECKER,)).anomalies})
    ['doubled-result', 'phantom-result']
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from checkers.clients.excuses import WOUNDS, excuse_of_sessions
from checkers.clients.group_delivery import RESUMED_BEHIND
from checkers.clients.told import CommittedRead, Placed, Polled, Readers, Unreadable, is_acknowledged, partition_keys
from checkers.durability.offset_agreement import INCONSISTENT_OFFSETS
from checkers.engine.anomalies import NO_TRANSACTIONS, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, recovery_deadline_ns
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import Call
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.results import Source, source_of

NAME = "exactly-once"
_NEVER = 1 << 62
_Place = tuple[str, int]  # a partition, and the offset there


class _Answer(Struct, forbid_unknown_fields=True):
    """The answer to a `process`: what it polled, what it sent, and where its group goes on."""

    group: str
    assigned: list[str] = []
    revoked: list[str] = []
    records: Polled = {}
    results: Placed = {}
    positions: dict[str, int] = {}


class _Process(NamedTuple):
    """One `process` of a member that answered."""

    member: int
    type: str  # ok | fail | info
    asked: int  # the rows of its invocation and completion
    ended: int
    answer: _Answer

    @property
    def results(self) -> Iterator[tuple[str, int | None, str]]:
        """Partition, offset (None: not known) and value of each result that it sent."""
        return ((key, offset, result) for key, placed in self.answer.results.items() for offset, result in placed)


class _Explained(NamedTuple):
    """What explains a result that was read: those that may have sent it there and committed, or one that did not commit."""

    by: tuple[_Process, ...] = ()
    silent: bool = False  # a member that told nothing may have sent it
    aborted: _Process | None = None


class _Run(NamedTuple):
    """What the clients of a run were told."""

    processes: list[_Process]
    read: dict[tuple[_Place, str], int]  # the committed results, each with the row of the first read
    produced: dict[tuple[str, str], int]  # partition and value, with the row that asked for it
    acknowledged: dict[Source, int]  # under acks=all, with the row
    finals: Sequence[tuple[Call, set[str]]] = ()  # the final readers that came to the end, with the results that they were given
    silent: int = _NEVER  # the row of the first `process` that did not tell what it sent
    unreadable: Sequence[str] = ()  # what is to be said of answers that tell nothing

    @property
    def sources(self) -> set[Source | None]:
        """The records of which a result was read."""
        return {source_of(result) for _, result in self.read}


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the results of a run; counts the records whose result was read, and the transactions that certainly committed."""
    if "process" not in operations.words:
        return Findings()  # no client of this run reads, processes and writes
    run = _facts_of_run(operations, facts)
    explained = _explained(run)
    anomalies = list(_results_unexplained(run, explained))
    unchecked = [*run.unreadable]
    excuse = excuse_of_sessions(events, facts, cuts)
    if excuse is not None:
        unchecked.append(f"{NAME}: {excuse}: what is missing or comes twice was not judged")
    else:
        anomalies += [*_results_at_one_place(run), *_results_doubled(run, explained), *_members_behind(run)]
        if not run.finals or run.unreadable:
            unchecked.append(f"{NAME}: no final reader told all results to their end: missing ones were not judged")
        else:
            committed = _committed(run, explained)
            anomalies += [*_results_lost(run, committed, explained), *_records_unprocessed(run, committed)]
    certain = [process for process in run.processes if process.type == "ok" and process.answer.positions]
    return Findings(
        anomalies=tuple(anomalies),
        unchecked=tuple(unchecked),
        not_live=tuple(_complaints(run, facts, excused=excuse is not None)),
        live_judged=recovery_deadline_ns(facts) is not None,
        counts={"processed": len({result for _, result in run.read}), "transactions": len(certain)},
    )


def _facts_of_run(operations: Operations, facts: Facts) -> _Run:
    """What the calls of a run say of the records, their results, the commits and the final reads."""
    keys = partition_keys(operations)
    run = _Run([], {}, {}, {})
    silent, values, readers = _NEVER, Unreadable(NAME), Readers(facts)
    for call in operations.calls:
        if call.f == "produce":
            key = keys.get(call.invoked, "")
            for row in (*call.asked, *call.rows):
                if row.value is not None:
                    run.produced.setdefault((key, row.value), call.invoked)
            if is_acknowledged(call):
                sources = (Source(key, row.offset, row.value or "") for row in call.rows if row.offset is not None)
                run.acknowledged.update(dict.fromkeys(sources, call.ended))
        elif call.f == "process":
            answer = values.answer(call, _Answer)
            if answer is not None:
                run.processes.append(_Process(call.process, call.type, call.invoked, call.ended, answer))
            elif call.type != "fail" or call.rows[0].value is not None:
                silent = min(silent, call.invoked)
        elif call.type == "ok" and (read := values.answer(call, CommittedRead)) is not None:
            for key, placed in read.records.items():
                for offset, result in placed:
                    run.read.setdefault(((key, offset), result), call.ended)
            readers.take(call, read)
    return run._replace(finals=readers.at_the_end(), silent=silent, unreadable=values.complaints)


def _explained(run: _Run) -> dict[tuple[_Place, str], _Explained]:
    """What explains each result that was read. What was asked for after the read explains nothing.

    A place holds one record: where a failed transaction placed the result, no other one placed it that was told another offset,
    or none.
    """
    sent: dict[tuple[str, int | None, str], list[_Process]] = {}  # by transactions that may have committed
    failed: dict[tuple[str, int | None, str], list[_Process]] = {}
    for process in run.processes:
        for placed in process.results:
            (failed if process.type == "fail" else sent).setdefault(placed, []).append(process)
    explained = {}
    for ((key, offset), result), row in run.read.items():
        here, somewhere = (key, offset, result), (key, None, result)
        taken = _asked_before(row, failed.get(here, ()))
        by = _asked_before(row, [*sent.get(here, ()), *([] if taken else sent.get(somewhere, ()))])
        aborted = _asked_before(row, [*taken, *failed.get(somewhere, ())])
        silent = run.silent < row and not taken
        explained[((key, offset), result)] = _Explained(by, silent, aborted[0] if aborted else None)
    return explained


def _asked_before(row: int, processes: Sequence[_Process]) -> tuple[_Process, ...]:
    return tuple(process for process in processes if process.asked < row)


def _committed(run: _Run, explained: dict[tuple[_Place, str], _Explained]) -> list[tuple[_Process, int]]:
    """The transactions that certainly committed, each with the row by which it had.

    One of unknown outcome did if a result was read that nobody else can have sent: all that it sent can be read by then.
    """
    committed = {process.asked: (process, process.ended) for process in run.processes if process.type == "ok"}
    for read, why in explained.items():
        if len({process.asked for process in why.by}) == 1 and not why.silent:
            process, row = committed.get(why.by[0].asked, (why.by[0], _NEVER))
            committed[process.asked] = (process, min(row, run.read[read]))
    return list(committed.values())


def _results_at_one_place(run: _Run) -> Iterator[Anomaly]:
    """Offsets at which readers found different results."""
    first: dict[_Place, tuple[str, int]] = {}
    for (place, result), row in run.read.items():
        first_result, other_row = first.setdefault(place, (result, row))
        if first_result != result:
            words = f"readers found {first_result} and {result} at {_at(place)}"
            yield _anomaly(INCONSISTENT_OFFSETS.name, place[0], (other_row, row), words)


def _results_doubled(run: _Run, explained: dict[tuple[_Place, str], _Explained]) -> Iterator[Anomaly]:
    """Results that can be read at two places; the witnesses are the transactions that sent them there, where they are known."""
    first: dict[str, tuple[_Place, int]] = {}
    for (place, result), row in sorted(run.read.items()):
        by = explained[(place, result)].by
        told = by[0].ended if len(by) == 1 else row
        first_place, first_told = first.setdefault(result, (place, told))
        if first_place != place:
            words = f"{result} is committed at {_at(first_place)} and at {_at(place)}: its record was processed twice"
            yield _anomaly("doubled-result", place[0], (first_told, told), words)


def _members_behind(run: _Run) -> Iterator[Anomaly]:
    """Members that are given records again which are below a position that they were told was committed."""
    told: dict[tuple[int, str], tuple[int, int]] = {}  # by member and partition: the position, and the row of the commit
    for process in sorted(run.processes, key=lambda process: process.asked):
        for key, polled in process.answer.records.items():
            position, row = told.get((process.member, key), (0, 0))
            first = min((offset for offset, _ in polled), default=position)
            if first < position:
                words = f"a member had committed {position} of {key}, and was then given offset {first} again"
                yield _anomaly(RESUMED_BEHIND.name, key, (row, process.ended), words)
        if process.type == "ok":
            told |= {(process.member, key): (position, process.ended) for key, position in process.answer.positions.items()}


def _results_unexplained(run: _Run, explained: dict[tuple[_Place, str], _Explained]) -> Iterator[Anomaly]:
    """Results that can be read and were sent by failed transactions alone, or by nobody, or are of a record that nobody wrote."""
    for (place, result), row in sorted(run.read.items()):
        why, source, at = explained[(place, result)], source_of(result), _at(place)
        if why.by or why.silent:
            if source is None or run.produced.get((source.key, source.value), _NEVER) > row:
                words = f"{result} is the result of a record that nobody had produced"
                yield _anomaly("phantom-result", place[0], (row,), words)
        elif why.aborted is not None:
            words = f"{result} at {at} is read, and the transaction that sent it there did not commit"
            yield _anomaly("aborted-result", place[0], (why.aborted.ended, row), words)
        else:
            yield _anomaly("phantom-result", place[0], (row,), f"{result} at {at} is read, and nobody had sent it there")


def _results_lost(
    run: _Run, committed: list[tuple[_Process, int]], explained: dict[tuple[_Place, str], _Explained]
) -> Iterator[Anomaly]:
    """Results of transactions that had certainly committed, or that others had read, when a final reader asked, without it.

    Each reader that comes to the end is given them (docs/promise.md SES-1).
    """
    told: set[str] = set()
    for final, given in run.finals:
        due = [(key, result, row) for process, row in committed if row < final.invoked for key, _, result in process.results]
        due += [
            (place[0], result, row)
            for (place, result), row in run.read.items()
            if row < final.invoked and (explained[(place, result)].by or explained[(place, result)].silent)
        ]
        for key, result, row in due:
            if result not in given and result not in told:
                told.add(result)
                words = f"{result} of a committed transaction is not among the results that were read to the end"
                yield _anomaly("lost-result", key, (row, final.ended), words)


def _records_unprocessed(run: _Run, committed: list[tuple[_Process, int]]) -> Iterator[Anomaly]:
    """Records below a position that was committed before the final reads, and of which no result was read or certainly sent."""
    last = max(final.invoked for final, _ in run.finals)
    passed: dict[str, tuple[int, int]] = {}  # by partition: the highest position that was committed, and the row
    have_one = run.sources
    known = dict(run.acknowledged)
    for process in run.processes:
        for key, polled in process.answer.records.items():
            for offset, value in polled:
                known.setdefault(Source(key, offset, value), process.ended)
    for process, row in committed:
        have_one.update(source_of(result) for _, _, result in process.results)  # a lost one is told by itself
        for key, position in process.answer.positions.items() if row < last else ():
            passed[key] = max(passed.get(key, (0, 0)), (position, row))
    for record, row in sorted(known.items()):
        position, at = passed.get(record.key, (0, 0))
        if record.offset < position and record not in have_one:
            what = f"{record.value} at offset {record.offset} of {record.key} has no result"
            words = f"{what}, and the group committed position {position}"
            yield _anomaly("unprocessed-record", record.key, (row, at), words)


def _complaints(run: _Run, facts: Facts, *, excused: bool) -> Iterator[str]:
    """Why the run is not live: nobody read the results to their end, or acknowledged records were not processed at the end.

    `excused`: records may be lost.
    """
    if recovery_deadline_ns(facts) is None:
        return
    if not run.finals:
        yield "no final reader came to the end of the committed results"
        return
    have_one = run.sources
    passed: dict[str, int] = {}
    for process in run.processes:
        for key, position in process.answer.positions.items() if process.type == "ok" else ():
            passed[key] = max(passed.get(key, 0), position)
    waiting = [record for record in run.acknowledged if record.offset >= passed.get(record.key, 0) and record not in have_one]
    if waiting and not excused:
        first = min(waiting)
        where = f"{first.value} at offset {first.offset} of {first.key}"
        yield f"the group did not process {len(waiting)} acknowledged records, first {where}"


def _at(place: _Place) -> str:
    return f"offset {place[1]} of {place[0]}"


def _anomaly(kind: str, key: str, witness: tuple[int, ...], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=words)


CHECKER = Checker(
    name=NAME,
    claim="Each record that a group has passed with its results in transactions has one result, which can be read.",
    assumes="Members commit positions in the transaction of the results alone. Each result names its record.",
    blind="Groups that commit by themselves; records of unknown outcome that no member polled.",
    reports=(
        INCONSISTENT_OFFSETS,
        Kind("lost-result", Harm.LOSS, 55, unshown=NO_TRANSACTIONS),
        Kind("unprocessed-record", Harm.LOSS, 65, unshown=NO_TRANSACTIONS),
        Kind("aborted-result", Harm.FALSE_READ, 55, unshown=NO_TRANSACTIONS),
        Kind("phantom-result", Harm.FALSE_READ, 135, unshown=NO_TRANSACTIONS),
        Kind("doubled-result", Harm.DISORDER, 5, unshown=NO_TRANSACTIONS),
        RESUMED_BEHIND,
    ),
    group_by=WHOLE_RUN,
    operations=("process", "read-committed", "produce"),
    events=WOUNDS,
    check=check,
    split=gathered(check),
)
