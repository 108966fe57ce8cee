"""`make bench-spark`: campaigns, judging and analytics on Spark beside the path without it, in one run on one machine.

Seconds are CPU seconds of all processes: driver, JVM, Python workers and their daemons. Both sides must give the same result. The
sizes are options, so that a small run shows whether everything works; the asks are for the sizes of the defaults. The machine
must be idle; its load at the start is printed with the table.

    python -m bench.spark [campaign judge giant dataset] [--seeds 500] [--runs 1000] [--rows 10000000] [--giant-rows 100000000]
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.cost import Cost, cost_of
from highwater.cli.output import say
from highwater.errors import HarnessError
from highwater.runs.provenance import present_build
from history.store import write_file

_HIGHWATER = (sys.executable, "-m", "highwater")
_GIANT = (sys.executable, "-m", "bench.giant")
_PROTOCOLS = ("safe", "v3", "article", "truncate-to-hw", "isr-eager", "kip279", "isr-join-hw-only", "no-min-isr-check")
_PLANTED = "1"  # the seed of the planted errors
_CLEAN = (0, 10, 11, 12)  # exit codes of a verdict


class Sizes(Struct, frozen=True, kw_only=True):
    """How large the benchmarks are, the master, and where they keep their files."""

    seeds: int
    runs: int
    rows: int
    giant_rows: int
    master: str
    folder: Path


class Row(Struct, frozen=True, kw_only=True):
    """A row of the table: what was measured without Spark (None: nothing to compare with) and with it, and the limit."""

    name: str
    ask: str
    here: Cost | None
    spark: Cost | None
    met: bool


def campaign(sizes: Sizes) -> Iterator[Row]:
    """A campaign on local processes and on Spark."""
    command = (*_HIGHWATER, "campaign", "--seeds", f"0..{sizes.seeds - 1}", "--json", "--store")
    local_cost = _run(*command, str(sizes.folder / "local"), "--jobs", str(_cores(sizes)))
    spark = _run(*command, str(sizes.folder / "spark"), "--spark", sizes.master)
    _same(local_cost, spark, "tally")
    yield Row(
        name=f"campaign of {sizes.seeds:,} seeds",
        ask="≤ 1.05 x local + 15 s",
        here=local_cost,
        spark=spark,
        met=spark.cpu_s <= 1.05 * local_cost.cpu_s + 15,
    )


def judge(sizes: Sizes) -> Iterator[Row]:
    """Stored runs judged on local processes and on Spark, and once more with nothing new."""
    store = _stored_runs(sizes)
    command = (*_HIGHWATER, "judge", str(store), "--json", "--ledger")
    local_cost = _run(*command, str(sizes.folder / "judged-here"), "--jobs", str(_cores(sizes)))
    on_spark = (*command, str(sizes.folder / "judged-on-spark"), "--spark", sizes.master)
    spark = _run(*on_spark)
    again = _run(*on_spark)
    for cost in (spark, again):
        _same(local_cost, cost, "digest")
    name = f"{sizes.runs:,} stored runs judged"
    yield Row(name=name, ask="≤ 1.2 x local + 20 s", here=local_cost, spark=spark, met=spark.cpu_s <= 1.2 * local_cost.cpu_s + 20)
    yield Row(name="again, with nothing new", ask="≤ 20 s", here=None, spark=again, met=again.cpu_s <= 20)


def giant(sizes: Sizes) -> Iterator[Row]:
    """One large history with planted anomalies in one process, and a larger one on Spark. Writing them is not counted."""
    small, large = (_written_path(sizes, rows) for rows in (sizes.rows, sizes.giant_rows))
    local_cost = _run(*_GIANT, "judge", str(small))
    yield Row(
        name=f"one history of {sizes.rows:,} rows, all checkers, one process",
        ask="≤ 60 s, ≤ 3 GB",
        here=local_cost,
        spark=None,
        met=local_cost.cpu_s <= 60 and local_cost.peak_mib["python"] <= 3 * 1024,
    )
    spark = _run(*_GIANT, "judge", str(large), "--spark", sizes.master)
    yield Row(
        name=f"one history of {sizes.giant_rows:,} rows on Spark",
        ask="≤ 600 s by the clock, ≤ 2 GB a process",
        here=None,
        spark=spark,
        met=spark.clock_s <= 600 and max(spark.peak_mib.values()) <= 2 * 1024,
    )


def dataset(sizes: Sizes) -> Iterator[Row]:
    """A campaign taken into a dataset, and all questions about it."""
    (campaign,) = (_stored_runs(sizes) / "campaigns").iterdir()
    place = str(sizes.folder / "dataset")
    ingest = (*_HIGHWATER, "store", "ingest", str(campaign), "--campaign", "runs", "--json", "--dataset")
    local_cost = _run(*ingest, place)
    spark = _run(*ingest, str(sizes.folder / "dataset-by-spark"), "--spark", sizes.master)
    _same(local_cost, spark, "new")
    yield Row(
        name=f"ingest of a campaign of {sizes.runs:,} runs",
        ask="≤ 40 s; ≤ 1.2 x local + 20 s",
        here=local_cost,
        spark=spark,
        met=local_cost.cpu_s <= 40 and spark.cpu_s <= 1.2 * local_cost.cpu_s + 20,
    )
    page = str(sizes.folder / "questions.html")
    spark = _run(*_HIGHWATER, "query", "all", "--dataset", place, "--spark", sizes.master, "--page", page, "--json")
    yield Row(name="all questions about them, with their page", ask="≤ 120 s", here=None, spark=spark, met=spark.cpu_s <= 120)


BENCHMARKS: dict[str, Callable[[Sizes], Iterator[Row]]] = {
    "campaign": campaign,
    "judge": judge,
    "giant": giant,
    "dataset": dataset,
}


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| benchmark | ask | without Spark | on Spark | met |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.name} | {row.ask} | {_words(row.here)} | {_words(row.spark)} | {'yes' if row.met else 'no'} |" for row in rows
    ]
    return "\n".join(lines)


def _words(cost: Cost | None) -> str:
    if cost is None:
        return "none"
    peaks = ", ".join(f"{kind} {peak:,} MiB" for kind, peak in sorted(cost.peak_mib.items()))
    return f"{cost.cpu_s:.1f} s ({cost.clock_s:.0f} s by the clock; {peaks})"


def machine() -> str:
    """The machine and the build, in one line."""
    cpu = next((line.partition(": ")[2] for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = next(int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    build = present_build()
    commit = build.commit[:12] + ("+" if build.dirty else "")
    return (
        f"{os.cpu_count()} cores ({cpu}), {memory} GiB, Python {build.versions['python']}, commit {commit}; "
        f"load at the start {os.getloadavg()[0]:.1f}"
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _cores(sizes: Sizes) -> int:
    """As many local processes as the master has cores, so that both sides compete alike for the caches."""
    digits = sizes.master.partition("[")[2].rstrip("]").partition(",")[0]
    return int(digits) if digits.isdecimal() else os.cpu_count() or 1


def _stored_runs(sizes: Sizes) -> Path:
    """A folder of finished runs of eight protocols. Not counted; kept in the folder for the next benchmark."""
    store = sizes.folder / "runs"
    if not store.exists():
        per_protocol = max(1, sizes.runs // len(_PROTOCOLS))
        seeds = ("--seeds", f"0..{per_protocol - 1}", "--protocol", ",".join(_PROTOCOLS))
        _run(*_HIGHWATER, "campaign", *seeds, "--keep-all", "--store", str(store), "--json")
    return store


def _written_path(sizes: Sizes, rows: int) -> Path:
    folder = sizes.folder / f"giant-{rows}"
    if not folder.exists():
        _run(*_GIANT, "write", str(folder), "--rows", str(rows), "--planted", _PLANTED)
    return folder


def _run(*command: str) -> Cost:
    cost = cost_of(command, environment={"POLARS_MAX_THREADS": "1"})
    if cost.exit_code not in _CLEAN or (command[: len(_GIANT)] == _GIANT and cost.exit_code):
        raise HarnessError(f"{' '.join(command[1:])}: exit code {cost.exit_code}: {cost.output[-300:]}")
    return cost


def _same(local_cost: Cost, spark: Cost, field: str) -> None:
    """Check that both sides gave the same result, or their seconds mean nothing."""
    without_spark, on_spark = (msgspec.json.decode(cost.output)[field] for cost in (local_cost, spark))
    if without_spark != on_spark:
        raise HarnessError(f"{field} differs: {without_spark} without Spark, {on_spark} on Spark")


def main() -> None:
    """Run the benchmarks; print their table, or write it to a file."""
    parser = argparse.ArgumentParser(prog="bench.spark", description=__doc__)
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help=f"of {', '.join(BENCHMARKS)}; all if none is given")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--giant-rows", type=int, default=100_000_000)
    parser.add_argument("--master", default=f"local[{os.cpu_count()}]")
    parser.add_argument("--folder", type=Path, help="keep all files here, and use what an earlier run wrote")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table to this file, too")
    arguments = parser.parse_args()
    chosen = arguments.benchmarks or list(BENCHMARKS)
    if unknown := [name for name in chosen if name not in BENCHMARKS]:
        parser.error(f"unknown benchmark {unknown[0]!r}; the benchmarks are {', '.join(BENCHMARKS)}")
    message = machine()
    with tempfile.TemporaryDirectory() as aside:
        sizes = Sizes(
            seeds=arguments.seeds,
            runs=arguments.runs,
            rows=arguments.rows,
            giant_rows=arguments.giant_rows,
            master=arguments.master,
            folder=(arguments.folder or Path(aside)).absolute(),
        )
        rows = []
        for name in chosen:
            for row in BENCHMARKS[name](sizes):
                say(f"{row.name}: {_words(row.here)} without Spark, {_words(row.spark)} on Spark; {row.ask}: {row.met}")
                rows.append(row)
    text = f"`python -m bench.spark {' '.join(sys.argv[1:])}`: {message}.\n\n{table(rows)}\n"
    say(f"\n{text}")
    if arguments.write is not None:
        write_file(arguments.write, text.encode())


if __name__ == "__main__":
    main()
