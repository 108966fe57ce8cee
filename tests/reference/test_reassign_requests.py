"""Proposal B of KIP-236: requests, their precedence, and the drop set."""

import pytest

from reference.config import VARIANTS
from reference.controller.reassign import requests as reassign_requests
from reference.coordination import reassignment_requests
from reference.coordination.admin_paths import Reassignment
from reference.coordination.reassignment_requests import Request
from reference.messages import IsrMember, PartitionState
from reference.types import BrokerId, ControllerEpoch, Incarnation, LeaderEpoch, TopicPartition, ZkVersion
from tests.reference.moving import broker_ids, cluster, is_moved_to, request_move, wait_until


def entries_dropped(assigned: tuple[int, ...], leader: int | None, isr: tuple[int, ...], top: int) -> tuple[int, ...]:
    chosen = None if leader is None else BrokerId(leader)
    return reassign_requests.droppable(broker_ids(*assigned), leader=chosen, isr=broker_ids(*isr), top=top)


def test_changed_reassignment_drops_its_intermediate_replica() -> None:
    """R-256, C-18: [1,2] to [2,3], changed to [2,4] while 3 is not in sync: 3 is dropped, 2 stays."""
    assert entries_dropped((1, 2, 3), 1, (1, 2), 2) == (3,)
    begun = reassign_requests.begun(broker_ids(2, 3), broker_ids(1, 2), legacy=False)
    members = tuple(IsrMember(b, Incarnation(b)) for b in broker_ids(1, 3))  # 2 is out of sync, and wanted all the same
    state = PartitionState(
        T, BrokerId(1), Incarnation(1), LeaderEpoch(3), members, ControllerEpoch(1), ZkVersion(5), broker_ids(1, 2, 3)
    )

    assert reassign_requests.changed(begun, broker_ids(2, 4), broker_ids(1, 2, 3), state).drop == ()
    lab = cluster(VARIANTS["reassignment-by-requests"], replicas=(1, 2))
    request_move(lab, 2, 4)
    assert wait_until(lab, lambda: is_moved_to(lab, (2, 4)))
    assert {step for step in lab.steps if step.endswith(" b2") and step.startswith(("stop", "delete"))} == set()


@pytest.mark.parametrize(
    ("assigned", "leader", "isr", "top", "drop"),
    [
        ((1, 2), 1, (1, 2), 2, ()),
        ((1, 2, 3), 3, (2, 3), 2, (1,)),
        ((1, 2, 3), 3, (1, 2, 3), 2, (2,)),  # the leader comes first, even as the last in AR and ISR
        ((1, 2, 3), 1, (3,), 2, (2,)),  # a member of the ISR comes before one that is assigned only
        ((1, 2, 3, 4), 1, (1,), 2, (3, 4)),  # of the replicas out of sync the first in AR stay
        ((1, 2, 3, 4), None, (4,), 2, (2, 3)),
        ((1, 2, 3), 1, (1, 2, 3), 1, (2, 3)),
        ((1, 2), 1, (1, 2), 5, ()),
    ],
)
def test_reassignment_change_keeps_leader_and_isr_first(
    assigned: tuple[int, ...], leader: int | None, isr: tuple[int, ...], top: int, drop: tuple[int, ...]
) -> None:
    """R-254, C-18: the first `top` of leader, ISR, others; each counted once. R-255: the rest leaves AR."""
    assert entries_dropped(assigned, leader, isr, top) == drop


def test_reassignment_needs_min_isr_original_replicas() -> None:
    """R-253: top >= min.insync.replicas."""
    assert not reassign_requests.is_allowed(original=broker_ids(1), min_isr=2)
    assert reassign_requests.is_allowed(original=broker_ids(1, 2), min_isr=2)
    lab = cluster(VARIANTS["reassignment-by-requests"], replicas=(1, 2), min_isr=2)
    request_move(lab, 2, 1)

    assert [note.detail for _, note in lab.notes if note.kind == "reassignment-refused"] == []


T, U = TopicPartition("my-topic-0"), TopicPartition("your-topic-3")
EXAMPLE = b'{"version":1,"assignments":{"my-topic":{"0":[1,2,3]},"your-topic":{"3":[4,5,6]}},"legacy":true}'


def test_reassignment_request_has_the_documented_json() -> None:
    """R-245, R-250: the example of KIP-236, a legacy request; without the key a request is not legacy."""
    request = Request({T: broker_ids(1, 2, 3), U: broker_ids(4, 5, 6)}, legacy=True)

    assert reassignment_requests.request_payload(request) == EXAMPLE
    both = Request({T: broker_ids(1), TopicPartition("my-topic-1"): broker_ids(2)})
    assert reassignment_requests.decode_request(reassignment_requests.request_payload(both)) == both
    assert reassignment_requests.decode_request(EXAMPLE) == request
    assert b"legacy" not in reassignment_requests.request_payload(Request({T: broker_ids(1)}))
    assert reassignment_requests.decode_request(b"{") == Request({})


def test_reassignment_request_cannot_change_a_legacy_entry() -> None:
    """R-251: a request of the other way is ignored."""
    entry = Reassignment(broker_ids(1), legacy=True)

    assert not reassign_requests.may_change(entry, legacy=False)
    assert reassign_requests.may_change(entry, legacy=True)
    assert reassign_requests.may_change(None, legacy=True)


def test_malformed_reassignment_requests_are_skipped() -> None:
    """KAFKA-2234: no replicas, one replica twice, a negative id, a partition that is not a number."""
    data = b'{"version":1,"assignments":{"t":{"0":[],"1":[1,1],"2":[-1],"x":[1],"3":[2,3]}}}'

    assert reassignment_requests.decode_request(data) == Request({TopicPartition("t-3"): broker_ids(2, 3)})


def test_reassignment_is_unchanged_after_znode_round_trip() -> None:
    """R-246, R-253: it stores `top` and the drop set for the next controller; a payload of another form is no entry."""
    entry = Reassignment(broker_ids(2, 4), broker_ids(1, 2), top=2, held=broker_ids(1, 2, 3), drop=broker_ids(3), legacy=True)
    data = reassignment_requests.entry_payload(entry)

    assert data == b'{"version":1,"replicas":[2,4],"top":2,"original_replicas":[1,2],"held":[1,2,3],"drop":[3],"legacy":true}'
    assert reassignment_requests.decode_entry(data) == entry
    assert reassignment_requests.decode_entry(b"{}") is None
