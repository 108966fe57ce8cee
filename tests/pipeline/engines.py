"""The engines that answer questions: DuckDB in this process, and Spark."""

from pathlib import Path

import pytest

from pipeline.questions.ask import Engine, opened
from pipeline.questions.in_process import InProcess

ENGINES = ("in process", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow]))


def engine_of(request: pytest.FixtureRequest, dataset: Path) -> Engine:
    """The engine that a fixture's parameter names, with the views of a dataset."""
    storage, parts = opened(str(dataset))
    if request.param == "in process":
        return InProcess(storage, parts)
    from pipeline.questions.on_spark import OnSpark

    return OnSpark(request.getfixturevalue("spark"), storage, parts)
