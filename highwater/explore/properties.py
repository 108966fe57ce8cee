"""Invariants that must hold in every state that the explorer reaches, and situations that some state should reach.

`committed` is the promise (docs/promise.md DUR-1) as `ghost` tracks it. `weak-isr` and `strong-isr` are the invariants of the
formal models (docs/oracles.md §7.1): the records below a leader's HW are in the log of every member of its own ISR, or of the ISR
in ZooKeeper. They compare the logs on disk, so they are violated before a record is lost.
"""

from collections.abc import Callable

from msgspec import Struct

from highwater.explore.model import Model
from highwater.explore.state import State, values_of
from reference.types import BrokerId


class Property(Struct, frozen=True):
    """An invariant of the explorer. `broken` describes the violation in a state; empty if the invariant holds."""

    name: str
    broken: Callable[[Model, State], str]


class Goal(Struct, frozen=True):
    """A situation that some explored state should reach, so that the search is not vacuous."""

    name: str
    holds: Callable[[Model, State], bool]


def _promise_broken(model: Model, state: State) -> str:
    return state.ghost.wrong


def _weak_isr(model: Model, state: State) -> str:
    for index, host in enumerate(state.hosts):
        view = model.view(host)
        if view.leads:
            words = _lacking(state, index, view.hw, view.isr)
            if words:
                return f"{words}, of its ISR"
    return ""


def _strong_isr(model: Model, state: State) -> str:
    isr = model.standing(state).isr
    for index, host in enumerate(state.hosts):
        view = model.view(host)
        if view.leads:
            words = _lacking(state, index, view.hw, isr)
            if words:
                return f"{words}, of the ISR in ZooKeeper"
    return ""


def _lacking(state: State, leader: int, hw: int, isr: tuple[BrokerId, ...]) -> str:
    committed = values_of(state.hosts[leader])[:hw]
    for broker in isr:
        if values_of(state.hosts[broker - 1])[: len(committed)] != committed:
            return f"what leader b{leader + 1} holds below its HW {hw} is not in the log of b{broker}"
    return ""


COMMITTED = Property("committed", _promise_broken)
PROPERTIES = (COMMITTED, Property("weak-isr", _weak_isr), Property("strong-isr", _strong_isr))


def _committed(model: Model, state: State) -> bool:
    return bool(state.ghost.committed)


def _leader_changed(model: Model, state: State) -> bool:
    return state.ghost.top_epoch > 0


def _isr_shrunk(model: Model, state: State) -> bool:
    return len(model.standing(state).isr) < len(state.hosts)


def _two_leaders(model: Model, state: State) -> bool:
    return sum(model.view(host).leads for host in state.hosts) > 1


def _logs_part(model: Model, state: State) -> bool:
    logs = [values_of(host) for host in state.hosts]
    return any(one[: len(other)] != other[: len(one)] for one in logs for other in logs)


GOALS = (
    Goal("a record was committed", _committed),
    Goal("another leader was elected", _leader_changed),
    Goal("the ISR shrank", _isr_shrunk),
    Goal("two brokers took themselves for the leader", _two_leaders),
    Goal("two logs held different records at one offset", _logs_part),
)
