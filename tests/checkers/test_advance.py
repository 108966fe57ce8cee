"""A record that the whole ISR holds is committed in time while no fault is in force (docs/promise.md LIVE-8; V3 §G)."""

import pytest

from checkers.sketches import sketch

BEGUN = ("state-written leader=b1 isr=b1,b2", "became-leader node=b1 hw=0 leo=0", "became-follower node=b2 leader=b1")
HELD = ("append node=b1 offset=0 value=a", "append node=b2 offset=0 value=a detail=follower")


def committed_at(ms: int) -> str:
    return f"hw node=b1 hw=1 leo=1 time_ns={ms}000000"


LATE = committed_at(9000)
FAULT = "fault-begun fault=f node={} detail=clog"


def complaints(*rows: str) -> list[str]:
    return sketch("advance", *rows)


def test_record_that_is_committed_late_is_told() -> None:
    """The bound of these histories is 2.5 s."""
    assert complaints(*BEGUN, *HELD, LATE) == [
        "b1 raised the HW of t-0 above 0 only at row 5, though its ISR held offset 0 for 2500 ms"
    ]
    assert complaints(*BEGUN, *HELD, committed_at(2400)) == []


@pytest.mark.parametrize(
    "rows",
    [
        (*BEGUN, HELD[0], LATE),
        (*BEGUN[:2], *HELD, LATE),
        (BEGUN[0].replace("isr=b1,b2", "isr=b1"), *BEGUN[1:], *HELD, LATE),
        (*BEGUN, *HELD, "node-stopped node=b2 detail=crash", LATE),
        (FAULT.format("b3"), *BEGUN, *HELD, LATE),
        (*BEGUN, *HELD, "resigned node=b2", LATE),
        (*BEGUN, HELD[0], f"{HELD[1]} time_ns=8000000000", LATE),
    ],
    ids=["b2 lacks it", "b2 follows nobody", "a short ISR", "b2 died", "a fault is in force", "b2 resigned", "b2 got it lately"],
)
def test_record_may_wait_where_a_member_may_lack_it(rows: tuple[str, ...]) -> None:
    assert complaints(*rows) == []


SHORT = "isr-change-sent node=b1 isr=b1"
WIDER = "isr-change-sent node=b1 isr=b1,b2,b3"


@pytest.mark.parametrize(
    ("rows", "is_reported"),
    [
        ((SHORT,), False),
        ((SHORT, "hw node=b1 hw=0 leo=0"), False),
        ((SHORT, "isr-change-ended node=b2 isr=b1,b2 detail=refused"), False),
        ((WIDER,), False),
        ((WIDER, "append node=b3 offset=0 value=a detail=follower"), True),
        ((WIDER, "isr-change-ended node=b1 isr=b1,b2 detail=refused"), True),
        ((WIDER.replace("node=b1", "node=b3"),), True),
        ((SHORT, "isr-change-ended node=b1 isr=b1,b2 detail=refused"), True),
        ((SHORT, BEGUN[0]), True),
        ((SHORT, BEGUN[1]), True),
        ((BEGUN[0].replace("leader=b1", "leader=b2"), SHORT, BEGUN[0]), True),
        ((SHORT.replace("node=b1", "node=b3"),), True),
    ],
    ids=[
        "open",
        "open while the HW is told",
        "another's ended",
        "to a member that lacks it",
        "to a member that has it",
        "to a member, refused",
        "to a member, of a deposed leader",
        "refused",
        "state written",
        "leads again",
        "a leader before",
        "a deposed leader",
    ],
)
def test_open_change_of_the_isr_holds_the_hw_up(rows: tuple[str, ...], is_reported: bool) -> None:
    """Seeds 150326, 150334 and 213790 of `--faults all`: no controller was in office that could answer the leader."""
    history = (*BEGUN, *rows, *HELD, LATE)

    assert (complaints(*history) != []) == is_reported


def test_isr_change_open_for_longer_than_b_excuses_no_late_hw() -> None:
    """A leader that asks each second for a wider ISR, without an answer, must commit by the ISR that it has."""
    asks = [f"{WIDER} time_ns={at * 10**9}" for at in range(1, 60)]

    (complaint,) = complaints(*BEGUN, *HELD, *asks, committed_at(60_000))
    assert complaint.startswith("b1 raised the HW of t-0 above 0 only at row")


def test_record_waits_for_no_fault_that_has_ended() -> None:
    fault = (FAULT.format("b3"), "fault-ended fault=f node=b3 detail=clog")

    assert complaints(*fault, *BEGUN, *HELD, LATE) != []
