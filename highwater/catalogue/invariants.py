"""The ten invariants by which the catalogue of mistakes says what gives a mistake away, and which checker speaks for each.

A row of corpus/mutants.yaml proves those invariants that the kind it is caught by stands for. A mistake of the catalogue
(bugs.yaml) names the ones it breaks; each of its variants that is caught must be caught by one of them.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from highwater.catalogue.trace import bugs

NOT_LIVE = "not-live"  # stands for a kind, where a checker of liveness speaks


class Invariant(Struct, frozen=True, kw_only=True):
    """What holds, and what a checker says where it does not: kinds of anomalies, or "not-live" of these checkers."""

    words: str
    kinds: tuple[str, ...] = ()
    not_live: tuple[str, ...] = ()


INVARIANTS: dict[str, Invariant] = {
    "DUR": Invariant(
        words="what was promised, or given to a reader, stays",
        kinds=(
            "lost-write",
            "empty-leader",
            "unclean-election",
            "read-above-hw",
            "commit-lost",
            "phantom-commit",
            "commit-ahead",
        ),
    ),
    "HWM": Invariant(
        words="high watermarks, as brokers hold and consumers see them, never go back and cover what is committed alone",
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
        words="every member of the ISR has what is committed",
        kinds=(
            "strong-isr",
            "weak-isr",
            "truncated-committed",
            "isr-outside-replicas",
            "leader-outside-isr",
            "unentitled-write",
        ),
    ),
    "RES": Invariant(
        words="no partition is deleted that should be there, none is there that was deleted",
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
            "reordered",
            "int-nonmonotonic-poll",
            "int-poll-skip",
            "poll-skip",
            "int-nonmonotonic-send",
        ),
    ),
    "LIVE": Invariant(words="there is progress after healing", not_live=("availability", "availability-cluster", "progress")),
    "META": Invariant(words="metadata converges", not_live=("convergence", "availability")),
    "CTL": Invariant(
        words="one controller has effect",
        kinds=("two-controllers", "deposed-controller", "incarnation-order", "fenced-append", "fenced-commit", "fenced-answer"),
    ),
}


def proven(checker: str, kind: str) -> tuple[str, ...]:
    """The invariants that a checker speaks for when it says this."""
    if kind == NOT_LIVE:
        return tuple(name for name, invariant in INVARIANTS.items() if checker in invariant.not_live)
    return tuple(name for name, invariant in INVARIANTS.items() if kind in invariant.kinds)


def named(variant: str) -> dict[str, tuple[str, ...]]:
    """The mistakes of the catalogue that a variant makes, with the invariants that their entries name."""
    return {id_: bug.raises for id_, bug in bugs().items() if variant in bug.variants}


def table(caught: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, ...]]:
    """Of (variant, checker that catches it, kind): variant, mistake, what its entry names, and who speaks for it."""
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
