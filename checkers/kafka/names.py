"""Jepsen's names for anomalies of a queue like Kafka, and where each is judged here.

One row for each of the twenty of `jepsen.tests.kafka`, and for anomalies judged beside them. `ours` names the checker and the
kind that judge a history of highwater. `theirs` is the verdict of `check --model kafka` on a history of sends and polls:
`INVALID`, `noted` if Kafka allows it, `UNKNOWN` if it cannot be decided.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Name(NamedTuple):
    """One row of the table of Jepsen's anomalies; several names of ours in `ours` are separated by semicolons."""

    name: str
    means: str
    ours: str
    theirs: str


NO_TRANSACTIONS = "impossible: an operation sends to one partition or polls one"

TWENTY: tuple[Name, ...] = (
    Name(
        "inconsistent-offsets",
        "one offset holds two values",
        "offset-agreement: inconsistent-offsets; log-matching: log-mismatch, of one epoch, committed or not",
        "INVALID",
    ),
    Name("duplicate", "one value is at two offsets", "duplicates: duplicate, if it was sent less often", "INVALID"),
    Name("G1a", "a record is read whose send certainly failed", "order: failed-write-read", "INVALID"),
    Name("precommitted-read", "an operation polls a record that it sends itself", NO_TRANSACTIONS, "INVALID"),
    Name("lost-write", "a later record was read, this one never", "acked-loss: lost-write, by the ledger", "INVALID"),
    Name(
        "unseen",
        "acknowledged, but not polled until the end",
        "availability: not live (LIVE-3), if final readers began",
        "INVALID if an operation polled after the acknowledgement, else UNKNOWN: it may be late",
    ),
    Name("poll-skip", "records are left out between two polls", "polls: poll-skip", "INVALID; noted for subscribed processes"),
    Name(
        "nonmonotonic-poll",
        "a poll begins before the end of the last one",
        "monotonic-hw: position-regressed, because consumers name their position",
        "INVALID; noted for subscribed processes",
    ),
    Name("int-poll-skip", "the same within one operation", "polls: int-poll-skip", "INVALID"),
    Name("int-nonmonotonic-poll", "the same within one operation", "polls: int-nonmonotonic-poll", "INVALID"),
    Name("int-send-skip", "other records are between those of one operation", "allowed, not counted", "noted"),
    Name("int-nonmonotonic-send", "records of one operation are out of order", "polls: int-nonmonotonic-send", "INVALID"),
    Name(
        "nonmonotonic-send",
        "a record of a process is before one that it sent earlier",
        "order: offset-order, of all processes; duplicates: reordered, of idempotent ones",
        "INVALID",
    ),
    Name("G0", "a cycle of ww", NO_TRANSACTIONS, "noted"),
    Name("G0-process, G0-realtime", "a cycle of ww and time", "order: offset-order", "noted"),
    Name("G1c", "a cycle of ww and wr", NO_TRANSACTIONS, "INVALID of wr alone, judged on its own; noted with ww"),
    Name(
        "G1c-process, G1c-realtime",
        "a cycle of ww, wr and time",
        "order: phantom-read, if a record is read before it was sent",
        "INVALID of wr alone, judged on its own; noted with ww",
    ),
    Name("PL-1-cycle-exists", "a cycle of ww that was not extracted", "impossible", "impossible: cycles are decided exactly"),
    Name("PL-2-cycle-exists", "a cycle of ww, wr that was not extracted", "impossible", "impossible: cycles are decided exactly"),
    Name(
        "cycle-search-timeout, empty-transaction-graph",
        "the search was given up, or there was nothing to search",
        "vacuity: UNKNOWN if too little was acknowledged",
        "UNKNOWN for an empty history; no search is given up",
    ),
)

BESIDE: tuple[Name, ...] = (
    Name("phantom-read", "a value is read that no process sent", "order: phantom-read", "INVALID"),
    Name(
        "real-time offsets",
        "an acknowledged offset does not exceed all that were acknowledged before the call",
        "order: offset-order",
        "noted as G0-realtime; INVALID as nonmonotonic-send for one process",
    ),
    Name(
        "committed offsets",
        "a group does not find the position that it committed last",
        "committed-offsets: commit-lost, phantom-commit, commit-ahead",
        "not judged: Jepsen's clients commit before they complete, and record no such operation",
    ),
    Name(
        "unlogged loss",
        "a record that was handed to an asynchronous producer is neither acknowledged nor in its log",
        "background: unlogged-loss, false-log",
        "not judged: such histories have no operation that ends before its record is sent",
    ),
)

_HEAD = """## Jepsen's names

`jepsen.tests.kafka` names twenty anomalies.
Each is judged in foreign histories of sends and polls (`highwater check FILE --model kafka`).
The checkers above judge them in our own histories, and also see the inside of the cluster.
A crashed operation counts only if one of its values was read, and records whose index is unknown are not compared.
"""


def section() -> str:
    """Return the table of Jepsen's anomalies of queues for docs/properties.md, as Markdown."""
    return "".join([_HEAD, "\n", *_lines()])


def _lines() -> Iterator[str]:
    yield "| name | meaning | in our histories | in histories of sends and polls |\n| --- | --- | --- | --- |\n"
    for row in (*TWENTY, *BESIDE):
        yield f"| {' | '.join(row)} |\n"
