"""Clusters without ZooKeeper: what the harness would ask ZooKeeper, answered from what the brokers themselves say."""

from collections.abc import Iterable

from highwater.backends.real.cluster_state import EndState
from highwater.backends.real.site import Probe
from highwater.backends.real.zookeeper.admin import ANSWER_TIMEOUT_S
from reference.coordination import paths
from reference.coordination.memory import MemoryZooKeeper, Znode
from reference.messages import IsrMember, PartitionState
from reference.types import (
    NO_INCARNATION,
    Address,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
    broker_address,
)


class Uncoordinated:
    """A cluster without ZooKeeper; a system adds and overrides what it can answer. `patience_s` is not used."""

    patience_s = ANSWER_TIMEOUT_S
    absent: frozenset[Address] = frozenset()

    async def look(self) -> EndState:
        """Nothing is known of the final state."""
        return EndState((), {}, {})

    async def session_of(self, broker: BrokerId) -> int | None:
        """Never called: faults of ZooKeeper sessions are refused before the run."""
        raise AssertionError(f"{broker_address(broker)} has no ZooKeeper session")

    async def expire(self, session: int) -> None:
        """Never called: faults of ZooKeeper sessions are refused before the run."""
        raise AssertionError(f"there is no ZooKeeper to end session {session}")

    async def is_vacant(self, broker: BrokerId) -> bool:
        """Never called: brokers that leave are refused before the run."""
        raise AssertionError(f"{broker_address(broker)} was to leave")

    async def forget(self, broker: BrokerId) -> Probe:
        """Never called: brokers that leave are refused before the run."""
        raise AssertionError(f"{broker_address(broker)} was to leave")

    def close(self) -> None:
        """Nothing: each question has a connection of its own."""


def state_of(tp: TopicPartition, leader: BrokerId) -> PartitionState:
    """The state of a partition of which only the leader is known; it alone is in the ISR."""
    only = (IsrMember(leader, NO_INCARNATION),)
    return PartitionState(tp, leader, NO_INCARNATION, LeaderEpoch(0), only, ControllerEpoch(0), ZkVersion(0), (leader,))


def tree_of(controller: BrokerId | None, states: Iterable[PartitionState]) -> MemoryZooKeeper:
    """ZooKeeper's tree as faults name their targets by it: the controller, if there is one, and these partitions' states."""
    nodes = {} if controller is None else {paths.CONTROLLER: _znode(paths.controller_payload(controller))}
    nodes |= {paths.state_path(state.tp): _znode(paths.state_payload(state)) for state in states}
    return MemoryZooKeeper(nodes=nodes)


def _znode(data: bytes) -> Znode:
    return Znode(data, 0, 0, 0, 0, 0)
