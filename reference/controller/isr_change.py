"""Leaders propose another ISR (KIP-343 IsrChangeRequest, R-192): checks of a request as a whole.

`proposals` judges each partition after its state was read from ZooKeeper: a controller that was replaced without knowing it must
not refuse by its memory (B-55, KAFKA-14154).
"""

from reference.controller import leader_election, proposals
from reference.controller.context import Controller, ControllerStep, IsrRequest
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import IsrChange, IsrChangeReply, IsrResult
from reference.types import Address


def on_isr_change(turn: Turn, controller: Controller, source: Address, asked: IsrChange) -> None:
    """A leader's IsrChangeRequest (R-197): refuse it as a whole, or queue each proposed ISR for its partition."""
    error, words = _refusal(turn, controller, asked)
    if error is not ErrorCode.NONE:
        turn.send(source, IsrChangeReply(asked.correlation, error, words))
        return
    # A leader that asks again no longer waits for the answer to the earlier request.
    tps = {change.tp for change in asked.changes}
    others = [r for r in controller.isr_requests if r.source != source or not {c.tp for c in r.asked.changes} <= tps]
    request = IsrRequest(source=source, asked=asked, results=[None] * len(asked.changes))
    controller.isr_requests = [*others, request]
    if turn.config.variant.isr_change_zombie == "authoritative":
        _judge_from_memory(turn, controller, request)
    for place, change in enumerate(asked.changes):
        if request.results[place] is None:
            leader_election.start(turn, controller, change.tp)
    proposals.answer(turn, controller)


def _refusal(turn: Turn, controller: Controller, request: IsrChange) -> tuple[ErrorCode, str | None]:
    """The error and words that refuse the request as a whole, or NONE."""
    if controller.step is not ControllerStep.ACTIVE:
        return ErrorCode.NOT_CONTROLLER, "this broker is not the controller"
    registered = next((b.incarnation for b in controller.live if b.broker == request.broker), None)
    if turn.config.variant.broker_incarnation and registered != request.incarnation:
        # another process has registered under this id, or no process
        return ErrorCode.INVALID_INCARNATION_ID, f"broker {request.broker} is not registered under {request.incarnation}"
    return ErrorCode.NONE, None


def _judge_from_memory(turn: Turn, controller: Controller, request: IsrRequest) -> None:
    """B-55: judge a proposed ISR by the state in memory, which may be older than that of a later controller."""
    for place, change in enumerate(request.asked.changes):
        state = controller.states.get(change.tp)
        if state is None:
            continue
        error = proposals.judge(turn, controller, request, change, state)
        if error is ErrorCode.NOT_CONTROLLER:
            error = ErrorCode.INVALID_UPDATE_VERSION
        if error is not ErrorCode.NONE:
            request.results[place] = IsrResult(error, None, state)
