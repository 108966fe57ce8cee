"""Jepsen's names for what goes wrong with a queue like Kafka, and where each is judged here.

One row for each of the twenty of `jepsen.tests.kafka`, and what is judged beside them. `ours` is the checker and the kind that
judge a history of highwater; `theirs` what `check --model kafka` makes of it in a history of sends and polls: `INVALID`, `noted`
where Kafka allows it, `UNKNOWN` where nothing can be said.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Name(NamedTuple):
    """One anomaly; lists in `ours` are separated by semicolons."""

    name: str
    means: str
    ours: str
    theirs: str


NO_TRANSACTIONS = "cannot be: an operation sends to one partition or polls one"

TWENTY: tuple[Name, ...] = (
    Name(
        "inconsistent-offsets",
        "one offset holds two values",
        "offset-agreement: inconsistent-offsets; log-matching: log-mismatch, of one epoch, committed or not",
        "INVALID",
    ),
    Name("duplicate", "one value stands at two offsets", "duplicates: duplicate, where it was sent less often", "INVALID"),
    Name("G1a", "what certainly failed is read", "order: failed-write-read", "INVALID"),
    Name("precommitted-read", "an operation polls what it sends itself", NO_TRANSACTIONS, "INVALID"),
    Name("lost-write", "somebody read behind it, and nobody read it", "acked-loss: lost-write, by the ledger", "INVALID"),
    Name(
        "unseen",
        "acknowledged, and polled by nobody in the end",
        "availability: not live (LIVE-3), where final readers began",
        "INVALID where somebody polled after it was acknowledged, else UNKNOWN: it may be late",
    ),
    Name("poll-skip", "from one poll to the next records are left out", "polls: poll-skip", "INVALID; noted of who subscribes"),
    Name(
        "nonmonotonic-poll",
        "a poll begins before where the last one ended",
        "monotonic-hw: position-regressed, for consumers say where they read",
        "INVALID; noted of who subscribes",
    ),
    Name("int-poll-skip", "the same within one operation", "polls: int-poll-skip", "INVALID"),
    Name("int-nonmonotonic-poll", "the same within one operation", "polls: int-nonmonotonic-poll", "INVALID"),
    Name("int-send-skip", "others' records stand between those of one operation", "allowed, not counted", "noted"),
    Name("int-nonmonotonic-send", "records of one operation stand in another order", "polls: int-nonmonotonic-send", "INVALID"),
    Name(
        "nonmonotonic-send",
        "a later send of a process stands before its last one",
        "order: offset-order, of all processes; duplicates: reordered, of idempotent ones",
        "INVALID",
    ),
    Name("G0", "a cycle of ww", NO_TRANSACTIONS, "noted"),
    Name("G0-process, G0-realtime", "a cycle of ww and time", "order: offset-order", "noted"),
    Name("G1c", "a cycle of ww and wr", NO_TRANSACTIONS, "INVALID of wr alone, judged on its own; noted with ww"),
    Name(
        "G1c-process, G1c-realtime",
        "a cycle of ww, wr and time",
        "order: phantom-read, of what is read before it was sent",
        "INVALID of wr alone, judged on its own; noted with ww",
    ),
    Name("PL-1-cycle-exists", "a cycle of ww that was not extracted", "cannot be", "cannot be: cycles are decided exactly"),
    Name("PL-2-cycle-exists", "a cycle of ww, wr that was not extracted", "cannot be", "cannot be: cycles are decided exactly"),
    Name(
        "cycle-search-timeout, empty-transaction-graph",
        "the search was given up, or there was nothing to search",
        "vacuity: UNKNOWN where too little was acknowledged",
        "UNKNOWN of an empty history; no search is given up",
    ),
)

BESIDE: tuple[Name, ...] = (
    Name("phantom-read", "a value that nobody wrote is read", "order: phantom-read", "INVALID"),
    Name(
        "real-time offsets",
        "an acknowledged offset exceeds all acknowledged before it was asked for",
        "order: offset-order",
        "noted as G0-realtime, INVALID as nonmonotonic-send of one process",
    ),
    Name(
        "committed offsets",
        "a group finds the position that it committed last",
        "committed-offsets: commit-lost, phantom-commit, commit-ahead",
        "not told: Jepsen's clients commit before they complete, and write no such operation down",
    ),
)

_HEAD = """## Jepsen's names

`jepsen.tests.kafka` knows twenty anomalies. Each is judged in histories of sends and polls, which anybody may have recorded
(`highwater check FILE --model kafka`), and in our own by the checkers above, which also see inside of the cluster.
Unknown never accuses: an operation that crashed counts where one of its values was read, and an index that is not known is none.
"""


def section() -> str:
    """The table of docs/properties.md."""
    return "".join([_HEAD, "\n", *_lines()])


def _lines() -> Iterator[str]:
    yield "| name | what is seen | in our histories | in histories of sends and polls |\n| --- | --- | --- | --- |\n"
    for row in (*TWENTY, *BESIDE):
        yield f"| {' | '.join(row)} |\n"
