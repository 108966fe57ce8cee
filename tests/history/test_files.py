"""JSONL and Parquet keep every row of a history, and refuse bad files in one line."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from history import jsonl, parquet, schema
from history.errors import HistoryError
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from tests.strategies import MANIFEST, histories

HISTORY = History(
    MANIFEST,
    operations=[Operation(index=0, process=1, type=OpType.INVOKE, f="poll", time_ns=1)],
    events=[ClusterEvent(index=1, kind=EventKind.WOUND, time_ns=2, node="b1", partition=0, offset=7)],
)


@pytest.mark.slow
@given(history=histories())
def test_history_is_unchanged_after_writing_and_reading_jsonl(history: History, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    path.write_bytes(jsonl.encode(history))

    history_read = jsonl.read(path)

    assert (history_read.manifest, history_read.operations, history_read.events) == (
        history.manifest,
        history.operations,
        history.events,
    )


@pytest.mark.slow
@given(history=histories())
def test_history_is_unchanged_after_writing_and_reading_parquet(
    history: History, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    (folder / "o").write_bytes(parquet.encode(history.operations_table))
    (folder / "e").write_bytes(parquet.encode(history.events_table))

    operations, events = parquet.read(folder / "o", "operations"), parquet.read(folder / "e", "events")

    history_read = History.from_tables(history.manifest, operations=operations, events=events)
    assert (history_read.operations, history_read.events) == (history.operations, history.events)
    assert (operations.schema, events.schema) == (schema.arrow_schema("operations"), schema.arrow_schema("events"))


def _refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(HistoryError) as error_info:
        jsonl.read(path)
    message = str(error_info.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def test_jsonl_history_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    """A file cut by a full disk or a broken download must not pass for a shorter run."""
    data = jsonl.encode(HISTORY).removesuffix(b"\n")

    for cut in range(len(data)):
        _refusal(tmp_path / "a.jsonl", data[:cut])


MANIFEST_LINE, OPERATION_LINE, EVENT_LINE, END_LINE, _ = jsonl.encode(HISTORY).split(b"\n")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], ": not a history of highwater: the file is empty"),
        ([b"[1]"], ": line 1: not a history of highwater: Expected `object`, got `array`"),
        ([b'{"process": 0, "type": "invoke"}'], ": line 1: not a history of highwater: Object contains unknown field `process`"),
        ([b"{}"], ": line 1: not a history of highwater: expected one of manifest, op, event, end"),
        ([b"\xff\xfe"], ": line 1: not a history of highwater: JSON is malformed: invalid character (byte 0)"),
        ([OPERATION_LINE], ": line 1: not a history of highwater: the manifest must be the first line and no other"),
        (
            [MANIFEST_LINE, MANIFEST_LINE],
            ": line 2: not a history of highwater: the manifest must be the first line and no other",
        ),
        (
            [MANIFEST_LINE.replace(b'"schema_version":2', b'"schema_version":9')],
            ": schema version 9; this highwater reads 1 and 2",
        ),
        ([MANIFEST_LINE, OPERATION_LINE, EVENT_LINE], ": cut off after 2 rows: the end line is missing"),
        (
            [MANIFEST_LINE, OPERATION_LINE, END_LINE],
            ": the end line counts 1 operations and 1 events, the file holds 1 and 0",
        ),
        ([MANIFEST_LINE, EVENT_LINE, OPERATION_LINE], ": line 3: index 0 after 1: rows must be in the order of index"),
        ([MANIFEST_LINE, EVENT_LINE, EVENT_LINE], ": line 3: index 1 after 1: rows must be in the order of index"),
        ([MANIFEST_LINE, END_LINE, OPERATION_LINE], ": line 3: unexpected content after the end line"),
        (
            [MANIFEST_LINE, EVENT_LINE.replace(b"wound", b"party")],
            ": line 2: not a row of a history: Invalid enum value 'party' - at `$.event.kind`",
        ),
        (
            [MANIFEST_LINE, OPERATION_LINE.replace(b'"f":"poll",', b"")],
            ": line 2: not a row of a history: Object missing required field `f` - at `$.op`",
        ),
        (
            [MANIFEST_LINE, OPERATION_LINE.replace(b'"f":"poll",', b'"f":"poll","mood":"good",')],
            ": line 2: not a row of a history: Object contains unknown field `mood` - at `$.op`",
        ),
    ],
)
def test_jsonl_that_is_not_a_history_is_refused_by_line(lines: list[bytes], message: str, tmp_path: Path) -> None:
    assert _refusal(tmp_path / "a.jsonl", b"".join(line + b"\n" for line in lines)) == message


def test_missing_history_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"none\.jsonl: cannot be read: No such file or directory$"):
        jsonl.read(tmp_path / "none.jsonl")
    with pytest.raises(HistoryError, match=r"none\.parquet: no such file$"):
        parquet.read(tmp_path / "none.parquet", "events")


@pytest.mark.parametrize("kept", [0, 3, 100, -1])
def test_truncated_parquet_history_is_refused_in_one_line(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    path.write_bytes(parquet.encode(HISTORY.events_table)[:kept])

    for read in (parquet.read, parquet.check):
        with pytest.raises(HistoryError, match=r"^[^\n]*events\.parquet: not a complete Parquet file[^\n]*$"):
            read(path, "events")


def test_parquet_file_that_is_no_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"index": [1]}), path)

    for read in (parquet.read, parquet.check):
        with pytest.raises(HistoryError, match=r"events\.parquet: not the events table of a highwater history$"):
            read(path, "events")


def test_operations_table_is_refused_in_place_of_events(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    path.write_bytes(parquet.encode(HISTORY.operations_table))

    with pytest.raises(HistoryError, match=r"not the events table of a highwater history$"):
        parquet.read(path, "events")


def test_unclosed_history_journal_keeps_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([MANIFEST_LINE, OPERATION_LINE, EVENT_LINE[:-4]]))

    history = jsonl.read_interrupted(path)

    assert (history.operations, history.events) == (HISTORY.operations, ())
    assert history.manifest.outcome == "incomplete"
