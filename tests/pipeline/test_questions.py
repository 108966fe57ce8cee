"""Answers of each engine equal those of Polars, which computes them another way."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pipeline.questions.ask import Engine
from pipeline.questions.catalogue import QUESTIONS, question_named
from tests.pipeline.datasets import Made, write_dataset
from tests.pipeline.engines import ENGINES, engine_of
from tests.pipeline.polars_answers import ANSWERS, Store

SAFE = Made(campaign="before", seeds=range(40))
WEAK = Made(campaign="before", protocol="v3", seeds=range(40), invalid=600, not_live=100)
CAMPAIGNS = (
    SAFE,
    WEAK,
    replace(WEAK, mix="crash-leader", seeds=range(30), invalid=1000),
    replace(SAFE, campaign="later", seeds=range(20, 50), chance="second", invalid=100),
    replace(WEAK, campaign="later", backend="process", seeds=range(25), chance="third"),
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), CAMPAIGNS)


def rounded(rows: list[dict[str, object]]) -> list[dict[str, str]]:
    """Rows as text, so that 1 and 1.0 differ."""
    return [{name: f"{v:.9f}" if isinstance(v, float) else repr(v) for name, v in row.items()} for row in rows]


def test_every_question_has_a_second_computation() -> None:
    assert [question.name for question in QUESTIONS] == list(ANSWERS)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, dataset: Path) -> Engine:
    return engine_of(request, dataset)


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_equals_that_of_polars(name: str, engine: Engine, dataset: Path) -> None:
    question = question_named(name)

    answer = engine.table(question.sql)

    assert answer.column_names == [column.name for column in question.columns]
    expected = rounded(ANSWERS[name](Store(dataset)))
    assert expected
    assert rounded(answer.to_pylist()) == expected
