"""Checker of transactions of sends and polls in a run of a black box: Jepsen's rules for queues, and Elle's for list-append.

Operations `txn` have the value of Jepsen's as JSON: `[["send","t-0","w0-1"],["poll"]]`, answered by
`[["send","t-0",[7,"w0-1"]],["poll",{"t-0":[[6,"w1-4"]]},"end"]]`. "end" says that every partition was read to its end.
What is promised is docs/promise.md SES-1.
`checkers.kafka` judges them as they are. For Elle a send is an append, and a poll a read of all that the process has read of the
partition: it reads from the beginning, and after a commit of unknown outcome it is another process, which begins anew.

Kafka promises less than read-committed, and what it allows is not reported (docs/systems.md): records of several transactions
interleave (G0, G1c with ww), and a poll may end within a transaction's records (G1b). A record that was acknowledged and never
polled (unseen) accuses only if a final reader came to the end of all partitions.

    >>> from checkers.sketches import history_of
    >>> from checkers.clients.transactions import CHECKER
    >>> from checkers.judge import judge
    >>> told = '[["poll",{"t-0":[[0,"b"]]},"end"]]'
    >>> history = history_of('ok txn value=[["send","t-0",[0,"a"]]]', f"ok txn value={told}")
    >>> sorted({one.kind for one in judge(history, (CHECKER,)).anomalies})
    ['inconsistent-offsets', 'lost-write', 'phantom-read']
"""

import json
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from checkers.clients.duplicates import DUPLICATE
from checkers.clients.excuses import WOUNDS, excuse_of_sessions
from checkers.clients.order import PHANTOM_READ
from checkers.clients.polls import INT_NONMONOTONIC_POLL, INT_NONMONOTONIC_SEND, INT_POLL_SKIP, POLL_SKIP
from checkers.durability.acked_loss import LOST_WRITE
from checkers.durability.offset_agreement import INCONSISTENT_OFFSETS
from checkers.engine.anomalies import NO_TRANSACTIONS, WITHOUT_NOTES, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, is_final, recovery_deadline_ns
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.errors import HistoryError
from history.foreign.jsonlines import frozen
from history.foreign.pairing import pair
from history.foreign.step import Pairs, Step
from history.op import OpType

if TYPE_CHECKING:
    from checkers.linearizability.judge import Judgement

NAME = "transactions"
LEVEL = "read-committed"  # of Elle's names the nearest to what Kafka promises
ALLOWED = frozenset({"G0", "G1b", "G1c"})  # of those that it forbids: transactions interleave, and polls end anywhere
UNEXCUSED = frozenset({"G1a", "precommitted-read", "phantom-read"})  # what no lost bytes explain
G1A = Kind("G1a", Harm.FALSE_READ, 50, unshown=NO_TRANSACTIONS)
UNSEEN = Kind("unseen", Harm.LOSS, 30, unshown=WITHOUT_NOTES)
_END = "end"
_LINE = re.compile(r"\bline (\d+)")


def steps(operations: Operations) -> list[Step]:
    """The transactions as steps; a process has a new number after an outcome that is unknown. HistoryError for a bad value."""
    queue_steps = []
    for index, process, type_, value, time_ns in operations.columns("index", "process", "type", "value", "time_ns"):
        try:
            parsed = None if value is None else frozen(json.loads(value))
        except (ValueError, RecursionError) as error:
            raise HistoryError(f"row {index}: the value of a transaction is not JSON: {value[:40]!r}") from error
        if parsed is not None and not (isinstance(parsed, tuple) and all(map(_is_micro, parsed))):
            raise HistoryError(f"row {index}: the value of a transaction is no list of sends and polls: {value[:40]!r}")
        queue_steps.append(Step(index, process, OpType(type_), "txn", parsed, None, time_ns, index))
    return queue_steps


def _is_micro(micro: Hashable) -> bool:
    """Whether a part of a value is a send or a poll, as the module's docstring has them."""
    match micro:
        case ("send", str(), str()) | ("send", str(), (int() | None, str())) | ("poll",):
            return True
        case ("poll", Pairs() as polled) | ("poll", Pairs() as polled, "end"):
            return all(
                isinstance(records, tuple) and all(isinstance(record, tuple) and len(record) == 2 for record in records)
                for _, records in polled
            )
        case _:
            return False


def appended(queue_steps: Sequence[Step]) -> Iterator[Step]:
    """The same steps as transactions of list-append. Those without a send, and without a record polled, are left out."""
    values_read: dict[Hashable, dict[Hashable, tuple[Hashable, ...]]] = {}  # process -> key -> the values that it has read
    invocations: dict[Hashable, Step] = {}
    for step in queue_steps:
        if step.type is OpType.INVOKE:
            invocations[step.process] = step
            continue
        invocation = invocations.pop(step.process)
        micros = _micros(step if step.value is not None else invocation)
        values_of_process = dict(values_read.get(step.process, {}))
        wants: list[tuple[Hashable, ...]] = []
        gets: list[tuple[Hashable, ...]] = []
        for micro in micros:
            if micro[0] == "send":
                append = ("append", micro[1], _value(micro[2]))
                wants.append(append)
                gets.append(append)
            elif step.type is OpType.OK:
                for key, values in _records_polled(micro):
                    values_of_process[key] = (*values_of_process.get(key, ()), *values)
                    wants.append(("r", key, None))
                    gets.append(("r", key, values_of_process[key]))
        if step.type is OpType.OK:
            values_read[step.process] = values_of_process
        if wants:
            yield replace(invocation, value=tuple(wants))
            yield replace(step, value=tuple(gets))
    for invocation in invocations.values():
        sends = tuple(("append", micro[1], micro[2]) for micro in _micros(invocation) if micro[0] == "send")
        if sends:
            yield replace(invocation, value=sends)


def _micros(step: Step) -> tuple[Any, ...]:
    return step.value if isinstance(step.value, tuple) else ()


def _value(sent: Hashable) -> Hashable:
    return sent[1] if isinstance(sent, tuple) and len(sent) == 2 else sent


def _records_polled(micro: tuple[Any, ...]) -> Iterator[tuple[Hashable, list[Hashable]]]:
    for key, records in micro[1] if len(micro) > 1 else ():
        yield key, [value for _, value in records]


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the transactions of a run; counts those that certainly committed a send."""
    if not operations.height:
        return Findings()  # no client of this run makes transactions
    # Not at the top: every command imports the list of checkers, and these judges take as long to import as all others together.
    from checkers.elle.judge import judge as judge_elle
    from checkers.kafka.judge import judge as judge_queue

    try:
        queue_steps = steps(operations)
        queue = judge_queue(queue_steps)
        # Where an operation was left out or put behind its call, the order of the others stays, and indices say where it was.
        lists = judge_elle("list-append", pair(sorted(appended(queue_steps), key=lambda step: step.line)), (LEVEL,))
    except HistoryError as error:
        return Findings(unchecked=(f"{NAME}: {error}",))
    ended = _was_read_to_the_end(queue_steps, facts)
    anomalies = [*_in_rows(queue), *(anomaly for anomaly in _in_rows(lists) if anomaly.kind not in ALLOWED)]
    excuse = excuse_of_sessions(events, facts, cuts)
    excused = [] if excuse is None else [f"{NAME}: {excuse}: missing and reordered records were not judged"]
    if excused:
        anomalies = [anomaly for anomaly in anomalies if anomaly.kind in UNEXCUSED]
    unseen = [anomaly for anomaly in anomalies if anomaly.kind == "unseen"]
    if unseen and not ended:
        anomalies = [anomaly for anomaly in anomalies if anomaly.kind != "unseen"]
    unread = [f"{NAME}: {len(unseen)} acknowledged values were not polled, and no final reader came to the end"]
    unchecked = [
        *excused,
        *(unread if unseen and not ended else ()),
        *(f"{NAME}: {why}" for why in (*queue.unchecked, *lists.unchecked)),
    ]
    committed = [step for step in queue_steps if step.type is OpType.OK and any(micro[0] == "send" for micro in _micros(step))]
    return Findings(
        anomalies=tuple(_without_repetition(anomalies)),
        unchecked=tuple(dict.fromkeys(unchecked)),
        not_live=tuple(_complaints(queue_steps, facts, ended=ended)),
        live_judged=recovery_deadline_ns(facts) is not None,
        counts={"transactions": len(committed)},
    )


def _in_rows(judgement: "Judgement") -> list[Anomaly]:
    """The judges read files and cite lines; a run has rows."""
    return [replace(anomaly, checker=NAME, words=_LINE.sub(r"row \1", anomaly.words)) for anomaly in judgement.anomalies]


def _without_repetition(anomalies: list[Anomaly]) -> Iterator[Anomaly]:
    """Each anomaly once: both judges name records that an aborted transaction sent, or that nobody did."""
    reported: set[tuple[str, tuple[int, ...]]] = set()
    for anomaly in anomalies:
        of = (anomaly.kind, tuple(sorted(anomaly.witness)))
        if of not in reported:
            reported.add(of)
            yield anomaly


def _was_read_to_the_end(queue_steps: Sequence[Step], facts: Facts) -> bool:
    """Whether a poll that came after the quiet time says that all partitions were read to their ends."""
    return any(
        step.type is OpType.OK and step.time is not None and is_final(facts, step.time) and micro[-1] == _END
        for step in queue_steps
        for micro in _micros(step)
    )


def _complaints(queue_steps: Sequence[Step], facts: Facts, *, ended: bool) -> Iterator[str]:
    """Why the run is not live: the final readers did not reach the end, or no late transaction was committed."""
    deadline = recovery_deadline_ns(facts)
    if deadline is None:
        return
    if not ended:
        yield "no final reader of committed records came to the end of all partitions"
    late_processes: set[Hashable] = set()
    tried = done = 0
    for step in queue_steps:
        if step.type is OpType.INVOKE:
            is_late_send = step.time is not None and step.time >= deadline and any(micro[0] == "send" for micro in _micros(step))
            (late_processes.add if is_late_send else late_processes.discard)(step.process)
            tried += is_late_send
        elif step.process in late_processes:
            done += step.type is OpType.OK
    if tried and not done:
        yield "no transaction with a send was committed from the bound B after healing on"


CHECKER = Checker(
    name=NAME,
    claim="Transactions of sends and polls keep what Kafka promises of them: no aborted, lost, doubled or reordered records.",
    assumes="Each process reads every partition from its beginning. Values are sent once.",
    blind="What Kafka allows: interleaved transactions, and polls that end within one. The inside of the cluster.",
    reports=(
        INCONSISTENT_OFFSETS,
        DUPLICATE,
        G1A,
        Kind("precommitted-read", Harm.FALSE_READ, 70, unshown=NO_TRANSACTIONS),
        LOST_WRITE,
        UNSEEN,
        POLL_SKIP,
        Kind("nonmonotonic-poll", Harm.DISORDER, 70, unshown=NO_TRANSACTIONS),
        INT_POLL_SKIP,
        INT_NONMONOTONIC_POLL,
        INT_NONMONOTONIC_SEND,
        Kind("nonmonotonic-send", Harm.DISORDER, 80, unshown=WITHOUT_NOTES),
        Kind("G1c", Harm.FALSE_READ, 90, unshown=NO_TRANSACTIONS),
        Kind("G1c-realtime", Harm.FALSE_READ, 100, unshown=NO_TRANSACTIONS),
        PHANTOM_READ,
        Kind("duplicate-elements", Harm.DISORDER, 100, unshown=NO_TRANSACTIONS),
        Kind("incompatible-order", Harm.DISORDER, 10, unshown=NO_TRANSACTIONS),
        Kind("cyclic-versions", Harm.DISORDER, 20, unshown=NO_TRANSACTIONS),
        Kind("dirty-update", Harm.FALSE_READ, 60, unshown=NO_TRANSACTIONS),
        Kind("future-read", Harm.FALSE_READ, 80, unshown=NO_TRANSACTIONS),
    ),
    group_by=WHOLE_RUN,
    operations=("txn",),
    events=WOUNDS,
    check=check,
    split=gathered(check),
)  # fmt: skip
