"""Compares the judges of linearizability with the enumeration of every order of the calls.

Exhaustive part: every arrangement in time of a number of calls, with every choice of letters. Beyond that: random histories of
more calls, whose answers mostly follow some order; otherwise nearly all would be impossible.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, cast

from checkers.certificates.certify import NoCertificate, certify_object
from checkers.engine.verdict import Validity
from checkers.linearizability import unique
from checkers.linearizability.judge import judge
from checkers.linearizability.model import Holds, Model
from checkers.linearizability.registry import model_named
from checkers.linearizability.search import Placed, Search, Stuck
from checkers.linearizability.windows import Window, has_order_within
from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng
from proof.objects import NAMED_MAX, OWN, Letter, Subject, partition_log
from proof.orders import is_linearizable, longest_prefix, still_open
from proof.shapes import Spans, is_first_of_its_kind, shapes

STEPS_MAX = 1_000_000


@dataclass(slots=True)
class Tally:
    """Counts of the histories on which the judge was compared with its definition.

    `undecided`: the judge answered UNKNOWN.
    """

    name: str
    possible: int = 0
    impossible: int = 0
    undecided: int = 0
    exhaustive: int = 0  # histories of the exhaustive part
    calls_max: int = 0  # calls in the longest histories of the exhaustive part
    unanswered: int = 0  # histories without an answer that could be wrong, which the judge must leave undecided
    loose: int = 0  # impossible histories whose witness is a later call than necessary
    wrong: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of histories on which the judges of linearizability were compared."""
        return self.possible + self.impossible


def model_of(subject: Subject) -> Model:
    """Return the judge's model of this kind of object."""
    name = subject.name.split(",")[0]
    initial = {"register": subject.first, "cas-register": 0, "multi-register": 0}.get(name)
    return model_named(name, initial=initial)


def every(subject: Subject, size: int) -> Iterator[tuple[Call, ...]]:
    """Yield all histories of `size` calls on an object, up to renaming of calls."""
    letters = range(len(subject.letters))
    for spans in shapes(size):
        for chosen in product(letters, repeat=size):
            filled = tuple(subject.letters[at] for at in chosen)
            if _fits(filled, spans) and (subject.unique or is_first_of_its_kind(chosen, spans)):
                yield calls_of(filled, spans)


def _fits(filled: tuple[Letter, ...], spans: Spans) -> bool:
    """Whether calls that never returned come before no other call."""
    last = max(start for start, _ in spans)
    return all(end > last for (_, _, answer), (_, end) in zip(filled, spans, strict=True) if answer is UNKNOWN)


def calls_of(filled: tuple[Letter, ...], spans: Spans) -> tuple[Call, ...]:
    """The calls of a small history as the judge takes them; a call with the answer UNKNOWN never returned."""
    return tuple(
        Call(
            index=at, line=at + 1, f=f, argument=at if argument == OWN else argument, result=answer,
            start=start, end=None if answer is UNKNOWN else end,
        )
        for at, ((f, argument, answer), (start, end)) in enumerate(zip(filled, spans, strict=True))
    )  # fmt: skip


def drawn(subject: Subject, rng: Rng, size: int) -> tuple[Call, ...]:
    """Return a random history of calls whose answers mostly follow one order of them."""
    places = rng.shuffled(range(2 * size))
    spans = sorted((min(pair), max(pair)) for pair in zip(places[::2], places[1::2], strict=True))
    chosen = [rng.pick(subject.letters) for _ in spans]
    points = sorted((start + rng.below(end - start), at) for at, (start, end) in enumerate(spans))
    state = subject.first
    filled = list(chosen)
    for _, at in points:
        f, argument, answer = chosen[at]
        right = subject.object(state, f, at if argument == OWN else argument)
        if right and (answer is not UNKNOWN or rng.below(2)):
            true_answer, state = right[0 if rng.below(3) else rng.below(min(4, len(right)))]
            nameable = not isinstance(true_answer, int) or true_answer <= NAMED_MAX
            if answer is not UNKNOWN and nameable and rng.below(8):
                filled[at] = (f, argument, true_answer)
    return calls_of(tuple(filled), tuple(spans))


def histories(subject: Subject, count: int, tally: Tally) -> Iterator[tuple[Call, ...]]:
    """Yield `count` histories of calls: all of 1, 2, … calls while a whole size fits, then random ones of more calls."""
    size = 1
    while True:
        fresh = []
        for calls in every(subject, size):
            fresh.append(calls)
            if tally.exhaustive + len(fresh) > count:
                break
        else:
            tally.exhaustive += len(fresh)
            tally.calls_max = size
            yield from fresh
            size += 1
            continue
        break
    rng = Rng(1).fork(subject.name)
    histories_before: set[tuple[Call, ...]] = set()
    while len(histories_before) < count - tally.exhaustive:
        calls = drawn(subject, rng, size + rng.below(3))
        if calls not in histories_before:
            histories_before.add(calls)
            yield calls


def prove(subject: Subject, count: int) -> Tally:
    """Compare search, polynomial algorithm, judge and the proof that it gives with the definition of linearizability."""
    tally = Tally(subject.name)
    model = model_of(subject)
    for calls in histories(subject, count, tally):
        possible = is_linearizable(subject.object, subject.first, calls)
        tally.possible += possible
        tally.impossible += not possible
        problem = _disagreement(subject, model, calls, possible, tally) or _without_proof(subject, model, calls)
        if problem:
            tally.wrong.append(f"{problem}: {calls}")
    return tally


def _without_proof(subject: Subject, model: Model, calls: tuple[Call, ...]) -> str:
    """Why the verdict, unless UNKNOWN, has no certificate that the verifier accepts."""
    found = judge(model, calls, steps_max=STEPS_MAX)
    if found.validity is Validity.UNKNOWN:
        return ""
    first = {"cas-register": 0, "multi-register": 0, "kv": "", "register": subject.first}.get(model.name)
    try:
        history = Paired(calls=calls, failed=(), steps=2 * len(calls))
        certify_object(model, history, found, first=first, nil_is_a_value=getattr(model, "nil_is_a_value", True))
    except NoCertificate as reason:
        return f"no certificate, {reason}"
    return ""


def _disagreement(subject: Subject, model: Model, calls: tuple[Call, ...], possible: bool, tally: Tally) -> str:
    """Which judge disagrees with the definition; "" if none does."""
    if model.name != "partition-log":  # the search cannot place its appends without an offset, and `judge` does not use it
        outcome = Search(model, calls).run(STEPS_MAX)
        if isinstance(outcome, Placed) != possible:
            return "the search"
        if possible and isinstance(model, Holds) and _is_refuted(model, calls):
            return "the search of a window"
    find = unique._conflict_finder(model)
    if find is not None:
        try:
            if (find(calls) is None) != possible:
                return "the polynomial algorithm"
        except unique.NotApplicable:
            pass
    judgement = judge(model, calls)
    functions = [call.f for call in calls if call.end is not None and _may_be_wrong(call)]
    # An acquire, an append and an end are contradicted by another answer alone.
    if not functions or (len(functions) == 1 and functions[0] in ("acquire", "append", "end")):
        tally.unanswered += 1
        return "" if judgement.validity is Validity.UNKNOWN else "the judge, without an answer"
    if judgement.validity is Validity.UNKNOWN:
        tally.undecided += 1
        return ""
    if (judgement.validity is Validity.VALID) != possible:
        return "the judge"
    return "" if possible else _wrong_witness(subject, calls, judgement.longest[0], tally)


def _is_refuted(model: Holds, calls: tuple[Call, ...]) -> bool:
    """Whether some window of the calls has no order, whatever was before."""
    times = sorted({time for call in calls for time in (call.start, call.end) if time is not None})
    windows = [Window(begin, end) for at, begin in enumerate(times) for end in times[at + 1 :]]
    return any(has_order_within(model, calls, window, STEPS_MAX) is False for window in windows)


def _may_be_wrong(call: Call) -> bool:
    """Whether the answer of a returned call tells anything: that of a write, an add or an append without an offset does not."""
    if call.f == "txn":
        return any(f in ("read", "r") and value is not None for f, _, value in cast(tuple[tuple[Any, ...], ...], call.result))
    if call.f == "append":
        return isinstance(call.result, int)
    return call.f not in ("write", "put", "add", "enqueue")


def _wrong_witness(subject: Subject, calls: tuple[Call, ...], stuck: Stuck, tally: Tally) -> str:
    """The disagreement about the witness: the prefix must have the given order, and the next longer one must have none."""
    end = longest_prefix(subject.object, subject.first, calls)
    by_index = {call.index: call for call in calls}
    end_told = by_index[stuck.call].end
    assert end is not None
    if end_told is not None and end_told > end and any(call.f == "append" and call.result is None for call in calls[:-1]):
        tally.loose += 1  # a prefix with an append that returned without an offset is not decided
        return ""
    if end_told != end:
        return "the call that cannot be placed"
    must = {call.index for call in calls if call.end is not None and call.end < end}
    if subject.object is partition_log:
        return "" if set(stuck.order) == must else "the calls of the prefix"
    placed = [by_index[index] for index in stuck.order]
    if not must <= set(stuck.order) or any(call.start > end for call in placed):
        return "the calls of the prefix"
    calls_before = [call if call.end is not None and call.end < end else still_open(call) for call in placed]
    if any(
        second_call.end is not None and second_call.end < possible_answer.start
        for at, possible_answer in enumerate(calls_before)
        for second_call in calls_before[at + 1 :]
    ):
        return "the order of the prefix, for time"
    states = {subject.first}
    for call in calls_before:
        answers = [possible_answer for state in states for possible_answer in subject.object(state, call.f, call.argument)]
        states = {after for answer, after in answers if call.result is UNKNOWN or call.result == answer}
    return "" if states else "the order of the prefix"
