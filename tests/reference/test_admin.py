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
    add,
    assignment_in_zookeeper,
    back,
    bury,
    delete_topic,
    exists,
    full,
    holders,
    prefer,
    remove,
    requests,
    write,
)
from tests.reference.lab import T0, Lab, Letter

# --- V3 §H on_partitions_add ---------------------------------------------------------------------------------------------------


def test_partition_to_add_is_read_from_partitions_add() -> None:
    """V3 §H on_partitions_add step 1, R-007: also if the topic's node under the path existed before."""
    lab = full()
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""))
    assert assignment_in_zookeeper(lab) == {T0: BROKERS}
    write(lab, Create(paths.partition_add_path(T1), paths.replicas_payload((BrokerId(3), BrokerId(2)))))

    assert assignment_in_zookeeper(lab) == {T0: BROKERS, T1: (3, 2)}


def test_added_partition_gets_a_leader() -> None:
    """R-063, V3 §H on_partitions_add step 2: call init_leaders(set_p)."""
    lab = full()
    add(lab, 3, 2)

    (follower,) = lab.followers(T1)
    assert isinstance(lab.nodes[follower].state.broker.partitions[T1].role, Follower)


def test_partition_requests_are_removed_when_they_are_done() -> None:
    """R-063, R-064, V3 §H on_partitions_add step 3, V3 §H on_partitions_remove step 3."""
    lab = full()
    add(lab, 3, 2)
    assert requests(lab) == []
    remove(lab)

    assert requests(lab) == []


def test_added_partition_is_written_to_the_topic_path() -> None:
    """R-063, V3 §H on_partitions_add step 4: the other partitions stay as they are."""
    lab = full()
    add(lab, 2, 1)

    assert assignment_in_zookeeper(lab) == {T0: BROKERS, T1: (2, 1)}


def test_invalid_partition_additions_are_dropped() -> None:
    lab = full()
    entry = TopicPartition("ghost-0")
    replicas = paths.replicas_payload((BrokerId(1),))
    write(lab, Create(f"{paths.PARTITIONS_ADD}/ghost", b""), Create(paths.partition_add_path(entry), replicas))
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""), Create(paths.partition_add_path(T1), b"no list"))

    assert (requests(lab), assignment_in_zookeeper(lab)) == ([], {T0: BROKERS})


# --- V3 §H on_partitions_remove ------------------------------------------------------------------------------------------------


def test_partition_removal_leaves_other_partitions_alone() -> None:
    """V3 §H on_partitions_remove step 1, R-008: only the partitions below the path are removed."""
    lab = full()
    add(lab, 3, 2)
    remove(lab)

    assert (holders(lab, T0), lab.leaders(), lab.isr()) == ([1, 2, 3], [1], [1, 2, 3])


def test_replicas_of_a_removed_partition_are_deleted() -> None:
    """R-064, V3 §H on_partitions_remove step 2: send a StopReplicaCommand to the affected brokers; step 4 comes after it."""
    lab = full()
    add(lab, 3, 2)
    assert holders(lab, T1) == [2, 3]
    told: list[tuple[str, bool]] = []

    def is_seen(letter: Letter) -> bool:
        if isinstance(letter[2], StopReplica) and any(stop.tp == T1 and stop.delete for stop in letter[2].partitions):
            told.append((letter[1], exists(lab, paths.state_path(T1))))
        return False

    lab.held = is_seen
    remove(lab)

    assert set(told) == {("b2", True), ("b3", True)}
    assert holders(lab, T1) == []


def test_removed_partition_loses_its_topic_path_entry_and_state() -> None:
    """R-064, V3 §H on_partitions_remove step 4: a partition that is added again begins at epoch 0."""
    lab = full()
    add(lab, 3, 2)
    remove(lab)
    assert (assignment_in_zookeeper(lab), exists(lab, paths.state_parents(T1)[1])) == ({T0: BROKERS}, False)
    add(lab, 1, 2)

    assert lab.leader(T1) in (1, 2)
    assert lab.nodes[1].state.controller.states[T1].leader_epoch == 0


def test_late_leader_and_isr_does_not_restore_removed_partition() -> None:
    """R-064: the epochs of a partition that is added again begin anew.

    So the broker compares the order of the commands, not the epochs.
    """
    lab = full()
    copies: list[Letter] = []

    def is_kept(letter: Letter) -> bool:
        if isinstance(letter[2], LeaderAndIsr) and any(state.tp == T1 for state in letter[2].states):
            copies.append(letter)
        return False

    lab.held = is_kept
    add(lab, 3, 2)
    lab.held = lambda letter: False
    remove(lab)
    for source, to, message in copies:
        lab.letters.append((source, to, replace(message, correlation=message.correlation + 1000)))  # a duplicate in the network
    lab.settle()
    assert (len(copies), holders(lab, T1)) == (2, [])

    add(lab, 3, 2)
    assert lab.leader(T1) in holders(lab, T1) == [2, 3]


# --- failover of the controller -------------------------------------------------------------------------------------------------


def test_new_controller_adds_partitions_requested_meanwhile() -> None:
    """V3 §D step 8: call on_partitions_add()."""
    lab = full()
    lab.crash(1)
    add(lab, 3, 2)
    lab.expire(1)
    lab.settle()

    assert (len(lab.leaders(T1)), requests(lab)) == (1, [])


def test_new_controller_removes_partitions_requested_meanwhile() -> None:
    """V3 §D step 9: call on_partitions_remove()."""
    lab = full()
    add(lab, 3, 2)
    lab.crash(1)
    remove(lab)
    lab.expire(1)
    lab.settle()

    assert (holders(lab, T1), assignment_in_zookeeper(lab), requests(lab)) == ([], {T0: BROKERS}, [])


@pytest.mark.parametrize(("variant", "again"), [("safe", []), ("removals-last", [2])])
def test_new_controller_commands_no_partition_under_removal(variant: str, again: list[int]) -> None:
    """B-62: b3 does not answer, so the znodes stay. If the next controller commanded t-1, b2 would create its replica again."""
    lab = full(VARIANTS[variant])
    add(lab, 3, 2)
    lab.held = lambda letter: isinstance(letter[2], StopReplica)
    remove(lab)
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    lab.settle()
    assert holders(lab, T1) == [3]
    lab.held = lambda letter: isinstance(letter[2], StopReplica)
    bury(lab, 1)

    assert [i for i in holders(lab, T1) if i != 3] == again


@pytest.mark.parametrize(("variant", "created"), [("safe", False), ("removals-last", True)])
def test_starting_broker_creates_no_partition_under_removal(variant: str, created: bool) -> None:
    """B-62: the leader does not answer, so the znodes stay, and no controller is left that could tell the others."""
    lab = full(VARIANTS[variant])
    add(lab, 3, 2)
    leader, (follower,) = lab.leader(T1), lab.followers(T1)
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == f"b{leader}"
    remove(lab)
    lab.crash(1)
    lab.crash(follower)
    lab.expire(follower)
    lab.start(follower)
    lab.settle()

    assert holders(lab, T1) == ([2, 3] if created else [leader])


def test_removal_ends_though_its_controller_fails() -> None:
    lab = full()
    add(lab, 3, 2)
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    remove(lab)
    bury(lab, 1)
    lab.held = lambda _: False
    lab.settle()

    assert (holders(lab, T1), assignment_in_zookeeper(lab), requests(lab)) == ([], {T0: BROKERS}, [])


def added(lab: Lab) -> None:
    assert (len(lab.leaders(T1)), assignment_in_zookeeper(lab)) == (1, {T0: BROKERS, T1: (3, 2)})


def removed(lab: Lab) -> None:
    assert (holders(lab, T1), assignment_in_zookeeper(lab), exists(lab, paths.state_path(T1))) == ([], {T0: BROKERS}, False)


def deleted(lab: Lab) -> None:
    assert (holders(lab, T0), exists(lab, paths.topic_path("t"))) == ([], False)


def preferred(lab: Lab) -> None:
    assert lab.leaders() == [2]


def nothing(lab: Lab) -> None:
    """No preparation is needed."""


def has_t1(lab: Lab) -> None:
    add(lab, 3, 2)


CASES: dict[str, tuple[Callable[[Lab], None], Callable[[Lab], None], Callable[[Lab], None]]] = {
    "add": (nothing, lambda lab: add(lab, 3, 2), added),
    "remove": (has_t1, remove, removed),
    "delete": (nothing, delete_topic, deleted),
}
STEPS = {"add": 10, "remove": 7, "delete": 7}  # requests to ZooKeeper; the last one checks that no request is left


@pytest.mark.slow
@pytest.mark.parametrize(("name", "before"), [(name, k) for name, steps in STEPS.items() for k in range(steps)])
def test_admin_request_survives_controller_crash_at_any_step(name: str, before: int) -> None:
    """B-62: the request stays until the work is done. A broker that was down deletes its replicas when it starts."""
    prepare, ask, done = CASES[name]
    lab = full()
    prepare(lab)
    lab.left = before
    ask(lab)
    assert 1 in lab.muted, "the controller must be cut off before its last step"
    lab.left = None
    bury(lab, 1)
    back(lab, 1)

    done(lab)
    assert requests(lab) == []


@pytest.mark.parametrize("name", list(STEPS))
def test_controller_crash_tests_cover_every_admin_request_step(name: str) -> None:
    prepare, ask, _ = CASES[name]
    lab = full()
    prepare(lab)
    lab.left = STEPS[name]
    ask(lab)

    assert 1 not in lab.muted


@pytest.mark.parametrize(("name", "which"), [(name, k) for name, steps in STEPS.items() for k in range(steps)])
def test_admin_request_completes_when_any_answer_is_lost(name: str, which: int) -> None:
    """ZooKeeper performed the write, but the controller does not know: it starts the procedure again with a read."""
    prepare, ask, done = CASES[name]
    lab = full()
    prepare(lab)
    lab.lost = which
    ask(lab)
    assert lab.losses == 1
    lab.wait(3000)

    done(lab)
    assert (requests(lab), lab.nodes[1].state.controller.step) == ([], "active")


@pytest.mark.parametrize(("variant", "forgets"), [("safe", False), ("v3", True)])
def test_v3_controller_crash_before_step_4_loses_an_addition(variant: str, forgets: bool) -> None:
    """R-063, C-13: V3 §H on_partitions_add step 3 comes before step 4, and the controller dies between the two."""
    brokerses = []
    for before in range(STEPS["add"]):
        lab = full(VARIANTS[variant])
        lab.left = before
        add(lab, 3, 2)
        lab.left = None
        if 1 in lab.muted:
            bury(lab, 1)
        brokerses.append(assignment_in_zookeeper(lab))

    assert ({T0: BROKERS} in brokerses) == forgets


# --- requests that are refused --------------------------------------------------------------------------------------------------


def test_malformed_admin_request_is_dropped() -> None:
    lab = full()
    write(lab, Create(paths.DELETE_TOPICS, b"{"))
    write(lab, Create(paths.PREFERRED_ELECTION, b"{"))

    assert (requests(lab), lab.leaders()) == ([], [1])


def refusals(lab: Lab) -> list[str]:
    return [str(note.detail) for _, note in lab.notes if note.kind == "request-refused"]


@pytest.mark.parametrize(
    ("path", "data", "why"),
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
def test_controller_says_which_admin_request_it_refuses(path: str, data: bytes, why: str) -> None:
    """An operator who wrote it by hand would otherwise not know why nothing happens."""
    lab = full()
    above = path.rpartition("/")[0]
    write(lab, *([Create(above, b"")] if above.startswith(ROOTS) else []), Create(path, data))

    assert refusals(lab) == [f"{path}: {why}"]
    assert (requests(lab), assignment_in_zookeeper(lab), lab.leaders()) == ([], {T0: BROKERS}, [1])


def test_znode_with_a_wrong_name_does_not_block_additions() -> None:
    """Its parent could not be deleted, so no request of this topic ever ended."""
    lab = full()
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""), Create(f"{paths.PARTITIONS_ADD}/t/x", b""))
    add(lab, 2, 3)

    assert (requests(lab), assignment_in_zookeeper(lab)[T1]) == ([], (BrokerId(2), BrokerId(3)))


# --- without a request ----------------------------------------------------------------------------------------------------------


def test_idle_controller_only_watches_the_admin_paths() -> None:
    """A new controller reads the admin paths together with its other lists."""
    lab = Lab(3)
    bury(lab, 1)
    controller = lab.nodes[2].state.controller
    watching = {path: ids for path, ids in lab.zk.data_watches.items() if path.startswith("/admin")}

    reassigning = (admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA, admin_paths.REASSIGN_CANCEL)
    wanted = (*ROOTS, paths.PREFERRED_ELECTION, paths.UNCLEAN_ELECTION, paths.DELETE_TOPICS, *reassigning)
    assert watching == {path: [lab.sessions[2]] for path in wanted}
    assert [(p.step, p.again) for p in controller.admin.values()] == [("idle", False)] * 5
    assert controller.outstanding == []


def test_admin_requests_are_handled_in_a_fixed_order() -> None:
    """A node and its clone keep their mappings in different orders, and must return the same effects."""
    lab = full()
    bury(lab, 1)
    bury(lab, 2)
    bury(lab, 3)
    prefer(lab)
    delete_topic(lab)
    for i in (1, 2, 3):
        back(lab, i)
    lab.wait(5000)

    assert requests(lab) == []
