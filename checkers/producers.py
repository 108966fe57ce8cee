"""Checker of the rules of producers against the leaders that enforce them (docs/promise.md ORD-3, ORD-4; B-65, B-66).

* A request that breaks the rules is never acknowledged: a sequence that is too high or long past, an old epoch, an unknown
  producer id, no records, or acks that do not exist. The client that sends them marks them (`delivery` is `never`).
* An idempotent producer that follows the rules is not refused for its sequence. That is certain where the same broker has
  acknowledged the producer's previous request to the partition under acks=all: its log then holds every earlier sequence.
* No log of any replica holds a value of an idempotent producer twice, whether a consumer reads it or a truncation removes it.

    >>> from checkers.sketches import sketch
    >>> sketch("producers", "ok produce value=a offset=0 delivery=never")
    ['misuse-acknowledged']
    >>> sent = "invoke produce value=a delivery=once"
    >>> sketch("producers", sent, "append node=b1 offset=0 value=a", "append node=b1 offset=1 value=a")
    ['sequence-doubled']
"""

from typing import NamedTuple

import polars as pl

from checkers.checker import PARTITION, Checker, Facts, cuts_of, partition_of
from checkers.duplicates import ONCE
from checkers.replay import REPLAYED, Replicas
from checkers.rows import Call, EventRow, calls, event_rows, operation_rows
from checkers.verdict import Anomaly, Cut, Findings

NAME = "producers"
NEVER = "never"
ABOUT_SEQUENCES = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH")


class _Acknowledged(NamedTuple):
    """The last request of a producer to the partition, if a broker acknowledged it under acks=all: that broker and the row."""

    node: str | None
    at: int


def _misused(done: list[Call], key: str) -> list[Anomaly]:
    return [
        _anomaly("misuse-acknowledged", key, (call.invoked, call.ended), "a request that breaks the rules was acknowledged")
        for call in done
        if call.asked[0].delivery == NEVER and call.type == "ok"
    ]


def _refused(done: list[Call], key: str) -> list[Anomaly]:
    """Find refusals for the sequence of a request whose predecessor the same broker had acknowledged."""
    before: dict[int, _Acknowledged | None] = {}  # process -> its previous request
    found = []
    for call in done:
        answer = call.rows[0] if call.rows else None
        once = call.asked[0].delivery == ONCE
        last = before.get(call.process)
        if once and answer is not None and answer.error in ABOUT_SEQUENCES and last is not None and last.node == answer.node:
            words = f"{answer.node} refused a right request with {answer.error}, after it had acknowledged the one before"
            found.append(_anomaly("wrongly-refused", key, (last.at, call.ended), words))
        good = once and call.type == "ok" and call.asked[0].acks == -1 and answer is not None
        before[call.process] = _Acknowledged(answer.node, call.ended) if good and answer is not None and answer.node else None
    return found


def _doubled(done: list[Call], rows: list[EventRow], key: str) -> list[Anomaly]:
    """Find values of idempotent producers that are in one log twice."""
    once = {row.value for call in done if call.asked[0].delivery == ONCE for row in call.asked}
    replicas = Replicas()
    places: dict[tuple[str, str], tuple[int, int]] = {}  # (node, value) -> offset, row
    found = []
    for row in rows:
        for _, value in replicas.replay(row):
            places.pop((row.node, value), None)
        if row.kind != "append" or row.value not in once:
            continue
        earlier = places.setdefault((row.node, row.value), (row.offset, row.at))
        if earlier[0] != row.offset:
            words = f"{row.node} has {row.value} of an idempotent producer at offsets {earlier[0]} and {row.offset}"
            found.append(_anomaly("sequence-doubled", key, (earlier[1], row.at), words))
    return found


def _anomaly(kind: str, key: str, witness: tuple[int, int], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=f"{key}: {words}")


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the requests of producers to one partition, and the logs of its replicas. After an excused loss only the logs."""
    topic, partition = partition_of(operations, events)
    done = calls(operation_rows(operations))
    key = f"{topic}-{partition}"
    rules = [] if cuts_of(cuts, topic, partition) else [*_misused(done, key), *_refused(done, key)]
    return Findings(anomalies=(*rules, *_doubled(done, event_rows(events), key)))


CHECKER = Checker(
    name=NAME,
    claim="Requests that break the rules are refused, those of right idempotent producers are not, and no log doubles a value.",
    assumes="Clients mark the requests that break the rules, and say who answered; brokers record each append and truncation.",
    blind="Refusals of a producer whose last request another broker acknowledged, or that lost its partition.",
    kinds=("misuse-acknowledged", "wrongly-refused", "sequence-doubled"),
    group_by=PARTITION,
    operations=("produce",),
    events=REPLAYED,
    check=check,
)
