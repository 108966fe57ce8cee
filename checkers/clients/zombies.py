"""Checker of fencing in a run of a black box: a producer whose transactional id was taken over has no effect any more (KIP-98).

Operations `init-transactions`, `txn-send`, `txn-commit` and `txn-abort` are steps of a producer and have a JSON value:
`{"id":"a"}`, and with a txn-send `{"id":"a","sends":{"t-0":[[null,"x"]]}}`, answered with the offsets where they are known.
Operations `read-committed` are answered as `checkers.clients.exactly_once` says. A process has one producer at a time: the one
that it initialized last. What is promised is docs/promise.md SES-4.

A producer is fenced from the row on where a later producer of its id is known to be initialized. One is later if its
initialization was asked for after the other's was done; of two that overlap nobody knows. An initialization that was not
confirmed fences nobody for certain. A producer that is fenced, and does not know it yet, is a zombie.

* A record that a zombie sent or committed is read (`zombie-write`): its commit was not asked for before the producer was fenced.
* A zombie is told that its records were appended, or that they are committed (`unfenced-producer`).
* A record is read whose commit nobody has asked for by then, or certainly failed (`G1a`).
* A record is read that nobody sent (`phantom-read`).
* A record that certainly was committed is not given to a final reader that came to the end (`unseen`): a zombie may have ended
  its transaction.

A commit that was asked for before may take effect, whatever its client was told. If one of its records is read, it did, and the
others are missed. A run without zombies shows nothing: UNKNOWN.

    >>> from checkers.clients.zombies import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> a, sent = '{"id":"a"}', '{"id":"a","sends":{"t-0":[[0,"x"]]}}'
    >>> first = (f"ok init-transactions value={a} process=1", f"ok txn-send value={sent} process=1")
    >>> second = f"ok init-transactions value={a} process=2"
    >>> read = 'ok read-committed value={"records":{"t-0":[[0,"x"]]}} process=3'
    >>> history = history_of(*first, second, f"info txn-commit value={a} process=1", read)
    >>> [one.kind for one in judge(history, (CHECKER,)).anomalies]
    ['zombie-write']
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from checkers.clients.excuses import WOUNDS, excuse_of_sessions
from checkers.clients.order import PHANTOM_READ
from checkers.clients.told import CommittedRead, Placed, Readers, Unreadable
from checkers.clients.transactions import G1A, UNSEEN
from checkers.engine.anomalies import NO_TRANSACTIONS, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, recovery_deadline_ns
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import Call
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "zombies"
_NEVER = 1 << 62
_STEPS = ("init-transactions", "txn-send", "txn-commit", "txn-abort")


class _Told(Struct, forbid_unknown_fields=True):
    """The value of a step."""

    id: str
    sends: Placed = {}


class _Producer(Struct):
    """A producer that certainly was initialized, by the rows of that; `fenced`: the row from which on it is a zombie."""

    id: str
    asked: int
    done: int
    fenced: int = _NEVER


class _Transaction(Struct):
    """What a producer sent: partition, offset (None: not known) and value; `end` is its commit or abort, if anybody asked."""

    producer: _Producer
    sent: list[tuple[Call, tuple[tuple[str, int | None, str], ...]]]  # each send with its records
    end: Call | None = None

    @property
    def commit(self) -> Call | None:
        """Its commit; None if nobody asked for it, or it certainly failed."""
        return self.end if self.end is not None and self.end.f == "txn-commit" and self.end.type != "fail" else None

    @property
    def is_aborted_on_purpose(self) -> bool:
        """Whether all was sent, and its abort was asked for."""
        return self.end is not None and self.end.f == "txn-abort" and all(send.type == "ok" for send, _ in self.sent)

    @property
    def is_of_zombie(self) -> bool:
        """Whether its producer was fenced before it ended."""
        return self.producer.fenced < (_NEVER if self.end is None else self.end.invoked)

    @property
    def appended(self) -> list[tuple[str, str]]:
        """Partition and value of the records that were certainly appended."""
        return [(key, value) for send, records in self.sent for key, value in _appended(send, records)]


def _appended(send: Call, records: Sequence[tuple[str, int | None, str]]) -> list[tuple[str, str]]:
    """The records that a producer was told to be appended: by the outcome of the send, or by their offsets."""
    return [(key, value) for key, offset, value in records if send.type == "ok" or offset is not None]


class _Read(NamedTuple):
    """A read of a value; `at` is its row."""

    key: str
    offset: int
    at: int


class _Run(Struct):
    """What the clients of a run were told."""

    transactions: list[_Transaction]
    read: dict[str, list[_Read]]  # by value, first reads first
    sent: set[str]  # values that anybody wanted to send
    finals: Sequence[tuple[Call, set[str]]] = ()  # the final readers that came to the end, with the values that they were given
    unreadable: Sequence[str] = ()  # what is to be said of values that tell nothing


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the producers of a run; counts certain commits as `transactions`, and calls of zombies that failed as `fenced`."""
    if "txn-send" not in operations.words:
        return Findings()  # no client of this run has a transactional id that others have, too
    run = _facts_of_run(operations, facts)
    anomalies = [*_reads_unpromised(run), *_zombies_served(run)]
    unchecked = [*run.unreadable]
    if not run.finals or run.unreadable:
        unchecked.append(f"{NAME}: no final reader told all committed records to their end: missing ones were not judged")
    else:
        anomalies += _records_unseen(run)
    excuse = excuse_of_sessions(events, facts, cuts)
    if excuse is not None:
        anomalies = [anomaly for anomaly in anomalies if anomaly.kind in (G1A.name, PHANTOM_READ.name)]
        unchecked.append(f"{NAME}: {excuse}: zombies and missing records were not judged")
    fenced = sum(call.type in ("fail", "info") for _, call, _ in _calls_of_zombies(run))
    if not fenced and not anomalies:
        unchecked.append(f"{NAME}: no producer worked on after another one had taken over its id")
    committed = [
        transaction for transaction in run.transactions if transaction.commit is not None and transaction.commit.type == "ok"
    ]
    return Findings(
        anomalies=tuple(anomalies),
        unchecked=tuple(unchecked),
        not_live=tuple(_complaints(run, facts)),
        live_judged=recovery_deadline_ns(facts) is not None,
        counts={"transactions": len(committed), "fenced": fenced},
    )


def _facts_of_run(operations: Operations, facts: Facts) -> _Run:
    """What the calls of a run say of the producers, their transactions and the reads, in the order of the invocations."""
    run, values, readers = _Run(transactions=[], read={}, sent=set()), Unreadable(NAME), Readers(facts)
    producers: list[_Producer] = []
    own: dict[int, _Producer] = {}  # by process
    open_transactions: dict[int, _Transaction] = {}
    for call in sorted(operations.calls, key=lambda call: call.invoked):
        if call.f == "read-committed":
            if call.type == "ok" and (read := values.answer(call, CommittedRead)) is not None:
                readers.take(call, read)
                _take_read(run, call, read)
            continue
        answer = values.answer_or_question(call, _Told)
        if call.f == "txn-send":
            sends = {} if answer is None else answer.sends
            records = tuple((key, offset, value) for key, placed in sends.items() for offset, value in placed)
            run.sent.update(value for _, _, value in records)
            if call.process not in own:
                continue
            if call.process not in open_transactions:
                open_transactions[call.process] = _Transaction(own[call.process], [])
                run.transactions.append(open_transactions[call.process])
            open_transactions[call.process].sent.append((call, records))
            continue
        transaction = open_transactions.pop(call.process, None)
        if call.f == "init-transactions":
            own.pop(call.process, None)
            if call.type == "ok" and answer is not None:
                own[call.process] = _Producer(answer.id, call.invoked, call.ended)
                producers.append(own[call.process])
        elif transaction is not None:
            transaction.end = call
    for producer in producers:
        later = (
            producer_of_id.done
            for producer_of_id in producers
            if producer_of_id.id == producer.id and producer_of_id.asked > producer.done
        )
        producer.fenced = min(later, default=_NEVER)
    for reads in run.read.values():
        reads.sort(key=lambda read: read.at)
    run.finals = readers.at_the_end()
    run.unreadable = values.complaints
    return run


def _take_read(run: _Run, call: Call, read: CommittedRead) -> None:
    """Enter what a reader of committed records was told."""
    for key, placed in read.records.items():
        for offset, value in placed:
            run.read.setdefault(value, []).append(_Read(key, offset, call.ended))


def _reads_unpromised(run: _Run) -> Iterator[Anomaly]:
    """Records that are read although nobody sent them, or had asked for their commit by then, or a producer that was fenced."""
    for value in sorted(run.read.keys() - run.sent) if not run.unreadable else ():
        key, offset, at = run.read[value][0]
        yield _anomaly(PHANTOM_READ.name, key, (at,), f"{value} at offset {offset} of {key} is read, and nobody sent it")
    for transaction in run.transactions:
        producer, commit = transaction.producer, transaction.commit
        for sent, key, value in ((call, key, value) for call, records in transaction.sent for key, _, value in records):
            if value not in run.read:
                continue
            read = run.read[value][0]
            if commit is not None and commit.invoked < min(producer.fenced, read.at):
                continue
            where = f"{value} at offset {read.offset} of {read.key} is read"
            if transaction.is_of_zombie and producer.fenced < read.at:
                words = f"{where}, and its producer was fenced: another one had taken over {producer.id} before its commit"
                yield _anomaly("zombie-write", key, (producer.fenced, read.at), words)
            else:
                words = f"{where}, and its transaction {'did not commit' if commit is None else 'was still open'}"
                yield _anomaly("G1a", key, (sent.ended, read.at), words)


def _calls_of_zombies(run: _Run) -> Iterator[tuple[_Producer, Call, list[tuple[str, str]]]]:
    """The sends, and the commits of what was sent, that a producer asked for when it was fenced; with what was appended."""
    for transaction in run.transactions:
        late = [(call, records) for call, records in transaction.sent if call.invoked > transaction.producer.fenced]
        yield from ((transaction.producer, call, _appended(call, records)) for call, records in late)
        if transaction.end is not None and transaction.end.f == "txn-commit" and transaction.is_of_zombie:
            yield transaction.producer, transaction.end, transaction.appended


def _zombies_served(run: _Run) -> Iterator[Anomaly]:
    """Calls of zombies that succeeded. A commit of nothing that was appended asks no broker."""
    for producer, call, appended in _calls_of_zombies(run):
        if call.type == "ok" and appended:
            done = "commits" if call.f == "txn-commit" else "sends"
            words = f"a producer of {producer.id} {done} {appended[0][1]} after another one had taken the id over"
            yield _anomaly("unfenced-producer", appended[0][0], (producer.fenced, call.ended), words)


def _records_unseen(run: _Run) -> Iterator[Anomaly]:
    """Records of transactions that had certainly committed when a final reader asked, and that it was not given.

    Zombies commit none. A commit of unknown outcome took effect if one of its records was read: each reader that comes to the end
    is given all of them.
    """
    told: set[str] = set()
    for transaction in run.transactions:
        commit = transaction.commit
        if commit is None or transaction.is_of_zombie:
            continue
        values = (value for _, records in transaction.sent for _, _, value in records)
        shown = [read.at for value in values for read in run.read.get(value, ()) if read.at > commit.invoked]
        committed = min([*shown, *([commit.ended] if commit.type == "ok" else [])], default=_NEVER)
        for final, given in run.finals:
            for key, value in transaction.appended if committed < final.invoked else ():
                if value not in given and value not in told:
                    told.add(value)
                    words = f"{value} of {key} was committed, and a final reader came to the end without it"
                    yield _anomaly("unseen", key, (committed, final.ended), words)


def _complaints(run: _Run, facts: Facts) -> Iterator[str]:
    """Why the run is not live: nobody read to the end, or no late transaction was committed."""
    deadline = recovery_deadline_ns(facts)
    if deadline is None:
        return
    if not run.finals:
        yield "no final reader of committed records came to the end of all partitions"
    late = [transaction for transaction in run.transactions if transaction.sent[0][0].invoked_ns >= deadline]
    wanted = [transaction.commit for transaction in late if not (transaction.is_of_zombie or transaction.is_aborted_on_purpose)]
    if wanted and not any(commit is not None and commit.type == "ok" for commit in wanted):
        yield "no transaction with a send was committed from the bound B after healing on"


def _anomaly(kind: str, key: str, witness: tuple[int, ...], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=words)


CHECKER = Checker(
    name=NAME,
    claim="What a producer sends or commits is never read once another one with its transactional id was initialized.",
    assumes="A process has one producer at a time. Values are sent once. What could not be sent is not committed.",
    blind="Commits that are under way while the id is taken over; initializations that overlap or were not confirmed.",
    reports=(
        Kind("zombie-write", Harm.FALSE_READ, 45, unshown=NO_TRANSACTIONS),
        G1A,
        PHANTOM_READ,
        Kind("unfenced-producer", Harm.WRONG_ANSWER, 15, unshown=NO_TRANSACTIONS),
        UNSEEN,
    ),
    group_by=WHOLE_RUN,
    operations=(*_STEPS, "read-committed"),
    events=WOUNDS,
    check=check,
    split=gathered(check),
)
