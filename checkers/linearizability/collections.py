"""Sequential models of objects that hold many values: mutex (one holder), set, queues, partition log."""

from bisect import bisect_left
from collections.abc import Hashable

from checkers.linearizability.model import ILLEGAL, Illegal, State
from history.foreign.step import UNKNOWN, Atom, Call, Pairs, short, shown

_FREE, _HELD = "free", "held"
_TAKEN = Atom("taken", "taken")  # the mark in the state of an unordered queue
_OFFSETS = 1 << 62  # exclusive bound of offsets, so that ranks fit into 64 bits


class Mutex:
    """The model of a mutex with the calls `acquire` and `release`, by any process; its state is whether it is held."""

    name = "mutex"
    claim = "held by one process at a time"

    def initial(self) -> State:
        """A mutex that nobody holds."""
        return _FREE

    def step(self, state: State, call: Call) -> State | Illegal:
        """Only a free mutex can be acquired, only a held one released."""
        before, after = (_FREE, _HELD) if call.f == "acquire" else (_HELD, _FREE)
        return after if state == before else ILLEGAL

    def observes(self, call: Call) -> bool:
        """False: both calls of a mutex change its state."""
        return False

    def could_fail(self, call: Call) -> bool:
        """True: a held mutex is not acquired, a free one not released."""
        return True

    def is_right_alone(self, call: Call) -> bool:
        """True for the first acquire."""
        return call.f == "acquire"

    def key(self, call: Call) -> Hashable:
        """The call's own key: each mutex is judged separately."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Allow the calls `acquire` and `release` on a mutex."""
        return None if call.f in ("acquire", "release") else f"{call.f} is not a function of a mutex"

    def says_nothing(self, call: Call) -> bool:
        """False: every answered call on a mutex says something about its state."""
        return False


class GrowSet:
    """The model of a set that only grows: `add v`, and `read`, which answers all added values."""

    name = "set"
    claim = "read returns all added values"

    def initial(self) -> State:
        """The empty set."""
        return frozenset()

    def step(self, state: State, call: Call) -> State | Illegal:
        """A read of the set must return exactly its values; an add adds its value."""
        assert isinstance(state, frozenset)
        if call.f == "add":
            return state | {call.argument}
        return state if call.result is UNKNOWN or elements_read(call) == state else ILLEGAL

    def observes(self, call: Call) -> bool:
        """True for reads of the set, which do not change it."""
        return call.f == "read"

    def could_fail(self, call: Call) -> bool:
        """True for reads."""
        return call.f == "read"

    def key(self, call: Call) -> Hashable:
        """The call's own key: each set is judged separately."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Allow `add`, and `read` of sets or of lists without repetition."""
        if call.f not in ("add", "read"):
            return f"{call.f} is not a function of a set"
        if call.f == "add" or call.result is UNKNOWN:
            return None
        if not isinstance(call.result, frozenset | tuple) or isinstance(call.result, Pairs):
            return f"a read must return a set, not {short(call.result)}"
        return None if len(elements_read(call)) == len(call.result) else "a read must not return a value twice"

    def given(self, call: Call) -> tuple[Hashable, ...]:
        """The value of an add."""
        return (call.argument,) if call.f == "add" else ()

    def taken(self, call: Call) -> tuple[Hashable, ...]:
        """The values that were read."""
        return tuple(sorted(elements_read(call), key=shown)) if call.f == "read" and call.result is not UNKNOWN else ()

    def says_nothing(self, call: Call) -> bool:
        """False: the empty set is an answer, too."""
        return False


def elements_read(call: Call) -> frozenset[Hashable]:
    """The values that a read of a set returned."""
    assert isinstance(call.result, frozenset | tuple)
    return frozenset(call.result)


class FifoQueue:
    """The model of a FIFO queue: `enqueue v`, and `dequeue`, which answers the oldest value, or nil if it is empty."""

    name = "fifo-queue"
    claim = "dequeue returns values in the order of enqueue; nil if the queue is empty"

    def initial(self) -> State:
        """The empty queue."""
        return ()

    def step(self, state: State, call: Call) -> State | Illegal:
        """A dequeue must answer the oldest value; the state holds it first."""
        assert isinstance(state, tuple)
        if call.f == "enqueue":
            return (*state, call.argument)
        head = state[0] if state else None
        return state[1:] if call.result is UNKNOWN or call.result == head else ILLEGAL

    def observes(self, call: Call) -> bool:
        """True for a dequeue that answered nil, which does not change the queue."""
        return call.f == "dequeue" and call.result is None

    def could_fail(self, call: Call) -> bool:
        """True for dequeues."""
        return call.f == "dequeue"

    def key(self, call: Call) -> Hashable:
        """The call's own key: each queue is judged separately."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Allow `dequeue`, and `enqueue` of a value other than nil."""
        if call.f not in ("enqueue", "dequeue"):
            return f"{call.f} is not a function of a queue"
        return "nil must not be enqueued" if call.f == "enqueue" and call.argument is None else None

    def given(self, call: Call) -> tuple[Hashable, ...]:
        """The value of an enqueue."""
        return (call.argument,) if call.f == "enqueue" else ()

    def taken(self, call: Call) -> tuple[Hashable, ...]:
        """The value that was dequeued."""
        return (call.result,) if call.f == "dequeue" and call.result is not None else ()

    def says_nothing(self, call: Call) -> bool:
        """False: every answered call on a queue says something about its state."""
        return False


class UnorderedQueue(FifoQueue):
    """The model of a queue without an order (`unordered-queue` of Knossos): a dequeue answers any value, or nil if there is none.

    The state holds the values in the order of their arrival, and a mark for each dequeue without an answer, which took one of the
    values before the mark: which one is left open. Between two marks the values have one order.
    """

    name = "unordered-queue"
    claim = "dequeue returns any value that was enqueued and not yet dequeued; nil if the queue is empty"

    def step(self, state: State, call: Call) -> State | Illegal:
        """A dequeue takes any of the values that are certainly or perhaps still there."""
        assert isinstance(state, tuple)
        if call.f == "enqueue":
            begun = max((at + 1 for at, value in enumerate(state) if value is _TAKEN), default=0)
            at = bisect_left(state, shown(call.argument), begun, key=shown)
            return (*state[:at], call.argument, *state[at:])
        values_left = len(state) - 2 * state.count(_TAKEN)
        if call.result is UNKNOWN:
            return (*state, _TAKEN) if values_left else state
        if call.result is None:
            return ILLEGAL if values_left else ()
        places = [at for at, value in enumerate(state) if value == call.result]
        others = (*state[: places[-1]], *state[places[-1] + 1 :]) if places else state
        return others if places and _has_one_for_each_mark(others) else ILLEGAL

    def observes(self, call: Call) -> bool:
        """False: a dequeue that answers nil settles what the dequeues without an answer took."""
        return False


def _has_one_for_each_mark(state: tuple[Hashable, ...]) -> bool:
    """Whether each mark of an earlier take has a value before it."""
    unmarked = 0
    for value in state:
        unmarked += -1 if value is _TAKEN else 1
        if unmarked < 0:
            return False
    return True


class PartitionLog:
    """The model of a partition log: `append v` answers its offset, `read offset` the value there or nil, `end` the end offset.

    Offsets grow and may have gaps, as in Kafka (transaction markers take some). The end offset is above all offsets appended
    before and not above any later one. An append of unknown outcome may be at any offset above earlier ones. The search cannot
    guess it, so `checkers.linearizability.unique` judges such histories, if a read shows the offset. The state is the records
    with their offsets, and the lowest offset that the next record may have.
    """

    name = "partition-log"
    claim = "append returns an offset above all earlier ones, read returns the value appended there"

    def initial(self) -> State:
        """A log without records; the first may be at offset 0."""
        return ((), 0)

    def step(self, state: State, call: Call) -> State | Illegal:
        """Appends add records at the log's end only; reads must return what the log holds."""
        assert isinstance(state, tuple), state
        records, end = state
        if call.f == "append":
            offset = call.result
            if offset is UNKNOWN or not isinstance(offset, int):
                return state  # no read saw it, or `unique` has assigned its offset
            return ((*records, (offset, call.argument)), offset + 1) if offset >= end else ILLEGAL
        if call.result is UNKNOWN:
            return state
        if call.f == "end":
            assert isinstance(call.result, int)
            return (records, call.result) if call.result >= end else ILLEGAL
        return state if dict(records).get(call.argument) == call.result else ILLEGAL

    def observes(self, call: Call) -> bool:
        """True for reads. `end` is not one: it restricts the offsets of later appends."""
        return call.f == "read"

    def could_fail(self, call: Call) -> bool:
        """True for reads, ends, and appends that were told an offset."""
        return call.f != "append" or isinstance(call.result, int)

    def is_right_alone(self, call: Call) -> bool:
        """True for an append or an end, whose offset may be any if no other is known."""
        return call.f != "read"

    def key(self, call: Call) -> Hashable:
        """The partition: the call's own key."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Allow `append` of a value other than nil, `read` and `end`, with offsets >= 0."""
        if call.f not in ("append", "read", "end"):
            return f"{call.f} is not a function of a log"
        if call.f == "append" and call.argument is None:
            return "nil must not be appended"
        offset = call.argument if call.f == "read" else call.result
        if offset is UNKNOWN or (offset is None and call.f == "append"):
            return None
        return (
            None
            if isinstance(offset, int) and 0 <= offset < _OFFSETS
            else f"the offset of {call.f} must be an integer >= 0, not {short(offset)}"
        )

    def given(self, call: Call) -> tuple[Hashable, ...]:
        """The value of an append."""
        return (call.argument,) if call.f == "append" else ()

    def taken(self, call: Call) -> tuple[Hashable, ...]:
        """The value that was read."""
        return (call.result,) if call.f == "read" and call.result is not None else ()

    def says_nothing(self, call: Call) -> bool:
        """False: a read of nil says that the log's offset is empty."""
        return False
