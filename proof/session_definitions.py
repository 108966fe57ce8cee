"""Definitions of the judges of transactions in sessions (docs/promise.md SES-1, SES-3 and SES-4).

What may have happened, and what no choice of that explains: a transaction of unknown outcome committed or did not. The definition
of SES-3 goes through the choices that agree with what readers were told, and accuses only what is wrong under every one of them.
"""

from itertools import combinations, permutations
from typing import NamedTuple

from history.op import OpType
from history.results import Source, source_of
from proof.log_rows import Call, Case, Operations, calls
from proof.session_rows import (
    NEVER,
    UNJUDGED,
    Final,
    Place,
    Read,
    acknowledged_records,
    answered_at,
    asked_at,
    final_readers,
    is_excused,
    process_of,
    reads_in,
    said,
    subsets,
    told_by,
)  # fmt: skip


class _Transaction(NamedTuple):
    """A call that processed records: its results (partition, offset or None, value) and what it committed with them."""

    process: int
    asked: int
    answered: int
    outcome: OpType | None
    is_silent: bool  # nobody knows what it sent
    results: tuple[tuple[str, int | None, str], ...]
    records: tuple[Source, ...]
    positions: tuple[Place, ...]

    @property
    def is_unknown(self) -> bool:
        return self.outcome not in (OpType.OK, OpType.FAIL)

    def sent(self, read: Read) -> bool:
        """Whether the record that was read may be a result of this transaction."""
        return self.asked < read.at and any(
            (key, value) == (read.key, read.value) and offset in (None, read.offset) for key, offset, value in self.results
        )

    def placed(self, read: Read) -> bool:
        """Whether it was told that this result is at the place where it was read."""
        return self.asked < read.at and (read.key, read.offset, read.value) in self.results


def _transactions(operations: Operations) -> list[_Transaction]:
    found = []
    for call in calls(operations, "process"):
        told = told_by(call)
        found.append(
            _Transaction(
                process=process_of(call),
                asked=asked_at(call),
                answered=answered_at(call),
                outcome=call.answer[0].type if call.answer else None,
                is_silent=not told and not call.failed,
                results=tuple((key, offset, value) for key, of in told.get("results", {}).items() for offset, value in of),
                records=tuple(Source(key, offset, value) for key, of in told.get("records", {}).items() for offset, value in of),
                positions=tuple(told.get("positions", {}).items()),
            )
        )
    return found


def exactly_once(case: Case) -> set[str]:
    """Definition of SES-3: each record below a committed position has one result that can be read, and none has two."""
    reads, transactions, finals = reads_in(case.operations), _transactions(case.operations), final_readers(case)
    if not transactions:
        return set()
    kinds: set[str] = set()
    for read in reads:
        if not any(one.outcome is not OpType.FAIL and _explains(one, read, transactions) for one in transactions):
            failed = any(one.outcome is OpType.FAIL and one.sent(read) for one in transactions)
            kinds.add("aborted-result" if failed else "phantom-result")
        elif not _is_of_a_record(case.operations, read):
            kinds.add("phantom-result")
    if is_excused(case):
        return kinds | {UNJUDGED}
    for one, other in combinations(reads, 2):
        is_one_place = (one.key, one.offset) == (other.key, other.offset)
        if is_one_place and one.value != other.value:
            kinds.add("inconsistent-offsets")
        if not is_one_place and one.value == other.value:
            kinds.add("doubled-result")
    if any(_is_behind(later, earlier) for earlier, later in permutations(transactions, 2)):
        kinds.add("resumed-behind")
    if not finals:
        return kinds | {UNJUDGED}
    found = [_missing(case, transactions, reads, final) for final in finals]
    return kinds.union(*found)


def _is_behind(later: _Transaction, earlier: _Transaction) -> bool:
    """Whether the member of a commit that it was told of is given a record below that commit's position afterwards (SES-2)."""
    is_known = earlier.outcome is OpType.OK and earlier.process == later.process and earlier.answered < later.asked
    return is_known and any(record.key == key and record.offset < at for key, at in earlier.positions for record in later.records)


def _is_of_a_record(operations: Operations, read: Read) -> bool:
    """Whether the result names a record that somebody produced before it was read."""
    source = source_of(read.value)
    return source is not None and any(
        asked_at(call) < read.at and any((f"{row.topic}-{row.partition}", row.value) == source[::2] for row in call.asked)
        for call in calls(operations, "produce")
    )


def _explains(one: _Transaction, read: Read, transactions: list[_Transaction]) -> bool:
    """Whether this transaction, if it committed, explains the result. One place holds one record, so what failed stays there."""
    if one.placed(read):
        return True
    is_taken = any(other.outcome is OpType.FAIL and other.placed(read) for other in transactions)
    return not is_taken and (one.asked < read.at if one.is_silent else one.sent(read))


def _choices(transactions: list[_Transaction], reads: list[Read], sure: list[int]) -> list[tuple[int, ...]]:
    """Each set of transactions that may have committed, with those that did, so that every result that was read is explained."""
    unknown = [at for at, one in enumerate(transactions) if one.is_unknown and not one.is_silent]
    # Of one that was told later that it had committed, and of one that told nothing, anything may have been read.
    others = [one for at, one in enumerate(transactions) if one.is_silent or (one.outcome is OpType.OK and at not in sure)]
    choices = []
    for chosen in subsets(unknown):
        possible = [*(transactions[at] for at in (*sure, *chosen)), *others]
        if all(any(_explains(one, read, transactions) for one in possible) for read in reads):
            choices.append((*sure, *chosen))
    return choices


def _missing(case: Case, transactions: list[_Transaction], reads: list[Read], final: Final) -> set[str]:
    """What a final reader lacks, whichever transactions of unknown outcome committed before it asked."""
    explicable = [r for r in reads if any(o.outcome is not OpType.FAIL and _explains(o, r, transactions) for o in transactions)]
    done = [at for at, one in enumerate(transactions) if one.outcome is OpType.OK]
    certain = set.intersection(*map(set, _choices(transactions, explicable, done)))
    have = {value for at in certain for _, _, value in transactions[at].results} | {read.value for read in reads}
    earlier = [read for read in explicable if read.at < final.asked]
    sure = [at for at in done if transactions[at].answered < final.asked]
    choices = _choices(transactions, earlier, sure)
    found = [_missing_in(case, transactions, [transactions[at] for at in chosen], final, have) for chosen in choices]
    is_gone = any(read.value not in {one.value for one in final.records} for read in earlier)
    return set.intersection(*found) | ({"lost-result"} if is_gone else set())


def _missing_in(
    case: Case, transactions: list[_Transaction], committed: list[_Transaction], final: Final, have: set[str]
) -> set[str]:
    """What the final reader lacks if exactly these transactions committed before it asked.

    A record has a result if it is among those that were read, or certainly committed: a lost one is told by itself.
    """
    kinds: set[str] = set()
    for one in committed:
        if not {value for _, _, value in one.results} <= {read.value for read in final.records}:
            kinds.add("lost-result")
    given = {record for one in transactions for record in one.records} | set(acknowledged_records(case.operations))
    sources = {source_of(value) for value in have}
    for key, position in (place for one in committed for place in one.positions):
        if any(record.key == key and record.offset < position and record not in sources for record in given):
            kinds.add("unprocessed-record")
    return kinds


class _Producer(NamedTuple):
    """A producer of a transactional id, from its initialization on; `fenced` is the row from which another one has the id."""

    id: str
    process: int
    asked: int
    done: int
    fenced: int


def _producers(operations: Operations) -> list[_Producer]:
    """The producers that were certainly initialized. Of two initializations that overlap nobody knows which came last."""
    done = [call for call in calls(operations, "init-transactions") if call.ok]
    return [
        _Producer(
            id=said(call.asked[0])["id"],
            process=process_of(call),
            asked=asked_at(call),
            done=answered_at(call),
            fenced=min(
                (
                    answered_at(other)
                    for other in done
                    if said(other.asked[0])["id"] == said(call.asked[0])["id"] and asked_at(other) > answered_at(call)
                ),
                default=NEVER,
            ),
        )
        for call in done
    ]


class _Sent(NamedTuple):
    """A transaction of a producer: its sends, and the call that ended it, if any."""

    producer: _Producer | None
    sends: tuple[Call, ...]
    end: Call | None

    def values(self) -> set[str]:
        return {value for send in self.sends for value in _values(send)}

    def appended(self) -> set[str]:
        """The values that were certainly appended."""
        told = [(send, *placed) for send in self.sends for of in told_by(send).get("sends", {}).values() for placed in of]
        return {value for send, offset, value in told if send.ok or offset is not None}

    def commits(self) -> bool:
        """Whether somebody asked to commit it, and was not certainly refused."""
        return self.end is not None and self.end.asked[0].f == "txn-commit" and not self.end.failed


def _values(send: Call) -> set[str]:
    return {value for placed in said(send.asked[0])["sends"].values() for _, value in placed}


def _sent(operations: Operations) -> list[_Sent]:
    """The transactions: what a process sent between two of its commits, aborts and initializations."""
    producers = _producers(operations)
    found: list[_Sent] = []
    for process in sorted({row.process for row in operations}):
        steps = [
            call
            for f in ("init-transactions", "txn-send", "txn-commit", "txn-abort")
            for call in calls(operations, f)
            if process_of(call) == process
        ]
        sends: list[Call] = []
        producer: _Producer | None = None
        for step in sorted(steps, key=asked_at):
            if step.asked[0].f == "txn-send":
                sends.append(step)
                continue
            is_end = step.asked[0].f != "init-transactions"
            found.append(_Sent(producer, tuple(sends), step if is_end else None))
            sends = []
            if not is_end and step.ok:
                producer = next(one for one in producers if one.done == answered_at(step))
        found.append(_Sent(producer, tuple(sends), None))
    return [one for one in found if one.sends]


def zombies(case: Case) -> set[str]:
    """Definition of SES-4 and SES-1: a producer whose id was taken over has no effect, and others have theirs."""
    transactions, reads = _sent(case.operations), reads_in(case.operations)
    if not transactions:
        return set()
    kinds: set[str] = set()
    is_vacuous = True
    for at, read in enumerate(reads):
        if any(read.value == earlier.value for earlier in reads[:at]):
            continue  # it is reported once, at its first read
        senders = [one for one in transactions if read.value in one.values()]
        kinds |= {_wrong(one, read) for one in senders} if senders else {"phantom-read"}
    for one in transactions:
        fenced = one.producer.fenced if one.producer else NEVER
        end = [one.end] if one.end and one.end.asked[0].f == "txn-commit" else []
        late = [call for call in (*one.sends, *end) if asked_at(call) > fenced and call.answer]
        is_vacuous &= all(call.ok for call in late)
        # A commit of nothing that was appended asks no broker.
        if any(call.ok and (call in one.sends or one.appended()) for call in late):
            kinds.add("unfenced-producer")
    finals = final_readers(case)
    for final in finals:
        kinds |= _unseen(transactions, reads, final)
    kinds.discard("")
    if is_excused(case):
        return (kinds & {"G1a", "phantom-read"}) | {UNJUDGED}
    return kinds | ({UNJUDGED} if (is_vacuous and not kinds) or not finals else set())


def _wrong(one: _Sent, read: Read) -> str:
    """Why nobody may read a record of this transaction at this row; empty: one may."""
    fenced = one.producer.fenced if one.producer else NEVER
    ended = asked_at(one.end) if one.end else NEVER
    if one.commits() and ended < min(fenced, read.at):
        return ""
    return "zombie-write" if fenced < min(ended, read.at) else "G1a"


def _unseen(transactions: list[_Sent], reads: list[Read], final: Final) -> set[str]:
    """SES-1: what committed before a final reader asked is read by it; a record that was read is of such a transaction."""
    seen = {read.value for read in final.records}
    for one in transactions:
        fenced = one.producer.fenced if one.producer else NEVER
        if not one.commits() or one.end is None or asked_at(one.end) > fenced:
            continue
        is_told = one.end.ok and answered_at(one.end) < final.asked
        is_shown = any(read.value in one.values() and asked_at(one.end) < read.at < final.asked for read in reads)
        if (is_told or is_shown) and not one.appended() <= seen:
            return {"unseen"}
    return set()
