"""Each state of a partition follows from the one before (V3 §A step 3.2, step 3.3, R-021, R-144; KIP-966; U-18)."""

import pytest

from checkers.sketches import sketch

KNOWN = (
    *(f"registered node=b{number} incarnation={number}" for number in (1, 2, 3)),
    "assigned replicas=b1,b2,b3",
    "state-written node=b9 leader=b1 isr=b1,b2,b3 stamps=1,2,3",
)
LED_BY_B2 = "state-written node=b9 leader=b2 leader_epoch=2"
ENDED = "session-ended node=b1 incarnation=1"
LATE = "broker-state node=b9 broker=b3 detail=active"


def complaints(*rows: str) -> list[str]:
    return sketch("succession", *KNOWN, *rows)


def silent(node: str, number: int) -> str:
    return f"broker-state node=b9 broker={node} incarnation={number} detail=inactive"


@pytest.mark.parametrize(
    ("state", "kinds"),
    [
        (f"{LED_BY_B2} isr=b2,b3 stamps=2,3", []),
        ("state-written node=b9 leader=b2 leader_epoch=3 isr=b2,b3 stamps=2,3", ["wrong-epoch"]),
        ("state-written node=b9 leader_epoch=1 isr=b1,b2,b3 stamps=1,2,3", ["wrong-epoch"]),
        ("state-written node=b9 leader=b1 leader_epoch=2 isr=b1,b2,b3 stamps=1,2,3", ["wrong-epoch"]),
        ("state-written node=b1 leader=b1 isr=b1,b2 stamps=1,2", []),
    ],
    ids=["one higher", "two higher", "nobody in the same epoch", "nothing changes", "the leader shrinks its ISR"],
)
def test_epoch_rises_by_one_where_the_leader_changes(state: str, kinds: list[str]) -> None:
    assert complaints(ENDED, state) == kinds


def test_partition_that_is_added_again_begins_anew() -> None:
    """The last partitions of a topic were removed and added again: the id of the topic stays, and its state znode is new."""
    again = "state-written node=b9 leader=b2 leader_epoch=1 isr=b2,b3 stamps=2,3"

    assert complaints("topic-deleted", "assigned replicas=b2,b3", f"{again} zk_version=0") == []
    assert complaints("topic-deleted", "assigned replicas=b2,b3", f"{again} zk_version=5") != []


def test_partition_is_judged_until_its_deletion_is_done() -> None:
    """A requested deletion takes its time; meanwhile brokers come and go (seeds 85 and 120 of `make test-chaos FIRST=1`)."""
    led = f"{LED_BY_B2} isr=b2,b3 stamps=2,3 zk_version=2"
    ended = "session-ended node=b3 incarnation=3"
    later = "state-written node=b9 leader=b2 leader_epoch=3 isr=b1,b2 stamps=7,2 zk_version=4"
    back = "state-written node=b2 leader=b2 leader_epoch=2 isr=b1,b2,b3 stamps=7,2,3 zk_version=3"

    assert complaints(ENDED, led, "registered node=b1 incarnation=7", back, "topic-deleted", ended, later) == []


@pytest.mark.parametrize(
    ("between", "kinds"),
    [
        ("ok poll offset=0", ["wrong-epoch"]),
        ("registered node=b9 incarnation=9", []),
        ("assigned replicas=b1,b2,b3", []),
        ("fault-begun fault=f node=b2 detail=clog", []),
    ],
    ids=["nothing happens", "a broker registers", "the assignment changes", "a fault is in force"],
)
def test_move_raises_the_epoch_twice_for_nothing(between: str, kinds: list[str]) -> None:
    """R-051: the new replicas start in a new epoch. R-235: a leader in the target keeps the role in a new epoch."""
    idle = [f"state-written node=b9 leader=b1 leader_epoch={epoch} isr=b1,b2,b3 stamps=1,2,3" for epoch in (2, 3, 4)]

    assert complaints("reassignment-begun node=b9 detail=forward", *idle[:2], between, idle[2]) == kinds


@pytest.mark.parametrize(
    ("between", "idle", "kinds"),
    [
        ((), 3, []),
        ((), 4, ["wrong-epoch"]),
        (("reassignment-ended node=b9 detail=forward",), 3, ["wrong-epoch"]),
        (("registered node=b7 incarnation=70",), 3, []),
    ],
    ids=["turned round", "once more", "after its end", "a broker registered"],
)
def test_move_turned_round_raises_a_third_epoch(between: tuple[str, ...], idle: int, kinds: list[str]) -> None:
    """The state of the move that is turned round was sent before the way back began (seed 210334 of `--faults all`)."""
    epochs = [f"state-written node=b9 leader=b1 leader_epoch={epoch} isr=b1,b2,b3 stamps=1,2,3" for epoch in range(2, 6)]

    assert (
        complaints(
            "reassignment-begun node=b9 detail=forward", *between, "reassignment-begun node=b9 detail=back", *epochs[:idle]
        )
        == kinds
    )


def test_move_that_another_controller_begins_anew_has_two_epochs() -> None:
    epochs = [f"state-written node=b8 leader=b1 leader_epoch={epoch} isr=b1,b2,b3 stamps=1,2,3" for epoch in (2, 3, 4)]
    move_begun = [f"reassignment-begun node={node} detail=forward" for node in ("b9", "b8")]

    assert complaints(*move_begun, *epochs) == ["wrong-epoch"]


@pytest.mark.parametrize(
    ("edit", "answer", "idle", "kinds"),
    [
        ("/admin/reassign_partitions overwritten with null", "ok", 3, []),
        ("/admin/reassign_partitions deleted", "info", 3, []),
        ("/admin/reassignments/t/0 deleted", "ok", 3, []),
        ("/admin/reassign_partitions overwritten with null", "ok", 4, ["wrong-epoch"]),
        ("/admin/reassign_partitions deleted", "fail", 3, ["wrong-epoch"]),
        ("/admin/reassign_partitions created with null", "ok", 3, ["wrong-epoch"]),
        ("/admin/reassign_partitions_extra deleted", "ok", 3, ["wrong-epoch"]),
        ("/admin/reassignments/t/1 deleted", "ok", 3, ["wrong-epoch"]),
    ],
    ids=["overwritten", "deleted", "in flight", "once more", "not done", "not removed", "another znode", "another partition"],
)
def test_move_that_an_operator_ends_raises_a_third_epoch(edit: str, answer: str, idle: int, kinds: list[str]) -> None:
    """An operator removes the entry of a move by hand when its leader has got the role anew (seed 110399 of `--faults all`).

    The replicas that the topic znode names must follow again, and brokers obey only a greater epoch (R-051, R-080).
    """
    epochs = [f"state-written node=b9 leader=b1 leader_epoch={epoch} isr=b1,b2,b3 stamps=1,2,3" for epoch in range(2, 6)]
    by_hand = f"invoke edit-znode value='{edit}'", f"{answer} edit-znode"

    assert complaints("reassignment-begun node=b9 detail=forward", *epochs[:2], *by_hand, *epochs[2:idle]) == kinds


def test_edit_before_a_move_gives_it_no_third_epoch() -> None:
    epochs = [f"state-written node=b9 leader=b1 leader_epoch={epoch} isr=b1,b2,b3 stamps=1,2,3" for epoch in (2, 3, 4)]
    by_hand = "invoke edit-znode value='/admin/reassign_partitions deleted'", "ok edit-znode"

    assert complaints(*by_hand, "reassignment-begun node=b9 detail=forward", *epochs) == ["wrong-epoch"]


@pytest.mark.parametrize(
    ("state", "kinds"),
    [
        (f"{LED_BY_B2} isr=b2,b3 stamps=2,4", ["wrong-isr"]),
        (f"{LED_BY_B2} isr=b2,b4 stamps=2,4", ["wrong-isr"]),
        (f"{LED_BY_B2} isr=b2 stamps=5", []),
        ("state-written node=b9 leader_epoch=2 isr=b1,b2 stamps=1,2", ["wrong-isr"]),
        ("state-written node=b9 leader_epoch=2 isr=b1,b2,b3 stamps=1,2,3", []),
    ],
    ids=["another registration", "a stranger", "alone, registered anew", "nobody leads a shorter ISR", "nobody leads the ISR"],
)
def test_election_takes_nobody_into_the_isr(state: str, kinds: list[str]) -> None:
    assert complaints(ENDED, state) == kinds


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        (("session-ended node=b3 incarnation=3", ENDED), ["wrong-isr"]),
        ((ENDED, "session-ended node=b3 incarnation=3"), []),
        ((silent("b3", 3), silent("b1", 1)), ["wrong-isr"]),
        ((silent("b1", 1), silent("b3", 3)), []),
        (("session-ended node=b3 incarnation=3", ENDED, "registered node=b1 incarnation=7"), []),
        (("session-ended node=b3 incarnation=3", silent("b1", 1), ENDED), []),
        (("session-ended node=b3 incarnation=3", "dir-failed node=b1 dir=0", ENDED), []),
        (("session-ended node=b3 incarnation=3", f"{LATE} incarnation=3", ENDED), []),  # seed 86 of `make test-chaos FIRST=1`
        ((f"{LATE} incarnation=3", "session-ended node=b3 incarnation=3", ENDED), ["wrong-isr"]),
    ],
    ids=[
        "ended before",
        "ended after",
        "silent before",
        "silent after",
        "a heartbeat may have told",
        "silence was the cause",
        "a directory was the cause",
        "a late heartbeat was believed",
        "an early heartbeat tells nothing",
    ],
)
def test_election_leaves_out_whom_the_controller_knew_gone(rows: tuple[str, ...], kinds: list[str]) -> None:
    assert complaints(*rows, f"{LED_BY_B2} isr=b2,b3 stamps=2,3") == kinds


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ((f"{LED_BY_B2} isr=b1,b2,b3 stamps=1,2,3",), ["wrong-leader"]),
        ((ENDED, "state-written node=b9 leader=b3 leader_epoch=2 isr=b2,b3 stamps=2,3"), ["wrong-leader"]),
        (("reassignment-begun node=b9 detail=forward", f"{LED_BY_B2} isr=b1,b2,b3 stamps=1,2,3"), []),
    ],
    ids=["the leader stays in the ISR", "not the first of the ISR", "a move"],
)
def test_leader_stays_or_the_first_of_the_isr_leads(rows: tuple[str, ...], kinds: list[str]) -> None:
    assert complaints(*rows) == kinds


def test_operator_may_order_the_preferred_leader() -> None:
    led = (ENDED, f"{LED_BY_B2} isr=b2,b3 stamps=2,3", "state-written node=b2 leader=b2 leader_epoch=2 isr=b1,b2,b3 stamps=1,2,3")
    preferred = "state-written node=b9 leader=b1 leader_epoch=3 isr=b1,b2,b3 stamps=1,2,3"

    assert complaints(*led, preferred) == ["wrong-leader"]
    assert complaints(*led, "ok elect-preferred value=t-0", preferred) == []


@pytest.mark.parametrize(
    ("states", "kinds"),
    [
        (("isr=b1,b2", "isr=b1 elr=b2", "isr=b1,b2"), []),
        (("isr=b1,b2", "isr=b1 elr=b2", "isr=b1,b2 elr=b2"), ["wrong-elr"]),
        (("isr=b1,b2", "isr=b1 elr=b3"), ["wrong-elr"]),
        (("isr=b1", "isr=b1,b2", "isr=b1"), []),
    ],
    ids=["kept while short", "kept beside a full ISR", "another one", "no ELR in the run"],
)
def test_elr_is_what_left_a_short_isr(states: tuple[str, ...], kinds: list[str]) -> None:
    """The promise of these histories has min.insync.replicas 2."""
    assert sketch("succession", *(f"state-written node=b1 leader=b1 {state}" for state in states)) == kinds


@pytest.mark.parametrize(("leader", "elr", "kinds"), [("b3", "b1,b2", ["wrong-elr"]), ("b3", "", []), ("b2", "b1", [])])
def test_elr_is_empty_after_a_leader_from_outside(leader: str, elr: str, kinds: list[str]) -> None:
    """DUR-7: b1 and b2 are not counted any more, for b3 may lack records that they hold."""
    short = "state-written leader=b1 leader_epoch=0 isr=b1,b2", "state-written leader=b1 leader_epoch=0 isr=b1 elr=b2"
    offline = "state-written node=b9 leader_epoch=1 isr=b1 elr=b2", "unclean-election-ordered"
    ordered = f"state-written node=b9 leader={leader} leader_epoch=2 isr={leader}" + (f" elr={elr}" if elr else "")

    assert sketch("succession", *short, *offline, ordered) == kinds
