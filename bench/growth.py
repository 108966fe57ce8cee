"""How the cost of a run grows with its length, partitions, brokers and clients.

`python -m bench.growth` performs and judges the standard plan in one process with one of these larger and the rest as it is, and
prints CPU seconds by event and by row. An exponent of 1 is linear growth: the slope between the first and the last line of a
quantity, both axes logarithmic. `--plot FILE` draws performing and judging together over the events (SVG).

Seconds are processor seconds, the least of `--rounds`: neighbours on the machine make them longer.
"""

import argparse
from collections.abc import Callable
from math import log
from pathlib import Path
from time import process_time

from msgspec import Struct
from msgspec.structs import replace

from bench.plot import Series, plot
from highwater.cli.output import say
from highwater.plans.derive import standard_bench_plan
from highwater.plans.plan import Plan, checked
from highwater.runs.provenance import Build, present_build
from highwater.runs.run import backend_named, judge, perform
from nemesis.schedule import Window


class Point(Struct, frozen=True, kw_only=True):
    """One plan: how large a quantity of it is, what its run had, and what that cost in CPU seconds."""

    quantity: str
    size: int
    events: int
    rows: int
    perform_s: float
    judge_s: float
    verdict: str  # a name of `Validity`


def longer(plan: Plan, times: int) -> Plan:
    """The faults and the load last so many times as long: the schedule is repeated."""
    minutes = range(0, plan.faults_ms * times, plan.faults_ms)
    schedule = tuple(_later(window, ms) for ms in minutes for window in plan.schedule)
    return replace(plan, schedule=schedule, faults_ms=plan.faults_ms * times)


def _later(window: Window, ms: int) -> Window:
    return replace(window, id=f"{window.id}-{ms}", at_ms=window.at_ms + ms, until_ms=window.until_ms + ms)


def with_partitions(plan: Plan, partitions: int) -> Plan:
    """Each of the three topics has a third of these partitions."""
    topics = tuple(replace(topic, partitions=partitions // len(plan.cluster.topics)) for topic in plan.cluster.topics)
    return replace(plan, cluster=replace(plan.cluster, topics=topics))


def with_brokers(plan: Plan, brokers: int) -> Plan:
    """So many brokers, with the same partitions."""
    return replace(plan, cluster=replace(plan.cluster, brokers=brokers))


def with_clients(plan: Plan, clients: int) -> Plan:
    """Five producers for three consumers, each at the rate of the standard plan."""
    producers = clients * 5 // 8
    return replace(plan, workload=replace(plan.workload, producers=producers, consumers=clients - producers))


QUANTITIES: dict[str, tuple[Callable[[Plan, int], Plan], tuple[int, ...]]] = {
    "minutes": (longer, (1, 2, 4, 8)),
    "partitions": (with_partitions, (12, 30, 150, 300)),
    "brokers": (with_brokers, (5, 7, 9)),
    "clients": (with_clients, (8, 16, 32, 64)),
}


def measure(quantity: str, size: int, build: Build, rounds: int) -> Point:
    """Perform and judge the plan of this size, some times over, of which the fastest counts."""
    change, _ = QUANTITIES[quantity]
    plan = checked(replace(change(standard_bench_plan(), size), limit_events=100_000_000))
    performing, judging = [], []
    for _ in range(rounds):
        start = process_time()
        run = perform(plan, backend_named("sim"), build)
        performed = process_time()
        verdict = judge(run.history)
        performing.append(performed - start)
        judging.append(process_time() - performed)
    return Point(
        quantity=quantity,
        size=size,
        events=run.history.manifest.events_handled,
        rows=run.history.events_frame.height + run.history.operations_frame.height,
        perform_s=min(performing),
        judge_s=min(judging),
        verdict=verdict.validity.name,
    )


def exponent(points: list[Point], cost: Callable[[Point], float]) -> float:
    """The growth of a cost over the events from the first point to the last; 1 is linear."""
    return log(cost(points[-1]) / cost(points[0])) / log(points[-1].events / points[0].events)


def main() -> None:
    """Print a line for each size and the growth of each quantity; draw the plot if asked."""
    parser = argparse.ArgumentParser(prog="bench.growth", description=__doc__)
    parser.add_argument("--quantities", nargs="+", choices=QUANTITIES, default=tuple(QUANTITIES))
    parser.add_argument("--rounds", type=int, choices=range(1, 10), default=2, metavar="N")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    if arguments.plot is not None and not arguments.plot.parent.is_dir():
        parser.error(f"{arguments.plot}: there is no such folder")
    build = present_build()
    series: list[Series] = []
    say(f"{'quantity':<11} {'size':>5} {'events':>9} {'rows':>9} {'perform':>9} {'an event':>9} {'judge':>8} {'a row':>8}")
    for quantity in arguments.quantities:
        points = [measure(quantity, size, build, arguments.rounds) for size in QUANTITIES[quantity][1]]
        for point in points:
            event_us, row_us = 1e6 * point.perform_s / point.events, 1e6 * point.judge_s / point.rows
            cells = f"{point.perform_s:>7.2f} s {event_us:>6.1f} µs {point.judge_s:>6.2f} s {row_us:>5.1f} µs  {point.verdict}"
            say(f"{quantity:<11} {point.size:>5} {point.events:>9,} {point.rows:>9,} {cells}")
        performed, judged = exponent(points, lambda p: p.perform_s), exponent(points, lambda p: p.judge_s)
        say(f"{'':<17} performing grows with events to the power of {performed:.2f}, judging {judged:.2f}")
        series.append(Series(name=f"more {quantity}", points=tuple((p.events, p.perform_s + p.judge_s) for p in points)))
    if arguments.plot is not None:
        arguments.plot.write_text(plot(series))


if __name__ == "__main__":
    main()
