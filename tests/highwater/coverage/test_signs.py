"""Signs of behaviour: what happened next to what, without times, names and numbers."""

from collections.abc import Iterable

from msgspec.structs import replace

from highwater.coverage.signs import Sign, signs_of
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from tests.strategies import MANIFEST

K = EventKind


def event(kind: EventKind, node: str | None = None, **columns: object) -> ClusterEvent:
    return ClusterEvent(index=0, kind=kind, node=node, time_ns=0, **columns)  # type: ignore[arg-type]


def state(leader: str | None, *isr: str, epoch: int = 0, topic: str = "t") -> ClusterEvent:
    return event(K.STATE_WRITTEN, topic=topic, partition=0, leader=leader, leader_epoch=epoch, isr=isr, elr=())


def truncated(node: str, offset: int) -> ClusterEvent:
    return event(K.TRUNCATE, node, topic="t", partition=0, offset=offset)


def produced(offset: int | None, type_: OpType = OpType.OK, error: str | None = None) -> Operation:
    return Operation(index=0, process=1, type=type_, f="produce", topic="t", partition=0, offset=offset, error=error, time_ns=0)


def history(rows: Iterable[ClusterEvent | Operation], *, step_ms: int = 100) -> History:
    """A history of these rows, so many milliseconds apart."""
    numbered = [replace(row, index=number, time_ns=number * step_ms * 1_000_000) for number, row in enumerate(rows)]
    operations = tuple(row for row in numbered if isinstance(row, Operation))
    return History(MANIFEST, operations=operations, events=tuple(row for row in numbered if isinstance(row, ClusterEvent)))


def words(*rows: ClusterEvent | Operation, step_ms: int = 100) -> set[str]:
    return {sign.words for sign in signs_of(history(rows, step_ms=step_ms))}


ASSIGNED = event(K.ASSIGNED, topic="t", partition=0, replicas=("b1", "b2", "b3"))
BEGUN = (ASSIGNED, state("b1", "b1", "b2", "b3"))
STOPS, STARTS = event(K.NODE_STOPPED, "b1"), event(K.NODE_STARTED, "b1")


def test_signs_do_not_depend_on_times() -> None:
    """A slower machine is not new behaviour."""
    rows = (*BEGUN, produced(4), STOPS, state("b2", "b2", "b3", epoch=1), STARTS, truncated("b1", 2))

    assert words(*rows, step_ms=1) == words(*rows, step_ms=5000)


def test_signs_do_not_depend_on_names_and_numbers() -> None:
    def named(leader: str, next_leader: str, offset: int, epoch: int) -> set[str]:
        return words(
            ASSIGNED,
            state(leader, "b1", "b2", "b3", epoch=epoch),
            produced(offset),
            event(K.NODE_STOPPED, leader),
            state(next_leader, *{"b1", "b2", "b3"} - {leader}, epoch=epoch + 1),
            truncated(leader, offset - 1),
        )

    assert named("b1", "b2", 4, 0) == named("b3", "b1", 70, 5)


def test_repeated_events_are_one() -> None:
    again = [state("b1", "b1", "b2", "b3", epoch=epoch) for epoch in range(1, 9)]

    assert words(*BEGUN, *again[:1]) == words(*BEGUN, *again)


def test_order_of_two_events_is_a_sign() -> None:
    """KIP-101 needs a truncation before the election: the same events in another order are another behaviour."""
    elected, cut = state("b2", "b2", "b3", epoch=1), truncated("b3", 0)

    assert words(*BEGUN, elected, cut) != words(*BEGUN, cut, elected)


def test_truncation_below_what_was_acknowledged_is_told_apart() -> None:
    kept, lost = words(*BEGUN, produced(4), truncated("b2", 5)), words(*BEGUN, produced(4), truncated("b2", 4))

    assert "in-sync replica truncates at acknowledged" in kept
    assert "in-sync replica truncates below acknowledged" in lost


def test_leader_from_outside_of_the_isr_is_told_apart() -> None:
    shrunk = (*BEGUN, state("b1", "b1", "b2"))

    assert "other broker elected" in words(*shrunk, state("b3", "b3", epoch=1)) - words(*shrunk)
    assert "in-sync replica elected" in words(*shrunk, state("b2", "b2", epoch=1))


def test_faults_alone_are_no_behaviour() -> None:
    """The search draws the faults: two plans with other faults that nothing follows have shown the same."""
    fault = event(K.FAULT_BEGUN, "b1", fault="f1", detail="clog")

    assert words(*BEGUN, fault) == words(*BEGUN)
    assert "[leader: clog begins] > ISR alone" in words(*BEGUN, fault, state("b1", "b1"))


def test_how_a_call_ended_is_told_with_what_was_before() -> None:
    failed = produced(None, OpType.INFO, "timed out after 1000 ms")

    assert "ISR whole > produce info timed out after # ms" in words(*BEGUN, failed)


def test_sign_has_its_first_time_and_broker() -> None:
    """An edit strikes there again, from when clients began."""
    signs = signs_of(history((produced(0), *BEGUN, STOPS, STARTS, STOPS)))

    assert Sign("leader: stops", 300, 1) in signs
    assert len({sign.words for sign in signs}) == len(signs)
