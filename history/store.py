"""Stores runs in folders, store/<plan name>/<run id>/, and reads them back.

    manifest.json        origin and outcome of the run; the outcome is "incomplete" until the run is finished
    plan.yaml            the plan, as it was performed
    history.jsonl        the journal: only while the run is being recorded, or after it was killed
    operations.parquet   the history of a finished run
    events.parquet
    operations/ events/  instead of the two tables: the parts of a large history (history.parts)
    verdict.json  report.html  ...    derived from the history later

A file is written under a temporary name and renamed, so it is never partial. The manifest is replaced last: a folder whose
manifest says "completed" holds everything. The manifest counts the rows of the tables and has their digest. Tables that do not
fit it (of another run, or with rows cut off) are refused, because half a history would be judged like a whole one.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from history import jsonl, parquet, parts, versions
from history.errors import HistoryError
from history.history import History
from history.manifest import READ_VERSIONS, SCHEMA_VERSION, RunManifest, StoredPart
from history.recorder import Recorder
from history.schema import TableName, unread_version

MANIFEST = "manifest.json"
PLAN = "plan.yaml"
JOURNAL = "history.jsonl"
OPERATIONS = "operations.parquet"
EVENTS = "events.parquet"
VERDICT = "verdict.json"
REPORT = "report.html"

_FILES = (MANIFEST, VERDICT, REPORT, OPERATIONS, EVENTS, JOURNAL, PLAN)
SPLIT_ROWS = 2_000_000  # a history with more rows is stored in parts
_SUFFIX = ".parquet"
_TABLES: tuple[tuple[TableName, str], ...] = (("operations", OPERATIONS), ("events", EVENTS))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def run_directory(store: Path, *, plan_name: str, run_id: str) -> Path:
    """Return the folder of a run. Raises HistoryError where a name is not a plain folder name."""
    for what, name in (("plan name", plan_name), ("run id", run_id)):
        refusal = name_complaint(name)
        if refusal is not None:
            raise HistoryError(f"{what} {refusal}")
    return store / plan_name / run_id


def name_complaint(name: str) -> str | None:
    """Why a name is not a plain folder name; None where it is."""
    return None if _NAME.fullmatch(name) else f"{name!r}: use letters, digits, '.', '_' and '-' only, 128 at most"


def write_file(path: Path, data: bytes | str) -> None:
    """Write a file atomically. Makes its folder."""
    with _aside(path) as aside:
        aside.write_bytes(data.encode() if isinstance(data, str) else data)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines to a file atomically, one by one. Returns their number."""
    count = 0
    with _aside(path) as aside, aside.open("w", encoding="utf-8") as file:
        for count, line in enumerate(lines, 1):  # noqa: B007 - the last count is returned
            file.write(line)
    return count


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A temporary path beside a file, renamed to the file unless the block raises."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


class RunWriter:
    """Stores a run while it is performed. Rows up to the last `record` survive any end of the process."""

    def __init__(self, directory: Path, manifest: RunManifest, *, plan: str) -> None:
        self.directory = directory
        # Files of an earlier run in the same folder must not be taken for files of this run.
        for name in _FILES:
            (directory / name).unlink(missing_ok=True)
        _remove_parts(directory)
        started = msgspec.structs.replace(manifest, outcome="incomplete")
        write_file(directory / PLAN, plan)
        write_file(directory / MANIFEST, encode_manifest(started))
        self._journal = jsonl.Journal(directory / JOURNAL, started)

    def record(self, recorder: Recorder) -> None:
        """Append the new rows to the journal. Cheap enough to call every simulated second."""
        self._journal.write(recorder)

    def finish(self, history: History) -> None:
        """Replace the journal by the tables and the final manifest of the finished history."""
        self._journal.close(complete=False)
        save(self.directory, history)
        (self.directory / JOURNAL).unlink()

    def abandon(self) -> None:
        """Close the journal and leave the run incomplete."""
        self._journal.close(complete=False)


def save(directory: Path, history: History, *, split_rows: int = SPLIT_ROWS, part_rows: int = parts.PART_ROWS) -> None:
    """Write a history as the Parquet files and the manifest of a run folder.

    A history of more than `split_rows` rows is written in parts of about `part_rows` rows.
    """
    operations, events, digest = history.operations_table, history.events_table, history.manifest.digest
    _remove_parts(directory)
    if operations.num_rows + events.num_rows > split_rows:
        stored = [
            save_part(directory, number, part, digest=digest)
            for number, part in enumerate(parts.cut(operations, events, part_rows=part_rows))
        ]
        save_manifest_of_parts(directory, history.manifest, stored)
        return
    write_file(directory / OPERATIONS, parquet.encode(operations, digest=digest))
    write_file(directory / EVENTS, parquet.encode(events, digest=digest))
    counted = msgspec.structs.replace(history.manifest, operation_rows=operations.num_rows, event_rows=events.num_rows, parts=())
    write_file(directory / MANIFEST, encode_manifest(counted))


def save_part(directory: Path, number: int, part: parts.Part, *, digest: str = "") -> StoredPart:
    """Write the tables of one part. Part 0 holds the rows without a partition. Afterwards call `save_manifest_of_parts`."""
    name = parts.part_name(number)
    for table, rows in (("operations", part.operations), ("events", part.events)):
        write_file(directory / table / f"{name}{_SUFFIX}", parquet.encode(rows, digest=digest, group_rows=parts.GROUP_ROWS))
    return StoredPart(
        name=name,
        partitions=part.partitions,
        operation_rows=part.operations.num_rows,
        event_rows=part.events.num_rows,
    )


def save_manifest_of_parts(directory: Path, manifest: RunManifest, stored: Sequence[StoredPart]) -> None:
    """Write the manifest of a history whose parts are all written; it replaces the tables of an earlier history there."""
    counted = msgspec.structs.replace(
        manifest,
        operation_rows=sum(part.operation_rows for part in stored),
        event_rows=sum(part.event_rows for part in stored),
        parts=tuple(stored),
    )
    write_file(directory / MANIFEST, encode_manifest(counted))
    for _, name in _TABLES:
        (directory / name).unlink(missing_ok=True)


def _remove_parts(directory: Path) -> None:
    for table, _ in _TABLES:
        shutil.rmtree(directory / table, ignore_errors=True)


def encode_manifest(manifest: RunManifest) -> bytes:
    """Encode a manifest as indented JSON, as it is stored in manifest.json."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def load_manifest(directory: Path) -> RunManifest:
    """Read the manifest of a run folder as stored. Raises HistoryError where it is absent, foreign or of an unknown version."""
    path = directory / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise HistoryError(f"{path}: not the manifest of a run: {error}") from error
    if manifest.schema_version not in READ_VERSIONS:
        raise HistoryError(f"{path}: {unread_version(manifest.schema_version)}")
    return manifest


def is_finished(directory: Path) -> bool:
    """Whether the tables of the run are written. The manifest of a finished run is replaced last; until then only its journal
    counts.
    """
    return not (directory / JOURNAL).exists() or load_manifest(directory).outcome != "incomplete"


def is_current(directory: Path) -> bool:
    """Whether the manifest and the tables of a finished run are of this schema version and not of an earlier one."""
    manifest = load_manifest(directory)
    files = [path for table, _ in _TABLES for path in table_files(directory, manifest, table)]
    return manifest.schema_version == SCHEMA_VERSION and all(parquet.is_current(path) for path in files)


def table_files(directory: Path, manifest: RunManifest, table: TableName) -> tuple[Path, ...]:
    """The files of a table of a finished run: one, or one for each part."""
    if not manifest.parts:
        return (directory / dict(_TABLES)[table],)
    return tuple(_part_file(directory, part, table) for part in manifest.parts)


def _part_file(directory: Path, part: StoredPart, table: TableName) -> Path:
    complaint = name_complaint(part.name)
    if complaint is not None:
        raise HistoryError(f"{directory / MANIFEST}: name of a part {complaint}")
    return directory / table / f"{part.name}{_SUFFIX}"


def load_run(directory: Path) -> History:
    """Read the history of a run folder. A killed run gives the rows of its journal with the outcome "incomplete".

    Raises HistoryError where the tables do not belong to the manifest.
    """
    manifest = load_manifest(directory)
    if not is_finished(directory):
        return jsonl.read_interrupted(directory / JOURNAL)
    operations, events = (table_files(directory, manifest, table) for table, _ in _TABLES)
    check_tables(directory, manifest)
    history = History.stored(manifest, operations=operations, events=events)
    # Files written for this digest need not be read to verify it: their pages have checksums. The rows of other files may be the
    # same, so their digest is computed.
    as_written = all(parquet.digest_of(path) == manifest.digest for path in (*operations, *events))
    if manifest.digest and not as_written:
        found = versions.digest_in(manifest.schema_version, history.operations, history.events)
        if found != manifest.digest:
            raise _foreign_tables(directory, f"rows of digest {manifest.digest}", found)
    if manifest.schema_version == SCHEMA_VERSION:
        return history
    return History.stored(versions.upgraded_manifest(manifest, history.digest), operations=operations, events=events)


def load_part(directory: Path, manifest: RunManifest, number: int) -> History:
    """Read one part of a history that is stored in parts. Raises HistoryError as `load_run` does."""
    part = manifest.parts[number]
    check_part(directory, part)
    operations, events = (_part_file(directory, part, table) for table, _ in _TABLES)
    return History.stored(manifest, operations=(operations,), events=(events,))


def check_tables(directory: Path, manifest: RunManifest) -> None:
    """Raise HistoryError unless the tables fit the schema and have as many rows as the manifest counts. Reads the footers."""
    for part in manifest.parts:
        check_part(directory, part)
    named = [name for part in manifest.parts for name in part.partitions]
    if len(named) != len(set(named)):
        raise HistoryError(f"{directory / MANIFEST}: two parts hold rows of one partition")
    if not manifest.parts:
        operations, events = (parquet.check(directory / name, table) for table, name in _TABLES)
        check_rows(directory, manifest, operations=operations, events=events)


def check_part(directory: Path, part: StoredPart) -> None:
    """As `check_tables`, for one part."""
    operations, events = (parquet.check(_part_file(directory, part, table), table) for table, _ in _TABLES)
    check_rows(directory, part, operations=operations, events=events)


def check_rows(directory: Path, manifest: RunManifest | StoredPart, *, operations: int, events: int) -> None:
    """Raise HistoryError unless the tables have as many rows as the manifest counts. A manifest without counts fits all."""
    for what, said, found in (("operations", manifest.operation_rows, operations), ("events", manifest.event_rows, events)):
        if said is not None and said != found:
            raise _foreign_tables(directory, f"{said} rows of {what}", str(found))


def _foreign_tables(directory: Path, said: str, found: str) -> HistoryError:
    return HistoryError(f"{directory}: the tables do not belong to the manifest: it says {said}, they hold {found}")


def load(path: Path) -> History:
    """Read a history from the folder of a run, from one of its Parquet files (which reads both), or from a JSONL file."""
    if path.suffix == ".jsonl":
        return jsonl.read(path)
    if path.name in (OPERATIONS, EVENTS) and path.exists():
        return load_run(path.parent)
    if path.is_dir():
        return load_run(path)
    raise HistoryError(f"{path}: expected the folder of a run, its {OPERATIONS} or {EVENTS}, or a .jsonl file")


def find_runs(path: Path) -> tuple[Path, ...]:
    """The run folders at or below a path, sorted. Raises HistoryError where there is none."""
    found = tuple(sorted(manifest.parent for manifest in path.rglob(MANIFEST)))
    if not found:
        raise HistoryError(f"{path}: no run is stored here" if path.exists() else f"{path}: no such folder")
    return found
