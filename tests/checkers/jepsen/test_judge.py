"""Each anomaly of Jepsen's models that look at reads, in the fewest calls, and what is refused."""

import doctest
from typing import NamedTuple

import pytest

from checkers.engine.verdict import Validity
from checkers.jepsen import judge as jepsen_judge
from checkers.jepsen.judge import MODELS, NAMES, judge
from history.errors import HistoryError
from history.foreign import edn
from history.foreign.pairing import Paired
from history.foreign.read import history_of


class Done(NamedTuple):
    """One call, over before the next begins."""

    f: str
    asked: str
    told: str = ""  # as asked if not given
    how: str = "ok"


def history(*calls: Done) -> Paired:
    """A history in which each call returns before the next one begins, each of a process of its own."""
    lines = []
    for process, done in enumerate(calls):
        for kind, value in (("invoke", done.asked), (done.how, done.told or done.asked)):
            lines.append(f"{{:process {process}, :type :{kind}, :f :{done.f}, :value {value}}}")
    return history_of("\n".join(lines))


def _read_call(told: str) -> Done:
    return Done("read", "nil", told)


def _group(told: str) -> Done:
    return Done("read", "[[:r 0 nil] [:r 1 nil]]", told)


_BAD: dict[tuple[str, str], tuple[Done, ...]] = {
    ("bank", "wrong-total"): (_read_call("{0 1, 1 2}"), _read_call("{0 2, 1 2}")),
    ("bank", "negative-balance"): (_read_call("{0 4, 1 -1}"),),
    ("bank", "nil-balance"): (_read_call("{0 3, 1 0}"), _read_call("{0 3, 1 nil}")),
    ("bank", "unexpected-account"): (_read_call("{0 3, 1 0}"), _read_call("{0 3}")),
    ("long-fork", "long-fork"): (
        Done("write", "[[:w 0 1]]"), Done("write", "[[:w 1 1]]"),
        _group("[[:r 0 1] [:r 1 nil]]"), Done("read", "[[:r 1 nil] [:r 0 nil]]", "[[:r 1 1] [:r 0 nil]]"),
    ),
    ("long-fork", "phantom-read"): (_group("[[:r 0 7] [:r 1 nil]]"),),
    ("long-fork", "G1a"): (Done("write", "[[:w 0 1]]", how="fail"), _group("[[:r 0 1] [:r 1 nil]]")),
    ("counter", "below-lower-bound"): (Done("add", "2"), Done("add", "1", how="info"), _read_call("1")),
    ("counter", "above-upper-bound"): (Done("add", "2"), Done("add", "1", how="fail"), _read_call("3")),
    ("set-full", "lost"): (Done("add", "1"), Done("add", "2"), _read_call("#{1 2}"), _read_call("#{2}")),
    ("set-full", "stale"): (Done("add", "1"), _read_call("#{}"), _read_call("#{1}")),
    ("set-full", "duplicate"): (Done("add", "1"), _read_call("[1 1]")),
    ("set-full", "revived"): (Done("add", "1", how="fail"), _read_call("#{1}")),
    ("set-full", "phantom-read"): (_read_call("#{1}"),),
    ("sequential", "out-of-order"): (Done("write", "7", how="info"), Done("read", "7", '[7 ["7_2" nil "7_0"]]')),
    ("sequential", "phantom-read"): (Done("read", "7", '[7 [nil nil "7_0"]]'),),
    ("comments", "missing-predecessor"): (Done("write", "1"), Done("write", "2", how="info"), _read_call("#{2}")),
    ("comments", "revived"): (Done("write", "1", how="fail"), _read_call("#{1}")),
    ("comments", "phantom-read"): (_read_call("#{1}"),),
    ("monotonic", "timestamps-out-of-order"): (
        Done("add", "nil", "{:val 1, :sts 20}"), Done("add", "nil", "{:val 2, :sts 10}"),
        _read_call("[{:val 1, :sts 20} {:val 2, :sts 10}]"),
    ),
    ("monotonic", "values-out-of-order"): (
        Done("add", "nil", "{:val 1, :sts 20}"), Done("add", "nil", "{:val 2, :sts 10}"),
        _read_call("[{:val 2, :sts 10} {:val 1, :sts 20}]"),
    ),
    ("monotonic", "duplicate"): (Done("add", "nil", "{:val 1, :sts 1}"), _read_call("[{:val 1, :sts 1} {:val 1, :sts 2}]")),
    ("monotonic", "lost"): (Done("add", "nil", "{:val 1, :sts 1}"), _read_call("[]")),
    ("monotonic", "phantom-read"): (Done("add", "nil", how="info"), _read_call("[{:val 1, :sts 1} {:val 2, :sts 2}]")),
    ("broadcast", "lost"): (Done("broadcast", "1"), Done("broadcast", "2"), _read_call("[1 2]"), _read_call("[2]")),
    ("broadcast", "stale"): (Done("broadcast", "1"), _read_call("[]"), _read_call("[1]")),
    ("broadcast", "duplicate"): (Done("broadcast", "1"), _read_call("[1 1]")),
    ("broadcast", "revived"): (Done("broadcast", "1", how="fail"), _read_call("[1]")),
    ("broadcast", "phantom-read"): (_read_call("[1]"),),
    ("total-queue", "lost"): (Done("enqueue", "1"), Done("drain", "nil", "[]")),
    ("total-queue", "revived"): (Done("enqueue", "1", how="fail"), Done("dequeue", "nil", "1")),
    ("total-queue", "phantom-read"): (Done("dequeue", "nil", "1"), Done("enqueue", "1", how="info")),
    ("unique-ids", "duplicate"): (Done("generate", "nil", "10"), Done("generate", "nil", "10")),
    ("adya-g2", "G2"): (Done("insert", "[5 [1 nil]]"), Done("insert", "[5 [nil 2]]")),
}  # fmt: skip


@pytest.mark.parametrize(("model", "kind"), sorted(_BAD))
def test_reads_judge_finds_each_anomaly_by_name(model: str, kind: str) -> None:
    judgement = judge(model, history(*_BAD[model, kind]), strict=True)

    assert [anomaly.kind for anomaly in judgement.anomalies] == [kind]
    assert judgement.validity is Validity.INVALID


def test_every_anomaly_of_the_reads_judges_has_a_history() -> None:
    assert {(model.name, kind) for model in MODELS for kind in model.kinds} == set(_BAD)


@pytest.mark.parametrize(("model", "kind"), sorted(_BAD))
def test_reads_of_unknown_outcome_show_no_anomaly(model: str, kind: str) -> None:
    """The same calls, where the answers that may be wrong were not received."""
    answers = MODELS[NAMES.index(model)].answers
    calls = [done._replace(how="info") if done.f in answers else done for done in _BAD[model, kind]]
    judgement = judge(model, history(*calls), strict=True)

    assert (judgement.validity, judgement.anomalies) == (Validity.UNKNOWN, ())


def test_stale_element_is_noted_if_not_asked_for() -> None:
    """Jepsen's checker has the option `:linearizable?` for this."""
    judgement = judge("set-full", history(*_BAD["set-full", "stale"]))

    assert (judgement.validity, [note.partition(":")[0] for note in judgement.notes]) == (Validity.VALID, ["stale"])


@pytest.mark.parametrize(("initial", "validity"), [("{0 2, 1 1}", Validity.VALID), ("{0 2, 1 2}", Validity.INVALID)])
def test_bank_with_initial_balances_needs_one_read_only(initial: str, validity: Validity) -> None:
    assert judge("bank", history(_read_call("{0 1, 1 2}")), initial=edn.value(initial)).validity is validity


@pytest.mark.parametrize(("read", "validity"), [("3", Validity.VALID), ("1", Validity.VALID), ("0", Validity.INVALID)])
def test_counter_may_go_down(read: str, validity: Validity) -> None:
    """Of 5, -2 and, perhaps, -2 a read shows 3 or 1."""
    adds = [Done("add", "5"), Done("add", "-2"), Done("add", "-2", how="info")]

    assert judge("counter", history(*adds, _read_call(read))).validity is validity


@pytest.mark.parametrize("late", [Done("enqueue", "2"), Done("dequeue", "nil", how="info")])
def test_value_is_lost_only_from_a_queue_that_was_drained(late: Done) -> None:
    """A value that was put in after the last drain, and one that a dequeue of unknown outcome may have taken."""
    lost = [Done("enqueue", "1"), Done("drain", "nil", "[]")]
    calls = [*lost, late] if late.f == "dequeue" else [Done("enqueue", "1"), Done("drain", "nil", "[1]"), late]

    assert judge("total-queue", history(*calls)).validity is Validity.UNKNOWN


def test_value_that_comes_out_twice_is_noted() -> None:
    judgement = judge("total-queue", history(Done("enqueue", "1"), Done("dequeue", "nil", "1"), Done("drain", "nil", "[1]")))

    assert (judgement.validity, len(judgement.notes)) == (Validity.VALID, 1)


def test_counter_may_begin_at_a_given_value() -> None:
    assert judge("counter", history(_read_call("5")), initial=5).validity is Validity.VALID


def test_independent_keys_are_judged_separately() -> None:
    """Values `[key value]` of `jepsen.independent`: each key is a counter of its own."""
    calls = [Done("add", "[1 2]"), Done("add", "[2 5]"), Done("read", "[1 nil]", "[1 2]"), Done("read", "[2 nil]", "[2 9]")]
    judgement = judge("counter", history(*calls))

    assert [(anomaly.kind, anomaly.key) for anomaly in judgement.anomalies] == [("above-upper-bound", "2")]


def test_write_concurrent_with_another_may_be_seen_alone() -> None:
    """comments: neither had returned before the other was invoked."""
    both = "{:process 0 :type :invoke :f :write :value 1} {:process 1 :type :invoke :f :write :value 2}"
    over = "{:process 0 :type :ok :f :write :value 1} {:process 1 :type :ok :f :write :value 2}"
    read = "{:process 2 :type :invoke :f :read :value nil} {:process 2 :type :ok :f :read :value [2]}"

    assert judge("comments", history_of(both + over + read)).validity is Validity.VALID


def test_key_written_twice_makes_long_forks_unchecked() -> None:
    twice = [Done("write", "[[:w 0 1]]"), Done("write", "[[:w 0 2]]"), _group("[[:r 0 1] [:r 1 nil]]")]

    assert judge("long-fork", history(*twice)).validity is Validity.UNKNOWN


_REFUSED = {
    "bank": (_read_call("5"), "the answer to a read must be a map, not 5"),
    "long-fork": (Done("write", "[[:w 0 1] [:w 1 1]]"), "write must have one \\[:w key value\\], not"),
    "counter": (Done("add", ":a"), "an addition must be a whole number, not 'a'"),
    "set-full": (_read_call("5"), "the answer to a read must be a list or a set, not 5"),
    "sequential": (Done("read", "7", "[8 [nil]]"), "the answer to a read of 7 names 8"),
    "comments": (Done("add", "1"), "add is not a function of comments; allowed are write and read"),
    "monotonic": (_read_call("[{:val 1, :sts nil}]"), "the :sts of a row must be a number, not nil"),
    "broadcast": (Done("add", "1"), "add is not a function of broadcast; allowed are broadcast and read"),
    "total-queue": (Done("drain", "nil", "5"), "the answer to a drain must be a list or a set, not 5"),
    "unique-ids": (_read_call("5"), "read is not a function of unique-ids; allowed are generate"),
    "adya-g2": (Done("insert", "[5 [1 2]]"), "an insert must have \\[key \\[row nil\\]\\] or"),
}


@pytest.mark.parametrize("model", NAMES)
def test_malformed_call_of_a_reads_model_is_refused(model: str) -> None:
    call, reason = _REFUSED[model]

    with pytest.raises(HistoryError, match=f"^line 1: {reason}"):
        judge(model, history(call))


def test_unknown_reads_model_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="longfork"):
        judge("longfork", history(_read_call("1")))


def test_docstring_example_of_the_reads_judge_runs() -> None:
    assert doctest.testmod(jepsen_judge).failed == 0
