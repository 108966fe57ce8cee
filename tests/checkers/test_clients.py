"""What each single call of a client is owed: an end in time, another attempt, no hanging (LIVE-8, LIVE-9; R-130)."""

import pytest
from msgspec.structs import replace

from checkers.judge import judge
from checkers.sketches import history_of, sketch
from history.history import History

SENT = "invoke produce value=a process=0"
LED = "state-written leader=b1 isr=b1,b2"
CUT = ("fault-begun fault=f node=p1 detail=place-reset time_ns=1000000000", "fault-ended fault=f node=p1 time_ns=50000000000")
HEALED = "healed time_ns=60000000000"


@pytest.mark.parametrize(
    ("answer", "is_reported"),
    [
        ("error=NOT_LEADER_OR_FOLLOWER attempts=1", True),
        ("error=NETWORK_EXCEPTION attempts=3", True),
        ("error=NETWORK_EXCEPTION attempts=4", False),
        ("error=NETWORK_EXCEPTION attempts=0", False),
        ("error=NETWORK_EXCEPTION attempts=1 time_ns=450000000", False),
        ("error=NETWORK_EXCEPTION attempts=1 time_ns=399970000", False),
        ("error=NETWORK_EXCEPTION attempts=1 time_ns=398970000", True),
        ("error=UNKNOWN_TOPIC_ID attempts=1", False),
        ("error=OUT_OF_ORDER_SEQUENCE_NUMBER attempts=1", False),
    ],
    ids=[
        "at once",
        "before its last retry",
        "after it",
        "never sent",
        "no time left",
        "no time left by its clock",  # seed 1042 of `--faults all`
        "a millisecond left",
        "topic deleted",
        "not retriable",
    ],
)
def test_produce_is_given_up_only_without_retries_or_time(answer: str, is_reported: bool) -> None:
    """These clients have 3 retries, 500 ms for a call, and pause 100 ms between two attempts."""
    findings = sketch("clients", SENT, f"info produce value=a process=0 {answer}")

    assert [words for words in findings if "gave up" in words] == findings
    assert bool(findings) is is_reported


def test_wrong_produce_may_be_given_up() -> None:
    asked = "invoke produce value=a process=0 acks=2 error=INVALID_REQUIRED_ACKS"

    assert sketch("clients", asked, "fail produce value=a process=0 error=NETWORK_EXCEPTION attempts=1") == []


@pytest.mark.parametrize(("ended_ms", "is_reported"), [(501, False), (502, True)])
def test_call_ends_within_the_timeout_of_its_client(ended_ms: int, is_reported: bool) -> None:
    late = f"fail poll error=REQUEST_TIMED_OUT process=0 time_ns={ended_ms}000000"

    assert bool(sketch("clients", "invoke poll offset=0 process=0 time_ns=0", late)) is is_reported


def _complaints_with_places(*lines: str, timeout_ms: int = 500, words: str = "though no fault hit it or") -> list[str]:
    """The complaints with these words of a run with two places of clients, the same with and without pre-checks."""
    history = history_of(*lines)
    manifest = replace(history.manifest, client_places=("p1", "p2"), client_timeout_ms=timeout_ms)
    verdicts = [
        judge(History(manifest, operations=history.operations, events=history.events), screened_min=least)
        for least in (0, 1 << 60)
    ]
    assert verdicts[0] == verdicts[1]
    return [message for message in verdicts[0].not_live if words in message]


def _poll(process: int, at_s: int, outcome: str = "error=REQUEST_TIMED_OUT") -> tuple[str, str]:
    begun = f"invoke poll offset=0 process={process} time_ns={at_s}000000000"
    return begun, f"fail poll process={process} {outcome} time_ns={at_s}400000000"


@pytest.mark.parametrize(("process", "is_reported"), [(0, False), (1, True)], ids=["at the place that is hit", "elsewhere"])
def test_call_hangs_only_at_a_client_place_that_is_hit(process: int, is_reported: bool) -> None:
    found = _complaints_with_places(LED, CUT[0], *_poll(process, 30), CUT[1], HEALED)

    assert bool(found) is is_reported


@pytest.mark.parametrize(
    "between",
    ["state-written leader=b2 isr=b2 time_ns=29900000000", "state-written isr=b1 time_ns=29000000000"],
    ids=["leader changed just before", "no leader"],
)
def test_call_may_hang_while_its_partition_cannot_serve(between: str) -> None:
    assert _complaints_with_places(LED, CUT[0], between, *_poll(1, 30), CUT[1], HEALED) == []


@pytest.mark.parametrize(
    ("fault", "is_reported"),
    [
        ("node=b2 detail=crash-random", True),
        ("node=b1 detail=crash-random", False),
        ("node=b2 detail=partition-ring", False),
        ("node=p1 detail=place-reset", False),
    ],
    ids=["of another broker", "of the leader", "of links", "of the client"],
)
def test_read_needs_no_other_broker_than_its_leader(fault: str, is_reported: bool) -> None:
    before = "invoke poll offset=0 process=0 time_ns=5000000000", "ok poll process=0 node=b1 time_ns=5100000000"
    hangs = _poll(0, 6, "error=REQUEST_TIMED_OUT node=b1")
    fault_begun = f"fault-begun fault=g {fault} time_ns=4000000000"

    complaints = _complaints_with_places(
        LED, fault_begun, *before, *hangs, "fault-ended fault=g node=b9 time_ns=9000000000", HEALED
    )

    assert bool(complaints) is is_reported


@pytest.mark.parametrize(
    ("f", "error", "is_reported"),
    [("poll", "REQUEST_TIMED_OUT", True), ("latest", "REQUEST_TIMED_OUT", False), ("poll", "NETWORK_EXCEPTION", False)],
    ids=["the same", "another", "told of another"],
)
def test_answer_over_the_same_connection_shows_that_it_lives(f: str, error: str, is_reported: bool) -> None:
    """Fetches have a connection of their own, and the other one may have broken (seeds 1184 and 60260 of `--faults all`)."""
    first = "invoke poll offset=0 process=0 time_ns=500000000", "ok poll process=0 node=b1 time_ns=600000000"
    cut = [f"fault-{kind} fault=g node=b1 detail=cut-clients time_ns={s}000000000" for kind, s in (("begun", 1), ("ended", 2))]
    before = f"invoke {f} offset=0 process=0 time_ns=5000000000", f"ok {f} process=0 node=b1 time_ns=5100000000"

    complaints = _complaints_with_places(LED, *first, *cut, *before, *_poll(0, 6, f"error={error} node=b1"), HEALED)

    assert any("though no fault hit it or b1" in words for words in complaints) is is_reported


@pytest.mark.parametrize(("acks", "is_reported"), [(1, True), (-1, False)])
def test_produce_with_acks_1_needs_its_leader_alone(acks: int, is_reported: bool) -> None:
    before = f"invoke produce acks={acks} process=0 time_ns=5000000000", "ok produce process=0 node=b1 time_ns=5100000000"
    invocation = f"invoke produce acks={acks} process=0 time_ns=6000000000"
    hangs = "info produce process=0 node=b1 error=REQUEST_TIMED_OUT time_ns=6400000000"
    fault_begun = "fault-begun fault=g node=b2 detail=pause time_ns=4000000000"

    assert bool(_complaints_with_places(LED, fault_begun, *before, invocation, hangs, HEALED)) is is_reported


def test_produce_that_nobody_answers_shows_no_connection() -> None:
    """The broker was down when the client sent with acks=0 (seed 10651 of `--faults all`)."""
    sent = "invoke produce acks=0 process=0 time_ns=5000000000", "ok produce process=0 node=b1 time_ns=5100000000"
    invocation = "invoke produce acks=1 process=0 time_ns=6000000000"
    hangs = "info produce process=0 node=b1 error=NETWORK_EXCEPTION time_ns=6001000000"

    assert not any(
        "though no fault hit it or b1" in words for words in _complaints_with_places(LED, *sent, invocation, hangs, HEALED)
    )


def test_read_may_hang_where_its_client_looked_for_the_leader() -> None:
    before = "invoke poll offset=0 process=0 time_ns=5000000000", "ok poll process=0 node=b3 time_ns=5100000000"
    fault_begun = "fault-begun fault=g node=b2 detail=crash-random time_ns=4000000000"

    assert _complaints_with_places(LED, fault_begun, *before, *_poll(0, 6, "error=REQUEST_TIMED_OUT node=b1"), HEALED) == []


@pytest.mark.parametrize(("leader", "is_reported"), [("leader=b1", True), ("leader=b2", False), ("leader_epoch=2", False)])
def test_produce_hangs_only_where_the_broker_still_leads(leader: str, is_reported: bool) -> None:
    """The fenced broker answered at once that it cannot serve, and nobody led any more (seed 70748 of `--faults all`)."""
    before = "invoke produce acks=1 process=0 time_ns=5000000000", "ok produce process=0 node=b1 time_ns=5100000000"
    deposed = f"state-written {leader} isr=b1,b2 time_ns=200000000"
    fault_begun = "fault-begun fault=g node=b2 detail=cut-peers time_ns=300000000"
    invocation = "invoke produce acks=1 process=0 time_ns=8000000000"
    hangs = "info produce process=0 node=b1 error=REQUEST_TIMED_OUT time_ns=8500000000"

    lines = _complaints_with_places(deposed, fault_begun, *before, invocation, hangs, HEALED)
    assert any("though no fault hit it or b1" in words for words in lines) is is_reported


READ = ("invoke poll offset=0 process=1 time_ns=1100000000", "ok poll value=a offset=0 hw=1 process=1 time_ns=1200000000")
SHORT = "state-written leader=b1 isr=b1"
HUNG = "error=REQUEST_TIMED_OUT attempts=2"
BEGUN = "fault-begun fault=g detail=cut time_ns=9000000000"


@pytest.mark.parametrize(
    ("led", "between", "answer", "is_reported"),
    [
        (LED, READ, HUNG, True),
        (LED, READ, "error=REQUEST_TIMED_OUT attempts=4", False),
        (LED, READ, "error=OUT_OF_ORDER_SEQUENCE_NUMBER attempts=2", False),
        (LED, READ, "error=REQUEST_TIMED_OUT attempts=1", False),
        (LED, (), HUNG, False),
        (SHORT, READ, HUNG, False),
        (LED, (*READ, f"{LED} time_ns=12000000000"), HUNG, False),
        (LED, (*READ, f"{BEGUN} node=b2"), HUNG, False),
        (LED, (*READ, f"{BEGUN} node=p1"), HUNG, False),
        (LED, (*READ, f"{BEGUN} node=p2"), HUNG, True),
    ],
    ids=[
        "committed",
        "the last attempt",
        "refused",
        "not sent again",
        "not seen to be committed",
        "short ISR",
        "state changed",
        "fault of a broker",
        "fault of the client",
        "fault of other clients",
    ],
)
def test_committed_batch_is_acknowledged_when_sent_again(
    led: str, between: tuple[str, ...], answer: str, is_reported: bool
) -> None:
    """B-66: with a timeout of 20 s an attempt takes 10 s; the call ends at 20 s."""
    invocation = "invoke produce value=a process=0 delivery=once time_ns=1000000000"
    ended = f"info produce value=a process=0 {answer} time_ns=20900000000"

    complaints = _complaints_with_places(
        led, invocation, *between, ended, timeout_ms=20000, words="though a consumer had the record"
    )

    assert bool(complaints) is is_reported


LEFT = "invoke produce value=x acks=0 process=1 time_ns=9000000000", "ok produce value=x acks=0 process=1 time_ns=9000000000"
AGAIN = "invoke produce value=y acks=0 process=1 time_ns=10500000000", "ok produce value=y acks=0 process=1 time_ns=10500000000"


@pytest.mark.parametrize(
    ("between", "is_reported"),
    [
        ((), True),
        (("append node=b1 offset=0 value=x detail=leader",), False),
        (("append node=b1 offset=0 value=y detail=leader",), False),
        (("state-written node=b9 leader=b2 isr=b1,b2 leader_epoch=1 time_ns=9500000000",), False),
        (("fault-begun fault=f node=b3 detail=cut-peers time_ns=9500000000",), False),
    ],
    ids=["both are lost", "the first is there", "the second is there", "another leader", "a fault"],
)
def test_producer_without_answers_learns_of_the_leader(between: tuple[str, ...], is_reported: bool) -> None:
    """KAFKA-955: the broker closes the connection, so only what was sent before that is lost."""
    findings = sketch("clients", "state-written node=b9 leader=b1 isr=b1,b2", *LEFT, *between, *AGAIN)

    assert any("with acks=0" in words for words in findings) is is_reported
