"""The judges of linearizability beside Porcupine on random histories."""

from collections import Counter
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from bench.porcupine import __main__, comparison
from bench.porcupine.histories import KINDS, SEARCHED_MAX, Kind, drawn, model_of
from bench.porcupine.judging import build, go
from checkers.engine.verdict import Validity
from checkers.linearizability.collections import FifoQueue, UnorderedQueue
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
        pytest.skip(__main__.NO_GO)
    return build(command, tmp_path_factory.mktemp("porcupine"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=_NAMES)
def test_judge_agrees_with_porcupine(kind: Kind, program: Path) -> None:
    tally = comparison.compare(kind, program, count=_HISTORIES, seed=7)

    assert tally.disagreements == []
    assert tally.histories == _HISTORIES
    assert min(tally.valid, tally.invalid) > _HISTORIES // 20  # both verdicts were there to be given
    assert tally.long > 0
    assert tally.lost > _HISTORIES // 5
    assert tally.undecided + tally.undecided_there <= _HISTORIES // 30


@pytest.mark.slow
def test_comparison_finds_a_judge_that_is_wrong(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue whose order nobody checks: the saved history is INVALID by the right model and VALID by the wrong one."""
    (kind,) = (kind for kind in KINDS if kind.name == "fifo-queue")
    monkeypatch.setattr(comparison, "model_of", lambda _: UnorderedQueue())
    tally = comparison.compare(kind, program, count=100, seed=1)
    comparison.save(tally.disagreements[0], tmp_path / "saved.jsonl")
    saved = calls_in(tmp_path / "saved.jsonl").calls

    assert judge(FifoQueue(), saved).validity is Validity.INVALID
    assert judge(UnorderedQueue(), saved).validity is Validity.VALID


def test_without_go_the_command_says_that_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(__main__, "go", lambda: None)
    app = Typer()
    app.command()(__main__.main)
    said = CliRunner().invoke(app, [])

    assert (said.exit_code, said.output.splitlines()) == (0, [__main__.NO_GO])


def test_unknown_kind_of_object_is_refused_with_the_known_ones() -> None:
    app = Typer()
    app.command()(__main__.main)
    said = CliRunner().invoke(app, ["--only", "tree"], env={"COLUMNS": "300"})

    assert said.exit_code == 2
    assert "tree is none of register, cas-register" in said.output


def test_every_model_of_linearizability_is_compared() -> None:
    """And a model of a user's own."""
    assert sorted(_NAMES) == sorted([*NAMES, "stack"])


@pytest.mark.parametrize("kind", KINDS, ids=_NAMES)
def test_histories_depend_on_the_seed_alone(kind: Kind) -> None:
    first, again, other_seed = (drawn(kind, Rng(seed).fork(kind.name)) for seed in (1, 1, 2))

    assert first == again
    assert first != other_seed


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
        comparison.save(calls, tmp_path / "saved.jsonl")
        saved = calls_in(tmp_path / "saved.jsonl").calls

        assert _verdict(kind, saved) is _verdict(kind, calls)


def _verdict(kind: Kind, calls: tuple[Call, ...]) -> Validity:
    return judge(model_of(kind), calls).validity
