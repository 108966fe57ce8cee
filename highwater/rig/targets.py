"""Finds the brokers that a fault hits, such as the leader of a partition, in ZooKeeper's tree when the fault begins."""

from typing import assert_never

from highwater.plans.plan import Plan
from history.seed import Draws
from nemesis.targets import (
    AnyTarget,
    ClientPlace,
    Controller,
    Everyone,
    IsrMember,
    LeaderOf,
    Minority,
    Named,
    Random,
    WholeIsr,
)
from reference.coordination import paths
from reference.coordination.api import Data
from reference.coordination.memory import MemoryZooKeeper
from reference.messages import PartitionState
from reference.types import BrokerId, topic_partition


def state_of(tree: MemoryZooKeeper, topic: str, partition: int) -> PartitionState | None:
    """The state of a partition as its znode has it; None without a znode."""
    tp = topic_partition(topic, partition)
    node = tree.nodes.get(paths.state_path(tp))
    return None if node is None else paths.decode_state(tp, (), Data(node.data, node.version, node.czxid))


def resolve(target: AnyTarget, plan: Plan, tree: MemoryZooKeeper, draws: Draws, *, purpose: str) -> tuple[BrokerId, ...]:
    """The brokers that a fault's target selects, sorted; none if no broker has the role. `purpose` names the random draws."""
    brokers = [BrokerId(number) for number in range(1, plan.cluster.brokers + 1)]
    match target:
        case Named(brokers=named):
            return tuple(sorted(BrokerId(number) for number in named))
        case LeaderOf(topic=topic, partition=partition):
            state = state_of(tree, topic, partition)
            return () if state is None or state.leader is None else (state.leader,)
        case IsrMember(topic=topic, partition=partition):
            state = state_of(tree, topic, partition)
            followers = [] if state is None else sorted(m.broker for m in state.isr if m.broker != state.leader)
            return (followers[draws.below(purpose, len(followers))],) if followers else ()
        case WholeIsr(topic=topic, partition=partition):
            state = state_of(tree, topic, partition)
            return () if state is None else tuple(sorted(m.broker for m in state.isr))
        case Controller():
            node = tree.nodes.get(paths.CONTROLLER)
            return () if node is None else (paths.decode_controller(node.data),)
        case Random(count=count):
            return drawn(brokers, count, draws, purpose)
        case Minority():
            return drawn(brokers, draws.between(purpose, 1, max(1, (len(brokers) - 1) // 2)), draws, purpose)
        case Everyone():
            return tuple(brokers)
        case ClientPlace():
            return ()
        case _:
            assert_never(target)


def drawn(brokers: list[BrokerId], count: int, draws: Draws, purpose: str) -> tuple[BrokerId, ...]:
    """Draw `count` brokers at random; return them sorted."""
    return tuple(sorted(shuffled(brokers, draws, purpose)[:count]))


def shuffled(brokers: list[BrokerId], draws: Draws, purpose: str) -> list[BrokerId]:
    """Return these brokers in a randomly drawn order."""
    remaining = list(brokers)
    order = []
    while remaining:
        order.append(remaining.pop(draws.below(purpose, len(remaining))))
    return order
