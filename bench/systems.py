"""One plan on several systems, again and again: which runs lose records, whether each met the hazard, and how soon they write.

`make bench-systems` prints a table for docs/systems.md. One cluster runs at a time; on a busy machine figures are upper bounds.

The hazard of KIP-101 is that records are acknowledged and the followers do not know it. It is shown if the log of a broker says,
after the first kill, that a replica truncated below what was acknowledged before the kill, or that the next leader began with a
lower high watermark. Where a release logs neither, the hazard is not known; a run without the hazard is vacuous.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from highwater.plans.plan import on_system, parsed_system
from highwater.plans.text import load_plan
from highwater.runs.provenance import present_build
from highwater.runs.run import Judged, Keep, backend_named, carry_out
from history.event import EventKind
from history.history import History
from history.op import OpType

PLAN = Path("corpus/real/kip101.yaml")
SYSTEMS = ("kafka:0.10.2.2", "kafka:0.11.0.3", "kafka:1.1.1", "kafka:2.8.2", "kafka:3.9.1", "kafka:3.9.1-kraft", "kafka:4.1.0")
_NS = 1e9


class Figure(Struct, frozen=True, kw_only=True):
    """One run: its result in words, the acknowledged records that followers did not know of (None: not told), its first write."""

    words: str
    lost: bool
    exposed: int | None
    first_write_s: float | None
    load: float


def acknowledged_before(history: History, time_ns: int) -> int:
    """The end of the records that were acknowledged under acks=all before this time."""
    done = (row for row in history.operations if row.type is OpType.OK and row.f == "produce" and row.time_ns < time_ns)
    return max((row.offset + 1 for row in done if row.offset is not None), default=0)


def exposed(history: History) -> int | None:
    """How many acknowledged records a replica did not know to be committed after the first kill; None if no row tells."""
    killed = next((row.time_ns for row in history.events if row.kind is EventKind.NODE_STOPPED), None)
    if killed is None:
        return 0
    acknowledged = acknowledged_before(history, killed)
    later = [row for row in history.events if row.time_ns > killed]
    led = [row.hw for row in later if row.kind is EventKind.BECAME_LEADER and row.hw is not None]
    # A truncation to the end of an epoch cuts nothing that was acknowledged, and says nothing about the high watermark.
    cut = [row.offset for row in later if row.kind is EventKind.TRUNCATE and row.offset is not None and row.offset < acknowledged]
    return max(0, acknowledged - min(led + cut)) if led + cut else None


def figure_of(judged: Judged, load: float) -> Figure:
    """The figures of one run."""
    first = next((row.time_ns for row in judged.history.operations if row.type is OpType.OK and row.f == "produce"), None)
    return Figure(
        words=judged.summary.failure or judged.summary.words,
        lost=any(anomaly.kind == "lost-write" for anomaly in judged.verdict.anomalies),
        exposed=exposed(judged.history),
        first_write_s=None if first is None else first / _NS,
        load=load,
    )


def measured(system: str, runs: int, store: Path) -> Iterator[Figure]:
    """Perform the plan so many times on one system."""
    plan = on_system(load_plan(PLAN), parsed_system(system))
    build = present_build()
    for _ in range(runs):
        load = os.getloadavg()[0]
        yield figure_of(carry_out(plan, backend_named("process"), build=build, repeat="", keep=Keep(store=store)), load)


def row_of(system: str, figures: list[Figure]) -> str:
    """One line of the table."""
    met = [figure for figure in figures if figure.exposed]
    unknown = sum(figure.exposed is None for figure in figures)
    hazard = f"{len(met)} of {len(figures)}" + (f", {unknown} not told" if unknown else "")
    first = sorted(figure.first_write_s for figure in figures if figure.first_write_s is not None)
    words = ", ".join(sorted({figure.words for figure in figures}))
    load = f"{min(f.load for f in figures):.0f} to {max(f.load for f in figures):.0f}"
    writes = f"{first[0]:.0f} to {first[-1]:.0f} s" if first else "never"
    return f"| {system} | {len(figures)} | {sum(f.lost for f in figures)} | {hazard} | {words} | {writes} | {load} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", default=SYSTEMS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", type=Path, default=Path("store/bench-systems"))
    asked = parser.parse_args()
    print("| system | runs | lost records | hazard met | verdicts | first write after | load |")  # noqa: T201
    print("|---|---|---|---|---|---|---|")  # noqa: T201
    for system in asked.systems:
        print(row_of(system, list(measured(system, asked.runs, asked.store))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
