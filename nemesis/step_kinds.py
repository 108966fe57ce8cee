"""The kinds of faults that strike at a named step: a request to ZooKeeper, its answer, and the effect before or after it.

Such a fault waits for the step; if no broker that it hits comes to it while the window is open, it does nothing. So each of these
faults has another one beside it that leads to such steps: the controller's session ends where the step belongs to its election,
else a broker of the partition aimed at is lost for a moment.
"""

from dataclasses import replace
from typing import get_args

from history.seed import Rng
from nemesis.blows import (
    Aim,
    Blow,
    Kind,
    above_session,
    around_session,
    below_session,
    isr_member,
    lasting,
    leader,
    some_role,
)
from nemesis.faults import AnswerLate, AnswerLost, AnyFault, CrashAt, DeposedAt, ExpireSession, Restart, ZkStep
from nemesis.targets import AnyTarget, Controller, Everyone

_ELECTION: tuple[ZkStep, ...] = ("controller-election", "controller-epoch", "registration")
_WRITES: tuple[ZkStep, ...] = ("partition-state", "partition-state", "partition-state", "topic", "admin", "reassignment")
_READS: tuple[ZkStep, ...] = ("read-partition-state", "read-partition-state", "read-topic", "read-brokers", "read-admin")
_NTH_MAX = 3  # a procedure often repeats a step at once, so that the first is not always the one to strike
_AFTER_MS_MAX = 1000  # from the begin of the window to the fault that leads to its step
_BRIEF_MS = 1000


def _whom(rng: Rng, aim: Aim) -> AnyTarget:
    return Controller() if rng.ratio(2, 3) else some_role(rng, aim)


def _with_election(rng: Rng, blow: Blow) -> Blow:
    """Let a controller be elected while the fault is in force: the present one loses its session."""
    return replace(blow, target=Everyone(), beside=(_after(rng, blow, ExpireSession(), Controller()),))


def _with_work(rng: Rng, aim: Aim, blow: Blow) -> Blow:
    """Let states be written and read while the fault is in force: a broker of the partition ends its session or restarts."""
    faults: tuple[AnyFault, ...] = (ExpireSession(), Restart(), Restart(session_ends=True))
    whom = rng.pick((leader, isr_member))(rng, aim)
    return replace(blow, beside=(_after(rng, blow, rng.pick(faults), whom),))


def _after(rng: Rng, blow: Blow, fault: AnyFault, target: AnyTarget) -> Blow:
    after_ms = rng.between(1, min(_AFTER_MS_MAX, blow.lasts_ms - 1))
    return Blow(fault=fault, target=target, lasts_ms=_BRIEF_MS, after_ms=after_ms)


def _answer_lost(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: a write that ZooKeeper performs and whose answer is lost."""
    if rng.ratio(1, 4):
        return _with_election(
            rng, Blow(fault=AnswerLost(step=rng.pick(_ELECTION)), target=Everyone(), lasts_ms=above_session(rng, aim.shape))
        )
    loss = AnswerLost(step=rng.pick(_WRITES), nth=rng.between(1, _NTH_MAX))
    return _with_work(rng, aim, Blow(fault=loss, target=_whom(rng, aim), lasts_ms=lasting(rng, aim.shape)))


def _answer_late(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: commands of the controller and requests of brokers overtake the answer to a read, or to a write."""
    steps = _READS if rng.ratio(3, 4) else _WRITES
    late_answer = AnswerLate(step=rng.pick(steps), nth=rng.between(1, _NTH_MAX))
    return _with_work(rng, aim, Blow(fault=late_answer, target=_whom(rng, aim), lasts_ms=below_session(rng, aim.shape)))


def _deposed_blow(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: another broker is elected controller while a write of the present one is on its way."""
    deposed = DeposedAt(step=rng.pick(_WRITES), nth=rng.between(1, _NTH_MAX))
    return _with_work(rng, aim, Blow(fault=deposed, target=Controller(), lasts_ms=around_session(rng, aim.shape)))


def _crash(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: a crash right before or right after a request to ZooKeeper at a named step."""
    step, before = rng.pick(get_args(ZkStep)), rng.ratio(1, 2)
    lasts_ms = around_session(rng, aim.shape)
    if step in _ELECTION:
        point = CrashAt(effect=f"zk-request:{step}", before=before)
        return _with_election(rng, Blow(fault=point, target=Everyone(), lasts_ms=above_session(rng, aim.shape)))
    point = CrashAt(effect=f"zk-request:{step}", nth=rng.between(1, _NTH_MAX), before=before)
    return _with_work(rng, aim, Blow(fault=point, target=_whom(rng, aim), lasts_ms=lasts_ms))


KINDS: tuple[Kind, ...] = (
    Kind(
        name="answer-lost",
        says="the answer of ZooKeeper to a write at a named step is lost",
        draw=_answer_lost,
    ),
    Kind(
        name="answer-late",
        says="commands overtake ZooKeeper's answer to a request at a named step",
        draw=_answer_late,
    ),
    Kind(
        name="deposed-writing",
        says="another controller is elected while a write of the present one is on its way",
        draw=_deposed_blow,
    ),
    Kind(
        name="crash-at-step",
        says="kill -9 right before or after a request to ZooKeeper at a named step",
        draw=_crash,
    ),
)
