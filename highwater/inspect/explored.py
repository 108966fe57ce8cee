"""A path of the explorer that stands still: before the first of its actions, between two of them, or after the last.

Nothing has a clock there: each action takes a millisecond, and the path itself says which message arrives next.
"""

from collections.abc import Iterator
from contextlib import nullcontext

from highwater.explore.backend import STEP_NS, Performance
from highwater.explore.state import Host
from highwater.explore.zookeeper import tree_of
from highwater.inspect.moment import Coming, Moment, Process
from highwater.inspect.playback import Playback, Stop
from highwater.plans.plan import Plan
from history.recorder import Recorder
from reference.log.log import end_of
from reference.node import NodeState
from reference.types import BrokerId, broker_address


class PathPlayback(Playback):
    """Performs the list of actions of a plan with a path."""

    def __init__(self, plan: Plan) -> None:
        self._performance = Performance(plan)
        self.next_ns = STEP_NS

    @property
    def now_ns(self) -> int:
        """The time of the last action."""
        return self._performance.now_ns

    @property
    def recorder(self) -> Recorder:
        """The rows that the path has recorded."""
        return self._performance.recorder

    def run(self, stop: Stop) -> None:
        """Go on until `stop` or the end of the path; no action if `stop` holds already."""
        while not self.ended and not stop(self.next_ns):
            with self.calls.watching() if self.calls is not None else nullcontext():
                self._performance.step()
            self.actions += 1
            self.next_ns = self.now_ns + STEP_NS
            self.ended = self._performance.ended

    def close(self) -> None:
        """Nothing is open."""

    def moment(self) -> Moment:
        """The explored cluster as it stands."""
        model, key = self._performance.model, self._performance.state
        state = model.state(key)
        return Moment(
            time_ns=self.now_ns,
            rows=self.row_count,
            processes=[_process(number, host, model.node_state(key, number)) for number, host in enumerate(state.hosts)],
            znodes=tree_of(state.zk).nodes,
            coming=[
                *(
                    Coming(source=_name(flight.source), target=_name(flight.to), payload=flight.message, when="in flight")
                    for flight in state.network
                ),
                *(coming for number, host in enumerate(state.hosts) for coming in _of_zookeeper(_name(number), host)),
            ],
            clients=(),
            broken=[f"{invariant.name}: {words}" for invariant in model.properties if (words := invariant.broken(key))],
        )


def _process(number: int, host: Host, state: NodeState | None) -> Process:
    return Process(
        name=_name(number),
        up=host.up,
        life=host.life,
        state=state,
        timers=dict.fromkeys(host.timers) if host.up else {},
        logs={image.tp: end_of(image.batches[-1]) if image.batches else 0 for image in host.logs},
    )


def _of_zookeeper(name: str, host: Host) -> Iterator[Coming]:
    """What is in flight between a broker and ZooKeeper, where the path has actions of ZooKeeper."""
    for request in host.outbox:
        yield Coming(source=name, target="zookeeper", payload=request, when="in flight")
    for event in host.inbox:
        yield Coming(source="zookeeper", target=name, payload=event, when="in flight")


def _name(number: int) -> str:
    return broker_address(BrokerId(number + 1))
