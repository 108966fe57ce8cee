"""Helpers for tests of reassignment: a cluster of six brokers, one partition to move, a controller that can die at any step."""

from collections.abc import Callable

from reference.config import SAFE, VARIANTS, Variant
from reference.coordination import admin_paths, paths, reassignment_requests
from reference.coordination.admin_paths import Reassignment, Reassignments
from reference.coordination.api import AnyOp, Children, Create, Data, Delete, Exists, GetChildren, GetData, SetData
from reference.coordination.reassignment_requests import Request
from reference.effects import AnyEffect, Send, ZkRequest
from reference.events import AnyEvent
from reference.messages import Fetch, LeaderAndIsr, LogInfo, StopReplica, UpdateMetadata
from reference.replica.partition import brokers_of
from reference.types import BrokerId, TopicPartition, broker_address
from tests.reference.lab import T0, Envelope, Lab

OAR, RAR = (1, 2, 3), (4, 5, 6)
GHOST = TopicPartition("ghost-0")
_CONTROL = LeaderAndIsr | StopReplica | UpdateMetadata | LogInfo
_READS = GetData | Exists | GetChildren


class Mortal(Lab):
    """A cluster whose broker `mortal` dies right after its step number `steps_left`.

    A step is a write to ZooKeeper or a control request.
    `steps` lists in words what the broker did, without repetitions.
    """

    steps_left: int | None = None
    mortal: int = 1
    dead_broker: int | None = None
    steps: tuple[str, ...] = ()
    before: dict[str, Callable[[], None]]  # step in words -> called right before the step

    def handle_event(self, i: int, event: AnyEvent) -> None:
        if i != self.dead_broker:
            super().handle_event(i, event)

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        words = [] if i != self.mortal else _words(effect)
        for word in words:
            self.before.pop(word, _nothing)()
        if i == self.dead_broker:
            return None
        self.steps += tuple(word for word in words if word not in self.steps)
        if i == self.mortal and self.steps_left is not None and _is_step(effect):
            self.steps_left -= 1
            if self.steps_left == 0:
                self.steps_left, self.dead_broker = None, i
                if isinstance(effect, ZkRequest):
                    _, fired = self.zk.submit(self.sessions[i], effect.ops, atomic=effect.atomic)
                    self.deliver_watches(fired)
                    return None
        return super()._perform(i, effect)

    def clear_record(self) -> None:
        """Forget the steps so far."""
        self.steps = ()

    def remove_dead_broker(self, i: int) -> None:
        """Remove the dead broker `i`: end its process and expire its session."""
        self.dead_broker = None
        self.crash(i)
        self.expire(i)
        self.settle()


def _is_step(effect: AnyEffect) -> bool:
    if isinstance(effect, ZkRequest):
        return any(not isinstance(op, _READS) for op in effect.ops)
    return isinstance(effect, Send) and isinstance(effect.message, _CONTROL)


def _nothing() -> None:
    """The default action before a step."""


def _words(effect: AnyEffect) -> list[str]:
    match effect:
        case ZkRequest(ops=ops):
            return [_word(op) for op in ops if isinstance(op, SetData | Delete | Create)]
        case Send(message=LeaderAndIsr(states=states)):
            return [f"command: {state.leader} leads {_row(brokers_of(state.isr))} of {_row(state.replicas)}" for state in states]
        case Send(message=StopReplica(partitions=partitions), to=to):
            return [f"{'delete' if stop.delete else 'stop'} {to}" for stop in partitions]
        case Send(message=UpdateMetadata(states=states), to=to):
            return [f"metadata to {to}: {state.leader} of {_row(state.replicas)}" for state in states]
        case _:
            return []


def _word(op: SetData | Delete | Create) -> str:
    if isinstance(op, Delete):
        return f"gone: {op.path}"
    if op.path == paths.topic_path("t"):
        return f"AR {_row(dict(paths.decode_topic('t', op.data))[T0])}"
    if op.path == paths.state_path(T0):
        state = paths.decode_state(T0, (), Data(op.data, 0, 0))
        return f"state: {state.leader} leads {_row(brokers_of(state.isr))}"
    if op.path in (admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA):
        reassignments, _ = admin_paths.decode_reassignments(op.data)
        return f"{op.path}: " + "; ".join(f"{_row(e.replicas)} from {_row(e.original)}" for e in reassignments.values())
    if op.path == admin_paths.reassignment_path(T0):
        entry = reassignment_requests.decode_entry(op.data)
        return f"{op.path}: {entry and _row(entry.replicas)}"
    return op.path


def _row(brokers: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, brokers))


def cluster(
    variant: Variant = SAFE, *, replicas: tuple[int, ...] = OAR, min_isr: int = 2, brokers: int = 6, kind: type[Mortal] = Mortal
) -> Mortal:
    """Start a cluster with all replicas in the ISR, the first replica as leader, and one record written."""
    lab = kind(brokers, variant=variant, replicas=replicas, min_isr=min_isr, start=False)
    lab.before = {}
    for i in lab.ids:
        lab.start(i)
    write(lab, Create("/admin", b""))
    lab.wait(1000)
    lab.produce(lab.leaders()[0], "m1")
    lab.settle()
    assert (sorted(lab.isr()), lab.values(replicas[0])) == (sorted(replicas), ["m1"])
    return lab


def write(lab: Lab, *ops: AnyOp) -> None:
    """Write to ZooKeeper as an administrator, and settle the cluster."""
    _, fired = lab.zk.submit(lab.admin, ops)
    lab.deliver_watches(fired)
    lab.settle()


def broker_ids(*brokers: int) -> tuple[BrokerId, ...]:
    """Convert integers to broker ids."""
    return tuple(BrokerId(b) for b in brokers)


def reassignment_of(replicas: tuple[int, ...], original: tuple[int, ...] = (), tp: TopicPartition = T0) -> Reassignments:
    """A reassignment request for one partition."""
    return {tp: Reassignment(broker_ids(*replicas), broker_ids(*original))}


def reassign(lab: Lab, replicas: tuple[int, ...] = RAR, original: tuple[int, ...] = ()) -> None:
    """Ask for a move and wait for two more fetches of each follower, because one replica joins the ISR at a time."""
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignment_of(replicas, original))))
    lab.wait(1500)


def request_move(lab: Lab, *replicas: int, tp: TopicPartition = T0, legacy: bool = False) -> None:
    """Ask for a move by proposal B."""
    payload = reassignment_requests.request_payload(Request({tp: broker_ids(*replicas)}, legacy))
    write(lab, Create(admin_paths.REQUESTS, b""), Create(admin_paths.REQUEST, payload, sequential=True))


def znode_children(lab: Lab, path: str) -> tuple[str, ...]:
    """The names of a znode's children."""
    (answer,), _ = lab.zk.submit(lab.admin, (GetChildren(path),))
    return answer.names if isinstance(answer, Children) else ()


def move_in_flight(lab: Lab, tp: TopicPartition = T0) -> Reassignment | None:
    """The entry of a partition that is being moved by proposal B, or None."""
    found = znode_data(lab, admin_paths.reassignment_path(tp))
    return None if found is None else reassignment_requests.decode_entry(found)


def request_extra_move(lab: Lab, replicas: tuple[int, ...]) -> None:
    """Ask for a move while others may be in flight."""
    write(lab, Create(admin_paths.REASSIGN_EXTRA, admin_paths.reassignments_payload(reassignment_of(replicas))))


def request_rollback(lab: Lab) -> None:
    """Ask for the rollback of all pending moves."""
    write(lab, Create(admin_paths.REASSIGN_CANCEL, b""))


def withdraw_rollback(lab: Lab) -> None:
    """Remove the cancellation."""
    write(lab, Delete(admin_paths.REASSIGN_CANCEL))


def znode_data(lab: Lab, path: str) -> bytes | None:
    """The content of a znode, or None if it does not exist."""
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(path),))
    return answer.data if isinstance(answer, Data) else None


def pending_moves(lab: Lab) -> Reassignments | None:
    """The content of /admin/reassign_partitions, or None if it does not exist."""
    found = znode_data(lab, admin_paths.REASSIGN)
    return None if found is None else admin_paths.decode_reassignments(found)[0]


def assigned_replicas(lab: Lab, tp: TopicPartition = T0) -> tuple[int, ...]:
    """The assigned replicas (AR) in the topic znode."""
    found = znode_data(lab, paths.topic_path("t"))
    return () if found is None else dict(paths.decode_topic("t", found)).get(tp, ())


def brokers_with_log(lab: Lab, tp: TopicPartition = T0) -> list[int]:
    """The brokers that have the partition on disk."""
    return [i for i in lab.ids if tp in lab.disks[i].logs]


def wait_until(lab: Lab, condition: Callable[[], bool], *, limit_ms: int = 40_000) -> bool:
    """Let time pass until `condition` is true or `limit_ms` is over; return the last value of `condition`."""
    for _ in range(limit_ms // 500):
        if condition():
            return True
        lab.wait(500)
    return condition()


def is_moved_to(lab: Lab, replicas: tuple[int, ...]) -> bool:
    """Whether the move to `replicas` is complete.

    AR, ISR and the disks name these brokers only, no request is left, the brokers agree on the leader, and no record is lost.
    """
    state = lab.state()
    alike = assigned_replicas(lab) == replicas and brokers_with_log(lab) == sorted(replicas) == sorted(lab.isr())
    if not alike or pending_moves(lab) is not None or znode_data(lab, admin_paths.REASSIGN_EXTRA) is not None:
        return False
    if znode_children(lab, admin_paths.REQUESTS) or znode_children(lab, admin_paths.REASSIGNMENTS):
        return False
    return lab.leaders() == [state.leader] and all(lab.values(i) == ["m1"] for i in replicas)


def fetches_from(*brokers: int) -> Callable[[Envelope], bool]:
    """Match the fetch requests of these brokers."""
    return lambda envelope: (
        isinstance(envelope.message, Fetch) and envelope.sender in [broker_address(b) for b in broker_ids(*brokers)]
    )


def stuck_move(protocol: str = "safe", *, target: tuple[int, ...] = RAR) -> Mortal:
    """Start a move that cannot finish: the new replicas are known, but their fetch requests are held back."""
    lab = cluster(VARIANTS[protocol])
    lab.is_held = fetches_from(4, 5, 6)
    reassign(lab, target)
    return lab


def controller_steps(lab: Mortal) -> list[str]:
    """The controller's steps, without metadata and without the receivers of StopReplica requests."""
    words = [word.rpartition(" b")[0] or word for word in lab.steps if not word.startswith("metadata")]
    return list(dict.fromkeys(words))
