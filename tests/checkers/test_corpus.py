"""The histories of our own in corpus/histories are judged as expected.yaml says, with exactly these witnesses."""

import pytest

from checkers.control import clauses
from checkers.judge import judge
from checkers.observing import IN_PLACE_OF_NOTES
from checkers.registry import ALL
from history import jsonl
from tests.checkers.corpus import ROOT, RUNS, SESSIONS, history


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RUNS))
def test_corpus_history_gets_its_expected_verdict(name: str) -> None:
    expected = RUNS[name]

    verdict = judge(history(name))

    assert tuple((anomaly.kind, anomaly.witness) for anomaly in verdict.anomalies) == expected.anomalies
    assert verdict.validity.name == expected.validity
    assert tuple((loss.offset, loss.value, loss.wound) for loss in verdict.excused) == expected.excused
    assert verdict.live == expected.live
    if expected.live is None or expected.not_live:
        assert verdict.not_live == tuple(sorted(expected.not_live))
    assert verdict.unchecked == expected.unchecked
    assert {key: verdict.counts[key] for key in expected.counts} == expected.counts


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_history_of_sessions_gets_its_expected_verdict(name: str) -> None:
    """Their judges stand in for those of the brokers' notes, so each is asked by itself."""
    expected = SESSIONS[name]
    checker = next(
        checker_in_place
        for checker_in_place in IN_PLACE_OF_NOTES
        if name.partition("/")[2].startswith(f"{checker_in_place.name}-")
    )

    verdict = judge(jsonl.read(ROOT / "sessions" / f"{name}.jsonl"), (checker,))

    assert tuple((anomaly.kind, anomaly.witness) for anomaly in verdict.anomalies) == expected.anomalies
    assert (verdict.validity.name, verdict.unchecked) == (expected.validity, expected.unchecked)
    assert {key: verdict.counts[key] for key in expected.counts} == expected.counts


def test_every_corpus_history_has_an_expected_verdict() -> None:
    files = {str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.rglob("*.jsonl")}

    assert files == {*RUNS, *(f"sessions/{name}" for name in SESSIONS)}


@pytest.mark.parametrize("checker", [checker.name for checker in ALL])
@pytest.mark.parametrize("side", ["ok", "bad"])
def test_every_checker_has_a_good_and_a_bad_history(checker: str, side: str) -> None:
    assert [name for name in RUNS if name.startswith(f"{side}/{checker}-")]


def test_every_kind_of_anomaly_is_found_in_the_corpus() -> None:
    found = {kind for expected in RUNS.values() for kind, _ in expected.anomalies}
    possible = {kind for checker in ALL for kind in checker.kinds}

    elsewhere = {"hw-above-leo", "position-regressed", "duplicate", "reordered"}  # test_monotonic_hw.py, test_duplicates.py
    one_rule_is_as_another = {kind.name for kind in clauses.RULES}  # test_clauses.py
    assert possible - found - one_rule_is_as_another == elsewhere
