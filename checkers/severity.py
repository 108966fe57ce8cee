"""The order in which anomalies are told, worst first: what clients lost, what they saw wrong, and what went wrong inside.

A failed run has anomalies of many kinds, most of them consequences of one. A reader should see first that a record is lost, and
only later that another one is there twice.
"""

LOST = (
    # A promised record, position or log is gone.
    "lost-write",
    "truncated-committed",
    "unseen",
    "skipped-record",
    "commit-lost",
    "resumed-behind",
    "commit-regressed",
    "wrongly-deleted",
)
ANSWERS = ("misuse-acknowledged", "wrong-error")  # a wrong request is carried out, or a right one refused
LEADS_TO_LOSS = (
    # The next failover may lose a record.
    "unclean-election",
    "empty-leader",
    "short-electorate",
    "unflushed",
    "strong-isr",
    "weak-isr",
    "early-join",
    "uncommitted-below-hw",
    "log-mismatch",
    "hw-regressed",
    "hw-above-leo",
    # Two brokers act in one role, or a state is written by the wrong one.
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
)
SEVERITY: tuple[str, ...] = (
    *LOST,
    # Clients read what is not true.
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
    # Clients miss records for some time, or their view goes back.
    "poll-skip",
    "int-poll-skip",
    "out-of-range",
    "latest-regressed",
    "position-regressed",
    # Records are out of order or doubled.
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
    *ANSWERS,
    *LEADS_TO_LOSS,
)
_RANKS = {kind: rank for rank, kind in enumerate(SEVERITY)}


def severity(kind: str) -> tuple[int, str]:
    """The key that sorts kinds of anomalies, worst first; kinds of models of foreign histories come last, by name."""
    return _RANKS.get(kind, len(_RANKS)), kind
