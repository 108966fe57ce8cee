"""Stores runs in folders, store/<plan name>/<run id>/, and reads them back.

    manifest.json        origin and outcome of the run; the outcome is "incomplete" until the run is finished
    plan.yaml            the plan, as it was performed
    history.jsonl        the journal of a run that was killed while it was recorded; read, and written no more
    operations.parquet   the history of a finished run
    events.parquet
    operations/ events/  instead of the two tables: the parts of a large history (history.parts)
    verdict.json  report.html  ...    derived from the history later

A file is written under a temporary name and renamed, so it is never partial. The manifest is replaced last: a folder whose
manifest says "completed" holds everything. The manifest has the SHA-256 and the number of rows of each table file, and the digest
of all rows. Tables that do not fit it (of another run, edited, or with rows cut off) are refused, because half a history would be
judged like a whole one.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from history import jsonl, versions
from history.columns import TableName, unread_version
from history.errors import NOT_JSON, HistoryError
from history.history import History
from history.manifest import READ_VERSIONS, SCHEMA_VERSION, RunManifest, StoredPart

# Polars and pyarrow are 360 MB: they are imported where a table is read or written, so that other histories are judged without.
if TYPE_CHECKING:
    from history import parts

MANIFEST = "manifest.json"
PLAN = "plan.yaml"
JOURNAL = "history.jsonl"
OPERATIONS = "operations.parquet"
EVENTS = "events.parquet"
VERDICT = "verdict.json"
REPORT = "report.html"
LATEST = "latest"  # in a store: a link to the run that was stored last
BESIDE = "beside.json"  # pages of the run beside others
FIRST_CALL = "first-call.json"  # the first call that answers otherwise than in another tree

_FILES = (MANIFEST, VERDICT, REPORT, BESIDE, FIRST_CALL, OPERATIONS, EVENTS, JOURNAL, PLAN)
PART_ROWS = 500_000  # of one part
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
    if plan_name == LATEST:
        raise HistoryError(f"plan name {LATEST!r}: it is the link to the run that was stored last")
    return store / plan_name / run_id


def set_latest(store: Path, directory: Path) -> None:
    """Let `store/latest` lead to a run; a store on a file system without links has none."""
    with suppress(OSError), _written_aside(store / LATEST) as aside:
        aside.symlink_to(os.path.relpath(directory, store), target_is_directory=True)


def name_complaint(name: str) -> str | None:
    """Why a name is not a plain folder name; None where it is."""
    return None if _NAME.fullmatch(name) else f"{name!r}: use letters, digits, '.', '_' and '-' only, 128 at most"


def write_file(path: Path, data: bytes | str, *, flush: bool = False) -> None:
    """Write a file atomically. Makes its folder. `flush`: its bytes are on the disk before it has its name."""
    with _written_aside(path) as aside:
        aside.write_bytes(data.encode() if isinstance(data, str) else data)
        if flush:
            with aside.open("rb") as file:
                os.fsync(file.fileno())


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines to a file atomically, one by one. Returns their number."""
    count = 0
    with _written_aside(path) as aside, aside.open("w", encoding="utf-8") as file:
        for count, line in enumerate(lines, 1):  # noqa: B007 - the last count is returned
            file.write(line)
    return count


@contextmanager
def _written_aside(path: Path) -> Iterator[Path]:
    """A temporary path beside a file, renamed to the file unless the block raises."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")  # the folder may be shared by machines
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def save(directory: Path, history: History, *, split_rows: int = SPLIT_ROWS, part_rows: int = PART_ROWS) -> None:
    """Write a history as the Parquet files and the manifest of a run folder.

    A history of more than `split_rows` rows is written in parts of about `part_rows` rows.
    """
    from history import parquet, parts

    operations, events, digest = history.operations_table, history.events_table, history.manifest.digest
    _remove_parts(directory)
    if operations.num_rows + events.num_rows > split_rows:
        cut = enumerate(parts.cut(operations, events, part_rows=part_rows))
        stored = [save_part(directory, number, part, digest=digest) for number, part in cut]
        save_manifest_of_parts(directory, history.manifest, stored)
        return
    write_file(directory / OPERATIONS, parquet.encode(operations, digest=digest))
    write_file(directory / EVENTS, parquet.encode(events, digest=digest))
    counts = {"operation_rows": operations.num_rows, "event_rows": events.num_rows}
    _save_manifest(directory, msgspec.structs.replace(history.manifest, **counts, parts=()))


def save_part(directory: Path, number: int, part: "parts.Part", *, digest: str = "") -> StoredPart:
    """Write the tables of one part. Part 0 holds the rows without a partition. Afterwards call `save_manifest_of_parts`."""
    from history import parquet, parts

    stored = StoredPart(
        name=parts.part_name(number),
        partitions=part.partitions,
        operation_rows=part.operations.num_rows,
        event_rows=part.events.num_rows,
    )
    for (table, _), rows in zip(_TABLES, (part.operations, part.events), strict=True):
        write_file(directory / _part_file(table, stored), parquet.encode(rows, digest=digest, group_rows=parts.GROUP_ROWS))
    return stored


def save_manifest_of_parts(directory: Path, manifest: RunManifest, stored: Sequence[StoredPart]) -> None:
    """Write the manifest of a history whose parts are all written; they replace the tables of an earlier history there."""
    operations, events = (sum(rows) for rows in zip(*((part.operation_rows, part.event_rows) for part in stored), strict=True))
    counts = {"operation_rows": operations, "event_rows": events}
    _save_manifest(directory, msgspec.structs.replace(manifest, **counts, parts=tuple(stored)))
    for _, name in _TABLES:
        (directory / name).unlink(missing_ok=True)


def _save_manifest(directory: Path, manifest: RunManifest) -> None:
    """Write the manifest of a history whose tables are written, with the SHA-256 of each file."""
    files = {name: sha256_of(directory / name) for table, _ in _TABLES for name in _table_files(manifest, table)}
    write_file(directory / MANIFEST, encode_manifest(msgspec.structs.replace(manifest, files=files)))


def _remove_parts(directory: Path) -> None:
    for table, _ in _TABLES:
        shutil.rmtree(directory / table, ignore_errors=True)


def _table_files(manifest: RunManifest, table: TableName) -> list[str]:
    """The files of a table of a stored run, by name relative to its folder: one, or one for each part."""
    return [_part_file(table, part) for part in manifest.parts] or [dict(_TABLES)[table]]


def _part_file(table: TableName, part: StoredPart) -> str:
    return f"{table}/{part.name}{_SUFFIX}"


def encode_manifest(manifest: RunManifest) -> bytes:
    """Encode a manifest as indented JSON, as it is stored in manifest.json."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def load_manifest(directory: Path) -> RunManifest:
    """Read the manifest of a run folder as stored. Raises HistoryError where it is absent, foreign or of an unknown version."""
    path = directory / MANIFEST
    _refuse_special(path)
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error
    except NOT_JSON as error:
        raise HistoryError(f"{path}: not the manifest of a run: {error}") from error
    if manifest.schema_version not in READ_VERSIONS:
        raise HistoryError(f"{path}: {unread_version(manifest.schema_version)}")
    complaint = _complaint_on_parts(manifest)
    if complaint is not None:
        raise HistoryError(f"{path}: {complaint}")
    return manifest


def _complaint_on_parts(manifest: RunManifest) -> str | None:
    """Why the parts of a manifest are not those of one history; None where they are, or where there are none."""
    for part in manifest.parts:
        complaint = name_complaint(part.name)
        if complaint is not None:
            return f"name of a part {complaint}"
    names = [part.name for part in manifest.parts]
    partitions = [partition for part in manifest.parts for partition in part.partitions]
    if len(names) != len(set(names)) or len(partitions) != len(set(partitions)):
        return "a part or a partition is listed twice"
    return "the first part has partitions" if manifest.parts and manifest.parts[0].partitions else None


def is_finished(directory: Path) -> bool:
    """Whether the tables of the run are written. The manifest of a finished run is replaced last; until then only its journal
    counts.
    """
    return not (directory / JOURNAL).exists() or load_manifest(directory).outcome != "incomplete"


def load_run(directory: Path) -> History:
    """Read the history of a run folder. A killed run gives the rows of its journal with the outcome "incomplete".

    Raises HistoryError where the tables do not belong to the manifest.
    """
    from history import parquet

    manifest = load_manifest(directory)
    if not is_finished(directory):
        return jsonl.read_interrupted(directory / JOURNAL)
    for table, _ in _TABLES:
        for name in _table_files(manifest, table):
            _refuse_special(directory / name)
    for part in manifest.parts:
        check_part(directory, manifest, part)
    if not manifest.parts:
        _check_files(directory, manifest, manifest, (OPERATIONS, EVENTS))
    history = _stored_history(directory, manifest)
    # Files that were written for this digest need not be read to verify it: the manifest has their SHA-256, and in older runs
    # their pages have checksums. The rows of other files may be the same, so their digest is computed.
    files = [directory / name for table, _ in _TABLES for name in _table_files(manifest, table)]
    if manifest.digest and any(parquet.digest_of(path) != manifest.digest for path in files):
        actual = versions.digest_in(manifest.schema_version, history.operations, history.events)
        if actual != manifest.digest:
            raise _foreign_tables(directory, f"rows of digest {manifest.digest}", actual)
    if manifest.schema_version == SCHEMA_VERSION:
        return history
    return _stored_history(directory, versions.upgraded_manifest(manifest, history.digest))


def load_parts(directory: Path) -> History:
    """Read a history that is stored in parts, without a look at its tables: call `check_part` for each part that is read."""
    manifest = load_manifest(directory)
    if not manifest.parts or manifest.schema_version != SCHEMA_VERSION:
        raise HistoryError(f"{directory}: the history is not stored in parts of schema version {SCHEMA_VERSION}")
    return _stored_history(directory, manifest)


def _stored_history(directory: Path, manifest: RunManifest) -> History:
    operations, events = ([directory / name for name in _table_files(manifest, table)] for table, _ in _TABLES)
    return History.stored(manifest, operations=operations, events=events)


def check_part(directory: Path, manifest: RunManifest, part: StoredPart) -> None:
    """Raise HistoryError unless the files of a part are those of the manifest, fit the schema and have the rows it counts."""
    _check_files(directory, manifest, part, tuple(_part_file(table, part) for table, _ in _TABLES))


def _check_files(directory: Path, manifest: RunManifest, stated: RunManifest | StoredPart, names: tuple[str, ...]) -> None:
    """As `check_part`, for a file of each table. A manifest without row counts or without `files` fits all."""
    from history import parquet

    row_counts = [parquet.check(directory / name, table) for name, (table, _) in zip(names, _TABLES, strict=True)]
    for (what, _), stated_rows, rows in zip(_TABLES, (stated.operation_rows, stated.event_rows), row_counts, strict=True):
        if stated_rows is not None and stated_rows != rows:
            raise _foreign_tables(directory, f"{stated_rows} rows of {what}", str(rows))
    for name in names if manifest.files else ():
        said_hash, hash = manifest.files.get(name, "of no file"), sha256_of(directory / name)
        if said_hash != hash:
            said_short = f"whose SHA-256 is {said_hash:.16}"
            raise HistoryError(f"{directory / name}: not the file of the manifest, {said_short}, not {hash:.16}")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex. Takes about 1 ms a MB. Raises HistoryError where the file cannot be read."""
    _refuse_special(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error


def _foreign_tables(directory: Path, stated: str, actual: str) -> HistoryError:
    return HistoryError(f"{directory}: the tables do not belong to the manifest: it says {stated}, they hold {actual}")


def _refuse_special(path: Path) -> None:
    """Raise HistoryError for a pipe, a device or a folder: opening a pipe would wait forever."""
    if os.path.exists(path) and not os.path.isfile(path):  # unlike the methods of Path, these never raise
        raise HistoryError(f"{path}: cannot be read: not a regular file")


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
    """The run folders at or below a path, sorted. Raises HistoryError where there is none.

    A folder that cannot be listed is taken for a run, so that reading it says why.
    """
    unreadable: list[Path] = []
    # Unlike `rglob`, `walk` also finds a manifest that is a broken link.
    walked = os.walk(path, onerror=lambda error: unreadable.append(Path(error.filename)))
    folders_of_runs = [Path(folder) for folder, folders, files in walked if MANIFEST in (*folders, *files)]
    folders_of_runs += [folder for folder in unreadable if folder.is_dir()]
    if not folders_of_runs:
        raise HistoryError(f"{path}: no run is stored here" if path.exists() else f"{path}: no such folder")
    return tuple(sorted(folders_of_runs))
