"""The order in which anomalies are told, worst first.

A reader should see first that a record is lost, and only later that another one is there twice. The checkers declare each kind
with its harm and rank (`checkers.engine.anomalies`); the order that follows is written out here, and a test compares the two. So
a history of another system is told without the checkers of logs, which need Polars.
"""

from checkers.engine.anomalies import Harm

KINDS: dict[Harm, tuple[str, ...]] = {
    Harm.LOSS: (
        "lost-write",
        "truncated-committed",
        "unseen",
        "skipped-record",
        "commit-lost",
        "resumed-behind",
        "commit-regressed",
        "wrongly-deleted",
    ),
    Harm.FALSE_READ: (
        "inconsistent-offsets",
        "other-topic",
        "phantom-read",
        "failed-write-read",
        "G1a",
        "dirty-update",
        "precommitted-read",
        "future-read",
        "G1c",
        "G1c-realtime",
        "read-above-hw",
        "resurrected",
        "phantom-commit",
        "commit-ahead",
    ),
    Harm.MISSED: (
        "poll-skip",
        "int-poll-skip",
        "out-of-range",
        "latest-regressed",
        "position-regressed",
    ),
    Harm.DISORDER: (
        "incompatible-order",
        "cyclic-versions",
        "offset-order",
        "reordered",
        "int-nonmonotonic-poll",
        "int-nonmonotonic-send",
        "nonmonotonic-poll",
        "nonmonotonic-send",
        "duplicate",
        "duplicate-elements",
        "sequence-doubled",
    ),
    Harm.WRONG_ANSWER: (
        "misuse-acknowledged",
        "wrong-error",
    ),
    Harm.LOSS_NEXT: (
        "unclean-election",
        "empty-leader",
        "short-electorate",
        "unflushed",
        "strong-isr",
        "weak-isr",
        "joined-below-hw",
        "early-join",
        "uncommitted-below-hw",
        "log-mismatch",
        "hw-regressed",
        "hw-above-leo",
    ),
    Harm.USURPED: (
        "two-leaders",
        "two-elected",
        "two-controllers",
        "deposed-controller",
        "epoch-regressed",
        "unentitled-write",
        "wrong-epoch",
        "wrong-elr",
        "wrong-isr",
        "wrong-leader",
        "leader-outside-isr",
        "isr-outside-replicas",
        "fenced-commit",
        "fenced-append",
        "fenced-answer",
        "incarnation-order",
        "assertion",
    ),
    Harm.BROKEN_STEP: (
        "acknowledged-above-hw",
        "deleted-before-stopped",
        "unconditional-write",
        "stale-proposal-accepted",
        "stale-member-elected",
        "unguarded-write",
        "another-epoch-used",
        "older-controller-obeyed",
        "another-registration-obeyed",
        "outlives-its-session",
        "command-out-of-office",
        "answered-out-of-office",
        "leader-truncated",
        "appended-out-of-role",
        "role-epoch-falls",
        "role-not-commanded",
        "proposal-out-of-role",
        "served-out-of-role",
        "fetched-from-another",
        "fetched-in-another-epoch",
        "fetched-elsewhere",
        "wrong-log-end",
        "older-state-told",
        "stranger-told",
        "command-number-falls",
        "dead-leader-kept",
        "refusal-does-not-fence",
        "served-while-fenced",
        "late-answer-counts",
        "fence-not-postponed",
        "heartbeat-of-another-registration",
        "state-not-granted",
        "narrowed-early",
        "given-above-hw",
        "another-hw-told",
        "latest-is-not-hw",
        "two-commands-in-flight",
        "command-not-repeated",
        "closed-while-leading",
        "parked-request-lost",
        "older-metadata-told",
        "first-metadata-not-full",
        "init-repeated",
        "not-stopped",
        "fence-too-early",
        "silence-too-early",
        "command-not-answered",
        "unwatched-read",
        "command-asks-zookeeper",
        "legacy-broker-asks",
        "legacy-shutdown-waits",
        "offline-replica-denied",
    ),
}
SEVERITY: tuple[str, ...] = tuple(name for names in KINDS.values() for name in names)
_RANKS = {kind: rank for rank, kind in enumerate(SEVERITY)}
_HARMS = {name: harm for harm, names in KINDS.items() for name in names}


def severity(kind: str) -> tuple[int, str]:
    """The key that sorts kinds of anomalies, worst first; kinds of models of foreign histories come last, by name."""
    return _RANKS.get(kind, len(_RANKS)), kind


def harm(kind: str) -> Harm | None:
    """What an anomaly of this kind does; None for kinds of models of foreign histories."""
    return _HARMS.get(kind)
