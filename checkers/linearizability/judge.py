"""Judge a foreign history by a model: split it by key and decide each part by the fastest sound algorithm, within a step budget.

If the values determine the order, a polynomial algorithm decides (`checkers.linearizability.unique`), otherwise the search. Few
calls are searched first, for a better witness, and left to that algorithm if the first round does not decide. The parts are
searched in rounds of growing budgets: one impossible part is enough, and it is often found at once while another part would take
very long. A part that is not decided within the last round is unchecked, and so is a history without any answer that could have
been wrong: a history of writes shows nothing.

    >>> from checkers.linearizability.judge import judge
    >>> from checkers.linearizability.registers import Register
    >>> from history.foreign.jepsen import steps
    >>> from history.foreign.pairing import pair
    >>> wrote = [{"process": 0, "type": t, "f": "write", "value": 1} for t in ("invoke", "ok")]
    >>> read = [{"process": 0, "type": t, "f": "read", "value": v} for t, v in (("invoke", None), ("ok", 2))]
    >>> judge(Register(), pair(steps(enumerate(wrote + read, 1))).calls).anomalies[0].words
    'read -> 2 of line 3 cannot follow the 1 calls ordered before it: the state is 1; no call wrote 2'
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from checkers.engine.verdict import Anomaly, Validity
from checkers.linearizability import unique
from checkers.linearizability.independent import alone, by_key
from checkers.linearizability.model import Model, Sociable, Traced
from checkers.linearizability.search import Outcome, Placed, Search, Stuck, Undecided
from checkers.linearizability.windows import FIRST_ROUND, GROWTH, refuted
from checkers.linearizability.witness import of_search
from history.errors import HistoryError
from history.foreign.step import Call, named, short, tells

CHECKER = "linearizability"
NOTHING_ANSWERED = "no call certainly completed with an answer that could have been wrong: nothing was read"
STEPS_MAX = 2_000_000  # default budget of one part
_WITNESS_STEPS = 20  # times the steps after which a window had no order: its calls alone tell no order of those before
ANOMALIES_MAX = 8
_LAST_PLACED = 3  # the number of witnesses placed before the impossible call


class Link(Struct, frozen=True, kw_only=True):
    """One dependency in a cycle of transactions: the operation of line `source` came before that of `target`, and why."""

    source: int
    target: int
    kind: str  # ww, wr, rw, process, realtime
    reason: str


class Cycle(Struct, frozen=True, kw_only=True):
    """The dependencies that prove an anomaly of this kind; their sources are its witness.

    `assumed`: orders of writes without which some of the dependencies do not exist. Cycles that assume some are a proof together:
    whatever the order of the writes is, one of them exists.
    """

    kind: str
    links: tuple[Link, ...]
    assumed: tuple[Link, ...] = ()


class Judgement(Struct, frozen=True, kw_only=True):
    """The result of judging a foreign history. `notes` are facts for the reader that do not affect the validity.

    `longest` has one entry for each anomaly in a history of calls: an order of the longest prefix that has one, as indices of
    calls, and the call that cannot be placed. If the deciding algorithm makes no orders, it lists the returned calls of the
    prefix by invocation. `cycles` has the cycles of transactions; pages draw them.
    """

    validity: Validity
    anomalies: tuple[Anomaly, ...] = ()
    unchecked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    operations: int = 0
    longest: tuple[Stuck, ...] = ()
    cycles: tuple[Cycle, ...] | UnsetType = UNSET


class _Part(Struct, frozen=True, kw_only=True):
    """The calls on one object (one key), and the search for an order that explains their answers."""

    key: Hashable
    calls: list[Call]
    search: Search


def judge(model: Model, calls: Sequence[Call], *, failed: Sequence[Call] = (), steps_max: int = STEPS_MAX) -> Judgement:
    """Judge whether calls on this kind of object are linearizable. HistoryError for a call that the object does not have.

    `failed` are calls that certainly did not happen: the reason of an anomaly names one whose value was read.
    """
    calls_by_object, silent = _calls_by_object(model, by_key(calls))
    anomalies: list[tuple[Anomaly, Stuck]] = []
    searches: list[_Part] = []
    ambiguous: list[Hashable] = []
    for key, calls_of_object in calls_by_object.items():
        outcome = unique.decide(model, calls_of_object)
        if outcome is None:
            searches.append(_Part(key=key, calls=calls_of_object, search=Search(model, calls_of_object)))
        elif isinstance(outcome, Stuck):
            anomalies.append((_anomaly(key, calls_of_object, outcome), outcome))
        elif isinstance(outcome, Undecided):
            ambiguous.append(key)
    budget = min(FIRST_ROUND, steps_max)
    while searches and not anomalies:
        anomalies, searches = _search_on(model, searches, budget)
        if budget <= FIRST_ROUND and not anomalies:
            anomalies, searches = _decided_by_values(model, searches)
        if budget == steps_max:
            break
        budget = min(budget * GROWTH, steps_max)
    answered = any(could_be_wrong(model, calls_of_object) for calls_of_object in calls_by_object.values())
    unanswered = () if answered else (NOTHING_ANSWERED,)
    unchecked = () if anomalies else (*_undecided(searches, ambiguous, steps_max), *unanswered)
    notes = (f"{silent} reads are ignored: nil stands for a value that was not recorded",) if silent else ()
    anomalies = [
        (_with_source_of_value(model, calls_by_object, failed, anomaly, stuck), stuck)
        for anomaly, stuck in anomalies[:ANOMALIES_MAX]
    ]
    return Judgement(
        validity=Validity.INVALID if anomalies else Validity.UNKNOWN if unchecked else Validity.VALID,
        anomalies=tuple(anomaly for anomaly, _ in anomalies),
        unchecked=unchecked,
        notes=notes,
        operations=len(calls),
        longest=tuple(stuck for _, stuck in anomalies),
    )


def could_be_wrong(model: Model, part: Sequence[Call]) -> bool:
    """Whether some answer to these calls on one object could have been wrong."""
    told = [call for call in part if call.end is not None and model.could_fail(call)]
    return len(told) > 1 or any(not (isinstance(model, Sociable) and model.is_right_alone(call)) for call in told)


def _undecided(searches: Sequence[_Part], ambiguous: Sequence[Hashable], steps_max: int) -> Iterator[str]:
    """Why parts of the history have no verdict, in sentences."""
    for part in searches:
        yield f"{_about(part.key)}not decided within {steps_max:,} steps of search"
    for key in ambiguous:
        yield f"{_about(key)}appends returned without an offset, and no read shows where they are"


def _calls_by_object(model: Model, calls: Sequence[Call]) -> tuple[dict[Hashable, list[Call]], int]:
    """The calls on each object, and how many calls say nothing. Raises HistoryError for a call that the model refuses."""
    calls_by_object: dict[Hashable, list[Call]] = {}
    silent = 0
    for call in calls:
        refusal = model.refusal(call)
        if refusal is not None:
            raise HistoryError(f"line {call.line}: {refusal}")
        if model.says_nothing(call):
            silent += 1
        else:
            calls_by_object.setdefault(model.key(call), []).append(call)
    return calls_by_object, silent


def _search_on(model: Model, searches: Sequence[_Part], budget: int) -> tuple[list[tuple[Anomaly, Stuck]], list[_Part]]:
    """Continue each search until it has visited `budget` configurations in total; return anomalies and undecided parts."""
    anomalies: list[tuple[Anomaly, Stuck]] = []
    left: list[_Part] = []
    for part in searches:
        outcome: Outcome = part.search.run(budget - part.search.steps)
        if isinstance(outcome, Stuck):
            stuck = of_search(model, part.calls, max(part.search.steps, FIRST_ROUND), near=part.search.blocked)
            anomalies.append((_anomaly(part.key, part.calls, stuck), stuck))
        elif isinstance(outcome, Undecided):
            window = refuted(model, part.calls, around=part.search.blocked, steps=budget)
            if window is None:
                left.append(part)
                continue
            stuck = of_search(model, part.calls, _WITNESS_STEPS * budget, near=part.search.blocked, window=window)
            anomalies.append((_anomaly(part.key, part.calls, stuck), stuck))
        else:
            assert isinstance(outcome, Placed)
    return anomalies, left


def _decided_by_values(model: Model, searches: Sequence[_Part]) -> tuple[list[tuple[Anomaly, Stuck]], list[_Part]]:
    """The anomalies of parts that are hard to search, and that their values decide; and the parts that they do not decide."""
    anomalies: list[tuple[Anomaly, Stuck]] = []
    left: list[_Part] = []
    for part in searches:
        outcome = unique.decide(model, part.calls, hard=True)
        if isinstance(outcome, Stuck):
            anomalies.append((_anomaly(part.key, part.calls, outcome), outcome))
        elif not isinstance(outcome, Placed):
            left.append(part)
    return anomalies, left


def _anomaly(key: Hashable, calls_of_object: Sequence[Call], stuck: Stuck) -> Anomaly:
    """The anomaly of an impossible call: the calls that were ordered last before it, and why it cannot follow them."""
    by_index = {call.index: call for call in calls_of_object}
    impossible = by_index[stuck.call]
    before = [by_index[index].line for index in stuck.order[-_LAST_PLACED:]]
    why = stuck.why or f"the state is {short(stuck.state)}"
    return Anomaly(
        kind="nonlinearizable",
        checker=CHECKER,
        key=name_of_key(key),
        witness=(*before, impossible.line),
        words=f"{words_of(impossible)} of line {impossible.line} "
        f"cannot follow the {len(stuck.order)} calls ordered before it: {why}",
    )


def _with_source_of_value(
    model: Model, calls_by_object: Mapping[Hashable, Sequence[Call]], failed: Sequence[Call], anomaly: Anomaly, stuck: Stuck
) -> Anomaly:
    """The anomaly, with whose value was answered if no call before gave it: that of a failed or a later call, or nobody's."""
    key, impossible = next(
        (key, call) for key, calls_of_object in calls_by_object.items() for call in calls_of_object if call.index == stuck.call
    )
    if not isinstance(model, Traced):
        return anomaly
    end = impossible.end
    assert end is not None
    values_written = {value for call in calls_by_object[key] if call.start < end for value in model.given(call)}
    unwritten = [value for value in model.taken(impossible) if value not in values_written]
    if not unwritten:
        return anomaly
    is_keyed = any(call.key is not None for call in calls_by_object[key])
    split = [call for call in (alone(call) if is_keyed else call for call in failed) if call is not None]
    calls_of_key = [call for call in split if model.key(call) == key and not model.refusal(call)]
    for value in unwritten:
        done = [call.line for call in calls_of_key if call.start < end and value in model.given(call)]
        if done:
            words = f"{anomaly.words}; {short(value)} is of line {done[-1]}, a call that certainly failed"
            return replace(anomaly, witness=(*anomaly.witness[:-1], done[-1], anomaly.witness[-1]), words=words)
    if stuck.why:
        return anomaly
    later = [
        call.line for call in (*calls_by_object[key], *calls_of_key) if call.start > end and unwritten[0] in model.given(call)
    ]
    when = (
        f"line {min(later)} is the first to write {short(unwritten[0])}, later"
        if later
        else f"no call wrote {short(unwritten[0])}"
    )
    return replace(anomaly, words=f"{anomaly.words}; {when}")


def words_of(call: Call) -> str:
    """Format a call for messages: function, argument and answer."""
    argument = "" if call.argument is None else f" {short(call.argument)}"
    answered = f" -> {short(call.result)}" if tells(call.f, call.argument, call.result) else ""
    return f"{call.f}{argument}{answered}"


def name_of_key(key: Hashable) -> str:
    """A key as anomalies name it; empty if there is only one object."""
    return "" if key is None else named(key)


def _about(key: Hashable) -> str:
    return "" if key is None else f"key {name_of_key(key)}: "
