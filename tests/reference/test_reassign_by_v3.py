"""The reassignment agent of V3 §F: what it takes up, when it wakes up, whom it tells, and what keeps others out meanwhile."""

import pytest

from reference.config import VARIANTS
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import AnyOp, Create, GetData, SetData
from reference.events import ZkWatch
from reference.messages import LeaderAndIsr, StopReplica
from reference.replica.partition import Follower
from reference.types import TopicPartition
from tests.reference.lab import T0, Lab, carries
from tests.reference.moving import (
    OAR,
    RAR,
    Mortal,
    assigned_replicas,
    broker_ids,
    cluster,
    fetches_from,
    is_moved_to,
    pending_moves,
    reassign,
    reassignment_of,
    wait_until,
    write,
)
from tests.reference.recorded import STATE, settled_cluster
from tests.reference.v3 import crash_and_expire

U0 = TopicPartition("u-0")


def two_topics(variant: str) -> Mortal:
    """A cluster with t-0 and u-0 on b1, b2 and b3; the fetch requests of the other brokers are held back."""
    lab = cluster(VARIANTS[variant])
    write(lab, Create(paths.topic_path("u"), paths.topic_payload((broker_ids(*OAR),))))
    lab.is_held = fetches_from(4, 5, 6)
    return lab


def request_znodes(variant: str, *tps: TopicPartition) -> tuple[AnyOp, ...]:
    """The znodes by which an administrator asks for moves of these partitions to b4, b5 and b6."""
    if variant != "v3":
        expected_reassignments = {tp: Reassignment(broker_ids(*RAR)) for tp in tps}
        return (Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(expected_reassignments)),)
    leaves = [admin_paths.partition_reassigned_path(tp) for tp in tps]
    above = dict.fromkeys([admin_paths.PARTITIONS_REASSIGNED, *(leaf.rpartition("/")[0] for leaf in leaves)])
    return (*(Create(path, b"") for path in above), *(Create(leaf, paths.replicas_payload(broker_ids(*RAR))) for leaf in leaves))


def steps_by_partition(lab: Lab) -> dict[TopicPartition, str]:
    """The partitions that the controller moves, with the step of each."""
    return {tp: move.step for tp, move in lab.nodes[1].state.controller.agent.moves.items()}


# --- what the agent takes up -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_all_partitions_in_the_path_are_taken_up(variant: str) -> None:
    """R-049, R-050, V3 §F step 1: set_p is all that the path asks for, also partitions of several topics."""
    lab = two_topics(variant)
    write(lab, *request_znodes(variant, T0, U0))

    assert sorted(steps_by_partition(lab)) == [T0, U0]


def test_known_move_keeps_its_state_when_the_path_changes() -> None:
    """R-050, V3 §F: only what is not in the map yet is put there in state INIT."""
    lab = two_topics("safe")
    write(lab, *request_znodes("safe", T0))
    epoch = lab.state().leader_epoch
    assert steps_by_partition(lab) == {T0: "joining"}
    both = reassignment_of(RAR, OAR) | reassignment_of(RAR, (), U0)
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(both)))

    assert steps_by_partition(lab) == {T0: "joining", U0: "joining"}
    assert lab.state().leader_epoch == epoch


def test_agent_wakes_up_when_its_time_has_passed() -> None:
    """R-050, V3 §F: "wakes up if notified or a certain amount of time has passed": it reads the state again."""
    lab = settled_cluster(brokers=6)
    write(lab, Create("/admin", b""))
    lab.is_held = fetches_from(5, 6)
    reassign(lab, (5, 6))
    lab.clear_record()
    lab.fire(1, "reassign")

    assert GetData(STATE, watch=True) in [op for i, op in lab.log if i == 1]


# --- new replicas ----------------------------------------------------------------------------------------------------------


def test_v3_tells_the_new_replicas_to_begin() -> None:
    """R-051, V3 §F step 2.1: LeaderAndISR to the brokers in RAR and to no other; they follow the present leader."""
    lab = two_topics("v3")
    lab.is_held = carries(LeaderAndIsr)
    write(lab, *request_znodes("v3", T0))
    receivers = sorted(to for _, to, message in lab.in_flight if isinstance(message, LeaderAndIsr))
    lab.is_held = fetches_from(4, 5, 6)
    lab.settle()
    roles = [lab.partition(i).role for i in RAR]

    assert receivers == ["b4", "b5", "b6"]
    assert [role.leader for role in roles if isinstance(role, Follower)] == [1, 1, 1]


def test_v3_tells_all_of_the_new_assignment_to_begin() -> None:
    """R-051, V3 §F step 2.1, step 2.2: b3 has a replica already, and is in RAR; then the move is in progress."""
    lab = two_topics("v3")
    lab.is_held = carries(LeaderAndIsr)
    write(lab, Create(admin_paths.PARTITIONS_REASSIGNED, b""), Create(f"{admin_paths.PARTITIONS_REASSIGNED}/t", b""))
    write(lab, Create(admin_paths.partition_reassigned_path(T0), b"[3,4,5]"))

    assert sorted(to for _, to, message in lab.in_flight if isinstance(message, LeaderAndIsr)) == ["b3", "b4", "b5"]
    assert steps_by_partition(lab) == {T0: "joining"}


def test_next_controller_takes_up_all_partitions() -> None:
    """R-049: those that the former controller had begun to move, of all topics."""
    lab = two_topics("safe")
    write(lab, *request_znodes("safe", T0, U0))
    crash_and_expire(lab, 1)
    lab.wait(500)

    assert sorted(lab.nodes[2].state.controller.agent.moves) == [T0, U0]


# --- the end of a move -----------------------------------------------------------------------------------------------------


def test_replicas_that_stay_are_not_stopped() -> None:
    """R-054: b3 is in AR and in RAR; the topic path has RAR in its own order."""
    lab = cluster()
    reassign(lab, (4, 3, 5))

    assert wait_until(lab, lambda: is_moved_to(lab, (4, 3, 5)))
    assert {step.split()[1] for step in lab.steps if step.startswith(("stop", "delete"))} == {"b1", "b2"}
    reassign(lab, (5, 4, 3))
    assert wait_until(lab, lambda: is_moved_to(lab, (5, 4, 3)))  # only the order is another one


def test_topic_path_waits_for_the_last_replica_to_stop() -> None:
    """R-054: b2 has not answered StopReplica; AR is what says that it may hold a replica (B-59)."""
    lab = cluster()
    lab.is_held = carries(StopReplica, receiver="b2")
    reassign(lab)
    lab.wait(5000)
    assert (sorted(lab.isr()), assigned_replicas(lab)) == (sorted(RAR), (*OAR, *RAR))
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_request_goes_though_a_dropped_broker_is_dead() -> None:
    """R-054: b3 cannot answer; when it returns it finds no assignment."""
    lab = cluster()
    crash_and_expire(lab, 3)
    reassign(lab, (1, 2, 4))

    assert wait_until(lab, lambda: pending_moves(lab) is None)
    assert assigned_replicas(lab) == (1, 2, 4)


# --- the lock --------------------------------------------------------------------------------------------------------------


def test_agent_of_a_former_controller_changes_nothing() -> None:
    """R-053, V3 §F step 3.2.1: another controller was elected between the agent's read and its write, which is refused."""
    lab = cluster()
    assignments_seen: list[tuple[int, ...]] = []

    def deposed() -> None:
        lab.zk.submit(lab.admin, (SetData(paths.CONTROLLER_EPOCH, b"9", -1),))
        lab.before["AR 4,5,6"] = lambda: assignments_seen.append(assigned_replicas(lab))

    lab.before["AR 4,5,6"] = deposed
    reassign(lab)

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))
    assert assignments_seen == [(*OAR, *RAR)]


def test_agent_does_one_round_at_a_time() -> None:
    """R-053: a notification during a round begins no other one beside it; the round that follows sees what has changed."""
    lab = settled_cluster(brokers=6)
    write(lab, Create("/admin", b""))
    lab.is_held = fetches_from(5, 6)
    reassign(lab, (5, 6))
    lab.cut_off_from_zk.add(1)  # ZooKeeper's answer is on its way
    lab.fire(1, "reassign")
    lab.clear_record()
    lab.handle_event(1, ZkWatch(admin_paths.REASSIGN, "changed"))

    assert [op for i, op in lab.log if i == 1] == []
    assert lab.nodes[1].state.controller.agent.again
