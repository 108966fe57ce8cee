"""The page of a history that another system recorded: the verdict, and for each anomaly the calls around it and its proof.

The proof depends on what was judged: for an object the orders of its calls up to where none goes on, for transactions the cycle
as a graph, for sends and polls the offsets of the log with what was sent and polled there. The steps are read twice: for the
calls that the verdict cites, and for those around them.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import UNSET

from checkers.engine.verdict import Anomaly
from checkers.kafka.logs import Log, Logs
from checkers.kafka.transactions import Op
from checkers.linearizability.independent import by_key
from checkers.linearizability.judge import Cycle, Judgement, words_of
from checkers.linearizability.model import Model
from checkers.linearizability.paths import Account, Path, account
from checkers.linearizability.search import Stuck
from history.foreign.quotes import Quote, cited, quotes
from history.foreign.step import Call, Step, shown, text_of
from history.op import OpType
from reports.cycle import Edge, Graph, Node
from reports.lanes import Bar, Chart, Point, Way

ANOMALIES_MAX = 24  # of a page
GRAPHS_MAX = 6  # cycles drawn for one anomaly
_BASE_SHOWN = 7  # calls of the shared order that are drawn
_AROUND = 4  # calls before and after each call of a witness
_BARS_MAX = 90
_OFFSETS_MAX = 40
_OPS_MAX = 14
_STATE_MAX = 200  # characters

Steps = Callable[[], Iterable[Step]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one operation showed at one offset: its words, and whether it was sent or polled."""

    words: str
    how: str  # sent, polled


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTable:
    """The offsets of a log around an anomaly: for each offset the values that operations sent and polled there."""

    key: str
    operations: tuple[tuple[str, str, bool], ...]  # name, who, whether the anomaly cites it
    rows: tuple[tuple[int, bool, tuple[Cell | None, ...]], ...]  # offset, whether its values differ, one cell an operation
    left_out: int  # offsets
    without_offset: tuple[str, ...]  # values that were sent and nobody saw at an offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """An anomaly with its quotes and its picture."""

    number: int
    anomaly: Anomaly
    quotes: tuple[tuple[int, Quote], ...]  # the cited line and the call
    chart: Chart | None = None
    graphs: tuple[Graph, ...] = ()
    log: LogTable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignPage:
    """The view model of the page."""

    file: str
    model: str
    guess: str  # how the model was chosen; "" if it was given
    repeat: str
    found: Judgement
    cards: tuple[Card, ...]
    left_out: int  # anomalies without a card
    chart: Chart | None  # the first calls of a history without anomalies

    @property
    def verdict(self) -> str:
        """VALID, UNKNOWN or INVALID."""
        return self.found.validity.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """What was judged as a linearizable object: the model and all calls of the history."""

    model: Model
    calls: Sequence[Call]


def page_of(
    steps: Steps,
    judgement: Judgement,
    *,
    file: str,
    model: str,
    repeat: str,
    guess: str = "",
    judged: Object | Sequence[Op] | None = None,
) -> ForeignPage:
    """Make the page of a judged history. `judged` is the object or the sends and polls, for the pictures that need them."""
    shown_ones = judgement.anomalies[:ANOMALIES_MAX]
    orders = (
        [_orders_before_stuck(judged, stuck) for stuck in judgement.longest[: len(shown_ones)]]
        if isinstance(judged, Object)
        else []
    )
    lines = {line for anomaly in shown_ones for line in anomaly.witness}
    lines |= {call.line for order in orders for call in order.drawn}
    by_line = cited(steps(), lines)
    cited_calls = [] if isinstance(judged, Object) else [by_line[line] for line in sorted(lines & by_line.keys())]
    around = _quotes_around(steps, cited_calls)
    cycles = () if judgement.cycles is UNSET else judgement.cycles
    logs = Logs(judged) if judged is not None and not isinstance(judged, Object) else None
    cards = []
    for number, anomaly in enumerate(shown_ones, 1):
        quoted = tuple((line, by_line[line]) for line in anomaly.witness if line in by_line)
        shown_cycles = [c for c in cycles if c.kind == anomaly.kind and {link.source for link in c.links} <= {*anomaly.witness}]
        cards.append(
            Card(
                number=number,
                anomaly=anomaly,
                quotes=quoted,
                chart=_chart_of_orders(orders[number - 1], by_line)
                if number <= len(orders)
                else _chart_around_witnesses(around, anomaly),
                graphs=tuple(_graph_of_cycle(cycle, by_line) for cycle in shown_cycles[:GRAPHS_MAX]),
                log=None if logs is None else _table_of_log(logs, anomaly),
            )
        )
    return ForeignPage(
        file=file,
        model=model,
        guess=guess,
        repeat=repeat,
        found=judgement,
        cards=tuple(cards),
        left_out=len(judgement.anomalies) - len(cards),
        chart=None if cards else _chart_of_quotes(_first_quotes(steps), frozenset()),
    )


# --- calls around ---------------------------------------------------------------------------------------------------------


def _first_quotes(steps: Steps) -> list[Quote]:
    """The first calls of a history."""
    taken: list[Quote] = []
    for quote in quotes(steps()):
        taken.append(quote)
        if len(taken) == _BARS_MAX // 2:
            break
    return taken


def _quotes_around(steps: Steps, witnesses: Sequence[Quote]) -> list[Quote]:
    """The calls of the witnesses, those concurrent with one of them, and a few before and after each; in order of invocation."""
    margin = 2 * _AROUND
    spans = _joined_spans((quote.start - margin, _end_or_start(quote) + margin) for quote in witnesses)
    quote_ends = [end for _, end in spans]

    def near(quote: Quote) -> bool:
        place = bisect_left(quote_ends, quote.start)
        return place < len(spans) and spans[place][0] <= _end_or_start(quote)

    return sorted(filter(near, quotes(steps())), key=lambda quote: quote.start) if spans else []


def _end_or_start(quote: Quote) -> int:
    """Where a call ended; a call of unknown outcome is open for ever, which says nothing about the calls beside it."""
    return quote.end if quote.end is not None and quote.type is OpType.OK else quote.start


def _joined_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same positions as spans that do not touch, in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _chart_around_witnesses(around: Sequence[Quote], anomaly: Anomaly) -> Chart | None:
    """The chart of an anomaly's witnesses and of the calls nearest to them; None if no witness is a call."""
    lines = frozenset(anomaly.witness)
    witnesses = [quote for quote in around if quote.line in lines or quote.answer_line in lines]
    if not witnesses:
        return None
    spots = [(q.start, _end_or_start(q)) for q in witnesses]

    def distance(quote: Quote) -> int:
        return min(max(start - _end_or_start(quote), quote.start - end, 0) for start, end in spots)

    return _chart_of_quotes(sorted(around, key=lambda quote: (quote not in witnesses, distance(quote)))[:_BARS_MAX], lines)


def _chart_of_quotes(chosen: Iterable[Quote], lines: frozenset[int]) -> Chart | None:
    bars = [
        Bar(
            number=quote.line,
            lane=quote.who,
            start=quote.start,
            end=quote.end if quote.type is not OpType.INFO else None,
            words=", ".join(quote.micro) or _call_in_short(quote),
            tone=str(quote.type or OpType.INFO),
            role="witness" if quote.line in lines or quote.answer_line in lines else "",
            details=_lines_of_quote(quote),
        )
        for quote in chosen
    ]
    return Chart(bars=tuple(sorted(bars, key=lambda bar: bar.start))) if bars else None


def _call_in_short(quote: Quote) -> str:
    answer = quote.outcome.partition(" -> ")[2]
    return f"{quote.call} -> {answer}" if answer else quote.call


def _lines_of_quote(quote: Quote) -> tuple[str, ...]:
    body = quote.micro or (quote.call,)
    return tuple(
        line for line in (f"{quote.lines}, {quote.who}", quote.when, *body, quote.outcome if not quote.micro else "") if line
    )


# --- orders of the calls on an object -------------------------------------------------------------------------------------


class _Order(NamedTuple):
    """What is told of an impossible call: the orders before it, and the calls that the picture shows."""

    told: Account
    by_index: dict[int, Call]
    impossible: Call
    drawn: list[Call]


def _orders_before_stuck(judged: Object, stuck: Stuck) -> _Order:
    """The possible orders of the calls on one object up to the call that fits into none of them."""
    calls = by_key(judged.calls)
    model = judged.model
    impossible = next(call for call in calls if call.index == stuck.call)
    part = [call for call in calls if model.key(call) == model.key(impossible) and not model.says_nothing(call)]
    orders = account(model, part, stuck)
    by_index = {call.index: call for call in part}
    return _Order(orders, by_index, impossible, _calls_to_draw(orders, by_index, impossible))


def _chart_of_orders(order: _Order, quoted: Mapping[int, Quote]) -> Chart:
    """The chart of these orders: each way through the calls ends where nothing can come next."""
    orders, by_index, impossible, drawn = order
    numbers = {call.index for call in drawn}
    bars = tuple(_bar_of_call(call, quoted.get(call.line), impossible) for call in drawn)
    left = len(orders.base) - sum(place.call in numbers for place in orders.base)
    ways = tuple(_way_of_path(orders, path, by_index, numbers, left) for path in orders.paths)
    return Chart(bars=bars, ways=ways, before=_state_before_in_words(orders, left), whole=orders.whole)


def _calls_to_draw(orders: Account, by_index: dict[int, Call], impossible: Call) -> list[Call]:
    """The last calls of the shared order, all calls of the paths, and those open beside the impossible one."""
    numbers = {place.call for place in orders.base[-_BASE_SHOWN:]} | {impossible.index}
    numbers |= {place.call for path in orders.paths for place in path.places} | {n for path in orders.paths for n in path.blocked}
    end = impossible.end or 0
    beside = [call for call in by_index.values() if call.start < end and (call.end is None or call.end > impossible.start)]
    beside.sort(key=lambda call: -call.start)
    numbers |= {call.index for call in beside[: max(_BARS_MAX - len(numbers), 0)]}
    return sorted((by_index[number] for number in numbers), key=lambda call: call.start)


def _bar_of_call(call: Call, quote: Quote | None, impossible: Call) -> Bar:
    own = (f"line {call.line}, process {shown(call.process)}", words_of(call)) if quote is None else _lines_of_quote(quote)
    return Bar(
        number=call.index,
        lane=f"process {shown(call.process)}",
        start=call.start,
        end=call.end,
        words=words_of(call),
        tone="info" if call.end is None else "ok",
        role="impossible" if call.index == impossible.index else "",
        details=own,
    )


def _state_before_in_words(orders: Account, left: int) -> str:
    """A sentence on the object's state before the first drawn call; `left`: how many calls before it are not drawn."""
    if not orders.paths:
        return "No order of the calls before was found within the budget of the page; the verdict does not depend on it."
    state = _state_in_short(orders.base[left - 1].state if left else orders.initial)
    begun = f"after {left} calls that are not drawn" if left else "before the first call"
    return f"The state {begun} is {state}."


def _way_of_path(orders: Account, path: Path, by_index: dict[int, Call], numbers: Set[int], left: int) -> Way:
    """One order of the drawn calls (`numbers`), and for each call that cannot come next the sentence that says so."""
    places = (*orders.base[left:], *path.places)
    state = places[-1].state if places else orders.initial
    return Way(
        points=tuple(
            Point(bar=p.call, place=left + n, state=_state_in_short(p.state))
            for n, p in enumerate(places, 1)
            if p.call in numbers
        ),
        ends=tuple(
            f"{words_of(by_index[index])} of line {by_index[index].line} cannot come next: the state is {_state_in_short(state)}"
            for index in path.blocked
        ),
        stuck=path.blocked,
    )


def _state_in_short(state: Hashable) -> str:
    text = shown(state)
    return text if len(text) <= _STATE_MAX else f"…{text[-_STATE_MAX:]}"


# --- cycles of transactions -----------------------------------------------------------------------------------------------


def _graph_of_cycle(cycle: Cycle, by_line: dict[int, Quote]) -> Graph:
    """The picture of a cycle of transactions; its title names what the cycle assumes."""
    order = [link.source for link in cycle.links]
    nodes = tuple(_node_of_line(number, line, by_line.get(line)) for number, line in enumerate(order, 1))
    place = {line: number for number, line in enumerate(order)}
    edges = tuple(
        Edge(source=place[link.source], target=place[link.target], kind=link.kind, reason=link.reason) for link in cycle.links
    )
    reasons = " and ".join(link.reason for link in cycle.assumed)
    return Graph(title=f"If {reasons}" if reasons else "The cycle", nodes=nodes, edges=edges)


def _node_of_line(number: int, line: int, quote: Quote | None) -> Node:
    if quote is None:
        return Node(line=line, name=f"T{number}", who=f"line {line}", micro=())
    return Node(line=line, name=f"T{number}", who=f"line {line}, {quote.who}", micro=quote.micro or (quote.call,))


# --- offsets of a log -----------------------------------------------------------------------------------------------------


def _table_of_log(logs: Logs, anomaly: Anomaly) -> LogTable | None:
    """What each operation sent and polled at the offsets around an anomaly, one row for each offset; None without a log."""
    log = next((log for key, log in logs.keys.items() if str(key) == anomaly.key), None)
    witnesses = [op for op in logs.ops if op.line in anomaly.witness]
    if log is None:  # a cycle has no key: show the log that most of its operations touch
        keys = [key for op in witnesses for key, _, _ in (*op.sends, *op.polls)]
        log = logs.keys[max(keys, key=keys.count)] if keys else None
    if log is None:
        return None
    near = _offsets_shown(log, witnesses)
    operations = sorted(_operations_shown(logs, log, near, witnesses), key=lambda op: op.start)
    cells = [_cells_by_offset(log.key, op) for op in operations]
    rows = []
    for offset in near:
        row = tuple(values_by_offset.get(offset) for values_by_offset in cells)
        differ = len(log.offsets.get(offset, ())) > 1
        rows.append((offset, differ, row))
    lost = tuple(_value_in_words(value) for value in log.writers if value not in log.indices_of)[:_OPS_MAX]
    return LogTable(
        key=_value_in_words(log.key),
        operations=tuple(
            (f"line {op.line}", f"{op.f} of process {shown(op.process)}, {op.type}", op in witnesses) for op in operations
        ),
        rows=tuple(rows),
        left_out=len(log.order) - len([offset for offset in near if offset in log.offsets]),
        without_offset=lost,
    )


def _offsets_shown(log: Log, witnesses: Sequence[Op]) -> list[int]:
    """The offsets that the witnesses touch, with neighbours that hold a value."""
    touched = {offset for op in witnesses for key, offset, _ in (*op.sends, *op.polls) if key == log.key and offset is not None}
    if not touched:
        return log.order[:_OFFSETS_MAX]
    # What one witness shows where the log has several values comes first: there is the contradiction.
    wanted = sorted(touched, key=lambda offset: (len(log.offsets.get(offset, ())) < 2, offset))[:_OFFSETS_MAX]
    places = {log.index[offset] + step for offset in wanted if offset in log.index for step in (-2, -1, 0, 1, 2)}
    beside = [log.order[place] for place in sorted(places) if 0 <= place < len(log.order)]
    return sorted({*wanted, *beside[: max(_OFFSETS_MAX - len(wanted), 0)]})


def _operations_shown(logs: Logs, log: Log, near: Sequence[int], witnesses: Sequence[Op]) -> list[Op]:
    """The operations of the columns: the witnesses, and others that sent or polled at these offsets."""
    inside = frozenset(near)
    others = [
        op
        for op in logs.ops
        if op not in witnesses and any(key == log.key and at in inside for key, at, _ in (*op.sends, *op.polls))
    ]
    return [*witnesses, *others[: max(_OPS_MAX - len(witnesses), 0)]]


def _cells_by_offset(key: Hashable, op: Op) -> dict[int, Cell]:
    """What an operation sent or polled on this log, by offset."""
    cells: dict[int, Cell] = {}
    for how, records in (("polled", op.polls), ("sent", op.sends)):
        for record in _records_of_log(key, records):
            cells[record[0]] = Cell(words=_value_in_words(record[1]), how=how)
    return cells


def _records_of_log(key: Hashable, records: Iterable[tuple[Hashable, int | None, Hashable]]) -> Iterator[tuple[int, Hashable]]:
    return ((offset, value) for own, offset, value in records if own == key and offset is not None)


def _value_in_words(value: Hashable) -> str:
    text = text_of(value)
    return shown(value) if text is None else text
