"""Write the HTML index page, the JUnit file and the summaries of many runs into a store."""

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import repeat as repeat_value
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from checkers.engine.verdict import Validity, counts
from highwater.campaigns.marks import NONE, ONLY_IGNORED, Marks
from highwater.campaigns.smaller import Smaller
from highwater.campaigns.tally import Tally
from highwater.exit_codes import WORDS, ExitCode
from highwater.runs.run import attempting
from highwater.runs.summary import Summary
from history.errors import NOT_JSON
from history.store import write_file
from pipeline.storage import Storage
from reports.index import Banner, GoalRow, RunRow, Shown
from reports.junit import junit_xml
from reports.render import campaign_html

INDEX = "index.html"
JUNIT = "junit.xml"
RUNS = "runs.jsonl"
CAUSES = "causes.json"
BRANCHES = "branches.txt"  # of the protocol, that no run took
_TONES = {
    ExitCode.VALID: "valid",
    ExitCode.INVALID: "invalid",
    ExitCode.NOT_LIVE: "not-live",
    ExitCode.NOT_DETERMINISTIC: "invalid",
}


def write_pages(
    storage: Storage,
    under: str,
    summaries: Collection[Summary],
    counted: Tally,
    *,
    title: str,
    repeat: str,
    cases: Sequence[RunRow] | None = None,
    expected: Iterable[bool | None] = repeat_value(None),
    junit: Path | None = None,
    code: ExitCode,
    names: Iterable[str | None] = repeat_value(None),
    smaller: Mapping[str, Smaller] = MappingProxyType({}),
    known: Set[str] | None = None,
    marks: Marks = NONE,
) -> None:
    """Write the index page and the JUnit file of these runs below a folder of the store; "" is its root.

    `cases` replaces the runs as rows of the JUnit file; the index lists those that are not as expected. `expected` says of each
    run whether it went as it had to. `junit` is the path of the JUnit file outside of the store. `counted` is the
    tally of the runs. `code` is the verdict on all runs, `names` are those of runs that have another one
    than their own, `smaller` has the shrunk plans by the folder of the run, `known` the signatures of `known_causes`.
    """
    lines = [GoalRow(name=goal.name, count=goal.count, wanted=goal.wanted) for goal in counted.reached]
    with attempting(f"reporting {title}", repeat):
        shown_pages = Shown()
        listed = list(shown_pages.of(row_of(summary, under, marks=marks) for summary in summaries)) if cases is None else cases
        xml = junit_xml(listed, suite=title, left_out=shown_pages.left_out).encode()
        if junit is None:
            storage.write(posixpath.join(under, JUNIT), xml)
        else:
            write_file(junit, xml)
        rows = (
            row_of(run, under, expected=expectation, name=name, smaller=smaller.get(run.store or ""), marks=marks)
            for run, expectation, name in zip(summaries, expected, names, strict=False)
        )
        broken = [case for case in cases or () if case.expected is False]
        banner = Banner(tone=_TONES.get(code, "unknown"), word=WORDS[code])
        if code is ExitCode.VALID and marks.by_signature:
            failed = (run for run, as_expected in zip(summaries, expected, strict=False) if not as_expected)
            banner = Banner(tone="unknown", word=ONLY_IGNORED) if marks.lines(failed) else banner
        page = campaign_html(rows, title=title, repeat=repeat, goals=lines, broken=broken, banner=banner, known=known)
        storage.write(posixpath.join(under, INDEX), page.encode())
        causes = Causes(known=None if known is None else sorted(known), found=list(counted.signatures))
        storage.write(posixpath.join(under, CAUSES), msgspec.json.encode(causes) + b"\n")


class Causes(Struct, frozen=True, kw_only=True):
    """The content of causes.json: the signatures that the store had before these runs, and those of these runs."""

    known: list[str] | None
    found: list[str]


def known_causes(storage: Storage, under: str, *, resumed: bool = False) -> Set[str] | None:
    """The signatures of all failures that the store has seen; None if no campaign left any account.

    `under` is the folder of the runs to come. With `resumed` the account there is of their first part, so only what it knew
    counts. Of a store elsewhere than on this machine only that account is read.
    """
    own = _causes_in(storage, posixpath.join(under, CAUSES))
    if own is not None and resumed:
        return None if own.known is None else frozenset(own.known)
    accounts = [] if own is None else [own]
    if storage.folder is not None:
        names = (path.relative_to(storage.folder).as_posix() for path in storage.folder.glob(f"campaigns/*/{CAUSES}"))
        accounts += [account for name in names if (account := _causes_in(storage, name)) is not None]
    return frozenset(cause for account in accounts for cause in (*(account.known or ()), *account.found)) if accounts else None


def _causes_in(storage: Storage, name: str) -> Causes | None:
    """An account; None if there is none, or one that cannot be read: causes then count as new."""
    try:
        return msgspec.json.decode(storage.read(name), type=Causes)
    except (OSError, *NOT_JSON):
        return None


def write_runs(storage: Storage, under: str, summaries: Iterable[Summary]) -> None:
    """Write the summaries of runs as JSON lines below a folder of the store."""
    storage.write(posixpath.join(under, RUNS), b"".join(msgspec.json.encode(summary) + b"\n" for summary in summaries))


def row_of(
    summary: Summary,
    under: str,
    *,
    expected: bool | None = None,
    name: str | None = None,
    smaller: Smaller | None = None,
    marks: Marks = NONE,
) -> RunRow:
    """Make the row for one run on the index page; its links are relative to `under`, a folder of the store."""
    verdict = summary.shown_verdict
    return RunRow(
        name=name or summary.name,
        seed=summary.seed,
        protocol=summary.protocol,
        validity=None if verdict is None else Validity[verdict],
        live=summary.live,
        anomalies=tuple(counts(summary.anomalies).items()),
        words=summary.reasons[:5],
        cause=summary.cause,
        expected=expected,
        excused=summary.excused,
        acked=summary.acked,
        leader_changes=summary.leader_changes,
        faults=summary.faults,
        sim_seconds=summary.sim_seconds,
        wall_seconds=summary.wall_seconds,
        link=posixpath.relpath(summary.report, under or ".") if summary.report else "",
        store=summary.store or "",
        signature=summary.signature,
        mark=marks.words(summary.signature),
        is_ignored=expected is not False and marks.ignores(summary.signature),
        smaller="" if smaller is None else smaller.plan,
        beside=posixpath.relpath(smaller.link, under or ".") if smaller is not None and smaller.link else "",
        repeat=summary.repeat,
        error=summary.failure or "",
    )
