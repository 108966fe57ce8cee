"""Proposal B of KIP-236 at run time: requests, entries in flight, the legacy znode, and replicas that are dropped at once."""

import pytest
from msgspec.structs import replace

from reference.config import VARIANTS
from reference.coordination import admin_paths, paths, reassignment_requests
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import Create, Data, Delete, GetData, SetData
from reference.coordination.reassignment_requests import Request
from reference.messages import Fetch
from reference.types import TopicPartition
from tests.reference.lab import T0, Envelope, Lab
from tests.reference.moving import (
    GHOST,
    OAR,
    RAR,
    Mortal,
    assigned_replicas,
    broker_ids,
    brokers_with_log,
    cluster,
    is_moved_to,
    move_in_flight,
    pending_moves,
    reassign,
    reassignment_of,
    request_move,
    wait_until,
    write,
    znode_children,
    znode_data,
)

B = VARIANTS["reassignment-by-requests"]
ENTRY = admin_paths.reassignment_path(T0)
REFUSED = "reassignment-refused"


def by_requests(replicas: tuple[int, ...] = OAR) -> Mortal:
    return cluster(B, replicas=replicas)


def add_partition(lab: Mortal) -> TopicPartition:
    """Add t-1 on b2 and b3 by its topic's znode, which the next controller reads."""
    second_tp = TopicPartition("t-1")
    lab.crash(1)
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: broker_ids(*OAR), second_tp: broker_ids(2, 3)})))
    lab.expire(1)
    lab.settle()
    return second_tp


@pytest.mark.parametrize("payload", [b"{", b'{"version":1,"replicas":[],"top":3,"original_replicas":[1],"held":[]}'])
def test_invalid_entry_in_flight_is_deleted(payload: bytes) -> None:
    lab = by_requests()
    write(lab, *(Create(path, b"") for path in (admin_paths.REASSIGNMENTS, f"{admin_paths.REASSIGNMENTS}/t")))
    write(lab, Create(ENTRY, payload), Create(f"{admin_paths.REASSIGNMENTS}/t/x", b""))
    request_move(lab, 4)
    lab.wait(5000)

    said = [(n.kind, n.detail) for _, n in lab.notes if n.kind.endswith("-refused")]
    assert (znode_data(lab, ENTRY), znode_children(lab, f"{admin_paths.REASSIGNMENTS}/t"), is_moved_to(lab, OAR)) == (
        None,
        (),
        True,
    )
    assert ("request-refused", f"{admin_paths.REASSIGNMENTS}/t/x: its name is no partition's") in said
    assert (REFUSED, "fewer replicas than min.insync.replicas") in said


def hold_fetches_of(lab: Mortal, *brokers: int) -> None:
    """Hold the fetches of these brokers; release those of all others."""

    def is_held(envelope: Envelope) -> bool:
        return isinstance(envelope.message, Fetch) and int(envelope.sender[1:]) in brokers

    lab.is_held = is_held


def refusals(lab: Lab) -> list[str]:
    return list(dict.fromkeys(note.detail for _, note in lab.notes if note.kind == REFUSED and note.detail is not None))


def znode(lab: Lab) -> Data:
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(ENTRY),))
    assert isinstance(answer, Data)
    return answer


# --- one request --------------------------------------------------------------------------------------------------------------


def test_reassignment_request_needs_no_timer() -> None:
    """R-246, R-248, C-19: the controller reads it through a watch; request and entry are gone at the end."""
    lab = by_requests()
    request_move(lab, *RAR)
    lab.wait(1500)

    assert is_moved_to(lab, RAR)
    assert lab.now < 4000


def test_proposal_a_ignores_requests_of_proposal_b() -> None:
    """C-19: both own one path, so a cluster runs one of them."""
    lab = cluster()
    request_move(lab, *RAR)
    lab.wait(5000)

    assert (assigned_replicas(lab), len(znode_children(lab, admin_paths.REQUESTS))) == (OAR, 1)


def test_controller_writes_its_znode_before_a_reassignment() -> None:
    """R-246, R-253: it creates the entry with `top`, deletes the request, and only then widens AR."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    lab.clear_record()
    request_move(lab, 6, 4, 5)

    assert move_in_flight(lab) == Reassignment(broker_ids(6, 4, 5), broker_ids(*OAR), top=3, held=broker_ids(*OAR))
    assert znode_children(lab, admin_paths.REQUESTS) == ()
    assert [word for word in lab.steps if not word.startswith(("command", "metadata"))] == [
        admin_paths.REASSIGNMENTS,
        f"{admin_paths.REASSIGNMENTS}/t",
        f"{ENTRY}: 6,4,5",
        f"gone: {admin_paths.REQUEST}0000000000",
        "AR 1,2,3,6,4,5",
        "state: 1 leads 1,2,3",
    ]
    request_move(lab, 6, 5)  # it changes the entry
    changed = move_in_flight(lab)
    assert (changed and changed.replicas, znode_children(lab, admin_paths.REQUESTS)) == ((6, 5), ())
    legacy = by_requests()
    hold_fetches_of(legacy, 4, 5, 6)
    reassign(legacy)
    assert (move_in_flight(legacy) is not None, znode_children(legacy, admin_paths.REQUESTS)) == (True, ())
    without_b6 = by_requests()
    without_b6.crash(6)
    without_b6.expire(6)
    request_move(without_b6, 6, 4, 5)
    entry = move_in_flight(without_b6)
    assert entry is not None
    assert entry.replicas == (6, 4, 5)  # also one that is down


def test_reassignment_znode_is_deleted_last() -> None:
    """R-248, R-249: when the ISR has all new replicas, and the old ones are stopped, deleted and no longer assigned."""
    lab = by_requests()
    request_move(lab, *RAR)
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


def test_reassignment_ends_when_all_new_replicas_are_in_sync() -> None:
    """R-248: until then the entry stays, and so do the old replicas."""
    lab = by_requests()
    hold_fetches_of(lab, 6)
    request_move(lab, *RAR)
    lab.wait(5000)
    early = move_in_flight(lab) is not None, lab.isr(), assigned_replicas(lab), brokers_with_log(lab)
    hold_fetches_of(lab)

    assert early == (True, [1, 2, 3, 4, 5], (*OAR, *RAR), [1, 2, 3, 4, 5, 6])
    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_request_of_several_partitions_begins_them_all() -> None:
    """R-246: an entry for each of its partitions, and then the request is deleted."""
    lab = by_requests()
    second_tp = add_partition(lab)
    hold_fetches_of(lab, 4, 5, 6)
    targets = {GHOST: broker_ids(1), T0: broker_ids(*RAR), second_tp: broker_ids(4, 5)}  # the first does not exist
    payload = reassignment_requests.request_payload(Request(targets))
    write(lab, Create(admin_paths.REQUESTS, b""), Create(admin_paths.REQUEST, payload, sequential=True))

    assert znode_children(lab, f"{admin_paths.REASSIGNMENTS}/t") == ("0", "1")
    assert (assigned_replicas(lab), assigned_replicas(lab, second_tp)) == ((*OAR, *RAR), (2, 3, 4, 5))
    assert znode_children(lab, admin_paths.REQUESTS) == ()


def test_controller_sees_a_request_beside_others() -> None:
    """R-246: it watches the children of /admin/reassignment_requests, which stays; no timer is involved."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    request_move(lab, *RAR)
    before = lab.now
    request_move(lab, 2, 3, 4)
    entry = move_in_flight(lab)

    assert entry is not None
    assert (entry.replicas, lab.now) == (broker_ids(2, 3, 4), before)
    request_move(lab, 4, 3, 2)  # another order is another preferred replica
    reordered = move_in_flight(lab)
    assert reordered is not None
    assert reordered.replicas == broker_ids(4, 3, 2)


def test_reassignment_remembers_how_many_replicas_there_were() -> None:
    """R-253: `top` is the number of the original replicas, not of the new ones."""
    lab = by_requests((1, 2))
    hold_fetches_of(lab, 3, 4, 5)
    request_move(lab, 3, 4, 5)
    first = move_in_flight(lab)
    request_move(lab, 5, 4)
    then = move_in_flight(lab)

    request_move(lab, 4)
    last = move_in_flight(lab)

    assert first is not None
    assert then is not None
    assert last is not None
    assert (first.top, then.top, then.drop, last.top) == (2, 2, broker_ids(3), 2)


def test_reassignment_znode_exists_only_while_in_flight() -> None:
    """R-249: of two requested partitions, the one that has moved has no entry left."""
    lab = by_requests()
    second_tp = add_partition(lab)
    lab.wait(2000)
    lab.is_held = lambda envelope: isinstance(envelope.message, Fetch) and envelope.message.tp == T0 and envelope.sender == "b6"
    request_move(lab, *RAR)
    request_move(lab, 4, 5, tp=second_tp)
    assert znode_children(lab, f"{admin_paths.REASSIGNMENTS}/t") == ("0", "1")

    assert wait_until(
        lab,
        lambda: assigned_replicas(lab, second_tp) == (4, 5) and znode_children(lab, f"{admin_paths.REASSIGNMENTS}/t") == ("0",),
    )


# --- requests that are ignored ------------------------------------------------------------------------------------------------


def test_invalid_reassignment_requests_are_deleted() -> None:
    """KAFKA-2234, R-253: an unknown partition, too few replicas, or an unreadable payload must not block others."""
    lab = by_requests()
    write(lab, Create(admin_paths.REQUESTS, b""), Create(admin_paths.REQUEST, b"{", sequential=True))
    request_move(lab, 4, 5, tp=TopicPartition("ghost-0"))
    request_move(lab, 4)
    lab.wait(3000)

    assert is_moved_to(lab, OAR)
    assert refusals(lab) == ["no such partition", "fewer replicas than min.insync.replicas"]


def test_request_is_refused_with_too_few_original_replicas() -> None:
    """R-253: "We check top >= min.insync.replicas, logging a warning and ignore the reassignment if the check fails"."""
    lab = cluster(B, replicas=(1, 2), min_isr=2)
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: broker_ids(1)})))
    request_move(lab, 4, 5)

    assert refusals(lab) == ["fewer original replicas than min.insync.replicas"]
    assert znode_children(lab, admin_paths.REQUESTS) == ()


def test_unreadable_reassignment_znode_is_deleted() -> None:
    """R-249: it stands for no move in flight."""
    lab = by_requests()
    write(lab, Create(admin_paths.REASSIGNMENTS, b""), Create(f"{admin_paths.REASSIGNMENTS}/t", b""), Create(ENTRY, b"{"))
    request_move(lab, 3, 2, 1)

    assert wait_until(lab, lambda: is_moved_to(lab, (3, 2, 1)))


# --- another request while one is in flight -----------------------------------------------------------------------------------


def test_another_request_restarts_the_reassignment() -> None:
    """R-247, R-249: the czxid names the entry, the version, like mzxid, shows its change; a repeated request changes nothing."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    request_move(lab, *RAR)
    entry_begun = znode(lab)
    request_move(lab, *RAR)
    assert znode(lab) == entry_begun
    request_move(lab, 2, 3, 4)
    changed = znode(lab)
    assert (changed.czxid, changed.version) == (entry_begun.czxid, entry_begun.version + 1)
    hold_fetches_of(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, (2, 3, 4)))
    hold_fetches_of(lab, 5)
    request_move(lab, 5, 2, 3)

    assert znode(lab).czxid > entry_begun.czxid
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    request_move(lab, 4, 5)
    request_move(lab, 4, 5, 6)  # nothing is dropped
    hold_fetches_of(lab)

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_request_for_the_old_replicas_cancels_a_reassignment() -> None:
    """R-247, R-244: at once, without a timer."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    request_move(lab, *RAR)
    before = lab.now
    request_move(lab, *OAR)

    assert is_moved_to(lab, OAR)
    assert lab.now == before


def test_reassignment_is_cancellable_if_only_new_replicas_serve() -> None:
    """R-247: the old replicas are wanted again and so are not dropped; they rejoin the ISR before the new ones are dropped."""
    lab = by_requests()
    lab.before["AR 4,5,6"] = lambda: request_move(lab, *OAR)
    request_move(lab, *RAR)
    lab.wait(1500)

    assert lab.before == {}
    assert wait_until(lab, lambda: is_moved_to(lab, OAR))


def test_changed_reassignment_follows_the_example_of_kip_236() -> None:
    """R-254, R-255, R-256, C-18: [1,2] to [2,3], changed to [2,4]: 3 is dropped through all states before 4 is started."""
    lab = by_requests((1, 2))
    hold_fetches_of(lab, 3, 4)
    request_move(lab, 2, 3)
    assert (assigned_replicas(lab), brokers_with_log(lab), lab.isr()) == ((1, 2, 3), [1, 2, 3], [1, 2])
    lab.clear_record()
    request_move(lab, 2, 4)

    assert move_in_flight(lab) == Reassignment(
        broker_ids(2, 4), broker_ids(1, 2), top=2, held=broker_ids(1, 2, 3), drop=broker_ids(3)
    )
    assert [word for word in lab.steps if not word.startswith(("metadata", "command"))][2:] == [
        "state: 1 leads 1,2",
        "stop b3",
        "delete b3",
        "AR 1,2",
        "AR 1,2,4",
    ]
    assert (assigned_replicas(lab), brokers_with_log(lab), lab.isr()) == ((1, 2, 4), [1, 2, 4], [1, 2])
    hold_fetches_of(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, (2, 4)))


def test_in_sync_intermediate_replica_leaves_the_isr_first() -> None:
    """R-254, R-255: leader 1, ISR 1, 2, 3: 3 comes last in the order of serving, and goes through Offline."""
    lab = by_requests((1, 2))
    hold_fetches_of(lab, 4, 5)
    request_move(lab, 3, 5)
    assert wait_until(lab, lambda: lab.isr() == [1, 2, 3])
    lab.clear_record()
    request_move(lab, 2, 4)

    left = [word for word in lab.steps if word in ("state: 1 leads 1,2", "stop b3", "delete b3")]
    assert left == ["state: 1 leads 1,2", "stop b3", "delete b3"]
    assert (assigned_replicas(lab), brokers_with_log(lab), lab.isr()) == ((1, 2, 4), [1, 2, 4], [1, 2])
    hold_fetches_of(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, (2, 4)))


def test_intermediate_replica_in_the_isr_is_kept() -> None:
    """R-254, KIP-966: 2 is dead and 3 has taken its place in the ISR, so 3 is kept and 2 is dropped."""
    lab = by_requests((1, 2))
    hold_fetches_of(lab, 5)
    request_move(lab, 3, 5)
    assert wait_until(lab, lambda: lab.isr() == [1, 2, 3])
    lab.remove_dead_broker(2)
    request_move(lab, 4, 5)

    entry = move_in_flight(lab)
    assert entry is not None
    assert entry.drop == broker_ids(2)
    assert wait_until(lab, lambda: assigned_replicas(lab) == (1, 3, 5, 4))
    lab.start(2)
    lab.settle()
    hold_fetches_of(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, (4, 5)))
    lab = cluster(replace(B, isr_change_via="zookeeper"), replicas=(1, 2))
    hold_fetches_of(lab, 5)
    request_move(lab, 3, 5)
    assert wait_until(lab, lambda: lab.isr() == [1, 2, 3])
    hold_fetches_of(lab, 2, 4, 5)
    lab.produce(1, "m2")
    assert wait_until(lab, lambda: lab.isr() == [1, 3])  # written by the leader; the controller has not read it
    request_move(lab, 4, 5)
    entry = move_in_flight(lab)

    assert entry is not None
    assert entry.drop == broker_ids(2)


# --- the legacy znode ---------------------------------------------------------------------------------------------------------


def test_legacy_reassignment_becomes_a_request() -> None:
    """R-250: /admin/reassign_partitions stays while the partition moves, and goes with the entry (R-248)."""
    lab = by_requests()
    hold_fetches_of(lab, 6)
    lab.clear_record()
    reassign(lab)

    entry = move_in_flight(lab)
    assert entry is not None
    assert entry.legacy
    assert pending_moves(lab) == reassignment_of(RAR)
    assert admin_paths.REQUEST in lab.steps
    assert f"gone: {admin_paths.REQUEST}0000000000" in lab.steps
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignment_of((4, 6)))))
    changed = move_in_flight(lab)
    assert changed is not None
    assert changed.replicas == broker_ids(4, 6)
    hold_fetches_of(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, (4, 6)))


def test_legacy_znode_drops_a_partition_that_has_moved() -> None:
    """R-248: "removes partition from /admin/reassign_partitions, or if this is the last partition" the znode."""
    lab = by_requests()
    second_tp = add_partition(lab)
    lab.wait(2000)
    lab.is_held = lambda envelope: isinstance(envelope.message, Fetch) and envelope.message.tp == T0 and envelope.sender == "b6"
    reassignments = reassignment_of(RAR) | reassignment_of((4, 5), (2, 3), second_tp)  # as the tool writes one
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignments)))

    assert wait_until(lab, lambda: assigned_replicas(lab, second_tp) == (4, 5) and pending_moves(lab) == reassignment_of(RAR))


def test_rewritten_legacy_znode_changes_its_reassignment() -> None:
    """R-247, R-251: a legacy move may be changed by the legacy znode."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    reassign(lab)
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignment_of((2, 3, 4)))))
    hold_fetches_of(lab)

    assert wait_until(lab, lambda: is_moved_to(lab, (2, 3, 4)))


@pytest.mark.parametrize("legacy_first", [True, False])
def test_reassignment_ignores_a_change_by_the_other_interface(legacy_first: bool) -> None:
    """R-251: "one is a legacy request and the other is not": the request and its legacy entry are deleted."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    if legacy_first:
        reassign(lab)
        request_move(lab, 2, 3, 4)
    else:
        request_move(lab, *RAR)
        reassign(lab, (2, 3, 4))
    assert refusals(lab) == ["asked for by the other way"]
    assert (pending_moves(lab) is None, znode_children(lab, admin_paths.REQUESTS)) == (not legacy_first, ())
    hold_fetches_of(lab)

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


@pytest.mark.parametrize(
    "payload", [b"{", b'{"version":1,"partitions":[]}', admin_paths.reassignments_payload(reassignment_of((4,)))]
)
def test_invalid_legacy_znode_is_deleted(payload: bytes) -> None:
    """KAFKA-9478: the znode does not stay behind."""
    lab = by_requests()
    write(lab, Create(admin_paths.REASSIGN, payload))
    lab.wait(3000)

    assert is_moved_to(lab, OAR)


# --- failover -----------------------------------------------------------------------------------------------------------------


def test_new_controller_reads_entries_before_requests() -> None:
    """R-252: then requests in their order, then the legacy znode; the legacy flag decides which may change an entry."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    request_move(lab, *RAR)
    lab.crash(1)
    request_move(lab, 2, 3, 4)
    request_move(lab, 3, 4, 5)
    reassign(lab, (6, 5, 4))
    lab.expire(1)
    lab.settle()
    lab.start(1)
    lab.wait(2000)

    entry = move_in_flight(lab)
    assert entry is not None
    assert (entry.replicas, entry.original) == ((3, 4, 5), OAR)
    assert refusals(lab) == ["asked for by the other way"]
    hold_fetches_of(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, (3, 4, 5)))


def test_new_controller_goes_on_with_an_entry_in_flight() -> None:
    """R-252: no request and no watch tells it of the entry."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    request_move(lab, *RAR)
    write(lab, Delete(admin_paths.REQUESTS))
    lab.remove_dead_broker(1)
    hold_fetches_of(lab)
    lab.wait(3000)

    assert wait_until(lab, lambda: move_in_flight(lab) is None and assigned_replicas(lab) == RAR, limit_ms=5000)


def test_new_controller_reads_requests_before_the_legacy_znode() -> None:
    """R-252: nothing is in flight yet, so the request begins the move and the legacy znode may not change it."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    lab.crash(1)
    reassign(lab, (6, 5, 4))
    request_move(lab, 3, 4, 5)
    lab.expire(1)
    lab.settle()
    entry = move_in_flight(lab)

    assert entry is not None
    assert (entry.replicas, entry.legacy, refusals(lab)) == (broker_ids(3, 4, 5), False, ["asked for by the other way"])
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    lab.crash(1)
    request_move(lab, 3, 4, 5)
    request_move(lab, 6, 5, 4, legacy=True)  # the controller before made it of the legacy znode
    lab.expire(1)
    lab.settle()
    first = move_in_flight(lab)

    assert first is not None
    assert (first.replicas, first.legacy) == (broker_ids(3, 4, 5), False)


@pytest.mark.parametrize("legacy", [True, False])
def test_new_controller_starts_reassignments_requested_before(legacy: bool) -> None:
    """R-252: cases 1 and 2 of the failover."""
    lab = by_requests()
    lab.crash(1)
    if legacy:
        reassign(lab, (2, 3, 4))
    else:
        request_move(lab, 2, 3, 4)
    lab.expire(1)
    lab.settle()

    assert wait_until(
        lab, lambda: assigned_replicas(lab) == (2, 3, 4) and move_in_flight(lab) is None and pending_moves(lab) is None
    )


def test_deleting_the_znode_by_hand_stops_the_reassignment() -> None:
    """As with proposal A: AR stays OAR + RAR and is served."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    request_move(lab, *RAR)
    write(lab, Delete(ENTRY))
    hold_fetches_of(lab)
    lab.wait(5000)

    assert (assigned_replicas(lab), znode_data(lab, ENTRY)) == ((*OAR, *RAR), None)
    assert (sorted(lab.isr()), znode_children(lab, admin_paths.REASSIGNMENTS)) == ([1, 2, 3, 4, 5, 6], ())


def test_topic_deleted_during_reassignment_leaves_no_znode() -> None:
    """R-249: the entry goes with the topic."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    reassign(lab)
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))
    hold_fetches_of(lab)

    assert wait_until(lab, lambda: pending_moves(lab) is None and znode_children(lab, admin_paths.REASSIGNMENTS) == ())
    assert (brokers_with_log(lab), znode_data(lab, paths.topic_path("t"))) == ([], None)
