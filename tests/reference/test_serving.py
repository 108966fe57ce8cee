"""The least that a mutant of the reference must still do: under a dead one a red test proves nothing (mutation/prove.py)."""

from reference.errors import ErrorCode
from reference.messages import FetchReply, ProduceReply
from tests.reference.lab import Lab
from tests.reference.v3 import fetch


class Unwatched(Lab):
    """A cluster that may break rules: a mutant that does serves nevertheless, and what notices it are the other tests."""

    checks_rules = False


def test_single_broker_serves_a_produce_and_a_fetch() -> None:
    lab = Unwatched(1)
    lab.produce(1, "x", acks=1)
    (produced,) = [reply for reply in lab.client_replies if isinstance(reply, ProduceReply)]
    read = fetch(lab, 1, 0)

    assert produced.error is ErrorCode.NONE
    assert isinstance(read, FetchReply)
    assert [batch.base_offset for batch in read.batches] == [0]
