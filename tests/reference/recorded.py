"""A table-top cluster that records what each broker asks of ZooKeeper and sends, and can hold a broker's writes on their way.

`settled` starts one whose controller is not the leader, so that the leader writes its ISR through ZooKeeper by itself.
"""

from collections.abc import Callable
from typing import TypeVar

from reference.broker import isr_change
from reference.config import VARIANTS, Variant
from reference.coordination import paths
from reference.coordination.api import AnyOp, Create, SetData
from reference.effects import AnyEffect, Send, ZkRequest
from reference.events import ZkReplied
from reference.machine import Now, Turn
from reference.replica import isr
from reference.replica.partition import Leader
from reference.types import Millis
from tests.reference.lab import T0, Lab
from tests.reference.v3 import crash_and_expire

STATE = paths.state_path(T0)
M = TypeVar("M")


class Recorded(Lab):
    """`log` has every request to ZooKeeper and every message, with its sender, in order; `clear_record` empties it.

    A write or creation of a state for which `delays_write` is true of its broker and the operation waits for `release_writes`.
    """

    def __init__(
        self,
        brokers: int = 4,
        *,
        variant: Variant,
        replicas: tuple[int, ...] = (2, 3, 4),
        min_isr: int = 1,
        log_dirs: int = 1,
    ) -> None:
        """A cluster of which no broker runs yet."""
        self.log: list[tuple[int, AnyOp | Send]] = []
        self.delays_write: Callable[[int, SetData | Create], bool] = lambda *_: False
        self.delayed_writes: list[tuple[int, ZkRequest]] = []
        super().__init__(brokers, variant=variant, replicas=replicas, min_isr=min_isr, start=False, log_dirs=log_dirs)

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        if isinstance(effect, ZkRequest):
            self.log += [(i, op) for op in effect.ops]
            if any(
                isinstance(op, SetData | Create) and op.path.endswith("/state") and self.delays_write(i, op) for op in effect.ops
            ):
                self.delayed_writes.append((i, effect))
                return None
        elif isinstance(effect, Send):
            self.log.append((i, effect))
        return super()._perform(i, effect)

    def release_writes(self) -> None:
        """Perform the writes that are on their way, and delay no later ones."""
        self.delays_write = lambda *_: False
        delayed, self.delayed_writes = self.delayed_writes, []
        for i, effect in delayed:
            super()._perform(i, effect)

    def release_writes_without_answers(self) -> None:
        """Perform the writes that are on their way, lose their answers, and delay no later ones."""
        self.delays_write = lambda *_: False
        delayed, self.delayed_writes = self.delayed_writes, []
        for i, effect in delayed:
            self.zk.submit(self.sessions[i], effect.ops, atomic=effect.atomic)

    def clear_record(self) -> None:
        """Forget what was recorded so far."""
        self.log = []

    def state_writes(self) -> list[tuple[int, SetData]]:
        """The writers of the state of t-0, and their writes."""
        return [(i, op) for i, op in self.log if isinstance(op, SetData) and op.path == STATE]

    def sent(self, kind: type[M]) -> list[tuple[int, str, M]]:
        """Sender, receiver and message of each message of this kind."""
        return [(i, op.to, op.message) for i, op in self.log if isinstance(op, Send) and isinstance(op.message, kind)]


class LateAnswers(Recorded):
    """ZooKeeper answers what b1 reads below `late` only when `answer_now` says so."""

    late = ""
    answers: list[ZkReplied]

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        if not (self.late and i == 1 and isinstance(effect, ZkRequest) and effect.ops[0].path.startswith(self.late)):
            return super()._perform(i, effect)
        answers, fired = self.zk.submit(self.sessions[i], effect.ops, atomic=effect.atomic)
        self.answers.append(ZkReplied(effect.id, answers))
        self.deliver_watches(fired)
        return None

    def answer_now(self) -> None:
        """Hand over the answers, and delay no later ones."""
        self.late = ""
        for answer in self.answers:
            self.handle_event(1, answer)
        self.settle()


def settled_cluster(variant: str = "isr-via-zookeeper", *, brokers: int = 4, min_isr: int = 1, log_dirs: int = 1) -> Recorded:
    """b1 is the controller and has no replica; b2 leads, b3 and b4 follow; all three are in the ISR."""
    lab = Recorded(brokers, variant=VARIANTS[variant], min_isr=min_isr, log_dirs=log_dirs)
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    assert (lab.isr(), lab.leaders(), lab.nodes[1].state.controller.step) == ([2, 3, 4], [2], "active")
    lab.clear_record()
    return lab


def restart_leader(lab: Lab) -> int:
    """Restart b2; the next leader, which is returned, is not the first member of the ISR."""
    crash_and_expire(lab, 2)
    lab.start(2)
    lab.wait(3000)
    assert lab.isr() == [2, 3, 4]
    return lab.leader()


def leader_of(lab: Lab, i: int = 2) -> Leader:
    """The leader state of t-0 on broker `i`."""
    role = lab.partition(i).role
    assert isinstance(role, Leader)
    return role


def shrink(lab: Lab, *gone: int, leader: int = 2) -> None:
    """Have the leader change its ISR to one without `gone`, whatever the lag of these followers."""
    state = lab.nodes[leader].state
    turn = Turn(Now(Millis(lab.now), Millis(lab.now)), state.ids, state.config, state.broker.incarnation)
    role = leader_of(lab, leader)
    isr._propose(turn, lab.partition(leader), role, tuple(member for member in role.isr if member.broker not in gone))
    isr_change.send_due(turn, state.broker)
    for effect in turn.effects:
        lab._perform(leader, effect)
