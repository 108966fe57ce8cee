"""What brokers tell clients while the run goes on (docs/promise.md LIVE-13). The bound of these histories is 2 s."""

import pytest

from checkers.engine.calms import CALM_MS
from checkers.engine.tables import Events
from checkers.liveness import metadata
from checkers.liveness.metadata import OF_CLUSTER, Row, Standing
from checkers.sketches import history_of, sketch

LIVES = (
    "registered node=b1 incarnation=1",
    "registered node=b2 incarnation=2",
    "controller-elected node=b1",
    "broker-state node=b1 broker=b2 incarnation=2 detail=active",
    "state-written node=b1 leader=b2 isr=b1,b2",
    "assigned replicas=b1,b2",
)
GONE = "session-ended node=b2 incarnation=2"
LATER = "time_ns=60000000000"
RIGHT = f"leader=b2 leader_epoch=1 isr=b1,b2 replicas=b1,b2 {LATER}"


def complaints(*before: str, answer: str = RIGHT, node: str = "b1", offline: str = "-") -> list[str]:
    return sketch("metadata", *LIVES, *before, f"metadata-told node={node} detail={offline} {answer}")


def test_answer_that_agrees_with_zookeeper_is_right() -> None:
    assert complaints() == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (RIGHT.replace("leader=b2", "leader=b1"), "b1 leads t-0 in epoch 1 at row 6, though b2 does in epoch 1"),
        (RIGHT.replace("epoch=1", "epoch=0"), "b2 leads t-0 in epoch 0 at row 6, though b2 does in epoch 1"),
        (RIGHT.replace("replicas=b1,b2", "replicas=b1"), "t-0 is on b1 at row 6, though it is on b1, b2"),
    ],
    ids=["another leader", "an old epoch", "other replicas"],
)
def test_answer_names_leader_epoch_and_replicas_of_zookeeper(answer: str, words: str) -> None:
    assert complaints(answer=answer) == [f"b1 tells that {words}"]


@pytest.mark.parametrize(("writer", "wrong"), [("b1", True), ("b2", False)], ids=["controller", "leader"])
def test_isr_that_the_leader_wrote_itself_is_not_judged(writer: str, wrong: bool) -> None:
    found = complaints(f"state-written node={writer} leader=b2 isr=b2")

    assert bool(found) is wrong


@pytest.mark.parametrize(
    ("before", "offline", "wrong"),
    [
        ((), "-", False),
        ((), "b2", True),
        ((GONE,), "-", True),
        ((GONE,), "b2", False),
        (("broker-state node=b1 broker=b2 incarnation=2 detail=inactive",), "-", True),
        (("broker-state node=b1 broker=b2 incarnation=1 detail=inactive",), "-", False),
        (("dir-failed node=b2 dir=0",), "-", False),
        (("dir-failed node=b2 dir=0", "fault-begun fault=f node=b2 topic=t partition=0 detail=dir-failure"), "-", True),
    ],
    ids=["serves", "called offline", "gone", "known to be gone", "inactive", "inactive before", "some dir", "its dir"],
)
def test_replicas_that_do_not_serve_are_told_as_offline(before: tuple[str, ...], offline: str, wrong: bool) -> None:
    """R-304: a replica is offline if its broker is, or its directory."""
    assert bool(complaints(*before, offline=offline)) is wrong


AGAIN = (GONE, "registered node=b2 incarnation=3")
INACTIVE, ACTIVE = (f"broker-state node=b1 broker=b2 incarnation=3 detail={state}" for state in ("inactive", "active"))


@pytest.mark.parametrize(
    ("later", "listed", "unlisted"),
    [
        ((), True, False),
        (("node-stopped node=b2 detail=crash",), True, True),
        ((ACTIVE, "node-stopped node=b2 detail=crash"), True, False),
        (("node-stopped node=b2 detail=crash", INACTIVE), False, True),
        (("node-stopped node=b2 detail=crash", "session-ended node=b2 incarnation=3"), False, True),
    ],
    ids=["registered again", "died unheard", "died when it was active", "inactive", "gone"],
)
def test_broker_that_died_unheard_is_told_either_way(later: tuple[str, ...], listed: bool, unlisted: bool) -> None:
    """Seed 214405: the controller held it for inactive since its former session ended, and heard nothing of the new one."""
    right = []
    for brokers in ("b1,b2", "b1"):
        told = f"metadata-told node=b1 leader=b1 replicas={brokers} {LATER} detail={OF_CLUSTER}"
        right.append(sketch("metadata", *LIVES, *AGAIN, *later, told) == [])

    assert right == [listed, unlisted]


def test_legacy_controller_tells_a_dead_broker_of_a_session() -> None:
    """A controller from before KIP-343 knows registrations alone."""
    legacy = [line for line in LIVES if not line.startswith("broker-state")]
    told = f"metadata-told node=b1 leader=b1 replicas=b1 {LATER} detail={OF_CLUSTER}"

    assert sketch("metadata", *legacy, *AGAIN, "node-stopped node=b2 detail=crash", told) != []


FAILED_AT_START = ("node-started node=b2", "dir-failed node=b2 dir=0", GONE, "registered node=b2 incarnation=3")


@pytest.mark.parametrize(
    ("later", "wrong"),
    [
        ((), False),
        (("node-started node=b2",), False),
        (("node-started node=b2", "session-ended node=b2 incarnation=3", "registered node=b2 incarnation=4"), True),
    ],
    ids=["registered", "started again", "registered again"],
)
def test_directory_that_failed_at_startup_may_be_offline(later: tuple[str, ...], wrong: bool) -> None:
    """Until the broker has started without it and has registered: the controller cannot know before."""
    assert bool(complaints(*FAILED_AT_START, *later, offline="b2")) is wrong


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("leader=b1 replicas=b1,b2", False),
        ("leader=b2 replicas=b1,b2", True),
        ("leader=b1 replicas=b1", True),
        ("leader=b1 replicas=b1,b2,b3", True),
    ],
    ids=["right", "another controller", "a broker is missing", "a broker that nobody knows"],
)
def test_controller_and_brokers_are_told(answer: str, wrong: bool) -> None:
    found = sketch("metadata", *LIVES, f"metadata-told node=b1 {answer} {LATER} detail={OF_CLUSTER}")

    assert bool(found) is wrong


def test_partition_with_a_leader_is_listed() -> None:
    assert complaints(answer=LATER, offline="absent") == ["b1 tells that t-0 does not exist at row 6, though b2 leads it"]


@pytest.mark.parametrize(
    "before",
    [
        "state-written node=b1 leader=b1 isr=b1,b2 time_ns=58500000000",
        "controller-elected node=b2 time_ns=58500000000",
        "unfenced node=b1 incarnation=1 time_ns=58500000000",
        "fault-begun fault=f node=b1 detail=pause-long",
        "fault-begun fault=f node=b3 detail=partition-ring",
        "session-ended node=b1 incarnation=1",
    ],
    ids=["state is new", "controller is new", "just unfenced", "broker is hit", "links are hit", "not registered"],
)
def test_answer_may_be_old_for_a_reason(before: str) -> None:
    assert complaints(before, answer=RIGHT.replace("epoch=1", "epoch=0")) == []


def test_fault_of_another_broker_excuses_no_answer() -> None:
    crash = "fault-begun fault=f node=b3 detail=crash-random"

    assert complaints(crash, answer=RIGHT.replace("epoch=1", "epoch=0")) != []


@pytest.mark.parametrize(("ended_s", "wrong"), [(54, True), (55, False)])
def test_broker_learns_after_a_cut_once_its_connections_live(ended_s: int, wrong: bool) -> None:
    """Five seconds in which TCP repeats ever more rarely, and then a request timeout (seed 1015 of `--faults all`)."""
    cut = "fault-begun fault=f node=b1 detail=cut-peers", f"fault-ended fault=f node=b1 time_ns={ended_s}000000000"

    assert bool(complaints(*cut, answer=RIGHT.replace("epoch=1", "epoch=0"))) is wrong


@pytest.mark.parametrize(("kind", "wrong"), [("slow", False), ("cut-peers", True)])
def test_broker_behind_a_slow_link_learns_later(monkeypatch: pytest.MonkeyPatch, kind: str, wrong: bool) -> None:
    monkeypatch.setattr(metadata, "still_ms", lambda kind, _: CALM_MS + (1000 if kind == "slow" else 0))
    fault = f"fault-begun fault=f node=b1 detail={kind}", f"fault-ended fault=f node=b1 detail={kind} time_ns=54000000000"

    assert bool(complaints(*fault, answer=RIGHT.replace("epoch=1", "epoch=0"))) is wrong


@pytest.mark.parametrize(
    ("between", "wrong"),
    [
        ((), True),
        (("assigned replicas=b1,b2 topic_id=7",), False),
        (("fault-begun fault=f node=b3 detail=pause-long",), False),
    ],
    ids=["deleted", "added again", "a fault may hold up the deletion"],
)
def test_deleted_partition_is_told_no_more(between: tuple[str, ...], wrong: bool) -> None:
    """The controller tells brokers before it stops the replicas (V3 §H)."""
    late_answer = f"{LATER} topic_id=7 leader=b2 leader_epoch=1 isr=b1,b2 replicas=b1,b2"

    found = complaints("topic-deleted topic_id=7", *between, answer=late_answer)

    assert any("though its deletion was requested" in words for words in found) is wrong


def test_partition_that_is_being_deleted_may_be_missing() -> None:
    """A controller may write its state until all replicas are gone."""
    deleted = "topic-deleted topic_id=7", "state-written node=b1 leader=b2 isr=b1,b2 topic_id=7"

    assert complaints(*deleted, answer=LATER, offline="absent") == []


@pytest.mark.parametrize(
    "before", [(), (GONE,), ("fault-begun fault=f node=b2 detail=slow", "fault-ended fault=f node=b2 detail=slow")]
)
@pytest.mark.parametrize("answer", [RIGHT, RIGHT.replace("leader=b2", "leader=b1")])
def test_settled_answer_is_as_wrong_an_hour_later(before: tuple[str, ...], answer: str) -> None:
    """The simulator does not judge an answer again that was right when the truth had settled."""
    history = history_of(*LIVES, *before, f"metadata-told node=b1 detail=- {answer}")
    rows, standing = Events(history.events_frame).as_rows(Row), Standing(history.manifest.promise)
    for row in rows[:-1]:
        standing.see(row)
    settled_ns = standing.settled_ns

    assert standing.wrong(settled_ns, rows[-1]) == standing.wrong(settled_ns + 3600 * 10**9, rows[-1])
