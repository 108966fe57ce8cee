"""The controller's requests to ZooKeeper that are not answered yet, each with the procedure that waits for the answer.

A procedure has at most one request outstanding. Where the answer is lost, the procedure keeps its step and has no request
outstanding; the retry timer then takes it up again.
"""

from reference.controller.context import AnyPending, Controller, Outstanding
from reference.coordination import paths
from reference.coordination.api import AnyOp, Check
from reference.effects import Note, ZkRequest
from reference.machine import Turn
from reference.timers import Timer, name_of


def ask(turn: Turn, controller: Controller, pending: AnyPending, ops: tuple[AnyOp, ...], *, atomic: bool = False) -> None:
    """Send ZooKeeper a request of a controller's procedure. An answer to its earlier request is ignored from now on."""
    _send(turn, controller, Outstanding(request=turn.zk_id(), pending=pending), ops, atomic=atomic)


def write(turn: Turn, controller: Controller, pending: AnyPending, ops: tuple[AnyOp, ...], *, atomic: bool = False) -> None:
    """Send ZooKeeper a write; `zk_guard`: it checks /controller_epoch, so that a deposed controller writes nothing (KAFKA-6082).

    The answer to the check is taken off before the procedure gets the answers.
    """
    guarded = turn.config.variant.zk_guard
    check = (Check(paths.CONTROLLER_EPOCH, controller.epoch_version),) if guarded else ()
    sent = Outstanding(request=turn.zk_id(), pending=pending, guarded=guarded)
    _send(turn, controller, sent, (*check, *ops), atomic=atomic or guarded)


def _send(turn: Turn, controller: Controller, sent: Outstanding, ops: tuple[AnyOp, ...], *, atomic: bool) -> None:
    controller.outstanding = [other for other in controller.outstanding if other.pending != sent.pending]
    controller.outstanding.append(sent)
    turn.effects.append(ZkRequest(sent.request, ops, atomic))


def sent_with(controller: Controller, request: int) -> Outstanding | None:
    """The unanswered request to ZooKeeper with this id; None if the controller awaits no answer to it."""
    return next((sent for sent in controller.outstanding if sent.request == request), None)


def is_outstanding(controller: Controller, pending: AnyPending) -> bool:
    """Whether a procedure of the controller waits for ZooKeeper; False if the answer was lost."""
    return any(sent.pending == pending for sent in controller.outstanding)


def refuse(turn: Turn, path: str, why: str) -> None:
    """Note that the request in this znode, or a part of it, is deleted and not carried out: it is malformed (KAFKA-2234)."""
    turn.note(Note(kind="request-refused", detail=f"{path}: {why}"))


def retry_later(turn: Turn) -> None:
    """Arm the timer that repeats every step of the controller whose ZooKeeper answer was lost."""
    turn.retry(name_of(Timer.CONTROLLER_RETRY))
