"""Write the HTML index page, the JUnit file and the summaries of many runs into a store."""

import posixpath
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import repeat as repeat_value
from pathlib import Path

import msgspec

from checkers.verdict import Validity
from highwater.campaigns.goals import table
from highwater.runs.run import attempting
from highwater.runs.summary import Summary
from history.store import write_file
from pipeline.storage import Storage
from reports.index import GoalRow, RunRow, Shown
from reports.junit import junit_xml
from reports.render import campaign_html

INDEX = "index.html"
JUNIT = "junit.xml"
RUNS = "runs.jsonl"


def write_pages(
    storage: Storage,
    under: str,
    summaries: Collection[Summary],
    *,
    title: str,
    repeat: str,
    cases: Sequence[RunRow] | None = None,
    expected: Iterable[bool | None] = repeat_value(None),
    junit: Path | None = None,
    goals: Sequence[str] = (),
) -> None:
    """Write the index page and the JUnit file of these runs below a folder of the store; "" is its root.

    `cases` replaces the runs as rows of the JUnit file; the index lists those that are not as expected. `expected` says of each
    run whether it went as it had to. `junit` is the path of the JUnit file outside of the store. `goals` are the names of the
    goals that the runs together had to reach.
    """
    lines = [GoalRow(name=goal.name, count=goal.count, wanted=goal.wanted) for goal in table(summaries, goals)]
    with attempting(f"reporting {title}", repeat):
        shown = Shown()
        listed = list(shown.of(row_of(summary, under) for summary in summaries)) if cases is None else cases
        xml = junit_xml(listed, suite=title, left_out=shown.left_out).encode()
        if junit is None:
            storage.write(posixpath.join(under, JUNIT), xml)
        else:
            write_file(junit, xml)
        rows = (row_of(run, under, expected=said) for run, said in zip(summaries, expected, strict=False))
        broken = [case for case in cases or () if case.expected is False]
        page = campaign_html(rows, title=title, repeat=repeat, goals=lines, broken=broken)
        storage.write(posixpath.join(under, INDEX), page.encode())


def write_runs(storage: Storage, under: str, summaries: Iterable[Summary]) -> None:
    """Write the summaries of runs as JSON lines below a folder of the store."""
    storage.write(posixpath.join(under, RUNS), b"".join(msgspec.json.encode(summary) + b"\n" for summary in summaries))


def row_of(summary: Summary, under: str, *, expected: bool | None = None) -> RunRow:
    """Make the row for one run on the index page; its links are relative to `under`, a folder of the store."""
    failed = summary.outcome == "harness-fault" and summary.verdict != "INVALID" and summary.crash is None
    return RunRow(
        name=f"{summary.plan} on {summary.protocol}",
        seed=summary.seed,
        protocol=summary.protocol,
        validity=None if failed else Validity.INVALID if summary.crash else Validity[summary.verdict],
        live=summary.live,
        anomalies=tuple(Counter(a.kind for a in summary.anomalies).items()),
        words=summary.reasons[:5],
        expected=expected,
        excused=summary.excused,
        acked=summary.acked,
        leader_changes=summary.leader_changes,
        faults=summary.faults,
        sim_seconds=summary.sim_seconds,
        wall_seconds=summary.wall_seconds,
        link=posixpath.relpath(summary.report, under or ".") if summary.report else "",
        repeat=summary.repeat,
        error=summary.failure or "",
    )
