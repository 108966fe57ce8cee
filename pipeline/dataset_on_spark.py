"""Ingest and verification of a dataset as Spark jobs: the workers read, check and write, the driver holds nothing for each run.

    units of a source ─▶ tasks: records ─▶ files of parts, manifests not yet written ─▶ driver: manifests
    groups of parts   ─▶ tasks: files beside manifests ─▶ damages; runs of all parts ─▶ grouped by Spark: those that are twice

A part counts from its manifest on, and only the driver, who owns the dataset, writes manifests. So whatever a lost executor still
does after its driver was killed, its files count for nothing, and the next ingest deletes them.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa
from msgspec import Struct

from pipeline.dataset import MANIFESTS, Entry, Ingested, Intake, Part, Refused, commit, live, manifest_at, parts_of, writing
from pipeline.errors import PipelineError
from pipeline.storage import Storage, storage_at
from pipeline.tasks import frame_of_numbers, results_on_spark
from pipeline.verification import Damage, damages_of, lost_runs, orphaned_files, readable_parts, twice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUP = 10  # parts that a task compares with their manifests
_TAKEN: msgspec.msgpack.Decoder[tuple[list[Part], Ingested]] = msgspec.msgpack.Decoder(tuple[list[Part], Ingested])
_DAMAGES: msgspec.msgpack.Decoder[list[Damage]] = msgspec.msgpack.Decoder(list[Damage])


class Units(Struct, frozen=True, kw_only=True):
    """The runs of a source, in parts for the workers. `entries` gives those of a unit from 0 on, and must be importable.

    A unit has up to `runs` of them; no run may be in two.
    """

    count: int
    runs: int
    entries: Callable[[int], Iterable[Entry | Refused]]


def ingest_on_spark(
    spark: "SparkSession",
    storage: Storage,
    campaign: str,
    units: Units,
    on_runs: Callable[[str, int], object] = lambda words, runs: None,
) -> Ingested:
    """As `dataset.ingest`, by the workers of Spark. `on_runs` gets the number of runs of each unit that is taken in."""
    tally = Ingested()
    with writing(storage, campaign, with_runs=False) as parts:
        has_runs = any(part.campaign == campaign for part in parts)
        take = partial(_ingest_unit, storage.location, campaign, units.entries, str(uuid4()) if has_runs else None)
        for result in results_on_spark(spark, units.count, take):
            taken, of_unit = _TAKEN.decode(result)
            for part in taken:
                commit(storage, part)
            tally += of_unit
            on_runs("", units.runs)
    return tally


def _ingest_unit(
    location: str, campaign: str, entries: Callable[[int], Iterable[Entry | Refused]], ingest: str | None, unit: int
) -> bytes:
    """Write the files of the parts of a unit. `ingest` names it if the dataset has runs of the campaign."""
    storage = storage_at(location)
    intake = Intake(storage, campaign, () if ingest is None else _present(location, campaign, ingest))
    parts = list(intake.parts(entries(unit)))
    return msgspec.msgpack.encode((parts, intake.tally))


@lru_cache(maxsize=1)
def _present(location: str, campaign: str, ingest: str) -> list[Part]:
    """The parts of a campaign that the dataset had when this worker met the ingest; those of other units do not matter."""
    return [part for part in parts_of(storage_at(location)) if part.campaign == campaign]


def verify_on_spark(spark: "SparkSession", storage: Storage) -> list[Damage]:
    """As `verification.verify`, by the workers of Spark."""
    while True:
        parts, damages = readable_parts(storage, with_runs=False)
        current = live(storage, parts)
        groups = [[part.id for part in current[at : at + _GROUP]] for at in range(0, len(current), _GROUP)]
        for result in results_on_spark(spark, len(groups), partial(_damages, storage.location, groups)):
            damages += _DAMAGES.decode(result)
        damages += _doubled_runs(spark, storage, groups)
        damages += [*lost_runs(storage, current), *orphaned_files(storage, parts, current)]
        if not damages or readable_parts(storage, with_runs=False)[0] == parts:
            return sorted(damages)


def _parts_of_group(location: str, groups: list[list[str]], group: int) -> Iterator[Part | Damage]:
    """The parts of a group; a damage for each manifest that is gone since, or was changed."""
    storage = storage_at(location)
    for part in groups[group]:
        name = f"{MANIFESTS}{part}.json"
        try:
            yield manifest_at(storage, name)
        except PipelineError as error:
            yield Damage(name, str(error).removeprefix(f"{storage.path(name)}: "))


def _damages(location: str, groups: list[list[str]], group: int) -> bytes:
    storage = storage_at(location)
    found = [damages_of(storage, of) if isinstance(of, Part) else [of] for of in _parts_of_group(location, groups, group)]
    return msgspec.msgpack.encode([damage for damages in found for damage in damages])


def _doubled_runs(spark: "SparkSession", storage: Storage, groups: list[list[str]]) -> list[Damage]:
    """The runs that are in two parts of one campaign, or twice in one: Spark groups all runs, and the driver sees those parts."""
    from pyspark.sql import functions as f

    if not groups:
        return []
    rows = partial(_run_batches, storage.location, groups)
    runs = frame_of_numbers(spark, range(len(groups)), rows, "campaign string, run string, part string")
    of_run = runs.groupBy("campaign", "run").agg(f.count("*").alias("parts"), f.collect_set("part").alias("ids"))
    ids = of_run.where("parts > 1").select(f.explode("ids").alias("id")).distinct().toArrow()["id"].to_pylist()
    return list(twice([part for part in _parts_of_group(storage.location, [sorted(ids)], 0) if isinstance(part, Part)]))


def _run_batches(location: str, groups: list[list[str]], group: int) -> Iterator[pa.RecordBatch]:
    """The campaign, key and part of each run in a group of parts."""
    for part in _parts_of_group(location, groups, group):
        if isinstance(part, Part):
            count = len(part.runs)
            columns = {"campaign": [part.campaign] * count, "run": part.runs, "part": [part.id] * count}
            yield pa.RecordBatch.from_pydict(columns)
