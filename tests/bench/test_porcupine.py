"""The judges of linearizability beside Porcupine on random histories."""

from collections import Counter
from pathlib import Path

import pytest

from bench.porcupine import __main__ as porcupine
from bench.porcupine.histories import KINDS, SEARCHED_MAX, Kind, drawn, model_of
from bench.porcupine.judging import build, go
from checkers.engine.verdict import Validity
from checkers.linearizability.judge import judge
from checkers.linearizability.registry import NAMES
from history.foreign.read import calls as calls_in
from history.foreign.step import Call
from history.seed import Rng

_NAMES = [kind.name for kind in KINDS]
_HISTORIES = 300


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    command = go()
    if command is None:
        pytest.skip(porcupine.NO_GO)
    return build(command, tmp_path_factory.mktemp("porcupine"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=_NAMES)
def test_judge_agrees_with_porcupine(kind: Kind, program: Path) -> None:
    tally = porcupine.compare(kind, program, count=_HISTORIES, seed=7)

    assert tally.disagreements == []
    assert tally.histories == _HISTORIES
    assert min(tally.valid, tally.invalid) > _HISTORIES // 20  # both verdicts were there to be given
    assert tally.long > 0
    assert tally.lost > _HISTORIES // 5
    assert tally.undecided + tally.undecided_there <= _HISTORIES // 30


def test_every_model_of_linearizability_is_compared() -> None:
    """And a model of a user's own."""
    assert sorted(_NAMES) == sorted([*NAMES, "stack"])


@pytest.mark.parametrize("kind", KINDS, ids=_NAMES)
def test_histories_depend_on_the_seed_alone(kind: Kind) -> None:
    first, again, other = (drawn(kind, Rng(seed).fork(kind.name)) for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_histories_are_small_crowded_and_long() -> None:
    kind = KINDS[0]
    sizes = Counter(len(drawn(kind, Rng(seed))) // 8 for seed in range(300))

    assert sizes[0] > 50  # fewer than eight calls
    assert sizes[1] + sizes[2] > 50
    assert sum(count for size, count in sizes.items() if 8 * size > SEARCHED_MAX) > 3


@pytest.mark.parametrize("kind", KINDS, ids=_NAMES)
def test_saved_history_has_the_verdict_of_the_drawn_one(kind: Kind, tmp_path: Path) -> None:
    for seed in range(20):
        calls = drawn(kind, Rng(seed))
        porcupine.save(calls, tmp_path / "saved.jsonl")
        saved = calls_in(tmp_path / "saved.jsonl").calls

        assert _verdict(kind, saved) is _verdict(kind, calls)


def _verdict(kind: Kind, calls: tuple[Call, ...]) -> Validity:
    return judge(model_of(kind), calls).validity
