"""How far the local logs reach: asked by the controller before it elects among replicas that have all been away."""

from reference.broker import log_dirs
from reference.broker.broker import Broker
from reference.broker.leader_and_isr import command_error
from reference.errors import ErrorCode
from reference.log.log import last_record_epoch
from reference.machine import Turn
from reference.messages import LogEnd, LogInfo, LogInfoReply
from reference.types import Address, TopicPartition


def on_log_info(turn: Turn, broker: Broker, source: Address, request: LogInfo) -> None:
    """The ends of the logs that exist. One in a bad directory is not gone: it must be waited for (docs/promise.md SILENT-1)."""
    error = command_error(turn, broker, request.controller_epoch, request.broker_incarnation)
    ends: tuple[LogEnd, ...] = ()
    offline: tuple[TopicPartition, ...] = ()
    if error is ErrorCode.NONE:
        offline = tuple(tp for tp in request.partitions if log_dirs.is_offline(broker, tp))
        found = (broker.partitions.get(tp) for tp in request.partitions if tp not in offline)
        # All that is in the log counts, flushed or not: right after a start nothing is known to be flushed, and what was ever
        # acknowledged by this replica was.
        ends = tuple(
            LogEnd(p.tp, last_record_epoch(p.log), p.log.leo, p.log.born, p.log.topic_id) for p in found if p is not None
        )
    turn.send(source, LogInfoReply(request.correlation, error, ends, offline))
