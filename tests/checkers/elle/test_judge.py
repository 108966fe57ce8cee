"""Each anomaly of transactions in the fewest of them, and the models that forbid it."""

import io

import pytest

from checkers.elle.judge import judge
from checkers.verdict import Validity
from history.foreign.edn import records
from history.foreign.jepsen import steps
from history.foreign.pairing import Paired, pair

# Transactions one after another in time, each of a process of its own: (outcome, value).
_BAD = {
    "G0": [
        ("ok", "[[:append 1 1] [:append 2 1]]"),
        ("ok", "[[:append 1 2] [:append 2 2]]"),
        ("ok", "[[:r 1 [1 2]] [:r 2 [2 1]]]"),
    ],
    "G1a": [("fail", "[[:append 1 1]]"), ("ok", "[[:r 1 [1]]]")],
    "G1b": [("ok", "[[:append 1 1] [:append 1 2]]"), ("ok", "[[:r 1 [1]]]")],
    "G1c": [("ok", "[[:append 1 1] [:r 2 [1]]]"), ("ok", "[[:append 2 1] [:r 1 [1]]]")],
    "G-single": [("ok", "[[:append 1 1] [:append 2 1]]"), ("ok", "[[:r 1 [1]] [:r 2 nil]]")],
    "G2-item": [("ok", "[[:append 1 1] [:r 2 nil]]"), ("ok", "[[:append 2 1] [:r 1 nil]]")],
    "internal": [("ok", "[[:append 1 1] [:r 1 nil]]")],
    "incompatible-order": [
        ("ok", "[[:append 1 1]]"),
        ("ok", "[[:append 1 2]]"),
        ("ok", "[[:r 1 [1 2]]]"),
        ("ok", "[[:r 1 [2]]]"),
    ],
    "duplicate-elements": [("ok", "[[:append 1 1]]"), ("ok", "[[:r 1 [1 1]]]")],
}


def history(*transactions: tuple[str, str], together: bool) -> Paired:
    """The transactions, all at once or one after another."""
    invokes = [f"{{:process {n}, :type :invoke, :f :txn, :value {value}}}" for n, (_, value) in enumerate(transactions)]
    returns = [f"{{:process {n}, :type :{how}, :f :txn, :value {value}}}" for n, (how, value) in enumerate(transactions)]
    lines = [*invokes, *returns] if together else [line for both in zip(invokes, returns, strict=True) for line in both]
    return pair(steps(records(io.BytesIO("\n".join(lines).encode()))))


@pytest.mark.parametrize("kind", sorted(_BAD))
def test_an_anomaly_is_found_and_named(kind: str) -> None:
    found = judge("list-append", history(*_BAD[kind], together=True), ("serializable",))

    assert kind in {anomaly.kind for anomaly in found.anomalies}


def test_write_skew_is_no_anomaly_of_snapshot_isolation() -> None:
    found = judge("list-append", history(*_BAD["G2-item"], together=True), ("snapshot-isolation",))

    assert found.validity is Validity.VALID


def test_a_stale_read_counts_only_where_time_does() -> None:
    """Serializable in another order; strict serializability knows that the append was over."""
    stale = history(("ok", "[[:append 1 1]]"), ("ok", "[[:r 1 nil]]"), together=False)

    assert judge("list-append", stale, ("serializable",)).validity is Validity.VALID
    assert [a.kind for a in judge("list-append", stale, ("strict-serializable",)).anomalies] == ["G-single-realtime"]


def test_a_crashed_append_may_have_happened_or_not() -> None:
    crashed = ("info", "[[:append 1 1]]")

    for seen in ("nil", "[1]"):
        found = judge("list-append", history(crashed, ("ok", f"[[:r 1 {seen}]]"), together=False), ("strict-serializable",))
        assert found.validity is Validity.VALID


def test_a_value_that_is_appended_twice_leaves_the_rest_unchecked() -> None:
    twice = history(("ok", "[[:append 1 1]]"), ("ok", "[[:append 1 1]]"), together=True)

    assert judge("list-append", twice, ("serializable",)).validity is Validity.UNKNOWN


def test_a_lost_update_of_registers_is_a_cycle() -> None:
    lost = history(("ok", "[[:r 1 nil] [:w 1 1]]"), ("ok", "[[:r 1 nil] [:w 1 2]]"), together=True)

    assert [a.kind for a in judge("rw-register", lost, ("serializable",)).anomalies] == ["lost-update", "G2-item"]
