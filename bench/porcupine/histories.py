"""Draws random histories of calls on each kind of object, near the border between linearizable and not.

Clients call an object of `proof.objects`, each call takes effect at one moment between its invocation and its return, so the
history is linearizable. Some calls have no known outcome: they take effect at once, later or never. Then at most three small
changes are made, which may or may not make the history impossible: another answer, two answers exchanged, a call that returned
earlier or began later, a call that is left out, of a mutex the other function.

A history is small, crowded (many calls at the same time, few values) or long (hundreds of calls: the judge takes its polynomial
algorithms where values are unique). A tenth has two or three keys.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec.structs import replace

from checkers.linearizability.judge import could_be_wrong
from checkers.linearizability.model import Model
from checkers.linearizability.own import OwnObject
from checkers.linearizability.registry import model_named
from highwater.foreign.own import own_model
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng
from proof import objects
from proof.objects import Answers, Object

SEARCHED_MAX = 64  # calls of one object; longer histories are judged without a search where the values are unique
_INITIAL = {"register": 0, "cas-register": 0, "multi-register": 0}
_STACK = "docs/examples/stack.py:Stack"
_OWN_AFTER = 100  # values that are used once are above all others
_GAP = 4  # between two moments, so that a moved one fits between them
_PATIENCE = 40  # turns of clients for each call; what has not returned by then never does

Asked = tuple[str, Hashable]  # function and argument
Ask = Callable[[Rng, Any, "Values"], Asked]  # of the object's state and the values in use


@dataclass(slots=True)
class Values:
    """The values that calls of one history give: few ones again and again, or each only once."""

    number: int
    once: bool
    given: int = 0

    def draw(self, rng: Rng) -> int:
        """A value to give to the object."""
        if not self.once:
            return 1 + rng.below(self.number)
        self.given += 1
        return _OWN_AFTER + self.given


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object: how it behaves, what its clients ask, and which functions answer something that may be wrong."""

    name: str
    object: Object
    first: Hashable
    ask: Ask
    answers: tuple[str, ...]
    has_keys: bool = True
    once: bool = False  # whether values that are given once only are worth drawing
    searched_max: int = 300  # calls of a long history that only a search can decide
    length_max: int = 300  # of another one


def _register(rng: Rng, state: Any, values: Values) -> Asked:
    return ("read", None) if rng.below(2) else ("write", values.draw(rng))


def _cas_register(rng: Rng, state: Any, values: Values) -> Asked:
    if rng.below(3):
        return _register(rng, state, values)
    return "cas", (rng.pick((state, rng.below(values.number + 1))), values.draw(rng))


def _multi_register(rng: Rng, state: Any, values: Values) -> Asked:
    micros = [(rng.pick(("read", "write")), rng.pick("xyz")) for _ in range(1 + rng.below(3))]
    return "txn", tuple((f, key, values.draw(rng) if f == "write" else None) for f, key in micros)


def _mutex(rng: Rng, state: Any, values: Values) -> Asked:
    return rng.pick(("acquire", "release", "release" if state else "acquire")), None


def _kv(rng: Rng, state: Any, values: Values) -> Asked:
    f = rng.pick(("get", "get", "get", "append", "append", "put"))
    return f, None if f == "get" else rng.pick(("", "a", "b", "ab"))


def _set(rng: Rng, state: Any, values: Values) -> Asked:
    return ("add", values.draw(rng)) if rng.below(2) else ("read", None)


def _queue(rng: Rng, state: Any, values: Values) -> Asked:
    return ("enqueue", values.draw(rng)) if rng.below(2) else ("dequeue", None)


def _partition_log(rng: Rng, state: Any, values: Values) -> Asked:
    f = rng.pick(("append", "append", "read", "read", "read", "end"))
    return f, values.draw(rng) if f == "append" else rng.below(state[1] + 2) if f == "read" else None


def _versioned_node(rng: Rng, state: Any, values: Values) -> Asked:
    f = rng.pick(("create", "set", "set", "set", "read", "read", "delete"))
    version = rng.pick((-1, rng.below(3), state[1] if state else 0))
    if f == "set":
        return f, (values.draw(rng), version)
    return f, {"create": 1, "delete": version, "read": None}[f]


def _stack(rng: Rng, state: Any, values: Values) -> Asked:
    return ("push", values.draw(rng)) if rng.below(2) else ("pop", None)


def stack(state: Any, f: str, argument: Any) -> Answers:
    """The stack (push, pop; nil if it is empty) as a function from state and call to all possible answers."""
    if f == "push":
        return [(None, (*state, argument))]
    return [(state[-1], state[:-1])] if state else [(None, ())]


def partition_log(state: Any, f: str, argument: Any) -> Answers:
    """The partition log as `proof.objects` has it, of any length and with gaps of one offset."""
    records, least = state
    if f == "read":
        return [(dict(records).get(argument), state)]
    if f == "end":
        return [(least, state)]
    return [(offset, ((*records, (offset, argument)), offset + 1)) for offset in (least, least, least + 1)]


KINDS: tuple[Kind, ...] = (
    Kind(name="register", object=objects.register, first=0, ask=_register, answers=("read",), once=True),
    Kind(name="cas-register", object=objects.cas_register, first=0, ask=_cas_register, answers=("read", "cas"), searched_max=200),
    Kind(
        name="multi-register", object=objects.multi_register, first=(), ask=_multi_register, answers=("txn",),
        has_keys=False, searched_max=150,
    ),
    Kind(name="mutex", object=objects.mutex, first=False, ask=_mutex, answers=()),
    Kind(name="kv", object=objects.kv, first="", ask=_kv, answers=("get",), searched_max=200),
    Kind(name="set", object=objects.grow_set, first=frozenset(), ask=_set, answers=("read",), once=True),
    Kind(name="fifo-queue", object=objects.fifo_queue, first=(), ask=_queue, answers=("dequeue",), once=True, searched_max=120),
    Kind(
        name="unordered-queue", object=objects.unordered_queue, first=(), ask=_queue, answers=("dequeue",), once=True,
        searched_max=120,
    ),
    Kind(
        name="partition-log", object=partition_log, first=((), 0), ask=_partition_log, answers=("read", "append", "end"),
        once=True, searched_max=150, length_max=150,
    ),
    Kind(
        name="versioned-node", object=objects.versioned_node, first=None, ask=_versioned_node,
        answers=("create", "set", "delete", "read"), searched_max=200,
    ),
    Kind(name="stack", object=stack, first=(), ask=_stack, answers=("pop",), searched_max=100),
)  # fmt: skip


@cache
def model_of(kind: Kind) -> Model:
    """The judge's model of an object of this kind."""
    if kind.name != "stack":
        return model_named(kind.name, initial=_INITIAL.get(kind.name))
    model = own_model(_STACK)
    assert isinstance(model, OwnObject)
    return model


def options_of(kind: Kind) -> str:
    """The options of `highwater check` for a history of this kind."""
    initial = f" --initial {_INITIAL[kind.name]}" if kind.name in _INITIAL else ""
    return f"--model {_STACK if kind.name == 'stack' else kind.name}{initial}"


@dataclass(frozen=True, slots=True)
class _Shape:
    clients: int
    calls: int
    lost: int  # calls of unknown outcome in a hundred
    values: Values
    keys: int
    quick: bool  # whether calls return sooner, so that fewer are open at a time


def _shape(kind: Kind, rng: Rng) -> _Shape:
    size = rng.below(20)
    once = kind.once and bool(rng.below(2))
    keys = 1 + (rng.below(3) if kind.has_keys and not rng.below(7) else 0)
    if size < 8:
        clients, calls = 2 + rng.below(3), 3 + rng.below(6)
    elif size < 19:
        clients, calls = 4 + rng.below(6), 8 + rng.below(16)
    else:
        longest = kind.length_max if once else kind.searched_max
        clients, calls = 2 + rng.below(4), SEARCHED_MAX + 2 + rng.below(longest - SEARCHED_MAX)
    lost = rng.pick((0, 3, 10, 20)) if calls <= SEARCHED_MAX else rng.pick((0, 0, 1, 2))
    return _Shape(clients, calls, lost, Values(1 + rng.below(4), once=once), keys, quick=bool(rng.below(2)))


def drawn(kind: Kind, rng: Rng) -> tuple[Call, ...]:
    """Draw a history in which some answer could have been wrong, in order of invocation. Depends on `rng` alone."""
    model = model_of(kind)
    while True:
        calls = _performed_calls(kind, rng, _shape(kind, rng))
        for _ in range(rng.pick((0, 1, 1, 2, 3))):
            calls = _changed_calls(kind, rng, calls)
        numbered = _numbered_calls(calls)
        keys = dict.fromkeys(map(model.key, numbered))
        if any(could_be_wrong(model, [call for call in numbered if model.key(call) == key]) for key in keys):
            return numbered


def _performed_calls(kind: Kind, rng: Rng, shape: _Shape) -> list[Call]:
    # Let clients take turns at random: invoke, take effect, return. A lost call may take effect in somebody's later turn.
    states: dict[Hashable, Any] = {}
    open_calls: list[tuple[Call, bool] | None] = [None] * shape.clients  # of each client, and whether it took effect
    late_calls: list[Call] = []
    done: list[Call] = []
    begun = 0
    for now in range(0, shape.calls * _PATIENCE * _GAP, _GAP):
        if begun == shape.calls and not any(open_calls):
            break
        if late_calls and not rng.below(8):
            _take_effect(kind, rng, states, late_calls.pop())
        client = rng.below(shape.clients)
        if shape.quick and open_calls[client] is None:
            client = rng.below(shape.clients)
        current = open_calls[client]
        if current is None:
            if begun < shape.calls:
                key = rng.below(shape.keys) if shape.keys > 1 else None
                f, argument = kind.ask(rng, states.get(key, kind.first), shape.values)
                call = Call(index=begun, line=begun + 1, f=f, key=key, argument=argument, start=now, end=None)
                open_calls[client] = (call, False)
                begun += 1
            continue
        call, acted = current
        if rng.below(200) < shape.lost:  # each call has two turns left
            open_calls[client] = None
            done.append(call if not acted else replace(call, result=UNKNOWN))
            if not acted and rng.below(2):
                late_calls.append(call)
        elif acted:
            open_calls[client] = None
            done.append(replace(call, end=now))
        elif (answered := _take_effect(kind, rng, states, call)) is not None:
            open_calls[client] = (answered, True)
        elif not rng.below(8):  # a held mutex; most clients that give up know that nothing happened
            open_calls[client] = None
            done += [] if rng.below(6) else [call]
    done.extend(replace(current[0], result=UNKNOWN) for current in open_calls if current is not None)
    return done


def _take_effect(kind: Kind, rng: Rng, states: dict[Hashable, Any], call: Call) -> Call | None:
    # The call with its answer; None if the object cannot answer now, like a mutex that is held.
    answers = kind.object(states.get(call.key, kind.first), call.f, call.argument)
    if not answers:
        return None
    answer, states[call.key] = rng.pick(answers)
    return replace(call, result=answer)


def _changed_calls(kind: Kind, rng: Rng, calls: Sequence[Call]) -> list[Call]:
    changed = list(calls)
    returned = [at for at, call in enumerate(calls) if call.end is not None]
    answering = [at for at in returned if calls[at].f in kind.answers]
    what = rng.below(8)
    if what < 5 and len(answering) > 1:
        at = rng.pick(answering)
        other = rng.pick([other for other in answering if calls[other].f == calls[at].f])
        changed[at] = replace(calls[at], result=_another(rng, calls[at], calls[other].result))
        if what < 2:
            changed[other] = replace(calls[other], result=_another(rng, calls[other], calls[at].result))
    elif what < 3 and kind.name == "mutex" and returned:
        at = rng.pick(returned)
        changed[at] = replace(calls[at], f="release" if calls[at].f == "acquire" else "acquire")
    elif what < 7 and returned:
        at = rng.pick(returned)
        middle = calls[at].start + rng.below(_length(calls[at]))
        changed[at] = replace(calls[at], end=middle) if what == 5 else replace(calls[at], start=middle)
    elif calls:
        del changed[rng.below(len(calls))]
    return changed


def _length(call: Call) -> int:
    assert call.end is not None
    return call.end - call.start + 1


def _another(rng: Rng, call: Call, answer: Hashable) -> Hashable:
    # Another answer to the call: `answer`, of a call of the same function, unless this one names what was asked.
    if call.f == "cas":
        return call.argument if call.result == "false" else "false"
    if call.f == "txn":
        micros: Any = call.result
        return tuple((f, key, rng.below(3) if f == "read" and rng.below(2) else value) for f, key, value in micros)
    return answer


def _numbered_calls(calls: Sequence[Call]) -> tuple[Call, ...]:
    # Renumber calls in order of invocation and moments from 0; of moments that are equal, invocations come first.
    ordered = sorted(calls, key=lambda call: call.start)
    moments = [(call.start, 0, at) for at, call in enumerate(ordered)]
    moments += [(call.end, 1, at) for at, call in enumerate(ordered) if call.end is not None]
    place = {(kind, at): moment for moment, (_, kind, at) in enumerate(sorted(moments))}
    return tuple(
        replace(call, index=at, line=at + 1, start=place[0, at], end=place.get((1, at))) for at, call in enumerate(ordered)
    )
