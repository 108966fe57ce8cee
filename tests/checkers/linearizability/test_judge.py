"""The judge of calls on random histories: names and budgets. `proof` compares it with its definition."""

from collections.abc import Callable

import pytest

from checkers.engine.verdict import Validity
from checkers.linearizability.collections import FifoQueue, GrowSet, Mutex, PartitionLog, UnorderedQueue
from checkers.linearizability.judge import NOTHING_ANSWERED, judge
from checkers.linearizability.model import Model
from checkers.linearizability.registers import CasRegister, KeyValue, MultiRegister, Register, VersionedNode
from history.foreign.read import history_of
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng, Seed
from tests.checkers.linearizability.histories import Intent, call, overlapping_calls

_CALLS = 5


def _register(rng: Rng, index: int) -> Intent:
    return ("write", index + 1, None) if rng.below(2) else ("read", None, rng.below(_CALLS + 1))


def _cas(rng: Rng, index: int) -> Intent:
    """A write, a read or a cas of a register, with its argument and one of its possible answers."""
    pair = (rng.below(3), rng.below(3))
    answers = [("write", pair[0], None), ("read", None, pair[0]), ("cas", pair, pair), ("cas", pair, "false")]
    return answers[rng.below(4)]


def _multi(rng: Rng, index: int) -> Intent:
    """A transaction on two registers: one write, or two reads, with its answer."""
    key = "xy"[rng.below(2)]
    value = rng.below(2)
    if rng.below(2):
        return "txn", (("write", key, value),), (("write", key, value),)
    return "txn", (("read", key, None), ("read", "x", None)), (("read", key, value), ("read", "x", rng.below(2)))


def _kv(rng: Rng, index: int) -> Intent:
    text = ["", "a", "b", "ab", "ba", "aa"][rng.below(6)]
    return [("put", text[:1], None), ("append", "ab"[rng.below(2)], None), ("get", None, text)][rng.below(3)]


def _mutex(rng: Rng, index: int) -> Intent:
    return ("acquire" if rng.below(2) else "release"), None, None


def _set(rng: Rng, index: int) -> Intent:
    return ("add", index, None) if rng.below(2) else ("read", None, frozenset(v for v in range(_CALLS) if not rng.below(3)))


def _queue(rng: Rng, index: int) -> Intent:
    return ("enqueue", index, None) if rng.below(2) else ("dequeue", None, [None, *range(_CALLS)][rng.below(_CALLS + 1)])


def _log(rng: Rng, index: int) -> Intent:
    """An append, a read or an end of a log, with its argument and answer."""
    offset = rng.below(3)
    return [("append", index, offset), ("read", offset, [None, *range(_CALLS)][rng.below(_CALLS + 1)]), ("end", None, offset)][
        rng.below(3)
    ]


def _node(rng: Rng, index: int) -> Intent:
    """A call on a znode with its argument and one of its possible answers."""
    version = rng.below(2)
    kinds: list[Intent] = [
        ("create", 1, "ok"), ("create", 1, "node-exists"), ("set", (2, version), version + 1),
        ("set", (2, version), "bad-version"),
        ("read", None, (1, 0)), ("read", None, (2, 1)), ("read", None, "no-node"), ("delete", version, "ok"),
    ]  # fmt: skip
    return kinds[rng.below(len(kinds))]


MODELS: list[tuple[Model, Callable[[Rng, int], Intent]]] = [
    (Register(0), _register), (CasRegister(0), _cas), (MultiRegister(0, nil_is_a_value=True), _multi), (KeyValue(), _kv),
    (Mutex(), _mutex), (GrowSet(), _set), (FifoQueue(), _queue), (VersionedNode(), _node),
]  # fmt: skip
_NAMES = [model.name for model, _ in MODELS]


@pytest.mark.parametrize(("model", "intent"), MODELS, ids=_NAMES)
def test_verdict_ignores_process_numbers_and_line_numbers(model: Model, intent: Callable[[Rng, int], Intent]) -> None:
    """The process of a call is no evidence; only its times are."""
    rng = Rng(Seed(9)).fork(model.name)
    for _ in range(50):
        calls = overlapping_calls(rng, 6, intent)
        reversed_calls = list(reversed(calls))
        assert judge(model, calls).validity == judge(model, reversed_calls).validity


def test_exhausted_search_budget_makes_the_verdict_unknown() -> None:
    """Never a silent VALID."""
    rng = Rng(Seed(10)).fork("budget")
    verdict = judge(KeyValue(), overlapping_calls(rng, 6, _kv), steps_max=0)

    assert verdict.validity is Validity.UNKNOWN
    assert verdict.unchecked == ("not decided within 0 steps of search",)


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (Register(), ":f :write :value 1"),
        (CasRegister(), ":f :write :value 1"),
        (MultiRegister(), ":f :txn :value [[:write 1 1]]"),
        (MultiRegister(), ":f :txn :value [[:write :a 1] [:read :b nil]]"),  # nil: the value was not recorded
        (KeyValue(), ':f :put :key "k" :value "v"'),
        (GrowSet(), ":f :add :value 1"),
        (FifoQueue(), ":f :enqueue :value 1"),
        (PartitionLog(), ":f :append :value nil"),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_history_without_an_answer_that_may_be_wrong_is_unknown(model: Model, line: str) -> None:
    if model.name == "partition-log":  # its appends are told an offset, so only one of unknown outcome says nothing
        history = history_of('{:process 0 :type :invoke :f :append :value "a"} {:process 0 :type :info :f :append :value "a"}')
    else:
        history = history_of(f"{{:process 0 :type :invoke {line}}} {{:process 0 :type :ok {line}}}")
    judgement = judge(model, history.calls)

    assert (judgement.validity, judgement.unchecked) == (Validity.UNKNOWN, (NOTHING_ANSWERED,))


def _crowd(*rest: Intent) -> list[Call]:
    """Twelve values that are enqueued at the same time, then calls one after another. An answer UNKNOWN is never told."""
    enqueued = [call(at, "enqueue", at, result=None, start=at, end=100 + at) for at in range(12)]
    later = [
        call(12 + at, *intent, 200 + 2 * at, None if intent[2] is UNKNOWN else 201 + 2 * at) for at, intent in enumerate(rest)
    ]
    return [*enqueued, *later]


@pytest.mark.parametrize("model", [FifoQueue(), UnorderedQueue()], ids=["fifo-queue", "unordered-queue"])
@pytest.mark.parametrize("lost", [(), (("dequeue", None, UNKNOWN),)], ids=["each answered", "one lost"])
def test_value_of_a_crowd_dequeued_twice_is_found_soon(model: Model, lost: tuple[Intent, ...]) -> None:
    """There are 12! orders of the enqueues, but no order explains the second dequeue."""
    judgement = judge(model, _crowd(*lost, ("dequeue", None, 3), ("dequeue", None, 3)), steps_max=5_000)

    assert judgement.validity is Validity.INVALID
    assert judgement.anomalies[0].words.startswith(f"dequeue -> 3 of line {14 + len(lost)} cannot follow")
    assert "3 was already dequeued" in judgement.anomalies[0].words


def test_value_enqueued_twice_is_dequeued_at_most_twice() -> None:
    again: Intent = ("enqueue", 3, None)
    twice: list[Intent] = [("dequeue", None, 3), ("dequeue", None, 3)]
    judgement = judge(UnorderedQueue(), _crowd(again, *twice, *twice[:1]), steps_max=5_000)

    assert judgement.validity is Validity.INVALID
    assert judgement.anomalies[0].words.endswith("3 was enqueued 2 times by then, and it is dequeued here once more")
    assert judge(UnorderedQueue(), _crowd(again, *twice), steps_max=5_000).validity is Validity.VALID


def test_crowd_of_unique_values_in_a_queue_is_decided() -> None:
    """Its values determine the order, so the search need not find it."""
    drained: list[Intent] = [("dequeue", None, value) for value in (11, 4, 7, 0, 9, 2, 3, 1, 8, 5, 6, 10)]
    empty: Intent = ("dequeue", None, None)

    assert judge(FifoQueue(), _crowd(*drained, empty), steps_max=5_000).validity is Validity.VALID
    assert judge(FifoQueue(), _crowd(*drained[:-1], empty), steps_max=5_000).validity is Validity.INVALID


@pytest.mark.parametrize(("model", "functions"), [(Mutex(), ("acquire", "release")), (VersionedNode(), ("create",))])
def test_answer_that_may_be_wrong_is_judged_without_a_read(model: Model, functions: tuple[str, ...]) -> None:
    lines = (f"{{:process 0 :type :invoke :f :{f}}} {{:process 0 :type :ok :f :{f} :value :ok}}" for f in functions)
    history = history_of(" ".join(lines))

    assert judge(model, history.calls).validity is Validity.VALID


def _words(model: Model, *lines: str) -> str:
    history = history_of("\n".join(f"{{:process {line[0]} {line[1:]}}}" for line in lines))
    return judge(model, history.calls, failed=history.failed).anomalies[0].words


@pytest.mark.parametrize(
    ("model", "give", "take", "value"),
    [
        (Register(), ":f :write :value 7", ":f :read :value nil", "7"),
        (CasRegister(), ":f :cas :value [nil 7]", ":f :read :value nil", "7"),
        (MultiRegister(), ":f :txn :value [[:w 1 7]]", ":f :txn :value [[:r 1 nil]]", "[[:r 1 7]]"),
        (GrowSet(), ":f :add :value 7", ":f :read :value nil", "[7]"),
        (FifoQueue(), ":f :enqueue :value 7", ":f :dequeue :value nil", "7"),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_reason_names_the_failed_call_whose_value_was_read(model: Model, give: str, take: str, value: str) -> None:
    invocation = f"1:type :invoke {take}"
    answer = f"1:type :ok {take.rpartition(':value')[0]}:value {value}"

    words = _words(model, f"0:type :invoke {give}", f"0:type :fail {give}", invocation, answer)
    assert words.endswith("of line 1, a call that certainly failed")
    assert "certainly failed" not in _words(model, invocation, answer)


@pytest.mark.parametrize("outcome", ["ok", "fail"])
def test_reason_does_not_blame_a_call_that_came_later(outcome: str) -> None:
    """A value of the beginning that somebody writes again, much later: no such call is the source of the read."""
    read, write = ":f :read :value", ":f :write :value 7"
    words = _words(
        Register(), f"0:type :invoke {read} nil", f"0:type :ok {read} 7", f"0:type :invoke {write}", f"0:type :{outcome} {write}"
    )

    assert words.endswith("the state is nil; line 3 is the first to write 7, later")


def test_reason_says_that_nobody_wrote_the_value() -> None:
    read = ":f :read :value"
    words = _words(
        Register(), f"0:type :invoke {read} nil", f"0:type :ok {read} 7", f"0:type :invoke {read} nil", f"0:type :ok {read} 8"
    )

    assert words.endswith(("no call wrote 7", "7 was never written"))


def test_reason_of_a_keyed_history_names_the_failed_call() -> None:
    words = _words(
        Register(),
        "0:type :invoke :f :write :value [1 7]",
        "0:type :fail :f :write :value [1 7]",
        "0:type :invoke :f :read :value [1 nil]",
        "0:type :ok :f :read :value [1 7]",
    )
    assert words.endswith("7 is of line 1, a call that certainly failed")


def test_reason_shows_that_nil_was_read() -> None:
    write, read = ":f :write :value 7", ":f :read :value nil"
    words = _words(Register(), f"0:type :invoke {write}", f"0:type :ok {write}", f"0:type :invoke {read}", f"0:type :ok {read}")

    assert words.startswith("read -> nil of line 3")


def test_reason_shortens_a_long_value_in_the_middle() -> None:
    text = '"' + "a" * 20_000 + 'z"'
    words = _words(Register(), "0:type :invoke :f :read :value nil", f"0:type :ok :f :read :value {text}")

    assert "aaa … aaa" in words
    assert 'z"' in words
    assert len(words) < 600


@pytest.mark.parametrize(
    ("model", "answers", "expected"),
    [
        (Mutex(), "acquire nil", Validity.UNKNOWN),
        (Mutex(), "acquire nil, release nil", Validity.VALID),
        (Mutex(), "acquire nil, acquire nil", Validity.INVALID),
        (Mutex(), "release nil", Validity.INVALID),
        (PartitionLog(), 'append "a" 5', Validity.UNKNOWN),
        (PartitionLog(), "end nil 5", Validity.UNKNOWN),
        (PartitionLog(), "read 5 nil", Validity.VALID),
        (PartitionLog(), 'append "a" 5, append "b" 6', Validity.VALID),
        (PartitionLog(), 'append "a" 5, end nil 6', Validity.VALID),
        (PartitionLog(), 'append "a" 5, end nil 5', Validity.INVALID),
    ],
)
def test_answer_that_only_another_contradicts_is_unknown_alone(model: Model, answers: str, expected: Validity) -> None:
    """The first acquire of a mutex and the offset of the first append of a log are right, whatever the object does."""
    lines = []
    for words in answers.split(", "):
        f, argument, *answer = words.split()
        for kind, value in (("invoke", argument), ("ok", (answer or [argument])[0])):
            lines.append(f"{{:process 0 :type :{kind} :f :{f} :value {value}}}")

    calls = history_of(" ".join(lines)).calls
    lost = "{:process 9 :type :invoke :f :%s :value nil}" % ("acquire" if model.name == "mutex" else "end")
    assert judge(model, calls).validity is expected
    assert judge(model, history_of(" ".join([*lines, lost])).calls).validity is expected


def test_answers_about_different_objects_contradict_no_other() -> None:
    each = "{:process 0 :type :invoke :f :acquire :value [%d nil]} {:process 0 :type :ok :f :acquire :value [%d nil]}"

    assert judge(Mutex(), history_of(" ".join(each % (key, key) for key in (1, 2))).calls).validity is Validity.UNKNOWN
