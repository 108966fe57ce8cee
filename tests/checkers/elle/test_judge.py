"""Each anomaly of transactions in the fewest of them, and the models that forbid it."""

import doctest
from collections.abc import Hashable

import pytest
from msgspec.structs import replace

from checkers.elle import judge as elle_judge
from checkers.elle.judge import judge
from checkers.engine.verdict import Validity
from history.foreign.pairing import Paired
from history.foreign.read import history_of
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng, Seed
from proof.transactions import drawn

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
    return history_of("\n".join(lines))


@pytest.mark.parametrize("kind", sorted(_BAD))
def test_list_append_judge_finds_each_anomaly_by_name(kind: str) -> None:
    judgement = judge("list-append", history(*_BAD[kind], together=True), ("serializable",))

    assert kind in {anomaly.kind for anomaly in judgement.anomalies}


def test_snapshot_isolation_allows_write_skew() -> None:
    judgement = judge("list-append", history(*_BAD["G2-item"], together=True), ("snapshot-isolation",))

    assert judgement.validity is Validity.VALID


@pytest.mark.slow
def test_stale_read_violates_only_strict_serializability() -> None:
    """Serializable in another order; strict serializability knows that the append was over."""
    stale = history(("ok", "[[:append 1 1]]"), ("ok", "[[:r 1 nil]]"), together=False)

    assert judge("list-append", stale, ("serializable",)).validity is Validity.VALID
    assert [a.kind for a in judge("list-append", stale, ("strict-serializable",)).anomalies] == ["G-single-realtime"]


def test_append_of_unknown_outcome_may_be_read_or_absent() -> None:
    crashed = ("info", "[[:append 1 1]]")

    for seen in ("nil", "[1]"):
        judgement = judge("list-append", history(crashed, ("ok", f"[[:r 1 {seen}]]"), together=False), ("strict-serializable",))
        assert judgement.validity is Validity.VALID


@pytest.mark.parametrize(("outcome", "verdict"), [("ok", Validity.INVALID), ("info", Validity.VALID)])
def test_read_uncommitted_lets_unknown_outcomes_abort(outcome: str, verdict: Validity) -> None:
    """Their values were read, but PL-1 allows to read the values of aborted transactions."""
    crossed = (
        ("ok", "[[:append 1 1] [:append 2 1]]"),
        (outcome, "[[:append 1 2] [:append 2 2]]"),
        ("ok", "[[:r 1 [1 2]] [:r 2 [2 1]]]"),
    )

    assert judge("list-append", history(*crossed, together=True), ("read-uncommitted",)).validity is verdict
    assert judge("list-append", history(*crossed, together=True), ("read-committed",)).validity is Validity.INVALID


@pytest.mark.parametrize("value", [10**30, -(10**30), 1 << 62, -(1 << 63)])
def test_integer_values_beyond_64_bits_are_judged(value: int) -> None:
    judgement = judge("rw-register", history_of(_call(f"[[:w 1 {value}]]") + _call(f"[[:r 1 {value}]]") + _call("[[:r 1 nil]]")))

    assert {anomaly.kind for anomaly in judgement.anomalies} == {"G-single-process"}


@pytest.mark.parametrize("read", ["{1 2}", "#{1}", "[1 nil]", '"1"'])
def test_list_append_read_that_is_not_a_list_is_unchecked(read: str) -> None:
    judgement = judge("list-append", history_of(_call("[[:append 1 1]]") + _call(f"[[:r 1 {read}]]")))

    assert (judgement.validity, len(judgement.unchecked)) == (Validity.UNKNOWN, 1)


def _call(transaction: str) -> str:
    return "".join(f"{{:process 0, :type {type}, :value {transaction}}}\n" for type in (":invoke", ":ok"))


def test_elle_judge_refuses_an_unknown_workload_model() -> None:
    """A history of reads alone would be judged as one of registers."""
    with pytest.raises(KeyError, match="list_append"):
        judge("list_append", history_of(_call("[[:r 1 nil]]")))


@pytest.mark.parametrize(("returned", "verdict"), [(9000000002, Validity.VALID), (5, Validity.UNKNOWN)])
def test_completion_before_its_place_is_unknown_to_a_library(returned: int, verdict: Validity) -> None:
    """The judge as a library and `highwater check` both report it. A call that was written late is no reason for doubt."""
    answered_steps = (
        _call("[[:append 1 1]]")
        .replace("{", "{:index 0, :time 9000000000, ", 1)
        .replace("\n{", "\n{:index 1, :time 9000000001, ")
    )
    late_call = _call("[[:r 1 [1]]]").replace("{", "{:index 2, :time 4, ", 1).replace("\n{", f"\n{{:index 3, :time {returned}, ")
    judgement = judge("list-append", history_of(answered_steps + late_call))

    assert (judgement.validity, len(judgement.unchecked)) == (verdict, verdict is Validity.UNKNOWN)


@pytest.mark.parametrize(("model", "write"), [("list-append", "append"), ("rw-register", "w")])
def test_transactions_that_read_nothing_are_not_valid(model: str, write: str) -> None:
    judgement = judge(model, history_of(_call(f"[[:{write} 1 1]]") + _call(f"[[:{write} 1 2]]")))

    assert (judgement.validity, judgement.unchecked) == (
        Validity.UNKNOWN,
        ("no transaction that certainly committed has read anything",),
    )


def test_read_of_a_failed_transaction_is_no_observation() -> None:
    failed = "{:process 1, :type :invoke, :value [[:r 1 nil]]}\n{:process 1, :type :fail, :value [[:r 1 nil]]}\n"

    assert judge("list-append", history_of(_call("[[:append 1 1]]") + failed)).validity is Validity.UNKNOWN


def test_value_appended_twice_makes_its_key_unchecked() -> None:
    twice = history(("ok", "[[:append 1 1]]"), ("ok", "[[:append 1 1]]"), together=True)

    assert judge("list-append", twice, ("serializable",)).validity is Validity.UNKNOWN


def test_lost_update_of_a_register_is_also_a_dependency_cycle() -> None:
    lost = history(("ok", "[[:r 1 nil] [:w 1 1]]"), ("ok", "[[:r 1 nil] [:w 1 2]]"), together=True)

    assert [a.kind for a in judge("rw-register", lost, ("serializable",)).anomalies] == ["lost-update", "G2-item"]


_ALONE = {
    "dirty-update": [("fail", "[[:append 1 1]]"), ("ok", "[[:append 1 2]]"), ("ok", "[[:r 1 [1 2]]]")],
    "future-read": [("ok", "[[:r 1 [1]] [:append 1 1]]")],
    "lost-update": [("ok", "[[:r 1 []] [:append 1 1]]"), ("ok", "[[:r 1 []] [:append 1 2]]")],
    "G-nonadjacent": [
        ("ok", "[[:append 1 1]]"),
        ("ok", "[[:append 2 1]]"),
        ("ok", "[[:r 1 [1]] [:r 2 []]]"),
        ("ok", "[[:r 1 []] [:r 2 [1]]]"),
    ],
}
_REGISTERS = {
    "G1a": [("fail", "[[:w 1 1]]"), ("ok", "[[:r 1 1]]")],
    "G1b": [("ok", "[[:w 1 1] [:w 1 2]]"), ("ok", "[[:r 1 1]]")],
    "G1c": [("ok", "[[:w 1 1] [:r 2 1]]"), ("ok", "[[:w 2 1] [:r 1 1]]")],
    "G-single": [("ok", "[[:w 1 1] [:w 2 1]]"), ("ok", "[[:r 1 1] [:r 2 nil]]")],
    "G-nonadjacent": [
        ("ok", "[[:w 1 1]]"),
        ("ok", "[[:w 2 1]]"),
        ("ok", "[[:r 1 1] [:r 2 nil]]"),
        ("ok", "[[:r 1 nil] [:r 2 1]]"),
    ],
    "G2-item": [("ok", "[[:w 1 1] [:r 2 nil]]"), ("ok", "[[:w 2 1] [:r 1 nil]]")],
    "internal": [("ok", "[[:w 1 1] [:r 1 2]]")],
    "future-read": [("ok", "[[:r 1 1] [:w 1 1]]")],
}


@pytest.mark.parametrize("kind", sorted(_ALONE))
def test_list_append_judge_finds_anomalies_without_cycles(kind: str) -> None:
    assert kind in _kinds("list-append", history(*_ALONE[kind], together=True), "serializable")


@pytest.mark.parametrize("kind", sorted(_REGISTERS))
def test_rw_register_judge_finds_each_anomaly_by_name(kind: str) -> None:
    assert kind in _kinds("rw-register", history(*_REGISTERS[kind], together=True), "serializable")


@pytest.mark.parametrize(("model", "cases"), [("list-append", _BAD | _ALONE), ("rw-register", _REGISTERS)])
def test_transactions_of_unknown_outcome_show_no_anomaly(model: str, cases: dict[str, list[tuple[str, str]]]) -> None:
    """The same transactions, all of unknown outcome: no read is known."""
    for kind, transactions in cases.items():
        unknown = [("info", value) for _, value in transactions]
        judgement = judge(model, history(*unknown, together=True), ("strict-serializable",))

        assert (kind, judgement.validity, judgement.anomalies) == (kind, Validity.UNKNOWN, ())


@pytest.mark.parametrize(
    ("kind", "allowed", "forbidden"),
    [
        ("G1a", "read-uncommitted", "read-committed"),
        ("G1c", "read-uncommitted", "read-committed"),
        ("internal", "read-committed", "read-atomic"),
        ("lost-update", "read-atomic", "parallel-snapshot-isolation"),
        ("G-single", "read-committed", "consistent-view"),
        ("G-nonadjacent", "parallel-snapshot-isolation", "snapshot-isolation"),
        ("G2-item", "snapshot-isolation", "serializable"),
    ],
)
def test_stronger_isolation_level_forbids_what_a_weaker_allows(kind: str, allowed: str, forbidden: str) -> None:
    bad = history(*(_BAD | _ALONE)[kind], together=True)

    assert judge("list-append", bad, (allowed,)).validity is Validity.VALID
    assert kind in _kinds("list-append", bad, forbidden)


@pytest.mark.parametrize(("model", "write", "read_value"), [("list-append", ":append", "[1]"), ("rw-register", ":w", "1")])
def test_process_order_counts_only_for_session_isolation_levels(model: str, write: str, read_value: str) -> None:
    """A process reads another's write, and then the key without it: only the order of its own reads forbids this."""
    text = "\n".join(
        [
            f"{{:process 0 :type :invoke :value [[{write} 1 1]]}}",
            "{:process 1 :type :invoke :value [[:r 1 nil]]}",
            f"{{:process 1 :type :ok :value [[:r 1 {read_value}]]}}",
            "{:process 1 :type :invoke :value [[:r 1 nil]]}",
            "{:process 1 :type :ok :value [[:r 1 nil]]}",
            f"{{:process 0 :type :ok :value [[{write} 1 1]]}}",
        ]
    )
    twice = history_of(text)

    assert judge(model, twice, ("serializable",)).validity is Validity.VALID
    assert _kinds(model, twice, "strong-session-serializable") == ["G-single-process"]


def test_register_whose_versions_form_a_cycle_is_not_ordered() -> None:
    circle = history(("ok", "[[:r 1 2] [:w 1 1]]"), ("ok", "[[:r 1 1] [:w 1 2]]"), together=True)

    assert _kinds("rw-register", circle, "read-committed") == ["cyclic-versions", "G1c"]


def test_shortest_dependency_cycle_is_described_in_words() -> None:
    judgement = judge("list-append", history(*_BAD["G-single"], together=True), ("serializable",))

    assert [a.words for a in judgement.anomalies] == [
        "line 2 before line 1, because line 1 wrote a value of key 2, which line 2 did not see (rw); "
        "line 1 before line 2, because line 2 read 1 of key 1, which line 1 wrote (wr): a contradiction"
    ]


@pytest.mark.parametrize("model", ["list-append", "rw-register"])
def test_renaming_keys_and_processes_keeps_the_elle_verdict(model: str) -> None:
    """Keys and values renamed, processes renumbered, a transaction of another key added: the kinds stay the same."""
    for number in range(60):
        drawn_one = drawn(Rng(Seed(number)), "append" if model == "list-append" else "w")
        renamed = Paired(
            calls=tuple(_renamed(c) for c in (*drawn_one.calls, _stranger(model))),
            failed=tuple(_renamed(c) for c in drawn_one.failed),
            steps=drawn_one.steps,
        )

        assert _kinds(model, drawn_one, "strict-serializable") == _kinds(model, renamed, "strict-serializable")


def _renamed(call: Call) -> Call:
    """The same transaction with other names for its process, its keys and its values."""

    def name(value: Hashable) -> Hashable:
        return tuple(name(v) for v in value) if isinstance(value, tuple) else None if value is None else f"v{value}"

    def micros(value: Hashable) -> Hashable:
        assert isinstance(value, tuple)
        return tuple((f, f"k{key}", name(v)) for f, key, v in value)

    return replace(
        call,
        process=f"p{call.process}",
        argument=micros(call.argument),
        result=call.result if call.result is UNKNOWN else micros(call.result),
    )


def _stranger(model: str) -> Call:
    value = (("append" if model == "list-append" else "w", 99, 99),)
    return Call(index=9, line=99, process=99, f="txn", argument=value, result=value, start=-2, end=10_000)


def _kinds(model: str, of: Paired, consistency: str) -> list[str]:
    return list(dict.fromkeys(a.kind for a in judge(model, of, (consistency,)).anomalies))


def test_example_in_the_docstring_of_the_elle_judge_runs() -> None:
    assert doctest.testmod(elle_judge).failed == 0


_CHAIN = [("ok", "[[:r 1 nil] [:w 1 4]]"), ("ok", "[[:r 1 4] [:w 1 5]]"), ("ok", "[[:r 1 5] [:w 1 2] [:w 0 2]]")]


@pytest.mark.parametrize(("found", "verdict"), [(2, Validity.VALID), (4, Validity.INVALID), ("nil", Validity.INVALID)])
def test_read_atomic_finds_a_missed_write_behind_overwrites(found: object, verdict: Validity) -> None:
    """RAMP, section 3: it reads key 0 of the last writer and key 1 two writes earlier. `make prove-checkers` found this case."""
    reader = ("ok", f"[[:r 1 {found}] [:r 0 2]]")

    assert judge("rw-register", history(*_CHAIN, reader, together=True), ("read-atomic",)).validity is verdict


def test_read_atomic_readers_must_agree_on_the_later_writer() -> None:
    """Cerone, Bernardi and Gotsman: of all that is seen the last is read. No version says here which one it replaced."""
    writers = [("ok", "[[:w 1 1] [:w 2 1]]"), ("ok", "[[:w 1 2] [:w 3 2]]")]
    readers = [("ok", f"[[:r 1 {of}] [:r 2 1] [:r 3 2]]") for of in (1, 2)]
    both = judge("rw-register", history(*writers, *readers, together=True), ("read-atomic",))

    assert [anomaly.kind for anomaly in both.anomalies] == ["fractured-read", "fractured-read"]
    for reader in readers:
        assert judge("rw-register", history(*writers, reader, together=True), ("read-atomic",)).validity is Validity.VALID


_IMPOSSIBLE = {
    "a list is [7] and later empty": ("list-append", ["[[:r 1 [7]]]", "[[:r 1 []]]"], False),
    "a list is [7] and then [8]": ("list-append", ["[[:r 1 [7]]]", "[[:r 1 [8]]]"], False),
    "a long fork of two lists": ("list-append", ["[[:r 1 [7]] [:r 2 nil]]", "[[:r 1 nil] [:r 2 [8]]]"], True),
    "a phantom behind an append": ("list-append", ["[[:append 1 1]]", "[[:r 1 [1 7]]]"], True),
    "a phantom that only the longest read has": ("list-append", ["[[:r 1 [7]]]", "[[:r 1 [7 8]]]"], True),
    "a register goes back to nil": ("rw-register", ["[[:r 1 7]]", "[[:r 1 nil]]"], False),
    "a register has two phantoms": ("rw-register", ["[[:r 1 7]]", "[[:r 1 8]]"], True),
    "a long fork of two registers": ("rw-register", ["[[:r 1 7] [:r 2 nil]]", "[[:r 1 nil] [:r 2 8]]"], True),
}


@pytest.mark.parametrize("name", sorted(_IMPOSSIBLE))
@pytest.mark.parametrize("level", ["read-uncommitted", "strict-serializable"])
def test_value_that_nobody_can_have_written_is_a_phantom(name: str, level: str) -> None:
    """Whoever wrote it: another value was there before the first transaction."""
    model, transactions, together = _IMPOSSIBLE[name]

    assert "phantom-read" in _kinds(
        model, history(*(("ok", transaction) for transaction in transactions), together=together), level
    )


@pytest.mark.parametrize(
    ("model", "transactions"),
    [
        ("list-append", ["[[:r 1 [7]]]"]),
        ("list-append", ["[[:r 1 [7 8]]]", "[[:append 1 1]]", "[[:r 1 [7 8 1]]]"]),
        ("rw-register", ["[[:r 1 7]]"]),
        ("rw-register", ["[[:r 1 7]]", "[[:w 1 1]]", "[[:r 1 1]]"]),
    ],
)
def test_value_that_is_older_than_the_history_is_unknown(model: str, transactions: list[str]) -> None:
    """A setup may have written it; VALID would say that the history explains it."""
    judgement = judge(model, history(*(("ok", transaction) for transaction in transactions), together=False))

    assert (judgement.validity, judgement.anomalies, len(judgement.unchecked)) == (Validity.UNKNOWN, (), 1)


@pytest.mark.parametrize(
    ("model", "transactions"),
    [
        ("list-append", ["[[:append 1 1]]", "[[:r 1 [7]]]"]),
        ("rw-register", ["[[:w 1 1]]", "[[:r 1 7]]"]),
    ],
)
def test_anomalies_after_an_older_value_are_found(model: str, transactions: list[str]) -> None:
    """The value of the setup is the first version: a read of it after a write is stale."""
    assert _kinds(
        model, history(*(("ok", transaction) for transaction in transactions), together=False), "strict-serializable"
    ) == ["G-single-realtime"]


@pytest.mark.parametrize("how", ["info", "fail"])
@pytest.mark.parametrize(("model", "write", "one"), [("list-append", ":append", "[1]"), ("rw-register", ":w", "1")])
def test_value_of_an_unsuccessful_write_is_no_phantom(model: str, write: str, one: str, how: str) -> None:
    read = history((how, f"[[{write} 1 1]]"), ("ok", f"[[:r 1 {one}]]"), together=False)

    assert _kinds(model, read, "strict-serializable") == (["G1a"] if how == "fail" else [])
