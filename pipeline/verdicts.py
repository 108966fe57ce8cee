"""The verdict of each run as a table, computed on Spark and equal to `checkers.single.judge`."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.checker import Checker
from checkers.registry import ALL
from checkers.verdict import Findings, merge
from pipeline.adapt import findings_of
from pipeline.load import load

_TEXTS = pa.list_(pa.string())
_ANOMALY = pa.struct(
    [
        ("kind", pa.string()),
        ("checker", pa.string()),
        ("key", pa.string()),
        ("witness", pa.list_(pa.int64())),
        ("words", pa.string()),
    ]
)
_EXCUSED = pa.struct(
    [("topic", pa.string()), ("partition", pa.int64()), ("offset", pa.int64()), ("value", pa.string()), ("wound", pa.int64())]
)
# One row for each run. `validity` is a name, `judgement` the whole checkers.verdict.Verdict as JSON.
VERDICTS = pa.schema(
    [
        ("run", pa.string()),
        ("validity", pa.string()),
        ("live", pa.bool_()),
        ("anomalies", pa.list_(_ANOMALY)),
        ("excused", pa.list_(_EXCUSED)),
        ("unchecked", _TEXTS),
        ("not_live", _TEXTS),
        ("judgement", pa.string()),
    ]
)


def verdict_table(spark: SparkSession, directories: Sequence[Path], checkers: Sequence[Checker] = ALL) -> DataFrame:
    """Judge the finished runs in these folders on Spark; return one row for each run, unordered.

    The columns are those of `VERDICTS`.
    """
    found = findings_of(checkers, load(spark, directories))
    return found.groupBy("run").applyInArrow(_merge_run, from_arrow_schema(VERDICTS))


def _merge_run(key: tuple[pa.Scalar, ...], findings: pa.Table) -> pa.Table:
    texts = findings.column("findings").to_pylist()
    verdict = merge(msgspec.json.decode(text, type=Findings) for text in texts)
    row = {
        "run": key[0].as_py(),
        "validity": verdict.validity.name,
        "live": verdict.live,
        "anomalies": msgspec.to_builtins(verdict.anomalies),
        "excused": msgspec.to_builtins(verdict.excused),
        "unchecked": verdict.unchecked,
        "not_live": verdict.not_live,
        "judgement": msgspec.json.encode(verdict).decode(),
    }
    return pa.Table.from_pylist([row], schema=VERDICTS)
