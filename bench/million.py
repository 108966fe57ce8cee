"""`make bench-million`: a campaign of very many runs on Spark whose simulation costs nothing, killed in the middle and resumed.

What is left is the cost of everything around simulation and judging: tasks, rows, records, tallies, pages. Every run stores a
summary and a record of the size of real ones: those of one short run, under the seed of its own. The driver kills itself
(SIGKILL) when half of the runs are finished; a second one resumes the campaign, and compares every run with what it must be.
Then the campaign is taken into a dataset, and this is verified.

    python -m bench.million [--runs 1000000] [--master MASTER] [--folder FOLDER]

Prints the load, CPU seconds of all processes, and the largest resident memory of the driver, of a Python process and of a JVM.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from time import perf_counter

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from bench.cost import Cost, Kind, cost_of
from bench.local_spark import CONF, local_spark
from bench.spark import machine
from highwater.campaigns.campaign import Limits, Request, Watch, exit_code
from highwater.campaigns.folder import RECORDS, CampaignFolder, CampaignOrder
from highwater.campaigns.mending import mend
from highwater.campaigns.order import Order, Trial
from highwater.campaigns.pages import write_pages
from highwater.campaigns.tally import tally
from highwater.cli.output import say
from highwater.errors import HarnessError
from highwater.runs.provenance import Build
from highwater.runs.records import performed_record
from highwater.runs.run import Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import attempt
from pipeline.blocks import Series
from pipeline.ledger import Row
from pipeline.record import Record
from pipeline.record_file import decode, encode, encode_block
from pipeline.session import session
from pipeline.stamp import present_stamp
from pipeline.storage import storage_at
from pipeline.tasks import results_on_spark
from pipeline.work import perform

RUNS = 1_000_000
STANDALONE = "standalone"
_SUMMARY, _RECORD = "summary.json", "record.parquet"
_BUILD = Build(commit="", dirty=False, versions={})
_SECONDS = 2  # simulated, of the run that all others repeat
_NOT_LIVE_EACH = 1_009  # seeds


class Outcome(Struct, frozen=True, kw_only=True):
    """What a driver prints at its end. `passes_s`: seconds by the clock after the last run, for tally and pages."""

    runs: int
    not_live: int
    exit: int
    passes_s: float


def write_template(folder: Path) -> None:
    """Perform and judge one short run, and keep its summary and its record."""
    order = Order(first=1, last=1, seconds=_SECONDS)
    task = order.request(trial := order.trial(0)).task(trial.seed, build=_BUILD, keep=Keep())
    summary, judged_run = attempt(task)
    record = performed_record(summary, judged_run, task.plan, mix="", workload=order.workload, commit="")
    (folder / _SUMMARY).write_bytes(msgspec.json.encode(summary))
    (folder / _RECORD).write_bytes(encode(record))


@cache
def _template(folder: Path) -> tuple[Summary, Record]:
    summary = msgspec.json.decode((folder / _SUMMARY).read_bytes(), type=Summary)
    return summary, decode((folder / _RECORD).read_bytes())


def summary_of_seed(folder: Path, seed: int) -> Summary:
    """The summary of the run that is not performed: a few seeds are not live."""
    live = seed % _NOT_LIVE_EACH != 0
    not_live = () if live else ("a run that is said to be not live",)
    repeat = Request().command(seed)
    return replace(_template(folder)[0], seed=seed, plan=f"seed-{seed}", repeat=repeat, live=live, not_live=not_live)


def _record_of_seed(folder: Path, seed: int) -> Record:
    """The record of the template as that of another run."""
    record = _template(folder)[1]
    _, _, run_id = record.run.partition("/")
    own_columns = {"run": f"seed-{seed}/{run_id}"}
    live = summary_of_seed(folder, seed).live
    own: dict[str, dict[str, object]] = {"runs": {"seed": seed, "plan": f"seed-{seed}", "live": live}, "verdicts": {"live": live}}
    tables = {}
    for table, rows in record.tables.items():
        for name, value in (own_columns | own.get(table, {})).items():
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(name), pa.array([value] * rows.num_rows, rows.schema.field(name).type))
        tables[table] = rows
    return Record(protocol=record.protocol, tables=tables)


class Pretence:
    """The runs of a block, without performing them."""

    def __init__(self, folder: Path, under: str) -> None:
        self._folder, self._under = folder, under
        self._records: dict[str, Record] = {}

    def do(self, payload: bytes) -> bytes:
        """The summary of a trial, as `campaigns.folder.TrialBatch` returns it."""
        trial = msgspec.json.decode(payload, type=Trial)
        self._records[trial.key] = _record_of_seed(self._folder, trial.seed)
        return msgspec.json.encode(summary_of_seed(self._folder, trial.seed))

    def store(self, block: str) -> None:
        """Store the records of the block."""
        data = encode_block([*self._records.values()], [*self._records])
        storage_at(self._folder / "store").write(f"{self._under}/{RECORDS}/{block}.parquet", data)

    def total(self, rows: Sequence[Row]) -> bytes:
        """The tally of the runs."""
        return msgspec.json.encode(tally(msgspec.json.decode(row.result, type=Summary) for row in rows))


def drive(folder: Path, runs: int, master: str, *, killed_at: int | None) -> Outcome:
    """The driver: perform or resume the campaign in the folder, and write its pages."""
    order = Order(first=0, last=runs - 1)
    place = CampaignFolder(storage_at(folder / "store"), CampaignOrder(order=order, build=_BUILD, code=present_stamp().code))
    place.series = Series(count=runs, item=order.item, batch=partial(Pretence, folder, place.under))
    seen = 0

    def count(runs: int, words: str) -> None:
        nonlocal seen
        seen += runs
        if killed_at is not None and seen >= killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    conf = CONF if master.startswith("spark:") else {}
    with session(master, conf) as spark:
        mend(place, partial(results_on_spark, spark)) if place.is_resumable() else place.begin()
        campaign = place.perform(partial(perform, spark=spark), Watch(Limits()), count)
    start = perf_counter()
    for seed, summary in zip_longest(range(runs), campaign.summaries):
        if summary is None or seed is None or summary != summary_of_seed(folder, seed):
            raise HarnessError(f"seed {seed}: the campaign has another run: {summary}")
    code = exit_code(campaign, unknown_allowed_percent=0)
    write_pages(place.storage, place.under, campaign.summaries, campaign.tally, title=order.title, repeat="", code=code)
    counted = campaign.tally
    if counted != tally(campaign.summaries):
        raise HarnessError(f"the tally of the workers is {counted}")
    return Outcome(runs=counted.runs, not_live=counted.not_live, exit=int(code), passes_s=round(perf_counter() - start, 1))


def _measured(folder: Path, runs: int, master: str) -> str:
    """Run the two drivers, and say in words what they cost."""
    # What tasks run is pickled by name, so the driver may not be the module `__main__`.
    start = (sys.executable, "-c", "from bench.million import main; main()")
    command = (*start, "--runs", str(runs), "--master", master, "--folder", str(folder), "--drive")
    killed = cost_of((*command, "--killed-at", str(runs // 2)), environment={"POLARS_MAX_THREADS": "1"})
    if killed.exit_code != -signal.SIGKILL:
        raise HarnessError(f"the first driver was not killed: exit code {killed.exit_code}: {killed.output[-300:]}")
    resumed = cost_of(command, environment={"POLARS_MAX_THREADS": "1"})
    if resumed.exit_code:
        raise HarnessError(f"the second driver: exit code {resumed.exit_code}: {resumed.output[-300:]}")
    outcome = msgspec.json.decode(resumed.output, type=Outcome)
    if (outcome.runs, outcome.not_live) != (runs, -(-runs // _NOT_LIVE_EACH)):
        raise HarnessError(f"the tally is {outcome}")
    return f"{_campaign_words(runs, master, killed, resumed, outcome.passes_s)}\n{_dataset_words(folder, runs, master)}"


def _dataset_words(folder: Path, runs: int, master: str) -> str:
    """Take the campaign into a dataset and verify that, both on Spark, and say in words what it costs."""
    place = str(folder / "dataset")
    conf = CONF if master.startswith("spark:") else {}
    spark = ("--spark", master, *(word for key, value in conf.items() for word in ("--spark-conf", f"{key}={value}")), "--json")
    (campaign,) = (folder / "store" / "campaigns").iterdir()
    words = []
    for command, wanted in (
        (("ingest", str(campaign), "--dataset", place), f'{{"new":{runs},"present":0,'),
        (("verify", place), '{"damages":[]}'),
    ):
        cost = cost_of((sys.executable, "-m", "highwater", "store", *command, *spark), environment={"POLARS_MAX_THREADS": "1"})
        if not cost.output.startswith(wanted):
            raise HarnessError(f"store {command[0]}: {cost.output[:300]}")
        words.append(
            f"{command[0]}: {cost.cpu_s:.0f} CPU s ({cost.java_cpu_s:.0f} of JVMs), {1000 * cost.cpu_s / runs:.2f} ms a run, "
            f"{cost.clock_s:.0f} s by the clock; peaks: {_peaks(cost)}"
        )
    return "\n".join(words)


def _campaign_words(runs: int, master: str, killed: Cost, resumed: Cost, passes_s: float) -> str:
    cpu_s, java_s = killed.cpu_s + resumed.cpu_s, killed.java_cpu_s + resumed.java_cpu_s
    return (
        f"{runs:,} runs on {master.partition(':')[0]}: {cpu_s:.0f} CPU s ({java_s:.0f} of JVMs), "
        f"{1000 * cpu_s / runs:.2f} ms a run; "
        f"killed after {killed.clock_s:.0f} s, resumed and ended after {resumed.clock_s:.0f} s, "
        f"{passes_s:.0f} s of them for comparison, tally and pages; peaks: {_peaks(killed, resumed)}"
    )


def _peaks(*costs: Cost) -> str:
    kinds: tuple[tuple[str, Kind], ...] = (("driver", "driver"), ("another Python", "python"), ("JVM", "java"))
    return ", ".join(f"{name} {max(cost.peak_mib.get(kind, 0) for cost in costs):,} MiB" for name, kind in kinds)


def main() -> None:
    """Measure one campaign, or be its driver."""
    parser = argparse.ArgumentParser(prog="bench.million", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--master", default="local-cluster[2,1,1024]", help=f"of Spark; {STANDALONE!r} starts a cluster")
    parser.add_argument("--folder", type=Path, help="keep the campaign here")
    parser.add_argument("--drive", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--killed-at", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        say(msgspec.json.encode(drive(options.folder, options.runs, options.master, killed_at=options.killed_at)).decode())
        return
    message = machine()
    with tempfile.TemporaryDirectory(prefix="highwater-million-") as aside:
        folder = Path(options.folder or aside).absolute()
        for name in ("store", "dataset"):
            shutil.rmtree(folder / name, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        write_template(folder)
        if options.master == STANDALONE:
            with local_spark() as cluster:
                words = _measured(folder, options.runs, cluster.master)
        else:
            words = _measured(folder, options.runs, options.master)
    say(f"`python -m bench.million {' '.join(sys.argv[1:])}`: {message}, at the end {os.getloadavg()[2]:.1f}.\n{words}")


if __name__ == "__main__":
    main()
