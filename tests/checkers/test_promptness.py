"""A step of the protocol that nothing hinders waits for no timer (docs/promise.md LIVE-12)."""

import msgspec
import pytest

from checkers.engine.calms import CALM_MS
from checkers.judge import judge
from checkers.liveness import debts
from checkers.liveness.debts import DUE_MS, RETRY_MS, TERM_MS, TURN_MS
from checkers.liveness.promptness import CHECKER
from checkers.sketches import history_of, sketch
from history.history import History

FIRST = (
    "registered node=b1 incarnation=1",
    "registered node=b2 incarnation=2",
    "registered node=b3 incarnation=3",
    "controller-elected node=b9",
    "assigned replicas=b1,b2,b3",
    "state-written node=b9 leader=b1 isr=b1,b2 stamps=1,2",
    *(f"became-follower node={node} leader=b1" for node in ("b1", "b2", "b3")),
)
LAST = len(FIRST) - 1
ASKED = "isr-change-sent node=b1 isr=b1"
ENDED = "isr-change-ended node=b1 isr=b1"
LOST = f"b1 does not know the result of its ISR change of t-0 {DUE_MS} ms after row {LAST + 1}"


def row_at(row: str, ms: int) -> str:
    return f"{row} time_ns={ms}000000"


def complaints(*rows: str) -> list[str]:
    """What the checker says 20 s later."""
    return sketch("promptness", *FIRST, *rows, row_at("final-reads", 20_000))


def test_step_that_was_done_at_once_is_not_told() -> None:
    assert complaints() == []
    assert complaints(ASKED, ENDED) == []


@pytest.mark.parametrize(("ms", "lines"), [(TERM_MS + DUE_MS, []), (TERM_MS + DUE_MS + 10, [LOST])])
def test_isr_change_is_due_after_the_controllers_first_second(ms: int, lines: list[str]) -> None:
    """KIP-497: a request that came too early is repeated after retry.backoff.ms."""
    assert complaints(ASKED, row_at(ENDED, ms)) == lines


@pytest.mark.parametrize(
    "over",
    [
        "became-follower node=b1 leader=b2 leader_epoch=2",
        "resigned node=b1",
        "node-stopped node=b1 detail=crash",
        "topic-deleted",
    ],
)
def test_isr_change_of_a_leader_that_is_none_any_more_is_not_due(over: str) -> None:
    assert complaints(ASKED, over) == []


@pytest.mark.parametrize(("node", "lines"), [("b1", []), ("b9", []), ("b3", [LOST])], ids=["leader", "controller", "another"])
def test_fault_excuses_the_steps_of_the_broker_that_it_hits(node: str, lines: list[str]) -> None:
    fault = f"fault-begun fault=f node={node} detail=slow"

    assert complaints(ASKED, fault) == lines


def test_fault_of_zookeeper_excuses_every_step() -> None:
    assert complaints(ASKED, "fault-begun fault=f node=b7 detail=zookeeper-lag") == []


@pytest.mark.parametrize(("ms", "lines"), [(CALM_MS + DUE_MS, []), (CALM_MS + DUE_MS + 600, [LOST])])
def test_fault_excuses_a_step_for_some_time_after_its_end(ms: int, lines: list[str]) -> None:
    fault = "fault-begun fault=f node=b1 detail=clog", "fault-ended fault=f node=b1 detail=clog time_ns=500000000"

    assert complaints(ASKED, *fault, row_at(ENDED, ms + 500)) == lines


@pytest.mark.parametrize(("kind", "lines"), [("slow", []), ("cut-peers", [LOST])])
def test_slow_link_excuses_a_step_for_longer(monkeypatch: pytest.MonkeyPatch, kind: str, lines: list[str]) -> None:
    monkeypatch.setattr(debts, "still_ms", lambda kind, _: CALM_MS + (1000 if kind == "slow" else 0))
    fault = f"fault-begun fault=f node=b1 detail={kind}", f"fault-ended fault=f node=b1 detail={kind} time_ns=500000000"

    assert complaints(ASKED, *fault, row_at(ENDED, CALM_MS + DUE_MS + 1100)) == lines


def test_nothing_is_due_while_there_is_no_controller() -> None:
    assert complaints(ASKED, "controller-resigned node=b9") == []


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        ("session-ended node=b2 incarnation=2", "its registration ended"),
        ("broker-state node=b9 broker=b2 incarnation=2 detail=inactive", "b9 holds it for inactive"),
    ],
)
def test_broker_that_is_gone_leaves_the_isr_at_once(gone: str, reason: str) -> None:
    """V3 §A step 3.2, KIP-343: the controller removes dead and inactive members."""
    without = "state-written node=b9 leader=b1 isr=b1 stamps=1"

    assert complaints(gone) == [f"b2 is still in the ISR of t-0, though {reason}, {DUE_MS} ms after row {LAST + 1}"]
    assert complaints(gone, without) == []
    assert complaints(gone, "state-written node=b9 isr=b1,b2 stamps=1,2") == []


STOPPING = "broker-state node=b9 broker=b1 incarnation=1 detail=stopping"
SHUTDOWN = "fault-begun fault=f node=b1 detail=shutdown"
OVER_MS = DUE_MS + 1000  # the session timeout of sketches


def test_leader_in_controlled_shutdown_hands_over() -> None:
    """R-184: a follower that joined the ISR later never led, and its leader ended only when its retries were used up."""
    alone, joined = (f"state-written node=b9 leader=b1 isr={isr} stamps={of}" for isr, of in (("b1", "1"), ("b1,b2", "1,2")))
    handed = "state-written node=b9 leader=b2 leader_epoch=2 isr=b2 stamps=2", "became-follower node=b1 leader=b2 leader_epoch=2"
    followers_know = ("became-follower node=b2 leader=b2 leader_epoch=2", "became-follower node=b3 leader=b2 leader_epoch=2")
    message = f"b1 still leads t-0, though it shuts down and b2 could lead, {OVER_MS} ms after row"

    assert complaints(SHUTDOWN, STOPPING) == [f"{message} {LAST + 2}"]
    assert complaints(alone, SHUTDOWN, STOPPING, joined) == [f"{message} {LAST + 4}"]
    assert complaints(alone, SHUTDOWN, STOPPING, joined, *handed, *followers_know) == []
    assert complaints(alone, SHUTDOWN, STOPPING) == []


@pytest.mark.parametrize(
    "row",
    [
        "resigned node=b1",
        "node-stopped node=b1 detail=crash",
        "dir-failed node=b1 dir=0",
        "broker-state node=b9 broker=b2 incarnation=2 detail=stopping",
        "broker-state node=b9 broker=b1 incarnation=1 detail=active",
        "controller-elected node=b9",
        "fault-begun fault=g node=b1 detail=slow",
        "fault-begun fault=g node=b2 detail=slow",
    ],
)
def test_hand_over_is_not_due_where_it_is_hindered(row: str) -> None:
    assert [why for why in complaints(SHUTDOWN, STOPPING, row) if "still leads" in why] == []


def test_move_replaces_a_leader_that_is_not_in_its_target() -> None:
    """R-235: until then an election by the controller does not look at the replicas that go."""
    moved = complaints("reassignment-begun node=b9 detail='forward to 2,3'", SHUTDOWN, STOPPING)

    assert [complaint for complaint in moved if "still leads" in complaint] == []


def test_isr_change_that_comes_first_costs_another_read() -> None:
    """V3 §A step 3.3 (seed 10276 of `--faults all`)."""
    gone = row_at("session-ended node=b2 incarnation=2", 2000)
    first = row_at("state-written node=b1 leader=b1 isr=b1,b2,b3 stamps=1,2,3", 2300)
    without = "state-written node=b9 leader=b1 isr=b1,b3 stamps=1,3"

    assert complaints(gone, first, row_at(without, 2300 + DUE_MS)) == []
    assert complaints(gone, first, row_at(without, 2310 + DUE_MS)) != []


def test_last_member_that_can_lead_stays_in_the_isr() -> None:
    assert complaints("session-ended node=b2 incarnation=2", without := "state-written node=b9 leader=b1 isr=b1 stamps=1") == []
    assert complaints(without, "session-ended node=b1 incarnation=1") == []


@pytest.mark.parametrize(
    ("gone", "back", "is_reported"),
    [
        ("session-ended node=b1 incarnation=1", "registered node=b1 incarnation=7", False),
        ("broker-state node=b9 broker=b1 incarnation=1 detail=inactive", "final-reads", False),
        (
            "broker-state node=b9 broker=b1 incarnation=1 detail=inactive",
            "broker-state node=b9 broker=b1 incarnation=1 detail=active",
            True,
        ),
    ],
    ids=["registered anew", "inactive", "active again"],
)
def test_isr_is_not_due_while_no_other_member_can_lead(gone: str, back: str, is_reported: bool) -> None:
    """The recovery election waited for a broker that was cut off (seed 110716 of `--faults all`)."""
    lost = row_at("session-ended node=b2 incarnation=2", 2000)
    complaint = f"b2 is still in the ISR of t-0, though its registration ended, {DUE_MS} ms after row {LAST + 1}"
    without = "state-written node=b9 leader=b1 isr=b1 stamps=1"

    assert (complaint in complaints(lost, row_at(gone, 2400), row_at(back, 10_000))) is is_reported
    assert complaint not in complaints(lost, row_at(gone, 2400), row_at(back, 10_000), row_at(without, 10_000 + DUE_MS))
    assert complaint in complaints(lost, row_at(gone, 2000 + DUE_MS + 10), row_at(back, 10_000))


def test_member_that_stays_after_an_election_is_still_due() -> None:
    """A recovery election that leaves a broker without a registration in the ISR has lost its way."""
    both = row_at("session-ended node=b2 incarnation=2", 2000), row_at("session-ended node=b1 incarnation=1", 2400)
    elected = "state-written node=b9 leader=b1 isr=b1,b2 stamps=7,2 leader_epoch=2"
    followers_know = tuple(f"became-follower node={node} leader=b1 leader_epoch=2" for node in ("b1", "b3"))
    complaint = f"b2 is still in the ISR of t-0, though its registration ended, {DUE_MS} ms after row {LAST + 1}"

    assert complaints(*both, row_at("registered node=b1 incarnation=7", 5000), row_at(elected, 5010), *followers_know) == [
        complaint
    ]


def test_member_under_a_later_registration_is_another_one() -> None:
    again = "registered node=b2 incarnation=7", "state-written node=b9 leader=b1 isr=b1,b2 stamps=1,7"

    assert complaints("session-ended node=b2 incarnation=2", *again, "became-follower node=b2 leader=b1") == []


def test_replica_learns_a_new_epoch_at_once() -> None:
    """V3 §A step 4: the controller sends LeaderAndIsr to each replica."""
    elected = row_at("state-written node=b9 leader=b2 isr=b1,b2 stamps=1,2 leader_epoch=2", TERM_MS)
    followers_know = [row_at(f"became-follower node={node} leader=b2 leader_epoch=2", TERM_MS) for node in ("b1", "b2", "b3")]

    assert complaints(elected, *followers_know) == []
    assert complaints(elected, *followers_know[:2]) == [f"b3 does not know epoch 2 of t-0 {DUE_MS} ms after row {LAST + 1}"]
    assert complaints(elected, *followers_know[:2], row_at("session-ended node=b3 incarnation=3", TERM_MS)) == []
    assert complaints(elected, *followers_know[:2], row_at("dir-failed node=b3 dir=0", TERM_MS)) == []
    assert complaints(elected, *followers_know[:2], row_at("assigned replicas=b1,b2", TERM_MS)) == []


def test_replica_that_registers_learns_the_leader_at_once() -> None:
    complaint = f"b3 does not know epoch 1 of t-0 {DUE_MS + RETRY_MS} ms after row {LAST + 1}"

    assert complaints("registered node=b3 incarnation=9") == [complaint]
    assert complaints("registered node=b3 incarnation=9", "became-follower node=b3 leader=b1") == []


@pytest.mark.parametrize(("more_ms", "is_reported"), [(0, False), (10, True)])
def test_first_command_may_be_sent_again(more_ms: int, is_reported: bool) -> None:
    """b3 refuses it if it has not read its registration yet (KAFKA-9839; seed 180268 of `--faults all`)."""
    registered_again = row_at("registered node=b3 incarnation=9", TERM_MS)
    follower_knows = row_at("became-follower node=b3 leader=b1", TERM_MS + DUE_MS + RETRY_MS + more_ms)

    assert any("b3 does not know" in words for words in complaints(registered_again, follower_knows)) is is_reported


@pytest.mark.parametrize(("after_ms", "is_reported"), [(RETRY_MS - 1, False), (RETRY_MS, True)])
def test_state_written_as_a_broker_registers_may_wait(after_ms: int, is_reported: bool) -> None:
    """The controller pauses after the command that was refused, also with later states (seed 210060 of `--faults all`)."""
    registered_again = row_at("registered node=b3 incarnation=9", TERM_MS)
    elected = row_at("state-written node=b9 leader=b2 isr=b1,b2 stamps=1,2 leader_epoch=2", TERM_MS + after_ms)
    follower_knows = row_at("became-follower node=b3 leader=b2 leader_epoch=2", TERM_MS + after_ms + DUE_MS + RETRY_MS)

    assert any("b3 does not know" in words for words in complaints(registered_again, elected, follower_knows)) is is_reported


@pytest.mark.parametrize(("life", "is_reported"), [(1, False), (2, True)])
def test_process_learns_a_leader_under_its_own_registration(life: int, is_reported: bool) -> None:
    """ZooKeeper performed the request of a process that had been killed meanwhile (seed 130684 of `--faults all`)."""
    registered_again = (
        "node-stopped node=b3 detail=crash",
        "node-started node=b3 life=2",
        f"registered node=b3 incarnation=9 life={life}",
    )
    complaint = f"b3 does not know epoch 1 of t-0 {DUE_MS + RETRY_MS} ms after row {LAST + 3}"

    assert (complaint in complaints(*registered_again)) is is_reported


def test_registration_without_a_process_is_of_the_running_one() -> None:
    history = history_of(*FIRST, "registered node=b3 incarnation=9", row_at("final-reads", 20_000))
    nameless = [msgspec.structs.replace(event, life=None) for event in history.events]
    complaint = f"b3 does not know epoch 1 of t-0 {DUE_MS + RETRY_MS} ms after row {LAST + 1}"

    assert judge(History(history.manifest, operations=[], events=nameless), (CHECKER,)).not_live == (complaint,)


@pytest.mark.parametrize("later", [(), ("registered node=b1 incarnation=7",)], ids=["gone", "registered anew"])
def test_leader_that_is_to_be_replaced_is_told_to_nobody(later: tuple[str, ...]) -> None:
    """The controller may wait for the ends of logs first (seed 10427 of `--faults all`)."""
    gone, registered_again = "session-ended node=b1 incarnation=1", "registered node=b3 incarnation=9"

    assert not any("does not know" in words for words in complaints(gone, *later, registered_again))
    assert not any("does not know" in words for words in complaints(registered_again, gone, *later))


BACK_MS = 500 + 2 * 500  # DUE_MS, and the request timeouts of a command and of a question
OFFLINE = "state-written node=b9 isr=b1 elr=b2 stamps=1 leader_epoch=2"
LED_AGAIN = "state-written node=b9 leader=b1 isr=b1 stamps=1 leader_epoch=3"
NOBODY = "nobody leads t-0, though its ISR and ELR are back,"


@pytest.mark.parametrize(
    ("rows", "is_reported"),
    [
        ((OFFLINE,), True),
        ((OFFLINE, LED_AGAIN), False),
        (("session-ended node=b2 incarnation=2", OFFLINE), False),
        (("session-ended node=b2 incarnation=2", OFFLINE, "registered node=b2 incarnation=7"), True),
        ((OFFLINE, "session-ended node=b2 incarnation=2"), False),
        ((OFFLINE, "broker-state node=b9 broker=b2 incarnation=2 detail=inactive"), False),
        ((OFFLINE, "node-stopped node=b2 detail=crash"), False),
        ((OFFLINE, "dir-failed node=b2 dir=0"), False),
        (("wound node=b2 dir=0 detail=swapped offset=0", OFFLINE), False),
    ],
    ids=["never", "elected", "one is gone", "it came back", "one goes", "inactive", "stopped", "no directory", "emptied"],
)
def test_partition_is_led_again_once_isr_and_elr_are_back(rows: tuple[str, ...], is_reported: bool) -> None:
    known = [f"became-follower node={node} leader=b1 leader_epoch=3" for node in ("b2", "b3")]

    assert any(words.startswith(f"{NOBODY} {BACK_MS} ms") for words in complaints(*rows, *known)) is is_reported


ALL_GONE = "session-ended node=b1 incarnation=1", "session-ended node=b2 incarnation=2"
ALL_BACK = "registered node=b1 incarnation=7", "registered node=b2 incarnation=8"
ELECTED = "state-written node=b9 leader=b1 isr=b1 elr=b2 stamps=7 leader_epoch=2"


@pytest.mark.parametrize(
    ("rows", "is_reported"),
    [
        ((*ALL_GONE, *ALL_BACK), True),
        ((*ALL_GONE, *ALL_BACK, ELECTED), False),
        ((*ALL_GONE, ALL_BACK[0]), False),
        ((ALL_GONE[0], ALL_BACK[0]), False),
        ((*ALL_GONE, *ALL_BACK, "fault-begun fault=f node=b2 detail=cut-peers-long"), False),
        (("state-written node=b9 leader=b1 isr=b1,b2", *ALL_GONE, *ALL_BACK), False),
    ],
    ids=["all back", "elected", "one is missing", "another member is left", "one is cut off", "no stamps"],
)
def test_named_leader_under_a_later_registration_leads_nobody(rows: tuple[str, ...], is_reported: bool) -> None:
    """The recovery election, like that of a state without a leader (seed 110716 of `--faults all`)."""
    lines = [words for words in complaints(*rows) if words.startswith(NOBODY)]

    # a member that is gone is due to leave the ISR, too
    assert [words.startswith(f"{NOBODY} {BACK_MS + TURN_MS} ms") for words in lines] == ([True] if is_reported else [])


@pytest.mark.parametrize(("zk_version", "is_reported"), [(0, True), (4, False)], ids=["new", "old"])
@pytest.mark.parametrize("fault", ["dir-failure", "slow"])
def test_broker_with_a_failed_directory_creates_new_replicas(zk_version: int, is_reported: bool, fault: str) -> None:
    """KIP-112, R-302: in the directory that is left. What it had in the other one it refuses."""
    failed = f"fault-begun fault=f node=b2 detail={fault}", "dir-failed node=b2 incarnation=2 dir=0"
    state = f"state-written topic=u node=b9 leader=b3 isr=b2,b3 stamps=2,3 zk_version={zk_version}"
    rows = *failed, "assigned topic=u replicas=b2,b3", state, "became-leader topic=u node=b3"

    assert any("b2 does not know epoch 1 of u-0" in words for words in complaints(*rows)) is (
        is_reported and fault == "dir-failure"
    )


def test_new_partition_gets_a_state_at_once() -> None:
    made = "assigned topic=u replicas=b1,b2"
    state = "state-written topic=u node=b9 leader=b1 isr=b1,b2 stamps=1,2"
    followers_know = [f"became-follower topic=u node={node} leader=b1" for node in ("b1", "b2")]

    assert complaints(made) == [f"u-0 has no state {DUE_MS} ms after row {LAST + 1}"]
    assert complaints(made, state, *followers_know) == []
    assert complaints(made, "topic-deleted topic=u") == []
    assert complaints("assigned topic=u replicas=b7,b8") == []


def test_new_partitions_get_their_states_one_by_one() -> None:
    """Twelve partitions over slow links took 950 ms (seed 1088 of `--faults all`)."""
    made = [row_at(f"assigned partition={number} topic=u replicas=b3", 2000) for number in range(4)]
    states = [
        (
            row_at(f"state-written partition={number} topic=u node=b9 leader=b3 isr=b3 stamps=3", 2300 + 150 * number),
            row_at(f"became-leader partition={number} topic=u node=b3", 2310 + 150 * number),
        )
        for number in range(4)
    ]
    three = [row for rows in states[:3] for row in rows]

    due_ms = DUE_MS + 3 * TURN_MS

    assert complaints(*made, *three, *states[3]) == []
    assert complaints(*made, *three) == [f"u-3 has no state {due_ms} ms after row {LAST + 4}"]


def test_new_partitions_get_their_states_in_any_order() -> None:
    """The controller takes partitions by name (seed 30288 of `--faults all`)."""
    made = [row_at(f"assigned partition={number} topic=u replicas=b3", 2000) for number in (1, 0)]
    first = row_at("state-written partition=0 topic=u node=b9 leader=b3 isr=b3 stamps=3", 2100)
    heard = row_at("became-leader partition=0 topic=u node=b3", 2110)

    for ms, messages in ((DUE_MS + TURN_MS, []), (DUE_MS + TURN_MS + 10, [f"u-1 has no state 600 ms after row {LAST + 1}"])):
        second = row_at("state-written partition=1 topic=u node=b9 leader=b3 isr=b3 stamps=3", 2000 + ms)
        assert complaints(*made, first, heard, second, row_at("became-leader partition=1 topic=u node=b3", 2010 + ms)) == messages


def test_isr_changes_are_made_one_by_one() -> None:
    """Twelve took 508 ms over slow links (seed 1323 of `--faults all`)."""
    changes_sent = [row_at(f"{ASKED} partition={number}", 2000) for number in (1, 2, 3)]
    due_ms = [DUE_MS, DUE_MS + TURN_MS, DUE_MS + 2 * TURN_MS]
    done = [row_at(f"{ENDED} partition={number}", 2000 + ms) for number, ms in zip((1, 2, 3), due_ms, strict=True)]
    late_end = row_at(f"{ENDED} partition=3", 2000 + due_ms[2] + 10)
    complaint = f"b1 does not know the result of its ISR change of t-3 {due_ms[2]} ms after row {LAST + 3}"

    assert complaints(*changes_sent, *done) == []
    assert complaints(*changes_sent, *done[:2], late_end) == [complaint]


@pytest.mark.parametrize(
    ("again", "is_reported"), [((), False), (("assigned replicas=b1,b2",), True)], ids=["deleted", "added again"]
)
def test_partition_of_a_deleted_topic_owes_nothing(again: tuple[str, ...], is_reported: bool) -> None:
    """Its states are written while its replicas are being deleted (seeds 1126 and 1145 of `--faults all`)."""
    late_write = "state-written node=b9 leader=b1 isr=b1,b2 stamps=1,2 leader_epoch=2"
    followers_know = [f"became-follower node={node} leader=b1 leader_epoch=2" for node in ("b1", "b2", "b3")]
    complaint = f"b2 is still in the ISR of t-0, though its registration ended, {DUE_MS} ms after row"

    lines = complaints("topic-deleted", *again, late_write, *followers_know, "session-ended node=b2 incarnation=2")

    assert [words.startswith(complaint) for words in lines] == ([True] if is_reported else [])


@pytest.mark.parametrize(("others", "is_reported"), [(2, True), (3, False)])
def test_new_partition_waits_for_isr_changes_that_are_due(others: int, is_reported: bool) -> None:
    """A session's requests to ZooKeeper are served in order (seed 140120 of `--faults all`)."""
    waiting = [f"isr-change-sent node=b1 partition={number} isr=b1" for number in range(2, 2 + others)]
    made = row_at("state-written node=b9 partition=1 leader=b2 isr=b2 stamps=2", TERM_MS + DUE_MS + 3 * TURN_MS)

    message = " ".join(complaints(*waiting, "assigned partition=1 replicas=b2", made))
    assert ("t-1 has no state" in message) is is_reported


@pytest.mark.parametrize(("topic_id", "is_reported"), [(8, True), (7, False)], ids=["another topic", "the same topic"])
def test_assignment_of_a_removed_partition_owes_no_state(topic_id: int, is_reported: bool) -> None:
    """A move that its removal ends writes the assignment once more (seeds 448 and 610 of `--faults all`)."""
    lines = complaints("topic-deleted topic_id=7", f"assigned replicas=b1,b2 topic_id={topic_id}")

    assert any("has no state" in words for words in lines) is is_reported


def test_elections_are_held_one_by_one() -> None:
    """Nine took 562 ms over slow links (seed 609 of `--faults all`)."""
    made = [row_at(f"state-written partition={number} node=b9 leader=b1 isr=b1,b2 stamps=1,2", 1500) for number in (1, 2)]
    leaders_know = [
        row_at(f"became-follower partition={number} node={node} leader=b1", 1510)
        for number in (1, 2)
        for node in ("b1", "b2", "b3")
    ]
    gone = row_at("session-ended node=b2 incarnation=2", 2000)
    words = [f"b2 is still in the ISR of t-{number}, though its registration ended, 700 ms after row" for number in (0, 1, 2)]

    assert [message.split(" after row")[0] + " after row" for message in complaints(*made, *leaders_know, gone)] == words


@pytest.mark.parametrize("node", ["b9", "b3"], ids=["the controller", "the broker"])
def test_stopped_process_owes_nothing_before_it_registers(node: str) -> None:
    """ZooKeeper keeps the session of an ended process for its timeout (seeds 1001 and 1114 of `--faults all`)."""
    elected = "state-written node=b9 leader=b2 isr=b1,b2 stamps=1,2 leader_epoch=2"
    followers_know = [f"became-follower node={one} leader=b2 leader_epoch=2" for one in ("b1", "b2")]
    registered_again = ("registered node=b3 incarnation=9", "became-follower node=b3 leader=b2 leader_epoch=2")

    assert complaints(f"node-stopped node={node} detail=crash", elected, *followers_know) == []
    assert complaints("node-stopped node=b3 detail=crash", elected, *followers_know, *registered_again) == []
    assert complaints("node-stopped node=b3 detail=crash", elected, *followers_know, registered_again[0]) != []


PLACED = ("recovered node=b1 dir=1 leo=0 hw=0", "became-leader node=b1 leo=0 hw=0")
BACK = ("node-stopped node=b1", "node-started node=b1", "became-leader node=b1 leo=0 hw=0")  # without a `recovered` row
GONE, FAILED = row_at("dir-failed node=b1 dir=1", 5), row_at("dir-failed node=b1 dir=1", 20)


@pytest.mark.parametrize(
    ("rows", "is_reported"),
    [
        ((FAILED, row_at("resigned node=b1", 20)), False),
        ((FAILED, row_at("resigned node=b1", 40)), True),
        ((row_at("dir-failed node=b1 dir=0", 20), row_at("resigned node=b1", 40)), False),
        (("replica-deleted node=b1", FAILED, row_at("resigned node=b1", 40)), False),
        (
            (
                GONE,
                row_at("resigned node=b1", 5),
                row_at("became-leader node=b1 leo=0 hw=0", 6),
                FAILED,
                row_at("resigned node=b1", 40),
            ),
            False,
        ),
        (
            ("topic-deleted topic_id=5", "recovered node=b1 dir=1 leo=0 hw=0 topic_id=5", FAILED, row_at("resigned node=b1", 40)),
            False,
        ),
        ((FAILED, "node-stopped node=b1 detail=crash", row_at("resigned node=b1", 40)), False),
        ((FAILED, "fault-begun fault=f node=b1 detail=pause", row_at("resigned node=b1", 40)), False),
        ((*BACK, FAILED, row_at("resigned node=b1", 40)), False),
    ],
    # Deleted: seed 70601 of `--faults all`, ended: 70497, back: 80252 and 80467.
    ids=["at once", "when told", "another directory", "another replica", "made elsewhere", "deleted", "ended", "paused", "back"],
)
def test_replica_in_a_failed_directory_resigns_at_once(rows: tuple[str, ...], is_reported: bool) -> None:
    """KIP-112: it does not wait for the controller, which may hear of the failure late."""
    complaint = f"b1 kept its role in t-0 for 20 ms after its directory failed at row {LAST + 3}"

    assert [message for message in complaints(*PLACED, *rows) if "role" in message] == [complaint] * is_reported


@pytest.mark.parametrize(("ms", "is_reported"), [(DUE_MS, False), (DUE_MS + 10, True)])
def test_replica_keeps_its_role_until_its_process_ends(ms: int, is_reported: bool) -> None:
    """A process that is killed while it gives up its roles may not have noted that."""
    lines = complaints(*PLACED, FAILED, row_at("node-stopped node=b1 detail=crash", 20 + ms))

    assert ("kept its role" in " ".join(lines)) is is_reported
