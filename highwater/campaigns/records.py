"""The records in a campaign's folder, one for each row of its ledger: those of workers, and those of runs without a result."""

from collections.abc import Mapping
from functools import cached_property

from highwater.campaigns.campaign import result_of, summary_of
from highwater.campaigns.folder import LEDGER, PLANS, RECORDS, REQUEST, CampaignOrder, order_in, series_of
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.plans.text import plan_from_yaml
from highwater.runs.records import performed_record
from highwater.runs.summary import Summary
from pipeline.blocks import Blocks, Series, block_name
from pipeline.errors import PipelineError
from pipeline.ledger import SUFFIX, Ledger, Row
from pipeline.record import Record, decode, decode_block, told_by
from pipeline.storage import Storage, below, storage_at

_TOLD = ["seed", "plan", "plan_digest", "verdict", "live", "digest", "acked"]  # by the record and by the row of a run


class CampaignRecords:
    """The records of a campaign. A record without a row in the ledger is of unfinished work and does not count."""

    def __init__(self, folder: Storage) -> None:
        self._folder = folder
        place = storage_at(below(folder.location, LEDGER))
        self._ledger, self._blocks = Ledger(place), Blocks(place)
        self._finished = self._blocks.finished()
        self._opened: tuple[int, dict[str, Row], dict[str, Record]] = (-1, {}, {})  # the block that was read last
        self.keys = [*sorted(self._ledger.keys()), *(key for block in sorted(self._finished) for key in self._keys_of(block))]

    @property
    def wanted(self) -> int:
        """The number of runs that the campaign was asked for. Raises PipelineError if the folder is none of a campaign."""
        return self._order.order.runs

    def run(self, key: str) -> str:
        """The key of a run in a dataset. Raises PipelineError where the record is damaged."""
        data = self._written(key)
        if data is None:
            return (self._of_block(key) or self._record_of_failure(key)).run
        row = self._row(key)
        if row.state != "done":
            return self._record_of(row).run
        # The record of another run would be taken for one that the dataset has already, and its own run would be left out.
        told = told_by(data, name=self._name(key))
        self._check(key, row, told)
        return str(told["run"])

    def record(self, key: str) -> Record:
        """A record. Raises PipelineError where it is damaged, missing though there is a result, or contradicts that result."""
        data = self._written(key)
        record = self._of_block(key) if data is None else decode(data, name=self._name(key))
        if record is None:
            return self._record_of_failure(key)
        row = self._row(key)
        if row.state != "done":
            return self._record_of(row)  # a worker died between the record and the row
        self._check(key, row, *record.tables["runs"].to_pylist())
        return record

    def _check(self, key: str, row: Row, told: Mapping[str, object]) -> None:
        """Raise PipelineError if a record is of another run or build than the row under its key, or of another result."""
        summary = self._summary(row)
        build = self._order.build.commit
        if told.get("commit") != build:
            raise PipelineError(f"{self._name(key)}: performed by commit {told.get('commit')}, its campaign by {build}")
        for column in _TOLD:
            if told.get(column) != getattr(summary, column):
                words = f"{column} is {told.get(column)}, the row of its run says {getattr(summary, column)}"
                raise PipelineError(f"{self._name(key)}: {words}")

    def _summary(self, row: Row) -> Summary:
        try:
            return result_of(row, self._order.order.told_by(row.key))
        except ValueError as error:
            raise PipelineError(f"{self._place_of(row.key)}: {error}") from error

    def _name(self, key: str) -> str:
        return self._folder.path(f"{RECORDS}/{key}.parquet")

    def _written(self, key: str) -> bytes | None:
        try:
            return self._folder.read(f"{RECORDS}/{key}.parquet")
        except FileNotFoundError:
            return None

    def _keys_of(self, block: int) -> list[str]:
        return [item.key for item in self._series.items(block)]

    def _row(self, key: str) -> Row:
        """The row of a run. Raises PipelineError where it is damaged, or of other code than the campaign."""
        row = self._open(key)[1].get(key) or self._ledger.read(key)
        if self._order.code not in ("", row.code):
            raise PipelineError(
                f"{self._place_of(key)}: written by other code, {row.code}, than its campaign, {self._order.code}"
            )
        return row

    def _place_of(self, key: str) -> str:
        """The file of the row of a run of its own."""
        return self._folder.path(f"{LEDGER}/{key}{SUFFIX}")

    def _of_block(self, key: str) -> Record | None:
        """The record of a run that was stored with those of its block; None if there is none."""
        return self._open(key)[2].get(key)

    def _open(self, key: str) -> tuple[int, dict[str, Row], dict[str, Record]]:
        """The rows and records of the block of this run; nothing if it is in no finished block."""
        number = self._order.order.number(key)
        block = -1 if number is None else number // self._series.size
        if block not in self._finished:
            return (-1, {}, {})
        if self._opened[0] != block:
            name = block_name(block)
            data = self._written(name)
            records = {} if data is None else decode_block(data, name=self._name(name))
            self._opened = (block, {row.key: row for row in self._blocks.rows(block)}, records)
        return self._opened

    @cached_property
    def _series(self) -> Series:
        return series_of(self._order, "")

    def _record_of_failure(self, key: str) -> Record:
        """The record of a run that met its deadline or whose worker died: nobody could write one."""
        row = self._row(key)
        if row.state == "done":
            raise PipelineError(f"{self._name(key)}: missing, though the ledger has the run's result")
        return self._record_of(row)

    def _record_of(self, row: Row) -> Record:
        order = self._order.order
        plan, mix, repeat = self._plan_mix_repeat(row.key)
        summary = summary_of(row, plan.name, plan.seed, plan.protocol, order.backend, repeat=repeat)
        return performed_record(summary, None, plan, mix=",".join(mix), workload=order.workload, commit=self._order.build.commit)

    def _plan_mix_repeat(self, key: str) -> tuple[Plan, tuple[str, ...], str]:
        """The plan of a run, its fault mix, and the command that repeats it."""
        order = self._order.order
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
    def _order(self) -> CampaignOrder:
        """What the campaign was asked to do. Raises PipelineError if the folder is none of a campaign."""
        try:
            return order_in(self._folder)
        except UsageError as error:
            raise PipelineError(str(error)) from error
        except OSError as error:
            raise PipelineError(f"{self._folder.path(REQUEST)}: not the request of a campaign: {error}") from error
