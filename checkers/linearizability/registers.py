"""Sequential models of objects with a current value (register, compare-and-set, map of strings, znode):

register, cas-register, multi-register, map of strings with append, ZooKeeper's versioned node.
"""

from collections.abc import Hashable

from checkers.linearizability.model import ILLEGAL, Illegal, State
from history.foreign.step import FALSE, UNKNOWN, Call, Pairs, short, text_of

_REFUSED = (FALSE, "false")


class Register:
    """The model of a register: `write v`, `read` → v. Without `nil_is_a_value`, a read of nil is one whose value was not
    recorded.
    """

    name = "register"
    claim = "read returns the value written last"
    holds_a_given_value = True

    def __init__(self, initial: Hashable = None, *, nil_is_a_value: bool = True) -> None:
        self._initial = initial
        self.nil_is_a_value = nil_is_a_value

    def initial(self) -> State:
        """The register's value before the first write."""
        return self._initial

    def step(self, state: State, call: Call) -> State | Illegal:
        """A write replaces the register's value, a read must return it."""
        if call.f == "write":
            return call.argument
        return state if call.result is UNKNOWN or call.result == state else ILLEGAL

    def observes(self, call: Call) -> bool:
        """True for reads of the register."""
        return call.f == "read"

    def could_fail(self, call: Call) -> bool:
        """True for reads."""
        return call.f == "read"

    def key(self, call: Call) -> Hashable:
        """The call's own key: each register is judged separately."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Allow `read` of a register, and `write` with a value."""
        if call.f not in ("read", "write"):
            return f"{call.f} is not a function of a register"
        if call.f == "write" and call.argument is None:
            return "a write must have a value"
        return None

    def says_nothing(self, call: Call) -> bool:
        """True for a read of nil, unless nil is a value of this register."""
        return call.f == "read" and call.result is None and not self.nil_is_a_value

    def given(self, call: Call) -> tuple[Hashable, ...]:
        """The value of a write."""
        return (call.argument,) if call.f == "write" else ()

    def taken(self, call: Call) -> tuple[Hashable, ...]:
        """The value that was read, unless it is the first one."""
        return (call.result,) if call.f == "read" and call.result not in (None, self._initial) else ()

    def leads(self, state: State, call: Call) -> bool:
        """A read's answer becomes possible only by a write of its value."""
        return call.f != "read" or call.result is UNKNOWN or call.result == state

    def helps(self, other: Call, call: Call) -> bool:
        """True for a write of the value that was read."""
        return other.argument == call.result


class CasRegister(Register):
    """The model of a register with `cas [from to]`, which answers "false" and changes nothing if the value is not `from`."""

    name = "cas-register"
    claim = "a register with compare-and-set"

    def step(self, state: State, call: Call) -> State | Illegal:
        """A cas that answers "false" has seen another value; one of unknown outcome may have."""
        if call.f != "cas":
            return super().step(state, call)
        assert isinstance(call.argument, tuple), call.argument  # `refusal` ensures it
        old, new = call.argument
        if call.result in _REFUSED:
            return state if state != old else ILLEGAL
        return new if state == old else (state if call.result is UNKNOWN else ILLEGAL)

    def observes(self, call: Call) -> bool:
        """True for reads, and for a cas that answered "false"."""
        return call.f == "read" or (call.f == "cas" and call.result in _REFUSED)

    def could_fail(self, call: Call) -> bool:
        """True for reads and for compare-and-set, which returns only where it found the old value."""
        return call.f in ("read", "cas")

    def given(self, call: Call) -> tuple[Hashable, ...]:
        """The value of a write, or the second one of a compare-and-set."""
        return (call.argument[1],) if call.f == "cas" else super().given(call)  # type: ignore[index]  # a pair: `refusal`

    def helps(self, other: Call, call: Call) -> bool:
        """True for a write or a cas to the value that was read."""
        return (other.argument[1] if other.f == "cas" else other.argument) == call.result  # type: ignore[index]

    def refusal(self, call: Call) -> str | None:
        """Allow the calls of a register, and `cas` with a pair of values."""
        if call.f != "cas":
            return super().refusal(call)
        pair = call.argument
        return (
            None if type(pair) is tuple and len(pair) == 2 else f"the argument of cas must be a pair [from to], not {short(pair)}"
        )


class MultiRegister:
    """The model of several registers, read and written together by `txn [[:read k v] [:write k v] …]`."""

    name = "multi-register"
    claim = "several registers that are read and written together"

    def __init__(self, initial: Hashable = 0, *, nil_is_a_value: bool = False) -> None:
        self._first = dict(initial) if isinstance(initial, tuple) else None
        self._each = None if self._first is not None else initial
        self.nil_is_a_value = nil_is_a_value

    def initial(self) -> State:
        """All registers without a written value."""
        return Pairs()

    def step(self, state: State, call: Call) -> State | Illegal:
        """Each micro-operation of a transaction sees the ones before it."""
        values = dict(state)  # type: ignore[call-overload]  # states are tuples of pairs
        for f, key, value in _micro(call.argument if call.result is UNKNOWN else call.result):
            if f in ("write", "w"):
                values[key] = value
            elif call.result is not UNKNOWN and not (value is None and not self.nil_is_a_value):
                current = values[key] if key in values else (self._first.get(key) if self._first is not None else self._each)
                if current != value:
                    return ILLEGAL
        return Pairs(sorted(values.items(), key=repr))

    def observes(self, call: Call) -> bool:
        """True for transactions that only read."""
        return all(f in ("read", "r") for f, _, _ in _micro(call.argument))

    def could_fail(self, call: Call) -> bool:
        """True for transactions that read a value."""
        if call.result is UNKNOWN:
            return False
        return any(f in ("read", "r") and (value is not None or self.nil_is_a_value) for f, _, value in _micro(call.result))

    def key(self, call: Call) -> Hashable:
        """None: transactions connect the registers, so all are judged together."""
        return None

    def refusal(self, call: Call) -> str | None:
        """Allow transactions: lists of `[f k v]`, answered with the same functions and keys."""
        for value in (call.argument, call.result):
            if value is UNKNOWN:
                continue
            if not isinstance(value, tuple) or not all(isinstance(m, tuple) and len(m) == 3 for m in value):
                return f"a transaction must be a list of [f k v], not {short(value)}"
            unknown_micros = [m for m in value if m[0] not in ("read", "write", "r", "w")]
            if unknown_micros:
                return f"a micro-operation must be a read or a write, not {short(unknown_micros[0])}"
        if call.result is not UNKNOWN and [m[:2] for m in _micro(call.argument)] != [m[:2] for m in _micro(call.result)]:
            return "the answer must have the functions and keys of the transaction"
        return None

    def given(self, call: Call) -> tuple[Hashable, ...]:
        """Key and value of each write."""
        return tuple((key, value) for f, key, value in _micro(call.argument) if f in ("write", "w"))

    def taken(self, call: Call) -> tuple[Hashable, ...]:
        """Key and value of each read, unless the value is nil or the key's first one."""
        first = dict(self._first) if self._first is not None else {}
        reads = [] if call.result is UNKNOWN else [micro[1:] for micro in _micro(call.result) if micro[0] in ("read", "r")]
        return tuple((key, value) for key, value in reads if value not in (None, first.get(key, self._each)))

    def says_nothing(self, call: Call) -> bool:
        """True for an empty transaction."""
        return call.argument == ()


def _micro(value: Hashable) -> tuple[tuple[str, Hashable, Hashable], ...]:
    assert isinstance(value, tuple), value  # `refusal` ensures it
    return value


class KeyValue:
    """The model of a map of strings: `put k v`, `append k v`, `get k` → the whole string. Each key is a separate object."""

    name = "kv"
    claim = "a map of strings with get, put and append"

    def __init__(self, initial: Hashable = "") -> None:
        self._initial = text_of(initial)

    def initial(self) -> State:
        """The initial string of every key."""
        return self._initial

    def step(self, state: State, call: Call) -> State | Illegal:
        """A get must return the whole string of its key."""
        if call.f == "put":
            return text_of(call.argument)
        if call.f == "append":
            return f"{state}{call.argument}"
        return state if call.result is UNKNOWN or text_of(call.result) == state else ILLEGAL

    def observes(self, call: Call) -> bool:
        """True for gets."""
        return call.f == "get"

    def could_fail(self, call: Call) -> bool:
        """True for gets."""
        return call.f == "get"

    def key(self, call: Call) -> Hashable:
        """The call's own key: each key is judged separately."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Allow `get`, `put` and `append` of strings."""
        if call.f not in ("get", "put", "append"):
            return f"{call.f} is not a function of a map of strings"
        value = call.result if call.f == "get" else call.argument
        if value is UNKNOWN or text_of(value) is not None:
            return None
        return f"the value of {call.f} must be a string, not {short(value)}"

    def says_nothing(self, call: Call) -> bool:
        """False: the empty string is a value."""
        return False

    def leads(self, state: State, call: Call) -> bool:
        """A get's answer stays possible while the string is a prefix of it: appends only lengthen a string."""
        return call.result is UNKNOWN or str(call.result).startswith(str(state))

    def helps(self, other: Call, call: Call) -> bool:
        """True for a put of a prefix of the string that was read."""
        return other.f == "put" and str(call.result).startswith(str(other.argument))


class VersionedNode:
    """The model of a znode: `create v`, `set [v version]`, `delete version`, `read` → [v version].

    `set` answers the new version; version -1 matches any. "no-node", "node-exists" and "bad-version" are definite answers, too.
    The state is None for a node that does not exist, otherwise the value and the version.
    """

    name = "versioned-node"
    claim = "one node of ZooKeeper, with versions, conditional writes and definite errors"

    def initial(self) -> State:
        """None: the znode does not exist."""
        return None

    def step(self, state: State, call: Call) -> State | Illegal:
        """Change or read the znode, and answer, as ZooKeeper's data tree does."""
        right, after = self._answer_of(state, call)
        answer = text_of(call.result) if isinstance(right, str) else call.result
        return after if call.result is UNKNOWN or answer == right else ILLEGAL

    def _answer_of(self, state: State, call: Call) -> tuple[Hashable, State]:
        """The answer that a znode gives, and its state afterwards."""
        if call.f == "create":
            return ("ok", (call.argument, 0)) if state is None else ("node-exists", state)
        if state is None:
            return "no-node", None
        assert isinstance(state, tuple), state
        value, version = state
        if call.f == "read":
            return (value, version), state
        version_wanted = call.argument[1] if call.f == "set" else call.argument  # type: ignore[index]  # `refusal` ensures it
        if version_wanted not in (-1, version):
            return "bad-version", state
        return (version + 1, (call.argument[0], version + 1)) if call.f == "set" else ("ok", None)  # type: ignore[index]

    def observes(self, call: Call) -> bool:
        """True for reads of the znode and for calls that were answered with an error."""
        return call.f == "read" or text_of(call.result) in ("no-node", "node-exists", "bad-version")

    def could_fail(self, call: Call) -> bool:
        """True: each call answers whether the znode exists, or its version."""
        return True

    def key(self, call: Call) -> Hashable:
        """The path: the call's own key."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """Allow `create`, `read`, and `set` and `delete` with a version."""
        match call.f, call.argument:
            case ("create" | "read", _) | ("delete", int()) | ("set", (_, int())):
                return None
            case _:
                return f"{call.f} {short(call.argument)} is not a call of a versioned node"

    def says_nothing(self, call: Call) -> bool:
        """False: every answered call on a znode says something about its state."""
        return False
