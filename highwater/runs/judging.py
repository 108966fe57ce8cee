"""Judge many stored histories. Each is one item of work (`pipeline.work`), in this process's workers or on Spark.

    paths ─find─▶ sources ─digest─▶ items ─▶ judge_item in a worker ─▶ rows of the ledger ─▶ cases, verdict.json

An item's key is made of the digest of its files and the digest of the judges, so nothing is judged twice by the same code, and a
changed or damaged file is judged again. The ledger keeps verdicts; a history that was refused, or whose judging failed, is tried
again by the next call. The rows in the ledger and not the verdicts beside the runs are the result.
"""

import hashlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace
from polars.exceptions import PanicException
from pyarrow import fs

import checkers
import history
from checkers.engine.verdict import Anomaly, Validity, Verdict
from checkers.linearizability.judge import Judgement
from highwater.errors import HarnessError, UsageError
from highwater.exit_codes import ExitCode, of_verdict
from highwater.foreign import files as foreign
from highwater.foreign import guess
from highwater.foreign.files import LEDGER as LEDGER
from highwater.foreign.files import LOG, ModelChoice, arguments_of, histories_below
from highwater.foreign.guess import judge_subject, subject_of
from highwater.run_folder import temporary_folder
from highwater.runs import run
from highwater.runs.findings import VALIDITY_NAMES
from highwater.runs.run import encode_verdict
from history import store
from history.errors import NOT_JSON, HistoryError
from history.foreign.read import Form, form_of
from history.history import History
from pipeline import giant
from pipeline.errors import PipelineError
from pipeline.items import Item
from pipeline.ledger import Ledger, Row
from pipeline.storage import Storage, below, storage_at

DEADLINE_S = 1_800.0  # of judging one history
# The judges are these packages, these modules and these libraries.
_PACKAGES = (checkers, history)
_MODULES = (foreign, guess, run)
_LIBRARIES = ("msgspec", "numpy", "polars", "pyarrow", "rustworkx", "scipy")
_READERS = 8  # threads that read files to digest them
_KEY_DIGITS = 32
_CHANGED = "its files changed while it was judged"

Outcome = Literal["VALID", "UNKNOWN", "INVALID", "refused", "late", "failed"]


class Source(Struct, frozen=True, kw_only=True):
    """A history to judge: the folder of a run or a file. `location` is a URI or an absolute path, `path` as the user gave it."""

    path: str
    location: str
    digest: str  # of its files


class Task(Struct, frozen=True, kw_only=True):
    """What a worker needs to judge one history."""

    location: str
    digest: str
    judges: str
    asked: ModelChoice
    piece: giant.Piece | None = None  # of a history in parts


class Ruling(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What judging one history gave: the verdict on a run, the judgement of another history, or why it was refused.

    `operations` and `events` count the rows that were judged; `digest` is that of these rows, where the manifest has one.
    `model` is that of a judgement, `guess` says how it was guessed.
    """

    refused: str = ""
    verdict: Verdict | None = None
    judgement: Judgement | None = None
    model: str = ""
    guess: str = ""
    digest: str = ""
    operations: int = 0
    events: int = 0


class Case(Struct, frozen=True, kw_only=True):
    """A history with its ruling; `words` says why there is none. `new` is false where the ledger had it already."""

    source: Source
    outcome: Outcome
    ruling: Ruling = Ruling()
    words: str = ""
    new: bool = True

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """The anomalies that were found."""
        judged = self.ruling.verdict or self.ruling.judgement
        return judged.anomalies if judged is not None else ()

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of this history alone: a refused or late one is unknown, a failed one is a failure of the harness."""
        if self.outcome == "failed":
            return ExitCode.LABORATORY_FAILED
        live = self.ruling.verdict.live if self.ruling.verdict is not None else None
        validity = Validity.UNKNOWN if self.outcome in ("refused", "late") else Validity[self.outcome]
        return of_verdict(validity, live=live)


# --- what to judge ----------------------------------------------------------------------------------------------------


def find(paths: Sequence[str], choice: ModelChoice) -> list[Source]:
    """The histories at and below these paths or URIs, with the digests of their files. HistoryError where a path has none.

    Below a folder these are the runs and, unless the model is `log`, the histories of other systems.
    """
    places = dict.fromkeys(
        place for path in paths for place in (_runs_below_uri(path) if "://" in path else _local_histories(path, choice))
    )
    with ThreadPoolExecutor(_READERS) as pool:
        located = [(path, path if "://" in path else os.path.abspath(path)) for path in places]
        digests = pool.map(digest_of, (location for _, location in located))
        return [Source(path=path, location=at, digest=digest) for (path, at), digest in zip(located, digests, strict=True)]


def _local_histories(text: str, choice: ModelChoice) -> list[str]:
    """The histories at a local path."""
    path = Path(text)
    if not path.is_dir():
        if not os.path.lexists(path):
            raise HistoryError(f"{path}: no such file or folder")
        return [str(path.parent if path.name in (store.OPERATIONS, store.EVENTS) else path)]
    return histories_below(path, choice)


def _runs_below_uri(uri: str) -> list[str]:
    """The runs below a URI."""
    try:
        names = storage_at(uri).names()
    except OSError as error:
        raise HistoryError(f"{uri}: cannot be read: {' '.join(str(error).split())}") from error
    runs = [name.removesuffix(store.MANIFEST).rstrip("/") for name in names if f"/{name}".endswith(f"/{store.MANIFEST}")]
    if not runs:
        raise HistoryError(f"{uri}: no run is stored here")
    return [below(uri, run) if run else uri for run in runs]


def digest_of(location: str) -> str:
    """The digest of the files that hold a history: 64 hex digits. A file that cannot be read counts with the error.

    Of a local history all bytes are read, 1 ms a MB. Of one in an object store only the manifest is read; of the tables, whose
    SHA-256 it holds, the sizes and times are taken.
    """
    try:
        storage = storage_at(location)
        if storage.folder is None or storage.folder.is_dir():
            names = {store.MANIFEST, store.OPERATIONS, store.EVENTS, *storage.names()}
            parts = [f"{name}:{_content_mark(storage, name)}" for name in sorted(names) if _is_evidence(name)]
        else:
            parts = [store.sha256_of(storage.folder)]
    except (HistoryError, PipelineError, OSError) as error:
        parts = [location, str(error)]
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


def _is_evidence(name: str) -> bool:
    return name in (store.MANIFEST, store.JOURNAL) or name.endswith(".parquet")


def _content_mark(storage: Storage, name: str) -> str:
    """What changes when the file changes: its digest, or its size and time."""
    if storage.folder is None:
        info: fs.FileInfo = storage.filesystem.get_file_info(storage.path(name))
        return hashlib.sha256(storage.read(name)).hexdigest() if name == store.MANIFEST else f"{info.size} {info.mtime_ns}"
    path = storage.folder / name
    try:
        return store.sha256_of(path)
    except HistoryError as error:
        return str(error) if os.path.lexists(path) else "absent"


@cache
def digest_of_judges() -> str:
    """The digest of all that decides a verdict: the sources of the judges and the versions of their libraries. Takes 20 ms."""
    roots = [Path(package.__path__[0]) for package in _PACKAGES]
    files = [(f"{root.name}/{file.relative_to(root).as_posix()}", file) for root in roots for file in sorted(root.rglob("*.py"))]
    files += [(module.__name__, Path(str(module.__file__))) for module in _MODULES] + [(__name__, Path(__file__))]
    parts = [f"{name}:{store.sha256_of(file)}" for name, file in files]
    parts += [f"{library} {version(library)}" for library in _LIBRARIES]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


# --- in a worker ------------------------------------------------------------------------------------------------------


def item_of(source: Source, choice: ModelChoice) -> Item:
    """The item of work that judges a history."""
    task = Task(location=source.location, digest=source.digest, judges=digest_of_judges(), asked=choice)
    judged_by = hashlib.sha256(msgspec.json.encode((task.judges, choice))).hexdigest()
    return Item(f"{source.digest[:_KEY_DIGITS]}-{judged_by[:_KEY_DIGITS]}", msgspec.json.encode(task))


def judge_item(payload: bytes) -> bytes:
    """Judge the history of a `Task`, given as JSON, and return its `Ruling` as JSON. Bad data is refused, by its ruling.

    Raises HarnessError where the judges of this worker are not those of the driver.
    """
    task = msgspec.json.decode(payload, type=Task)
    if task.judges != digest_of_judges():
        raise HarnessError("the checkers or libraries of this worker are not those of the driver: install the same version")
    return msgspec.json.encode(_judge_task(task)) if task.piece is None else _judge_piece(task)


def _judge_piece(task: Task) -> bytes:
    """What `pipeline.giant` finds in a piece, as JSON; a `Ruling` where its files are refused."""
    try:
        return giant.judge_piece(msgspec.json.encode(task.piece))
    except HistoryError as error:
        return msgspec.json.encode(Ruling(refused=_without_place(error, task.location)))


def _judge_task(task: Task) -> Ruling:
    """Judge a history; a file that cannot be read, or changed meanwhile, is refused."""
    try:
        with _local_copy(task.location) as path:
            try:
                ruling = _judge_file(path, task.asked)
            except (HistoryError, UsageError) as error:
                return Ruling(refused=_without_place(error, str(path)))
    except (OSError, PipelineError) as error:
        return Ruling(refused=f"cannot be read: {getattr(error, 'strerror', None) or ' '.join(str(error).split())}")
    except PanicException as error:  # no Exception: it would end the worker
        raise HarnessError(f"Polars failed: {error}") from error
    if digest_of(task.location) != task.digest:
        return Ruling(refused=_CHANGED)
    return ruling


def _without_place(error: HistoryError | UsageError, path: str) -> str:
    """The words of an error without the place, which is elsewhere for each worker: refusals of equal histories are equal."""
    return str(error).removeprefix(path).lstrip("/: ")


@contextmanager
def _local_copy(location: str) -> Iterator[Path]:
    """The local path of a history; one in an object store is copied for the time of the context."""
    if "://" not in location:
        yield Path(location)
        return
    with temporary_folder("history") as folder:
        storage = storage_at(location)
        for name in storage.names():
            if _is_evidence(name):
                store.write_file(Path(folder, name), storage.read(name))
        yield folder


def _judge_file(path: Path, choice: ModelChoice) -> Ruling:
    """Judge the history in a file: a run by the checkers of logs, another one by its model. Raises HistoryError."""
    form = form_of(path)
    subject = subject_of(path, form, choice.model)
    log = subject.log
    if log is None and choice.model == LOG and form is Form.RECORDED:
        raise HistoryError(f"{path}: its manifest names another model than {LOG}; give it with --model")
    if log is None:
        ruled = judge_subject(path, subject, choice)
        judgement = replace(ruled.found, longest=(), cycles=UNSET)
        return Ruling(judgement=judgement, model=ruled.asked.model, guess=ruled.words, operations=judgement.operations)
    verdict = run.judge(log)
    if log.manifest.parts:  # judging counted their rows, and reading them whole would need their memory
        operations, events = log.manifest.operation_rows or 0, log.manifest.event_rows or 0
    else:
        operations, events = log.operations_of(("index",)).num_rows, log.events_table.num_rows
    _check_counts(path, log, operations, events)
    return Ruling(verdict=verdict, digest=log.manifest.digest, operations=operations, events=events)


def _check_counts(path: Path, history: History, operations: int, events: int) -> None:
    """Raise HistoryError unless as many rows were judged as the manifest counts."""
    stated, actual = (history.manifest.operation_rows, history.manifest.event_rows), (operations, events)
    if any(count is not None and count != judged_case for count, judged_case in zip(stated, actual, strict=True)):
        raise HistoryError(f"{path}: {actual[0]} operations and {actual[1]} events were judged, the manifest counts {stated}")


# --- in the driver ----------------------------------------------------------------------------------------------------


def ledger_beside(paths: Sequence[str]) -> str:
    """The location of the ledger if none is given: `judged` in the deepest folder that holds all these paths.

    UsageError where they have no such folder.
    """
    if len(paths) == 1 and "://" in paths[0]:
        return below(paths[0], LEDGER)
    if any("://" in path for path in paths):
        raise UsageError("several stores, of which one is remote: say with --ledger where the verdicts are kept")
    common = Path(os.path.commonpath([_folder_of_runs(Path(path).absolute()) for path in paths]))
    if common == common.parent:
        raise UsageError("the paths have no folder in common: say with --ledger where the verdicts are kept")
    return str(common / LEDGER)


def _folder_of_runs(path: Path) -> Path:
    return path if path.is_dir() and not (path / store.MANIFEST).exists() else path.parent


def judge_all(
    sources: Sequence[Source],
    choice: ModelChoice,
    ledger: Ledger,
    *,
    again: bool,
    perform: Callable[[list[Item]], None],
) -> list[Case]:
    """Judge these histories, in their order, except those whose verdict the ledger holds; with `again` all of them.

    `perform` does items with `judge_item` and replaces their rows. A history whose item has no row afterwards has failed.
    """
    items = [item_of(source, choice) for source in sources]
    sources_by_key = dict(zip((item.key for item in items), sources, strict=True))
    judged_before = {} if again else _verdicts(ledger, sources_by_key.keys() & ledger.keys())
    todo = {item.key: item for item in items if item.key not in judged_before}
    cut = {key: pieces for key in todo if (pieces := _pieces_of_history(sources_by_key[key], choice, key))}
    whole = [item for key, item in todo.items() if key not in cut]
    perform([*whole, *(_item_of_piece(todo[key], piece) for key, pieces in cut.items() for piece in pieces)])
    for key, pieces in cut.items():
        _join_rulings(sources_by_key[key], key, pieces, ledger)
    rulings = judged_before | _readable_rows(ledger, sources_by_key.keys() - judged_before.keys())
    return [
        _case_of_row(source, rulings.get(item.key), new=item.key not in judged_before)
        for source, item in zip(sources, items, strict=True)
    ]


def _pieces_of_history(source: Source, choice: ModelChoice, key: str) -> list[Item]:
    """The pieces of a history that is stored in parts (`pipeline.giant`); none if it is judged whole, by one item.

    Whole are judged: histories by another model than `log`, those in an object store, and damaged ones, whose item says why.
    """
    folder = Path(source.location)
    if choice.model not in ("", LOG) or not (folder / store.MANIFEST).is_file():
        return []
    try:
        return giant.pieces(store.load_parts(folder), folder, key=key)
    except HistoryError:
        return []


def _item_of_piece(whole: Item, piece: Item) -> Item:
    """The item of work that judges a piece of the history of another item."""
    task = msgspec.json.decode(whole.payload, type=Task)
    return Item(piece.key, msgspec.json.encode(replace(task, piece=giant.piece_of(piece))))


def _join_rulings(source: Source, key: str, pieces: Sequence[Item], ledger: Ledger) -> None:
    """Make one row of the rows of a history's pieces: its ruling, or why there is none."""
    rows = _readable_rows(ledger, {piece.key for piece in pieces})
    missing = [row for row in rows.values() if row.state != "done"]
    if missing or len(rows) < len(pieces):
        words = missing[0].words if missing else "the ledger lacks a piece of it: a worker died"
        row = Row(key=key, state=missing[0].state if missing else "failed", attempt=1, seconds=0.0, words=words)
    else:
        seconds = round(sum(row.seconds for row in rows.values()), 3)
        result = msgspec.Raw(msgspec.json.encode(_ruling_of_parts(source, pieces, rows, ledger)))
        row = Row(key=key, state="done", attempt=1, seconds=seconds, result=result)
    ledger.commit(row)
    ledger.forget(set(rows))


class _Refusal(Struct):
    """The part of a `Ruling` that tells it from what a piece of a history gave."""

    refused: str = ""


def _ruling_of_parts(source: Source, pieces: Sequence[Item], rows: Mapping[str, Row], ledger: Ledger) -> Ruling:
    """The ruling of a history in parts, from the rows of its parts."""
    refused = next((refusal for row in rows.values() if (refusal := msgspec.json.decode(row.result, type=_Refusal).refused)), "")
    if refused:
        return Ruling(refused=refused)
    if digest_of(source.location) != source.digest:
        return Ruling(refused=_CHANGED)
    history = store.load_parts(Path(source.location))
    manifest = history.manifest
    return Ruling(
        verdict=run.honest(giant.verdict_of(history, pieces, ledger), manifest),
        digest=manifest.digest,
        operations=manifest.operation_rows or 0,
        events=manifest.event_rows or 0,
    )


def _verdicts(ledger: Ledger, keys: set[str]) -> dict[str, Row]:
    """The rows of these keys that hold a verdict. All others, of failures and refusals too, are left out and done again."""
    return {key: row for key, row in _readable_rows(ledger, keys).items() if row.state == "done" and _holds_verdict(row)}


def _holds_verdict(row: Row) -> bool:
    """Whether a row has a verdict on a history that was not refused."""
    try:
        ruling = _ruling_of(row)
    except NOT_JSON:
        return False
    return not ruling.refused and (ruling.verdict or ruling.judgement) is not None


def _readable_rows(ledger: Ledger, keys: set[str]) -> dict[str, Row]:
    """The rows of these keys that can be read."""
    rows = {}
    for key in sorted(keys):
        with suppress(PipelineError):  # missing or damaged
            rows[key] = ledger.read(key)
    return rows


def _ruling_of(row: Row) -> Ruling:
    return msgspec.json.decode(row.result, type=Ruling)


def _case_of_row(source: Source, row: Row | None, *, new: bool) -> Case:
    """The outcome of a history from its row."""
    if row is None:
        return Case(source=source, outcome="failed", words="the ledger has no row for it: its worker died")
    if row.state != "done":
        outcome: Outcome = "failed" if row.state == "lost" else row.state
        return Case(source=source, outcome=outcome, words=row.words, new=new)
    ruling = _ruling_of(row)
    judged_case = ruling.verdict or ruling.judgement
    if judged_case is None:
        return Case(source=source, outcome="refused", words=ruling.refused, new=new)
    return Case(source=source, outcome=VALIDITY_NAMES[judged_case.validity], ruling=ruling, new=new)


def keep_verdict(case: Case) -> bool:
    """Write the verdict of a run beside it, unless it is there. False where the run is remote or its folder cannot be written."""
    if case.ruling.verdict is None:
        return True
    folder = Path(case.source.location)
    if "://" in case.source.location:
        return False
    if not folder.is_dir():
        return True  # a history in one file has no folder of its own
    data = encode_verdict(case.ruling.verdict)
    place = folder / store.VERDICT
    try:
        if not place.exists() or place.read_bytes() != data:
            store.write_file(place, data)
    except OSError:
        return False
    return True


def command(source: Source, choice: ModelChoice) -> str:
    """The command that judges this history alone."""
    parts = ["highwater", "judge", "--again"] if "://" in source.path else ["highwater", "check"]
    parts.append(source.path)
    return shlex.join([*parts, *arguments_of(choice)])


def digest_of_table(cases: Sequence[Case]) -> str:
    """The digest of all rulings, sorted: equal in process and on Spark, wherever the histories are stored."""
    rows = sorted((case.source.digest, case.outcome, msgspec.json.encode(case.ruling)) for case in cases)
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()
