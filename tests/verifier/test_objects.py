"""Witnesses about objects: what is made is accepted, and an order is accepted only if the definition replays it."""

from itertools import combinations, permutations

import pytest
from msgspec.structs import replace

from checkers.certificates.objects import core_of, order_of
from checkers.engine.verdict import Validity
from checkers.linearizability.judge import could_be_wrong, judge
from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng
from proof.linearizability import drawn, model_of
from proof.objects import SUBJECTS, Subject
from proof.orders import is_linearizable
from verifier.certificate import FORMAT, Certificate, Linearization, NoLinearization, Refused, Witness, digest_of
from verifier.objects import Object, has_order, objects
from verifier.verify import verify

_HISTORIES = 60


def _paired(calls: tuple[Call, ...]) -> Paired:
    return Paired(calls=calls, failed=(), steps=2 * len(calls))


def _histories(subject: Subject, size: int = 4) -> list[tuple[Call, ...]]:
    return [drawn(subject, Rng(seed).fork(subject.name), size) for seed in range(_HISTORIES)]


def _first(subject: Subject) -> object:
    return 0 if subject.name in ("cas-register", "multi-register") else "" if subject.name == "kv" else None


def _accepts(subject: Subject, calls: tuple[Call, ...], witness: Witness) -> bool:
    verdict = "VALID" if isinstance(witness, Linearization) else "INVALID"
    model = model_of(subject)
    certificate = Certificate(
        format=FORMAT,
        history=digest_of(_paired(calls)),
        model=model.name,
        initial="",
        level="linearizable",
        verdict=verdict,  # type: ignore[arg-type]
        witness=witness,
    )
    try:
        first = subject.first if model.name == "register" else _first(subject)
        verify(_paired(calls), certificate, first=first, nil_is_a_value=getattr(model, "nil_is_a_value", True))
    except Refused:
        return False
    return True


def _explains(subject: Subject, calls: tuple[Call, ...], order: tuple[int, ...]) -> bool:
    """Whether the definition of linearizability finds this order, and no other: the calls one after another in time."""
    placed = [calls[at] for at in order]
    timely = all(
        second_call.end is None or second_call.end >= first_call.start for first_call, second_call in combinations(placed, 2)
    )
    whole = {call.index for call in calls if call.end is not None} <= {*order}
    apart = [replace(call, start=2 * at, end=2 * at + 1) for at, call in enumerate(placed)]
    may_be_wrong = could_be_wrong(model_of(subject), calls)
    return timely and whole and may_be_wrong and is_linearizable(subject.object, subject.first, apart)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=[subject.name for subject in SUBJECTS])
def test_order_is_accepted_only_if_it_explains_the_answers(subject: Subject) -> None:
    """Every order of every subset of the calls: swapped, cut and true ones."""
    accepted = 0
    for calls in _histories(subject):
        for size in range(len(calls) + 1):
            for order in permutations(range(len(calls)), size):
                expected = _explains(subject, calls, order)
                assert _accepts(subject, calls, Linearization(order=order)) == expected, (order, calls)
                accepted += expected

    assert accepted > _HISTORIES


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=[subject.name for subject in SUBJECTS])
def test_calls_of_a_possible_history_are_no_contradiction(subject: Subject) -> None:
    """Else the verifier would believe an INVALID of a history that has an order."""
    model = model_of(subject)
    for calls in _histories(subject):
        thing = Object(model.name, _first(subject), nil=getattr(model, "nil_is_a_value", True), calls=len(calls))
        if model.name == "register":
            thing = thing._replace(first=subject.first)
        if is_linearizable(subject.object, subject.first, calls):
            part = objects(thing, calls)[None]
            kept = [{*some} for size in range(1, len(calls) + 1) for some in combinations(range(len(calls)), size)]
            assert all(has_order(thing, part, some) for some in kept), calls


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=[subject.name for subject in SUBJECTS])
def test_contradiction_is_accepted_and_minimal(subject: Subject) -> None:
    model = model_of(subject)
    found_count = 0
    for calls in _histories(subject, 5):
        judgement = judge(model, calls)
        if judgement.validity is Validity.INVALID:
            first = subject.first if model.name == "register" else _first(subject)
            thing = Object(model.name, first, nil=getattr(model, "nil_is_a_value", True), calls=len(calls))
            witness = core_of(thing, model, calls, judgement.longest[0])
            assert witness is not None
            assert _accepts(subject, calls, witness)
            for at in witness.kept:
                fewer = tuple(kept_at for kept_at in witness.kept if kept_at != at)
                last = max(fewer, default=at, key=lambda kept_at: calls[kept_at].end or 0)
                assert not _accepts(subject, calls, replace(witness, kept=fewer, last=last, before=()))
            found_count += 1

    assert found_count


def test_made_order_is_accepted_for_every_model() -> None:
    for subject in SUBJECTS:
        model = model_of(subject)
        first = subject.first if model.name == "register" else _first(subject)
        for calls in _histories(subject)[:20]:
            if judge(model, calls).validity is Validity.VALID:
                thing = Object(model.name, first, nil=getattr(model, "nil_is_a_value", True), calls=len(calls))
                witness = order_of(thing, model, calls)
                assert witness is not None
                assert _accepts(subject, calls, witness)


_READ_OF_NOTHING = (
    Call(index=0, line=1, f="write", argument=1, result=1, start=0, end=1),
    Call(index=1, line=2, f="read", result=2, start=2, end=3),
    Call(index=2, line=3, f="read", result=UNKNOWN, start=4, end=None),
)


@pytest.mark.parametrize(
    "witness",
    [
        NoLinearization(kept=(0,), last=0),
        NoLinearization(kept=(1,), last=0),
        NoLinearization(kept=(1, 7), last=1),
        NoLinearization(kept=(), last=1),
        NoLinearization(kept=(1,), last=1, before=(0, 0)),
        NoLinearization(kept=(1,), last=1, before=(0, 2)),
        Linearization(order=(0, 1)),
    ],
)
def test_false_witness_of_an_impossible_read_is_refused(witness: Witness) -> None:
    subject = next(known_subject for known_subject in SUBJECTS if known_subject.name == "register")

    assert _accepts(subject, _READ_OF_NOTHING, NoLinearization(kept=(1,), last=1, before=(0,)))
    assert not _accepts(subject, _READ_OF_NOTHING, witness)
