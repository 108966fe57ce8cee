"""The records in a campaign's folder, one for each row of its ledger: those of workers, and those of runs without a result."""

from functools import cached_property

import msgspec

from highwater.campaigns.campaign import summary_of
from highwater.campaigns.folder import LEDGER, PLANS, RECORDS, REQUEST, CampaignOrder, order_in
from highwater.campaigns.order import Trial
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.plans.text import plan_from_yaml
from highwater.runs.records import performed_record
from highwater.runs.summary import Summary
from pipeline.errors import PipelineError
from pipeline.ledger import Ledger, Row
from pipeline.record import Record, decode, run_of
from pipeline.storage import Storage, below, storage_at

_TOLD = ["seed", "plan", "plan_digest", "verdict", "live", "digest", "acked"]  # by the record and by the row of a run


class CampaignRecords:
    """The records of a campaign. A record without a row in the ledger is of unfinished work and does not count."""

    def __init__(self, folder: Storage) -> None:
        self._folder = folder
        self._ledger = Ledger(storage_at(below(folder.location, LEDGER)))
        self.keys = sorted(self._ledger.keys())

    def run(self, key: str) -> str:
        """The key of a run in a dataset. Raises PipelineError where the record is damaged."""
        data = self._written(key)
        return self._record_of_failure(key).run if data is None else run_of(data, name=self._name(key))

    def record(self, key: str) -> Record:
        """A record. Raises PipelineError where it is damaged, missing though there is a result, or contradicts that result."""
        data = self._written(key)
        if data is None:
            return self._record_of_failure(key)
        record = decode(data, name=self._name(key))
        row = self._ledger.read(key)
        if row.state != "done":
            return self._record_of(row)  # a worker died between the record and the row
        (told,) = record.tables["runs"].select(_TOLD).to_pylist()
        try:
            summary = msgspec.json.decode(row.result, type=Summary)
        except msgspec.DecodeError as error:
            raise PipelineError(f"{self._name(key)}: the row of its run holds no summary: {error}") from error
        for column, value in told.items():
            if value != getattr(summary, column):
                raise PipelineError(f"{self._name(key)}: {column} is {value}, the row of its run says {getattr(summary, column)}")
        return record

    def _name(self, key: str) -> str:
        return self._folder.path(f"{RECORDS}/{key}.parquet")

    def _written(self, key: str) -> bytes | None:
        try:
            return self._folder.read(f"{RECORDS}/{key}.parquet")
        except FileNotFoundError:
            return None

    def _record_of_failure(self, key: str) -> Record:
        """The record of a run that met its deadline or whose worker died: nobody could write one."""
        row = self._ledger.read(key)
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
        trial = self._trials.get(key)
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

    @cached_property
    def _trials(self) -> dict[str, Trial]:
        return {trial.key: trial for trial in self._order.order.trials()}
