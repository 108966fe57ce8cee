"""Each anomaly of each judge of foreign histories has a history that has it, one that nearly has, one that nobody can tell."""

import pytest

from checkers.elle.consistency import FORBIDS
from checkers.elle.judge import judge as judge_transactions
from checkers.linearizability.judge import STEPS_MAX, Judgement, judge
from checkers.linearizability.registry import NAMES, model_named
from checkers.verdict import Validity
from history.foreign.read import calls
from tests.checkers.foreign import objects
from tests.checkers.foreign.stories import LISTS, REGISTERS, ROOT, STORIES, text

_SIDES = {"ok": Validity.VALID, "bad": Validity.INVALID, "undecided": Validity.UNKNOWN}
_FOLDERS = ("elle", "linearizability")


def _judged(name: str) -> Judgement:
    story = STORIES[name]
    history = calls(ROOT / f"{name}.edn")
    if story.judge == "elle":
        return judge_transactions(story.model, history, (story.consistency,))
    initial = {"register": 0, "cas-register": 0, "multi-register": 0}.get(story.model)
    model = model_named(story.model, initial=initial, nil_is_a_value=False)
    return judge(model, history.calls, steps_max=objects.STEPS_MAX if "/undecided/" in name else STEPS_MAX)


@pytest.mark.parametrize("name", sorted(STORIES))
def test_history_is_judged_as_its_story_says(name: str) -> None:
    found = _judged(name)

    side = name.split("/")[1]
    assert found.validity is _SIDES[side], found
    assert (STORIES[name].kind in {one.kind for one in found.anomalies}) == (side == "bad"), found.anomalies
    assert bool(found.unchecked) == (side == "undecided")


@pytest.mark.parametrize("name", sorted(STORIES))
def test_file_is_what_the_story_tells(name: str) -> None:
    """`python -m tests.checkers.foreign.stories` writes them."""
    assert (ROOT / f"{name}.edn").read_text(encoding="utf-8") == text(STORIES[name])


def test_there_is_no_file_without_a_story() -> None:
    files = {str(path.relative_to(ROOT).with_suffix("")) for folder in _FOLDERS for path in (ROOT / folder).rglob("*.edn")}

    assert files == set(STORIES)


def test_every_anomaly_and_every_model_has_its_three_histories() -> None:
    """All that any promise forbids; what only lists or only registers can show stands with the one that can."""
    kinds = frozenset[str]().union(*FORBIDS.values())
    only_lists = {"dirty-update", "duplicate-elements", "incompatible-order"}

    assert set(LISTS) == kinds - {"cyclic-versions"}
    assert set(REGISTERS) == kinds - only_lists
    assert set(objects.OBJECTS) == set(NAMES)
    assert all(set(sides) == set(_SIDES) for sides in objects.OBJECTS.values())
