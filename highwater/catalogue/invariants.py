"""The ten protocol invariants that the known mistakes break, and the kinds of anomalies that show each one broken.

A mistake of the catalogue (bugs.yaml) names the invariants that it breaks. The kind by which a row of corpus/mutants.yaml is
caught belongs to invariants; a caught variant of a mistake must be caught by an invariant that the mistake names.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from highwater.catalogue.trace import bugs

NOT_LIVE = "not-live"  # takes the place of a kind for checkers of liveness


class Invariant(Struct, frozen=True, kw_only=True):
    """An invariant in words, the kinds of anomalies that break it, and the checkers whose "not live" (no progress) breaks it."""

    words: str
    kinds: tuple[str, ...] = ()
    not_live: tuple[str, ...] = ()


INVARIANTS: dict[str, Invariant] = {
    "DUR": Invariant(
        words="a promised record, or one given to a reader, stays",
        kinds=(
            "lost-write",
            "empty-leader",
            "unclean-election",
            "short-electorate",
            "unflushed",
            "read-above-hw",
            "commit-lost",
            "phantom-commit",
            "commit-ahead",
        ),
    ),
    "HWM": Invariant(
        words="high watermarks at brokers and consumers never go back, and cover only committed records",
        kinds=(
            "hw-regressed",
            "hw-above-leo",
            "latest-regressed",
            "position-regressed",
            "out-of-range",
            "read-above-hw",
            "uncommitted-below-hw",
        ),
    ),
    "SL": Invariant(words="one leader commits in each epoch", kinds=("two-leaders", "two-elected", "epoch-regressed")),
    "LM": Invariant(words="logs match below the high watermark", kinds=("inconsistent-offsets", "log-mismatch")),
    "ISR": Invariant(
        words="every member of the ISR has every committed record",
        kinds=(
            "strong-isr",
            "weak-isr",
            "early-join",
            "truncated-committed",
            "isr-outside-replicas",
            "leader-outside-isr",
            "unentitled-write",
            "wrong-epoch",
            "wrong-isr",
            "wrong-leader",
            "wrong-elr",
        ),
    ),
    "RES": Invariant(
        words="no assigned partition is deleted, and no deleted partition is there",
        kinds=("wrongly-deleted", "resurrected", "other-topic"),
        not_live=("convergence",),
    ),
    "MONO": Invariant(
        words="one offset holds one value, once",
        kinds=(
            "inconsistent-offsets",
            "offset-order",
            "phantom-read",
            "failed-write-read",
            "duplicate",
            "sequence-doubled",
            "reordered",
            "int-nonmonotonic-poll",
            "int-poll-skip",
            "poll-skip",
            "int-nonmonotonic-send",
            "misuse-acknowledged",
        ),
    ),
    "REQ": Invariant(words="a request that keeps the rules is not refused as if it broke one", kinds=("wrong-error",)),
    "LIVE": Invariant(
        words="there is progress after healing",
        not_live=("availability", "availability-cluster", "progress", "replacement", "clients"),
    ),
    "META": Invariant(words="metadata converges", not_live=("convergence", "availability")),
    "CTL": Invariant(
        words="only one controller at a time has effect",
        kinds=("two-controllers", "deposed-controller", "incarnation-order", "fenced-append", "fenced-commit", "fenced-answer"),
    ),
}


def proven(checker: str, kind: str) -> tuple[str, ...]:
    """The names of the protocol invariants that are broken if this checker reports this kind of anomaly."""
    if kind == NOT_LIVE:
        return tuple(name for name, invariant in INVARIANTS.items() if checker in invariant.not_live)
    return tuple(name for name, invariant in INVARIANTS.items() if kind in invariant.kinds)


def named(variant: str) -> dict[str, tuple[str, ...]]:
    """The known mistakes that a protocol variant has: id -> the invariants that each mistake breaks."""
    return {id_: bug.raises for id_, bug in bugs().items() if variant in bug.variants}


def table(caught: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, ...]]:
    """Rows for docs/mutants.md: protocol variant, known mistake, its invariants, and those shown broken by anomalies."""
    rows = list(dict.fromkeys(caught))
    for variant in dict.fromkeys(protocol for protocol, _, _ in rows):
        said = [(checker, kind, proven(checker, kind)) for protocol, checker, kind in rows if protocol == variant]
        for id_, raises in named(variant).items():
            by = [
                f"{', '.join(name for name in names if name in raises)} by `{checker}`: `{kind}`"
                for checker, kind, names in said
                if set(names) & set(raises)
            ]
            yield f"`{variant}`", id_, ", ".join(raises), "; ".join(by)
