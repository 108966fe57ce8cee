"""The checker `topic-identity`: records of topics that had the same name one after the other."""

import pytest

from checkers.sketches import sketch

APPENDED = "append node=b1 offset=0 value=a topic_id=1 detail=leader", "append node=b1 offset=0 value=a topic_id=2 detail=leader"
SENT = "invoke produce value=a acks=-1 process=1"


@pytest.mark.parametrize(("calls", "kinds"), [((SENT,), ["other-topic"]), ((SENT, SENT), [])], ids=["one call", "two calls"])
def test_one_call_writes_to_one_topic(calls: tuple[str, ...], kinds: list[str]) -> None:
    """Sent again under another id, a record may be in both topics (DUR-8)."""
    assert sketch("topic-identity", *calls, *APPENDED) == kinds
