"""Write the HTML index page, the JUnit file and the summaries of many runs."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from checkers.verdict import Validity
from highwater.campaigns.goals import table
from highwater.runs.run import attempting
from highwater.runs.summary import Summary
from history.store import write_file
from reports.index import GoalRow, RunRow
from reports.junit import junit_xml
from reports.render import campaign_html

INDEX = "index.html"
JUNIT = "junit.xml"
RUNS = "runs.jsonl"


class Pages(Struct, frozen=True, kw_only=True):
    """Paths of the index page, the JUnit file and the summaries."""

    index: Path
    junit: Path
    runs: Path


def write_pages(
    folder: Path,
    summaries: Sequence[Summary],
    *,
    title: str,
    repeat: str,
    cases: Sequence[RunRow] | None = None,
    junit: Path | None = None,
    goals: Sequence[str] = (),
) -> Pages:
    """Write the index page, the JUnit file and the summaries of these runs.

    `cases` replaces the runs as rows of the JUnit file; `junit` is its path outside of `folder`.

    `goals` are the names of the goals that the runs together had to reach.
    """
    rows = [row_of(summary, folder) for summary in summaries]
    lines = [GoalRow(name=goal.name, count=goal.count, wanted=goal.wanted) for goal in table(summaries, goals)]
    pages = Pages(index=folder / INDEX, junit=junit or folder / JUNIT, runs=folder / RUNS)
    # Summaries first, so that they are kept if rendering a page fails.
    write_file(pages.runs, b"".join(msgspec.json.encode(summary) + b"\n" for summary in summaries))
    with attempting(f"reporting {title}", repeat):
        write_file(pages.junit, junit_xml(rows if cases is None else cases, suite=title))
        write_file(pages.index, campaign_html(rows, title=title, repeat=repeat, goals=lines))
    return pages


def row_of(summary: Summary, folder: Path) -> RunRow:
    """Make the row for one run on the index page; its links are relative to `folder`."""
    failed = summary.outcome == "harness-fault" and summary.verdict != "INVALID"
    words = [a.words for a in summary.anomalies] or [*summary.unchecked, *summary.not_live]
    return RunRow(
        name=f"{summary.plan} on {summary.protocol}",
        seed=summary.seed,
        protocol=summary.protocol,
        validity=None if failed else Validity[summary.verdict],
        live=summary.live,
        anomalies=tuple(sorted(Counter(a.kind for a in summary.anomalies).items())),
        words=tuple(words[:5]),
        excused=summary.excused,
        acked=summary.acked,
        leader_changes=summary.leader_changes,
        faults=summary.faults,
        sim_seconds=summary.sim_seconds,
        wall_seconds=summary.wall_seconds,
        link=os.path.relpath(summary.report, folder) if summary.report else "",
        repeat=summary.repeat,
        error=summary.failure or "",
    )
