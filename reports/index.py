"""The data of a campaign's index page: one row for each run, totals, anomalies by kind of fault, faults begun and acted.

Rows are made from stored verdicts and manifests alone, so an index of ten thousand runs needs no history. They are read once and
counted; the page lists all failures, but of the other runs only the first `PASSED_SHOWN`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from msgspec import Struct

from checkers.engine.verdict import Validity
from checkers.severity import severity
from history.manifest import FaultCount

PASSED_SHOWN = 1000  # valid and live runs that a page lists
_LINKED = 4  # runs of a cause or of a kind of anomaly that are linked beside it


class RunRow(Struct, frozen=True, kw_only=True):
    """One run on a campaign's index page. `validity` is None if the harness failed; `error` then holds the reason."""

    name: str
    seed: int | None
    protocol: str
    validity: Validity | None
    live: bool | None
    anomalies: tuple[tuple[str, int], ...] = ()  # kind, count
    words: tuple[str, ...] = ()  # words of the anomalies, or the reasons for unknown or not live
    cause: str = ""  # in one sentence
    excused: int = 0
    acked: int = 0
    leader_changes: int = 0
    faults: tuple[FaultCount, ...] = ()
    sim_seconds: float = 0.0
    wall_seconds: float = 0.0
    link: str = ""  # to its page, relative to the index
    store: str = ""  # its folder in the store
    signature: str = ""  # of the cause (docs/triage.md)
    mark: str = ""  # what the team decided about the cause
    is_ignored: bool = False  # so that the run does not make the job red
    smaller: str = ""  # file of the shrunk plan
    beside: str = ""  # page of the shrunk run beside its nearest neighbour, relative to the page
    repeat: str = ""  # the command that repeats it
    error: str = ""
    # Whether the run went as it had to; then a known-bad protocol passes if it fails. None: it had to be VALID and live.
    expected: bool | None = None

    @property
    def passed(self) -> bool:
        """Whether the run was VALID and not stuck."""
        return self.validity is Validity.VALID and self.live is not False


class GoalRow(Struct, frozen=True, kw_only=True):
    """How often all runs of a campaign together reached a goal. `wanted` marks the goals that it had to reach."""

    name: str
    count: int
    wanted: bool


class Banner(Struct, frozen=True, kw_only=True):
    """The verdict on all runs together. `tone` is valid, unknown, not-live or invalid."""

    tone: str
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """The runs that failed for one cause, with the run whose plan is the smallest."""

    signature: str
    words: str
    runs: int
    new: bool  # no earlier campaign of the store had it
    expected: bool  # all of its runs had to fail
    mark: str  # what the team decided about it
    is_ignored: bool
    smallest: RunRow
    others: tuple[RunRow, ...]  # a few more, to follow


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTotal:
    """One kind of fault, counted over all runs of a campaign."""

    kind: str
    runs: int
    begun: int
    acted: int
    runs_acted: int
    invalid: int  # INVALID runs in which the fault acted
    anomalies: tuple[int, ...]  # for each kind of the page, in its order: runs in which the fault acted and the kind was found


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPage:
    """The view model of a campaign's index page."""

    title: str
    repeat: str
    banner: Banner
    sentence: str  # what failed, in words
    causes: tuple[CauseRow, ...]  # not as expected first, and of these the new ones first
    compared: bool  # there was an earlier campaign in the store
    broken: tuple[RunRow, ...]  # checks of a job that are not as expected, with their complaint as `error`
    rows: tuple[RunRow, ...]
    as_expected: tuple[RunRow, ...]  # runs that had to fail and did
    left_out: int  # valid and live runs that are not among the rows
    totals: tuple[tuple[str, str], ...]
    anomalies: tuple[tuple[str, int, int, tuple[RunRow, ...]], ...]  # kind, runs, anomalies, and its first runs
    faults: tuple[FaultTotal, ...]
    goals: tuple[GoalRow, ...]


class Shown:
    """Choose the runs that a page lists: all failures, and the first `PASSED_SHOWN` that passed."""

    def __init__(self) -> None:
        self.left_out = 0
        self._passed = 0

    def of(self, rows: Iterable[RunRow]) -> Iterator[RunRow]:
        """The rows that are listed, in their order; the others are counted."""
        for row in rows:
            self._passed += row.passed
            if row.passed and self._passed > PASSED_SHOWN:
                self.left_out += 1
            else:
                yield row


def campaign_of(
    rows: Iterable[RunRow],
    *,
    title: str,
    repeat: str,
    banner: Banner,
    goals: Sequence[GoalRow] = (),
    broken: Sequence[RunRow] = (),
    known: Set[str] | None = None,
) -> CampaignPage:
    """Make the index page of many runs, worst runs first. The rows are read once.

    `banner` is the verdict on the campaign, `known` has the signatures of earlier campaigns; None if there was none.
    """
    sums, shown = _Sums(), Shown()
    listed = sorted(shown.of(map(sums.add, rows)), key=_worst_first)
    causes = _cause_rows(listed, known)
    return CampaignPage(
        title=title,
        repeat=repeat,
        banner=banner,
        sentence=_sentence_on_causes(listed, causes),
        causes=causes,
        compared=known is not None,
        broken=tuple(broken),
        rows=tuple(row for row in listed if row.passed or not row.expected),
        as_expected=tuple(row for row in listed if row.expected and not row.passed),
        left_out=shown.left_out,
        totals=sums.totals(),
        anomalies=tuple(
            (kind, sums.found_in[kind], sums.found[kind], _runs_with(kind, listed)) for kind in sorted(sums.found, key=severity)
        ),
        faults=sums.faults(),
        goals=tuple(goals),
    )


def _runs_with(kind: str, rows: Iterable[RunRow]) -> tuple[RunRow, ...]:
    """The first runs with an anomaly of this kind."""
    return tuple(islice((row for row in rows if any(kind == anomaly_kind for anomaly_kind, _ in row.anomalies)), _LINKED))


def _cause_rows(rows: Sequence[RunRow], known: Set[str] | None) -> tuple[CauseRow, ...]:
    """The failed runs by signature, with the smallest of each, unexpected and new causes first."""
    by_signature: dict[str, list[RunRow]] = {}
    for row in rows:
        if not row.passed and row.signature:
            by_signature.setdefault(row.signature, []).append(row)
    causes = []
    for signature, failed in by_signature.items():
        failed.sort(key=_size)
        causes.append(
            CauseRow(
                signature=signature,
                words=failed[0].cause or next(iter(failed[0].words), ""),  # UNKNOWN has reasons and no cause
                runs=len(failed),
                new=known is not None and signature not in known and not failed[0].mark,
                expected=all(row.expected for row in failed),
                mark=failed[0].mark,
                is_ignored=all(row.is_ignored for row in failed),
                smallest=failed[0],
                others=tuple(failed[1 : 1 + _LINKED]),
            )
        )
    return tuple(sorted(causes, key=_rank))


def _rank(cause: CauseRow) -> tuple[bool, bool, bool, int, str]:
    return (cause.expected, cause.is_ignored, not cause.new, -cause.runs, cause.signature)


def _size(row: RunRow) -> tuple[bool, int, float, str]:
    """How much there is to read of a failed run: a shrunk plan first, then few faults, then a short run."""
    return (not row.smaller, sum(fault.begun for fault in row.faults), row.sim_seconds, row.name)


def _sentence_on_causes(rows: Sequence[RunRow], causes: Sequence[CauseRow]) -> str:
    """How many runs failed without having to, of how many causes, and how many had to fail."""
    failed = [row for row in rows if not row.passed]
    ignored = [row for row in failed if not row.expected and row.is_ignored]
    unexpected = [row for row in failed if not (row.expected or row.is_ignored)]
    own = [cause for cause in causes if not (cause.expected or cause.is_ignored)]
    parts = [] if ignored else ["no run failed"]
    if unexpected:
        parts = [_count_in_words(len(unexpected), "run failed", "runs failed")]
    if own:
        parts.append(f"of {_count_in_words(len(own), 'cause', 'causes')}")
        new = sum(cause.new for cause in own)
        parts.append(f"{new} of them new" if new else "")
    if ignored:
        parts.append(f"{_count_in_words(len(ignored), 'run', 'runs')} failed for causes that are ignored")
    if len(failed) > len(unexpected) + len(ignored):
        parts.append(f"{len(failed) - len(unexpected) - len(ignored)} failed as they had to")
    return ", ".join(part for part in parts if part)


def _count_in_words(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _worst_first(row: RunRow) -> tuple[int, bool, str, int, str]:
    severity = 3 if row.validity is None else int(row.validity)
    return (-severity, row.live is not False, row.protocol, -1 if row.seed is None else row.seed, row.name)


class _Sums:
    """The numbers of all runs."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()  # anomalies, by kind
        self.found_in: Counter[str] = Counter()  # runs, by kind of anomaly
        self._validity: Counter[Validity | None] = Counter()
        self._numbers: Counter[str] = Counter()
        self._played = self._wall = 0.0
        self._faults: dict[str, Counter[str]] = {}  # by kind of fault: runs, begun, acted, ...
        self._together: Counter[tuple[str, str]] = Counter()  # runs, by kinds of fault that acted and anomaly

    def add(self, row: RunRow) -> RunRow:
        """Count a run; return it."""
        self._validity[row.validity] += 1
        self._numbers["expected"] += bool(row.expected) and not row.passed
        self._numbers["not live"] += row.live is False
        self._numbers["excused losses"] += row.excused
        self._numbers["acknowledged"] += row.acked
        self._numbers["leader changes"] += row.leader_changes
        self._played += row.sim_seconds
        self._wall += row.wall_seconds
        for kind, count in row.anomalies:
            self.found_in[kind] += 1
            self.found[kind] += count
        for fault in row.faults:
            self._count_fault(row, fault)
        return row

    def _count_fault(self, row: RunRow, fault: FaultCount) -> None:
        """Add what a fault did in a run."""
        counts = self._faults.setdefault(fault.kind, Counter())
        if not fault.begun:
            return
        counts.update({"runs": 1, "begun": fault.begun, "acted": fault.acted})
        if fault.acted:
            counts.update({"runs_acted": 1, "invalid": int(row.validity is Validity.INVALID)})
            self._together.update((fault.kind, anomaly) for anomaly, _ in row.anomalies)

    def totals(self) -> tuple[tuple[str, str], ...]:
        """The numbers of the page's head, with their names."""
        expected = self._numbers["expected"]
        names = ("not live", "excused losses", "acknowledged", "leader changes")
        return (
            ("runs", str(self._validity.total())),
            ("valid", str(self._validity[Validity.VALID])),
            ("invalid", str(self._validity[Validity.INVALID])),
            ("unknown", str(self._validity[Validity.UNKNOWN])),
            ("harness failed", str(self._validity[None])),
            *((("failed as expected", str(expected)),) if expected else ()),
            *((name, str(self._numbers[name])) for name in names),
            ("total length of runs", f"{self._played:.0f} s"),
            ("run seconds per worker second", f"{self._played / self._wall:.1f} s" if self._wall else "none"),
        )

    def faults(self) -> tuple[FaultTotal, ...]:
        """Each kind of fault over all runs."""
        return tuple(
            FaultTotal(
                kind=kind,
                runs=counts["runs"],
                begun=counts["begun"],
                acted=counts["acted"],
                runs_acted=counts["runs_acted"],
                invalid=counts["invalid"],
                anomalies=tuple(self._together[kind, anomaly] for anomaly in sorted(self.found, key=severity)),
            )
            for kind, counts in sorted(self._faults.items())
        )
