"""The metrics of one broker process, under the names of KIP-112 and Kafka: the one list of them, and how each is read.

A gauge follows from the state of the process, so that it cannot contradict what the process does. A counter is what the process
has done since it started (`reference.machine.Tally`). Only the active controller counts partitions and brokers of the cluster;
other brokers report 0, so that an operator adds the values of all.

KIP-112 names two gauges (R-312); the others have the names under which Kafka's operators know them. `BrokerState` has KIP-343's
numbers (R-193), not Kafka's. The time of the last election is not in Kafka.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from reference.broker.broker import Broker
from reference.broker.log_dirs import OFFLINE_DIRECTORIES, OFFLINE_REPLICAS
from reference.controller.context import Controller, in_office
from reference.machine import Tally
from reference.node import Node, NodeState
from reference.replica.partition import Leader, Partition
from reference.types import BrokerState, topic_of


class Metric(Struct, frozen=True, kw_only=True):
    """One metric of a broker process: its name as Kafka's JMX has it, what it means, and how it is read."""

    name: str
    kind: Literal["gauge", "counter"]
    words: str
    read: Callable[[NodeState, Tally], int]


def _led(broker: Broker) -> list[tuple[Partition, Leader]]:
    return [(p, p.role) for p in broker.partitions.values() if isinstance(p.role, Leader)]


def _under_replicated(state: NodeState, _: Tally) -> int:
    return sum(len(leader.isr) < len(partition.replicas) for partition, leader in _led(state.broker))


def _under_min_isr(state: NodeState, _: Tally) -> int:
    return sum(len(leader.isr) < partition.min_isr for partition, leader in _led(state.broker))


def _offline_partitions(state: NodeState, _: Tally) -> int:
    """Partitions without a leader, without those that are being deleted."""
    controller = state.controller
    if not in_office(controller):
        return 0
    deleted, removed = _removals(controller)
    rest = [tp for tp in controller.assignments if tp not in removed and topic_of(tp) not in deleted]
    return sum(tp not in controller.states or controller.states[tp].leader is None for tp in rest)


def _removals(controller: Controller) -> tuple[set[str], set[str]]:
    """The topics and the partitions whose deletion has been read."""
    topics = controller.admin["delete"].topics if "delete" in controller.admin else ()
    return set(topics), set(controller.admin["remove"].partitions) if "remove" in controller.admin else set()


def _fenced_brokers(state: NodeState, _: Tally) -> int:
    """Registered brokers that the controller holds for inactive."""
    controller = state.controller
    live = {(live.broker, live.incarnation) for live in controller.live}
    inactive = [s for s in controller.standings if s.state is BrokerState.INACTIVE and (s.broker, s.incarnation) in live]
    return len(inactive) if in_office(controller) else 0


METRICS = (
    Metric(
        name=OFFLINE_DIRECTORIES,
        kind="gauge",
        words="Log directories that have failed.",
        read=lambda state, _: len(state.broker.offline_dirs),
    ),
    Metric(
        name=OFFLINE_REPLICAS,
        kind="gauge",
        words="Replicas in failed log directories.",
        read=lambda state, _: len(state.broker.offline),
    ),
    Metric(
        name="kafka.server:name=LeaderCount,type=ReplicaManager",
        kind="gauge",
        words="Partitions that this broker leads.",
        read=lambda state, _: len(_led(state.broker)),
    ),
    Metric(
        name="kafka.server:name=UnderReplicatedPartitions,type=ReplicaManager",
        kind="gauge",
        words="Partitions that this broker leads with an ISR smaller than the assigned replicas.",
        read=_under_replicated,
    ),
    Metric(
        name="kafka.server:name=UnderMinIsrPartitionCount,type=ReplicaManager",
        kind="gauge",
        words="Partitions that this broker leads with an ISR smaller than min.insync.replicas.",
        read=_under_min_isr,
    ),
    Metric(
        name="kafka.server:name=IsrShrinksPerSec,type=ReplicaManager",
        kind="counter",
        words="Times that an ISR has shrunk under this leader.",
        read=lambda _, tally: tally.isr_shrinks,
    ),
    Metric(
        name="kafka.server:name=IsrExpandsPerSec,type=ReplicaManager",
        kind="counter",
        words="Times that an ISR has grown under this leader.",
        read=lambda _, tally: tally.isr_expands,
    ),
    Metric(
        name="kafka.server:name=BrokerState,type=KafkaServer",
        kind="gauge",
        words="State of this broker by KIP-343: 0 initial, 1 inactive (fenced), 2 active, 3 stopping.",
        read=lambda state, _: int(state.broker.membership.state),
    ),
    Metric(
        name="kafka.controller:name=ActiveControllerCount,type=KafkaController",
        kind="gauge",
        words="1 if this broker is the active controller, else 0.",
        read=lambda state, _: int(in_office(state.controller)),
    ),
    Metric(
        name="kafka.controller:name=OfflinePartitionsCount,type=KafkaController",
        kind="gauge",
        words="Partitions without a leader, as the active controller knows.",
        read=_offline_partitions,
    ),
    Metric(
        name="kafka.controller:name=FencedBrokerCount,type=KafkaController",
        kind="gauge",
        words="Registered brokers that the active controller holds for inactive.",
        read=_fenced_brokers,
    ),
    Metric(
        name="kafka.controller:name=LeaderElectionRateAndTimeMs,type=ControllerStats",
        kind="counter",
        words="Elections by this controller that gave a partition another leader.",
        read=lambda _, tally: tally.leader_elections,
    ),
    Metric(
        name="kafka.controller:name=UncleanLeaderElectionsPerSec,type=ControllerStats",
        kind="counter",
        words="Those of these elections whose leader was neither in the ISR nor eligible otherwise.",
        read=lambda _, tally: tally.unclean_elections,
    ),
    Metric(
        name="highwater.controller:name=LastLeaderElectionTimeMs,type=ControllerStats",
        kind="gauge",
        words="When this controller last elected a leader, by its wall clock, in ms since 1970; 0 if it never did.",
        read=lambda _, tally: tally.last_election_ms,
    ),
)


def read(node: Node) -> dict[str, int]:
    """The values of all metrics of a broker process now, by name."""
    return {metric.name: metric.read(node.state, node.tally) for metric in METRICS}
