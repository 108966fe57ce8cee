"""The histories of the reading benchmark are valid, and as long as it says."""

from pathlib import Path

import pytest

from bench.reading import SUBJECTS, list_append, sends_and_polls, write
from checkers.engine.verdict import Validity
from highwater.foreign.files import ModelChoice, judge_file


@pytest.mark.parametrize(("model", "steps"), [("list-append", list_append(300)), ("kafka", sends_and_polls(300))])
def test_history_of_the_reading_benchmark_is_valid(model: str, steps: list[object], tmp_path: Path) -> None:
    write(tmp_path / "history.edn", steps)  # type: ignore[arg-type]  # steps

    judgement = judge_file(tmp_path / "history.edn", ModelChoice(model=model))

    assert (judgement.validity, judgement.unchecked, judgement.notes) == (Validity.VALID, (), ())
    assert judgement.operations >= 150


def test_reading_benchmark_measures_the_transaction_models() -> None:
    assert [subject.model for subject in SUBJECTS] == ["list-append", "kafka"]
