"""Spark and a single process give every run the same verdict."""

from collections import Counter
from pathlib import Path

import msgspec
import polars as pl
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from checkers import single
from checkers.checker import PARTITION, WHOLE_RUN, Checker, Facts
from checkers.verdict import Anomaly, Cut, Findings, Verdict
from history import jsonl, parquet, store
from history.errors import HistoryError
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from history.seed import Rng
from pipeline.jobs import judge
from pipeline.verdicts import verdict_table
from tests.history.test_versions import VERSION_1
from tests.pipeline.runs import STORIES, corpus, random_run
from tests.strategies import MANIFEST

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _stored(folder: Path, histories: list[History]) -> list[Path]:
    runs = [folder / f"{number:03}" for number in range(len(histories))]
    for run, history in zip(runs, histories, strict=True):
        store.save(run, history)
    return runs


def test_spark_judges_corpus_and_random_runs_as_one_process(spark: SparkSession, tmp_path: Path) -> None:
    histories = corpus() + [random_run(Rng(seed)) for seed in range(100)]
    # The folder name has a space, a plus and a percent sign, because Spark names files by URI.
    runs = _stored(tmp_path / "a b+c%20é", histories)

    expected = [single.judge(history) for history in histories]

    assert judge(runs, master="local[2]") == expected
    # The random runs must include every validity; otherwise equality proves little.
    random = expected[-100:]
    assert min(Counter(verdict.validity for verdict in random).values()) >= 3
    assert any(verdict.cuts for verdict in random)


def _rows_seen(name: str, operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """A checker that reports one anomaly with all its input as the witness."""
    words = f"{operations['index'].to_list()} {events['index'].to_list()} {cuts} {facts.brokers} {dict(events.schema)}"
    witness = (*operations["index"].to_list(), *events["index"].to_list())
    return Findings(anomalies=(Anomaly(kind="seen", checker=name, key="", witness=witness, words=words),), counts={name: 1})


def _whole(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    return _rows_seen("whole", operations, events, facts, cuts)


def _parts(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    return _rows_seen("parts", operations, events, facts, cuts)


def _cutting(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    return Findings(cuts=(Cut(topic="orders", partition=0, offset=operations.height, leader_epoch=events.height),))


def _checker(name: str, group_by: tuple[str, ...]) -> Checker:
    return Checker(
        name=name,
        claim="",
        assumes="",
        blind="",
        kinds=("seen",),
        group_by=group_by,
        operations=("poll",),
        events=(EventKind.HW, EventKind.HEALED),
        check=_whole if name == "whole" else _parts,
    )


PROBES = (
    replace(_checker("cutting", PARTITION), check=_cutting, phase="ledger"),
    _checker("whole", WHOLE_RUN),
    _checker("parts", PARTITION),
)


def _poll(index: int, partition: int | None, slot: int = 0) -> Operation:
    topic = None if partition is None else "orders"
    return Operation(index=index, slot=slot, process=1, type=OpType.OK, f="poll", topic=topic, partition=partition, time_ns=0)


def _event(index: int, kind: EventKind, topic: str | None = None, partition: int | None = None) -> ClusterEvent:
    return ClusterEvent(index=index, kind=kind, topic=topic, partition=partition, time_ns=0)


def test_every_group_gets_its_rows_and_shared_rows_in_order(spark: SparkSession, tmp_path: Path) -> None:
    """Covers groups in only one table, rows without a group, rows with half a group, unread rows, and a run without rows."""
    operations = [_poll(0, 0, 0), _poll(0, 0, 1), _poll(2, 1), _poll(4, None), _poll(11, 0)]
    events = [
        _event(1, EventKind.HEALED),
        _event(3, EventKind.HW, "orders", 0),
        _event(5, EventKind.HW, "orders", 2),
        _event(6, EventKind.HW, "orders"),
        _event(7, EventKind.APPEND, "unread", 0),
        _event(10, EventKind.HEALED),
    ]
    histories = [History(MANIFEST, operations=operations, events=events), History(replace(MANIFEST, brokers=()))]
    runs = _stored(tmp_path, histories)

    rows = verdict_table(spark, runs, PROBES).collect()

    found = {row["run"]: msgspec.json.decode(row["judgement"], type=Verdict) for row in rows}
    assert [found[str(run)] for run in runs] == [single.judge(history, PROBES) for history in histories]
    assert len(found[str(runs[0])].anomalies) == 1 + 5  # the run, partitions 0, 1, 2, half a partition, the unread one


def test_verdict_table_agrees_with_the_judgement(spark: SparkSession, tmp_path: Path) -> None:
    history = jsonl.read(STORIES / "ok" / "acked-loss-excused-then-rewritten.jsonl")

    (row,) = verdict_table(spark, _stored(tmp_path, [history])).collect()

    verdict = single.judge(history)
    excused = [(e["topic"], e["partition"], e["offset"], e["value"], e["wound"]) for e in row["excused"]]
    assert excused == [(e.topic, e.partition, e.offset, e.value, e.wound) for e in verdict.excused] != []
    assert (row["validity"], row["live"], row["unchecked"]) == (verdict.validity.name, verdict.live, list(verdict.unchecked))


def test_killed_run_is_judged_with_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """A killed run must not keep a whole store from being judged."""
    (finished,) = _stored(tmp_path / "finished", [corpus()[0]])
    killed = tmp_path / "killed"
    store.RunWriter(killed, MANIFEST, plan="").abandon()

    verdicts = judge([killed, finished], master="local[2]")

    assert verdicts == [single.judge(store.load_run(killed)), single.judge(corpus()[0])]


def test_run_of_an_earlier_version_is_judged_with_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would read its missing columns as nulls."""
    (current,) = _stored(tmp_path, [corpus()[0]])

    verdicts = judge([VERSION_1, current], master="local[2]")

    assert verdicts == [single.judge(store.load_run(VERSION_1)), single.judge(corpus()[0])]
    with pytest.raises(HistoryError, match="Spark does not read earlier schema versions"):
        verdict_table(spark, [VERSION_1])


@pytest.mark.parametrize(
    ("name", "words"), [("events.parquet", "not a complete Parquet file"), ("manifest.json", "not the manifest")]
)
def test_foreign_file_is_refused_before_spark_reads_it(name: str, words: str, spark: SparkSession, tmp_path: Path) -> None:
    (run,) = _stored(tmp_path, [corpus()[0]])
    (run / name).write_text("hello")

    with pytest.raises(HistoryError, match=f"{name}: {words}"):
        judge([run], master="local[2]")


def test_cut_tables_are_refused_before_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    """The error is that of `history.store.load_run`."""
    (run,) = _stored(tmp_path, [corpus()[0]])
    events = parquet.read(run / store.EVENTS, "events")
    store.write_file(run / store.EVENTS, parquet.encode(events.slice(0, 1)))

    with pytest.raises(HistoryError, match=f"it says {events.num_rows} rows of events, they hold 1$"):
        judge([run], master="local[2]")
