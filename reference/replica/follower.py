"""Following a leader: find the offset where the logs diverge, truncate, fetch (V3 §C becomeFollower, §G; KIP-101, 279, 320).

The steps of a follower:

    state             event                                           next          effects               by
    new               a command names another leader or epoch         truncating    EpochEnd              become
    truncating        truncation=hw, truncation=fetch, or no batch    fetching      Fetch                 become
    truncating        the logs agree up to here                       fetching      Fetch                 on_epoch_end
    fetching          OFFSET_OUT_OF_RANGE                             truncating    EpochEnd, later       on_fetched
    truncating        truncation=hw, or the log begins anew           fetching      Fetch, later          on_fetched
"""

from typing import assert_never

from reference.effects import CancelTimer, Note, SetTimer
from reference.errors import ErrorCode
from reference.log import epoch_cache
from reference.log.log import last_record_epoch, without_head
from reference.machine import Turn
from reference.messages import EpochEnd, EpochEndReply, Fetch, FetchReply
from reference.replica import delayed, high_watermark
from reference.replica.partition import Follower, FollowerStep, Idle, Leader, Partition, append, truncate
from reference.types import NO_EPOCH, NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, broker_address


def become(turn: Turn, partition: Partition, leader: BrokerId, epoch: LeaderEpoch) -> None:
    """V3 §C becomeFollower: stop serving, truncate, fetch from the new leader.

    Truncation precedes the first fetch of every epoch, also if the leader's id is unchanged (KAFKA-7164).
    """
    if isinstance(partition.role, Leader):
        delayed.leadership_ended(turn, partition)
    partition.leader_epoch = epoch
    role = Follower(leader=leader, step=FollowerStep.TRUNCATING)
    partition.role = role
    topic_id = partition.log.topic_id
    turn.note(Note(kind="became-follower", tp=partition.tp, topic_id=topic_id, leader_epoch=epoch, leader=leader))
    if turn.config.variant.truncation == "hw":
        # V3 §C becomeFollower: truncate the log to r.hw (U-01: the follower's HW lags by a fetch)
        truncate(turn, partition, partition.hw, "to its high watermark")
        role.step = FollowerStep.FETCHING
    elif turn.config.variant.truncation == "fetch" or not partition.log.batches:
        role.step = FollowerStep.FETCHING
    ask(turn, partition)


def resign(turn: Turn, partition: Partition, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
    """Stop leading or following until the next command; requests parked here are answered with `error`."""
    if isinstance(partition.role, Idle):
        return
    if isinstance(partition.role, Leader):
        delayed.leadership_ended(turn, partition, error)
    partition.role = Idle()
    turn.effects.append(CancelTimer(f"fetch:{partition.tp}"))
    epoch, topic_id = partition.leader_epoch, partition.log.topic_id
    turn.note(Note(kind="resigned", tp=partition.tp, topic_id=topic_id, leader_epoch=epoch))


def ask(turn: Turn, partition: Partition) -> None:
    """Send the request of the follower's current step, and arm the timer that sends it again."""
    role = partition.role
    if not isinstance(role, Follower):
        return
    config = turn.config
    if role.step is FollowerStep.FETCHING and partition.before_ack and partition.flushed < partition.log.leo:
        # The fetch offset tells the leader what this replica holds: only flushed records count (docs/promise.md DUR-5).
        role.outstanding = 0
        turn.needs_flush(partition.log.dir)
        return
    role.outstanding = turn.correlation()
    wait = 0
    topic_id = partition.log.topic_id if config.variant.topic_id else NO_TOPIC_ID
    request: Fetch | EpochEnd
    if role.step is FollowerStep.TRUNCATING:
        fenced = config.variant.truncation == "kip320"
        request = EpochEnd(
            role.outstanding,
            partition.tp,
            config.broker,
            partition.leader_epoch if fenced else NO_EPOCH,
            last_record_epoch(partition.log),
            topic_id,
        )
    else:
        wait = config.fetch_wait_max_ms
        request = Fetch(
            role.outstanding,
            partition.tp,
            config.broker,
            turn.incarnation,
            partition.leader_epoch if config.variant.fetch_fencing else NO_EPOCH,
            partition.log.leo,
            config.fetch_wait_max_ms,
            config.fetch_max_records,
            topic_id,
            last_record_epoch(partition.log) if config.variant.truncation == "fetch" else NO_EPOCH,
            config.fetch_max_bytes,
        )
    turn.send(broker_address(role.leader), request)
    turn.arm(f"fetch:{partition.tp}", config.request_timeout_ms + wait)


def _back_off(turn: Turn, partition: Partition, role: Follower) -> None:
    role.outstanding = 0
    pause = turn.config.fetch_backoff_ms
    turn.effects.append(SetTimer(f"fetch:{partition.tp}", pause, 2 * pause))


def on_flushed(turn: Turn, partition: Partition) -> None:
    """The follower's appended records are durable: send the next fetch, which waited for that."""
    role = partition.role
    if isinstance(role, Follower) and role.step is FollowerStep.FETCHING and role.outstanding == 0:
        ask(turn, partition)


def on_epoch_end(turn: Turn, partition: Partition, reply: EpochEndReply) -> None:
    """The leader answered where an epoch ended: truncate, and ask again if the answer names an earlier epoch (KIP-279)."""
    role = partition.role
    if not isinstance(role, Follower) or role.step is not FollowerStep.TRUNCATING:
        return
    if reply.correlation != role.outstanding and turn.config.variant.epoch_end_recheck:
        return  # KAFKA-7786: the answer belongs to a request of an earlier epoch
    if reply.error is not ErrorCode.NONE:
        _back_off(turn, partition, role)
        return
    if _truncate_by(turn, partition, reply):
        role.step = FollowerStep.FETCHING
    ask(turn, partition)


def _truncate_by(turn: Turn, partition: Partition, reply: EpochEndReply) -> bool:
    """Truncate by the answer; False if the follower must ask again."""
    match turn.config.variant.truncation:
        case "kip101":
            # KIP-101: without an answer the follower truncates to its high watermark, as before (B-04)
            to = partition.hw if reply.end_offset is None else min(reply.end_offset, partition.log.leo)
            truncate(turn, partition, to, "by epoch (KIP-101)")
            return True
        case "kip279" | "kip320":
            if reply.end_offset is None:
                # B-09: a leader with an empty epoch cache cannot tell where an epoch ended, so nothing is truncated
                assert not turn.config.variant.record_epoch_start, "KIP-279 always answers"
                return True
            return _cut_at(turn, partition, reply.leader_epoch, reply.end_offset)
        case "hw" | "fetch":
            return True
        case _ as unreachable:
            assert_never(unreachable)


def _cut_at(turn: Turn, partition: Partition, asked: LeaderEpoch, end_offset: Offset) -> bool:
    """KIP-279: truncate a follower to the end of the largest epoch in both logs; False if it is not found yet."""
    mine = epoch_cache.end_by_kip279(partition.log.epochs, asked, partition.log.leo)
    if mine is None:
        return True  # the log is empty
    epoch, end = mine
    if epoch == asked:
        truncate(turn, partition, Offset(min(end, end_offset)), "by epoch (KIP-279)")
        return True
    truncate(turn, partition, end, "by epoch (KIP-279)")
    return not partition.log.batches


def on_fetched(turn: Turn, partition: Partition, reply: FetchReply) -> None:
    """V3 §G run(): append the fetched records, take the leader's HW, fetch on."""
    role = partition.role
    if not isinstance(role, Follower) or role.step is not FollowerStep.FETCHING or reply.correlation != role.outstanding:
        return
    match reply.error:
        case ErrorCode.NONE if reply.diverging is not None:
            if turn.config.variant.hw_of_diverging:
                high_watermark.follow(turn, partition, reply.hw)  # KAFKA-14704 (B-13): over records about to be truncated
            _cut_at(turn, partition, reply.diverging.leader_epoch, reply.diverging.end_offset)
            ask(turn, partition)
        case ErrorCode.NONE:
            # B-03: the leader's batch boundaries may differ from those here, so the first batch may begin below the log end
            checked = turn.config.variant.append_check
            batches = without_head(reply.batches, partition.log.leo) if checked else reply.batches
            if batches and batches[0].base_offset < partition.log.leo and checked:
                # A sealed batch that begins below the log end: the records here are of another history. Truncate and fetch it.
                truncate(turn, partition, batches[0].base_offset, "inside of the leader's batch")
                batches = ()
            if batches:
                append(turn, partition, batches, "follower")
            high_watermark.follow(turn, partition, reply.hw)
            ask(turn, partition)
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            # This log is longer than the leader's: find the offset to truncate to, as at the beginning of an epoch.
            role.step = FollowerStep.TRUNCATING
            if turn.config.variant.out_of_range_resets:
                truncate(turn, partition, Offset(0), "out of the leader's range: begin anew")  # KAFKA-2143, B-16
                role.step = FollowerStep.FETCHING
            elif turn.config.variant.truncation == "hw":
                truncate(turn, partition, min(partition.hw, reply.hw), "out of the leader's range")
                role.step = FollowerStep.FETCHING
            _back_off(turn, partition, role)
        case _:
            _back_off(turn, partition, role)
