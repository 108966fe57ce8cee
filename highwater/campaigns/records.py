"""The records in a campaign's folder, one for each row of its ledger: those of workers, and those of runs without a result."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache, partial
from math import lcm
from typing import NamedTuple

from highwater.campaigns.campaign import result_of, summary_of
from highwater.campaigns.folder import LEDGER, PLANS, RECORDS, REQUEST, CampaignOrder, order_in, series_of
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.plans.text import plan_from_yaml
from highwater.runs.records import performed_record
from highwater.runs.summary import Summary
from pipeline.blocks import Blocks, Series, block_name
from pipeline.dataset import RUNS_OF_A_PART, Entry, Refused
from pipeline.errors import DamagedError, PipelineError
from pipeline.ledger import SUFFIX, Ledger, Row
from pipeline.record import Record
from pipeline.record_file import RecordFile
from pipeline.storage import Storage, below, storage_at

# By the record and by the row of a run.
_TOLD = ("seed", "plan", "plan_digest", "backend", "outcome", "verdict", "live", "excused", "digest", "acked")


class Unusable(NamedTuple):
    """A finished run whose record is damaged, missing, or of something else than its row says."""

    key: str
    words: str


def entries_of_unit(location: str, ingest: str, unit: int) -> Iterator[Entry | Refused]:
    """As `CampaignRecords.entries_of_unit`, for a worker; `ingest` names the work, for which the folder is listed once."""
    return records_for(location, ingest).entries_of_unit(unit)


@lru_cache(maxsize=1)
def records_for(location: str, work: str) -> "CampaignRecords":
    """The records of the campaign in a folder, for a worker; `work` names what it does, for which the folder is listed once."""
    return CampaignRecords(storage_at(location))


class CampaignRecords:
    """The records of a campaign. A record without a row in the ledger is of unfinished work and does not count.

    The files that were read last are kept, because the runs of a block are asked for one after the other.
    """

    def __init__(self, folder: Storage) -> None:
        self._folder = folder
        place = storage_at(below(folder.location, LEDGER))
        self._ledger, self._blocks = Ledger(place), Blocks(place)
        self._finished = self._blocks.finished()
        self._rows: tuple[int, dict[str, Row]] = (-1, {})  # of a block
        self._of_block: tuple[int, RecordFile | None] = (-1, None)
        self._of_run: tuple[str, RecordFile | None] = ("", None)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of all finished runs."""
        return self.keys_in(self.names)

    @property
    def names(self) -> set[str]:
        """What is finished: the keys of rows of their own, and the names of blocks."""
        return self._single | {block_name(block) for block in self._finished}

    def keys_in(self, names: AbstractSet[str]) -> list[str]:
        """The keys of the runs of some `names`."""
        single = [key for key in sorted(names & self._single) if self._block_of(key) not in self._finished]
        blocks = sorted(block for block in self._finished if block_name(block) in names)
        return [*single, *(item.key for block in blocks for item in self._series.items(block))]

    def settled_names(self, names: AbstractSet[str]) -> set[str]:
        """The `names` without a run that the environment lost: resumed work does that again, under the same name."""
        single = {key for key in names & self._single if not self._is_lost(key)}
        blocks = [block for block in sorted(self._finished) if block_name(block) in names]
        lost = {block for block in blocks if any(self._is_lost(item.key) for item in self._series.items(block))}
        return single | {block_name(block) for block in blocks if block not in lost}

    @cached_property
    def _single(self) -> set[str]:
        """The keys of the rows that are files of their own; what a copying program has left beside them is no run."""
        keys = self._ledger.keys()
        guided = bool(keys) and self._order_of_campaign.order.generation
        return {key for key in keys if guided or self._block_of(key) >= 0}

    def entries(self, keys: Iterable[str]) -> Iterator[Entry | Refused]:
        """Runs for a dataset; those that the environment lost are left out, because resumed work does them again."""
        for key in keys:
            if self._is_lost(key):
                continue
            try:
                runs_row = self.told(key)
            except PipelineError as error:
                yield Refused(str(error))
            else:
                yield Entry(str(runs_row["run"]), partial(self.record, key), runs_row)

    @property
    def unit(self) -> int:
        """How many trials one worker takes into a dataset: whole seeds and whole blocks, enough for a part of each protocol.

        Two trials of one seed may be the same run, if two mixes give the same plan. UsageError for a guided campaign.
        """
        order = self._order_of_campaign.order
        if order.generation:
            raise UsageError(f"{self._folder.location}: a guided campaign is taken in by this process; remove --spark")
        least = lcm(self._series.size, len(order.protocols) * len(order.mixes))
        return least * max(1, RUNS_OF_A_PART * len(order.protocols) // least)

    def entries_of_unit(self, unit: int) -> Iterator[Entry | Refused]:
        """The finished runs of a unit, from 0 on."""
        return self.entries(self.keys_of_unit(unit))

    def keys_of_unit(self, unit: int) -> Iterator[str]:
        """The keys of the finished runs of a unit, from 0 on."""
        numbers = range(unit * self.unit, min((unit + 1) * self.unit, self.wanted))
        keys = (self._order_of_campaign.order.item(number).key for number in numbers)
        return (key for key in keys if self._block_of(key) in self._finished or key in self._single)

    def unusable(self, keys: Iterable[str]) -> Iterator[Unusable]:
        """The runs whose records are refused. PipelineError where the store does not answer: that says nothing of a record."""
        for key in keys:
            try:
                self.record(key)
            except DamagedError as error:
                yield Unusable(key, str(error))

    def forget(self, keys: Iterable[str]) -> None:
        """Delete the rows of these runs, of all of their block if its records are together, and the records without a row.

        So no damaged record of a block is read in the place of the one that a run gets when it is done again alone.
        """
        stored = {name.removeprefix(f"{RECORDS}/").removesuffix(".parquet") for name in self._folder.names(RECORDS)}
        forgotten = {*keys}
        blocks = {block for block in map(self._block_of, forgotten) if block in self._finished or block_name(block) in stored}
        forgotten |= {item.key for block in blocks for item in self._series.items(block)}
        self._blocks.forget(sorted(blocks & self._finished))
        self._ledger.forget(forgotten & self._single)
        whole, single = self._finished - blocks, self._single - forgotten
        kept = single | {block_name(block) for block in whole.union(map(self._block_of, single))}
        unused = (name for name in sorted(stored - kept) if self._block_of(name) not in whole)
        self._folder.delete(f"{RECORDS}/{name}.parquet" for name in unused)

    @property
    def location(self) -> str:
        """The location of the folder, which another process opens."""
        return self._folder.location

    @property
    def finished(self) -> int:
        """The number of finished runs, or a little more: a run may have a row of its own beside that of its block."""
        return len(self._single) + sum(len(self._series.numbers(block)) for block in self._finished)

    @property
    def wanted(self) -> int:
        """The number of runs that the campaign was asked for. Raises PipelineError if the folder is none of a campaign."""
        return self._order_of_campaign.order.runs

    def told(self, key: str) -> Mapping[str, object]:
        """The row of a run in the table `runs`. Raises PipelineError where the record is damaged."""
        row, file = self._row_of_run(key), self._file_of(key)
        if file is None or row.state != "done":
            (of_failure,) = self._record_of_failure(row).tables["runs"].to_pylist()
            return dict(of_failure)
        # The record of another run would be taken for one that the dataset has already, and its own run would be left out.
        runs_row = file.runs_row(key)
        self._check_identity(key, row, runs_row)
        return runs_row

    def record(self, key: str) -> Record:
        """A record. Raises PipelineError where it is damaged, missing though there is a result, or contradicts that result."""
        row, file = self._row_of_run(key), self._file_of(key)
        if file is None or row.state != "done":  # of a run that is not done: a worker died between the record and the row
            return self._record_of_failure(row)
        record = file.record(key)
        self._check_identity(key, row, *record.tables["runs"].to_pylist())
        return record

    def _is_lost(self, key: str) -> bool:
        """Whether the environment, and not the protocol, kept this run from ending."""
        try:
            return self._row_of_run(key).state == "lost"
        except PipelineError:
            return False  # damaged: refused with the reason when it is asked for

    def _check_identity(self, key: str, row: Row, runs_row: Mapping[str, object]) -> None:
        """Raise PipelineError if a record is of another run or build than the row under its key, or of another result."""
        summary = self._summary_of_row(row)
        build = self._order_of_campaign.build.commit
        if runs_row.get("commit") != build:
            raise DamagedError(f"{self._name(key)}: performed by commit {runs_row.get('commit')}, its campaign by {build}")
        trial = self._order_of_campaign.order.named(key)
        if trial is not None and summary.protocol != trial.protocol:
            raise DamagedError(f"{self._place_of(key)}: of protocol {summary.protocol}")
        for column in _TOLD:
            if runs_row.get(column) != getattr(summary, column):
                words = f"{column} is {runs_row.get(column)}, the row of its run says {getattr(summary, column)}"
                raise DamagedError(f"{self._name(key)}: {words}")

    def _summary_of_row(self, row: Row) -> Summary:
        """The summary in a row of the ledger. PipelineError if it has none that can be read."""
        try:
            return result_of(row, self._order_of_campaign.order.repeat_of(row.key))
        except ValueError as error:
            raise PipelineError(f"{self._place_of(row.key)}: {error}") from error

    def _name(self, key: str) -> str:
        return self._folder.path(f"{RECORDS}/{key}.parquet")

    def _block_of(self, key: str) -> int:
        """The block of a run; -1 for a run without a number."""
        number = self._order_of_campaign.order.number(key)
        return -1 if number is None else number // self._series.size

    def _row_of_run(self, key: str) -> Row:
        """The row of a run. Raises PipelineError where it is damaged, or of other code than the campaign."""
        block = self._block_of(key)
        if block in self._finished and self._rows[0] != block:
            self._rows = (block, {row.key: row for row in self._blocks.rows(block)})
        row = self._rows[1].get(key) or self._ledger.read(key)
        if self._order_of_campaign.code not in ("", row.code):
            raise PipelineError(
                f"{self._place_of(key)}: written by other code, {row.code}, than its campaign, {self._order_of_campaign.code}"
            )
        return row

    def _place_of(self, key: str) -> str:
        """The file of the row of a run of its own."""
        return self._folder.path(f"{LEDGER}/{key}{SUFFIX}")

    def _file_of(self, key: str) -> RecordFile | None:
        """The file with the record of a run, that of its block or one of its own; None if there is none."""
        block = self._block_of(key)
        if block >= 0 and self._of_block[0] != block:
            self._of_block = (block, self._open_record_file(block_name(block), None))
        together = self._of_block[1]
        if block >= 0 and together is not None and together.holds(key):
            return together
        if self._of_run[0] != key:
            self._of_run = (key, self._open_record_file(key, key))
        return self._of_run[1]

    def _open_record_file(self, name: str, key: str | None) -> RecordFile | None:
        """A file of records; None if it does not exist. Raises DamagedError if it cannot be read."""
        try:
            data = self._folder.read(f"{RECORDS}/{name}.parquet")
        except FileNotFoundError:
            return None
        except OSError as error:  # of a local disk
            raise DamagedError(f"{self._name(name)}: cannot be read: {error.strerror or error}") from error
        return RecordFile(data, name=self._name(name), key=key)

    @cached_property
    def _series(self) -> Series:
        return series_of(self._order_of_campaign, "")

    def _record_of_failure(self, row: Row) -> Record:
        """The record of a run that met its deadline or whose worker died: nobody could write one."""
        if row.state == "done":
            raise DamagedError(f"{self._name(row.key)}: missing, though the ledger has the run's result")
        order = self._order_of_campaign.order
        plan, mix, repeat = self._plan_mix_repeat(row.key)
        summary = summary_of(row, plan.name, plan.seed, plan.protocol, order.backend, repeat=repeat)
        return performed_record(
            summary, None, plan, mix=",".join(mix), workload=order.workload, commit=self._order_of_campaign.build.commit
        )

    def _plan_mix_repeat(self, key: str) -> tuple[Plan, tuple[str, ...], str]:
        """The plan of a run, its fault mix, and the command that repeats it."""
        order = self._order_of_campaign.order
        trial = order.named(key)
        if trial is not None:
            request = order.request(trial)
            return request.plan(trial.seed), trial.faults, request.command(trial.seed)
        name = f"{PLANS}/{key}.yaml"
        try:
            text = self._folder.read(name).decode()
        except FileNotFoundError:
            raise PipelineError(f"{self._folder.path(REQUEST)}: has no run {key}") from None
        path = self._folder.path(name)
        return plan_from_yaml(text, path), order.mixes[0], f"highwater run --plan {path}"

    @cached_property
    def _order_of_campaign(self) -> CampaignOrder:
        """What the campaign was asked to do. Raises PipelineError if the folder is none of a campaign."""
        try:
            return order_in(self._folder)
        except UsageError as error:
            raise PipelineError(str(error)) from error
        except OSError as error:
            raise PipelineError(f"{self._folder.path(REQUEST)}: not the request of a campaign: {error}") from error
