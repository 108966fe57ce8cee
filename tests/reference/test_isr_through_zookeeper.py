"""ISR changes that the leader writes to ZooKeeper itself (V3 §G, C-24), while the controller writes the same znode (V3 §A)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reference.coordination import paths
from reference.coordination.api import Create, Data, SetData, Unknown
from reference.errors import ErrorCode
from reference.events import ZkReplied, ZkState
from reference.messages import Fetch, LeaderAndIsr, PartitionState, ProduceReply, UpdateMetadata
from reference.replica.partition import brokers_of
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.moving import reassign, write
from tests.reference.recorded import leader_of, restart_leader, settled_cluster, shrink
from tests.reference.v3 import crash_and_expire

BY_ITSELF = ["isr-via-zookeeper", "v3"]


def fetches_of(*brokers: int) -> Callable[[Envelope], bool]:
    """Match the fetch requests of these brokers."""
    return lambda envelope: envelope.sender in [f"b{i}" for i in brokers] and isinstance(envelope.message, Fetch)


def commands_to(i: int) -> Callable[[Envelope], bool]:
    """Match what the controller sends to this broker."""
    return carries(LeaderAndIsr, UpdateMetadata, receiver=f"b{i}")


def state_in(data: bytes) -> PartitionState:
    return paths.decode_state(T0, (), Data(data, 0, 0))


def acknowledged(lab: Lab) -> list[int]:
    return [
        reply.correlation for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE
    ]


# --- the leader writes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", BY_ITSELF)
def test_leader_writes_its_isr_on_the_version_it_knows(variant: str) -> None:
    """R-004, R-005, R-065: the write names the version, and leaves leader, leader epoch and controller epoch as they are."""
    lab = settled_cluster(variant, min_isr=3)
    before = lab.state()
    shrink(lab, 4)
    ((writer, op),) = lab.state_writes()
    after = state_in(op.data)

    assert (writer, op.version) == (2, before.zk_version)
    # as the controller told them; what the znode held before may be the leader's own writing
    assert (after.leader, after.leader_epoch) == (2, lab.partition(2).leader_epoch)
    assert after.controller_epoch == lab.partition(2).controller_epoch
    assert brokers_of(after.isr) == (2, 3)
    lab.wait(1000)
    assert lab.isr() == [2, 3, 4]
    assert [op.version for _, op in lab.state_writes()] == [before.zk_version, before.zk_version + 1]


@pytest.mark.parametrize("variant", ["isr-via-zookeeper", "safe"])
def test_leader_stays_the_leader_when_its_isr_changes(variant: str) -> None:
    """R-004, R-065: where it is neither the first nor the last member of its ISR, and whoever writes it."""
    lab = settled_cluster(variant)
    leader = restart_leader(lab)
    shrink(lab, lab.followers()[-1], leader=leader)
    lab.settle()

    assert (lab.leader(), lab.isr()) == (leader, [2, leader])
    lab.wait(3000)
    assert (lab.leader(), lab.isr(), leader) == (leader, [2, 3, 4], 3)


@pytest.mark.parametrize("variant", BY_ITSELF)
def test_leader_adopts_isr_and_version_once_zookeeper_answers(variant: str) -> None:
    """R-059: before the answer nothing is committed by the smaller ISR; after it that ISR and its version count."""
    lab = settled_cluster(variant)
    isr_before, version = leader_of(lab).isr, leader_of(lab).zk_version
    lab.is_held = fetches_of(4)
    lab.produce(2, "m", correlation=7)
    lab.settle()
    lab.cut_off_from_zk.add(2)
    shrink(lab, 4)
    assert (leader_of(lab).isr, leader_of(lab).zk_version) == (isr_before, version)
    assert acknowledged(lab) == []
    lab.cut_off_from_zk.discard(2)
    leader_of(lab).change = None
    shrink(lab, 4)

    assert brokers_of(leader_of(lab).isr) == (2, 3)
    assert leader_of(lab).zk_version == lab.state().zk_version == version + 1
    assert acknowledged(lab) == [7]
    lab.delays_write = lambda i, _: i == 2
    shrink(lab, 3)
    ((_, request),) = lab.delayed_writes
    lab.release_writes_without_answers()
    lab.handle_event(2, ZkReplied(request.id, (Unknown(),)))
    lab.handle_event(2, ZkState("connected", lab.sessions[2]))

    assert brokers_of(leader_of(lab).isr) == (2,)  # the write is read back


@pytest.mark.parametrize("variant", BY_ITSELF)
def test_leader_cannot_shrink_the_isr_after_the_controller(variant: str) -> None:
    """R-071, R-076: the new leader would leave the ISR before it leads, and the old leader would commit alone.

    b2 is cut off from the controller and another broker has been elected. A write of b2 still reaches ZooKeeper.
    """
    lab = settled_cluster(variant)
    lab.is_held = commands_to(2)
    lab.cut_off_from_zk.add(2)
    lab.expire(2)
    lab.settle()
    after = lab.state()
    assert after.leader in brokers_of(after.isr) == (3, 4)
    lab.cut_off_from_zk.discard(2)
    lab.sessions[2] = lab.zk.connect(timeout_ms=6000)
    lab.clear_record()
    lab.produce(2, "old", correlation=8)
    shrink(lab, 3, 4)
    lab.settle()

    assert [i for i, _ in lab.state_writes()] == [2]  # it tried
    assert lab.state() == after
    assert lab.partition(2).hw == 0
    assert acknowledged(lab) == []


def test_leader_gives_up_an_isr_change_after_the_controller() -> None:
    """R-071: reading back after the refusal, it finds the next leader epoch, and may change the ISR no more."""
    lab = settled_cluster()
    lab.is_held = commands_to(2)
    crash_and_expire(lab, 4)
    assert lab.isr() == [2, 3]
    shrink(lab, 3, 4)
    lab.settle()
    change = leader_of(lab).change

    assert change is not None
    assert change.step == "superseded"
    assert lab.isr() == [2, 3]


def test_leader_writes_again_after_an_answer_was_lost() -> None:
    """R-059: a write whose answer was lost may have failed, so until it is read back the smaller ISR commits nothing."""
    lab = settled_cluster()
    isr_before = leader_of(lab).isr
    lab.is_held = fetches_of(4)
    lab.produce(2, "m", correlation=7)
    lab.settle()
    lab.delays_write = lambda i, _: i == 2
    shrink(lab, 4)
    change = leader_of(lab).change
    assert change is not None
    lab.handle_event(2, ZkReplied(change.request, (Unknown(),)))
    lab.settle()
    assert (leader_of(lab).isr, acknowledged(lab)) == (isr_before, [])
    lab.delayed_writes.clear()  # it never reached ZooKeeper
    lab.delays_write = lambda *_: False
    lab.fire(2, "isr")
    lab.settle()

    assert (brokers_of(leader_of(lab).isr), lab.isr(), acknowledged(lab)) == ((2, 3), [2, 3], [7])


def test_leader_takes_the_isr_that_it_reads_back() -> None:
    """R-059: its write was refused; what ZooKeeper holds is another ISR of the same epoch, and that counts."""
    lab = settled_cluster()
    lab.delays_write = lambda i, _: i == 2
    shrink(lab, 4)
    state = lab.state()
    isr_without_b3 = replace(state, isr=tuple(member for member in state.isr if member.broker != 3))
    write(lab, SetData(paths.state_path(T0), paths.state_payload(isr_without_b3), state.zk_version))
    lab.release_writes()

    assert brokers_of(leader_of(lab).isr) == (2, 4)
    assert leader_of(lab).zk_version == state.zk_version + 1


# --- the controller writes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", BY_ITSELF)
def test_controller_reads_again_after_a_version_conflict(variant: str) -> None:
    """R-005, R-024, R-155, V3 §A step 3.3: the leader takes b4 out of the ISR between the controller's read and its write.

    A controller that wrote the ISR which it chose before would bring b4 back, which lacks a committed record.
    """
    lab = settled_cluster(variant)
    lab.is_held = fetches_of(4)
    lab.produce(2, "m", correlation=7)
    lab.delays_write = lambda i, _: i == 1
    crash_and_expire(lab, 3)
    shrink(lab, 4)
    assert lab.isr() == [2, 3]
    lab.release_writes()
    lab.settle()
    by_controller = [(brokers_of(state_in(op.data).isr), op.version) for i, op in lab.state_writes() if i == 1]

    assert [isr for isr, _ in by_controller] == [(2, 4), (2,)]
    assert by_controller[1][1] == by_controller[0][1] + 1
    assert lab.isr() == [2]
    version = lab.state().zk_version
    crash_and_expire(lab, 2)  # where the leader changes, too
    assert [op.version for i, op in lab.state_writes() if i == 1][2:] == [version]


def test_move_reads_the_isr_again_after_a_version_conflict() -> None:
    """R-024, R-054, V3 §F step 3.2.2: the new leader takes b6 out of the ISR between the controller's read and its write."""
    lab = settled_cluster(brokers=6)
    write(lab, Create("/admin", b""))
    lab.delays_write = lambda i, op: i == 1 and brokers_of(state_in(op.data).isr) == (5, 6)
    reassign(lab, (5, 6))
    assert len(lab.delayed_writes) == 1
    lab.is_held = fetches_of(6)
    shrink(lab, 6, leader=5)
    without = lab.isr()
    assert 6 not in without
    lab.release_writes()
    lab.settle()

    assert lab.isr() == without
