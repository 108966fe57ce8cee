"""Judge transactions by consistency models: report the forbidden anomalies that the history proves.

    >>> from checkers.elle.judge import judge
    >>> from history.foreign.jepsen import steps
    >>> from history.foreign.pairing import pair
    >>> skew = [(("append", 1, 1), ("r", 2, None)), (("append", 2, 1), ("r", 1, None))]
    >>> lines = [{"process": p, "type": t, "value": skew[p]} for t in ("invoke", "ok") for p in (0, 1)]
    >>> [a.kind for a in judge("list-append", pair(steps(enumerate(lines, 1))), ("serializable",)).anomalies]
    ['G2-item']

VALID means that an order of all writes explains every read. Where no read shows the order of some writes, an order without a
forbidden cycle is searched (`checkers.elle.orders`); within its budget it is found, or proven not to exist, else the verdict is
UNKNOWN. A history in which a value was read that no transaction wrote is never VALID (`checkers.elle.phantoms`).

A history that is `untimed` is judged without the order in time, by the order of each process alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from checkers.elle import list_append, rw_register
from checkers.elle.consistency import FORBIDS
from checkers.elle.cycles import Step, cycles, tangled
from checkers.elle.found import Found
from checkers.elle.fractured import fractured, is_asked_for
from checkers.elle.graph import NAMES, PROCESS, REALTIME, RW, WR, WW, Edges, joined, process_order, real_time
from checkers.elle.list_append import ListAppend
from checkers.elle.orders import WORK_MAX, Case, Decision, Write, decide, within_knots
from checkers.elle.phantoms import without_lists, without_registers
from checkers.elle.rw_register import RwRegister
from checkers.elle.table import Table, table_of
from checkers.engine.verdict import Anomaly, Validity
from checkers.linearizability.judge import Cycle, Judgement, Link
from history.foreign.pairing import Paired

CHECKER = "elle"
MODELS = ("list-append", "rw-register")
STRONGEST = "strict-serializable"
NO_ORDER = "no-version-order"
_OF_A_KIND_MAX = 8
_CASES_MAX = 6  # in words

__all__ = ["FORBIDS", "MODELS", "judge"]


def judge(model: str, history: Paired, consistency: Sequence[str] = (STRONGEST,), *, work_max: int = WORK_MAX) -> Judgement:
    """Report the anomalies in a history of transactions that these consistency models forbid. `model`: one of `MODELS`.

    `work_max`: the budget of the search for an order of the writes, in edges visited.

    HistoryError if a call is not a transaction; KeyError for an unknown model of transactions or of consistency.
    """
    seen = examine(model, history, consistency, work_max=work_max)
    found = [*_first_of_each_kind(seen.table, list(seen.alone)), *(_anomaly(cycle) for cycle in seen.named_cycles())]
    cases = [_case_reported(seen.table, case) for case in seen.decision.cases]
    if cases:
        found = [_anomaly_without_order(cases)]
    return Judgement(
        validity=Validity.INVALID if found else Validity.UNKNOWN if seen.unchecked else Validity.VALID,
        anomalies=tuple(found),
        unchecked=seen.unchecked,
        operations=len(history.calls) + len(history.failed),
        cycles=tuple(cases or seen.named_cycles()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What the transactions of a history show, before it is put into words: anomalies, cycles, the order of unread writes.

    `graph`: the known dependencies, whose nodes from `Table.count` to `count` are junctions. `numbers`: for each transaction of
    the table its place among the calls of the history, or behind these among those that failed.
    """

    table: Table
    numbers: Sequence[int]
    forbidden: frozenset[str]
    keys: ListAppend | RwRegister
    graph: Edges
    count: int
    alone: tuple[Found, ...]
    cycles: tuple[tuple[str, tuple[Step, ...]], ...]
    decision: Decision
    unchecked: tuple[str, ...]

    def named_cycles(self) -> list[Cycle]:
        """The cycles in words, by lines of the history."""
        return [_cycle_reported(self.table, name, cycle) for name, cycle in self.cycles]


def examine(model: str, history: Paired, consistency: Sequence[str], *, work_max: int = WORK_MAX) -> Examination:
    """Find what `judge` puts into words, with its arguments and errors."""
    if model not in MODELS:
        raise KeyError(model)
    forbidden = frozenset[str]().union(*(FORBIDS[name] for name in consistency))
    numbers: Sequence[int] = range(len(history.calls) + len(history.failed))
    if history.untimed:
        forbidden = frozenset(kind for kind in forbidden if not kind.endswith("-realtime"))
    if "G1a" not in forbidden:
        numbers = sorted(numbers, key=lambda at: at < len(history.calls) and history.calls[at].crashed)
        history = _without_unknown_commits(history)
    lists = model == "list-append"
    table = table_of(history, list_append.WRITES if lists else rw_register.WRITES, lists=lists)
    keys: ListAppend | RwRegister = ListAppend(table, forbidden) if lists else RwRegister(table, forbidden)
    unwritten = keys.phantoms()
    if unwritten.first:
        table = (without_lists if lists else without_registers)(table, unwritten.first)
        keys = ListAppend(table, forbidden) if lists else RwRegister(table, forbidden)
    alone = [*unwritten.found, *(finding for finding in keys.anomalies() if finding.kind in forbidden)]
    if is_asked_for(forbidden):
        alone.extend(fractured(table, *keys.shown()))
    edges_found = [*keys.edges(), process_order(table)]
    in_time, count = real_time(table, table.count + keys.junctions)
    graph = joined([*edges_found, in_time])
    knots = tangled(graph, count, forbidden)
    proven = tuple(cycles(knots, count, forbidden))
    unchecked = [*keys.unchecked, *unwritten.unchecked, *history.unsure, *_nothing_read(table)]
    decision = Decision()
    if not alone and not proven and "G-single" in forbidden and (len(knots.source) or not lists):
        unordered = within_knots(keys.unordered(), knots, count) if lists else keys.unordered()
        decision = decide(unordered, knots if lists else graph, count, table, forbidden, work_max=work_max)
        if decision.undecided:
            pairs = f"{decision.undecided:,} pair{'s' if decision.undecided > 1 else ''} of writes"
            unchecked.append(f"the order of {pairs} matters and is undecided after {work_max:,} steps of search")
    return Examination(
        table=table,
        numbers=numbers,
        forbidden=forbidden,
        keys=keys,
        graph=graph,
        count=count,
        alone=tuple(alone),
        cycles=proven,
        decision=decision,
        unchecked=tuple(unchecked),
    )


def _without_unknown_commits(history: Paired) -> Paired:
    """The history with each transaction of unknown outcome aborted, for levels at which aborted values may be read.

    It is the most lenient choice: a transaction that committed adds dependencies and takes none away (Adya's PL-1).
    """
    unknown = tuple(call for call in history.calls if call.crashed)
    return replace(history, calls=tuple(c for c in history.calls if not c.crashed), failed=(*history.failed, *unknown))


def _nothing_read(table: Table) -> Iterator[str]:
    """Why the history shows nothing, if it does not: only an answer to a read may be wrong."""
    readers = table.transaction[~table.write]
    if not table.ok.any():
        yield "no transaction that certainly committed"
    elif not table.odd and not table.ok[readers[readers < table.count]].any():
        yield "no transaction that certainly committed has read anything"


def _first_of_each_kind(table: Table, findings: list[Found]) -> list[Anomaly]:
    """The first anomalies of each kind, with lines of the history as witnesses."""
    counted: dict[str, int] = {}
    anomalies = []
    for finding in findings:
        counted[finding.kind] = counted.get(finding.kind, 0) + 1
        if counted[finding.kind] <= _OF_A_KIND_MAX:
            witness = tuple(table.line(t) for t in finding.transactions)
            anomalies.append(
                Anomaly(kind=finding.kind, checker=CHECKER, key=table.key_name(finding.key), witness=witness, words=finding.words)
            )
    return anomalies


def _cycle_reported(table: Table, name: str, cycle: tuple[Step, ...]) -> Cycle:
    """The cycle as it is reported."""
    links = [
        Link(source=table.line(s.source), target=table.line(s.target), kind=NAMES[s.kind], reason=_reason_for_order(table, s))
        for s in cycle
    ]
    return Cycle(kind=name, links=tuple(links))


def _anomaly(cycle: Cycle) -> Anomaly:
    witness = tuple(link.source for link in cycle.links)
    return Anomaly(kind=cycle.kind, checker=CHECKER, key="", witness=witness, words=_contradiction(cycle))


def _contradiction(cycle: Cycle) -> str:
    steps = [f"line {s.source} before line {s.target}, because {s.reason} ({s.kind})" for s in cycle.links]
    return "; ".join(steps) + ": a contradiction"


def _case_reported(table: Table, case: Case) -> Cycle:
    """The case as it is reported: its cycle, and the orders that it assumes."""
    return replace(
        _cycle_reported(table, NO_ORDER, case.cycle), assumed=tuple(_link_of_assumption(table, *pair) for pair in case.assumed)
    )


def _anomaly_without_order(cases: Sequence[Cycle]) -> Anomaly:
    """The cycles prove together that no order of the writes is possible: each order has one of them."""
    words = [f"if {' and '.join(link.reason for link in case.assumed)}, then {_contradiction(case)}" for case in cases]
    and_more = f"; and {len(cases) - _CASES_MAX} more cases" if len(cases) > _CASES_MAX else ""
    return Anomaly(
        kind=NO_ORDER,
        checker=CHECKER,
        key="",
        witness=tuple(dict.fromkeys(link.source for case in cases for link in case.links)),
        words=f"no order of the writes explains the reads: {'; '.join(words[:_CASES_MAX])}{and_more}",
    )


def _link_of_assumption(table: Table, first: Write, then: Write) -> Link:
    """The link that stands for an assumed order of two writes of one key."""
    lines = [table.line(write.writer) for write in (first, then)]
    first_write, second_write = (
        f"line {line} wrote {table.values.name(w.value)}" for line, w in zip(lines, (first, then), strict=True)
    )
    return Link(
        source=lines[0],
        target=lines[1],
        kind=NAMES[WW],
        reason=f"{first_write} of key {table.keys[first.key]} before {second_write}",
    )


def _reason_for_order(table: Table, step: Step) -> str:
    """Why one transaction must come before the other."""
    first, then = f"line {table.line(step.source)}", f"line {table.line(step.target)}"
    if step.kind == PROCESS:
        return f"process {table.calls[step.source].process} did it earlier"
    if step.kind == REALTIME:
        return f"{first} had returned before {then} was invoked"
    value = "a value" if step.value < 0 else table.values.name(step.value)
    key = table.key_name(step.key)
    if step.kind == WR:
        return f"{then} read {value} of key {key}, which {first} wrote"
    if step.kind == RW:
        return f"{then} wrote {value} of key {key}, which {first} did not see"
    return f"{then} wrote {value} of key {key} after the write of {first}"
