"""Invariants that must hold in every state that the explorer reaches, and situations that some state should reach.

`committed` is the promise (docs/promise.md DUR-1) as `ghost` tracks it. `weak-isr` and `strong-isr` are the invariants of the
formal models (docs/oracles.md §7.1): the records below a leader's HW are in the log of every member of its own ISR, or of the ISR
in ZooKeeper. They compare the logs on disk, so they are violated before a record is lost. A leader that has not heard yet that
the controller took a replica out of the ISR and deleted it (R-236) breaks nothing. `isr-assigned` is a rule of moves (C-12):
every member of the ISR is in AR, because a broker that starts deletes a replica that is assigned to nobody.
"""

from typing import Protocol

from highwater.explore.state import Bounds, Ghost
from highwater.explore.steps import HostFacts
from highwater.explore.transition import Key
from highwater.explore.world import Goal, Property
from highwater.explore.zookeeper import Standing
from reference.types import BrokerId


class Readable(Protocol):
    """The world of the machines as properties and goals read it."""

    bounds: Bounds

    def hosts(self, key: Key) -> list[HostFacts]:
        """What each broker knows of the partitions in a state, and the records on its disk."""

    def standing(self, key: Key) -> Standing:
        """What ZooKeeper holds of the partitions in a state."""

    def ghost(self, key: Key) -> Ghost:
        """The promised records in a state."""


def properties_of(model: Readable) -> tuple[Property[Key], ...]:
    """The invariants of the world of the machines."""
    return (
        Property("committed", lambda key: model.ghost(key).wrong),
        Property("weak-isr", lambda key: _weak_isr_violation(model, key)),
        Property("strong-isr", lambda key: _strong_isr_violation(model, key)),
        Property("isr-assigned", lambda key: _unassigned_member(model, key)),
    )


def goals_of(model: Readable) -> tuple[Goal[Key], ...]:
    """What a search of the world of the machines should reach."""
    bounds = model.bounds
    goals: tuple[Goal[Key], ...] = (
        Goal("a record was committed", lambda key: any(promised.committed for promised in model.ghost(key).partitions)),
        Goal("another leader was elected", lambda key: any(promised.top_epoch > 0 for promised in model.ghost(key).partitions)),
        Goal("the ISR shrank", lambda key: any(len(p.isr) < bounds.replicas for p in model.standing(key).partitions)),
        Goal("two brokers took themselves for the leader", lambda key: _have_two_leaders(model, key)),
        Goal("two logs held different records at one offset", lambda key: _have_diverged(model, key)),
    )
    if not bounds.moves:
        return goals
    return (*goals, Goal("a partition was moved", lambda key: _has_moved(model, key)))


def _weak_isr_violation(model: Readable, key: Key) -> str:
    """WeakIsr: the complaint about a leader and a member of its own ISR that lacks a committed record; "" if it holds."""
    hosts = model.hosts(key)
    for index, host in enumerate(hosts):
        for partition, replica in enumerate(host.replicas):
            if replica.leads and replica.hw:
                present = model.standing(key).partitions[partition].isr
                isr = tuple(broker for broker in replica.isr if broker in present or hosts[broker - 1].held[partition])
                words = _first_lacking(hosts, index, partition, isr)
                if words:
                    return f"{words}, of its ISR"
    return ""


def _strong_isr_violation(model: Readable, key: Key) -> str:
    """StrongIsr: the same for the ISR in ZooKeeper."""
    hosts = model.hosts(key)
    for index, host in enumerate(hosts):
        for partition, replica in enumerate(host.replicas):
            if replica.leads and replica.hw:
                words = _first_lacking(hosts, index, partition, model.standing(key).partitions[partition].isr)
                if words:
                    return f"{words}, of the ISR in ZooKeeper"
    return ""


def _first_lacking(hosts: list[HostFacts], leader: int, partition: int, isr: tuple[BrokerId, ...]) -> str:
    """Which broker of the ISR lacks a record below the leader's HW; "" if none."""
    hw = hosts[leader].replicas[partition].hw
    committed = hosts[leader].values[partition][:hw]
    for broker in isr:
        if hosts[broker - 1].values[partition][: len(committed)] != committed:
            return f"what leader b{leader + 1} holds below its HW {hw} is not in the log of b{broker}"
    return ""


def _unassigned_member(model: Readable, key: Key) -> str:
    """The complaint about a member of an ISR that is not assigned; "" if there is none."""
    for number, stated in enumerate(model.standing(key).partitions):
        for broker in stated.isr:
            if broker not in stated.assigned:
                assigned = ",".join(f"b{replica}" for replica in stated.assigned)
                return f"b{broker} is in the ISR of partition {number}, which is assigned to {assigned}"
    return ""


def _have_two_leaders(model: Readable, key: Key) -> bool:
    hosts = model.hosts(key)
    return any(sum(host.replicas[number].leads for host in hosts) > 1 for number in range(model.bounds.partitions))


def _has_moved(model: Readable, key: Key) -> bool:
    standing = model.standing(key)
    last = model.bounds.brokers
    return not standing.moving and any(last in stated.assigned for stated in standing.partitions)


def _have_diverged(model: Readable, key: Key) -> bool:
    """Whether the logs of two replicas differ at some offset."""
    hosts = model.hosts(key)
    if all(host.values == hosts[0].values for host in hosts):
        return False
    logs = [[host.values[number] for host in hosts] for number in range(model.bounds.partitions)]
    return any(
        first[: len(second)] != second[: len(first)]
        for logs_of_partition in logs
        for first in logs_of_partition
        for second in logs_of_partition
    )
