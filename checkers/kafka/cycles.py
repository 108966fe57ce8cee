"""Cycles of dependencies between operations of sends and polls, found with the graph of `checkers.elle`.

Edges: ww, if one operation sent the record right before a record of the other; wr, if one sent a record that the other polled;
and real time. Kafka's transactions may interleave their writes, so a cycle with a ww edge is only noted. A cycle of wr edges,
with or without real time, shows that a consumer saw an uncommitted record; it is judged on its own. Jepsen allows both when it
uses ww edges at all. The graph decides exactly, so no search is given up and every component with a cycle is reported.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from checkers.elle.cycles import Step, cycles
from checkers.elle.graph import NAMES, REALTIME, WR, WW, Edges, edges, joined, real_time
from checkers.elle.table import NEVER, Ints
from checkers.kafka.found import Found
from checkers.kafka.logs import Log, Logs
from checkers.kafka.transactions import TRANSACTIONS, Op
from checkers.linearizability.judge import Link

KINDS = ("G0", "G0-realtime", "G1c", "G1c-realtime")
_WRITES = "transactions may interleave their writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    start: Ints
    end: Ints


def anomalies(logs: Logs) -> Iterator[Found]:
    """Find one dependency cycle of each kind. A cycle that needs a ww edge is only noted, because Kafka allows it."""
    nodes = [op for op in logs.ops if op.f in TRANSACTIONS and logs.committed(op)]
    number = {op.number: node for node, op in enumerate(nodes)}
    wr, ww = _edges_of_kind(_wr_pairs(logs, number), WR), _edges_of_kind(_ww_pairs(logs, number), WW)
    times = _Times(
        start=np.array([op.start for op in nodes], np.int64),
        end=np.array([NEVER if op.end is None else op.end for op in nodes], np.int64),
    )
    in_time, count = real_time(times, len(nodes))
    kinds_told: set[str] = set()
    by_all = list(cycles(joined((wr, ww, in_time)), count, frozenset(KINDS)))
    # Without a cycle of all edges there is none of some of them.
    by_reads = list(cycles(joined((wr, in_time)), count, frozenset(KINDS))) if by_all else []
    for cycles_found, allowed in ((by_reads, ""), (by_all, _WRITES)):
        for kind, cycle in cycles_found:
            if kind not in kinds_told:
                kinds_told.add(kind)
                links = tuple(_link(nodes, step) for step in cycle)
                words = "; ".join(link.reason for link in links) + ": a contradiction"
                yield Found(kind, "", tuple(link.source for link in links), words, allowed, links)


def _edges_of_kind(pairs: Iterable[tuple[int, int]], kind: int) -> Edges:
    # An operation may read hundreds of records of another; one edge says the same.
    columns = np.array(list(dict.fromkeys(pairs)), np.int64).reshape(-1, 2)
    return edges(columns[:, 0], columns[:, 1], kind)


def _wr_pairs(logs: Logs, number: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Pairs of operations of which the second polled a record that the first sent."""
    for log in logs.keys.values():
        for value, readers in log.readers.items():
            writer = log.writer(value)
            if writer is not None and writer.number in number:
                source = number[writer.number]
                for reader in readers:
                    target = number.get(reader.number)
                    if target is not None:
                        yield source, target


def _ww_pairs(logs: Logs, number: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Pairs of operations that wrote neighbouring values of a log.

    Values at several offsets, and offsets with several values, give no order.
    """
    for log in logs.keys.values():
        before: Op | None = None
        for offset in log.order:
            writer = _sole_writer(log, offset)
            if writer is None or writer.number not in number:
                continue
            if before is not None:
                yield number[before.number], number[writer.number]
            before = writer


def _sole_writer(log: Log, offset: int) -> Op | None:
    values = list(log.offsets[offset])
    return log.writer(values[0]) if len(values) == 1 and len(log.indices_of[values[0]]) == 1 else None


def _link(nodes: list[Op], step: Step) -> Link:
    source, target = nodes[step.source].line, nodes[step.target].line
    return Link(source=source, target=target, kind=NAMES[step.kind], reason=_step_in_words(nodes, step))


def _step_in_words(nodes: list[Op], step: Step) -> str:
    first, then = f"line {nodes[step.source].line}", f"line {nodes[step.target].line}"
    if step.kind == REALTIME:
        return f"{first} had returned before {then} began"
    return f"{then} polled a record of {first}" if step.kind == WR else f"a record of {then} is right behind one of {first}"
