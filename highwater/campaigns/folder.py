"""A campaign with a folder in a store: it survives the death of any process, and goes on where it was.

    STORE/campaigns/<name>/request.json            the order and the build; written before the first run
                           ledger/<key>.json       the summary of a finished run (pipeline.ledger)
                           ledger/blocks/          those of up to a hundred runs together, of Spark (pipeline.blocks)
                           records/<key>.parquet   its record for the dataset (campaigns.records); not of runs without a result
                           records/<block>.parquet those of a block
                           runs.jsonl  index.html  junit.xml  causes.json
    STORE/<plan>/<run id>/                         operations, events, verdict and page of a failed run; of all with keep_all

A worker writes a run aside, copies it to the store with the manifest last, then writes its record, then its row of the ledger.
So a row means that everything of its run is stored, and doing a run twice replaces files by equal ones.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from highwater.campaigns.campaign import Campaign, Performer, Watch, perform_until, result_of, summary_of, tally_of_block
from highwater.campaigns.order import Order, Trial
from highwater.campaigns.pages import RUNS
from highwater.campaigns.tally import Counts, Tally, tally
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan
from highwater.rig.backend import REPEATABLE, Backend
from highwater.runs.provenance import Build, present_build
from highwater.runs.records import performed_record
from highwater.runs.run import Judged, Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import Task, attempt
from history import store
from history.errors import NOT_JSON
from pipeline.blocks import Blocks, Header, Series, finished_blocks, finished_parts, finished_rows
from pipeline.errors import PipelineError
from pipeline.items import Job
from pipeline.ledger import Ledger, Row
from pipeline.record import Record
from pipeline.record_file import encode, encode_block
from pipeline.stamp import present_stamp
from pipeline.storage import Storage, below, storage_at

REQUEST = "request.json"
RECORDS = "records"
LEDGER = "ledger"
PLANS = "plans"  # of a guided campaign
_ASIDE = ".aside"

OnRuns = Callable[[int, str], None]  # how many runs are finished now, and the last of them in words


class Keeping(Backend, Protocol):
    """A backend whose clusters stand for several runs."""

    @property
    def built(self) -> "Counter[str]":
        """Why clusters were built so far, in words."""

    def close(self) -> None:
        """Take the standing cluster down."""

    def is_to_be_repeated(self, plan: Plan, code: ExitCode, *, shared: bool) -> bool:
        """Take in how the last run was judged, and say whether it must be performed again, on a cluster of its own."""


class CampaignOrder(Struct, frozen=True, kw_only=True):
    """The content of request.json."""

    order: Order
    build: Build
    code: str = ""  # digest of all code, changes that are not committed included (pipeline.stamp)


def present_asked(order: Order) -> CampaignOrder:
    """The order with the code that runs now."""
    return CampaignOrder(order=order, build=present_build(), code=present_stamp().code)


def order_in(storage: Storage, folder: str = "") -> CampaignOrder:
    """The request in a campaign's folder. FileNotFoundError if there is none, UsageError if it is damaged."""
    name = f"{folder}/{REQUEST}" if folder else REQUEST
    try:
        return msgspec.json.decode(storage.read(name), type=CampaignOrder)
    except NOT_JSON as error:
        raise UsageError(f"{storage.path(name)}: not the request of a campaign: {error}") from error


class CampaignFolder:
    """The folder of a campaign. `under` is its name relative to the store. `kept` performs the runs on clusters that it keeps."""

    def __init__(self, storage: Storage, ordered: CampaignOrder, kept: Keeping | None = None) -> None:
        self.storage = storage
        self.kept = kept
        self.asked = ordered
        self.under = f"campaigns/{ordered.order.name}"
        self.place = storage_at(below(storage.location, self.under))
        self._rows = storage_at(below(storage.location, f"{self.under}/{LEDGER}"))
        self.ledger, self.blocks = Ledger(self._rows), Blocks(self._rows)
        self.series = series_of(ordered, storage.location)

    def begin(self) -> None:
        """Forget all runs of an earlier campaign in this folder."""
        # Without a request nothing can be resumed, so a half-emptied folder is begun anew.
        self.storage.delete([f"{self.under}/{REQUEST}"])
        self.ledger.forget(self.ledger.keys())
        self.blocks.clear()
        self.storage.delete(name for name in self.storage.names(self.under) if not name.startswith(f"{self.under}/{LEDGER}/"))
        self.storage.write(f"{self.under}/{REQUEST}", msgspec.json.format(msgspec.json.encode(self.asked), indent=2) + b"\n")

    def is_resumable(self) -> bool:
        """Whether there are runs of this campaign. UsageError if the folder has runs of another order or build."""
        try:
            stored = order_in(self.storage, self.under)
        except FileNotFoundError:
            return False
        difference = _difference_of_orders(stored, self.asked)
        if difference is not None:
            place = self.storage.path(f"{self.under}/{REQUEST}")
            raise UsageError(f"{place}: cannot resume: {difference}; without --resume the campaign begins anew")
        return True

    def mend_rows(self) -> list[str]:
        """Forget the rows that do not count, so that their runs are done again (`Ledger.mend`); a sentence for each."""
        code = self.asked.code
        return [*self.ledger.mend(code, self._why_not_counted), *self.blocks.mend(code, self._why_not_counted, self.series)]

    def _why_not_counted(self, row: Row) -> str | None:
        """Why the row of a finished run does not count, though it is as it was written; None if it counts."""
        if row.state == "done":
            try:
                result_of(row, self.asked.order.repeat_of(row.key))
            except ValueError as error:
                return str(error)
        return None

    def perform(
        self,
        performer: Performer,
        watch: Watch,
        on_runs: OnRuns,
        *,
        deadline_s: float | None = None,
        goals: tuple[str, ...] = (),
    ) -> Campaign:
        """Do the runs that have no row, until all are done, a limit is reached or Ctrl-C is pressed; return all finished runs.

        `on_runs` is called for finished runs, those of an earlier part of the campaign first. `deadline_s` is for one run; the
        runs together must reach the `goals`.
        """
        start = perf_counter()
        order = self.asked.order

        def finished(row: Row) -> tuple[Summary]:
            summary = self._summary(row)
            on_runs(1, f"{summary.plan} {summary.verdict}")
            return (summary,)

        def finished_block(header: Header) -> Tally:
            on_runs(header.rows, f"block {header.block}")
            return tally_of_block(header)

        for part in finished_parts(self.series, self._rows):
            if isinstance(part, Header):
                watch.count_block(finished_block(part))
            else:
                watch.count(*finished(part))
        stopped = watch.reached
        if stopped is None:
            function = partial(perform_trial, self.asked, self.storage.location, kept=self.kept)
            job = Job(function=function, ledger=self.ledger.location, deadline_s=deadline_s)
            stopped = perform_until(self.series, job, finished, watch, performer=performer, finished_block=finished_block)
            self.tidy()
        counts = Counts()
        runs = self.write_runs(self._summary_lines(counts))
        return Campaign(
            wanted=order.runs,
            summaries=runs,
            tally=counts.told(goals),
            stopped=stopped if len(runs) < order.runs else None,
            wall_seconds=round(perf_counter() - start, 1),
        )

    def _summary_lines(self, counts: Counts) -> Iterator[bytes]:
        """The summaries of all finished runs as JSON, those of workers as they are; counted as they are passed on.

        Of a whole block its tally is added.
        """
        for header, rows in finished_blocks(self.series, self._rows):
            if header is not None:
                counts.add_tally(tally_of_block(header))
            for row in rows:
                if header is None:
                    counts.add(self._summary(row))
                yield bytes(row.result) if row.state == "done" else msgspec.json.encode(self._summary(row))

    def finished(self) -> Iterator[Summary]:
        """The summaries of all finished runs, in the order of their numbers; edited plans of a guided campaign have none."""
        return map(self._summary, finished_rows(self.series, self._rows))

    def _summary(self, row: Row) -> Summary:
        return told_by(self.asked.order, row)

    def write_runs(self, lines: Iterable[bytes]) -> Collection[Summary]:
        """Write runs.jsonl, a summary a line; return the summaries."""
        name = f"{self.under}/{RUNS}"
        return StoredRuns(self.storage, name, self.storage.write_lines(name, lines))

    def tidy(self) -> None:
        """Delete what killed workers left."""
        if self.storage.folder is not None:
            rmtree(self.storage.folder / self.under / _ASIDE, ignore_errors=True)


class StoredRuns(Collection[Summary]):
    """The summaries in a file runs.jsonl. They are read each time anew, because a million of them do not fit in memory."""

    def __init__(self, storage: Storage, name: str, count: int) -> None:
        self._storage = storage
        self._name = name
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Summary]:
        decoder = msgspec.json.Decoder(Summary)
        return map(decoder.decode, self._storage.lines(self._name))

    def __contains__(self, summary: object) -> bool:
        return any(stored == summary for stored in self)


def told_by(order: Order, row: Row) -> Summary:
    """The summary of a finished run of an order."""
    trial = order.named(row.key)
    assert trial is not None, row.key
    repeat = order.request(trial).command(trial.seed)
    return summary_of(row, f"seed-{trial.seed}", trial.seed, trial.protocol, order.backend, repeat=repeat)


def _difference_of_orders(stored: CampaignOrder, ordered: CampaignOrder) -> str | None:
    """How the campaign in a folder differs from the one that is asked for; None if it is the same."""
    if stored.order != ordered.order:
        names = (field.name for field in fields(Order))
        name = next(name for name in names if getattr(stored.order, name) != getattr(ordered.order, name))
        return f"its {name} is {getattr(stored.order, name)!r}, not {getattr(ordered.order, name)!r}"
    if stored.build != ordered.build:
        return f"it was performed by {_words(stored.build)}, not by {_words(ordered.build)}"
    return "it was performed by code with other uncommitted changes" if stored.code != ordered.code else None


def _words(build: Build) -> str:
    changed = " with uncommitted changes" if build.dirty else ""
    return f"commit {build.commit[:12] or 'unknown'}{changed} ({', '.join(f'{k} {v}' for k, v in build.versions.items())})"


def perform_trial(ordered: CampaignOrder, location: str, payload: bytes, *, kept: Keeping | None = None) -> bytes:
    """Perform and judge a trial, store what is kept of it in the store at `location`; returns the summary as JSON.

    Raises KeyboardInterrupt after Ctrl-C: the run is stored as far as it got, but it is not finished.
    """
    trial = msgspec.json.decode(payload, type=Trial)
    task = ordered.order.request(trial).task(trial.seed, build=ordered.build, keep=Keep())
    return perform_and_store(ordered, location, task, key=trial.key, mix=trial.faults, kept=kept)


def perform_and_store(
    ordered: CampaignOrder, location: str, task: Task, *, key: str, mix: tuple[str, ...], kept: Keeping | None = None
) -> bytes:
    """As `perform_trial`, for any task; `key` is that of its row in the ledger."""
    summary, record = _perform_and_store(ordered, storage := storage_at(location), task, mix, kept)
    storage.write(f"campaigns/{ordered.order.name}/{RECORDS}/{key}.parquet", encode(record))
    return msgspec.json.encode(summary)


def _perform_and_store(
    ordered: CampaignOrder, storage: Storage, task: Task, mix: tuple[str, ...], kept: Keeping | None = None
) -> tuple[Summary, Record]:
    """Perform and judge a run, store its evidence, and return its summary and its record."""
    order = ordered.order
    with _folder_aside(storage, order) as place:
        keep = Keep(store=place, only_failures=not order.keep_all, only_failed_pages=True)
        task = replace(task, keep=keep, branches=order.counts_branches, signs=order.reads_signs)
        summary, judged_run = attempt(task) if kept is None else _attempt_on(kept, task)
        if place != storage.folder:
            _copy_runs(place, storage)
    if summary.outcome == "interrupted":
        raise KeyboardInterrupt
    commit = ordered.build.commit
    return summary, performed_record(summary, judged_run, task.plan, mix=",".join(mix), workload=order.workload, commit=commit)


def _attempt_on(kept: Keeping, task: Task) -> tuple[Summary, Judged | None]:
    """Perform and judge a run on a cluster that may have had others; again on a new one, if they may be to blame."""
    summary, judged_run = attempt(task, kept)
    of_run = None if judged_run is None else judged_run.history.manifest
    shared = of_run is not None and bool(of_run.earlier_runs or of_run.beside)
    if kept.is_to_be_repeated(task.plan, summary.exit_code, shared=shared):
        summary, judged_run = attempt(task, kept)
        kept.is_to_be_repeated(task.plan, summary.exit_code, shared=False)
    return summary, judged_run


def series_of(ordered: CampaignOrder, location: str) -> Series:
    """All trials of a campaign as items of work; what Spark keeps of them goes into the store at `location`."""
    return Series(count=ordered.order.runs, item=ordered.order.item, batch=partial(TrialBatch, ordered, location))


class TrialBatch:
    """Performs the trials of one block; their records are stored together."""

    def __init__(self, ordered: CampaignOrder, location: str) -> None:
        self._ordered = ordered
        self._storage = storage_at(location)
        self._records: dict[str, Record] = {}

    def do(self, payload: bytes) -> bytes:
        """As `perform_trial`, but the record is kept for `store`."""
        trial = msgspec.json.decode(payload, type=Trial)
        task = self._ordered.order.request(trial).task(trial.seed, build=self._ordered.build, keep=Keep())
        summary, self._records[trial.key] = _perform_and_store(self._ordered, self._storage, task, trial.faults)
        return msgspec.json.encode(summary)

    def store(self, block: str) -> None:
        """Store the records of the block."""
        name = f"campaigns/{self._ordered.order.name}/{RECORDS}/{block}.parquet"
        if self._records:
            self._storage.write(name, encode_block(list(self._records.values()), list(self._records)))

    def total(self, rows: Sequence[Row]) -> bytes:
        """The tally of the runs of these rows."""
        return msgspec.json.encode(tally(told_by(self._ordered.order, row) for row in rows))


@contextmanager
def _folder_aside(storage: Storage, order: Order) -> Iterator[Path]:
    """The folder in which a run is written first: aside, because another worker may do the same run at the same time."""
    if order.backend not in REPEATABLE:  # each run is another one, and has a number of its own
        if storage.folder is None:
            raise PipelineError(f"{storage.location}: runs on real nodes need a store on this machine")
        yield storage.folder
        return
    aside = None if storage.folder is None else storage.folder / "campaigns" / order.name / _ASIDE
    if aside is not None:
        aside.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="highwater-run-", dir=aside) as place:
        yield Path(place)


def _copy_runs(place: Path, storage: Storage) -> None:
    """Copy the runs below a folder to the store, each with its manifest last, and delete other files of earlier copies."""
    for manifest in place.rglob(store.MANIFEST):
        folder = manifest.parent
        under = folder.relative_to(place).as_posix()
        storage.put_folder(folder, under, last=store.MANIFEST)
        own = {f"{under}/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*")}
        storage.delete(name for name in storage.names(under) if name not in own)
