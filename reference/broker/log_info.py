"""How far the local logs reach: asked by the controller before it elects among replicas that have all been away."""

from reference.broker.broker import Broker
from reference.broker.leader_and_isr import command_error
from reference.errors import ErrorCode
from reference.log.log import last_record_epoch
from reference.machine import Turn
from reference.messages import LogEnd, LogInfo, LogInfoReply
from reference.types import Address


def on_log_info(turn: Turn, broker: Broker, source: Address, request: LogInfo) -> None:
    """The ends of the logs that exist."""
    error = command_error(turn, broker, request.controller_epoch, request.broker_incarnation)
    ends: tuple[LogEnd, ...] = ()
    if error is ErrorCode.NONE:
        found = (broker.partitions.get(tp) for tp in request.partitions)
        # All that is in the log counts, flushed or not: right after a start nothing is known to be flushed, and what was ever
        # acknowledged by this replica was.
        ends = tuple(
            LogEnd(p.tp, last_record_epoch(p.log), p.log.leo, p.log.born, p.log.topic_id) for p in found if p is not None
        )
    turn.send(source, LogInfoReply(request.correlation, error, ends))
