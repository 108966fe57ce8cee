"""The documented ways to open a dataset, and the example notebook (docs/data.md)."""

import ast
import json
import re
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
import pytest
from pyspark.sql import SparkSession

from pipeline.dataset import Entry, ingest
from pipeline.storage import storage_at
from tests.pipeline.records import record
from tests.tidy.sources import ROOT

_NOTEBOOK = ROOT / "docs" / "examples" / "campaign.ipynb"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two campaigns with four runs each, of two protocols."""
    folder = tmp_path_factory.mktemp("opening") / "dataset"
    records = [record(seed, protocol) for seed in (1, 2) for protocol in ("safe", "v3")]
    of_run = {this_record.run: this_record for this_record in records}
    for campaign in ("first", "second"):
        ingest(storage_at(folder), campaign, [Entry(run, partial(of_run.__getitem__, run)) for run in of_run])
    return folder


_WANTED = [(c, p, f"seed-{s}/sim-{p}-0") for c in ("first", "second") for p in ("safe", "v3") for s in (1, 2)]


def _line(tool: str, dataset: Path) -> str:
    """The documented line, with the path of the dataset."""
    document = (ROOT / "docs" / "data.md").read_text()
    match = re.search(rf"^\| {tool} \| `(.*)` \|$", document, re.MULTILINE)
    assert match is not None
    return match[1].replace("DATASET", str(dataset))


def test_polars_opens_a_table_in_one_line(dataset: Path) -> None:
    runs = eval(_line("Polars", dataset), {"pl": pl})

    assert runs.select("campaign", "protocol", "run").sort(pl.all()).collect().rows() == _WANTED


def test_duckdb_opens_a_table_in_one_line(dataset: Path) -> None:
    found = duckdb.execute(f"SELECT campaign, protocol, run FROM ({_line('DuckDB', dataset)}) ORDER BY ALL").fetchall()

    assert found == _WANTED


@pytest.mark.slow
@pytest.mark.spark
def test_spark_opens_a_table_in_one_line(dataset: Path, spark: SparkSession) -> None:
    runs = eval(_line("Spark", dataset), {"spark": spark})
    rows = runs.select("campaign", "protocol", "run").orderBy("campaign", "protocol", "run").collect()

    assert [tuple(row) for row in rows] == _WANTED


@pytest.mark.slow
def test_example_notebook_runs(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each code cell runs in order, and the last expression of each is a table with rows."""
    monkeypatch.setenv("DATASET", str(dataset))
    names: dict[str, object] = {}
    cells = [cell for cell in json.loads(_NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop()
        assert isinstance(last, ast.Expr)
        exec(compile(tree, _NOTEBOOK.name, "exec"), names)
        shown = eval(compile(ast.Expression(last.value), _NOTEBOOK.name, "eval"), names)

        assert isinstance(shown, pl.DataFrame)
        assert shown.height > 0
        assert cell["outputs"] == []
    assert len(cells) >= 5
