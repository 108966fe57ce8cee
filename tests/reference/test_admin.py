"""Requests under /admin are carried out completely, whichever broker dies meanwhile: V3 §H and the article's paths."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reference.config import VARIANTS
from reference.coordination import admin_paths, paths
from reference.coordination.api import Create
from reference.messages import LeaderAndIsr, StopReplica
from reference.replica.partition import Follower
from reference.types import BrokerId, TopicPartition
from tests.reference.admin import (
    BROKERS,
    ROOTS,
    T1,
    assignment_in_zookeeper,
    brokers_with_log,
    cluster_in_sync,
    exists,
    pending_requests,
    remove_broker,
    request_partition,
    request_partition_removal,
    request_preferred_election,
    request_topic_deletion,
    restart_broker,
    write,
)
from tests.reference.lab import T0, Envelope, Lab, carries

# --- V3 §H on_partitions_add ---------------------------------------------------------------------------------------------------


def test_partition_to_add_is_read_from_partitions_add() -> None:
    """V3 §H on_partitions_add step 1, R-007: also if the topic's node under the path existed before."""
    lab = cluster_in_sync()
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""))
    assert assignment_in_zookeeper(lab) == {T0: BROKERS}
    write(lab, Create(paths.partition_add_path(T1), paths.replicas_payload((BrokerId(3), BrokerId(2)))))

    assert assignment_in_zookeeper(lab) == {T0: BROKERS, T1: (3, 2)}


def test_added_partition_gets_a_leader() -> None:
    """R-063, V3 §H on_partitions_add step 2: call init_leaders(set_p)."""
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)

    (follower,) = lab.followers(T1)
    assert isinstance(lab.nodes[follower].state.broker.partitions[T1].role, Follower)


def test_partition_requests_are_removed_when_they_are_done() -> None:
    """R-063, R-064, V3 §H on_partitions_add step 3, V3 §H on_partitions_remove step 3."""
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)
    assert pending_requests(lab) == []
    request_partition_removal(lab)

    assert pending_requests(lab) == []


def test_added_partition_is_written_to_the_topic_path() -> None:
    """R-063, V3 §H on_partitions_add step 4: the other partitions stay as they are."""
    lab = cluster_in_sync()
    request_partition(lab, 2, 1)

    assert assignment_in_zookeeper(lab) == {T0: BROKERS, T1: (2, 1)}


def test_invalid_partition_additions_are_dropped() -> None:
    lab = cluster_in_sync()
    entry = TopicPartition("ghost-0")
    replicas = paths.replicas_payload((BrokerId(1),))
    write(lab, Create(f"{paths.PARTITIONS_ADD}/ghost", b""), Create(paths.partition_add_path(entry), replicas))
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""), Create(paths.partition_add_path(T1), b"no list"))

    assert (pending_requests(lab), assignment_in_zookeeper(lab)) == ([], {T0: BROKERS})


# --- V3 §H on_partitions_remove ------------------------------------------------------------------------------------------------


def test_partition_removal_leaves_other_partitions_alone() -> None:
    """V3 §H on_partitions_remove step 1, R-008: only the partitions below the path are removed."""
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)
    request_partition_removal(lab)

    assert (brokers_with_log(lab, T0), lab.leaders(), lab.isr()) == ([1, 2, 3], [1], [1, 2, 3])


def test_replicas_of_a_removed_partition_are_deleted() -> None:
    """R-064, V3 §H on_partitions_remove step 2: send a StopReplicaCommand to the affected brokers; step 4 comes after it."""
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)
    assert brokers_with_log(lab, T1) == [2, 3]
    deletions: list[tuple[str, bool]] = []

    def is_seen(envelope: Envelope) -> bool:
        if isinstance(envelope.message, StopReplica) and any(
            stop.tp == T1 and stop.delete for stop in envelope.message.partitions
        ):
            deletions.append((envelope.receiver, exists(lab, paths.state_path(T1))))
        return False

    lab.is_held = is_seen
    request_partition_removal(lab)

    assert set(deletions) == {("b2", True), ("b3", True)}
    assert brokers_with_log(lab, T1) == []


def test_removed_partition_loses_its_topic_path_entry_and_state() -> None:
    """R-064, V3 §H on_partitions_remove step 4: a partition that is added again begins at epoch 0."""
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)
    request_partition_removal(lab)
    assert (assignment_in_zookeeper(lab), exists(lab, paths.state_parents(T1)[1])) == ({T0: BROKERS}, False)
    request_partition(lab, 1, 2)

    assert lab.leader(T1) in (1, 2)
    assert lab.nodes[1].state.controller.states[T1].leader_epoch == 0


def test_late_leader_and_isr_does_not_restore_removed_partition() -> None:
    """R-064: the epochs of a partition that is added again begin anew.

    So the broker compares the order of the commands, not the epochs.
    """
    lab = cluster_in_sync()
    copies: list[Envelope] = []

    def is_kept(envelope: Envelope) -> bool:
        if isinstance(envelope.message, LeaderAndIsr) and any(state.tp == T1 for state in envelope.message.states):
            copies.append(envelope)
        return False

    lab.is_held = is_kept
    request_partition(lab, 3, 2)
    lab.is_held = lambda _: False
    request_partition_removal(lab)
    for source, to, message in copies:
        # a duplicate in the network
        lab.in_flight.append(Envelope(source, to, replace(message, correlation=message.correlation + 1000)))
    lab.settle()
    assert (len(copies), brokers_with_log(lab, T1)) == (2, [])

    request_partition(lab, 3, 2)
    assert lab.leader(T1) in brokers_with_log(lab, T1) == [2, 3]


# --- failover of the controller -------------------------------------------------------------------------------------------------


def test_new_controller_adds_partitions_requested_meanwhile() -> None:
    """V3 §D step 8: call on_partitions_add()."""
    lab = cluster_in_sync()
    lab.crash(1)
    request_partition(lab, 3, 2)
    lab.expire(1)
    lab.settle()

    assert (len(lab.leaders(T1)), pending_requests(lab)) == (1, [])


def test_new_controller_removes_partitions_requested_meanwhile() -> None:
    """V3 §D step 9: call on_partitions_remove()."""
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)
    lab.crash(1)
    request_partition_removal(lab)
    lab.expire(1)
    lab.settle()

    assert (brokers_with_log(lab, T1), assignment_in_zookeeper(lab), pending_requests(lab)) == ([], {T0: BROKERS}, [])


@pytest.mark.parametrize(("variant", "again"), [("safe", []), ("removals-last", [2])])
def test_new_controller_commands_no_partition_under_removal(variant: str, again: list[int]) -> None:
    """B-62: b3 does not answer, so the znodes stay. If the next controller commanded t-1, b2 would create its replica again."""
    lab = cluster_in_sync(VARIANTS[variant])
    request_partition(lab, 3, 2)
    lab.is_held = carries(StopReplica)
    request_partition_removal(lab)
    lab.is_held = carries(StopReplica, receiver="b3")
    lab.settle()
    assert brokers_with_log(lab, T1) == [3]
    lab.is_held = carries(StopReplica)
    remove_broker(lab, 1)

    assert [i for i in brokers_with_log(lab, T1) if i != 3] == again


@pytest.mark.parametrize(("variant", "created"), [("safe", False), ("removals-last", True)])
def test_starting_broker_creates_no_partition_under_removal(variant: str, created: bool) -> None:
    """B-62: the leader does not answer, so the znodes stay, and no controller is left that could tell the others."""
    lab = cluster_in_sync(VARIANTS[variant])
    request_partition(lab, 3, 2)
    leader, (follower,) = lab.leader(T1), lab.followers(T1)
    lab.is_held = carries(StopReplica, receiver=f"b{leader}")
    request_partition_removal(lab)
    lab.crash(1)
    lab.crash(follower)
    lab.expire(follower)
    lab.start(follower)
    lab.settle()

    assert brokers_with_log(lab, T1) == ([2, 3] if created else [leader])


def test_removal_ends_though_its_controller_fails() -> None:
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)
    lab.is_held = carries(StopReplica, receiver="b3")
    request_partition_removal(lab)
    remove_broker(lab, 1)
    lab.is_held = lambda _: False
    lab.settle()

    assert (brokers_with_log(lab, T1), assignment_in_zookeeper(lab), pending_requests(lab)) == ([], {T0: BROKERS}, [])


def assert_added(lab: Lab) -> None:
    assert (len(lab.leaders(T1)), assignment_in_zookeeper(lab)) == (1, {T0: BROKERS, T1: (3, 2)})


def assert_removed(lab: Lab) -> None:
    assert (brokers_with_log(lab, T1), assignment_in_zookeeper(lab), exists(lab, paths.state_path(T1))) == (
        [],
        {T0: BROKERS},
        False,
    )


def assert_deleted(lab: Lab) -> None:
    assert (brokers_with_log(lab, T0), exists(lab, paths.topic_path("t"))) == ([], False)


def assert_preferred(lab: Lab) -> None:
    assert lab.leaders() == [2]


def no_preparation(lab: Lab) -> None:
    """No preparation is needed."""


def has_t1(lab: Lab) -> None:
    request_partition(lab, 3, 2)


CASES: dict[str, tuple[Callable[[Lab], None], Callable[[Lab], None], Callable[[Lab], None]]] = {
    "add": (no_preparation, lambda lab: request_partition(lab, 3, 2), assert_added),
    "remove": (has_t1, request_partition_removal, assert_removed),
    "delete": (no_preparation, request_topic_deletion, assert_deleted),
}
STEPS = {"add": 10, "remove": 7, "delete": 7}  # requests to ZooKeeper; the last one checks that no request is left


@pytest.mark.slow
@pytest.mark.parametrize(("name", "before"), [(name, k) for name, steps in STEPS.items() for k in range(steps)])
def test_admin_request_survives_controller_crash_at_any_step(name: str, before: int) -> None:
    """B-62: the request stays until the work is done. A broker that was down deletes its replicas when it starts."""
    prepare, ask, assert_done = CASES[name]
    lab = cluster_in_sync()
    prepare(lab)
    lab.requests_left = before
    ask(lab)
    assert 1 in lab.cut_off_from_zk, "the controller must be cut off before its last step"
    lab.requests_left = None
    remove_broker(lab, 1)
    restart_broker(lab, 1)

    assert_done(lab)
    assert pending_requests(lab) == []


@pytest.mark.parametrize("name", list(STEPS))
def test_controller_crash_tests_cover_every_admin_request_step(name: str) -> None:
    prepare, ask, _ = CASES[name]
    lab = cluster_in_sync()
    prepare(lab)
    lab.requests_left = STEPS[name]
    ask(lab)

    assert 1 not in lab.cut_off_from_zk


@pytest.mark.parametrize(("name", "which"), [(name, k) for name, steps in STEPS.items() for k in range(steps)])
def test_admin_request_completes_when_any_answer_is_lost(name: str, which: int) -> None:
    """ZooKeeper performed the write, but the controller does not know: it starts the procedure again with a read."""
    prepare, ask, assert_done = CASES[name]
    lab = cluster_in_sync()
    prepare(lab)
    lab.unanswered_request = which
    ask(lab)
    assert lab.lost_answers == 1
    lab.wait(3000)

    assert_done(lab)
    assert (pending_requests(lab), lab.nodes[1].state.controller.step) == ([], "active")


@pytest.mark.parametrize(("variant", "forgets"), [("safe", False), ("v3", True)])
def test_v3_controller_crash_before_step_4_loses_an_addition(variant: str, forgets: bool) -> None:
    """R-063, C-13: V3 §H on_partitions_add step 3 comes before step 4, and the controller dies between the two."""
    brokerses = []
    for before in range(STEPS["add"]):
        lab = cluster_in_sync(VARIANTS[variant])
        lab.requests_left = before
        request_partition(lab, 3, 2)
        lab.requests_left = None
        if 1 in lab.cut_off_from_zk:
            remove_broker(lab, 1)
        brokerses.append(assignment_in_zookeeper(lab))

    assert ({T0: BROKERS} in brokerses) == forgets


# --- requests that are refused --------------------------------------------------------------------------------------------------


def test_malformed_admin_request_is_dropped() -> None:
    lab = cluster_in_sync()
    write(lab, Create(paths.DELETE_TOPICS, b"{"))
    write(lab, Create(paths.PREFERRED_ELECTION, b"{"))

    assert (pending_requests(lab), lab.leaders()) == ([], [1])


def refusals(lab: Lab) -> list[str]:
    return [str(note.detail) for _, note in lab.notes if note.kind == "request-refused"]


@pytest.mark.parametrize(
    ("path", "data", "reason"),
    [
        (paths.DELETE_TOPICS, b"{", "it names no topic"),
        (paths.DELETE_TOPICS, b'{"version":1,"topics":["",".","a/b"]}', "it names no topic"),
        (paths.DELETE_TOPICS, b'{"version":1,"topics":["ghost"]}', "no such topic: ghost"),
        (paths.PREFERRED_ELECTION, b"", "it names no partition"),
        (paths.PREFERRED_ELECTION, b'{"version":1,"partitions":[{"topic":"t","partition":9}]}', "no such partition: t-9"),
        (f"{paths.PARTITIONS_ADD}/t/1", b"[-1]", "no such topic, or no valid replicas"),
        (f"{paths.PARTITIONS_ADD}/t/1", b"[2,2]", "no such topic, or no valid replicas"),
        (f"{paths.PARTITIONS_ADD}/t/x", b"[1]", "its name is no partition's"),
        (f"{paths.PARTITIONS_ADD}/t/01", b"[1]", "its name is no partition's"),
        (f"{paths.PARTITIONS_REMOVE}/t/9", b"", "no such partition"),
        (f"{paths.PARTITIONS_REMOVE}/t/-1", b"", "its name is no partition's"),
    ],
)
def test_controller_says_which_admin_request_it_refuses(path: str, data: bytes, reason: str) -> None:
    """An operator who wrote it by hand would otherwise not know why nothing happens."""
    lab = cluster_in_sync()
    above = path.rpartition("/")[0]
    write(lab, *([Create(above, b"")] if above.startswith(ROOTS) else []), Create(path, data))

    assert refusals(lab) == [f"{path}: {reason}"]
    assert (pending_requests(lab), assignment_in_zookeeper(lab), lab.leaders()) == ([], {T0: BROKERS}, [1])


def test_znode_with_a_wrong_name_does_not_block_additions() -> None:
    """Its parent could not be deleted, so no request of this topic ever ended."""
    lab = cluster_in_sync()
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""), Create(f"{paths.PARTITIONS_ADD}/t/x", b""))
    request_partition(lab, 2, 3)

    assert (pending_requests(lab), assignment_in_zookeeper(lab)[T1]) == ([], (BrokerId(2), BrokerId(3)))


# --- without a request ----------------------------------------------------------------------------------------------------------


def test_idle_controller_only_watches_the_admin_paths() -> None:
    """A new controller reads the admin paths together with its other lists."""
    lab = Lab(3)
    remove_broker(lab, 1)
    controller = lab.nodes[2].state.controller
    watching = {path: ids for path, ids in lab.zk.data_watches.items() if path.startswith("/admin")}

    reassigning = (admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA, admin_paths.REASSIGN_CANCEL)
    wanted = (*ROOTS, paths.PREFERRED_ELECTION, paths.UNCLEAN_ELECTION, paths.DELETE_TOPICS, *reassigning)
    assert watching == {path: [lab.sessions[2]] for path in wanted}
    assert [(p.step, p.again) for p in controller.admin.values()] == [("idle", False)] * 5
    assert controller.outstanding == []


def test_admin_requests_are_handled_in_a_fixed_order() -> None:
    """A node and its clone keep their mappings in different orders, and must return the same effects."""
    lab = cluster_in_sync()
    remove_broker(lab, 1)
    remove_broker(lab, 2)
    remove_broker(lab, 3)
    request_preferred_election(lab)
    request_topic_deletion(lab)
    for i in (1, 2, 3):
        restart_broker(lab, i)
    lab.wait(5000)

    assert pending_requests(lab) == []
