"""Certificates of models that look at answers one by one: each INVALID has one, and no witness at all proves one otherwise."""

from itertools import permutations, product

import pytest

from checkers.certificates.certify import certify_answers
from checkers.engine.verdict import Validity
from checkers.jepsen.judge import MODELS, judge
from history.foreign.read import history_of
from history.foreign.step import Pairs
from history.seed import Rng
from proof.reads_definitions import DEFINITIONS, IMPOSSIBLE, INITIAL
from proof.reads_histories import PLANS, drawn
from verifier.answers import RULES, verify_answers
from verifier.certificate import Answers, Refused
from verifier.verify import verify

_OPERATIONS_MAX = 3  # of a witness


def test_rules_are_those_of_all_anomalies_of_the_models() -> None:
    assert set(RULES) == {(model.name, kind) for model in MODELS for kind in model.kinds}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_witnesses_of_answers_exist_where_the_definition_says(name: str) -> None:
    """All sequences of different operations, up to three, under each name of an anomaly of the model."""
    model = name.split(",")[0]
    strict = "linearizable" in name
    rng = Rng(5).fork(name)
    seen = {False: 0, True: 0}
    for _ in range(60):
        history = drawn(PLANS[name], rng)
        initial = Pairs(INITIAL) if name == "bank" and rng.below(2) else None
        calls = (*history.calls, *history.failed)
        is_bad = DEFINITIONS[name](history, initial) == IMPOSSIBLE
        some = [said for size in range(1, 1 + _OPERATIONS_MAX) for said in permutations(range(len(calls)), size)]
        shown = []
        for (_, kind), operations in product((rule for rule in RULES if rule[0] == model), some):
            try:
                witness = Answers(name=kind, operations=operations)
                verify_answers(model, calls, len(history.calls), witness, initial=initial, strict=strict)
            except Refused:
                continue
            shown.append(witness)
        assert bool(shown) == is_bad, history
        seen[is_bad] += 1
    assert min(seen.values()) > 3


def test_answers_of_another_model_prove_nothing() -> None:
    """The same calls would be a counter that was read too low, if a set could be one."""
    lines = "{:process 0 :type :invoke :f :generate}\n{:process 0 :type :ok :f :generate :value 3}\n"
    history = history_of(lines + lines)
    judgement = judge("unique-ids", history)
    made = certify_answers("unique-ids", history, judgement, first=None, strict=False)

    assert (judgement.validity, made.witness) == (Validity.INVALID, Answers(name="duplicate", operations=(0, 1)))
    for changed in ({"model": "counter"}, {"verdict": "VALID"}, {"level": "serializable"}):
        with pytest.raises(Refused):
            verify(history, type(made)(**{name: getattr(made, name) for name in made.__struct_fields__} | changed))


def test_element_that_is_read_again_is_not_lost() -> None:
    calls = [("add", 1), ("read", "[]"), ("read", "[1]")]
    lines = [f"{{:process 0 :type {kind} :f :{f} :value {value}}}" for f, value in calls for kind in (":invoke", ":ok")]
    history = history_of("\n".join(lines))

    with pytest.raises(Refused):
        verify_answers("set-full", history.calls, 3, Answers(name="lost", operations=(0, 1)), initial=None, strict=False)
    verify_answers("set-full", history.calls, 3, Answers(name="stale", operations=(0, 1, 2)), initial=None, strict=True)


def test_a_value_out_twice_does_not_hide_a_lost_one() -> None:
    lines = [
        "{:process 0 :type :invoke :f :enqueue :value 0}\n{:process 0 :type :ok :f :enqueue :value 0}",
        "{:process 1 :type :invoke :f :enqueue :value 1}\n{:process 1 :type :ok :f :enqueue :value 1}",
        *("{:process 2 :type :invoke :f :drain}\n{:process 2 :type :ok :f :drain :value [1]}",) * 2,
    ]
    history = history_of("\n".join(lines) + "\n")
    judgement = judge("total-queue", history)
    made = certify_answers("total-queue", history, judgement, first=None, strict=False)

    assert made.witness == Answers(name="lost", operations=(0,))
    verify(history, made)
