"""What a judgement is made of: anomalies with witnesses, excused losses with their wounds, and the merged verdict."""

from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct


class Validity(IntEnum):
    """Ordered: merging takes the worst."""

    VALID = 0
    UNKNOWN = 1
    INVALID = 2


class Anomaly(Struct, frozen=True, kw_only=True, order=True):
    """Something that must not be. `witness` holds the fewest indices of rows (operations or events) that convince."""

    kind: str
    checker: str
    key: str  # "orders-0", "c1", or "" for the whole run
    witness: tuple[int, ...]
    words: str


class ExcusedLoss(Struct, frozen=True, kw_only=True, order=True):
    """A promised record that is gone because the laboratory destroyed the last copy that counted (docs/promise.md DUR-3)."""

    topic: str
    partition: int
    offset: int
    value: str
    wound: int  # index of the wound row


class Cut(Struct, frozen=True, kw_only=True, order=True):
    """Where an excused loss splits a partition: offsets from `offset` on, from `leader_epoch` on, are another generation."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    topic_id: str = ""


class Findings(Struct, frozen=True, kw_only=True):
    """What one checker says of one group."""

    anomalies: tuple[Anomaly, ...] = ()
    excused: tuple[ExcusedLoss, ...] = ()
    cuts: tuple[Cut, ...] = ()
    unchecked: tuple[str, ...] = ()  # why something could not be judged: makes the verdict UNKNOWN at best
    not_live: tuple[str, ...] = ()  # why the cluster was not live after healing (availability only)
    live_judged: bool = False  # availability had the evidence to judge
    counts: dict[str, int] = {}


class Verdict(Struct, frozen=True, kw_only=True):
    """The judgement of one run."""

    validity: Validity
    live: bool | None
    anomalies: tuple[Anomaly, ...]
    excused: tuple[ExcusedLoss, ...]
    cuts: tuple[Cut, ...]
    unchecked: tuple[str, ...]
    not_live: tuple[str, ...]
    counts: dict[str, int]


def joined(findings: Iterable[Findings]) -> Findings:
    """What was found of several parts of one group, as of one."""
    found = list(findings)
    counts: dict[str, int] = {}
    for finding in found:
        for name, count in finding.counts.items():
            counts[name] = counts.get(name, 0) + count
    return Findings(
        anomalies=tuple(a for f in found for a in f.anomalies),
        excused=tuple(e for f in found for e in f.excused),
        cuts=tuple(c for f in found for c in f.cuts),
        unchecked=tuple(u for f in found for u in f.unchecked),
        not_live=tuple(n for f in found for n in f.not_live),
        live_judged=any(f.live_judged for f in found),
        counts=counts,
    )


def merge(findings: Iterable[Findings]) -> Verdict:
    """One verdict from what all checkers found: the worst, with everything that led to it, in canonical order."""
    found = list(findings)
    anomalies = tuple(sorted(a for f in found for a in f.anomalies))
    unchecked = tuple(sorted({u for f in found for u in f.unchecked}))
    not_live = tuple(sorted({n for f in found for n in f.not_live}))
    counts: dict[str, int] = {}
    for finding in found:
        for name, count in finding.counts.items():
            counts[name] = counts.get(name, 0) + count
    return Verdict(
        validity=Validity.INVALID if anomalies else Validity.UNKNOWN if unchecked else Validity.VALID,
        live=not not_live if any(f.live_judged for f in found) else None,
        anomalies=anomalies,
        excused=tuple(sorted({e for f in found for e in f.excused})),
        cuts=tuple(sorted({c for f in found for c in f.cuts})),
        unchecked=unchecked,
        not_live=not_live,
        counts=dict(sorted(counts.items())),
    )
