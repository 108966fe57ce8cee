"""`highwater store ingest|compact|verify`: a dataset of runs as Parquet for Spark, Polars and DuckDB (docs/data.md)."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from highwater.campaigns.records import CampaignRecords
from highwater.cli import options
from highwater.cli.output import Ticker, complain, progress, say, say_json
from highwater.exit_codes import ExitCode
from highwater.runs.records import stored_record, stored_run
from history import store as runs
from history.errors import HistoryError
from pipeline import dataset as datasets
from pipeline.dataset import Entry
from pipeline.errors import PipelineError
from pipeline.record import Record
from pipeline.storage import Storage, storage_at

Dataset = Annotated[str, typer.Argument(metavar="DIR", help="Folder or URI (s3://...) of the dataset.")]


class _Source(NamedTuple):
    """Runs to take in. `keys` name them in the source; `run` and `record` read one by its key. `wanted`: runs of the campaign."""

    campaign: str
    keys: list[str]
    run: Callable[[str], str]
    record: Callable[[str], Record]
    wanted: int


def ingest(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Folders of campaigns, or folders that contain stored runs.")
    ],
    *,
    dataset: Annotated[str, typer.Option("--dataset", metavar="DIR", help="Folder or URI (s3://...) of the dataset.")],
    campaign: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the campaign; the name of each source's folder if not given.")
    ] = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="Take in operations and events of stored runs, too.")] = False,
    json: options.AsJson = False,
) -> int:
    """Take runs into a dataset. Runs that it has already are skipped; runs that cannot be read are reported and left out."""
    storage = storage_at(dataset)
    campaign_sources = [_source(source, campaign, evidence=evidence) for source in sources]
    refused: list[str] = []
    new = present = parts = 0
    with progress(sum(len(source.keys) for source in campaign_sources), quiet=json) as ticker:
        for source in campaign_sources:
            ingested = datasets.ingest(storage, source.campaign, _entries(source, refused, ticker))
            new, present, parts = new + ingested.new, present + ingested.present, parts + ingested.parts
    for line in refused:
        complain(line)
    unfinished = 0
    for source, path in zip(campaign_sources, sources, strict=True):
        missing = source.wanted - len(source.keys)
        unfinished += missing
        if missing:
            complain(f"{path}: {missing} of {source.wanted} runs of the campaign are not finished, and left out")
    if json:
        say_json({"new": new, "present": present, "parts": parts, "refused": refused, "unfinished": unfinished})
    else:
        say(f"{new} runs taken in, {parts} parts written; {present} runs were there already, {len(refused)} refused")
    return ExitCode.USAGE if refused else ExitCode.VALID


def compact(dataset: Dataset, *, json: options.AsJson = False) -> int:
    """Join small parts of a dataset to parts of about 50 runs; its rows stay the same."""
    before, after = datasets.compact(_existing(dataset))
    say_json({"before": before, "after": after}) if json else say(f"{before} parts before, {after} now")
    return ExitCode.VALID


def verify(dataset: Dataset, *, json: options.AsJson = False) -> int:
    """Compare every file of a dataset with its manifest: rows, SHA-256, schema, keys. Exit 13 where it is damaged."""
    storage = _existing(dataset)
    damages = datasets.verify(storage)
    if json:
        say_json({"damages": [damage._asdict() for damage in damages]})
    else:
        for damage in damages:
            say(f"{storage.path(damage.name)}: {damage.words}")
        say(f"{len(damages)} damages" if damages else "whole")
    return ExitCode.LABORATORY_FAILED if damages else ExitCode.VALID


def _existing(dataset: str) -> Storage:
    storage = storage_at(dataset)
    if not storage.names():
        raise PipelineError(f"{dataset}: no dataset is stored here")
    return storage


def _source(source: str, campaign: str | None, *, evidence: bool) -> _Source:
    """A campaign's folder if it has a ledger, else a folder of stored runs. Raises PipelineError or HistoryError for neither."""
    storage = storage_at(source)
    name = campaign or storage.root.rsplit("/", 1)[-1]
    records = CampaignRecords(storage)
    if records.keys:
        return _Source(name, records.keys, records.run, records.record, records.wanted)
    if storage.folder is None:
        raise PipelineError(f"{source}: not the folder of a campaign, and stored runs are read from a local folder only")
    directories = [str(directory) for directory in runs.find_runs(storage.folder)]
    record = partial(_stored, evidence=evidence)
    return _Source(name, directories, lambda key: stored_run(Path(key)), record, len(directories))


def _stored(key: str, *, evidence: bool) -> Record:
    return stored_record(Path(key), evidence=evidence)


def _entries(source: _Source, refused: list[str], ticker: Ticker) -> Iterator[Entry]:
    """The runs of a source. What cannot be read is noted in `refused`."""

    def attempt(read: Callable[[str], Record], key: str) -> Record | None:
        try:
            return read(key)
        except (HistoryError, PipelineError) as error:
            refused.append(str(error))
            return None

    for key in source.keys:
        ticker.tick(key.rsplit("/", 1)[-1])
        try:
            run = source.run(key)
        except (HistoryError, PipelineError) as error:
            refused.append(str(error))
            continue
        yield Entry(run, partial(attempt, source.record, key))
