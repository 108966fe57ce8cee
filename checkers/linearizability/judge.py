"""Judging a foreign history by a model: split by key, decided by the fastest sound way, with a budget that counts steps.

Where a history's values say themselves where they belong, a polynomial algorithm decides (`checkers.linearizability.unique`);
else the search does. The parts are searched in rounds of growing budgets, because one impossible part is enough and it is
often found at once, while another would take for ever. A part that is not decided within the last round is unchecked.

    >>> from checkers.linearizability.judge import judge
    >>> from checkers.linearizability.registers import Register
    >>> from history.foreign.jepsen import steps
    >>> from history.foreign.pairing import pair
    >>> wrote = [{"process": 0, "type": t, "f": "write", "value": 1} for t in ("invoke", "ok")]
    >>> read = [{"process": 0, "type": t, "f": "read", "value": v} for t, v in (("invoke", None), ("ok", 2))]
    >>> judge(Register(), pair(steps(enumerate(wrote + read, 1))).calls).anomalies[0].words
    'read -> 2 of line 3 cannot follow the 1 calls that can be put in order before it: the state is 1'
"""

from collections.abc import Hashable, Sequence

from msgspec import Struct

from checkers.linearizability import unique
from checkers.linearizability.model import Model
from checkers.linearizability.search import Outcome, Placed, Search, Stuck, Undecided
from checkers.verdict import Anomaly, Validity
from history.errors import HistoryError
from history.foreign.step import UNKNOWN, Call

CHECKER = "linearizability"
_FIRST_ROUND = 2_000
_GROWTH = 5
STEPS_MAX = 2_000_000  # of one part, unless the caller says otherwise
_ANOMALIES_MAX = 8
_LAST_PLACED = 3  # witnesses: so many of the calls before the impossible one
_WORDS_MAX = 200


class Judgement(Struct, frozen=True, kw_only=True):
    """What came out. `notes` are facts that a reader should know and that put nothing in doubt."""

    validity: Validity
    anomalies: tuple[Anomaly, ...] = ()
    unchecked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    operations: int = 0


def judge(model: Model, calls: Sequence[Call], *, steps_max: int = STEPS_MAX) -> Judgement:
    """Whether the calls are linearizable. HistoryError where one is no call of the model."""
    parts, silent = _parts(model, calls)
    anomalies: list[Anomaly] = []
    searches: list[tuple[Hashable, list[Call], Search]] = []
    ambiguous: list[Hashable] = []
    for key, part in parts.items():
        outcome = unique.decide(model, part)
        if outcome is None:
            searches.append((key, part, Search(model, part)))
        elif isinstance(outcome, Stuck):
            anomalies.append(_anomaly(key, part, outcome))
        elif isinstance(outcome, Undecided):
            ambiguous.append(key)
    budget = min(_FIRST_ROUND, steps_max)
    while searches and not anomalies:
        anomalies, searches = _round(searches, budget)
        if budget == steps_max:
            break
        budget = min(budget * _GROWTH, steps_max)
    unchecked = (
        tuple(f"{_name(key)}not decided within {steps_max:,} steps of search" for key, _, _ in searches) if not anomalies else ()
    )
    notes = (f"{silent} reads say nothing: nil stands for a value that was not written down",) if silent else ()
    return Judgement(
        validity=Validity.INVALID if anomalies else Validity.UNKNOWN if unchecked else Validity.VALID,
        anomalies=tuple(anomalies[:_ANOMALIES_MAX]),
        unchecked=unchecked,
        notes=notes,
        operations=len(calls),
    )


def _parts(model: Model, calls: Sequence[Call]) -> tuple[dict[Hashable, list[Call]], int]:
    parts: dict[Hashable, list[Call]] = {}
    silent = 0
    for call in calls:
        refusal = model.refusal(call)
        if refusal is not None:
            raise HistoryError(f"line {call.line}: {refusal}")
        if model.says_nothing(call):
            silent += 1
        else:
            parts.setdefault(model.key(call), []).append(call)
    return parts, silent


def _round(
    searches: list[tuple[Hashable, list[Call], Search]], budget: int
) -> tuple[list[Anomaly], list[tuple[Hashable, list[Call], Search]]]:
    """Every search goes on until it has looked at `budget` configurations in all."""
    anomalies: list[Anomaly] = []
    left: list[tuple[Hashable, list[Call], Search]] = []
    for key, part, search in searches:
        outcome: Outcome = search.run(budget - search.steps)
        if isinstance(outcome, Stuck):
            anomalies.append(_anomaly(key, part, outcome))
        elif isinstance(outcome, Undecided):
            left.append((key, part, search))
        else:
            assert isinstance(outcome, Placed)
    return anomalies, left


def _anomaly(key: Hashable, part: Sequence[Call], stuck: Stuck) -> Anomaly:
    by_index = {call.index: call for call in part}
    impossible = by_index[stuck.call]
    before = [by_index[index].line for index in stuck.order[-_LAST_PLACED:]]
    why = stuck.why or f"the state is {_short(stuck.state)}"
    return Anomaly(
        kind="nonlinearizable",
        checker=CHECKER,
        key="" if key is None else str(key),
        witness=(*before, impossible.line),
        words=f"{words_of(impossible)} of line {impossible.line} cannot follow the {len(stuck.order)} calls "
        f"that can be put in order before it: {why}",
    )


def words_of(call: Call) -> str:
    """A call as people read it."""
    asked = "" if call.argument is None else f" {_short(call.argument)}"
    answered = "" if call.result is UNKNOWN or call.result == call.argument else f" -> {_short(call.result)}"
    return f"{call.f}{asked}{answered}"


def _short(value: Hashable) -> str:
    text = "nil" if value is None else repr(value)
    return text if len(text) <= _WORDS_MAX else f"…{text[-_WORDS_MAX:]}"


def _name(key: Hashable) -> str:
    return "" if key is None else f"key {key}: "
