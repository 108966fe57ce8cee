"""The origin of a failure: the earliest wrong decision, or what called for a step that nobody took."""

import pytest

from checkers.causes.cause import Cause, cause_of, told_first
from checkers.causes.origin import decision
from checkers.causes.scene import scene_of
from checkers.causes.undone import first_lack
from checkers.engine.verdict import Anomaly, Findings, merge
from checkers.judge import judge
from checkers.sketches import history_of
from tests.checkers import corpus

SERVED = (
    "registered node=b1 incarnation=1",
    "registered node=b2 incarnation=2",
    "controller-elected node=b3",
    "assigned replicas=b1,b2",
)


def origin(words: str, *rows: str) -> int | None:
    """The origin of a run that is not live for this reason."""
    cause = cause_of(history_of(*rows), merge([Findings(not_live=(words,), live_judged=True)]))
    assert cause is not None
    assert cause.origin is None or cause.rows[0] == cause.origin
    return cause.origin


def of_history(name: str) -> Cause:
    """The cause of the failed run of this name in the corpus."""
    history = corpus.history(name)
    cause = cause_of(history, judge(history))
    assert cause is not None
    return cause


def test_member_asked_for_below_the_hw_is_told_at_the_request() -> None:
    """The records that are lost later are told by other checkers; the mistake is in the code of the request."""
    cause = of_history("bad/isr-agreement-asked-for-below-its-hw")

    assert cause.anomaly is not None
    assert (cause.anomaly.kind, cause.origin) == ("joined-below-hw", 19)


def test_request_is_the_origin_of_a_join_without_a_record() -> None:
    history = history_of(
        "state-written node=b9 leader=b1 leader_epoch=0 isr=b1",
        "became-leader node=b1 leader_epoch=0 leo=0 hw=0 isr=b1",
        "append node=b1 offset=0 value=x leader_epoch=0 detail=leader",
        "hw node=b1 hw=1 leo=1 leader_epoch=0 detail=leader",
        "isr-change-sent node=b1 isr=b1,b2 leader_epoch=0",
        "state-written node=b9 leader=b1 leader_epoch=0 isr=b1,b2",
    )

    cause = cause_of(history, judge(history))

    assert cause is not None
    assert cause.origin == 4


@pytest.mark.parametrize(("reached", "earlier", "expected"), [(1, 3, 3), (1, None, 13), (3, 3, 14)])
def test_hw_that_nobody_reached_is_of_a_deleted_replica(reached: int, earlier: int | None, expected: int) -> None:
    history = history_of(
        f"registered node=b{3 if earlier is None else 1} incarnation=1",
        "controller-elected node=b3",
        "topic-deleted partition=0 topic_id=7",
        f"replica-deleted node=b{3 if earlier is None else 1} topic_id=7",
        "state-written node=b9 leader=b1 leader_epoch=0 isr=b1,b2 topic_id=8",
        "became-leader node=b1 leader_epoch=0 leo=0 hw=0 isr=b1,b2 topic_id=8",
        *(f"append node=b1 offset={offset} value=x{offset} leader_epoch=0 detail=leader topic_id=8" for offset in range(3)),
        f"hw node=b1 hw={reached} leo=3 leader_epoch=0 detail=leader topic_id=8",
        "node-stopped node=b1",
        "state-written node=b9 leader=b1 leader_epoch=1 isr=b1 topic_id=8",
        "node-started node=b1 life=2",
        "recovered node=b1 life=2 hw=3 leo=3 topic_id=8",
        "became-leader node=b1 life=2 leader_epoch=1 leo=3 hw=3 isr=b1 topic_id=8",
    )
    found = Anomaly(kind="lost-write", checker="acked-loss", key="t-0", witness=(14,), words="w")

    assert decision(scene_of(history, "t-0"), found, "committed-below-min-isr", 14) == expected


def test_start_after_the_swap_is_the_origin_of_an_empty_leader() -> None:
    """A power loss that follows the swap destroys nothing more; the broker knew at its first start that the log was another."""
    history = history_of(
        "state-written node=b9 leader=b1 leader_epoch=0 isr=b1,b2",
        "node-stopped node=b2",
        "wound node=b2 offset=0 detail=swapped",
        "recovered node=b2 life=2 hw=0 leo=0",
        "wound node=b2 offset=0 detail=power-loss",
        "recovered node=b2 life=3 hw=0 leo=0",
        "state-written node=b9 leader=b2 leader_epoch=1 isr=b2",
    )
    found = Anomaly(kind="empty-leader", checker="election", key="t-0", witness=(6,), words="w")

    assert decision(scene_of(history, "t-0"), found, "empty-leader", 6) == 3


def test_of_equally_harmful_anomalies_the_first_is_told_first() -> None:
    """Both are `Harm.LOSS_NEXT`; row 7 proves the one, row 9 the other."""
    found = [
        Anomaly(kind="unflushed", checker="flushes", key="t-0", witness=(9,), words="w"),
        Anomaly(kind="joined-below-hw", checker="isr-agreement", key="t-0", witness=(3, 7), words="w"),
    ]

    assert told_first(merge([Findings(anomalies=tuple(found))])).kind == "joined-below-hw"


def test_fact_that_a_broker_does_not_tell_is_the_origin() -> None:
    rows = (*SERVED, "topic-deleted partition=0", "metadata-told node=b1 leader=b1 detail=-")

    assert origin("b1 tells that t-0 exists at row 5, though its deletion was requested", *rows) == 4


def test_news_that_a_later_controller_owes_begin_with_it() -> None:
    rows = (*SERVED, "topic-deleted partition=0", "controller-elected node=b2", "metadata-told node=b1 leader=b1 detail=-")

    assert origin("b1 tells that t-0 exists at row 6, though its deletion was requested", *rows) == 5


def test_confirmation_of_what_nobody_did_is_the_origin() -> None:
    rows = ("invoke delete-topic process=7 value=u", "ok delete-topic process=7")

    assert origin("u was not deleted, though its deletion was confirmed at row 1", *rows) == 1


def test_end_of_the_last_controller_is_the_origin_without_one() -> None:
    rows = (*SERVED, "session-ended node=b3 incarnation=3", "registered node=b3 incarnation=4")

    assert origin("no broker is controller at the end", *rows) == 4


def test_unregistered_broker_begins_with_its_session_end() -> None:
    rows = (*SERVED, "session-ended node=b1 incarnation=1", "controller-elected node=b2")

    assert origin("b1 is not registered at the end", *rows) == 4


def test_call_begins_where_it_stood_still_for_longest() -> None:
    """The record was appended and committed at once: its answer is missing."""
    rows = (
        "invoke produce process=1 value=x acks=-1 time_ns=0",
        "append node=b1 offset=0 value=x detail=leader time_ns=1000000",
        "hw node=b1 hw=1 leo=1 detail=leader time_ns=2000000",
        "fail produce process=1 value=x error=REQUEST_TIMED_OUT time_ns=900000000",
    )

    assert origin("process 1 waited 900 ms for its produce of t-0 at row 3 and got REQUEST_TIMED_OUT", *rows) == 2


def test_isr_change_in_an_old_epoch_begins_with_the_new_one() -> None:
    """The leader was not told of the epoch that the controller wrote, so its requests are refused."""
    rows = (
        "became-leader node=b1 leader_epoch=0 leo=0 hw=0 isr=b1",
        "state-written node=b3 leader=b1 leader_epoch=1 isr=b1",
        "isr-change-sent node=b1 isr=b1,b2 leader_epoch=0",
    )

    assert origin("b1 does not know the result of its ISR change of t-0 500 ms after row 2", *rows) == 1


@pytest.mark.parametrize("first", [True, False])
def test_step_left_undone_is_told_before_a_later_hang(first: bool) -> None:
    hang = "process 3 waited 500 ms for its latest of t-0 at row 90 and got REQUEST_TIMED_OUT, though no fault hit it or a broker"
    undone = "b1 is still in the ISR of t-0, though its registration ended, 500 ms after row 40"

    assert first_lack((undone, hang) if first else (hang, undone)) == undone


def test_topic_ordered_deleted_needs_no_broker_to_list_it() -> None:
    """Six brokers were accused of not listing a topic that they had been told to drop."""
    state_row = "zk-state leader=b1 isr=b1,b2,b3 replicas=b1,b2,b3 topic_id=9"
    history = history_of("healed", "topic-deleted partition=0 topic_id=9", f"{state_row} time_ns=90000000000")

    said = [words for words in judge(history).not_live if "list" in words or "log" in words]

    assert said == []
