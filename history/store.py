"""Stores runs in folders, store/<plan name>/<run id>/, and reads them back.

    manifest.json        origin and outcome of the run; the outcome is "incomplete" until the run is finished
    plan.yaml            the plan, as it was performed
    history.jsonl        the journal: only while the run is being recorded, or after it was killed
    operations.parquet   the history of a finished run
    events.parquet
    verdict.json  report.html  ...    derived from the history later

A file is written under a temporary name and renamed, so it is never partial. The manifest is replaced last: a folder whose
manifest says "completed" holds everything. The manifest has the SHA-256 and the number of rows of each table file, and the digest
of all rows. Tables that do not fit it (of another run, edited, or with rows cut off) are refused, because half a history would be
judged like a whole one.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from history import jsonl, parquet, versions
from history.errors import HistoryError
from history.history import History
from history.manifest import READ_VERSIONS, SCHEMA_VERSION, RunManifest
from history.recorder import Recorder
from history.schema import unread_version

MANIFEST = "manifest.json"
PLAN = "plan.yaml"
JOURNAL = "history.jsonl"
OPERATIONS = "operations.parquet"
EVENTS = "events.parquet"
VERDICT = "verdict.json"
REPORT = "report.html"

_FILES = (MANIFEST, VERDICT, REPORT, OPERATIONS, EVENTS, JOURNAL, PLAN)
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


def save(directory: Path, history: History) -> None:
    """Write a history as the Parquet files and the manifest of a run folder."""
    digest = history.manifest.digest
    tables = {OPERATIONS: history.operations_table, EVENTS: history.events_table}
    encoded = {name: parquet.encode(table, digest=digest) for name, table in tables.items()}
    for name, data in encoded.items():
        write_file(directory / name, data)
    proven = msgspec.structs.replace(
        history.manifest,
        operation_rows=history.operations_table.num_rows,
        event_rows=history.events_table.num_rows,
        files={name: hashlib.sha256(data).hexdigest() for name, data in encoded.items()},
    )
    write_file(directory / MANIFEST, encode_manifest(proven))


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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"{path}: not the manifest of a run: {error}") from error
    if manifest.schema_version not in READ_VERSIONS:
        raise HistoryError(f"{path}: {unread_version(manifest.schema_version)}")
    return manifest


def is_finished(directory: Path) -> bool:
    """Whether the tables of the run are written. The manifest of a finished run is replaced last; until then only its journal
    counts.
    """
    return not (directory / JOURNAL).exists() or load_manifest(directory).outcome != "incomplete"


def load_run(directory: Path) -> History:
    """Read the history of a run folder. A killed run gives the rows of its journal with the outcome "incomplete".

    Raises HistoryError where the tables do not belong to the manifest.
    """
    manifest = load_manifest(directory)
    if not is_finished(directory):
        return jsonl.read_interrupted(directory / JOURNAL)
    operations, events = directory / OPERATIONS, directory / EVENTS
    for path in (operations, events):
        _refuse_special(path)
    _check_rows(directory, manifest, operations=parquet.check(operations, "operations"), events=parquet.check(events, "events"))
    _check_files(directory, manifest)
    history = History.stored(manifest, operations=operations, events=events)
    # Files that were written for this digest need not be read to verify it: the manifest has their SHA-256, and in older runs
    # their pages have checksums. The rows of other files may be the same, so their digest is computed.
    as_written = all(parquet.digest_of(path) == manifest.digest for path in (operations, events))
    if manifest.digest and not as_written:
        found = versions.digest_in(manifest.schema_version, history.operations, history.events)
        if found != manifest.digest:
            raise _foreign_tables(directory, f"rows of digest {manifest.digest}", found)
    if manifest.schema_version == SCHEMA_VERSION:
        return history
    return History.stored(versions.upgraded_manifest(manifest, history.digest), operations=operations, events=events)


def _check_rows(directory: Path, manifest: RunManifest, *, operations: int, events: int) -> None:
    """Raise HistoryError unless the tables have as many rows as the manifest counts. A manifest without counts fits all."""
    for what, said, found in (("operations", manifest.operation_rows, operations), ("events", manifest.event_rows, events)):
        if said is not None and said != found:
            raise _foreign_tables(directory, f"{said} rows of {what}", str(found))


def _check_files(directory: Path, manifest: RunManifest) -> None:
    """Raise HistoryError unless each table file has the SHA-256 of the manifest. A manifest without `files` fits all."""
    for name in (OPERATIONS, EVENTS) if manifest.files else ():
        said, found = manifest.files.get(name, "of no file"), sha256_of(directory / name)
        if said != found:
            raise HistoryError(f"{directory / name}: not the file of the manifest, whose SHA-256 is {said:.16}, not {found:.16}")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex. Takes about 1 ms a MB. Raises HistoryError where the file cannot be read."""
    _refuse_special(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error


def _foreign_tables(directory: Path, said: str, found: str) -> HistoryError:
    return HistoryError(f"{directory}: the tables do not belong to the manifest: it says {said}, they hold {found}")


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
    found = [Path(folder) for folder, folders, files in walked if MANIFEST in (*folders, *files)]
    found += [folder for folder in unreadable if folder.is_dir()]
    if not found:
        raise HistoryError(f"{path}: no run is stored here" if path.exists() else f"{path}: no such folder")
    return tuple(sorted(found))
