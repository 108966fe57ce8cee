"""The results of judging: anomalies with the rows that prove them, excused losses, and the merged verdict."""

import re
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

_LEFT_OUT = re.compile(r" \(and (\d+) more of this kind\)$")


class Validity(IntEnum):
    """The outcome of judging (VALID, UNKNOWN, INVALID). The values are ordered, and merging takes the worst."""

    VALID = 0
    UNKNOWN = 1
    INVALID = 2


class Anomaly(Struct, frozen=True, kw_only=True, order=True):
    """A violation of what a checker claims. `witness` holds the fewest row indices that prove it."""

    kind: str
    checker: str
    key: str  # "orders-0", "c1", or "" for the whole run
    witness: tuple[int, ...]
    words: str


class ExcusedLoss(Struct, frozen=True, kw_only=True, order=True):
    """A promised record that is gone because the harness destroyed the last copy that counted (docs/promise.md DUR-3)."""

    topic: str
    partition: int
    offset: int
    value: str
    wound: int  # index of the wound row


class Cut(Struct, frozen=True, kw_only=True, order=True):
    """Where an excused loss ends one version of a partition's log: from its offset on, later records begin a new one.

    From `leader_epoch` on, offsets from `offset` on are a new generation and may hold other records.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    topic_id: str = ""


class Findings(Struct, frozen=True, kw_only=True):
    """What one checker found in one group of rows, usually one partition."""

    anomalies: tuple[Anomaly, ...] = ()
    excused: tuple[ExcusedLoss, ...] = ()
    cuts: tuple[Cut, ...] = ()
    unchecked: tuple[str, ...] = ()  # what could not be judged and why: the verdict is then UNKNOWN, or INVALID
    not_live: tuple[str, ...] = ()  # why the cluster was not live (checkers of liveness only)
    live_judged: bool = False  # the checker had the evidence to judge liveness
    counts: dict[str, int] = {}


class Verdict(Struct, frozen=True, kw_only=True):
    """The judgement of one run, merged from the findings of all checkers."""

    validity: Validity
    live: bool | None
    anomalies: tuple[Anomaly, ...]
    excused: tuple[ExcusedLoss, ...]
    cuts: tuple[Cut, ...]
    unchecked: tuple[str, ...]
    not_live: tuple[str, ...]
    counts: dict[str, int]


def more_of_kind(more: int) -> str:
    """The end of an anomaly's words where `more` others of its kind were found and left out (`checker.condensed`)."""
    return f" (and {more} more of this kind)"


def found_in(words: str) -> int:
    """How many anomalies one stands for by its words: itself, and those of its kind that were left out."""
    left_out = _LEFT_OUT.search(words)
    return 1 if left_out is None else 1 + int(left_out[1])


class _Told(Protocol):
    # An anomaly, or its form in a summary.
    @property
    def kind(self) -> str: ...
    @property
    def words(self) -> str: ...


def counts(anomalies: Iterable[_Told]) -> Counter[str]:
    """The number of anomalies of each kind, with those that words count, in the order of the anomalies."""
    numbers: Counter[str] = Counter()
    for anomaly in anomalies:
        numbers[anomaly.kind] += found_in(anomaly.words)
    return numbers


def without_count(words: str) -> str:
    """The words of an anomaly without the count of others of its kind."""
    return _LEFT_OUT.sub("", words)


def joined(findings: Iterable[Findings]) -> Findings:
    """Join the findings of one checker on several topics that had the same name."""
    all_findings = list(findings)
    counts: dict[str, int] = {}
    for finding in all_findings:
        for name, count in finding.counts.items():
            counts[name] = counts.get(name, 0) + count
    return Findings(
        anomalies=tuple(a for f in all_findings for a in f.anomalies),
        excused=tuple(e for f in all_findings for e in f.excused),
        cuts=tuple(c for f in all_findings for c in f.cuts),
        unchecked=tuple(u for f in all_findings for u in f.unchecked),
        not_live=tuple(n for f in all_findings for n in f.not_live),
        live_judged=any(f.live_judged for f in all_findings),
        counts=counts,
    )


def merge(findings: Iterable[Findings]) -> Verdict:
    """Merge the findings of all checkers to a verdict: the worst validity, and all findings in canonical order."""
    all_findings = list(findings)
    anomalies = tuple(sorted(a for f in all_findings for a in f.anomalies))
    unchecked = tuple(sorted({u for f in all_findings for u in f.unchecked}))
    not_live = tuple(sorted({n for f in all_findings for n in f.not_live}))
    counts: dict[str, int] = {}
    for finding in all_findings:
        for name, count in finding.counts.items():
            counts[name] = counts.get(name, 0) + count
    return Verdict(
        validity=Validity.INVALID if anomalies else Validity.UNKNOWN if unchecked else Validity.VALID,
        live=not not_live if any(f.live_judged for f in all_findings) else None,
        anomalies=anomalies,
        excused=tuple(sorted({e for f in all_findings for e in f.excused})),
        cuts=tuple(sorted({c for f in all_findings for c in f.cuts})),
        unchecked=unchecked,
        not_live=not_live,
        counts=dict(sorted(counts.items())),
    )
