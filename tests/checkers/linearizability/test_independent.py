"""Histories of `jepsen.independent`, where each value is `[key value]`: each key is an object of its own."""

import pytest

from checkers.engine.verdict import Validity
from checkers.linearizability.judge import judge
from checkers.linearizability.registry import model_named
from history.errors import HistoryError
from history.foreign.read import history_of


def verdict_of(*calls: str) -> str:
    """Calls one after another, each as "f asked -> answered"."""
    lines = []
    for call in calls:
        f, _, values = call.partition(" ")
        argument, answered = values.split(" -> ")
        lines += [f"{{:process 0, :type {t}, :f :{f}, :value {v}}}" for t, v in ((":invoke", argument), (":ok", answered))]
    return "\n".join(lines)


GOOD = {
    "register": ("write [0 1] -> [0 1]", "write [1 5] -> [1 5]", "read [0 nil] -> [0 1]"),
    "cas-register": (
        "write [:x 1] -> [:x 1]",
        "write [:y 5] -> [:y 5]",
        "cas [:x [1 2]] -> [:x [1 2]]",
        "read [:x nil] -> [:x 2]",
    ),
    "mutex": ("acquire [0 nil] -> [0 nil]", "acquire [1 nil] -> [1 nil]", "release [0 nil] -> [0 nil]"),
    "set": ("add [0 1] -> [0 1]", "add [1 7] -> [1 7]", "read [0 nil] -> [0 #{1}]"),
    "fifo-queue": ("enqueue [0 1] -> [0 1]", "enqueue [1 2] -> [1 2]", "dequeue [1 nil] -> [1 2]"),
    "unordered-queue": ("enqueue [0 1] -> [0 1]", "enqueue [0 2] -> [0 2]", "enqueue [1 3] -> [1 3]", "dequeue [0 nil] -> [0 2]"),
}
BAD = {
    "register": ("write [0 1] -> [0 1]", "write [1 5] -> [1 5]", "read [0 nil] -> [0 5]"),
    "cas-register": ("write [:x 1] -> [:x 1]", "write [:y 5] -> [:y 5]", "read [:x nil] -> [:x 5]"),
    "mutex": ("acquire [0 nil] -> [0 nil]", "acquire [1 nil] -> [1 nil]", "acquire [0 nil] -> [0 nil]"),
    "set": ("add [0 1] -> [0 1]", "add [1 7] -> [1 7]", "read [0 nil] -> [0 #{1 7}]"),
    "fifo-queue": ("enqueue [0 1] -> [0 1]", "enqueue [1 2] -> [1 2]", "dequeue [1 nil] -> [1 1]"),
    "unordered-queue": ("enqueue [0 1] -> [0 1]", "enqueue [1 2] -> [1 2]", "dequeue [1 nil] -> [1 1]"),
}


@pytest.mark.parametrize("model", sorted(GOOD))
def test_independent_keys_of_a_history_are_judged_separately(model: str) -> None:
    """As one object, these histories would have no order."""
    assert judge(model_named(model), history_of(verdict_of(*GOOD[model])).calls).validity is Validity.VALID


@pytest.mark.parametrize("model", sorted(BAD))
def test_anomaly_of_one_key_names_the_key(model: str) -> None:
    (anomaly,) = judge(model_named(model), history_of(verdict_of(*BAD[model])).calls).anomalies

    assert type(anomaly.key) is str  # a keyword is none that JSON could be made of
    assert (anomaly.key, anomaly.witness[-1]) == (
        {"cas-register": "x", "fifo-queue": "1", "unordered-queue": "1"}.get(model, "0"),
        5,
    )


def test_register_whose_values_are_pairs_is_not_split_by_key() -> None:
    """Its reads are invoked without a key."""
    history = history_of(verdict_of("write [0 1] -> [0 1]", "write [1 5] -> [1 5]", "read nil -> [0 1]"))

    assert judge(model_named("register"), history.calls).validity is Validity.INVALID


def test_history_with_a_non_pair_value_is_not_split_by_key() -> None:
    """A published history of a set adds pairs and reads a list of single numbers: all that was added is lost."""
    history = history_of(verdict_of("add [0 1] -> [0 1]", "add [0 2] -> [0 2]", "read [0 nil] -> [1 2 3]"))

    assert judge(model_named("set"), history.calls).validity is Validity.INVALID


def test_answer_that_names_another_key_is_refused() -> None:
    history = history_of(verdict_of("read [0 nil] -> [0 nil]", "read [0 nil] -> [1 5]"))

    with pytest.raises(HistoryError, match=r"^line 3: the answer to read of key 0 names key 1$"):
        judge(model_named("register"), history.calls)
