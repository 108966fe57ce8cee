"""The checker `answers`: what a leader may answer to clients that keep the rules."""

import pytest

from checkers.sketches import sketch

ACKNOWLEDGED = "ok produce value=a offset=0 acks=-1 delivery=once"


@pytest.mark.parametrize("error", ["UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER"])
def test_acknowledged_producer_is_not_refused_for_its_sequence(error: str) -> None:
    """The log remembers its last batch: there is no retention (checkers.clients.answers)."""
    refused_produce = f"fail produce value=b acks=-1 delivery=once error={error}"

    assert sketch("answers", ACKNOWLEDGED, refused_produce) == ["wrong-error"]
    assert sketch("answers", refused_produce) == []


@pytest.mark.parametrize("deleted", ["topic-deleted topic_id=1", "topic-deleted"])
def test_removed_partition_knows_no_producer(deleted: str) -> None:
    refused = "fail produce value=b acks=-1 delivery=once error=UNKNOWN_PRODUCER_ID"

    assert sketch("answers", ACKNOWLEDGED, deleted, refused) == []


STRANGE = "invoke produce value=a acks=-1 delivery=once error=UNKNOWN_PRODUCER_ID"


@pytest.mark.parametrize("before", [(), (ACKNOWLEDGED,)], ids=["first", "after another"])
@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        ("ok produce value=a offset=1 acks=-1 delivery=once", ["misuse-acknowledged"]),
        ("fail produce value=a error=OUT_OF_ORDER_SEQUENCE_NUMBER", ["wrong-error"]),
        ("fail produce value=a error=UNKNOWN_PRODUCER_ID", []),
        ("info produce value=a error=NOT_LEADER_OR_FOLLOWER", []),
    ],
)
def test_unknown_producer_is_refused_in_an_empty_log_too(before: tuple[str, ...], answer: str, kinds: list[str]) -> None:
    """ORD-3: no producer was given the id, so no acknowledged batch is needed to know that it is wrong."""
    assert sketch("answers", *before, STRANGE, answer) == kinds


SENT = "invoke produce value=a delivery=once"
APPENDED = "append node=b1 offset=0 value=a"
SHORT = ("isr-change-sent node=b1 isr=b1", "state-written node=b3 leader=b1 isr=b1", "isr-change-ended node=b1 isr=b1")
DENIED = "info produce value=a delivery=once error=NOT_ENOUGH_REPLICAS attempts=2 node=b1"


def test_leader_does_not_deny_the_batch_that_it_appended() -> None:
    """The plan retried-while-the-isr-is-short: the retry of a batch that is in the log deserves the error AFTER_APPEND."""
    assert sketch("answers", SENT, APPENDED, *SHORT, DENIED) == ["wrong-error"]
    assert sketch("answers", SENT, APPENDED, *SHORT, DENIED.replace("REPLICAS", "REPLICAS_AFTER_APPEND")) == []
    assert sketch("answers", SENT, *SHORT, DENIED) == []


@pytest.mark.parametrize(
    "rows",
    [
        (SHORT[0], "isr-change-ended node=b1 isr=b1,b2", APPENDED),
        (SHORT[1], APPENDED),
        ("became-leader node=b1 leo=0 hw=0 isr=b1,b2", APPENDED),
        (APPENDED, "became-follower node=b1", "became-leader node=b1 leo=0 hw=0 isr=b1"),
        (APPENDED, "node-stopped node=b1 detail=crash"),
        ("append node=b2 offset=0 value=a",),
        ("append node=b1 offset=0 value=a detail=follower",),
        ("append node=b1 offset=0 value=b",),
    ],
    ids=[
        "its ISR was short before the append",
        "the ISR was written before the append",
        "it led anew before the append",
        "it followed after the append",
        "it ended after the append",
        "another broker appended it",
        "it was a follower",
        "it appended another batch",
    ],
)
def test_leader_may_have_refused_before_it_appended(rows: tuple[str, ...]) -> None:
    """Bytes of the first attempt may arrive after those of the second."""
    assert sketch("answers", SENT, *rows, DENIED) == []


@pytest.mark.parametrize("invocation", ["invoke produce value=a", "invoke produce value=a delivery=once acks=1"])
def test_retry_that_is_not_recognized_may_be_refused(invocation: str) -> None:
    """A batch without a producer id is a new one each time it is sent."""
    kinds_found = sketch(
        "answers", invocation, APPENDED, invocation.replace("invoke", "info") + " error=NOT_ENOUGH_REPLICAS attempts=2 node=b1"
    )

    # with acks=1, for another reason: it asks for no replica
    assert kinds_found == (["wrong-error"] if "acks=1" in invocation else [])


@pytest.mark.parametrize(
    ("answer", "is_reported"),
    [
        ("info earliest error=OFFSET_NOT_AVAILABLE", True),
        ("fail earliest error=OFFSET_OUT_OF_RANGE", True),
        ("ok earliest offset=0", False),
        ("info earliest error=REQUEST_TIMED_OUT", False),
        ("info latest error=OFFSET_NOT_AVAILABLE", False),
        ("fail poll offset=9 error=OFFSET_OUT_OF_RANGE", False),
    ],
)
def test_first_offset_does_not_wait_for_the_high_watermark(answer: str, is_reported: bool) -> None:
    """KIP-207 makes the end offset wait; the log begins where it did (promise V2)."""
    assert sketch("answers", ACKNOWLEDGED, answer) == (["wrong-error"] if is_reported else [])
