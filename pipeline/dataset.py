"""A dataset of runs: records of runs as plain Parquet, about 50 runs a part, written once by key.

    DATASET/<table>/campaign=<name>/protocol=<name>/<part>.parquet
    DATASET/parts/<part>.json     the part's manifest, written last: what has none was never committed
    DATASET/inventory.jsonl       the runs of all parts once more (pipeline.inventory)

The key of a row is its campaign and its run. A run that the dataset has is not taken in again. A part is named by its campaign,
its protocol and its runs, so whoever does the same work again writes the same files. One process writes at a time
(`pipeline.owner`); it begins by deleting what a killed one has left. A part that `compact` has put into another one is named by
the other's manifest, and does not count from then on. Names are relative to the dataset's root.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from hashlib import blake2b, sha256
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET, Struct, UnsetType

from history import parquet
from history.errors import NOT_JSON, HistoryError
from history.history import History
from pipeline import inventory
from pipeline.errors import DamagedError, GoneError, PipelineError
from pipeline.inventory import Listed
from pipeline.owner import owned
from pipeline.record import Record
from pipeline.storage import Storage
from pipeline.tables import DATASET_VERSION, HIVE, TABLES, Table, arrow_schema

RUNS_OF_A_PART = 50
RESULT = ("commit", "digest", "verdict")
WORDS_MAX = 1_000  # reasons of refused runs that are kept
_PARTS_READ = 8  # whose results are kept: the runs of a part are asked for one after the other
ROWS_MAX = 1_000_000  # of records in memory, some 200 MB; the largest part is written when they are more
MANIFESTS = "parts/"
ADVICE = "`highwater store verify` lists all damage, `highwater store mend` sets it aside to be taken in again"
# Readers take a folder's value for a number or a date if it looks like one, so a name begins with a letter.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,127}")


class File(Struct, frozen=True, kw_only=True):
    """What the manifest of a part says about one of its files."""

    rows: int
    sha256: str


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest of a part: the runs that it holds, and its files by table."""

    id: str
    version: int = DATASET_VERSION
    campaign: str
    protocol: str
    runs: tuple[str, ...]
    files: dict[Table, File]
    replaces: tuple[str, ...] = ()  # ids of the parts whose rows it has taken over
    listed: bool | UnsetType = UNSET  # there was an inventory when it was written; unset in one of an earlier version
    seal: str = ""  # checksum of all other fields

    def path(self, table: Table) -> str:
        """The name of the part's file of a table."""
        folders = "/".join(f"{column}={value}" for column, value in zip(HIVE, (self.campaign, self.protocol), strict=True))
        return f"{table}/{folders}/{self.id}.parquet"


def _seal(part: Part) -> str:
    return blake2b(msgspec.json.encode(msgspec.structs.replace(part, seal="")), digest_size=8).hexdigest()


class Entry(NamedTuple):
    """A run that can be taken in. `load` reads its record, and is called only for a run that the dataset does not have.

    If `load` raises PipelineError or HistoryError, the run is refused with these words. `told` has at least the columns `RESULT`
    of `runs`: a run that the dataset has with another result is refused, too.
    """

    run: str
    load: Callable[[], Record]
    told: Mapping[str, object] | None = None


class Refused(NamedTuple):
    """A run that cannot be taken in, because even its name cannot be read; in place of an `Entry`."""

    words: str


class Ingested(NamedTuple):
    """What came of an ingest: runs taken in, runs that were there already, parts that were written, runs that were refused.

    `words` are the reasons of the first `WORDS_MAX` of them.
    """

    new: int = 0
    present: int = 0
    parts: int = 0
    refused: int = 0
    words: tuple[str, ...] = ()

    def __add__(self, other: "Ingested") -> "Ingested":  # type: ignore[override] # not the concatenation of two tuples
        """What came of both."""
        return Ingested(
            self.new + other.new,
            self.present + other.present,
            self.parts + other.parts,
            self.refused + other.refused,
            (*self.words, *other.words)[:WORDS_MAX],
        )


def ingest(storage: Storage, campaign: str, entries: Iterable[Entry | Refused]) -> Ingested:
    """Take runs in, streaming: records of no more than `ROWS_MAX` rows are held at a time.

    Raises PipelineError for a name that cannot be a folder's. Parts that were written before an error stay.
    """
    with writing(storage, campaign) as parts:
        intake = Intake(storage, campaign, parts)
        for part in intake.parts(entries):
            commit(storage, part)
    return intake.tally


@contextmanager
def writing(storage: Storage, campaign: str, *, with_runs: bool = True) -> Iterator[list[Part]]:
    """Own a dataset to take runs of a campaign in; yields its parts, after a killed process's files are deleted.

    At the end the inventory is written. Raises PipelineError where the name cannot be a folder's, and as `owned` does.
    """
    _check_name("campaign", campaign)
    with owned(storage):
        parts = parts_of(storage, with_runs=with_runs)
        _check_case(storage, campaign, parts)
        sweep(storage, parts)
        yield parts
        list_parts(storage)


class Intake:
    """Writes the files of parts. Their manifests are left to the owner of the dataset, so nothing counts without it.

    `present` are the parts of the dataset. `tally` is what came of the entries so far.
    """

    def __init__(self, storage: Storage, campaign: str, present: Iterable[Part]) -> None:
        self._storage, self._campaign = storage, campaign
        self._present = {run: part for part in present if part.campaign == campaign for run in part.runs}
        self._results_by_run = lru_cache(_PARTS_READ)(partial(_results_by_run, storage))
        self._runs_taken: set[str] = set()
        self.tally = Ingested()

    def parts(self, entries: Iterable[Entry | Refused]) -> Iterator[Part]:
        """Take runs in; yields each part whose files are written."""
        batches: dict[str, _Batch] = {}
        for entry in entries:
            record = self._record_if_new(entry)
            if record is None:
                continue
            batches.setdefault(record.protocol, _Batch()).add(record)
            while (full := _protocol_to_write(batches)) is not None:
                yield self._part(batches.pop(full))
        for batch in batches.values():
            yield self._part(batch)

    def _record_if_new(self, entry: Entry | Refused) -> Record | None:
        """The record of a run that is new; None for any other."""
        if isinstance(entry, Refused):
            self.tally += Ingested(refused=1, words=(entry.words,))
            return None
        if entry.run in self._present or entry.run in self._runs_taken:
            difference = self._difference_of_result(entry)
            self.tally += Ingested(present=1) if difference is None else Ingested(refused=1, words=(difference,))
            return None
        try:
            record = entry.load()
        except (PipelineError, HistoryError) as error:
            self.tally += Ingested(refused=1, words=(str(error),))
            return None
        self._runs_taken.add(entry.run)
        return record

    def _difference_of_result(self, entry: Entry) -> str | None:
        """How the run that the dataset has differs from this one in words; None if it does not, or if that is not known."""
        if entry.told is None or entry.run not in self._present:
            return None
        stored_result = self._results_by_run(self._present[entry.run].path("runs")).get(entry.run)
        now = {n: entry.told[n] for n in RESULT}
        if stored_result in (None, now):
            return None
        words = ", ".join(f"{name} {stored_result[name]}, now {now[name]}" for name in RESULT if stored_result[name] != now[name])
        return (
            f"{entry.run}: campaign {self._campaign} of the dataset has it with another result: {words}; give another --campaign"
        )

    def _part(self, batch: "_Batch") -> Part:
        self.tally += Ingested(new=len(batch.records), parts=1)
        return _write_batch(self._storage, self._campaign, batch)


def _results_by_run(storage: Storage, name: str) -> dict[str, dict[str, object]]:
    """The results of the runs in a file of the table `runs`; none if it cannot be read, which `store verify` says."""
    try:
        rows = pq.read_table(pa.BufferReader(storage.read(name)), columns=["run", *RESULT]).to_pylist()
    except (OSError, pa.ArrowException):
        return {}
    return {row.pop("run"): row for row in rows}


class _Batch:
    """Records of one protocol that become one part."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.rows = 0

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.rows += sum(table.num_rows for table in record.tables.values())


def _protocol_to_write(batches: Mapping[str, _Batch]) -> str | None:
    """The protocol whose records are to be written now: it has enough runs for a part, or all together need too much memory."""
    largest = max(batches, key=lambda protocol: batches[protocol].rows, default=None)
    for protocol, batch in batches.items():
        if len(batch.records) >= RUNS_OF_A_PART:
            return protocol
    return largest if sum(batch.rows for batch in batches.values()) > ROWS_MAX else None


def with_evidence(record: Record, history: History) -> Record:
    """The record with the tables of operations and events."""
    run = record.run
    tables: dict[Table, pa.Table] = {"operations": history.operations_table, "events": history.events_table}
    named = {
        table: rows.add_column(0, "run", pa.repeat(pa.scalar(run), rows.num_rows)).cast(arrow_schema(table))
        for table, rows in tables.items()
    }
    return Record(protocol=record.protocol, tables=record.tables | named)


def committed(storage: Storage, table: Table) -> list[str]:
    """The names of the files of a table that belong to the dataset, sorted; files of unfinished work are left out."""
    return sorted(part.path(table) for part in parts_of(storage) if table in part.files)


def parts_of(storage: Storage, *, with_runs: bool = True) -> list[Part]:
    """The parts of the dataset, sorted by id; without their runs if nobody looks at them, who may be very many.

    Raises PipelineError where a manifest is damaged.
    """
    while True:
        names = manifest_names(storage)
        try:
            parts = (manifest_at(storage, name) for name in names)
            return live(storage, [part if with_runs else msgspec.structs.replace(part, runs=()) for part in parts])
        except GoneError:
            if names == manifest_names(storage):  # else a compaction has put the part into another one
                raise


def live(storage: Storage, parts: Sequence[Part]) -> list[Part]:
    """The parts that no other one has taken over, with all of their runs, which are read again where they were left out."""
    takers = {old: part for part in parts for old in part.replaces if old != part.id}

    def runs(part: Part) -> set[str]:
        return {*(part.runs or manifest_at(storage, f"{MANIFESTS}{part.id}.json").runs)}

    return [part for part in parts if part.id not in takers or not runs(part) <= runs(takers[part.id])]


def manifest_names(storage: Storage) -> list[str]:
    """The names of all manifests, sorted."""
    return [name for name in storage.names(MANIFESTS.rstrip("/")) if name.endswith(".json")]


def manifest_at(storage: Storage, name: str) -> Part:
    """Read the manifest of a part. Raises PipelineError where it is damaged or of another version."""
    where = storage.path(name)
    try:
        part = msgspec.json.decode(storage.read(name), type=Part)
    except FileNotFoundError as error:
        raise GoneError(f"{where}: the manifest is gone") from error
    except (OSError, *NOT_JSON) as error:
        raise DamagedError(f"{where}: not the manifest of a part: {error}; {ADVICE}") from error
    if part.seal not in ("", _seal(part)):
        raise DamagedError(f"{where}: changed after it was written: its checksum is another; {ADVICE}")
    if part.version != DATASET_VERSION:
        raise PipelineError(f"{where}: dataset version {part.version}, this program reads {DATASET_VERSION}")
    if name != f"{MANIFESTS}{part.id}.json":
        raise DamagedError(f"{where}: the manifest of another part, {part.id}; {ADVICE}")
    if part.seal and part.id != inventory.part_id(part.campaign, part.protocol, part.runs):
        raise DamagedError(f"{where}: its runs do not give its name; {ADVICE}")
    if not part.seal:
        raise PipelineError(f"{where}: a manifest without checksum, of an earlier version: ingest its runs into a new dataset")
    return part


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise PipelineError(f"{what} {name!r}: use letters, digits, '.', '_' and '-' only, a letter first, 128 at most")


def _check_case(storage: Storage, campaign: str, parts: Sequence[Part]) -> None:
    """Raise PipelineError if two campaigns would share a folder where names differ by more than capitals only."""
    for name in sorted({part.campaign for part in parts} - {campaign}):
        if name.lower() == campaign.lower():
            raise PipelineError(
                f"{storage.location}: has a campaign {name}; {campaign!r} differs in capitals only: give another name"
            )


# --- writing --------------------------------------------------------------------------------------------------------------------


def _write_batch(storage: Storage, campaign: str, batch: _Batch) -> Part:
    """Write the files of a part with the records of a batch."""
    tables: dict[Table, pa.Table] = {}
    for table in TABLES:
        rows = [record.tables[table] for record in batch.records if table in record.tables]
        if rows:
            tables[table] = pa.concat_tables(rows)
    return _write_part(storage, campaign, batch.records[0].protocol, tables)


def _write_part(
    storage: Storage, campaign: str, protocol: str, tables: dict[Table, pa.Table], *, replaces: Sequence[str] = ()
) -> Part:
    """Write the files of a part. A file without rows is written too: readers want to see the schema."""
    _check_name("protocol", protocol)
    runs = tuple(tables["runs"]["run"].to_pylist())
    name = inventory.part_id(campaign, protocol, runs)
    data = {table: parquet.encode(rows) for table, rows in tables.items()}
    files = {table: File(rows=tables[table].num_rows, sha256=sha256(data[table]).hexdigest()) for table in data}
    part = Part(id=name, campaign=campaign, protocol=protocol, runs=runs, files=files, replaces=tuple(replaces), listed=True)
    for table, content in data.items():
        storage.write(part.path(table), content)
    return msgspec.structs.replace(part, seal=_seal(part))


def commit(storage: Storage, part: Part) -> None:
    """Write the manifest of a part whose files are there: from then on its rows count."""
    storage.write(f"{MANIFESTS}{part.id}.json", msgspec.json.format(msgspec.json.encode(part), indent=1))


def sweep(storage: Storage, parts: Sequence[Part]) -> None:
    """Delete what killed processes have left: files of no part, and parts that another one has taken over.

    A part that lost its manifest looks the same, so the inventory keeps the runs in these files that no part has.
    """
    named = {part.path(table) for part in parts for table in part.files} | {f"{MANIFESTS}{part.id}.json" for part in parts}
    orphans = [name for name in storage.names() if is_of_a_part(name) and name not in named]
    ids = {PurePosixPath(name).stem for name in orphans if not name.startswith(MANIFESTS)}
    replaced = {PurePosixPath(name).stem for name in orphans if name.startswith(MANIFESTS)}
    found = (
        inventory.proven(storage, part, (name for name in orphans if PurePosixPath(name).stem == part)) for part in ids - replaced
    )
    list_parts(storage, parts, [of for of in found if of is not None])
    # Manifests go first: a manifest always names files that are there.
    storage.delete(sorted(orphans, key=lambda name: not name.startswith(MANIFESTS)))


def list_parts(
    storage: Storage, parts: Sequence[Part] | None = None, found: Sequence[Listed] = (), *, anew: bool = False
) -> None:
    """Write the inventory: these parts (if not given, all with a manifest), and what was listed, or is `found`, and is lost.

    `anew`: also where it is missing, though parts were written beside one. Raises DamagedError where it is not as it was written.
    """
    before = inventory.lines(storage)
    known = before or {}
    ids = [PurePosixPath(name).stem for name in manifest_names(storage)] if parts is None else [part.id for part in parts]
    new = [manifest_at(storage, f"{MANIFESTS}{part}.json") for part in ids if part not in known]
    if before is None and not anew and any(part.listed for part in new):
        raise DamagedError(f"{storage.path(inventory.NAME)}: {inventory.MISSING}")
    after = {part: known[part] for part in ids if part in known} | {part.id: _line(part) for part in new}
    gone = [inventory.listed(line) for part, line in known.items() if part not in after]
    others = [*gone, *(of for of in found if of.part not in after)]
    if others:
        runs = runs_by_campaign(parts if parts is not None and all(part.runs for part in parts) else parts_of(storage))
        after |= {of.part: inventory.line_of(of) for of in others if inventory.still_missing(of, runs).runs}
    if after != before:
        inventory.write(storage, after)


def _line(part: Part) -> bytes:
    runs = tuple(sorted(part.runs))
    return inventory.line_of(Listed(part=part.id, campaign=part.campaign, protocol=part.protocol, runs=runs))


def runs_by_campaign(parts: Iterable[Part]) -> dict[str, list[str]]:
    """The runs of each campaign in these parts."""
    runs: dict[str, list[str]] = {}
    for part in parts:
        runs.setdefault(part.campaign, []).extend(part.runs)
    return runs


def is_of_a_part(name: str) -> bool:
    """Whether a file has the name of a manifest or of a file of a part."""
    folder, _, name_in_folder = name.partition("/")
    return (folder == MANIFESTS.rstrip("/") and name_in_folder.endswith(".json")) or (
        folder in TABLES and name_in_folder.startswith(f"{HIVE[0]}=") and name_in_folder.endswith(".parquet")
    )


# --- compaction -----------------------------------------------------------------------------------------------------------------


def compact(storage: Storage) -> tuple[int, int]:
    """Join small parts of one campaign and protocol to parts of up to 50 runs; the rows stay the same.

    Returns the numbers of parts before and after. Raises PipelineError where a part is damaged.
    """
    with owned(storage):
        return _join_parts(storage)


def _join_parts(storage: Storage) -> tuple[int, int]:
    """As `compact`, for the owner of the dataset."""
    parts = parts_of(storage)
    sweep(storage, parts)
    for together in _part_groups_to_join(parts):
        tables = {
            table: _joined_table(storage, together, table) for table in TABLES if any(table in part.files for part in together)
        }
        first = together[0]
        commit(storage, _write_part(storage, first.campaign, first.protocol, tables, replaces=[part.id for part in together]))
    after = parts_of(storage)
    sweep(storage, after)
    return len(parts), len(after)


def _part_groups_to_join(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Groups of two or more parts that fit into one, the largest parts first."""
    groups: dict[tuple[str, str], list[list[Part]]] = {}
    for part in sorted(parts, key=lambda part: (-len(part.runs), part.id)):
        of_protocol = groups.setdefault((part.campaign, part.protocol), [])
        fits = (group for group in of_protocol if sum(len(member.runs) for member in group) + len(part.runs) <= RUNS_OF_A_PART)
        group = next(fits, None)
        of_protocol.append([part]) if group is None else group.append(part)
    yield from (group for of_protocol in groups.values() for group in of_protocol if len(group) > 1)


def _joined_table(storage: Storage, parts: Sequence[Part], table: Table) -> pa.Table:
    """The rows of several parts; of a damaged one nothing is taken over."""
    rows = []
    for part in parts:
        if table not in part.files:
            continue
        data = storage.read(part.path(table))
        if sha256(data).hexdigest() != part.files[table].sha256:
            raise DamagedError(f"{storage.path(part.path(table))}: not the file that its manifest names (SHA-256); {ADVICE}")
        rows.append(pq.read_table(pa.BufferReader(data), use_threads=False))
    return pa.concat_tables(rows)
