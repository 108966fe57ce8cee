"""Proposal B of KIP-236: requests, their precedence, and the drop set."""

import pytest

from reference.controller.reassign import requests as reassign_requests
from reference.coordination import reassignment_requests
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import Data, NoNode
from reference.coordination.reassignment_requests import Request
from reference.types import BrokerId, TopicPartition
from tests.reference.moving import ids


def dropped(assigned: tuple[int, ...], leader: int | None, isr: tuple[int, ...], top: int) -> tuple[int, ...]:
    chosen = None if leader is None else BrokerId(leader)
    return reassign_requests.droppable(ids(*assigned), leader=chosen, isr=ids(*isr), top=top)


def test_an_intermediate_replica_is_dropped_at_once() -> None:
    """R-256, C-18: [1,2] to [2,3], changed to [2,4] while 3 is not in sync: 3 goes, 2 is not touched."""
    assert dropped((1, 2, 3), 1, (1, 2), 2) == (3,)


@pytest.mark.parametrize(
    ("assigned", "leader", "isr", "top", "drop"),
    [
        ((1, 2), 1, (1, 2), 2, ()),
        ((1, 2, 3), 3, (2, 3), 2, (1,)),  # the leader comes first, whoever it is
        ((1, 2, 3, 4), 1, (1,), 2, (3, 4)),  # of those out of sync the first assigned stay
        ((1, 2, 3, 4), None, (4,), 2, (2, 3)),
        ((1, 2, 3), 1, (1, 2, 3), 1, (2, 3)),
        ((1, 2), 1, (1, 2), 5, ()),
    ],
)
def test_those_stay_who_serve(
    assigned: tuple[int, ...], leader: int | None, isr: tuple[int, ...], top: int, drop: tuple[int, ...]
) -> None:
    """R-254, C-18: the first `top` of leader, ISR, others; each counted once. R-255: the rest leaves AR."""
    assert dropped(assigned, leader, isr, top) == drop


def test_too_few_replicas_at_first_are_not_reassigned() -> None:
    """R-253: top >= min.insync.replicas."""
    assert not reassign_requests.is_allowed(original=ids(1), min_isr=2)
    assert reassign_requests.is_allowed(original=ids(1, 2), min_isr=2)


T, U = TopicPartition("my-topic-0"), TopicPartition("your-topic-3")
EXAMPLE = b'{"version":1,"assignments":{"my-topic":{"0":[1,2,3]},"your-topic":{"3":[4,5,6]}},"legacy":true}'


def test_a_request_has_the_documented_form() -> None:
    """R-245, R-250: the example of KIP-236, which is legacy; without the key it is not."""
    request = Request({T: ids(1, 2, 3), U: ids(4, 5, 6)}, legacy=True)

    assert reassignment_requests.request_payload(request) == EXAMPLE
    assert reassignment_requests.decode_request(EXAMPLE) == request
    assert b"legacy" not in reassignment_requests.request_payload(Request({T: ids(1)}))
    assert reassignment_requests.decode_request(b"{") == Request({})


def test_one_partition_is_not_reassigned_by_both_ways() -> None:
    """R-251: the request is ignored; by the same way it changes what is in flight."""
    entry = Reassignment(ids(1), legacy=True)

    assert not reassign_requests.may_change(entry, legacy=False)
    assert reassign_requests.may_change(entry, legacy=True)
    assert reassign_requests.may_change(None, legacy=True)


def test_a_request_that_makes_no_sense_is_left_out() -> None:
    """KAFKA-2234: no replicas, one twice, a negative number, no number."""
    data = b'{"version":1,"assignments":{"t":{"0":[],"1":[1,1],"2":[-1],"x":[1],"3":[2,3]}}}'

    assert reassignment_requests.decode_request(data) == Request({TopicPartition("t-3"): ids(2, 3)})


def test_an_entry_tells_the_next_controller_all_it_must_know() -> None:
    """R-246, R-253: `top` is stored, and what is dropped; what somebody else wrote there is no entry."""
    entry = Reassignment(ids(2, 4), ids(1, 2), top=2, held=ids(1, 2, 3), drop=ids(3), legacy=True)
    data = reassignment_requests.entry_payload(entry)

    assert data == b'{"version":1,"replicas":[2,4],"top":2,"original_replicas":[1,2],"held":[1,2,3],"drop":[3],"legacy":true}'
    assert reassignment_requests.decode_entry(data) == entry
    assert reassignment_requests.decode_entry(b"{}") is None


def test_a_reassignment_is_known_by_its_znode() -> None:
    """R-249: by its czxid; that it was changed, by the mzxid, which goes with the version."""
    begun = Data(b"", 0, 7)

    assert reassign_requests.fate(begun, begun) == "in flight"
    assert reassign_requests.fate(begun, Data(b"", 1, 7)) == "changed"
    assert reassign_requests.fate(begun, Data(b"", 0, 9)) == "over"
    assert reassign_requests.fate(begun, NoNode()) == "over"
