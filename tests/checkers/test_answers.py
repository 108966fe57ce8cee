"""The checker `answers`: what a leader may answer to a producer that keeps the rules."""

import pytest

from checkers.sketches import sketch

ACKNOWLEDGED = "ok produce value=a offset=0 acks=-1 delivery=once"


@pytest.mark.parametrize("error", ["UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER"])
def test_acknowledged_producer_is_not_refused_for_its_sequence(error: str) -> None:
    """The log remembers its last batch: there is no retention (checkers.answers)."""
    refused = f"fail produce value=b acks=-1 delivery=once error={error}"

    assert sketch("answers", ACKNOWLEDGED, refused) == ["wrong-error"]
    assert sketch("answers", refused) == []


@pytest.mark.parametrize("deleted", ["topic-deleted topic_id=1", "topic-deleted"])
def test_removed_partition_knows_no_producer(deleted: str) -> None:
    refused = "fail produce value=b acks=-1 delivery=once error=UNKNOWN_PRODUCER_ID"

    assert sketch("answers", ACKNOWLEDGED, deleted, refused) == []
