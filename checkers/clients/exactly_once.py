"""Checker of read-process-write in a run of a black box: what a group commits together with its results is done exactly once.

Operations `process` have a JSON value: `{"group":"g"}`, answered, whatever the outcome, by what the member polled, sent and
wanted to commit: `{"group":"g","records":{"t-0":[[7,"a"]]},"results":{"out-0":[[3,"t-0@7=a"]]},"positions":{"t-0":8}}`. A result
names the record that it is of (`history.results`). Operations `read-committed` are answered by
`{"records":{"out-0":[[3,"t-0@7=a"]]}}`, with `"end":true` if every partition was read to its end.

What is judged (docs/promise.md SES-3):

* No record has two results that can be read (`doubled-result`).
* What a failed transaction sent cannot be read (`aborted-result`), nor what nobody sent (`phantom-result`).
* Results of a transaction that certainly committed are read at the end (`lost-result`).
* A record below a position that certainly was committed has a result (`unprocessed-record`): it was acknowledged under acks=all,
  or a member polled it.

A transaction of unknown outcome explains a result that is read and promises none. What is missing is judged once a final reader
came to the end of all results. The run is not live if none did, or if the group did not pass the acknowledged records.

    >>> from checkers.clients.exactly_once import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> sent = '{"group":"g","results":{"out-0":[[0,"t-0@7=a"]]},"positions":{"t-0":8}}'
    >>> read = '{"records":{"out-0":[[0,"t-0@7=a"],[2,"t-0@7=a"]]},"end":true}'
    >>> history = history_of(f"ok process value={sent}", f"ok read-committed value={read}")
    >>> sorted({one.kind for one in judge(history, (CHECKER,)).anomalies})
    ['doubled-result', 'phantom-result']
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

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
_ACKS_ALL = -1
_Place = tuple[str, int]  # a partition, and the offset there


class _Process(NamedTuple):
    """One `process` of a member: where it placed which results (None: not known), what it polled, and its positions."""

    type: str  # ok | fail | info
    ended: int  # the row of its completion
    results: tuple[tuple[str, int | None, str], ...]
    records: tuple[Source, ...]
    positions: dict[str, int]


class _Run(NamedTuple):
    """What the clients of a run were told."""

    processes: list[_Process]
    blind: bool  # a `process` did not tell what it sent
    read: dict[_Place, tuple[str, int]]  # the committed results, with the row of the first read
    ended: int | None  # the row of a final read that came to the end of all results
    produced: set[tuple[str, str]]  # partition and value
    acknowledged: dict[Source, int]  # under acks=all, with the row


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the results of a run; counts the records whose result was read, and the transactions that certainly committed."""
    if "process" not in operations.words:
        return Findings()  # no client of this run reads, processes and writes
    run = _facts_of_run(operations, facts)
    anomalies = [*_results_doubled(run), *_results_unexplained(run)]
    unchecked = []
    if run.ended is None:
        unchecked.append(f"{NAME}: no final reader came to the end of the results: missing ones were not judged")
    else:
        anomalies += [*_results_lost(run), *_records_unprocessed(run)]
    committed = [process for process in run.processes if process.type == "ok" and process.positions]
    return Findings(
        anomalies=tuple(anomalies),
        unchecked=tuple(unchecked),
        not_live=tuple(_complaints(run, facts)),
        live_judged=recovery_deadline_ns(facts) is not None,
        counts={"processed": len({result for result, _ in run.read.values()}), "transactions": len(committed)},
    )


def _facts_of_run(operations: Operations, facts: Facts) -> _Run:
    """What the calls of a run say of the records, their results, the commits and the final reads."""
    about = operations.columns("index", "topic", "partition")
    keys = {index: f"{topic}-{partition}" for index, topic, partition in about if partition is not None}
    run = _Run([], False, {}, None, set(), {})
    blind, ended = False, None
    for call in operations.calls:
        if call.f == "process":
            process = _process_told(call)
            blind = blind or process is None
            run.processes.extend(() if process is None else (process,))
        elif call.f == "read-committed" and call.type == "ok":
            answer = _json_of_answer(call)
            for key, offset, value in _records_told(answer, "records"):
                run.read.setdefault((key, offset), (value, call.ended))
            final = facts.final_reads_at_ns is not None and call.invoked_ns >= facts.final_reads_at_ns
            ended = call.ended if answer.get("end") is True and final else ended
        elif call.f == "produce":
            key = keys.get(call.invoked, "")
            run.produced.update((key, row.value) for row in (*call.asked, *call.rows) if row.value is not None)
            if call.type == "ok" and call.asked[0].acks == _ACKS_ALL:
                sources = (Source(key, row.offset, row.value or "") for row in call.rows if row.offset is not None)
                run.acknowledged.update(dict.fromkeys(sources, call.ended))
    return run._replace(blind=blind, ended=ended)


def _json_of_answer(call: Call) -> dict[str, Any]:
    """The JSON of a completion; empty if there is none."""
    try:
        answer = json.loads(call.rows[0].value or "{}") if call.rows else {}
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _records_told(answer: dict[str, Any], of: str) -> Iterator[tuple[str, Any, str]]:
    """Partition, offset and value of each record that an answer has under this name."""
    for key, records in answer.get(of, {}).items():
        for offset, value in records:
            yield key, offset, value


def _process_told(call: Call) -> _Process | None:
    """What a `process` tells; None if it has no answer, and may have sent anything."""
    answer = _json_of_answer(call)
    if not answer:
        return None
    records = tuple(Source(*placed) for placed in _records_told(answer, "records"))
    return _Process(call.type, call.ended, tuple(_records_told(answer, "results")), records, answer.get("positions", {}))


def _results_doubled(run: _Run) -> Iterator[Anomaly]:
    """Results that can be read at two places."""
    first: dict[str, tuple[_Place, int]] = {}
    for place, (result, row) in sorted(run.read.items()):
        other = first.setdefault(result, (place, row))
        if other[0] != place:
            words = f"{result} is committed at {_at(other[0])} and at {_at(place)}: its record was processed twice"
            yield _anomaly("doubled-result", place[0], (other[1], row), words)


def _results_unexplained(run: _Run) -> Iterator[Anomaly]:
    """Results that can be read and were sent by failed transactions alone, or by nobody, or are of a record that nobody wrote."""
    known: set[tuple[_Place, str]] = set()  # what transactions that may have committed sent
    somewhere: set[tuple[str, str]] = set()  # the same without the offset, where it is not known
    failed: dict[tuple[str, str], int] = {}  # what failed ones sent to a partition, with the row
    for process in run.processes:
        for key, offset, result in process.results:
            if process.type == "fail":
                failed[(key, result)] = process.ended
            elif offset is None:
                somewhere.add((key, result))
            else:
                known.add(((key, offset), result))
    for place, (result, row) in sorted(run.read.items()):
        sent = (place[0], result)
        source = source_of(result)
        if (place, result) not in known and sent not in somewhere:
            if sent in failed:
                words = f"{result} at {_at(place)} is read, and the transaction that sent it there did not commit"
                yield _anomaly("aborted-result", place[0], (failed[sent], row), words)
            elif not run.blind:
                yield _anomaly("phantom-result", place[0], (row,), f"{result} at {_at(place)} is read, and nobody sent it there")
        elif source is None or (source.key, source.value) not in run.produced:
            yield _anomaly("phantom-result", place[0], (row,), f"{result} is the result of a record that nobody produced")


def _results_lost(run: _Run) -> Iterator[Anomaly]:
    """Results of transactions that certainly committed, and that the final readers passed by."""
    assert run.ended is not None
    results = {result for result, _ in run.read.values()}
    for process in run.processes:
        if process.type == "ok":
            for key, _, result in process.results:
                if result not in results:
                    words = f"{result} of a committed transaction is not among the results that were read to the end"
                    yield _anomaly("lost-result", key, (process.ended, run.ended), words)


def _records_unprocessed(run: _Run) -> Iterator[Anomaly]:
    """Records below a committed position that have no result, and of which no committed transaction sent one."""
    assert run.ended is not None
    passed: dict[str, tuple[int, int]] = {}  # by partition: the highest position that was committed, and the row
    have_one = {source_of(result) for result, _ in run.read.values()}
    known = dict(run.acknowledged)
    for process in run.processes:
        known |= {record: process.ended for record in process.records if record not in known}
        if process.type == "ok":
            have_one.update(source_of(result) for _, _, result in process.results)  # a lost one is told by itself
            for key, position in process.positions.items():
                passed[key] = max(passed.get(key, (0, 0)), (position, process.ended))
    for record, row in sorted(known.items()):
        position, committed = passed.get(record.key, (0, 0))
        if record.offset < position and record not in have_one:
            what = f"{record.value} at offset {record.offset} of {record.key} has no result"
            words = f"{what}, and the group committed position {position}"
            yield _anomaly("unprocessed-record", record.key, (row, committed), words)


def _complaints(run: _Run, facts: Facts) -> Iterator[str]:
    """Why the run is not live: nobody read the results to their end, or acknowledged records were not processed at the end."""
    if recovery_deadline_ns(facts) is None:
        return
    if run.ended is None:
        yield "no final reader came to the end of the committed results"
        return
    have_one = {source_of(result) for result, _ in run.read.values()}
    passed: dict[str, int] = {}
    for process in run.processes:
        for key, position in process.positions.items():
            passed[key] = max(passed.get(key, 0), position if process.type == "ok" else 0)
    waiting = [record for record in run.acknowledged if record.offset >= passed.get(record.key, 0) and record not in have_one]
    if waiting:
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
        Kind("lost-result", Harm.LOSS, 55, unshown=NO_TRANSACTIONS),
        Kind("unprocessed-record", Harm.LOSS, 65, unshown=NO_TRANSACTIONS),
        Kind("aborted-result", Harm.FALSE_READ, 55, unshown=NO_TRANSACTIONS),
        Kind("phantom-result", Harm.FALSE_READ, 135, unshown=NO_TRANSACTIONS),
        Kind("doubled-result", Harm.DISORDER, 5, unshown=NO_TRANSACTIONS),
    ),
    group_by=WHOLE_RUN,
    operations=("process", "read-committed", "produce"),
    check=check,
    split=gathered(check),
)
