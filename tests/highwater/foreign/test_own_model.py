"""A user's own model from a file: `highwater check FILE --model mine.py:Stack` (docs/your-own-system.md)."""

import re
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import pytest

from checkers.engine.verdict import Validity
from checkers.linearizability.collections import FifoQueue
from checkers.linearizability.judge import NOTHING_ANSWERED, judge
from checkers.linearizability.model import Model
from checkers.linearizability.own import OwnObject, OwnReads
from checkers.linearizability.registers import CasRegister
from highwater.cli.main import run_command_line
from highwater.errors import UsageError
from highwater.foreign.own import own_model
from history.errors import HistoryError
from history.foreign.read import history_of
from history.foreign.step import Call
from history.seed import Rng, Seed
from tests.checkers.linearizability.histories import Intent, overlapping_calls
from tests.checkers.linearizability.test_judge import _cas, _queue

_STEP = "    def step(self, state, f, value, answer): return state"
_HOLDS = "    def holds(self, read, before, maybe): return True"
STACK = "docs/examples/stack.py:Stack"


class _Register:
    first = 0

    def step(self, state: int, f: str, value: object, answer: object) -> object:
        match f, value:
            case "write", _:
                return value
            case "cas", (old, new):
                return new if state == old and answer == value else state if state != old and answer == "false" else None
            case _:
                return state if answer == state else None


class _Queue:
    first = ()

    def step(self, state: tuple[object, ...], f: str, value: object, answer: object) -> tuple[object, ...] | None:
        if f == "enqueue":
            return (*state, value)
        return state[1:] if answer == (state[0] if state else None) else None


@pytest.mark.parametrize(
    ("own_class", "built_in", "intent"), [(_Register, CasRegister(0), _cas), (_Queue, FifoQueue(), _queue)], ids=["cas", "queue"]
)
def test_own_model_judges_as_the_built_in_one(own_class: type, built_in: Model, intent: Callable[[Rng, int], Intent]) -> None:
    rng = Rng(Seed(4)).fork(built_in.name)
    verdicts = set()
    for _ in range(400):
        calls = overlapping_calls(rng, 5, intent)
        own, own_verdict = judge(OwnObject("mine", own_class()), calls).validity, judge(built_in, calls).validity
        assert own is own_verdict, calls
        verdicts.add(own)
    assert verdicts >= {Validity.VALID, Validity.INVALID}


def _calls(*lines: str) -> tuple[Call, ...]:
    """Calls of lines such as `0 invoke push 1`."""

    def edn() -> Iterator[str]:
        for line in lines:
            process, type_, f, value = line.split(maxsplit=3)
            yield f"{{:process {process} :type :{type_} :f :{f} :value {value}}}"

    return tuple(history_of("\n".join(edn())).calls)


def test_answer_that_nobody_was_told_equals_everything() -> None:
    pushed = ("0 invoke push 1", "0 ok push 1", "1 invoke pop nil", "1 info pop nil", "0 invoke pop nil")
    stack = own_model(STACK)
    assert isinstance(stack, OwnObject)

    assert judge(stack, _calls(*pushed, "0 ok pop nil")).validity is Validity.VALID
    assert judge(stack, _calls(*pushed, "0 ok pop 1")).validity is Validity.VALID
    assert judge(stack, _calls(*pushed, "0 ok pop 2")).validity is Validity.INVALID


def test_own_model_that_doubts_no_answer_is_unknown() -> None:
    judgement = judge(own_model(STACK), _calls("0 invoke push 1", "0 ok push 1"))  # type: ignore[arg-type]

    assert (judgement.validity, judgement.unchecked) == (Validity.UNKNOWN, (NOTHING_ANSWERED,))


def _likes(*lines: str) -> Validity:
    likes = own_model("docs/examples/stack.py:Likes")
    assert isinstance(likes, OwnReads)
    return likes.judge(_calls(*lines)).validity


def test_predicate_is_told_what_came_before_and_what_may_have() -> None:
    crashed = ("0 invoke like 1", "0 ok like 1", "1 invoke like 1", "1 info like 1", "2 invoke like 1", "3 invoke read nil")

    assert [_likes(*crashed, f"3 ok read {count}", "2 ok like 1") for count in range(5)] == [
        Validity.INVALID, Validity.VALID, Validity.VALID, Validity.VALID, Validity.INVALID,
    ]  # fmt: skip
    after = ("0 invoke read nil", "0 ok read 0", "1 invoke like 1", "1 ok like 1")
    assert _likes(*after) is Validity.VALID
    assert _likes("0 invoke like 1", "0 ok like 1", "1 invoke read nil", "1 info read nil") is Validity.UNKNOWN


def test_predicate_judges_each_key_by_itself() -> None:
    liked = ("0 invoke like [a 1]", "0 ok like [a 1]")

    assert _likes(*liked, "1 invoke read [b nil]", "1 ok read [b 0]") is Validity.VALID
    assert _likes(*liked, "1 invoke read [b nil]", "1 ok read [b 1]") is Validity.INVALID


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no file"),
        ("class Y: pass", "has no X"),
        ("class X\n", "SyntaxError"),
        ("X = 1 / 0", "ZeroDivisionError: division by zero (line 1 of"),
        ("class X:\n    first = 0", "a model has `first` and `step"),
        ("class X:\n    def __init__(self, size): pass", "TypeError"),
        ("raise SystemExit(0)", "SystemExit: 0 (line 1 of"),
        (f"class X:\n    @property\n    def first(self): return 1 / 0\n{_STEP}", "ZeroDivisionError"),
        (f"class X:\n    first = []\n{_STEP}", "`first` cannot be a state: unhashable type: 'list'"),
        (f"class Box: pass\nclass X:\n    first = (Box(), 1)\n{_STEP}", "`first` cannot be a state: a Box is compared by"),
        (f"class X:\n    reads = 'read'\n{_HOLDS}", "`reads` must be a tuple of names of functions, not 'read'"),
        (f"class X:\n    reads = 5\n{_HOLDS}", "`reads` must be a tuple of names of functions, not 5"),
    ],
)
def test_file_without_a_model_is_refused_in_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "mine.py").write_text(text)

    with pytest.raises(UsageError, match=r"^--model ") as error_info:
        own_model(f"{tmp_path}/mine.py:X")
    assert words in str(error_info.value)
    assert "\n" not in str(error_info.value)


def _returns(state: Hashable) -> OwnObject:
    class Mine:
        first = 0

        def step(self, _: object, f: str, value: object, answer: object) -> object:
            if f == "jump":
                raise ValueError("no frog")
            return state

    return OwnObject("Mine", Mine())


@pytest.mark.parametrize(("f", "words"), [("jump", "ValueError: no frog"), ("push", "TypeError: unhashable type: 'list'")])
def test_mistake_in_an_own_model_names_the_call(f: str, words: str) -> None:
    with pytest.raises(HistoryError, match=re.escape(f"line 1: Mine cannot judge {f} 1: {words}")):
        judge(_returns([]), _calls(f"0 invoke {f} 1", f"0 ok {f} 1"))  # type: ignore[arg-type]


class _Box:
    """A state that is changed in its place."""

    def __init__(self, *values: object) -> None:
        self.values = values


class _Bag(_Box):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bag) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)


def _writes_into(box: object, state: Callable[[_Box], object]) -> OwnObject:
    class Mine:
        first = box

        def step(self, held: _Bag, f: str, value: object, answer: object) -> object:
            held.values = (value,)
            return state(held)

    return OwnObject("Mine", Mine())


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (_returns(_Box()), "a _Box is compared by identity, so equal states are not seen to be equal"),
        (_returns((1, frozenset([_Box()]))), "a _Box is compared by identity"),
        (_writes_into(_Bag(1), lambda held: held), "the step changed the state that it was given; it must return another one"),
        (_writes_into(_Bag(1), lambda held: None), "the step changed the state that it was given"),
    ],
)
def test_state_that_can_change_in_its_place_is_refused(mine: OwnObject, words: str) -> None:
    """The search comes back to earlier states: one that has changed since would make a right answer wrong."""
    with pytest.raises(HistoryError, match=re.escape(f"line 1: Mine cannot judge push 2: TypeError: {words}")):
        judge(mine, _calls("0 invoke push 2", "0 ok push 2"))


def test_state_that_is_a_mere_mark_is_allowed() -> None:
    free = object()

    assert judge(_returns(free), _calls("0 invoke push 2", "0 ok push 2")).validity is Validity.UNKNOWN


@pytest.mark.parametrize("where", ["step", "could_fail"])
def test_model_that_ends_the_program_gives_no_verdict(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code would be that of the model: with `sys.exit()` that of a valid history."""
    condition = "True" if where == "step" else "type(answer).__name__ == '_Strange'"
    body = f"class X:\n    first = 0\n    def step(self, state, f, value, answer):\n        if {condition}: raise SystemExit(0)\n"
    (tmp_path / "mine.py").write_text(f"{body}        return 0\n")

    code = run_command_line(["check", "docs/examples/stack.edn", "--model", f"{tmp_path}/mine.py:X"])

    assert code == (2 if where == "step" else 0)
    assert ("SystemExit: 0" if where == "step" else "VALID") in "".join(capsys.readouterr())


def test_predicate_that_returns_nothing_accuses_nobody() -> None:
    class Forgetful:
        reads = ("read",)

        def holds(self, read: object, before: object, maybe: object) -> None:
            pass

    with pytest.raises(HistoryError, match="TypeError: holds returned None; it must return True or False"):
        OwnReads("Forgetful", Forgetful()).judge(_calls("0 invoke read nil", "0 ok read 2"))


def test_example_of_an_own_model_finds_the_double_pop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    code = run_command_line(["check", "docs/examples/stack.edn", "--model", STACK, "--report", str(page)])

    assert code == 10
    assert "pop -> 2 of line 7 cannot follow the 3 calls ordered before it: the state is [1]" in capsys.readouterr().out
    assert "docs/examples/stack.py:Stack" in page.read_text()


def test_page_shows_the_models_of_the_example_file() -> None:
    _, *classes = Path("docs/examples/stack.py").read_text().split("\n\n\n")

    assert len(classes) == 2
    assert all(f"```python\n{text.strip()}\n```" in Path("docs/your-own-system.md").read_text() for text in classes)


def test_mistake_with_a_recorded_history_blames_the_model_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "h.jsonl"
    file.write_text(
        '{"manifest": {"system": "x", "model": "register"}}\n'
        '{"process": 0, "type": "invoke", "f": "read", "time": 1}\n'
        '{"process": 0, "type": "ok", "f": "read", "value": "a", "time": 2}\n'
    )

    assert run_command_line(["check", str(file), "--model", "docs/examples/stack.py:Likes"]) == 2
    message = capsys.readouterr().err
    assert "Likes cannot judge read -> 'a': TypeError" in message
    assert "looks like" not in message


def test_judge_refuses_a_model_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["judge", "docs/examples/stack.edn", "--model", STACK]) == 2
    assert "a ledger keeps no verdict of code that may change" in capsys.readouterr().err
