"""Parse the operations of a history of sends and polls.

An operation is a list of micro-operations: `[:send k v]`, answered by `[:send k [offset v]]`, and `[:poll]`, answered by
`[:poll {k [[offset v] ...]}]`. A key is one partition of a topic; values are unique to a key and never sent twice. A completion
without a value takes that of its invocation; offsets may be nil. Operations that failed or crashed are kept: the records they
polled were read, and the records they sent may turn up.
"""

from collections.abc import Hashable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from history.errors import HistoryError
from history.foreign.pairing import WITHOUT_INVOCATIONS, pair
from history.foreign.step import Step, short
from history.op import OpType

TRANSACTIONS = ("send", "poll", "txn")
_PLACES = ("assign", "subscribe")
_CRASH = "crash"
_ASKS = "debug-topic-partitions"  # its answer shows nothing of a log

Record = tuple[Hashable, int | None, Hashable]  # key, offset, value


class Op(Struct, frozen=True, kw_only=True, gc=False):
    """One operation of sends and polls. `end` is None if it is unknown when, or whether, it took effect."""

    number: int  # position among the operations, in order of completion; those that never completed come last
    line: int  # of the completion, or of the invocation if there is none
    process: Hashable
    type: OpType
    start: int
    end: int | None
    sends: tuple[Record, ...] = ()
    polls: tuple[Record, ...] = ()
    polled: bool = False  # it contains a poll, whatever that returned
    rebalanced: frozenset[Hashable] = frozenset()  # keys assigned or revoked meanwhile
    subscribed: bool = False  # the cluster decides what this process reads
    forgets: bool = False  # it resets the positions of the process, except for the keys in `keeps`
    keeps: frozenset[Hashable] = frozenset()
    f: str


def operations(steps: Iterable[Step]) -> list[Op]:
    """Parse the operations of sends and polls, in order of completion. HistoryError, with the line, for another kind."""
    all_steps = list(steps)
    paired = pair(all_steps)  # it rejects malformed histories: two completions of one call, steps out of order
    if WITHOUT_INVOCATIONS in paired.notes:
        raise HistoryError(f"line {all_steps[0].line}: a queue cannot be judged without invocations: {all_steps[0].f} has none")
    for why in paired.unsure:
        raise HistoryError(why)
    open_steps: dict[Hashable, tuple[int, Step]] = {}
    subscribed: set[Hashable] = set()
    ops: list[Op] = []
    for position, step in enumerate(all_steps):
        if step.type is OpType.INVOKE:
            open_steps[step.process] = (position, step)
            continue
        start, invocation = open_steps.pop(step.process)
        if step.f in _PLACES and step.type is not OpType.FAIL:
            (subscribed.add if step.f == "subscribe" else subscribed.discard)(step.process)
        op = _op_of(len(ops), start, invocation, step, subscribed=step.process in subscribed)
        ops.append(replace(op, end=position) if op.type is OpType.OK else op)
    for start, invocation in sorted(open_steps.values(), key=lambda pending: pending[0]):
        ops.append(_op_of(len(ops), start, invocation, None, subscribed=invocation.process in subscribed))
    return ops


def _op_of(number: int, start: int, invocation: Step, answered: Step | None, *, subscribed: bool) -> Op:
    """The operation of an invocation and its answer. Raises HistoryError for an unknown function."""
    if invocation.f not in (*TRANSACTIONS, *_PLACES, _CRASH, _ASKS):
        raise HistoryError(
            f"line {invocation.line}: {invocation.f} is not a function of a queue like Kafka; "
            "allowed are send, poll, txn, assign, subscribe, crash and debug-topic-partitions"
        )
    step = invocation if answered is None or answered.value is None else answered
    type_ = OpType.INFO if answered is None else answered.type
    sends: tuple[Record, ...] = ()
    polls: tuple[Record, ...] = ()
    polled = False
    if invocation.f in TRANSACTIONS:
        micros = _micros(step)
        sends = tuple(_record_of_send(step, micro, answered=step is answered) for micro in micros if micro[0] == "send")
        polls = tuple(record for micro in micros if micro[0] == "poll" for record in _records_of_poll(step, micro))
        polled = any(micro[0] == "poll" for micro in micros)
    moves = invocation.f in _PLACES and type_ is not OpType.FAIL
    return Op(
        number=number,
        line=(answered or invocation).line,
        process=invocation.process,
        type=type_,
        start=start,
        end=None,
        sends=sends,
        polls=polls,
        polled=polled,
        rebalanced=frozenset(key_of(key) for key in (answered or invocation).rebalanced),
        subscribed=subscribed,
        forgets=moves or invocation.f == _CRASH,
        keeps=_keys_kept(step) if moves and not (invocation.rewinds or step.rewinds) else frozenset(),
        f=invocation.f,
    )


def _keys_kept(step: Step) -> frozenset[Hashable]:
    """The keys that a move names, in which the process keeps its position."""
    if step.value is None:
        return frozenset()
    if not isinstance(step.value, tuple | frozenset):
        raise HistoryError(f"line {step.line}: {step.f} must name a list of keys, not {short(step.value)}")
    return frozenset(key_of(key) for key in step.value)


def _micros(step: Step) -> tuple[tuple[Hashable, ...], ...]:
    """The micro-operations of a transaction. Raises HistoryError."""
    value = step.value
    if not isinstance(value, tuple):
        raise HistoryError(f"line {step.line}: {step.f} must be a list of [:send k v] and [:poll], not {short(value)}")
    for micro in value:
        fits = isinstance(micro, tuple) and micro and ((micro[0] == "send" and len(micro) == 3) or micro[0] == "poll")
        if not fits:
            raise HistoryError(f"line {step.line}: a micro-operation must be [:send k v] or [:poll], not {short(micro)}")
    return value


def _record_of_send(step: Step, micro: tuple[Hashable, ...], *, answered: bool) -> Record:
    """The record of a send; its offset is known from the answer."""
    value = micro[2]
    if not answered or not isinstance(value, tuple):
        return key_of(micro[1]), None, value
    if len(value) != 2 or not _may_be_offset(value[0]):
        raise HistoryError(f"line {step.line}: the answer to a send must be [offset value], not {short(value)}")
    return key_of(micro[1]), value[0], value[1]


def _records_of_poll(step: Step, micro: tuple[Hashable, ...]) -> Iterator[Record]:
    """Yield the records of a poll: those of a map of keys, which may be written as a list of pairs."""
    found = micro[1] if len(micro) > 1 and micro[1] is not None else ()
    pairs = found if isinstance(found, tuple) else None
    for pair_ in pairs if pairs is not None else (None,):
        records = pair_[1] if isinstance(pair_, tuple) and len(pair_) == 2 else None
        if not isinstance(records, tuple):
            raise HistoryError(f"line {step.line}: the answer to a poll must be {{key [[offset value] …]}}, not {short(found)}")
        key = key_of(pair_[0])
        for record in records:
            if type(record) is not tuple or len(record) != 2 or not _may_be_offset(record[0]):
                raise HistoryError(f"line {step.line}: a record must be [offset value], not {short(record)}")
            offset, value = record
            if value is not None:
                yield key, offset, value


def _may_be_offset(value: Hashable) -> bool:
    return value >= 0 if type(value) is int else value is None


def key_of(key: Hashable) -> Hashable:
    """Return the key (partition) of a micro-operation; text of digits becomes a number, because JSON keys are text."""
    return int(key) if isinstance(key, str) and key.isdecimal() else key
