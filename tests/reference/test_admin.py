"""What an administrator asks for under /admin is done, whole, whoever dies meanwhile: V3 §H and the article's paths."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reference.config import SAFE, VARIANTS, Variant
from reference.controller import leader_selection
from reference.controller.leader_selection import Elect, Keep
from reference.coordination import admin_paths, paths
from reference.coordination.api import AnyOp, Create, Data, Exists, GetChildren, GetData
from reference.messages import IsrMember, LeaderAndIsr, PartitionState, StopReplica
from reference.replica.partition import Follower, Leader
from reference.types import BrokerId, ControllerEpoch, Incarnation, LeaderEpoch, TopicPartition, ZkVersion
from tests.reference.interrupted import Interrupted
from tests.reference.lab import T0, Lab, Letter

T1 = TopicPartition("t-1")
ROOTS = (paths.PARTITIONS_ADD, paths.PARTITIONS_REMOVE)
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))


def full(variant: Variant = SAFE) -> Interrupted:
    lab = Interrupted(3, variant=variant)
    write(lab, Create("/admin", b""), *(Create(root, b"") for root in ROOTS))
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == ([1, 2, 3], [1])
    return lab


def write(lab: Lab, *ops: AnyOp) -> None:
    _, fired = lab.zk.submit(lab.admin, ops)
    lab.watches(fired)
    lab.settle()


def exists(lab: Lab, path: str) -> bool:
    (answer,), _ = lab.zk.submit(lab.admin, (Exists(path),))
    return isinstance(answer, Data)


def listed(lab: Lab) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """What the topic path says."""
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(paths.topic_path("t")),))
    return dict(paths.decode_topic("t", answer.data)) if isinstance(answer, Data) else {}


def holders(lab: Lab, tp: TopicPartition) -> list[int]:
    """Whose disk has the partition."""
    return [i for i in lab.ids if tp in lab.disks[i].logs]


def leader_of(lab: Lab, tp: TopicPartition) -> list[int]:
    found = {i: lab.nodes[i].state.broker.partitions.get(tp) for i in lab.ids if i in lab.nodes}
    return [i for i, partition in found.items() if partition is not None and isinstance(partition.role, Leader)]


def requests(lab: Lab) -> list[str]:
    """What is still asked for."""
    found = [p for p in (paths.PREFERRED_ELECTION, paths.DELETE_TOPICS) if exists(lab, p)]
    for root in ROOTS:
        (answer,), _ = lab.zk.submit(lab.admin, (GetChildren(root),))
        found += [f"{root}/{name}" for name in getattr(answer, "names", ())]
    return found


def add(lab: Lab, *replicas: int) -> None:
    payload = paths.replicas_payload(tuple(BrokerId(i) for i in replicas))
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""), Create(paths.partition_add_path(T1), payload))


def remove(lab: Lab) -> None:
    write(lab, Create(f"{paths.PARTITIONS_REMOVE}/t", b""), Create(paths.partition_remove_path(T1), b""))


def delete_topic(lab: Lab) -> None:
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))


def prefer(lab: Lab) -> None:
    write(lab, Create(paths.PREFERRED_ELECTION, paths.preferred_payload((T0,))))


def bury(lab: Lab, i: int) -> None:
    lab.crash(i)
    lab.muted.discard(i)
    lab.expire(i)
    lab.settle()
    lab.wait(3000)


def back(lab: Lab, i: int) -> None:
    lab.start(i)
    lab.settle()
    lab.wait(3000)


# --- V3 §H on_partitions_add ---------------------------------------------------------------------------------------------------


def test_the_partitions_to_be_added_are_those_below_the_path() -> None:
    """V3 §H on_partitions_add step 1, R-007: also one whose topic node was there before it."""
    lab = full()
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""))
    assert listed(lab) == {T0: BROKERS}
    write(lab, Create(paths.partition_add_path(T1), paths.replicas_payload((BrokerId(3), BrokerId(2)))))

    assert listed(lab) == {T0: BROKERS, T1: (3, 2)}


def test_an_added_partition_gets_a_leader() -> None:
    """R-063, V3 §H on_partitions_add step 2: call init_leaders(set_p)."""
    lab = full()
    add(lab, 3, 2)

    assert leader_of(lab, T1) == [3]
    assert isinstance(lab.nodes[2].state.broker.partitions[T1].role, Follower)


def test_what_was_asked_for_is_cleared_when_it_is_done() -> None:
    """V3 §H on_partitions_add step 3, V3 §H on_partitions_remove step 3."""
    lab = full()
    add(lab, 3, 2)
    assert requests(lab) == []
    remove(lab)

    assert requests(lab) == []


def test_an_added_partition_stands_in_the_topic_path() -> None:
    """V3 §H on_partitions_add step 4: the others stay as they are."""
    lab = full()
    add(lab, 2, 1)

    assert listed(lab) == {T0: BROKERS, T1: (2, 1)}


def test_a_partition_of_an_unknown_topic_or_without_replicas_is_dropped() -> None:
    lab = full()
    entry = TopicPartition("ghost-0")
    replicas = paths.replicas_payload((BrokerId(1),))
    write(lab, Create(f"{paths.PARTITIONS_ADD}/ghost", b""), Create(paths.partition_add_path(entry), replicas))
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""), Create(paths.partition_add_path(T1), b"no list"))

    assert (requests(lab), listed(lab)) == ([], {T0: BROKERS})


# --- V3 §H on_partitions_remove ------------------------------------------------------------------------------------------------


def test_the_partitions_to_be_removed_are_those_below_the_path() -> None:
    """V3 §H on_partitions_remove step 1, R-008: the other partitions of the topic are left alone."""
    lab = full()
    add(lab, 3, 2)
    remove(lab)

    assert (holders(lab, T0), lab.leaders(), lab.isr()) == ([1, 2, 3], [1], [1, 2, 3])


def test_replicas_of_a_removed_partition_are_deleted() -> None:
    """V3 §H on_partitions_remove step 2: send a StopReplicaCommand to the affected brokers."""
    lab = full()
    add(lab, 3, 2)
    assert holders(lab, T1) == [2, 3]
    remove(lab)

    assert holders(lab, T1) == []


def test_a_removed_partition_leaves_the_topic_path_and_its_state() -> None:
    """V3 §H on_partitions_remove step 4: added again it begins at epoch 0."""
    lab = full()
    add(lab, 3, 2)
    remove(lab)
    assert (listed(lab), exists(lab, paths.state_parents(T1)[1])) == ({T0: BROKERS}, False)
    add(lab, 1, 2)

    assert leader_of(lab, T1) == [1]
    assert lab.nodes[1].state.controller.states[T1].leader_epoch == 0


def test_a_late_copy_of_a_command_does_not_bring_a_removed_partition_back() -> None:
    """R-064: its epochs begin again where it is added again, so it is the order of the commands that counts, not the epochs."""
    lab = full()
    copies: list[Letter] = []

    def kept(letter: Letter) -> bool:
        if isinstance(letter[2], LeaderAndIsr) and any(state.tp == T1 for state in letter[2].states):
            copies.append(letter)
        return False

    lab.held = kept
    add(lab, 3, 2)
    lab.held = lambda letter: False
    remove(lab)
    for source, to, message in copies:
        lab.letters.append((source, to, replace(message, correlation=message.correlation + 1000)))  # as a link doubles it
    lab.settle()
    assert (len(copies), holders(lab, T1)) == (2, [])

    add(lab, 3, 2)
    assert (leader_of(lab, T1), holders(lab, T1)) == ([3], [2, 3])


# --- the controller dies --------------------------------------------------------------------------------------------------------


def test_a_new_controller_adds_what_was_asked_for_while_there_was_none() -> None:
    """V3 §D step 8: call on_partitions_add()."""
    lab = full()
    lab.crash(1)
    add(lab, 3, 2)
    lab.expire(1)
    lab.settle()

    assert (leader_of(lab, T1), requests(lab)) == ([3], [])


def test_a_new_controller_removes_what_was_asked_for_while_there_was_none() -> None:
    """V3 §D step 9: call on_partitions_remove()."""
    lab = full()
    add(lab, 3, 2)
    lab.crash(1)
    remove(lab)
    lab.expire(1)
    lab.settle()

    assert (holders(lab, T1), listed(lab), requests(lab)) == ([], {T0: BROKERS}, [])


def added(lab: Lab) -> None:
    assert (leader_of(lab, T1), listed(lab)) == ([3], {T0: BROKERS, T1: (3, 2)})


def removed(lab: Lab) -> None:
    assert (holders(lab, T1), listed(lab), exists(lab, paths.state_path(T1))) == ([], {T0: BROKERS}, False)


def deleted(lab: Lab) -> None:
    assert (holders(lab, T0), exists(lab, paths.topic_path("t"))) == ([], False)


def preferred(lab: Lab) -> None:
    assert lab.leaders() == [2]


def nothing(lab: Lab) -> None:
    """No preparation."""


def has_t1(lab: Lab) -> None:
    add(lab, 3, 2)


CASES: dict[str, tuple[Callable[[Lab], None], Callable[[Lab], None], Callable[[Lab], None]]] = {
    "add": (nothing, lambda lab: add(lab, 3, 2), added),
    "remove": (has_t1, remove, removed),
    "delete": (nothing, delete_topic, deleted),
}
STEPS = {"add": 10, "remove": 7, "delete": 9}  # requests to ZooKeeper, the last of them looking at what is left


@pytest.mark.parametrize(("name", "before"), [(name, k) for name, steps in STEPS.items() for k in range(steps)])
def test_whatever_step_the_controller_dies_before_the_next_one_finishes(name: str, before: int) -> None:
    """B-62: what was asked for is there until the work is done. A broker that was down deletes what it holds at its start."""
    prepare, ask, done = CASES[name]
    lab = full()
    prepare(lab)
    lab.left = before
    ask(lab)
    assert 1 in lab.muted, "it died in the middle of its work"
    lab.left = None
    bury(lab, 1)
    back(lab, 1)

    done(lab)
    assert requests(lab) == []


@pytest.mark.parametrize("name", list(STEPS))
def test_the_crash_points_are_all_there_are(name: str) -> None:
    prepare, ask, _ = CASES[name]
    lab = full()
    prepare(lab)
    lab.left = STEPS[name]
    ask(lab)

    assert 1 not in lab.muted


@pytest.mark.parametrize(("name", "which"), [(name, k) for name, steps in STEPS.items() for k in range(steps)])
def test_whatever_answer_is_lost_the_work_is_finished(name: str, which: int) -> None:
    """The request was performed, and nobody knows: the controller begins again by reading."""
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
def test_v3_forgets_an_addition_between_its_last_two_steps(variant: str, forgets: bool) -> None:
    """C-13: V3 §H on_partitions_add step 3 comes before step 4 there, and the controller dies between the two."""
    found = []
    for before in range(STEPS["add"]):
        lab = full(VARIANTS[variant])
        lab.left = before
        add(lab, 3, 2)
        lab.left = None
        if 1 in lab.muted:
            bury(lab, 1)
        found.append(listed(lab))

    assert ({T0: BROKERS} in found) == forgets


# --- preferred replica election (R-147) -----------------------------------------------------------------------------------------


def led_by_another() -> Interrupted:
    """b1, the preferred replica, is back in the ISR; b2 leads and is the controller."""
    lab = full()
    bury(lab, 1)
    back(lab, 1)
    assert (lab.leaders(), lab.isr()) == ([2], [1, 2, 3])
    return lab


def test_the_preferred_replica_leads_again() -> None:
    """R-147: and the request is deleted when it is done."""
    lab = led_by_another()
    prefer(lab)

    assert (lab.leaders(), lab.isr(), requests(lab)) == ([1], [1, 2, 3], [])


def test_a_preferred_replica_that_is_down_is_left_alone() -> None:
    lab = full()
    bury(lab, 1)
    before = lab.state()
    prefer(lab)

    assert (lab.state(), requests(lab)) == (before, [])


def test_who_is_in_the_isr_as_another_registration_is_not_preferred() -> None:
    members = (IsrMember(BrokerId(1), Incarnation(11)), IsrMember(BrokerId(2), Incarnation(12)))
    found = PartitionState(
        tp=T0,
        leader=BrokerId(2),
        leader_incarnation=Incarnation(12),
        leader_epoch=LeaderEpoch(3),
        isr=members,
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(5),
        replicas=BROKERS,
    )
    live = {BrokerId(1): Incarnation(11), BrokerId(2): Incarnation(12)}

    assert leader_selection.prefer(SAFE, found, live) == Elect(members[0], members)
    assert leader_selection.prefer(SAFE, found, live | {BrokerId(1): Incarnation(99)}) == Keep()


@pytest.mark.parametrize("before", range(4))
def test_a_preferred_election_survives_its_controller(before: int) -> None:
    """The controller dies before each step; the one that follows finds the request and finishes it."""
    lab = full()
    bury(lab, 2)
    back(lab, 2)
    swap: dict[TopicPartition, tuple[BrokerId, ...]] = {T0: (BrokerId(2), BrokerId(1), BrokerId(3))}
    lab.nodes[1].state.controller.assignments[T0] = swap[T0]
    lab.zk.nodes[paths.topic_path("t")].data = paths.partitions_payload(swap)
    lab.left = before
    prefer(lab)
    assert 1 in lab.muted
    lab.left = None
    bury(lab, 1)

    preferred(lab)
    assert requests(lab) == []


# --- topic deletion (R-149) ---------------------------------------------------------------------------------------------------


def test_a_topic_is_deleted_with_all_it_had() -> None:
    """R-149, B-62: the logs go first, then the znodes and with them what was asked for."""
    lab = full()
    add(lab, 3, 2)
    delete_topic(lab)

    assert (holders(lab, T0), holders(lab, T1), requests(lab)) == ([], [], [])
    assert not exists(lab, paths.topic_path("t"))


def test_no_znode_goes_before_every_live_replica_has_answered() -> None:
    lab = full()
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    delete_topic(lab)
    assert (holders(lab, T0), exists(lab, paths.state_path(T0)), requests(lab)) == ([3], True, [paths.DELETE_TOPICS])
    lab.held = lambda _: False
    lab.settle()

    assert (holders(lab, T0), exists(lab, paths.topic_path("t")), requests(lab)) == ([], False, [])


def test_a_broker_that_dies_before_it_answers_holds_nothing_up() -> None:
    lab = full()
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    delete_topic(lab)
    bury(lab, 3)

    assert (holders(lab, T0), exists(lab, paths.topic_path("t")), requests(lab)) == ([3], False, [])


def test_a_replica_on_a_dead_broker_is_deleted_when_it_starts() -> None:
    """V3 §E step 4; the deletion does not wait for it."""
    lab = full()
    bury(lab, 3)
    delete_topic(lab)
    assert (holders(lab, T0), requests(lab)) == ([3], [])
    back(lab, 3)

    assert holders(lab, T0) == []


def test_a_topic_made_again_under_the_same_name_is_a_new_one() -> None:
    lab = full()
    lab.produce(1, "old")
    lab.settle()
    delete_topic(lab)
    write(lab, Create(paths.topic_path("t"), paths.topic_payload((BROKERS,))))

    assert (lab.leaders(), lab.values(1), lab.state().leader_epoch) == ([1], [], 0)


def test_a_request_that_nobody_can_read_is_dropped() -> None:
    lab = full()
    write(lab, Create(paths.DELETE_TOPICS, b"{"))
    write(lab, Create(paths.PREFERRED_ELECTION, b"{"))

    assert (requests(lab), lab.leaders()) == ([], [1])


# --- what it costs --------------------------------------------------------------------------------------------------------------


def test_the_controller_alone_watches_and_without_a_request_does_no_more() -> None:
    """A new controller reads the admin paths with what it lists anyway."""
    lab = Lab(3)
    bury(lab, 1)
    controller = lab.nodes[2].state.controller
    watching = {path: ids for path, ids in lab.zk.data_watches.items() if path.startswith("/admin")}

    reassigning = (admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA, admin_paths.REASSIGN_CANCEL)
    wanted = (*ROOTS, paths.PREFERRED_ELECTION, paths.UNCLEAN_ELECTION, paths.DELETE_TOPICS, *reassigning)
    assert watching == {path: [lab.sessions[2]] for path in wanted}
    assert [(p.step, p.again) for p in controller.admin.values()] == [("idle", False)] * 5
    assert controller.outstanding == []


def test_requests_of_several_kinds_are_taken_up_in_one_order() -> None:
    """Each event is handled by the node and by its clone, whose mappings are in another order: their effects must be the same."""
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
