"""Invariants that must hold in every state that the explorer reaches, and situations that some state should reach.

`committed` is the promise (docs/promise.md DUR-1) as `ghost` tracks it. `weak-isr` and `strong-isr` are the invariants of the
formal models (docs/oracles.md §7.1): the records below a leader's HW are in the log of every member of its own ISR, or of the ISR
in ZooKeeper. They compare the logs on disk, so they are violated before a record is lost.
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
        """What each broker knows of the partition in a state, and the records on its disk."""

    def standing(self, key: Key) -> Standing:
        """What ZooKeeper holds of the partition in a state."""

    def ghost(self, key: Key) -> Ghost:
        """The promised records in a state."""


def properties_of(model: Readable) -> tuple[Property[Key], ...]:
    """The invariants of the world of the machines."""
    return (
        Property("committed", lambda key: model.ghost(key).wrong),
        Property("weak-isr", lambda key: _weak_isr(model, key)),
        Property("strong-isr", lambda key: _strong_isr(model, key)),
    )


def goals_of(model: Readable) -> tuple[Goal[Key], ...]:
    """What a search of the world of the machines should reach."""
    return (
        Goal("a record was committed", lambda key: bool(model.ghost(key).committed)),
        Goal("another leader was elected", lambda key: model.ghost(key).top_epoch > 0),
        Goal("the ISR shrank", lambda key: len(model.standing(key).isr) < model.bounds.brokers),
        Goal("two brokers took themselves for the leader", lambda key: sum(h.view.leads for h in model.hosts(key)) > 1),
        Goal("two logs held different records at one offset", lambda key: _logs_part(model, key)),
    )


def _weak_isr(model: Readable, key: Key) -> str:
    hosts = model.hosts(key)
    for index, host in enumerate(hosts):
        if host.view.leads and host.view.hw:
            words = _lacking(hosts, index, host.view.isr)
            if words:
                return f"{words}, of its ISR"
    return ""


def _strong_isr(model: Readable, key: Key) -> str:
    hosts = model.hosts(key)
    for index, host in enumerate(hosts):
        if host.view.leads and host.view.hw:
            words = _lacking(hosts, index, model.standing(key).isr)
            if words:
                return f"{words}, of the ISR in ZooKeeper"
    return ""


def _lacking(hosts: list[HostFacts], leader: int, isr: tuple[BrokerId, ...]) -> str:
    hw = hosts[leader].view.hw
    committed = hosts[leader].values[:hw]
    for broker in isr:
        if hosts[broker - 1].values[: len(committed)] != committed:
            return f"what leader b{leader + 1} holds below its HW {hw} is not in the log of b{broker}"
    return ""


def _logs_part(model: Readable, key: Key) -> bool:
    logs = [host.values for host in model.hosts(key)]
    return any(one[: len(other)] != other[: len(one)] for one in logs for other in logs)
