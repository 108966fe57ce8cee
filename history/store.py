"""Where runs are kept: store/<plan name>/<run id>/.

    manifest.json        what it was, how it ended; outcome "incomplete" from the first moment until the run is finished
    plan.yaml            the plan, as it was performed
    history.jsonl        while the run is being recorded, and for good when it was killed
    operations.parquet   the history of a finished run
    events.parquet
    verdict.json  report.html  ...    what was made of it since

A file appears whole or not at all: it is written beside its place and renamed. The manifest is replaced last, so a folder
whose manifest says "completed" holds everything. It counts the rows of the tables and has their digest: tables that do not fit it
(of another run, or with rows cut off) are refused, since half a history would be judged like a whole one.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from history import jsonl, parquet
from history.errors import HistoryError
from history.history import History
from history.manifest import SCHEMA_VERSION, RunManifest
from history.recorder import Recorder

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
    """The folder of a run; HistoryError where a name would not make a plain folder name."""
    for what, name in (("plan name", plan_name), ("run id", run_id)):
        refusal = name_complaint(name)
        if refusal is not None:
            raise HistoryError(f"{what} {refusal}")
    return store / plan_name / run_id


def name_complaint(name: str) -> str | None:
    """Why a name would not make a plain folder name; None where it does."""
    return None if _NAME.fullmatch(name) else f"{name!r}: letters, digits, '.', '_' and '-' only, 128 at most"


def write_file(path: Path, data: bytes | str) -> None:
    """Write a file whole or not at all; makes its folder."""
    with _aside(path) as aside:
        aside.write_bytes(data.encode() if isinstance(data, str) else data)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """The same of lines that come one by one; how many there were."""
    count = 0
    with _aside(path) as aside, aside.open("w", encoding="utf-8") as file:
        for count, line in enumerate(lines, 1):  # noqa: B007 - what is left of it is the answer
            file.write(line)
    return count


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A place beside a file, which becomes the file if all goes well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


class RunWriter:
    """Keeps a run while it is performed. Whatever ends the process, what was recorded up to the last `record` stays."""

    def __init__(self, directory: Path, manifest: RunManifest, *, plan: str) -> None:
        self.directory = directory
        # The folder of the same run performed before: nothing of it may be taken for this one's.
        for name in _FILES:
            (directory / name).unlink(missing_ok=True)
        started = msgspec.structs.replace(manifest, outcome="incomplete")
        write_file(directory / PLAN, plan)
        write_file(directory / MANIFEST, encode_manifest(started))
        self._journal = jsonl.Journal(directory / JOURNAL, started)

    def record(self, recorder: Recorder) -> None:
        """Write down what is new; cheap enough for every simulated second."""
        self._journal.write(recorder)

    def finish(self, history: History) -> None:
        """Replace the journal by the finished history; its manifest says how the run ended."""
        self._journal.close(complete=False)
        save(self.directory, history)
        (self.directory / JOURNAL).unlink()

    def abandon(self) -> None:
        """Leave the run as it is, incomplete."""
        self._journal.close(complete=False)


def save(directory: Path, history: History) -> None:
    """Write a history as the Parquet files and the manifest of a run folder."""
    digest = history.manifest.digest
    write_file(directory / OPERATIONS, parquet.encode(history.operations_table, digest=digest))
    write_file(directory / EVENTS, parquet.encode(history.events_table, digest=digest))
    counted = msgspec.structs.replace(
        history.manifest, operation_rows=history.operations_table.num_rows, event_rows=history.events_table.num_rows
    )
    write_file(directory / MANIFEST, encode_manifest(counted))


def encode_manifest(manifest: RunManifest) -> bytes:
    """As it stands in manifest.json."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def load_manifest(directory: Path) -> RunManifest:
    """The manifest of a run folder; HistoryError where it is absent, foreign or of another schema version."""
    path = directory / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise HistoryError(f"{path}: no manifest of a run: {error}") from error
    if manifest.schema_version != SCHEMA_VERSION:
        raise HistoryError(f"{path}: schema version {manifest.schema_version}, this highwater reads {SCHEMA_VERSION}")
    return manifest


def is_finished(directory: Path) -> bool:
    """The tables of the run are written, its manifest is the last; else its journal is all there is."""
    return not (directory / JOURNAL).exists() or load_manifest(directory).outcome != "incomplete"


def load_run(directory: Path) -> History:
    """The history of a run folder. Of a run that was killed: what its journal holds, outcome "incomplete".

    Raises HistoryError where the tables are not those that the manifest was written for.
    """
    manifest = load_manifest(directory)
    if not is_finished(directory):
        return jsonl.read_interrupted(directory / JOURNAL)
    operations, events = directory / OPERATIONS, directory / EVENTS
    check_rows(directory, manifest, operations=parquet.check(operations, "operations"), events=parquet.check(events, "events"))
    history = History.stored(manifest, operations=operations, events=events)
    # Files that were written for this digest need not be read to know it: their pages have checksums. Of others, which may hold
    # the same rows, the rows are compared.
    as_written = all(parquet.digest_of(path) == manifest.digest for path in (operations, events))
    if manifest.digest and not as_written and history.digest != manifest.digest:
        raise _foreign_tables(directory, f"rows of digest {manifest.digest}", history.digest)
    return history


def check_rows(directory: Path, manifest: RunManifest, *, operations: int, events: int) -> None:
    """HistoryError unless the tables of a run folder have as many rows as its manifest says. It may say nothing."""
    for what, said, found in (("operations", manifest.operation_rows, operations), ("events", manifest.event_rows, events)):
        if said is not None and said != found:
            raise _foreign_tables(directory, f"{said} rows of {what}", str(found))


def _foreign_tables(directory: Path, said: str, found: str) -> HistoryError:
    return HistoryError(f"{directory}: the tables are not those of the manifest: it says {said}, they hold {found}")


def load(path: Path) -> History:
    """A history by any name people give it: the folder of a run, one of its Parquet files (for both), or a JSONL file."""
    if path.suffix == ".jsonl":
        return jsonl.read(path)
    if path.name in (OPERATIONS, EVENTS) and path.exists():
        return load_run(path.parent)
    if path.is_dir():
        return load_run(path)
    raise HistoryError(f"{path}: neither the folder of a run nor a .jsonl file nor one of a run's {OPERATIONS} and {EVENTS}")


def find_runs(path: Path) -> tuple[Path, ...]:
    """The run folders at or below a path, sorted; HistoryError where there is none."""
    found = tuple(sorted(manifest.parent for manifest in path.rglob(MANIFEST)))
    if not found:
        raise HistoryError(f"{path}: no run is stored here" if path.exists() else f"{path}: no such folder")
    return found
