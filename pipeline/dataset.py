"""A dataset of runs: records of runs as plain Parquet, about 50 runs a part, written once by key.

    DATASET/<table>/campaign=<name>/protocol=<name>/<part>.parquet
    DATASET/parts/<part>.json     the part's manifest, written last: what has none was never committed

The key of a row is its campaign and its run. A run that the dataset has is not taken in again. A part is named by its campaign,
its protocol and its runs, so whoever does the same work again writes the same files. One process writes at a time
(`pipeline.owner`); it begins by deleting what a killed one has left. A part that `compact` has put into another one is named by
the other's manifest, and does not count from then on. Names are relative to the dataset's root.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b, sha256
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from history import parquet
from history.history import History
from pipeline.errors import PipelineError
from pipeline.owner import owned
from pipeline.record import Record, column_complaint
from pipeline.storage import Storage
from pipeline.tables import COLUMNS, DATASET_VERSION, HIVE, OF_A_RECORD, TABLES, Table, arrow_schema

RUNS_OF_A_PART = 50
BYTES_MAX = 256 << 20  # of records in memory; the largest part is written when they are more
_MANIFESTS = "parts/"
_READERS = 4  # threads that compare files with their manifests
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
    seal: str = ""  # checksum of all other fields

    def path(self, table: Table) -> str:
        """The name of the part's file of a table."""
        folders = "/".join(f"{column}={value}" for column, value in zip(HIVE, (self.campaign, self.protocol), strict=True))
        return f"{table}/{folders}/{self.id}.parquet"


def _seal(part: Part) -> str:
    return blake2b(msgspec.json.encode(msgspec.structs.replace(part, seal="")), digest_size=8).hexdigest()


class Entry(NamedTuple):
    """A run that can be taken in. `load` reads its record, and is called only for a run that the dataset does not have.

    `load` returns None for a run that is to be left out.
    """

    run: str
    load: Callable[[], Record | None]


class Ingested(NamedTuple):
    """What came of an ingest: runs taken in, runs that were there already, and the parts that were written."""

    new: int
    present: int
    parts: int


class Damage(NamedTuple):
    """What is wrong with one file of a dataset."""

    name: str
    words: str


def ingest(storage: Storage, campaign: str, entries: Iterable[Entry]) -> Ingested:
    """Take runs in, streaming: no more than `BYTES_MAX` of records are held at a time.

    Raises PipelineError for a name that cannot be a folder's, and what `load` raises; parts that were written until then stay.
    """
    _check_name("campaign", campaign)
    with owned(storage):
        return _ingest(storage, campaign, entries)


def _ingest(storage: Storage, campaign: str, entries: Iterable[Entry]) -> Ingested:
    parts = parts_of(storage)
    sweep(storage, parts)
    ingested_runs = {run for part in parts if part.campaign == campaign for run in part.runs}
    present = written = 0
    before = len(ingested_runs)
    batches: dict[str, _Batch] = {}
    for entry in entries:
        if entry.run in ingested_runs:
            present += 1
            continue
        record = entry.load()
        if record is None:
            continue
        ingested_runs.add(entry.run)
        batches.setdefault(record.protocol, _Batch()).add(record)
        while (full := _full(batches)) is not None:
            _write_batch(storage, campaign, batches.pop(full))
            written += 1
    for batch in batches.values():
        _write_batch(storage, campaign, batch)
    return Ingested(len(ingested_runs) - before, present, written + len(batches))


class _Batch:
    """Records of one protocol that become one part."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.bytes = 0

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.bytes += sum(table.nbytes for table in record.tables.values())


def _full(batches: Mapping[str, _Batch]) -> str | None:
    """The protocol whose records are to be written now: it has enough runs for a part, or all together need too much memory."""
    largest = max(batches, key=lambda protocol: batches[protocol].bytes, default=None)
    for protocol, batch in batches.items():
        if len(batch.records) >= RUNS_OF_A_PART:
            return protocol
    return largest if sum(batch.bytes for batch in batches.values()) > BYTES_MAX else None


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


def parts_of(storage: Storage) -> list[Part]:
    """The parts of the dataset, sorted by id. Raises PipelineError where a manifest is damaged."""
    return live([_manifest(storage, name) for name in _manifests(storage)])


def live(parts: Sequence[Part]) -> list[Part]:
    """The parts that no other one has taken over."""
    replaced = {old for part in parts for old in part.replaces}
    return [part for part in parts if part.id not in replaced]


def _manifests(storage: Storage) -> list[str]:
    return [name for name in storage.names(_MANIFESTS.rstrip("/")) if name.endswith(".json")]


def _manifest(storage: Storage, name: str) -> Part:
    """Read the manifest of a part. Raises PipelineError where it is damaged or of another version."""
    where = storage.path(name)
    try:
        part = msgspec.json.decode(storage.read(name), type=Part)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{where}: not the manifest of a part: {error}") from error
    if part.version != DATASET_VERSION:
        raise PipelineError(f"{where}: dataset version {part.version}, this program reads {DATASET_VERSION}")
    if name != f"{_MANIFESTS}{part.id}.json":
        raise PipelineError(f"{where}: the manifest of another part, {part.id}")
    if not part.seal:
        raise PipelineError(f"{where}: a manifest without checksum, of an earlier version: ingest its runs into a new dataset")
    if part.seal != _seal(part):
        raise PipelineError(f"{where}: changed after it was written: its checksum is another")
    return part


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise PipelineError(f"{what} {name!r}: use letters, digits, '.', '_' and '-' only, a letter first, 128 at most")


# --- writing --------------------------------------------------------------------------------------------------------------------


def _write_batch(storage: Storage, campaign: str, batch: _Batch) -> None:
    """Write the records of a batch as one part."""
    tables: dict[Table, pa.Table] = {}
    for table in TABLES:
        rows = [record.tables[table] for record in batch.records if table in record.tables]
        if rows:
            tables[table] = pa.concat_tables(rows)
    _write(storage, campaign, batch.records[0].protocol, tables)


def _write(
    storage: Storage, campaign: str, protocol: str, tables: dict[Table, pa.Table], *, replaces: Sequence[str] = ()
) -> Part:
    """Write the files of a part and then its manifest. A file without rows is written too: readers want to see the schema."""
    _check_name("protocol", protocol)
    runs = tuple(tables["runs"]["run"].to_pylist())
    name = blake2b("\n".join((campaign, protocol, *sorted(runs))).encode(), digest_size=8).hexdigest()
    data = {table: parquet.encode(rows) for table, rows in tables.items()}
    files = {table: File(rows=tables[table].num_rows, sha256=sha256(data[table]).hexdigest()) for table in data}
    part = Part(id=name, campaign=campaign, protocol=protocol, runs=runs, files=files, replaces=tuple(replaces))
    part = msgspec.structs.replace(part, seal=_seal(part))
    for table, content in data.items():
        storage.write(part.path(table), content)
    storage.write(f"{_MANIFESTS}{name}.json", msgspec.json.format(msgspec.json.encode(part), indent=1))
    return part


def sweep(storage: Storage, parts: Sequence[Part]) -> None:
    """Delete what killed processes have left: files of no part, and parts that another one has taken over."""
    named = {part.path(table) for part in parts for table in part.files} | {f"{_MANIFESTS}{part.id}.json" for part in parts}
    # Manifests go first: a manifest always names files that are there.
    orphans = [name for name in storage.names() if _is_ours(name) and name not in named]
    storage.delete(sorted(orphans, key=lambda name: not name.startswith(_MANIFESTS)))


def _is_ours(name: str) -> bool:
    """Whether a file has the name of a manifest or of a file of a part."""
    folder, _, name_in_folder = name.partition("/")
    return (folder == _MANIFESTS.rstrip("/") and name_in_folder.endswith(".json")) or (
        folder in TABLES and name_in_folder.startswith(f"{HIVE[0]}=") and name_in_folder.endswith(".parquet")
    )


# --- compaction -----------------------------------------------------------------------------------------------------------------


def compact(storage: Storage) -> tuple[int, int]:
    """Join small parts of one campaign and protocol to parts of up to 50 runs; the rows stay the same.

    Returns the numbers of parts before and after. Raises PipelineError where a part is damaged.
    """
    with owned(storage):
        return _compact(storage)


def _compact(storage: Storage) -> tuple[int, int]:
    parts = parts_of(storage)
    sweep(storage, parts)
    for together in _part_groups_to_join(parts):
        tables = {
            table: _joined_table(storage, together, table) for table in TABLES if any(table in part.files for part in together)
        }
        first = together[0]
        _write(storage, first.campaign, first.protocol, tables, replaces=[part.id for part in together])
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
            raise PipelineError(f"{storage.path(part.path(table))}: not the file that its manifest names (SHA-256)")
        rows.append(pq.read_table(pa.BufferReader(data), use_threads=False))
    return pa.concat_tables(rows)


# --- reading ------------------------------------------------------------------------------------------------------------------


def whole_parts(storage: Storage, tables: Sequence[Table] = TABLES, campaigns: Sequence[str] = ()) -> list[Part]:
    """The parts of these campaigns (all if none is named), after a look at their files of these tables, as `verify` looks.

    Raises PipelineError with the first damage: what is not as it was written must not be counted.
    """
    parts = _chosen_parts(storage, campaigns)
    while (damage := _first_damage(storage, parts, tables)) is not None:
        before, parts = parts, _chosen_parts(storage, campaigns)
        if parts == before:  # else a compaction has put the files into others meanwhile
            more = "`highwater store verify` lists all damage"
            raise PipelineError(f"{storage.path(damage.name)}: {damage.words}; nothing is read from a damaged dataset ({more})")
    return parts


def _chosen_parts(storage: Storage, campaigns: Sequence[str]) -> list[Part]:
    return [part for part in parts_of(storage) if not campaigns or part.campaign in campaigns]


def _first_damage(storage: Storage, parts: Sequence[Part], tables: Sequence[Table]) -> Damage | None:
    twice = next(_twice(parts), None)
    if twice is not None:
        return twice

    def look(at: tuple[Part, Table]) -> Damage | None:
        part, table = at
        if table not in part.files:
            return Damage(f"{_MANIFESTS}{part.id}.json", f"names no file of {table}") if table in OF_A_RECORD else None
        return next((Damage(part.path(table), words) for words in _complaints(storage, part, table)), None)

    with ThreadPoolExecutor(_READERS) as pool:
        return next(filter(None, pool.map(look, ((part, table) for part in parts for table in tables))), None)


# --- verification ---------------------------------------------------------------------------------------------------------------


def verify(storage: Storage) -> list[Damage]:
    """Compare all files with the manifests; returns what is wrong, by file. An empty list: the dataset is whole."""
    damages: list[Damage] = []
    parts: list[Part] = []
    for name in _manifests(storage):
        try:
            parts.append(_manifest(storage, name))
        except PipelineError as error:
            damages.append(Damage(name, str(error).removeprefix(f"{storage.path(name)}: ")))
    current = live(parts)
    for part in current:
        damages += [Damage(part.path(table), words) for table in part.files for words in _complaints(storage, part, table)]
        missing = [table for table in OF_A_RECORD if table not in part.files]
        damages += [Damage(f"{_MANIFESTS}{part.id}.json", f"names no file of {table}") for table in missing]
    return sorted([*damages, *_twice(current), *_orphaned_files(storage, parts, current)])


def _complaints(storage: Storage, part: Part, table: Table) -> list[str]:
    """What is wrong with one file of a part: the first of content, schema, rows, keys."""
    stated = part.files[table]
    try:
        data = storage.read(part.path(table))
    except OSError:
        return ["missing"]
    if sha256(data).hexdigest() != stated.sha256:
        return ["not the file that its manifest names (SHA-256)"]
    # Nulls need no look where none may be: the schema, which is compared, says so.
    words = {column.name: column for column in COLUMNS.get(table, ()) if column.among}
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            schema, rows = file.schema_arrow, file.read(columns=["run", *words], use_threads=False)
    except (OSError, pa.ArrowException) as error:
        return [f"not a complete Parquet file: {' '.join(str(error).split())}"]
    expected = arrow_schema(table)
    if not schema.equals(expected) or not (expected.metadata or {}).items() <= (schema.metadata or {}).items():
        return [f"not the schema of {table} in dataset version {DATASET_VERSION}"]
    runs = rows["run"]
    for name, column in words.items():
        if (wrong := column_complaint(rows[name], column)) is not None:
            return [f"{name} {wrong}"]
    if len(runs) != stated.rows:
        return [f"{len(runs)} rows, the manifest says {stated.rows}"]
    foreign = sorted(set(pc.unique(runs).to_pylist()) - set(part.runs))
    if foreign:
        return [f"rows of {foreign[0]}, which is not in the part"]
    if table == "runs" and sorted(runs.to_pylist()) != sorted(part.runs):
        return ["not one row for each run of the part"]
    return []


def _twice(parts: Sequence[Part]) -> Iterator[Damage]:
    """Runs that two parts of one campaign hold, or one part twice."""
    first: dict[tuple[str, str], str] = {}
    for part in parts:
        for run in part.runs:
            before = first.setdefault((part.campaign, run), part.id)
            if before != part.id or part.runs.count(run) > 1:
                yield Damage(f"{_MANIFESTS}{part.id}.json", f"run {run} is in part {before} too")


def _orphaned_files(storage: Storage, parts: Sequence[Part], current: Sequence[Part]) -> Iterator[Damage]:
    """Files that no part names; the next ingest or compaction deletes those of unfinished work."""
    named = {part.path(table) for part in current for table in part.files} | {f"{_MANIFESTS}{part.id}.json" for part in current}
    refused = set(_manifests(storage)) - {f"{_MANIFESTS}{part.id}.json" for part in parts}  # damaged: reported already
    # No ingest deletes the files of a part whose manifest cannot be read: it takes nothing in.
    ids = {name.removeprefix(_MANIFESTS).removesuffix(".json") for name in refused}
    for name in storage.names():
        of_refused = name in refused or (_is_ours(name) and name.rpartition("/")[2].removesuffix(".parquet") in ids)
        if name not in named and not of_refused:
            why = "in no part: left by unfinished work, the next ingest deletes it" if _is_ours(name) else "no file of a dataset"
            yield Damage(name, why)
