"""`make bench`: time and memory of simulating and judging on one core: warm, as a first run, and as a campaign.

Warm: the standard plan, several times in one process. Cold: `highwater run --seed 1`, all of a new process, with store and page.
Campaign: `highwater campaign` of twenty seeds, all of its processes. `bench.phases` says where the seconds of both go.

The plan is the same on every machine (highwater.plans.derive.standard_bench_plan), so the numbers of two commits on one machine
can be compared. Seconds are processor seconds, on which other jobs of the machine have little influence. The verdict is printed
too: the numbers mean nothing unless it is VALID.
"""

import argparse
import cProfile
import io
import os
import pstats
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import msgspec
from msgspec import Struct

from bench.phases import Spent
from highwater.cli.output import say
from highwater.plans.derive import standard_bench_plan
from highwater.rig.backend import Run
from highwater.runs.memory import peak_mib
from highwater.runs.provenance import Build, present_build
from highwater.runs.run import backend_named, judge, perform
from highwater.runs.summary import Summary, summarize

_PROFILE_LINES = 25
CAMPAIGN = "0..19"  # seeds


class Measurement(Struct, frozen=True, kw_only=True):
    """The result of one benchmark round; rates are per CPU second of simulating and judging together."""

    commit: str
    plan_digest: str
    verdict: str
    sim_seconds: float
    events: int
    ops: int
    perform_seconds: float
    judge_seconds: float
    sim_seconds_per_second: float
    events_per_second: int
    ops_per_second: int
    peak_memory_mib: int


def measure(build: Build) -> Measurement:
    """Simulate and judge the standard plan once, in this process."""
    start = process_time()
    run = _perform(build)
    performed = process_time()
    verdict = judge(run.history)
    judged = process_time()
    summary = summarize(standard_bench_plan(), run.history, verdict, repeat="make bench", wall_seconds=judged - start)
    return _measurement(summary, build, perform_seconds=performed - start, judge_seconds=judged - performed)


def _perform(here: Build) -> Run:
    return perform(standard_bench_plan(), backend_named("sim"), here)


def _measurement(summary: Summary, build: Build, *, perform_seconds: float, judge_seconds: float) -> Measurement:
    seconds = perform_seconds + judge_seconds
    return Measurement(
        commit=build.commit,
        plan_digest=summary.plan_digest,
        verdict=summary.verdict,
        sim_seconds=round(summary.sim_seconds, 1),
        events=summary.events,
        ops=summary.ops,
        perform_seconds=round(perform_seconds, 2),
        judge_seconds=round(judge_seconds, 2),
        sim_seconds_per_second=round(summary.sim_seconds / seconds, 1),
        events_per_second=round(summary.events / seconds),
        ops_per_second=round(summary.ops / seconds),
        peak_memory_mib=peak_mib(),
    )


class Whole(Struct, frozen=True, kw_only=True):
    """What a whole command costs, in CPU seconds of all its processes, and by phase (`bench.phases`, a process of its own)."""

    cpu_seconds: float
    sim_seconds_per_second: float
    phases: Spent


def cold_run() -> Whole:
    """The first run of a user."""
    return _whole("1..1", "run", "--seed", "1", stores=True)


def campaign() -> Whole:
    """Twenty seeds, one after the other."""
    return _whole(CAMPAIGN, "campaign", "--seeds", CAMPAIGN, "--jobs", "1", stores=False)


def _whole(seeds: str, *command: str, stores: bool) -> Whole:
    phases = [sys.executable, "-m", "bench.phases", seeds, *(["--stores"] if stores else [])]
    spent = msgspec.json.decode(subprocess.run(phases, stdout=subprocess.PIPE, check=True).stdout, type=Spent)
    with TemporaryDirectory() as folder:
        cpu_seconds = _cpu_seconds(*command, "--store", folder)
    return Whole(cpu_seconds=cpu_seconds, sim_seconds_per_second=round(spent.sim_seconds / cpu_seconds, 1), phases=spent)


def _cpu_seconds(*command: str) -> float:
    """CPU seconds of a command of `highwater` and of its processes."""
    process = subprocess.Popen([sys.executable, "-m", "highwater", *command], stdout=subprocess.DEVNULL)
    used = os.wait4(process.pid, 0)[2]
    return round(used.ru_utime + used.ru_stime, 2)


def _say_whole(name: str, whole: Whole) -> None:
    spent = {key.removesuffix("_s"): value for key, value in msgspec.structs.asdict(whole.phases).items() if key.endswith("_s")}
    shares = ", ".join(f"{key} {100 * value / sum(spent.values()):.0f} %" for key, value in spent.items())
    say(f"{name:<24} {whole.cpu_seconds} s, {whole.sim_seconds_per_second} simulated seconds a second: {shares}")


def profile_lines(build: Build) -> str:
    """Profile one round by function; a first round without profiling absorbs imports and first calls."""
    judge(_perform(build).history)
    profiler = cProfile.Profile()
    profiler.enable()
    judge(_perform(build).history)
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(_PROFILE_LINES)
    return text.getvalue().replace(f"{Path(__file__).parents[1]}/", "")


def main() -> None:
    """Run the rounds, print the result of the fastest, and write the results as JSON."""
    parser = argparse.ArgumentParser(prog="bench.simulator", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("store/bench.json"))
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the fastest counts")
    parser.add_argument("--warm", action="store_true", help="leave out the cold run and the campaign")
    parser.add_argument("--profile", action="store_true", help="print a profile instead of measuring")
    arguments = parser.parse_args()
    build = present_build()
    if arguments.profile:
        say(profile_lines(build))
        return
    best = min((measure(build) for _ in range(arguments.rounds)), key=lambda m: m.perform_seconds + m.judge_seconds)
    for name, value in msgspec.structs.asdict(best).items():
        say(f"{name:<24} {value}")
    say(f"{'help_seconds':<24} {_cpu_seconds('--help')}")
    wholes = {} if arguments.warm else {"cold_run": cold_run(), "campaign": campaign()}
    for name, whole in wholes.items():
        _say_whole(name, whole)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    result = {**msgspec.structs.asdict(best), **wholes}
    arguments.output.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")


if __name__ == "__main__":
    main()
