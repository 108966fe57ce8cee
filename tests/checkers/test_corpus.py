"""The small histories of corpus/histories: each is judged as its story says, with exactly these witnesses."""

import pytest

from checkers.registry import ALL
from checkers.single import judge
from history import jsonl
from tests.checkers.stories import ROOT, STORIES


@pytest.mark.parametrize("name", sorted(STORIES))
def test_history_is_judged_as_its_story_says(name: str) -> None:
    expected = STORIES[name].expected

    verdict = judge(jsonl.read(ROOT / f"{name}.jsonl"))

    assert tuple((found.kind, found.witness) for found in verdict.anomalies) == expected.anomalies
    assert verdict.validity == expected.validity
    assert tuple((loss.offset, loss.value, loss.wound) for loss in verdict.excused) == expected.excused
    assert verdict.live == expected.live
    if expected.live is None or expected.not_live:
        assert verdict.not_live == tuple(sorted(expected.not_live))
    assert verdict.unchecked == expected.unchecked
    assert {key: verdict.counts[key] for key, _ in expected.counts} == dict(expected.counts)


@pytest.mark.parametrize("name", sorted(STORIES))
def test_file_is_what_the_story_tells(name: str) -> None:
    """The files are data for everybody; `python -m tests.checkers.stories` writes them."""
    assert (ROOT / f"{name}.jsonl").read_bytes() == jsonl.encode(STORIES[name].tell())


def test_there_is_no_file_without_a_story() -> None:
    files = {str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.rglob("*.jsonl")}

    assert files == set(STORIES)


@pytest.mark.parametrize("checker", [checker.name for checker in ALL])
@pytest.mark.parametrize("side", ["ok", "bad"])
def test_every_checker_has_a_good_and_a_bad_history(checker: str, side: str) -> None:
    assert [name for name in STORIES if name.startswith(f"{side}/{checker}-")]


def test_every_kind_of_anomaly_is_found_somewhere_in_the_corpus() -> None:
    found = {kind for told in STORIES.values() for kind, _ in told.expected.anomalies}
    possible = {kind for checker in ALL for kind in checker.kinds}

    elsewhere = {"hw-above-leo", "position-regressed", "duplicate", "reordered"}  # test_monotonic_hw.py, test_duplicates.py
    assert possible - found == elsewhere
