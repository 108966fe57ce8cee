"""A user's own model, of one of two shapes: an object with states, or reads with a predicate (docs/your-own-system.md).

An object has the state `first` and `step(state, f, value, answer)`, which returns the state after a call, or None if the object
could not have answered so. A call whose answer nobody was told has an answer that equals everything. The search for an order is
that of all objects, so a history is VALID if it is linearizable.

    class Stack:
        first = ()

        def step(self, state, f, value, answer):
            if f == "push":
                return (*state, value)
            return state[:-1] if answer == (state[-1] if state else None) else None

Or `reads` names functions whose answers are judged one by one, by `holds(read, before, maybe)`: `before` are the other calls that
had certainly taken effect when the read began, `maybe` those that may have when it returned.

    class Likes:
        reads = ("read",)

        def holds(self, read, before, maybe):
            return len(before) <= read.answer <= len(before) + len(maybe)

Values are Python's where it has them: whole numbers, text, booleans, floats, tuples, frozen sets; None for nil, and a map is a
tuple of pairs. `first` and the states must be hashable and never change, since the search comes back to them. A ValueError
refuses a call that the object does not have.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

from checkers.engine.verdict import Anomaly, Validity
from checkers.linearizability.independent import by_key
from checkers.linearizability.judge import ANOMALIES_MAX, CHECKER, NOTHING_ANSWERED, Judgement, name_of_key, words_of
from checkers.linearizability.model import ILLEGAL, Illegal, State
from history.errors import HistoryError
from history.foreign.step import UNKNOWN, Atom, Call, Pairs

KIND = "unexplained-read"
_T = TypeVar("_T")


class _Anything:
    """An answer that nobody was told: equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]  # no value of the history: it can be compared only

    def __repr__(self) -> str:
        return "unknown"


class _Strange:
    """An answer that no object gives: equal to itself alone."""


_ANYTHING, _STRANGE = _Anything(), _Strange()


class Op(NamedTuple):
    """A call as a predicate sees it: its function, what it was asked, and what was answered."""

    f: str
    value: object
    answer: object


def plain(value: Hashable) -> object:
    """A value of a history as Python's own, where it has one."""
    match value:
        case Atom(kind="string"):
            return value.value
        case Atom(kind="boolean"):
            return value.value == "true"
        case Atom(kind="float"):
            return float(value.value)
        case Pairs():
            return Pairs((plain(key), plain(inner)) for key, inner in value)
        case tuple():
            return tuple(map(plain, value))
        case frozenset():
            return frozenset(map(plain, value))
        case _:
            return _ANYTHING if value is UNKNOWN else value


def _op(call: Call) -> Op:
    return Op(call.f, plain(call.argument), plain(call.result))


class OwnObject:
    """The model of an object that a user wrote: `given` has `first` and `step`."""

    def __init__(self, name: str, own: object) -> None:
        self.name = name
        self.claim = (type(own).__doc__ or name).strip().splitlines()[0]
        self._first: Hashable = own.first  # type: ignore[attr-defined]  # the caller has looked
        self._step: Callable[[Hashable, str, object, object], Hashable] = own.step  # type: ignore[attr-defined]

    def initial(self) -> State:
        """The user's `first`."""
        return self._first

    def step(self, state: State, call: Call) -> State | Illegal:
        """The user's step. HistoryError with the line of the call if it fails."""
        after = _answer_of_model(self.name, call, lambda: self._state_after(state, _op(call)))
        return ILLEGAL if after is None else after

    def _state_after(self, state: State, op: Op) -> State:
        """The state after a call, by the user's model; TypeError if its step changes the state that it is given."""
        before = {state}  # is found there again, unless it has changed
        after = self._step(state, *op)
        if state not in before:
            raise TypeError("the step changed the state that it was given; it must return another one")
        return checked_state(after)

    def observes(self, call: Call) -> bool:
        """False: nobody says which calls leave the state alone."""
        return False

    def could_fail(self, call: Call) -> bool:
        """Whether the step looks at the answer, or at the state, so far as two states show it: the first, and the one after."""
        op = _op(call)
        try:
            after = self._step(self._first, *op)
            states = (self._first,) if after is None else (self._first, after)
            return any(self._step(state, op.f, op.value, answer) is None for state in states for answer in (op.answer, _STRANGE))
        except (Exception, SystemExit):  # noqa: BLE001  # the step uses the answer, and cannot use every answer
            return True

    def key(self, call: Call) -> Hashable:
        """The call's own key: each object is judged separately."""
        return call.key

    def refusal(self, call: Call) -> str | None:
        """None: the step refuses what the object does not have."""
        return None

    def says_nothing(self, call: Call) -> bool:
        """False: nil is an answer like others."""
        return False


class OwnReads:
    """Reads that a user's predicate judges: `given` has `reads` and `holds`."""

    def __init__(self, name: str, own: object) -> None:
        self.name = name
        self.reads: tuple[str, ...] = tuple(own.reads)  # type: ignore[attr-defined]  # the caller has looked
        self._holds: Callable[[Op, list[Op], list[Op]], object] = own.holds  # type: ignore[attr-defined]

    def judge(self, calls: Sequence[Call]) -> Judgement:
        """Ask the predicate about each read that was answered. HistoryError with the line of the read if it fails."""
        calls_by_object: dict[Hashable, list[Call]] = {}
        for call in by_key(calls):
            calls_by_object.setdefault(call.key, []).append(call)
        wrong = [
            anomaly for key, calls_of_object in calls_by_object.items() for anomaly in self._refused_reads(key, calls_of_object)
        ]
        answered = any(call.f in self.reads and call.end is not None for call in calls)
        return Judgement(
            validity=Validity.INVALID if wrong else Validity.VALID if answered else Validity.UNKNOWN,
            anomalies=tuple(wrong[:ANOMALIES_MAX]),
            unchecked=() if answered else (NOTHING_ANSWERED,),
            notes=(f"{len(wrong)} reads do not hold; {ANOMALIES_MAX} are shown",) if len(wrong) > ANOMALIES_MAX else (),
            operations=len(calls),
        )

    def _refused_reads(self, key: Hashable, calls_of_object: Sequence[Call]) -> list[Anomaly]:
        """The reads of one object that do not hold."""
        moments = sorted((at, call.index) for call in calls_of_object for at in (call.start, call.end) if at is not None)
        by_index = {call.index: call for call in calls_of_object}
        done: list[Op] = []
        under_way: dict[int, Call] = {}  # changes that have begun and not ended
        reading: dict[int, tuple[int, dict[int, Call]]] = {}  # reads with how much was done at their start, and what may be
        anomalies = []
        for at, index in moments:
            call = by_index[index]
            starts = at == call.start
            if call.f not in self.reads:
                if starts:
                    under_way[index] = call
                    for _, maybe in reading.values():
                        maybe[index] = call
                else:
                    del under_way[index]
                    done.append(_op(call))
            elif starts and call.end is not None:
                reading[index] = (len(done), dict(under_way))
            elif not starts:
                count, maybe = reading.pop(index)
                read, others = _op(call), [_op(maybe_call) for maybe_call in maybe.values()]
                before = done[:count]
                if not _answer_of_model(self.name, call, lambda: _checked_answer(self._holds(read, before, others))):  # noqa: B023  # at once
                    anomalies.append(self._anomaly_of_read(key, call, len(before), len(others)))
        return anomalies

    def _anomaly_of_read(self, key: Hashable, read: Call, before: int, maybe: int) -> Anomaly:
        """The read that the user's predicate refuses."""
        return Anomaly(
            kind=KIND,
            checker=CHECKER,
            key=name_of_key(key),
            witness=(read.line,),
            words=f"{words_of(read)} of line {read.line} does not hold for {self.name}: "
            f"{before} calls certainly came before it, and {maybe} may have",
        )


def checked_state(state: Hashable) -> Hashable:
    """The state. TypeError here, and not in the search, if it cannot be one: if it has no hash, or if it can change."""
    frozenset((state,))
    _refuse_identity(state)
    return state


def _refuse_identity(state: Hashable) -> None:
    """TypeError for a state that is compared by identity though it can change: a search would take changed states for equal."""
    # An object without an equality of its own equals itself alone, also after a change. A mere mark, `object()`, cannot change.
    for part in state if isinstance(state, tuple | frozenset) else ():
        _refuse_identity(part)
    can_change = hasattr(state, "__dict__") or hasattr(type(state), "__slots__")
    if type(state).__hash__ is object.__hash__ and can_change and not isinstance(state, type):
        what = type(state).__name__
        raise TypeError(f"a {what} is compared by identity, so equal states are not seen to be equal, nor its changes")


def _checked_answer(holds: object) -> object:
    if holds is None:
        raise TypeError("holds returned None; it must return True or False")
    return holds


def _answer_of_model(name: str, call: Call, ask: Callable[[], _T]) -> _T:
    """The code is the user's: whatever it raises is told as a mistake of the model, with the call that it was asked about."""
    try:
        return ask()
    # SystemExit would end the command with the exit code that the model chose.
    except (Exception, SystemExit) as error:
        raise HistoryError(f"line {call.line}: {name} cannot judge {words_of(call)}: {type(error).__name__}: {error}") from error
