"""Brokers lose a place in an ISR, a leadership, or the trust of the controller only for a cause (docs/promise.md LIVE-10)."""

import pytest

from checkers.sketches import sketch

KNOWN = (
    "registered node=b1 incarnation=1",
    "registered node=b2 incarnation=2",
    "state-written node=b9 leader=b1 isr=b1,b2 stamps=1,2",
)
SHRUNK = "state-written node=b9 leader=b1 isr=b1 stamps=1"
OFFLINE = "state-written node=b9 isr=b1,b2 stamps=1,2"
HEARD = "broker-state node=b9 broker=b2 incarnation=2 detail=active"
SILENT = "broker-state node=b9 broker=b2 incarnation=2 detail=inactive"


def test_isr_removal_without_a_cause_is_told() -> None:
    assert sketch("demotions", *KNOWN, SHRUNK) == ["b2 was removed from the ISR of t-0 at row 3 without a cause"]


def test_leader_loss_without_a_cause_is_told() -> None:
    assert sketch("demotions", *KNOWN, OFFLINE) == ["t-0 lost its leader b1 at row 3 and got no other, without a cause"]


def test_member_told_in_an_older_layout_may_lose_its_session() -> None:
    """The leader knew of no registration (R-316): the member has the one that it had when the ISR was written."""
    unknown = "state-written node=b9 leader=b1 isr=b1,b2 stamps=1,-1"

    assert sketch("demotions", *KNOWN[:2], unknown, "session-ended node=b2 incarnation=2", SHRUNK) == []
    assert sketch("demotions", *KNOWN[:2], unknown, SHRUNK) == ["b2 was removed from the ISR of t-0 at row 3 without a cause"]


@pytest.mark.parametrize(
    "cause",
    [
        "session-ended node=b2 incarnation=2",
        "dir-failed node=b2 dir=0",
        "broker-state node=b9 broker=b2 incarnation=2 detail=stopping",
        "isr-change-sent node=b1 isr=b1 zk_version=0",
        "assigned replicas=b1,b3",
        "reassignment-begun node=b9 detail=forward",
        "unclean-election-ordered leader=b1",
    ],
)
def test_isr_removal_with_a_cause_is_not_told(cause: str) -> None:
    assert sketch("demotions", *KNOWN, cause, SHRUNK) == []


@pytest.mark.parametrize(
    ("heard", "is_reported"), [((HEARD,), False), ((HEARD, HEARD.replace("incarnation=2", "incarnation=3")), True), ((), True)]
)
def test_member_is_inactive_until_its_first_heartbeat(heard: tuple[str, ...], is_reported: bool) -> None:
    """A leader of an earlier protocol wrote the new registration itself, while the controller was cut off (seed 218258)."""
    again = "session-ended node=b2 incarnation=2", "node-started node=b2 life=2", "registered node=b2 incarnation=3"
    joined = "state-written node=b1 leader=b1 isr=b1,b2 stamps=1,3"

    assert bool(sketch("demotions", *KNOWN, *heard[:1], *again, joined, *heard[1:], SHRUNK)) is is_reported


@pytest.mark.parametrize(("again", "is_reported"), [((), False), (("registered node=b2 incarnation=3",), True)])
def test_failed_directory_counts_until_the_registration_ends(again: tuple[str, ...], is_reported: bool) -> None:
    """b2 reported it and was restarted; the controller acts on the report (seed 195706 of `--faults all`)."""
    failed = "dir-failed node=b2 dir=0", "node-stopped node=b2 detail=crash", "node-started node=b2 life=2"
    stamp = 3 if again else 2
    joined = f"state-written node=b9 leader=b1 isr=b1,b2 stamps=1,{stamp}"

    assert bool(sketch("demotions", *KNOWN, *failed, *again, joined, SHRUNK)) is is_reported


@pytest.mark.parametrize(
    ("begun", "kind", "ms", "is_reported"),
    [
        ("b9", "answer-late", 500, False),
        ("b9", "answer-late", 1500, True),
        ("b3", "answer-late", 500, True),
        ("b9", "slow", 500, True),
    ],
    ids=["soon", "later", "of another broker", "another fault"],
)
def test_list_that_comes_late_does_not_name_a_new_broker(begun: str, kind: str, ms: int, is_reported: bool) -> None:
    """The controller heard the broker's heartbeat first (seed 10663 of `--faults all`)."""
    fault_rows = [f"fault-{when} fault=f node={begun} detail={kind}" for when in ("begun", "ended")]

    findings = sketch("demotions", fault_rows[0], *KNOWN, fault_rows[1], f"{OFFLINE} time_ns={ms}000000")

    assert any("lost its leader b1" in words for words in findings) is is_reported


def test_isr_of_a_topic_created_again_starts_anew() -> None:
    assert sketch("demotions", *KNOWN[:2], f"{KNOWN[2]} topic_id=7", f"{SHRUNK} topic_id=8") == []


def test_leader_may_shrink_the_isr_before_kip_343() -> None:
    """V3 §G: a leader with the protocol before KIP-343 writes the state."""
    assert sketch("demotions", *KNOWN, SHRUNK.replace("node=b9", "node=b1")) == []


@pytest.mark.parametrize(
    ("kind", "lasted_ms", "is_reported"),
    [("lossy", 400, True), ("lossy", 500, False), ("cut-peers", 10, False)],
    ids=["two heartbeats are lost", "three heartbeats may be lost", "a cut connection stands still for longer"],
)
def test_broker_with_heartbeats_is_not_treated_as_inactive(kind: str, lasted_ms: int, is_reported: bool) -> None:
    """The session timeout of these histories is 1 s."""
    fault = (
        f"fault-begun fault=f node=b2 detail={kind} time_ns=1000000000",
        f"fault-ended fault=f node=b2 detail={kind} time_ns={1000 + lasted_ms}000000",
    )

    findings = sketch("demotions", *KNOWN, HEARD, *fault, f"{SILENT} time_ns=1900000000")

    assert findings == (
        ["controller b9 treated b2 as inactive at row 6, but faults took at most two heartbeats"] if is_reported else []
    )


def test_stopped_broker_may_be_treated_as_inactive() -> None:
    assert sketch("demotions", *KNOWN, HEARD, "node-stopped node=b2 detail=crash", SILENT) == []


def test_controller_epoch_in_a_state_never_falls() -> None:
    """A leader that writes the state itself names the controller that it obeys (R-152)."""
    written = "state-written isr=b1 leader=b1 controller_epoch="

    assert sketch("state-writes", f"{written}2", f"{written}2") == []
    assert sketch("state-writes", f"{written}2", f"{written}1") == ["epoch-regressed"]
