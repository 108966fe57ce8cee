"""Whether a dataset is as it was written: every file is compared with the manifest of its part.

`verify` names all that is wrong. Who asks a dataset looks at the files that are about to be read (`whole_parts`).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from pipeline import inventory
from pipeline.dataset import (
    ADVICE,
    MANIFESTS,
    Part,
    is_of_a_part,
    live,
    manifest_at,
    manifest_names,
    parts_of,
    runs_by_campaign,
)
from pipeline.errors import DamagedError, GoneError, PipelineError
from pipeline.owner import owned_since
from pipeline.record_file import column_complaint
from pipeline.storage import Storage
from pipeline.tables import COLUMNS, DATASET_VERSION, HIVE, OF_A_RECORD, TABLES, Table, arrow_schema

_NOTE = "a note of lost runs of an earlier version: take all runs of the campaign into a new dataset"
_READERS = 4  # threads that compare files with their manifests


class Damage(NamedTuple):
    """What is wrong with one file of a dataset."""

    name: str
    words: str


def whole_parts(storage: Storage, tables: Sequence[Table] = TABLES, campaigns: Sequence[str] = ()) -> list[Part]:
    """The parts of these campaigns (all if none is named), after a look at their files of these tables, as `verify` looks.

    Raises PipelineError with the first damage: what is not as it was written must not be counted.
    """
    parts = _chosen_parts(storage, campaigns)
    while (damage := _first_damage(storage, parts, tables, campaigns)) is not None:
        before, parts = parts, _chosen_parts(storage, campaigns)
        if parts == before:  # else a compaction has put the files into others meanwhile
            raise PipelineError(f"{storage.path(damage.name)}: {damage.words}; nothing is read from a damaged dataset ({ADVICE})")
    return parts


def _chosen_parts(storage: Storage, campaigns: Sequence[str]) -> list[Part]:
    return [part for part in parts_of(storage) if _is_of(part.campaign, campaigns)]


def _first_damage(storage: Storage, parts: Sequence[Part], tables: Sequence[Table], campaigns: Sequence[str]) -> Damage | None:
    """The first damage of these parts and tables; files are compared several at a time."""
    of_all = next(chain(twice(parts), _without_manifest(storage, parts, campaigns), lost_runs(storage, parts, campaigns)), None)
    if of_all is not None:
        return of_all

    def look(at: tuple[Part, Table]) -> Damage | None:
        part, table = at
        if table not in part.files:
            return Damage(f"{MANIFESTS}{part.id}.json", f"names no file of {table}") if table in OF_A_RECORD else None
        return next((Damage(part.path(table), words) for words in _complaints_of_file(storage, part, table)), None)

    with ThreadPoolExecutor(_READERS) as pool:
        return next(filter(None, pool.map(look, ((part, table) for part in parts for table in tables))), None)


def _without_manifest(storage: Storage, parts: Sequence[Part], campaigns: Sequence[str]) -> Iterator[Damage]:
    """The parts of these campaigns that have files and no manifest, unless somebody writes at this moment.

    A killed ingest has left them, which is to be done again, or a manifest is lost, and with it the runs.
    """
    known = {name for part in parts for name in (part.id, *part.replaces)}
    folders = [f"runs/{HIVE[0]}={campaign}" for campaign in campaigns] or ["runs"]
    files = (name for folder in folders for name in storage.names(folder) if is_of_a_part(name))
    alone = [name for name in files if PurePosixPath(name).stem not in known]
    words = "missing, though there are files of its part: lost, or an ingest was killed; do the ingest again"
    for name in _not_new(storage, alone):
        yield Damage(f"{MANIFESTS}{PurePosixPath(name).stem}.json", words)


def _not_new(storage: Storage, names: Sequence[str]) -> list[str]:
    """These files without those that whoever owns the dataset at this moment has written, or has deleted meanwhile."""
    since = owned_since(storage.folder) if names and storage.folder is not None else None
    if storage.folder is None or since is None:
        return [*names]
    old = []
    for name in names:
        with suppress(FileNotFoundError):
            if (storage.folder / name).stat().st_mtime_ns < since:
                old.append(name)
    return old


def lost_runs(storage: Storage, parts: Sequence[Part], campaigns: Sequence[str] = ()) -> Iterator[Damage]:
    """A damaged inventory, and its parts of these campaigns (all if none is named) with runs that are in none of these parts."""
    yield from (Damage(name, _NOTE) for name in storage.names("lost"))
    try:
        lines = inventory.lines(storage)
    except DamagedError as error:
        yield Damage(inventory.NAME, str(error).removeprefix(f"{storage.path(inventory.NAME)}: "))
        return
    if lines is None:
        yield from [Damage(inventory.NAME, inventory.MISSING)] if any(part.listed for part in parts) else ()
        return
    present = {part.id for part in parts}
    gone = [
        of for part, line in lines.items() if part not in present and _is_of((of := inventory.listed(line)).campaign, campaigns)
    ]
    if gone and not all(part.runs for part in parts):
        parts = live(storage, readable_parts(storage)[0])
    runs = runs_by_campaign(parts) if gone else {}
    for of in gone:
        missing = inventory.still_missing(of, runs)
        if missing.runs:
            yield Damage(f"{MANIFESTS}{of.part}.json", inventory.words_of(missing))


def _is_of(campaign: str, campaigns: Sequence[str]) -> bool:
    return not campaigns or campaign in campaigns


def verify(storage: Storage) -> list[Damage]:
    """Compare all files with the manifests; returns what is wrong, by file. An empty list: the dataset is whole.

    What an ingest or a compaction changes meanwhile is looked at again.
    """
    while True:
        parts, damages = readable_parts(storage)
        current = live(storage, parts)
        for part in current:
            damages += damages_of(storage, part)
        damages += [*twice(current), *lost_runs(storage, current), *orphaned_files(storage, parts, current)]
        if not damages or readable_parts(storage)[0] == parts:
            return sorted(damages)


def readable_parts(storage: Storage, *, with_runs: bool = True) -> tuple[list[Part], list[Damage]]:
    """The parts whose manifests can be read, also those that others have taken over, and the damages of the other manifests."""
    damages: list[Damage] = []
    parts: list[Part] = []
    names = manifest_names(storage)
    for name in names:
        try:
            part = manifest_at(storage, name)
        except GoneError:
            continue  # put into another part; one that was lost has files without a manifest
        except PipelineError as error:
            damages.append(Damage(name, str(error).removeprefix(f"{storage.path(name)}: ").removesuffix(f"; {ADVICE}")))
        else:
            parts.append(part if with_runs else replace(part, runs=()))
    return parts, damages


def damages_of(storage: Storage, part: Part) -> list[Damage]:
    """What is wrong with the files of a part."""
    damages = [Damage(part.path(table), words) for table in part.files for words in _complaints_of_file(storage, part, table)]
    missing = [table for table in OF_A_RECORD if table not in part.files]
    return [*damages, *(Damage(f"{MANIFESTS}{part.id}.json", f"names no file of {table}") for table in missing)]


def _complaints_of_file(storage: Storage, part: Part, table: Table) -> list[str]:
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
            schema = file.schema_arrow
            rows = file.read(columns=["run", *words], use_threads=False)
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


def twice(parts: Sequence[Part]) -> Iterator[Damage]:
    """Runs that two parts of one campaign hold, or one part twice."""
    first: dict[tuple[str, str], str] = {}
    for part in parts:
        for run in part.runs:
            before = first.setdefault((part.campaign, run), part.id)
            if before != part.id or part.runs.count(run) > 1:
                yield Damage(f"{MANIFESTS}{part.id}.json", f"run {run} is in part {before} too")


def orphaned_files(storage: Storage, parts: Sequence[Part], current: Sequence[Part]) -> Iterator[Damage]:
    """Files that no part names; the next ingest or compaction deletes those of unfinished work."""
    named = {part.path(table) for part in current for table in part.files} | {f"{MANIFESTS}{part.id}.json" for part in current}
    refused = set(manifest_names(storage)) - {f"{MANIFESTS}{part.id}.json" for part in parts}  # damaged: reported already
    # No ingest deletes the files of a part whose manifest cannot be read: it takes nothing in.
    ids = {name.removeprefix(MANIFESTS).removesuffix(".json") for name in refused}
    unnamed = [name for name in storage.names() if name not in named and name != inventory.NAME and not name.startswith("lost/")]
    yield from (Damage(name, "no file of a dataset") for name in unnamed if not is_of_a_part(name))
    if storage.folder is not None and owned_since(storage.folder) is not None:
        ids |= {old for part in current for old in part.replaces}  # a compaction deletes them at this moment
    left = [name for name in unnamed if is_of_a_part(name) and name not in refused and PurePosixPath(name).stem not in ids]
    for name in _not_new(storage, left):
        yield Damage(name, "in no part: left by unfinished work, the next ingest deletes it")
