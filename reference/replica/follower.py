"""Following a leader: find where the logs part, cut there, fetch from there on (V3 §C becomeFollower, §G; KIP-101, 279, 320)."""

from typing import assert_never

from reference.effects import CancelTimer, Note, SetTimer
from reference.errors import ErrorCode
from reference.log import epoch_cache
from reference.log.log import last_record_epoch, without_head
from reference.machine import Turn
from reference.messages import EpochEnd, EpochEndReply, Fetch, FetchReply
from reference.replica import delayed, high_watermark
from reference.replica.partition import Follower, Idle, Leader, Partition, append, truncate
from reference.types import NO_EPOCH, NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, broker_address


def become(turn: Turn, partition: Partition, leader: BrokerId, epoch: LeaderEpoch) -> None:
    """V3 §C becomeFollower: stop serving, truncate, fetch from the new leader.

    Truncation comes before the first fetch of every epoch, also when the leader's id is the old one (KAFKA-7164).
    """
    if isinstance(partition.role, Leader):
        delayed.leadership_ended(turn, partition)
    partition.leader_epoch = epoch
    role = Follower(leader=leader, step="truncating")
    partition.role = role
    topic_id = partition.log.topic_id
    turn.note(Note(kind="became-follower", tp=partition.tp, topic_id=topic_id, leader_epoch=epoch, leader=leader))
    if turn.config.variant.truncation == "hw":
        # V3 §C becomeFollower: truncate the log to r.hw (U-01: the follower's HW lags by a fetch)
        truncate(turn, partition, partition.hw, "to its high watermark")
        role.step = "fetching"
    elif turn.config.variant.truncation == "fetch" or not partition.log.batches:
        role.step = "fetching"
    ask(turn, partition)


def resign(turn: Turn, partition: Partition, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
    """Neither lead nor follow until the controller says so; who waits here is answered with `error`."""
    if isinstance(partition.role, Idle):
        return
    if isinstance(partition.role, Leader):
        delayed.leadership_ended(turn, partition, error)
    partition.role = Idle()
    turn.effects.append(CancelTimer(f"fetch:{partition.tp}"))
    epoch, topic_id = partition.leader_epoch, partition.log.topic_id
    turn.note(Note(kind="resigned", tp=partition.tp, topic_id=topic_id, leader_epoch=epoch))


def ask(turn: Turn, partition: Partition) -> None:
    """Send the request that this follower's step calls for, and a timer to send it again."""
    role = partition.role
    if not isinstance(role, Follower):
        return
    config = turn.config
    if role.step == "fetching" and partition.before_ack and partition.flushed < partition.log.leo:
        # The fetch offset tells the leader what this replica holds: only what is flushed counts (docs/promise.md DUR-5).
        role.outstanding = 0
        turn.needs_flush(partition.log.dir)
        return
    role.outstanding = turn.correlation()
    wait = 0
    topic_id = partition.log.topic_id if config.variant.topic_id else NO_TOPIC_ID
    request: Fetch | EpochEnd
    if role.step == "truncating":
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
    timeout = config.request_timeout_ms + wait
    turn.effects.append(SetTimer(f"fetch:{partition.tp}", timeout, timeout))


def _back_off(turn: Turn, partition: Partition, role: Follower) -> None:
    role.outstanding = 0
    pause = turn.config.fetch_backoff_ms
    turn.effects.append(SetTimer(f"fetch:{partition.tp}", pause, 2 * pause))


def on_flushed(turn: Turn, partition: Partition) -> None:
    """What was appended is durable: the next fetch may say so."""
    role = partition.role
    if isinstance(role, Follower) and role.step == "fetching" and role.outstanding == 0:
        ask(turn, partition)


def on_epoch_end(turn: Turn, partition: Partition, reply: EpochEndReply) -> None:
    """The leader told where an epoch ended: cut, and ask again where the answer was about an earlier epoch (KIP-279)."""
    role = partition.role
    if not isinstance(role, Follower) or role.step != "truncating":
        return
    if reply.correlation != role.outstanding and turn.config.variant.epoch_end_recheck:
        return  # KAFKA-7786: an answer to an earlier epoch's question
    if reply.error is not ErrorCode.NONE:
        _back_off(turn, partition, role)
        return
    if _cut(turn, partition, reply):
        role.step = "fetching"
    ask(turn, partition)


def _cut(turn: Turn, partition: Partition, reply: EpochEndReply) -> bool:
    """Truncate by the answer; False where another question is needed."""
    match turn.config.variant.truncation:
        case "kip101":
            # KIP-101: no answer means no better than before, the high watermark (B-04)
            to = partition.hw if reply.end_offset is None else min(reply.end_offset, partition.log.leo)
            truncate(turn, partition, to, "by epoch (KIP-101)")
            return True
        case "kip279" | "kip320":
            if reply.end_offset is None:
                # B-09: a leader that has noted no epoch cannot tell where one ended, so nothing is cut
                assert not turn.config.variant.record_epoch_start, "KIP-279 always answers"
                return True
            return _cut_at(turn, partition, reply.leader_epoch, reply.end_offset)
        case "hw" | "fetch":
            return True
        case _ as unreachable:
            assert_never(unreachable)


def _cut_at(turn: Turn, partition: Partition, asked: LeaderEpoch, end_offset: Offset) -> bool:
    """KIP-279: cut where the largest epoch that both know ends; False where that is not found yet."""
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
    """V3 §G run(): append, take the leader's HW, fetch on."""
    role = partition.role
    if not isinstance(role, Follower) or role.step != "fetching" or reply.correlation != role.outstanding:
        return
    match reply.error:
        case ErrorCode.NONE if reply.diverging is not None:
            if turn.config.variant.hw_of_diverging:
                high_watermark.follow(turn, partition, reply.hw)  # KAFKA-14704 (B-13): over records that are about to go
            _cut_at(turn, partition, reply.diverging.leader_epoch, reply.diverging.end_offset)
            ask(turn, partition)
        case ErrorCode.NONE:
            # B-03: the leader's batches may be cut otherwise than those here, so that the first begins below the log end
            checked = turn.config.variant.append_check
            batches = without_head(reply.batches, partition.log.leo) if checked else reply.batches
            if batches and batches[0].base_offset < partition.log.leo and checked:
                # A sealed batch that only another history can have cut so: what is here of it goes, and the whole is fetched.
                truncate(turn, partition, batches[0].base_offset, "inside of the leader's batch")
                batches = ()
            if batches:
                append(turn, partition, batches, "follower")
            high_watermark.follow(turn, partition, reply.hw)
            ask(turn, partition)
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            # This log is longer than the leader's: look for the place to cut, as at the beginning of an epoch.
            role.step = "truncating"
            if turn.config.variant.out_of_range_resets:
                truncate(turn, partition, Offset(0), "out of the leader's range: begin anew")  # KAFKA-2143, B-16
                role.step = "fetching"
            elif turn.config.variant.truncation == "hw":
                truncate(turn, partition, min(partition.hw, reply.hw), "out of the leader's range")
                role.step = "fetching"
            _back_off(turn, partition, role)
        case _:
            _back_off(turn, partition, role)
