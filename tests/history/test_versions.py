"""A history of schema version 1 reads equal to the same history in the columns of this version.

`version_1` holds one history as version 1 wrote it, as the folder of a run and as a JSONL file.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from msgspec.structs import replace

from history import jsonl, parquet, store, versions
from history.errors import HistoryError
from history.event import ClusterEvent, EventKind
from history.history import History
from history.manifest import SCHEMA_VERSION
from history.op import OpType
from history.recorder import Record, Recorder
from history.schema import to_table, upgraded_table
from tests.strategies import MANIFEST, events

VERSION_1 = Path(__file__).parent / "version_1"
DIGEST_1 = "04a605ed9fb42e4caaf0399117068ceb"


def now() -> History:
    """The history of `version_1`, recorded today."""
    times = iter(range(1000, 100_000, 1000))
    recorder = Recorder(lambda: next(times))
    event = recorder.event
    event(EventKind.BROKER_STATE, node="b1", life=1, broker="b2", controller_epoch=1, incarnation=12, detail="active")
    event(
        EventKind.STATE_WRITTEN, node="b1", topic="orders", topic_id="7", partition=0, leader="b2", leader_epoch=0,
        controller_epoch=1, zk_version=0, isr=("b1", "b2"), stamps=(11, 12), elr=(),
    )  # fmt: skip
    recorder.operation(
        process=0, type=OpType.INVOKE, f="produce", topic="orders", partition=0, acks=-1, records=[Record(value="v1")]
    )
    event(
        EventKind.APPEND, node="b2", life=1, topic="orders", topic_id="7", partition=0, offset=0, leader_epoch=0, value="v1",
        detail="leader",
    )  # fmt: skip
    recorder.operation(
        process=0, type=OpType.OK, f="produce", topic="orders", partition=0, acks=-1, node="b2",
        records=[Record(value="v1", offset=0, leader_epoch=0)],
    )  # fmt: skip
    event(EventKind.GAUGE, node="b2", life=1, detail="OfflineReplicaCount", gauge=2)
    event(EventKind.FAULT_ACTED, fault="w1", node="b2", detail="packets", count=17)
    event(EventKind.FAULT_ACTED, fault="w2", node="b2", detail="crash")
    event(
        EventKind.TRUNCATE, node="b1", life=1, topic="orders", topic_id="7", partition=0, offset=0, leader_epoch=0, detail="epoch"
    )
    event(EventKind.LOG_ON_DISK, node="b2", topic="orders", topic_id="7", partition=0, dir=0, leo=1, digest="0f1e2d3c4b5a6978")
    history = recorder.history(MANIFEST)
    return recorder.history(replace(MANIFEST, digest=history.digest))


def _folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(VERSION_1, tmp_path / "run", ignore=shutil.ignore_patterns("*.jsonl")))


@pytest.mark.parametrize("name", ["", "events.parquet", "history.jsonl"])
def test_history_of_schema_version_1_is_read(name: str, tmp_path: Path) -> None:
    path = VERSION_1 / name if name == "history.jsonl" else _folder(tmp_path) / name

    history, expected = store.load(path), now()

    assert (history.operations, history.events) == (expected.operations, expected.events)
    uncounted = replace(history.manifest, operation_rows=None, event_rows=None)
    assert uncounted == expected.manifest
    assert history.events_frame.equals(expected.events_frame)
    assert history.digest == expected.digest != DIGEST_1


def test_digest_of_version_1_is_computed_from_upgraded_rows() -> None:
    """`highwater replay` compares it with the digest of a run that was stored in version 1."""
    history = now()

    assert versions.digest_in(1, history.operations, history.events) == DIGEST_1
    assert versions.digest_in(SCHEMA_VERSION, history.operations, history.events) == history.digest


def test_tampered_history_of_version_1_is_refused(tmp_path: Path) -> None:
    """Without the digest in its metadata, a table must have the rows of the manifest's digest."""
    folder = _folder(tmp_path)
    manifest = store.load_manifest(folder)
    store.write_file(folder / store.MANIFEST, store.encode_manifest(replace(manifest, digest="0" * 32)))

    with pytest.raises(HistoryError, match=f"it says rows of digest 0{{32}}, they hold {DIGEST_1}"):
        store.load_run(folder)


def test_new_column_in_a_version_1_history_is_refused(tmp_path: Path) -> None:
    lines = (VERSION_1 / "history.jsonl").read_text()
    (tmp_path / "history.jsonl").write_text(lines.replace('"offset":17', '"count":17'))

    with pytest.raises(HistoryError, match=r"line 8: not a row of a history: schema version 1 has no column count"):
        jsonl.read(tmp_path / "history.jsonl")


def test_interrupted_run_of_version_1_is_upgraded(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(b"".join((VERSION_1 / "history.jsonl").read_bytes().splitlines(keepends=True)[:-1]))

    history = jsonl.read_interrupted(tmp_path / "history.jsonl")

    assert (history.events, history.manifest.schema_version) == (now().events, SCHEMA_VERSION)


def test_selected_columns_of_version_1_are_upgraded() -> None:
    columns = parquet.read_columns(VERSION_1 / "events.parquet", "events", ["kind", "count", "offset"])

    assert [row for row in columns.to_pylist() if row["kind"] == "fault-acted"] == [
        {"kind": "fault-acted", "count": 17, "offset": None},
        {"kind": "fault-acted", "count": None, "offset": None},
    ]


@given(events())
def test_version_1_rows_and_tables_are_upgraded_alike(row: ClusterEvent) -> None:
    old = replace(row, broker=None, count=None, gauge=None, digest=None)
    table = to_table("events", [old]).drop_columns(["broker", "count", "gauge", "digest"])
    table = table.replace_schema_metadata({b"highwater.table": b"events", b"highwater.schema_version": b"1"})

    found: pa.Table = upgraded_table("events", table)

    assert found.equals(to_table("events", [versions.upgraded(old)]), check_metadata=True)
    assert versions.digest_in(1, (), [versions.upgraded(old)]) == History(MANIFEST, events=[old]).digest
