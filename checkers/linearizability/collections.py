"""Objects that hold many values: mutex (one holder), set, FIFO queue, partition log."""

from collections.abc import Hashable

from checkers.linearizability.model import ILLEGAL, Illegal, State
from history.foreign.step import UNKNOWN, Call, Pairs, shown

_FREE, _HELD = "free", "held"
_OFFSETS = 1 << 62  # no log is as long; beyond, what counts in 64 bits does not


class Mutex:
    """`acquire` and `release`, of whoever: the state says whether it is held."""

    name = "mutex"
    claim = "held by one at a time"

    def initial(self) -> State:
        """Free."""
        return _FREE

    def step(self, state: State, call: Call) -> State | Illegal:
        """Only what is free can be acquired, only what is held released."""
        before, after = (_FREE, _HELD) if call.f == "acquire" else (_HELD, _FREE)
        return after if state == before else ILLEGAL

    def observes(self, call: Call) -> bool:
        """None does."""
        return False

    def key(self, call: Call) -> Hashable:
        """By key, where calls have one."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Two functions."""
        return None if call.f in ("acquire", "release") else f"{call.f} is no function of a mutex"

    def says_nothing(self, call: Call) -> bool:
        """Never."""
        return False


class GrowSet:
    """`add v`, `read` → all values that were added."""

    name = "set"
    claim = "read returns all that was added"

    def initial(self) -> State:
        """Empty."""
        return frozenset()

    def step(self, state: State, call: Call) -> State | Illegal:
        """A read must see just these values."""
        assert isinstance(state, frozenset)
        if call.f == "add":
            return state | {call.argument}
        return state if call.result is UNKNOWN or seen(call) == state else ILLEGAL

    def observes(self, call: Call) -> bool:
        """Reads."""
        return call.f == "read"

    def key(self, call: Call) -> Hashable:
        """By key, where calls have one."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Adds of one value, reads of sets or lists without repetition."""
        if call.f not in ("add", "read"):
            return f"{call.f} is no function of a set"
        if call.f == "add" or call.result is UNKNOWN:
            return None
        if not isinstance(call.result, frozenset | tuple) or isinstance(call.result, Pairs):
            return f"read of {shown(call.result)}, which is no set"
        return None if len(seen(call)) == len(call.result) else "read of a list with one value twice"

    def says_nothing(self, call: Call) -> bool:
        """Never: the empty set is a value."""
        return False


def seen(call: Call) -> frozenset[Hashable]:
    """What a read of a set saw."""
    assert isinstance(call.result, frozenset | tuple)
    return frozenset(call.result)


class FifoQueue:
    """`enqueue v`, `dequeue` → the oldest value, or nil where there is none."""

    name = "fifo-queue"
    claim = "values come out in the order in which they went in; nil where none is in it"

    def initial(self) -> State:
        """Empty."""
        return ()

    def step(self, state: State, call: Call) -> State | Illegal:
        """The oldest value is at the front."""
        assert isinstance(state, tuple)
        if call.f == "enqueue":
            return (*state, call.argument)
        head = state[0] if state else None
        return state[1:] if call.result is UNKNOWN or call.result == head else ILLEGAL

    def observes(self, call: Call) -> bool:
        """A dequeue of nothing."""
        return call.f == "dequeue" and call.result is None

    def key(self, call: Call) -> Hashable:
        """By key, where calls have one."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Two functions; nil is no value."""
        if call.f not in ("enqueue", "dequeue"):
            return f"{call.f} is no function of a queue"
        return "enqueue of nil" if call.f == "enqueue" and call.argument is None else None

    def says_nothing(self, call: Call) -> bool:
        """Never."""
        return False


class PartitionLog:
    """`append v` → its offset, `read offset` → the value there, or nil where nothing is there yet; `end` → the end offset.

    Offsets grow and may leave gaps, as those of Kafka do (markers of transactions take some). The end offset is above all that
    were appended and not above any that follows. An append of unknown outcome may be at any offset above those before it: the
    search cannot guess it, so `checkers.linearizability.unique` judges such histories where a read says it. The state is the
    records, each with its offset, and the least offset that the next one may have.
    """

    name = "partition-log"
    claim = "append returns an offset above all before it, read returns what was appended there"

    def initial(self) -> State:
        """Empty, from offset 0."""
        return ((), 0)

    def step(self, state: State, call: Call) -> State | Illegal:
        """Records are only ever added at the end."""
        assert isinstance(state, tuple), state
        records, end = state
        if call.f == "append":
            offset = call.result
            if offset is UNKNOWN or not isinstance(offset, int):
                return state  # it is nowhere that anybody looked at, or `unique` has given it its offset
            return ((*records, (offset, call.argument)), offset + 1) if offset >= end else ILLEGAL
        if call.result is UNKNOWN:
            return state
        if call.f == "end":
            assert isinstance(call.result, int)
            return (records, call.result) if call.result >= end else ILLEGAL
        return state if dict(records).get(call.argument) == call.result else ILLEGAL

    def observes(self, call: Call) -> bool:
        """Reads. The end offset is a promise about what follows, so it is none."""
        return call.f == "read"

    def key(self, call: Call) -> Hashable:
        """The partition."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Offsets are numbers from 0 on; nil is no value."""
        if call.f not in ("append", "read", "end"):
            return f"{call.f} is no function of a log"
        if call.f == "append" and call.argument is None:
            return "append of nil"
        offset = call.argument if call.f == "read" else call.result
        if offset is UNKNOWN or (offset is None and call.f == "append"):
            return None
        return None if isinstance(offset, int) and 0 <= offset < _OFFSETS else f"{call.f} with the offset {shown(offset)}"

    def says_nothing(self, call: Call) -> bool:
        """Never: nil says that nothing is there."""
        return False
