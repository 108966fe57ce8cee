"""The explorer as a backend: performs a plan's list of explorer actions on the explored cluster and records a history.

Each action takes a millisecond. As in the simulator, events come from the notes of the machines, the writes of ZooKeeper, and the
starts and stops of processes. Calls without a reply at the end complete as `info`.
"""

from time import perf_counter

from msgspec.structs import replace

from highwater.explore.machine_world import Impossible, MachineWorld
from highwater.explore.path import bounds_of, refusal
from highwater.explore.state import CLIENT, TOPIC, Spent
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance, Run
from highwater.rig.commits import AnyCommit, SessionEnded
from highwater.rig.evidence import Notebook, ZkEvidence
from highwater.rig.scene import manifest, scene_of, variant_of
from history.digest import digest
from history.event import EventKind
from history.manifest import FaultCount, Outcome
from history.op import OpType
from history.recorder import Record, Recorder
from reference.effects import AnyEffect, Note, Send
from reference.errors import ErrorCode
from reference.events import AnyEvent, Received
from reference.messages import Produce, ProduceReply
from reference.sealed import in_the_clear
from reference.types import BrokerId, broker_address, index_of, topic_of
from workloads.completion import completion_type

STEP_NS = 1_000_000


class ExploreBackend:
    """Performs plans that list every action of the run in order (a path of the explorer)."""

    name = "explore"

    def refuse(self, plan: Plan) -> str | None:
        """The reason why the explorer cannot perform this plan, or None."""
        return refusal(plan)

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Perform the plan's list of actions. An impossible action ends the run as a failure of the harness."""
        start = perf_counter()
        performance = Performance(plan)
        while not performance.ended:
            performance.step()
        recorder, end_ns = performance.recorder, performance.now_ns
        outcome: Outcome = "completed" if performance.failure is None else "harness-fault"
        faults = _fault_counts(performance.model.spent(performance.state))
        run_manifest = replace(
            manifest(scene_of(plan), provenance, backend=self.name, outcome=outcome, faults=faults),
            end_ns=end_ns,
            digest=digest(recorder.operations, recorder.events),
            sim_seconds=end_ns / 1e9,
            wall_seconds=perf_counter() - start,
            events_handled=performance.handled,
        )
        return Run(history=recorder.history(run_manifest), failure=performance.failure)


class Performance:
    """A plan's list of actions, performed one by one. It begins in the state after the start of the cluster.

    `failure`: why an action of the path was impossible, which ends the performance.
    """

    def __init__(self, plan: Plan) -> None:
        self.model = MachineWorld(variant_of(plan), bounds_of(plan), keep_versions=True)
        self.ended = False
        self.failure: str | None = None
        self._scribe = _Scribe(plan)
        self._path = plan.path
        self._performed = 0
        self.state = self.model.initial(self._scribe)

    @property
    def now_ns(self) -> int:
        """The time of the last action; each takes a millisecond."""
        return self._scribe.now_ns

    @property
    def handled(self) -> int:
        """How many events the brokers have handled."""
        return self._scribe.handled

    @property
    def recorder(self) -> Recorder:
        """The rows that have been recorded."""
        return self._scribe.recorder

    def step(self) -> None:
        """Perform the next action. After the last one the calls that are still open complete as `info`."""
        if self._performed == len(self._path) or self.failure is not None:
            self._scribe.close()
            self.ended = True
            return
        action = self._path[self._performed]
        self._performed += 1
        self._scribe.now_ns += STEP_NS
        try:
            self.state = self.model.after(self.state, action, self._scribe)
        except Impossible as error:
            self.failure = f"action {self._performed} of the path is not possible: {error}"


class _Scribe:
    """Records the history of an explored schedule while its actions are performed."""

    def __init__(self, plan: Plan) -> None:
        self.now_ns = 0
        self.handled = 0
        self.recorder = Recorder(lambda: self.now_ns)
        # The topic is created before the path begins; its czxid is 0 in the trees of a search (`highwater.explore.zookeeper`).
        self._evidence = ZkEvidence(self.recorder, topics={TOPIC: 0})
        self._notebooks = [
            Notebook(self.recorder, broker_address(BrokerId(number))) for number in range(1, plan.cluster.brokers + 1)
        ]
        self._open_produces: dict[int, Produce] = {}
        self._moves = bounds_of(plan).moves > 0

    def event(self, index: int, life: int, event: AnyEvent) -> None:
        """Record the invocation of a client's call, before the broker handles it."""
        self.handled += 1
        if isinstance(event, Received) and event.source == CLIENT and isinstance(event.message, Produce):
            self._open_produces[event.message.correlation] = event.message
            self._record_produce(OpType.INVOKE, event.message, node=_broker_name(index))

    def effect(self, index: int, life: int, effect: AnyEffect) -> None:
        """Record what a broker reports, and the completion of a call when the client gets its reply."""
        if isinstance(effect, Note):
            self._notebooks[index].write(effect)
        elif isinstance(effect, Send) and effect.to == CLIENT and isinstance(effect.message, ProduceReply):
            self._record_completion(index, effect.message)

    def _record_completion(self, index: int, reply: ProduceReply) -> None:
        """Record how the call ended that a broker has answered."""
        request = self._open_produces.pop(reply.correlation)
        type_ = completion_type("produce", reply.error.name, sent=True)
        error = None if type_ is OpType.OK else reply.error.name
        self._record_produce(
            type_, request, node=_broker_name(index), offset=reply.offset, leader_epoch=reply.leader_epoch, error=error
        )

    def _record_produce(
        self,
        type: OpType,
        request: Produce,
        *,
        node: str | None = None,
        offset: int | None = None,
        leader_epoch: int | None = None,
        error: str | None = None,
    ) -> None:
        """Record a row of a produce."""
        self.recorder.operation(
            process=request.correlation,
            type=type,
            f="produce",
            records=(Record(value=in_the_clear(request.values)[0], offset=offset, leader_epoch=leader_epoch),),
            topic=topic_of(request.tp),
            partition=index_of(request.tp),
            acks=request.acks,
            error=error,
            node=node,
        )

    def committed(self, index: int, life: int, commits: tuple[AnyCommit, ...]) -> None:
        """Record the history rows that follow from ZooKeeper commits."""
        self._evidence.committed(commits, writer=broker_address(BrokerId(index + 1)), life=life)

    def administered(self, commits: tuple[AnyCommit, ...]) -> None:
        """Record the assignment where it may change; the histories of plans without moves name none."""
        if self._moves:
            self._evidence.committed(commits)

    def session_over(self, ended: SessionEnded, deleted: tuple[str, ...]) -> None:
        """Record the end of a broker's ZooKeeper registration."""
        self._evidence.committed((ended,))

    def started(self, index: int, life: int) -> None:
        """Record the start of a broker process."""
        self._notebooks[index].life = life
        self.recorder.event(EventKind.NODE_STARTED, node=_broker_name(index), life=life)

    def stopped(self, index: int, life: int, why: str) -> None:
        """Record the end of a broker process."""
        self.recorder.event(EventKind.NODE_STOPPED, node=_broker_name(index), life=life, detail=why)

    def asserted(self, index: int, life: int, words: str) -> None:
        """Record a failed assertion of the system under test."""
        self.recorder.event(EventKind.ASSERTION, node=_broker_name(index), life=life, detail=words)

    def close(self) -> None:
        """Complete the calls that are still open as `info` (outcome unknown)."""
        for _, request in sorted(self._open_produces.items()):
            self._record_produce(OpType.INFO, request, error=ErrorCode.REQUEST_TIMED_OUT.name)
        self._open_produces.clear()


def _fault_counts(spent: Spent) -> tuple[FaultCount, ...]:
    """The faults in an explored schedule, as fault kinds of the nemesis."""
    counts = (("crash-random", spent.crashes), ("expire-session", spent.expiries), ("packets", spent.losses + spent.doubles))
    return tuple(FaultCount(kind=kind, begun=count, acted=count) for kind, count in counts if count)


def _broker_name(index: int) -> str:
    return f"b{index + 1}"
