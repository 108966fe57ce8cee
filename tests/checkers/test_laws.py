"""Verdicts are independent of names, times and unrelated rows, for every checker and judge."""

from collections.abc import Callable, Hashable

import pytest
from msgspec.structs import replace

from checkers.elle.judge import judge as judge_transactions
from checkers.engine.verdict import Verdict
from checkers.jepsen.judge import judge as judge_reads
from checkers.judge import judge
from checkers.linearizability.judge import Judgement
from checkers.linearizability.judge import judge as judge_calls
from checkers.linearizability.registry import model_named
from checkers.registry import ALL
from history.foreign.pairing import Paired
from history.foreign.read import calls
from history.foreign.step import UNKNOWN, Call
from tests.checkers.corpus import FOREIGN, ROOT, RUNS, Foreign
from tests.checkers.corpus import history as stored
from tests.checkers.laws import LAWS


@pytest.mark.slow
@pytest.mark.parametrize("law", list(LAWS))
@pytest.mark.parametrize("checker", [checker.name for checker in ALL])
def test_verdict_ignores_names_times_and_unrelated_rows(checker: str, law: str) -> None:
    """Each history of the checker, judged by it and by the ledger before and after the change."""
    checkers = tuple(known_checker for known_checker in ALL if known_checker.name == checker or known_checker.phase == "ledger")
    stories = [name for name in RUNS if name.split("/")[1].startswith(f"{checker}-")]
    assert stories
    for name in stories:
        history = stored(name)
        before, after = judge(history, checkers), judge(LAWS[law].change(history), checkers)

        assert _gist(after) == _gist(before, LAWS[law].key), name


def _gist(verdict: Verdict, key: Callable[[str], str] = lambda key: key) -> object:
    """The verdict without row indices and words."""
    return (
        verdict.validity,
        verdict.live,
        sorted((anomaly.kind, anomaly.checker, key(anomaly.key)) for anomaly in verdict.anomalies),
        sorted((loss.partition, loss.offset) for loss in verdict.excused),
        sorted((cut.partition, cut.offset, cut.leader_epoch) for cut in verdict.cuts),
        (len(verdict.unchecked), len(verdict.not_live)),
    )


def _deep(value: Hashable, name: Callable[[Hashable], Hashable]) -> Hashable:
    return tuple(_deep(one, name) for one in value) if isinstance(value, tuple) else name(value)


_WORDS = {"r", "w", "append", "read", "write", "ok", "no-node", "node-exists", "bad-version", "true", "false", ""}


def _other(value: Hashable) -> Hashable:
    """Another name for a key or a value; words of the models and numbers that count keep theirs."""
    return value if value is None or value is UNKNOWN or value in _WORDS else f"v{value}"


def _of_transactions(call: Call) -> Call:
    return replace(call, argument=_deep(call.argument, _other), result=_deep(call.result, _other))


def _with_others(history: Paired, change: Callable[[Call], Call]) -> Paired:
    changed = tuple(change(call) for call in history.calls), tuple(change(call) for call in history.failed)
    return Paired(calls=changed[0], failed=changed[1], steps=history.steps)


def _with_stranger(history: Paired) -> Paired:
    """The history with a transaction of a new process on another key at the end."""
    end = max((call.end or call.start for call in history.calls), default=0)
    last = {"index": len(history.calls), "line": 10_000, "process": "stranger", "f": "txn"}
    value = (("r", "of nobody", None),)
    more_call = Call(**last, argument=value, result=value, start=end + 1, end=end + 2)  # type: ignore[arg-type]
    return Paired(calls=(*history.calls, more_call), failed=history.failed, steps=history.steps + 2)


def _later(call: Call) -> Call:
    return replace(call, start=3 * call.start + 50, end=None if call.end is None else 3 * call.end + 50)


_FOREIGN: dict[str, Callable[[Paired], Paired]] = {
    "processes": lambda history: _with_others(history, lambda call: replace(call, process=f"p{call.process}")),
    "lines": lambda history: _with_others(history, lambda call: replace(call, line=1_000 + 3 * call.line)),
    "time": lambda h: _with_others(
        h, lambda c: replace(c, start=3 * c.start + 50, end=None if c.end is None else 3 * c.end + 50)
    ),
}


def _judgement_of(story: Foreign, history: Paired) -> Judgement:
    """The judgement of a history by the judge and the model of this story of the corpus."""
    if story.judge == "elle":
        return judge_transactions(story.model, history, (story.consistency,))
    if story.judge == "jepsen":
        return judge_reads(story.model, history, strict=True)
    initial = {"register": 0, "cas-register": 0, "multi-register": 0}.get(story.model)
    return judge_calls(model_named(story.model, initial=initial, nil_is_a_value=False), history.calls)


# Jepsen's models tell objects apart by the values themselves, so a second object would need other values.
_CASES = [
    (name, law)
    for name in sorted(FOREIGN)
    for law in (*_FOREIGN, "values", "a stranger")
    if "/undecided/" not in name and not (law == "a stranger" and FOREIGN[name].judge == "jepsen")
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "law"), _CASES)
def test_foreign_verdict_ignores_names_times_and_unrelated_calls(name: str, law: str) -> None:
    story = FOREIGN[name]
    history = calls(ROOT / f"{name}.edn")
    if law in _FOREIGN:
        changed = _FOREIGN[law](history)
    elif story.judge == "elle":
        changed = _with_others(history, _of_transactions) if law == "values" else _with_stranger(history)
    else:
        changed = _other_object(history) if law == "values" else _two_objects(history)
    before, after = _judgement_of(story, history), _judgement_of(story, changed)

    assert after.validity is before.validity
    assert sorted({anomaly.kind for anomaly in after.anomalies}) == sorted({anomaly.kind for anomaly in before.anomalies})


def _other_object(history: Paired) -> Paired:
    """The object has another name. Its values are numbers and words that mean something to some models."""
    return _with_others(history, lambda call: replace(call, key=("another", call.key)))


def _two_objects(history: Paired) -> Paired:
    """The history beside itself, as a second object that answers the same; of one object, which a transaction ties, as it is."""
    if any(call.f == "txn" for call in history.calls):
        return history
    again = [replace(call, key=("twin", call.key), index=len(history.calls) + call.index) for call in history.calls]
    return Paired(calls=(*history.calls, *again), failed=(), steps=2 * history.steps)
