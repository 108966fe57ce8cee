"""How often a value may stand in the log, and in which order (docs/promise.md ORD-3, ORD-4, CUT-1)."""

from checkers.clients.duplicates import CHECKER
from checkers.engine.checker import apply
from checkers.engine.facts import facts_of
from checkers.engine.groups import Group
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.op import OpType
from tests.checkers.story import HistoryBuilder


def sends(builder: HistoryBuilder, value: str, *, once: bool = False, attempts: int | None = None, process: int = 1) -> None:
    """A produce acknowledged at an offset that this checker ignores."""
    row: dict[str, object] = {"value": value, "acks": -1, "delivery": "once" if once else None}
    builder.op(process, OpType.INVOKE, "produce", (row,))
    builder.op(process, OpType.OK, "produce", ({**row, "attempts": attempts},))


def findings(builder: HistoryBuilder, cuts: tuple[Cut, ...] = ()) -> Findings:
    """What the checker finds in the partition of the story."""
    history = builder.history()
    group = Group(Operations(history.operations_frame), Events(history.events_frame))
    return apply(CHECKER, group, facts_of(history.manifest), cuts)


def kinds(findings_found: Findings) -> list[str]:
    return [anomaly.kind for anomaly in findings_found.anomalies]


def test_idempotent_producer_value_may_appear_only_once() -> None:
    """ORD-3, B-66: however often it was sent."""
    builder = HistoryBuilder()
    sends(builder, "a", once=True, attempts=3)
    read = builder.poll(2, 0, "a b a")

    findings_found = findings(builder)

    assert kinds(findings_found) == ["duplicate"]
    assert findings_found.anomalies[0].witness == (read, read)
    assert findings_found.counts == {"duplicates": 1}


def test_value_without_idempotence_may_appear_once_per_send() -> None:
    """ORD-3, ORD-4: one retry may leave a second record, but no third."""
    builder = HistoryBuilder()
    sends(builder, "a", attempts=2)
    builder.poll(2, 0, "a a")
    assert (kinds(findings(builder)), findings(builder).counts) == ([], {"duplicates": 1})

    builder.poll(2, 2, "a")
    assert kinds(findings(builder)) == ["duplicate"]


def test_value_with_unknown_number_of_sends_is_no_duplicate() -> None:
    """Foreign histories do not say the number of attempts, so there is no anomaly."""
    builder = HistoryBuilder()
    sends(builder, "a")
    builder.poll(2, 0, "a a")

    assert (kinds(findings(builder)), findings(builder).counts) == ([], {"duplicates": 1})


def test_value_of_an_excused_loss_may_be_appended_again() -> None:
    """CUT-1: the retry reached a log from which the harness had removed the record."""
    builder = HistoryBuilder()
    sends(builder, "a", once=True, attempts=2)
    builder.poll(2, 0, "x y a", epoch=1)
    builder.poll(2, 0, "x a", epoch=3)
    cut = Cut(topic="orders", partition=0, offset=1, leader_epoch=3)

    assert kinds(findings(builder, (cut,))) == []
    assert kinds(findings(builder)) == ["duplicate"]


def test_idempotent_producer_values_must_be_in_send_order() -> None:
    """ORD-3: each was sent after the answer to the last."""
    builder = HistoryBuilder()
    sends(builder, "a", once=True, attempts=1)
    sends(builder, "b", once=True, attempts=1)
    sends(builder, "c", once=True, attempts=1, process=2)
    builder.poll(3, 0, "c b a")

    assert kinds(findings(builder)) == ["reordered"]


def test_producer_order_without_idempotence_is_not_judged() -> None:
    """ORD-3: a late attempt of its first value may come after its second."""
    builder = HistoryBuilder()
    sends(builder, "a", attempts=2)
    sends(builder, "b", attempts=1)
    builder.poll(3, 0, "b a")

    assert kinds(findings(builder)) == []
