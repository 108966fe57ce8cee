"""The first call that answers otherwise than in another tree: which function it is of, and where it is told."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.inspect.answering import Called
from highwater.inspect.values import Numbers, differences, text, tree_of
from highwater.plans.text import load_plan
from highwater.runs import revisions
from highwater.runs.first_call import first_call, innermost, keep_first_call, kept_first_call
from highwater.runs.revisions import ROOT
from history import store
from reference.config import VARIANTS
from reference.controller.leader_selection import AskLogs, Keep
from reference.messages import IsrMember
from reference.types import BrokerId, Incarnation

_PLAN = ROOT / "corpus/plans/kip101-scenario-1.yaml"


def _tree(folder: Path, module: str = "", old: str = "", new: str = "") -> Path:
    """A copy of the protocol with one edit."""
    shutil.copytree(ROOT / "reference", folder / "reference", ignore=shutil.ignore_patterns("__pycache__"))
    if module:
        path = folder / "reference" / f"{module}.py"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, (module, old)
        path.write_text(text.replace(old, new), encoding="utf-8")
    return folder


# --- which call -----------------------------------------------------------------------------------------------------------------


def _calls(*calls: tuple[int, str, int, int]) -> list[Called]:
    """Calls by depth, name, what they were given and what came; functions of the harness begin with a capital letter."""
    return [Called(depth, name, name[0].isupper(), given, came) for depth, name, given, came in calls]


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        ([(0, "a", 1, 1), (1, "b", 1, 1)], [(0, "a", 1, 2), (1, "b", 1, 2)], (1, 1, "")),
        ([(0, "a", 1, 1), (1, "b", 1, 1)], [(0, "a", 1, 2), (1, "b", 1, 1)], (0, 0, "")),
        ([(0, "a", 1, 1), (1, "b", 1, 1)], [(0, "a", 1, 1), (1, "b", 2, 1)], (0, 0, "b with other values")),
        ([(0, "a", 1, 1), (1, "b", 1, 1)], [(0, "a", 1, 1), (1, "c", 1, 1)], (0, 0, "b where it calls c there")),
        ([(0, "a", 1, 1), (1, "b", 1, 1)], [(0, "a", 1, 1)], (0, 0, "b, which it does not there")),
        ([(0, "a", 1, 1)], [(0, "a", 1, 1), (1, "b", 1, 1)], (0, 0, "nothing more where it calls b there")),
        ([(0, "a", 1, 1), (1, "a.<locals>.<genexpr>", 1, 1)], [(0, "a", 1, 2), (1, "a.<locals>.<genexpr>", 2, 1)], (0, 0, "")),
        (
            [(0, "a", 1, 1), (1, "a.<locals>.<genexpr>", 1, 1)],
            [(0, "a", 1, 2), (1, "b", 1, 1)],
            (0, 0, "nothing more where it calls b there"),
        ),
        (
            [(0, "a", 1, 1), (1, "b", 1, 1)],
            [(0, "a", 1, 2), (1, "a.<locals>.<lambda>", 1, 1)],
            (0, 0, "b, which it does not there"),
        ),
        ([(0, "a", 1, 1), (1, "Send", 1, 0)], [(0, "a", 1, 1), (1, "Send", 2, 0)], (0, 0, "Send with other values")),
        ([(0, "a", 1, 1), (0, "b", 1, 1)], [(0, "a", 1, 1), (0, "b", 1, 2)], (1, 1, "")),
    ],
)
def test_innermost_call_that_differs_is_found(
    here: Sequence[tuple[int, str, int, int]], there: Sequence[tuple[int, str, int, int]], found: tuple[int, int, str]
) -> None:
    assert innermost(_calls(*here), _calls(*there)) == found


def test_other_calls_of_the_harness_blame_no_function() -> None:
    assert innermost(_calls((0, "a", 1, 1)), _calls((0, "a", 2, 2))) is None
    assert innermost(_calls((0, "a", 1, 1)), _calls((0, "a", 1, 1), (0, "b", 1, 1))) is None
    assert innermost(_calls((0, "a", 1, 1)), _calls((0, "a", 1, 1))) is None


# --- values ---------------------------------------------------------------------------------------------------------------------


def test_numbers_tell_values_apart() -> None:
    number = Numbers({}).of
    member = IsrMember(BrokerId(1), Incarnation(5))
    restarted_member = IsrMember(BrokerId(1), Incarnation(6))
    variants = VARIANTS["safe"], VARIANTS["v3"]
    values = [-1, -2, 1, 0, "1", (), (1,), (1, 2), {1: 2}, {2: 1}, frozenset({1}), member, restarted_member, *variants]
    assert len({number(value) for value in values}) == len(values)
    assert [number(value) for value in values] == [Numbers({}).of(value) for value in values]


def test_fields_that_are_left_out_do_not_count() -> None:
    left_out = {"reference.messages.IsrMember": ("incarnation",)}
    members = [IsrMember(BrokerId(1), Incarnation(life)) for life in (5, 6)]
    assert len({Numbers(left_out).of(member) for member in members}) == 1
    assert len({str(tree_of(member, left_out)) for member in members}) == 1


def test_differences_are_the_smallest_parts() -> None:
    here = tree_of({"t-0": [IsrMember(BrokerId(1), Incarnation(5))], "t-1": []}, {})
    there = tree_of({"t-0": [IsrMember(BrokerId(2), Incarnation(5))]}, {})
    assert list(differences(here, there, "isr")) == [("isr[t-0][0].broker", "1", "2"), ("isr[t-1]", "[]", "nothing")]


def test_members_of_a_union_are_told_apart_by_plain_words() -> None:
    """An internal name such as `Keep` says nothing to a reader of a page."""
    here, there = (tree_of(value, {}) for value in (Keep(), AskLogs((BrokerId(1),))))
    assert (text(here), text(there)) == ("keep", "{brokers: [1]}")
    assert list(differences(here, there, "its result")) == [
        ("its result", "keep", "ask logs"),
        ("its result.brokers", "nothing", "[1]"),
    ]
    assert text(tree_of(print, {})) == "a builtin function or method"


# --- two trees ------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "old", "new", "function"),
    [
        ("replica/high_watermark", "follower is None", "follower is not None", "replica/high_watermark._smallest_leo"),
        ("broker/metadata", "known.update(news)", "pass", "broker/metadata.on_update_metadata"),
        ("coordination/memory", "node.version += 1", "pass", "coordination/memory.MemoryZooKeeper._write"),
        ("client/client", "LOOKUP_BACKOFF_MS = Millis(100)", "LOOKUP_BACKOFF_MS = Millis(90)", "client/client.Client"),
        ("broker/metadata", "known.update(news)", "raise ValueError(news)", "broker/metadata.on_update_metadata"),
    ],
)
def test_function_that_was_edited_answers_otherwise(tmp_path: Path, module: str, old: str, new: str, function: str) -> None:
    found = first_call(load_plan(_PLAN), ROOT, "main", ours_path=_tree(tmp_path, module, old, new))
    assert found.missing == ""
    assert found.function.startswith(function)
    assert found.sentence.startswith("The first call that answers otherwise than at main is ")
    assert found.otherwise


@pytest.mark.slow
def test_new_field_of_a_state_is_no_difference(tmp_path: Path) -> None:
    """It would be one of every state, from the first moment on, and hide what differs later."""
    tree = _tree(tmp_path, "node", "    session: int = 0\n", "    session: int = 0\n    new: int = 7\n")
    found = first_call(load_plan(_PLAN), ROOT, "main", ours_path=tree)
    assert found.missing == "both trees give the same answers to the end of the run"


@pytest.mark.slow
def test_other_name_of_a_function_is_no_difference(tmp_path: Path) -> None:
    path = _tree(tmp_path) / "reference/replica/high_watermark.py"
    text = path.read_text(encoding="utf-8").replace("_smallest_leo(", "_least(")
    path.write_text(text, encoding="utf-8")
    found = first_call(load_plan(_PLAN), ROOT, "main", ours_path=tmp_path)
    assert found.missing == "both trees give the same answers to the end of the run"
    path.write_text(text.replace("follower is None", "follower is not None"), encoding="utf-8")
    found = first_call(load_plan(_PLAN), ROOT, "main", ours_path=tmp_path)
    assert (found.function, found.is_new) == ("replica/high_watermark._least", True)
    assert found.sentence.endswith(" It is not there.")


@pytest.mark.slow
def test_tree_that_cannot_be_performed_is_a_sentence(tmp_path: Path) -> None:
    found = first_call(load_plan(_PLAN), ROOT, "main", ours_path=_tree(tmp_path, "node", "class NodeState(Struct):", "class ("))
    assert found.sentence == "No call answers otherwise than at main: a process that performs it has ended."


# --- where it is told -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_first_call_is_kept_with_the_run_and_told(tmp_path: Path) -> None:
    run = tmp_path / "p/r"
    run.mkdir(parents=True)
    shutil.copy(_PLAN, run / store.PLAN)
    assert kept_first_call(run) is None
    first_call = keep_first_call(run, _tree(tmp_path / "old", "broker/metadata", "known.update(news)", "pass"), "main")
    assert first_call is not None
    assert kept_first_call(run) == first_call


def test_accepted_commit_is_the_last_with_another_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {"HEAD": b"", "c0ffee" * 7: b"reference/node.py\n"}

    def git(*asked: str, what: str) -> bytes:
        return b"c0ffee" * 7 + b"\n" if asked[0] == "log" else changed[asked[2]]

    monkeypatch.setattr(revisions, "_git", git)
    there = revisions.accepted_before(Path("corpus/behaviour.txt"))
    assert there is not None
    assert there.words == "c0ffeec0ffee (accepted last)"
    changed["HEAD"] = b"reference/node.py\n"
    there = revisions.accepted_before(Path("corpus/behaviour.txt"))
    assert there is not None
    assert there.words == "HEAD"
    changed.update({"HEAD": b"", "c0ffee" * 7: b""})
    assert revisions.accepted_before(Path("corpus/behaviour.txt")) is None
