"""The least that a mutant of the reference must still do: under a dead one a red test proves nothing (mutation/prove.py)."""

from reference.errors import ErrorCode
from reference.messages import FetchReply, ProduceReply
from tests.reference.lab import Lab
from tests.reference.v3 import fetch


def test_single_broker_serves_a_produce_and_a_fetch() -> None:
    lab = Lab(1)
    lab.produce(1, "x", acks=1)
    (produced,) = [m for m in lab.client_replies if isinstance(m, ProduceReply)]
    read = fetch(lab, 1, 0)

    assert produced.error is ErrorCode.NONE
    assert isinstance(read, FetchReply)
    assert [b.base_offset for b in read.batches] == [0]
