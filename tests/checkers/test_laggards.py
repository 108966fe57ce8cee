"""A member of the ISR that lags must be proposed to leave it, whatever hinders it (docs/promise.md LIVE-7)."""

import pytest

from checkers.sketches import sketch

LED = ("state-written leader=b1 isr=b1,b2", "became-leader node=b1 hw=0 leo=0")
LACKS = ["b2 lacks offset 0 of t-0, which b1 appended at row 2, and was still in the ISR 2500 ms later"]
ROW = "append node=b1 offset=0 value=a"
END = "gauge node=b3 gauge=0 time_ns=9000000000"


def test_member_that_never_gets_a_record_lags() -> None:
    assert sketch("laggards", *LED, ROW, END) == LACKS


@pytest.mark.parametrize(("at_ms", "told"), [(2400, []), (2600, LACKS)])
def test_record_must_come_in_time(at_ms: int, told: list[str]) -> None:
    theirs = f"append node=b2 offset=0 value=a detail=follower time_ns={at_ms}000000"

    assert sketch("laggards", *LED, ROW, theirs, END) == told


@pytest.mark.parametrize(
    "excuse",
    [
        "isr-change-sent node=b1 isr=b1 time_ns=2000000000",
        "state-written leader=b1 isr=b1 time_ns=2000000000",
        "state-written leader=b2 isr=b1,b2 leader_epoch=2 time_ns=2000000000",
        "resigned node=b1 time_ns=2000000000",
        "node-stopped node=b1 detail=crash time_ns=2000000000",
        "fenced node=b1 time_ns=2000000000",  # seed 1104 of `--faults all`
        "fault-begun fault=f node=b1 detail=pause-long time_ns=2000000000",
        "fault-begun fault=f node=b1 detail=clock-drift time_ns=2000000000",
    ],
)
def test_leader_that_cannot_propose_is_excused(excuse: str) -> None:
    assert sketch("laggards", *LED, ROW, excuse, END) == []


@pytest.mark.parametrize(
    "other",
    [
        "fault-begun fault=f node=b2 detail=pause-long time_ns=2000000000",
        "fault-begun fault=f node=b1 detail=clog time_ns=2000000000",
        "resigned node=b2 time_ns=2000000000",
    ],
)
def test_trouble_of_the_member_excuses_nothing(other: str) -> None:
    assert sketch("laggards", *LED, ROW, other, END) == LACKS


@pytest.mark.parametrize(
    ("later", "is_reported"), [((), False), (("unfenced node=b1",), True)], ids=["fenced", "unfenced before"]
)
def test_fenced_leader_proposes_nothing(later: tuple[str, ...], is_reported: bool) -> None:
    """R-186: it refuses its followers, so that they lag (seed 1104 of `--faults all`)."""
    findings = sketch("laggards", *LED, "fenced node=b1", *later, ROW, END)

    assert any("b2 lacks offset 0" in words for words in findings) is is_reported


def test_end_of_a_pause_does_not_end_a_change_of_the_isr() -> None:
    asks = "isr-change-sent node=b1 isr=b1 time_ns=2000000000"
    pause = [f"{kind} fault=f node=b1 detail=pause-long time_ns=3000000000" for kind in ("fault-begun", "fault-ended")]

    assert sketch("laggards", *LED, ROW, asks, *pause, END) == []
    assert sketch("laggards", *LED, ROW, *pause, END) == LACKS


def test_time_counts_anew_after_a_change_of_the_isr() -> None:
    change = "isr-change-sent node=b1 isr=b1,b2,b3 time_ns=2000000000", "isr-change-ended node=b1 isr=b1,b2 time_ns=7000000000"

    assert sketch("laggards", *LED, ROW, *change, END) == []


def test_member_counts_from_the_time_when_it_joins() -> None:
    rows = ("state-written leader=b1 isr=b1", "became-leader node=b1 hw=0 leo=0")
    joined = "state-written leader=b1 isr=b1,b2 zk_version=2 time_ns=3000000000"
    later = "append node=b1 offset=1 value=b time_ns=4000000000"

    assert sketch("laggards", *rows, ROW, joined, "gauge node=b3 gauge=0 time_ns=5000000000") == []
    assert [words[:20] for words in sketch("laggards", *rows, ROW, joined, later, END)] == ["b2 lacks offset 1 of"]
