"""Which changed code of the protocol is told as never reached."""

from pathlib import Path

import pytest

from highwater.campaigns import changed_code
from highwater.campaigns.changed_code import ReachOfChanges, reach_of_changes
from highwater.cli import chaos
from highwater.cli.main import run_command_line
from highwater.coverage.branches import branches, counting, names_of
from highwater.coverage.changed import changed_functions, sources_under, unreached
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs.revisions import Revision
from reference.replica import leader
from tests.tidy.sources import ROOT

FILE = "reference/replica/toy.py"
BEFORE = '''
def shrink(slow, late):
    """What a leader does."""
    if slow:
        late += 1
    for one in late:
        print(one)
    return late


def grow(members):
    return members
'''


def _told(now: str, *taken: str) -> tuple[str, ...]:
    """What is told of the module as it is now, if runs took these branches of it."""
    return unreached(changed_functions({FILE: now}, {FILE: BEFORE}), {f"replica.toy.{branch}" for branch in taken})


def test_comments_and_docstrings_are_no_change() -> None:
    now = BEFORE.replace("What a leader does.", "It leaves nobody out.").replace("late += 1", "late += 1  # counted")

    assert changed_functions({FILE: now}, {FILE: BEFORE}) == ()


def test_changed_function_that_no_run_calls_is_told() -> None:
    now = BEFORE.replace("return members", "return members[1:]")

    assert _told(now, "shrink: if slow") == ("replica.toy.grow (reference/replica/toy.py:11) was not called",)
    assert _told(now, "grow: called") == ()


def test_changed_lines_of_a_branch_must_be_reached() -> None:
    now = BEFORE.replace("late += 1", "late += 2")

    assert _told(now, "shrink: not slow") == (f"replica.toy.shrink ({FILE}:2): if slow (line 4) was not reached",)
    assert _told(now, "shrink: if slow") == ()


def test_new_condition_must_be_reached_in_both_ways() -> None:
    now = BEFORE.replace("if slow:", "if slow and late:")

    assert _told(now, "shrink: if slow and late", "shrink: and late") == (
        f"replica.toy.shrink ({FILE}:2): not (slow and late) (line 4) was not reached",
    )


def test_lines_behind_a_guard_must_be_reached() -> None:
    """What follows `if …: return` is reached where the condition is false, and nowhere else."""
    before = "def find(x):\n    if x is None:\n        return 0\n    return x + 1\n"
    changed = changed_functions({FILE: before.replace("x + 1", "x + 2")}, {FILE: before})

    guard, rest = "replica.toy.find: if x is None", "replica.toy.find: not x is None"
    assert unreached(changed, {guard}) == (f"replica.toy.find ({FILE}:1): not x is None (line 2) was not reached",)
    assert unreached(changed, {guard, rest}) == ()


def test_statement_owns_its_line_beside_a_part_of_it() -> None:
    """Otherwise only the second operand of `and` would be told, and not that the statement was never reached."""
    before = "def find(x):\n    if x is None:\n        return 0\n    note(x)\n    return x\n"
    changed = changed_functions({FILE: before.replace("return x\n", "return x and x + 1\n")}, {FILE: before})
    told = [line.partition("): ")[2] for line in unreached(changed, {"replica.toy.find: if x is None"})]

    assert told == ["not x is None (line 2) was not reached", "and x + 1 (line 5) was not reached"]


def test_deleted_line_counts_for_the_branch_that_it_was_in() -> None:
    before = "def act(x):\n    if x:\n        first()\n        second()\n    else:\n        third()\n"
    changed = changed_functions({FILE: before.replace("        second()\n", "")}, {FILE: before})

    assert unreached(changed, {"replica.toy.act: not x"}) == (f"replica.toy.act ({FILE}:1): if x (line 2) was not reached",)
    assert unreached(changed, {"replica.toy.act: if x"}) == ()


def test_changed_value_of_an_expression_must_be_reached() -> None:
    before = "def value(x):\n    return (\n        1\n        if x\n        else 2\n    )\n"
    changed = changed_functions({FILE: before.replace("else 2", "else 3")}, {FILE: before})

    called, other = "replica.toy.value: called", "replica.toy.value: not x"
    assert [line.partition("): ")[2] for line in unreached(changed, {called})] == ["not x (line 3) was not reached"]
    assert unreached(changed, {called, other}) == ()


def test_source_that_is_no_python_is_one_line() -> None:
    with pytest.raises(UsageError, match=rf"^{FILE}:1: "):
        changed_functions({FILE: "def broken(:\n"}, {})

    (changed,) = changed_functions({FILE: "def mended():\n    pass\n"}, {FILE: "def broken(:\n"})
    assert changed.name == "replica.toy.mended"


def test_function_of_a_new_module_is_a_changed_one() -> None:
    (changed,) = changed_functions({FILE: "class Toy:\n    def twice(self, x):\n        return 2 * x\n"}, {})

    assert (changed.name, changed.line) == ("replica.toy.Toy.twice", 2)
    assert unreached([changed], {"replica.toy.Toy.twice: called"}) == ()


def test_only_watched_functions_are_marked() -> None:
    own = leader.on_produce.__code__
    watched = {"replica.leader.on_produce"}
    with counting(watched) as marks:
        assert leader.on_produce.__code__ is not own
        assert leader.become.__code__.co_names.count("__branches__") == 0
        marks[:] = b"\1" * len(marks)
        assert len(names_of(marks)) == len(branches())

    assert leader.on_produce.__code__ is own


def test_reach_without_a_change_tells_nothing() -> None:
    assert list(ReachOfChanges().lines()) == []


def _earlier_sources() -> dict[str, str]:
    """The protocol before a change of a function that `safe` leaves at its first line: its fetches name no last epoch."""
    sources = sources_under(ROOT)
    file, now = "reference/replica/leader.py", "def _divergence("
    assert now in sources[file]
    return {**sources, file: sources[file].replace(now, "def _divergence_of(")}


def test_changes_are_counted_from_the_commit_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_code, "sources_at", lambda revision, option: _earlier_sources())
    reach = reach_of_changes(Revision(name="c0ffee", words="c0ffee (accepted last)"))

    assert reach.watched == {"replica.leader._divergence"}
    title, line = reach.lines()
    assert title == f"{'changed code':<22} 1 function since c0ffee (accepted last); no run on safe came to, and so none judges:"
    assert line.endswith(" was not called")


@pytest.mark.slow
def test_chaos_tells_changed_code_that_no_run_reaches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate that was green said nothing of an edit that no run on `safe` came to."""
    monkeypatch.setattr(chaos, "accepted_before", lambda snapshot: Revision(name="c0ffee", words="HEAD"))
    monkeypatch.setattr(changed_code, "sources_at", lambda revision, option: _earlier_sources())
    asked = ["chaos", "--parts", "seeds,guided", "--seeds", "2", "--first", "1", "--store", str(tmp_path), "--jobs", "1"]

    assert run_command_line(asked) == ExitCode.VALID
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("changed code"))
    assert lines[at].endswith("1 function since HEAD; no run on safe came to, and so none judges:")
    assert lines[at + 1].startswith("    replica.leader._divergence (reference/replica/leader.py:")
    assert ": not fetch.last_epoch == NO_EPOCH (line " in lines[at + 1]
