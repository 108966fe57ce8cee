"""Proposal B of KIP-236 at run time: requests, what is in flight, the way of old, and what is dropped at once."""

import pytest

from reference.config import VARIANTS
from reference.controller.reassign import requests as reassign_requests
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import Create, Data, Delete, GetData, SetData
from reference.messages import Fetch
from reference.types import TopicPartition
from tests.reference.lab import T0, Lab, Letter
from tests.reference.moving import (
    OAR,
    RAR,
    Mortal,
    assigned,
    children,
    cluster,
    data,
    entries,
    finish,
    holders,
    ids,
    in_flight,
    is_at,
    pending,
    reassign,
    request,
    write,
)

B = VARIANTS["reassignment-by-requests"]
ENTRY = admin_paths.reassignment_path(T0)
REFUSED = "reassignment-refused"


def by_requests(replicas: tuple[int, ...] = OAR) -> Mortal:
    return cluster(B, replicas=replicas)


def silence(lab: Mortal, *brokers: int) -> None:
    """Fetches of these brokers go nowhere."""

    def is_held(letter: Letter) -> bool:
        return isinstance(letter[2], Fetch) and int(letter[0][1:]) in brokers

    lab.held = is_held


def refusals(lab: Lab) -> list[str]:
    return list(dict.fromkeys(note.detail for _, note in lab.notes if note.kind == REFUSED and note.detail is not None))


def znode(lab: Lab) -> Data:
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(ENTRY),))
    assert isinstance(answer, Data)
    return answer


# --- one request --------------------------------------------------------------------------------------------------------------


def test_a_partition_is_moved_by_a_request() -> None:
    """R-246, R-248, C-19: taken up through a watch; request and entry are gone at the end, and nobody waits for a timer."""
    lab = by_requests()
    request(lab, *RAR)
    lab.wait(1500)

    assert is_at(lab, RAR)
    assert lab.now < 4000


def test_by_the_other_proposal_nobody_looks_at_requests() -> None:
    """C-19: the two own one path, so a cluster has one of them."""
    lab = cluster()
    request(lab, *RAR)
    lab.wait(5000)

    assert (assigned(lab), len(children(lab, admin_paths.REQUESTS))) == (OAR, 1)


def test_what_is_in_flight_is_written_down_before_anything_is_done() -> None:
    """R-246, R-253: the entry is created, and the request deleted; then AR is widened. `top` is stored."""
    lab = by_requests()
    silence(lab, 4, 5, 6)
    lab.look_from_here()
    request(lab, *RAR)

    assert in_flight(lab) == Reassignment(ids(*RAR), ids(*OAR), top=3, held=ids(*OAR))
    assert children(lab, admin_paths.REQUESTS) == ()
    assert [word for word in lab.steps if not word.startswith(("command", "metadata"))] == [
        admin_paths.REASSIGNMENTS,
        f"{admin_paths.REASSIGNMENTS}/t",
        f"{ENTRY}: 4,5,6",
        f"gone: {admin_paths.REQUEST}0000000000",
        "AR 1,2,3,4,5,6",
        "state: 1 leads 1,2,3",
    ]


def test_the_entry_goes_last() -> None:
    """R-248, R-249: when the ISR has all new replicas, and the others are stopped, deleted and not assigned any more."""
    lab = by_requests()
    request(lab, *RAR)
    lab.wait(1500)

    assert [word for word in lab.steps if word.startswith(("AR", "delete", "gone"))] == [
        f"gone: {admin_paths.REQUEST}0000000000",
        "AR 1,2,3,4,5,6",
        "delete b1",
        "delete b2",
        "delete b3",
        "AR 4,5,6",
        f"gone: {ENTRY}",
        f"gone: {admin_paths.REASSIGNMENTS}/t",
    ]


def test_entries_are_exactly_what_is_in_flight() -> None:
    """R-249: of two requested partitions the one that has moved is not there any more."""
    lab = by_requests()
    other = TopicPartition("t-1")
    lab.crash(1)
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: ids(*OAR), other: ids(2, 3)})))
    lab.expire(1)
    lab.settle()
    lab.wait(2000)
    lab.held = lambda letter: isinstance(letter[2], Fetch) and letter[2].tp == T0 and letter[0] == "b6"
    request(lab, *RAR)
    request(lab, 4, 5, tp=other)
    assert children(lab, f"{admin_paths.REASSIGNMENTS}/t") == ("0", "1")

    assert finish(lab, lambda: assigned(lab, other) == (4, 5) and children(lab, f"{admin_paths.REASSIGNMENTS}/t") == ("0",))


# --- requests that are ignored ------------------------------------------------------------------------------------------------


def test_requests_that_make_no_sense_are_deleted() -> None:
    """KAFKA-2234, R-253: no such partition, too few replicas, or nothing that anybody can read; nobody is held up."""
    lab = by_requests()
    write(lab, Create(admin_paths.REQUESTS, b""), Create(admin_paths.REQUEST, b"{", sequential=True))
    request(lab, 4, 5, tp=TopicPartition("ghost-0"))
    request(lab, 4)
    lab.wait(3000)

    assert is_at(lab, OAR)
    assert refusals(lab) == ["no such partition", "fewer replicas than min.insync.replicas"]


def test_too_few_original_replicas_are_not_reassigned() -> None:
    """R-253: "We check top >= min.insync.replicas, logging a warning and ignore the reassignment if the check fails"."""
    lab = cluster(B, replicas=(1, 2), min_isr=2)
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: ids(1)})))
    request(lab, 4, 5)

    assert refusals(lab) == ["fewer original replicas than min.insync.replicas"]
    assert children(lab, admin_paths.REQUESTS) == ()


def test_an_entry_that_nobody_can_read_goes() -> None:
    """R-249: it stands for nothing that is in flight."""
    lab = by_requests()
    write(lab, Create(admin_paths.REASSIGNMENTS, b""), Create(f"{admin_paths.REASSIGNMENTS}/t", b""), Create(ENTRY, b"{"))
    request(lab, 3, 2, 1)

    assert finish(lab, lambda: is_at(lab, (3, 2, 1)))


# --- another request while one is in flight -----------------------------------------------------------------------------------


def test_another_request_begins_anew() -> None:
    """R-247, R-249: the same entry, by its czxid, and changed, by its mzxid; the same request once more changes nothing."""
    lab = by_requests()
    silence(lab, 4, 5, 6)
    request(lab, *RAR)
    begun = znode(lab)
    request(lab, *RAR)
    assert reassign_requests.fate(begun, znode(lab)) == "in flight"
    request(lab, 2, 3, 4)
    assert reassign_requests.fate(begun, znode(lab)) == "changed"
    silence(lab)
    assert finish(lab, lambda: is_at(lab, (2, 3, 4)))
    silence(lab, 5)
    request(lab, 5, 2, 3)

    assert reassign_requests.fate(begun, znode(lab)) == "over"


def test_a_reassignment_is_cancelled_by_asking_for_the_old_replicas() -> None:
    """R-247, R-244: without waiting for anything."""
    lab = by_requests()
    silence(lab, 4, 5, 6)
    request(lab, *RAR)
    before = lab.now
    request(lab, *OAR)

    assert is_at(lab, OAR)
    assert lab.now == before


def test_a_cancellation_is_possible_when_the_new_replicas_are_the_isr() -> None:
    """R-247: the old ones are wanted and so not dropped, though they serve least; they come back before the others go."""
    lab = by_requests()
    lab.before["AR 4,5,6"] = lambda: request(lab, *OAR)
    request(lab, *RAR)
    lab.wait(1500)

    assert lab.before == {}
    assert finish(lab, lambda: is_at(lab, OAR))


def test_the_example_of_the_document_step_by_step() -> None:
    """R-254, R-255, R-256, C-18: [1,2] to [2,3], changed to [2,4]: 3 goes at once, through all states, before 4 is begun."""
    lab = by_requests((1, 2))
    silence(lab, 3, 4)
    request(lab, 2, 3)
    assert (assigned(lab), holders(lab), lab.isr()) == ((1, 2, 3), [1, 2, 3], [1, 2])
    lab.look_from_here()
    request(lab, 2, 4)

    assert in_flight(lab) == Reassignment(ids(2, 4), ids(1, 2), top=2, held=ids(1, 2, 3), drop=ids(3))
    assert [word for word in lab.steps if not word.startswith(("metadata", "command"))][2:] == [
        "state: 1 leads 1,2",
        "stop b3",
        "delete b3",
        "AR 1,2",
        "AR 1,2,4",
    ]
    assert (assigned(lab), holders(lab), lab.isr()) == ((1, 2, 4), [1, 2, 4], [1, 2])
    silence(lab)
    assert finish(lab, lambda: is_at(lab, (2, 4)))


def test_an_intermediate_replica_that_is_in_sync_leaves_the_isr_first() -> None:
    """R-254, R-255: leader 1, ISR 1, 2, 3: 3 comes last, and goes through Offline."""
    lab = by_requests((1, 2))
    silence(lab, 4, 5)
    request(lab, 3, 5)
    assert finish(lab, lambda: lab.isr() == [1, 2, 3])
    lab.look_from_here()
    request(lab, 2, 4)

    left = [word for word in lab.steps if word in ("state: 1 leads 1,2", "stop b3", "delete b3")]
    assert left == ["state: 1 leads 1,2", "stop b3", "delete b3"]
    assert (assigned(lab), holders(lab), lab.isr()) == ((1, 2, 4), [1, 2, 4], [1, 2])
    silence(lab)
    assert finish(lab, lambda: is_at(lab, (2, 4)))


def test_who_is_counted_on_is_not_dropped() -> None:
    """R-254, KIP-966: 2 is dead and 3 has taken its place in the ISR: then 3 serves more, and 2 goes."""
    lab = by_requests((1, 2))
    silence(lab, 5)
    request(lab, 3, 5)
    assert finish(lab, lambda: lab.isr() == [1, 2, 3])
    lab.bury(2)
    request(lab, 4, 5)

    entry = in_flight(lab)
    assert entry is not None
    assert entry.drop == ids(2)
    assert finish(lab, lambda: assigned(lab) == (1, 3, 5, 4))
    lab.start(2)
    lab.settle()
    silence(lab)
    assert finish(lab, lambda: is_at(lab, (4, 5)))


# --- the way of old -----------------------------------------------------------------------------------------------------------


def test_the_way_of_old_becomes_a_request() -> None:
    """R-250: /admin/reassign_partitions stays while the partition is on its way, and goes with the entry (R-248)."""
    lab = by_requests()
    silence(lab, 6)
    lab.look_from_here()
    reassign(lab)

    entry = in_flight(lab)
    assert entry is not None
    assert entry.legacy
    assert pending(lab) == entries(RAR)
    assert admin_paths.REQUEST in lab.steps
    silence(lab)
    assert finish(lab, lambda: is_at(lab, RAR))


def test_an_entry_of_old_goes_when_its_partition_has_moved() -> None:
    """R-248: "removes partition from /admin/reassign_partitions, or if this is the last partition" the znode."""
    lab = by_requests()
    other = TopicPartition("t-1")
    lab.crash(1)
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: ids(*OAR), other: ids(2, 3)})))
    lab.expire(1)
    lab.settle()
    lab.wait(2000)
    lab.held = lambda letter: isinstance(letter[2], Fetch) and letter[2].tp == T0 and letter[0] == "b6"
    asked = entries(RAR) | entries((4, 5), (), other)
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(asked)))

    assert finish(lab, lambda: assigned(lab, other) == (4, 5) and pending(lab) == entries(RAR))


def test_what_is_changed_in_the_way_of_old_changes_what_is_in_flight() -> None:
    """R-247, R-251: by the same way."""
    lab = by_requests()
    silence(lab, 4, 5, 6)
    reassign(lab)
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries((2, 3, 4)))))
    silence(lab)

    assert finish(lab, lambda: is_at(lab, (2, 3, 4)))


@pytest.mark.parametrize("legacy_first", [True, False])
def test_a_request_of_the_other_way_is_ignored(legacy_first: bool) -> None:
    """R-251: "one is a legacy request and the other is not": it is deleted, and its entry of old is taken out."""
    lab = by_requests()
    silence(lab, 4, 5, 6)
    if legacy_first:
        reassign(lab)
        request(lab, 2, 3, 4)
    else:
        request(lab, *RAR)
        reassign(lab, (2, 3, 4))
    assert refusals(lab) == ["asked for by the other way"]
    assert (pending(lab) is None, children(lab, admin_paths.REQUESTS)) == (not legacy_first, ())
    silence(lab)

    assert finish(lab, lambda: is_at(lab, RAR))


@pytest.mark.parametrize("payload", [b"{", b'{"version":1,"partitions":[]}', admin_paths.reassignments_payload(entries((4,)))])
def test_what_makes_no_sense_in_the_way_of_old_is_dropped(payload: bytes) -> None:
    """KAFKA-9478: the znode does not stay behind for ever."""
    lab = by_requests()
    write(lab, Create(admin_paths.REASSIGN, payload))
    lab.wait(3000)

    assert is_at(lab, OAR)


# --- failover -----------------------------------------------------------------------------------------------------------------


def test_a_new_controller_goes_by_what_is_in_flight_first() -> None:
    """R-252: then by requests in their order, then by the way of old; the flag decides what may change what."""
    lab = by_requests()
    silence(lab, 4, 5, 6)
    request(lab, *RAR)
    lab.crash(1)
    request(lab, 2, 3, 4)
    request(lab, 3, 4, 5)
    reassign(lab, (6, 5, 4))
    lab.expire(1)
    lab.settle()
    lab.start(1)
    lab.wait(2000)

    entry = in_flight(lab)
    assert entry is not None
    assert (entry.replicas, entry.original) == ((3, 4, 5), OAR)
    assert refusals(lab) == ["asked for by the other way"]
    silence(lab)
    assert finish(lab, lambda: is_at(lab, (3, 4, 5)))


@pytest.mark.parametrize("legacy", [True, False])
def test_a_new_controller_takes_up_what_was_asked_for_while_there_was_none(legacy: bool) -> None:
    """R-252: cases 1 and 2 of the failover."""
    lab = by_requests()
    lab.crash(1)
    if legacy:
        reassign(lab, (2, 3, 4))
    else:
        request(lab, 2, 3, 4)
    lab.expire(1)
    lab.settle()

    assert finish(lab, lambda: assigned(lab) == (2, 3, 4) and in_flight(lab) is None and pending(lab) is None)


def test_an_entry_taken_out_by_hand_ends_the_move_where_it_is() -> None:
    """As of proposal A: AR stays OAR + RAR, and serves."""
    lab = by_requests()
    silence(lab, 4, 5, 6)
    request(lab, *RAR)
    write(lab, Delete(ENTRY))
    silence(lab)
    lab.wait(5000)

    assert (assigned(lab), data(lab, ENTRY)) == ((*OAR, *RAR), None)
    assert (sorted(lab.isr()), children(lab, admin_paths.REASSIGNMENTS)) == ([1, 2, 3, 4, 5, 6], ())


def test_a_topic_that_is_deleted_while_it_is_moved_leaves_nothing() -> None:
    """R-249: the entry goes with the topic."""
    lab = by_requests()
    silence(lab, 4, 5, 6)
    reassign(lab)
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))
    silence(lab)

    assert finish(lab, lambda: pending(lab) is None and children(lab, admin_paths.REASSIGNMENTS) == ())
    assert (holders(lab), data(lab, paths.topic_path("t"))) == ([], None)
