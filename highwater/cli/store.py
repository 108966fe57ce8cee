"""`highwater store ingest|compact|verify|mend`: a dataset of runs as Parquet for Spark, Polars and DuckDB (docs/data.md)."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import sleep
from typing import Annotated, NamedTuple
from uuid import uuid4

import typer
from msgspec import Struct

from highwater.campaigns.records import CampaignRecords, entries_of_unit
from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.output import Ticker, complain, progress, say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs.records import stored_record, stored_run
from history import store as runs
from history.errors import HistoryError
from pipeline import dataset as datasets
from pipeline import dataset_mending, inventory
from pipeline.dataset import Entry, Ingested, Refused
from pipeline.dataset_on_spark import Units, ingest_on_spark, verify_on_spark
from pipeline.errors import OwnedError, PipelineError
from pipeline.session import session_if_asked
from pipeline.storage import Storage, storage_at
from pipeline.verification import verify as verified

Dataset = Annotated[str, typer.Argument(metavar="DIR", help="Folder or URI (s3://...) of the dataset.")]


class _Source(NamedTuple):
    """Runs to take in: the name of their campaign, how many there are or will be, and the finished ones.

    `records` are those of a campaign, None for a folder of stored runs.
    """

    campaign: str
    wanted: int
    finished: int
    entries: Callable[[], Iterator[Entry | Refused]]
    records: CampaignRecords | None = None


class IngestOptions(Struct, frozen=True, kw_only=True):
    """The options of `highwater store ingest`."""

    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Folders of campaigns, or folders that contain stored runs.")
    ]
    dataset: Annotated[str, typer.Option("--dataset", metavar="DIR", help="Folder or URI (s3://...) of the dataset.")]
    campaign: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the campaign; the name of each source's folder if not given.")
    ] = None
    evidence: Annotated[bool, typer.Option("--evidence", help="Take in operations and events of stored runs, too.")] = False
    follow: Annotated[
        float | None,
        typer.Option(
            min=0.1, metavar="SECONDS", help="Take in what is new, every so many seconds, until all runs of the campaign are in."
        ),
    ] = None
    on: options.OnSpark = options.OnSpark()
    json: options.AsJson = False


@takes(IngestOptions)
def ingest(arguments: IngestOptions) -> int:
    """Take runs into a dataset. Runs that it has already are skipped; runs that cannot be read are reported and left out."""
    storage = storage_at(arguments.dataset)
    if arguments.follow is not None:
        return _follow_campaign(storage, arguments, arguments.follow)
    sources = [_open_source(source, arguments.campaign, evidence=arguments.evidence) for source in arguments.sources]
    units = [_units_for_spark(source) for source in sources] if arguments.on.spark else [None] * len(sources)
    total = Ingested()
    unfinished = []
    with (
        session_if_asked(arguments.on.spark, arguments.on.settings) as spark,
        progress(sum(source.finished for source in sources), quiet=arguments.json) as ticker,
    ):
        for source, path, works in zip(sources, arguments.sources, units, strict=True):
            if spark is None or works is None:
                of_source = datasets.ingest(storage, source.campaign, _with_ticks(source.entries(), ticker))
            else:
                of_source = ingest_on_spark(spark, storage, source.campaign, works, ticker.tick)
            total += of_source
            missing = source.wanted - of_source.new - of_source.present - of_source.refused
            unfinished += [(missing, f"{path}: {missing} of {source.wanted} runs of the campaign are not finished, and left out")]
    left_out = [f"and {total.refused - len(total.words)} more"] if total.refused > len(total.words) else []
    for line in (*total.words, *left_out, *(words for missing, words in unfinished if missing)):
        complain(line)
    if arguments.json:
        count = sum(missing for missing, _ in unfinished)
        refusal = [*total.words, *left_out]
        say_json({"new": total.new, "present": total.present, "parts": total.parts, "refused": refusal, "unfinished": count})
    else:
        present = f"{total.present} runs were there already, {total.refused} refused"
        say(f"{total.new} runs taken in, {total.parts} parts written; {present}")
    return ExitCode.USAGE if total.refused else ExitCode.VALID


def _follow_campaign(storage: Storage, arguments: IngestOptions, every_s: float) -> int:
    """Take in the runs of a campaign as they are finished; prints a line whenever there are some."""
    if len(arguments.sources) != 1 or arguments.on.spark is not None or arguments.evidence:
        raise UsageError("--follow takes in one running campaign, in this process: give one folder, and no --spark or --evidence")
    (place,) = arguments.sources
    name = arguments.campaign or storage_at(place).root.rsplit("/", 1)[-1]
    seen: set[str] = set()
    total = Ingested()
    while True:
        records = CampaignRecords(storage_at(place))
        new = records.settled_names(records.names - seen)
        try:
            of_round = datasets.ingest(storage, name, records.entries(records.keys_in(new))) if new else Ingested()
        except OwnedError:  # a compaction, or another ingest: with the next look
            sleep(every_s)
            continue
        seen |= new
        total += of_round
        for line in of_round.words:
            complain(line)
        if of_round.new and not arguments.json:
            say(f"{total.new + total.present} of {records.wanted} runs are in the dataset, {total.refused} refused")
        if total.new + total.present + total.refused >= records.wanted:
            break
        sleep(every_s)
    if arguments.json:
        say_json({"new": total.new, "present": total.present, "parts": total.parts, "refused": total.words, "unfinished": 0})
    return ExitCode.USAGE if total.refused else ExitCode.VALID


def _units_for_spark(source: _Source) -> Units:
    """The runs of a source for the workers of Spark. UsageError for those that are taken in by this process."""
    if source.records is None:
        raise UsageError(f"{source.campaign}: stored runs are taken in by this process; remove --spark")
    unit = source.records.unit
    entries = partial(entries_of_unit, source.records.location, str(uuid4()))
    return Units(count=-(-source.wanted // unit), entries=entries, runs=unit)


def compact(dataset: Dataset, *, json: options.AsJson = False) -> int:
    """Join small parts of a dataset to parts of about 50 runs; its rows stay the same."""
    before, after = datasets.compact(_open_existing(dataset))
    say_json({"before": before, "after": after}) if json else say(f"{before} parts before, {after} now")
    return ExitCode.VALID


class VerifyOptions(Struct, frozen=True, kw_only=True):
    """The options of `highwater store verify`."""

    dataset: Dataset
    on: options.OnSpark = options.OnSpark()
    json: options.AsJson = False


@takes(VerifyOptions)
def verify(arguments: VerifyOptions) -> int:
    """Compare every file of a dataset with its manifest: rows, SHA-256, schema, keys. Exit 13 where it is damaged."""
    storage = _open_existing(arguments.dataset)
    with session_if_asked(arguments.on.spark, arguments.on.settings) as spark:
        damages = verified(storage) if spark is None else verify_on_spark(spark, storage)
    if arguments.json:
        say_json({"damages": [damage._asdict() for damage in damages]})
    else:
        for damage in damages:
            say(f"{storage.path(damage.name)}: {damage.words}")
        say(f"{len(damages)} damages" if damages else "whole")
    return ExitCode.LABORATORY_FAILED if damages else ExitCode.VALID


def mend(dataset: Dataset, *, json: options.AsJson = False) -> int:
    """Set damaged parts of a dataset aside: their runs are taken in again by `store ingest`, and until then not answered for."""
    storage = _open_existing(dataset)
    mended = dataset_mending.mend(storage)
    if json:
        parts = [{"part": part.part, "campaign": part.campaign, "runs": part.runs} for part in mended.aside]
        say_json({"aside": parts, "damages": [damage._asdict() for damage in mended.left]})
    else:
        for line in dataset_mending.words_of(mended.aside):
            say(line)
        for damage in mended.left:
            say(f"{storage.path(damage.name)}: {damage.words}")
        say(f"{len(mended.aside)} parts set aside, {len(mended.left)} damages stay")
    return ExitCode.LABORATORY_FAILED if mended.left else ExitCode.VALID


def _open_existing(dataset: str) -> Storage:
    """The storage of a dataset. PipelineError if it has no file of one: nothing is done to a folder that is something else."""
    if Path(dataset).is_file():
        raise PipelineError(f"{dataset}: a dataset is a folder, and this is a file")
    storage = storage_at(dataset)
    if not any(datasets.is_of_a_part(name) or name == inventory.NAME for name in storage.names()):
        raise PipelineError(f"{dataset}: no dataset is stored here")
    return storage


def _open_source(source: str, campaign: str | None, *, evidence: bool) -> _Source:
    """A campaign's folder if it has a ledger, else a folder of stored runs. Raises PipelineError or HistoryError for neither."""
    storage = storage_at(source)
    name = campaign or storage.root.rsplit("/", 1)[-1]
    records = CampaignRecords(storage)
    if records.finished:
        return _Source(name, records.wanted, records.finished, lambda: records.entries(records.keys), records)
    if storage.folder is None:
        raise PipelineError(f"{source}: not the folder of a campaign, and stored runs are read from a local folder only")
    directories = list(runs.find_runs(storage.folder))
    return _Source(name, len(directories), len(directories), lambda: _entries_of_runs(directories, evidence=evidence))


def _entries_of_runs(directories: Sequence[Path], *, evidence: bool) -> Iterator[Entry | Refused]:
    """The stored runs as entries of a dataset; a run that cannot be read is refused with the reason."""
    for directory in directories:
        try:
            run = stored_run(directory)
        except HistoryError as error:
            yield Refused(str(error))
        else:
            yield Entry(run, partial(stored_record, directory, evidence=evidence))


def _with_ticks(entries: Iterator[Entry | Refused], ticker: Ticker) -> Iterator[Entry | Refused]:
    for entry in entries:
        ticker.tick(words=entry.run if isinstance(entry, Entry) else "refused")
        yield entry
