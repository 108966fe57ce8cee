"""Leading a partition: taking the role, serving fetches, appending records of producers (V3 §C becomeLeader, §G)."""

from operator import attrgetter

from msgspec.structs import replace

from reference.effects import CancelTimer, Disconnect
from reference.errors import ErrorCode
from reference.log import epoch_cache, producers
from reference.log.producers import Written
from reference.machine import Turn
from reference.messages import (
    Batch,
    Diverging,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    IsrMember,
    PartitionState,
    Produce,
    ProduceReply,
)
from reference.replica import delayed, high_watermark, isr
from reference.replica.partition import (
    FollowerProgress,
    Leader,
    ParkedFetch,
    ParkedProduce,
    Partition,
    append,
    brokers_of,
    is_of_another_topic,
    note_of,
    progress_of,
)
from reference.sealed import count
from reference.types import NO_EPOCH, NO_INCARNATION, NO_PRODUCER_ID, Address, Offset


def become(turn: Turn, partition: Partition, state: PartitionState) -> None:
    """Become leader of a partition: V3 §C becomeLeader.

    The fetcher stops with the old role (R-034): from here on no record of the old leader can be appended. ISR and version are
    those of the command (R-035). The LEO of a follower counts only after it has fetched in this epoch.
    """
    turn.effects.append(CancelTimer(f"fetch:{partition.tp}"))
    now = _lag_now(turn)
    if turn.config.variant.fetch_fencing:
        delayed.epoch_began(turn, partition)
    partition.leader_epoch = state.leader_epoch
    partition.controller_epoch = state.controller_epoch
    partition.replicas = state.replicas
    if turn.config.variant.record_epoch_start:
        # KAFKA-7415 (B-09): the epoch begins here even if no record is ever written in it
        epoch_cache.assign(partition.log.epochs, state.leader_epoch, partition.log.leo)
    if not turn.config.variant.idempotence_state_on_failover and not isinstance(partition.role, Leader):
        partition.log.producers.clear()  # B-66: only the last leader knew the sequences
    me = turn.config.broker
    isr = tuple(replace(m, incarnation=turn.incarnation) if m == IsrMember(me, NO_INCARNATION) else m for m in state.isr)
    leader = Leader(
        epoch_start=partition.log.leo,
        isr=isr,
        elr=state.elr,
        zk_version=state.zk_version,
        followers=[
            FollowerProgress(member.broker, member.incarnation, caught_up_ms=now, changed_ms=now, fetched_ms=now)
            for member in isr
            if member.broker != me
        ],
        knows_elr=not (turn.config.variant.broker_incarnation and IsrMember(me, NO_INCARNATION) in state.isr),
    )
    partition.role = leader
    became = note_of(partition, "became-leader")
    turn.note(replace(became, leader_epoch=state.leader_epoch, isr=brokers_of(state.isr)))
    high_watermark.advance(turn, partition, leader)


def _lag_now(turn: Turn) -> int:
    return turn.now.monotonic_ms if turn.config.variant.lag_clock == "monotonic" else turn.now.wall_ms


def on_fetch(turn: Turn, partition: Partition, source: Address, fetch: Fetch) -> None:
    """V3 §G on_ReplicaFetchRequest, and a consumer's fetch (R-036, R-078, R-136)."""
    error = _fetch_error(turn, partition, fetch)
    if error is not ErrorCode.NONE:
        reply = FetchReply(fetch.correlation, partition.tp, error, partition.leader_epoch, partition.hw)
        turn.send(source, reply)
        return
    assert isinstance(partition.role, Leader)
    if fetch.replica is not None:
        diverging = _divergence(partition, fetch)
        if diverging is None or turn.config.variant.leo_of_diverging:
            _record_progress(turn, partition, partition.role, fetch)
        if diverging is not None:
            # KAFKA-13141 (B-12): the follower holds other records below its fetch offset, so that offset does not count
            epoch, hw = partition.leader_epoch, partition.hw
            turn.send(source, FetchReply(fetch.correlation, partition.tp, ErrorCode.NONE, epoch, hw, diverging=diverging))
            return
    parked = ParkedFetch(
        source=source,
        correlation=fetch.correlation,
        replica=fetch.replica,
        offset=fetch.offset,
        max_records=fetch.max_records,
        deadline_ms=turn.now.monotonic_ms + fetch.max_wait_ms,
        max_bytes=fetch.max_bytes,
    )
    if not delayed.answer_fetch(turn, partition, parked):
        delayed.park_fetch(turn, partition, parked)


def _fetch_error(turn: Turn, partition: Partition, fetch: Fetch) -> ErrorCode:
    """The error that refuses a fetch of a follower or consumer, or NONE."""
    variant = turn.config.variant
    if is_of_another_topic(turn, partition, fetch.topic_id):
        return ErrorCode.UNKNOWN_TOPIC_ID if fetch.replica is None else ErrorCode.INCONSISTENT_TOPIC_ID
    if not isinstance(partition.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER  # V3 §G: NotLeaderException; only the leader serves
    if variant.fetch_fencing and fetch.leader_epoch != NO_EPOCH and fetch.leader_epoch != partition.leader_epoch:
        return _epoch_error(fetch.leader_epoch, partition)
    if fetch.replica is not None and variant.broker_incarnation:
        progress = progress_of(partition.role, fetch.replica)
        if progress is not None and fetch.incarnation < progress.incarnation:
            return ErrorCode.STALE_BROKER_EPOCH  # a delayed fetch of an earlier life of this follower
    if fetch.offset > partition.log.leo and fetch.last_epoch == NO_EPOCH:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if fetch.replica is None and fetch.offset > partition.hw and variant.fetch_between_hw_leo == "out_of_range":
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def _divergence(partition: Partition, fetch: Fetch) -> Diverging | None:
    """The offset where the follower's log diverges, if the fetch names its last epoch (KIP-595); None if it does not diverge."""
    if fetch.last_epoch == NO_EPOCH:
        return None
    epoch_end = epoch_cache.end_by_kip279(partition.log.epochs, fetch.last_epoch, partition.log.leo)
    if epoch_end is None or (epoch_end[0] == fetch.last_epoch and epoch_end[1] >= fetch.offset):
        return None
    return Diverging(*epoch_end)


def _epoch_error(epoch: int, partition: Partition) -> ErrorCode:
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def _record_progress(turn: Turn, partition: Partition, leader: Leader, fetch: Fetch) -> None:
    """Take the fetch offset as the follower's LEO, then grow the ISR and advance the HW where that allows it."""
    assert fetch.replica is not None
    now = _lag_now(turn)
    follower = progress_of(leader, fetch.replica)
    if follower is None:
        follower = FollowerProgress(fetch.replica, fetch.incarnation, caught_up_ms=0, changed_ms=now, fetched_ms=now)
        follower.leader_leo_then = partition.log.leo
        leader.followers.append(follower)
        leader.followers.sort(key=attrgetter("broker"))
    follower.incarnation = fetch.incarnation
    unknown = IsrMember(fetch.replica, NO_INCARNATION)  # as the leader was told in a layout without registrations
    if unknown in leader.isr:
        leader.isr = tuple(replace(m, incarnation=fetch.incarnation) if m == unknown else m for m in leader.isr)
    if follower.leo != fetch.offset:
        follower.changed_ms = now
    follower.leo = fetch.offset
    if fetch.offset >= partition.log.leo:
        follower.caught_up_ms = now
    elif fetch.offset >= follower.leader_leo_then:
        # The follower now holds every record that the leader had at the previous fetch: it was caught up then (KAFKA-7152).
        follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
    follower.fetched_ms = now
    follower.leader_leo_then = partition.log.leo
    isr.maybe_expand(turn, partition, leader, follower)
    if turn.config.variant.isr_shrink == "fetch":
        isr.maybe_shrink(turn, partition, leader)  # V3 §G on_ReplicaFetchRequest: the only place that shrinks (U-15)
    high_watermark.advance(turn, partition, leader)


def on_produce(turn: Turn, partition: Partition, source: Address, produce: Produce) -> None:
    """Append a producer's records under the leader's epoch; acknowledge as `acks` asks (R-134, R-140).

    A batch that an idempotent producer retries is not appended again. It is acknowledged like the first time: with its offset,
    and with acks=all only once it is committed (B-66).
    """
    leader = partition.role
    if is_of_another_topic(turn, partition, produce.topic_id):
        refuse(turn, source, produce, ErrorCode.UNKNOWN_TOPIC_ID)
        return
    if not isinstance(leader, Leader):
        refuse(turn, source, produce, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # the client looks up the leader again
        return
    if produce.acks not in (0, 1, -1):
        refuse(turn, source, produce, ErrorCode.INVALID_REQUIRED_ACKS)
        return
    if not produce.values:
        refuse(turn, source, produce, ErrorCode.INVALID_REQUEST)
        return
    checked = _sequence_check(turn, partition, produce)
    if isinstance(checked, Written):
        _await(turn, partition, source, produce, checked.base_offset)
        delayed.complete_produces(turn, partition, high_watermark.in_sync_for_min_isr(turn, leader))
        return
    if checked is not ErrorCode.NONE:
        refuse(turn, source, produce, checked)
        return
    in_sync = high_watermark.in_sync_for_min_isr(turn, leader)
    if produce.acks == -1 and turn.config.variant.min_isr_check != "none" and in_sync < partition.min_isr:
        refuse(turn, source, produce, ErrorCode.NOT_ENOUGH_REPLICAS)  # before the append: a definite failure (U-24)
        return
    base = partition.log.leo
    append(turn, partition, (_batch(turn, partition, produce),), "leader")
    _await(turn, partition, source, produce, base)
    delayed.complete_fetches(turn, partition)
    high_watermark.advance(turn, partition, leader)


def _sequence_check(turn: Turn, partition: Partition, produce: Produce) -> ErrorCode | Written:
    """The result of `producers.check`; NONE for a produce without a producer id."""
    variant = turn.config.variant
    if produce.producer_id == NO_PRODUCER_ID or not variant.idempotence:
        return ErrorCode.NONE
    return producers.check(partition.log.producers, produce, complete=variant.idempotence_state_on_failover)


def _batch(turn: Turn, partition: Partition, produce: Produce) -> Batch:
    """The batch that a produce appends at the log end; with idempotence it keeps the producer's id, epoch and sequence."""
    if not turn.config.variant.idempotence:
        return Batch(partition.log.leo, partition.leader_epoch, produce.values)
    return Batch(
        partition.log.leo,
        partition.leader_epoch,
        produce.values,
        producer_id=produce.producer_id,
        producer_epoch=produce.producer_epoch,
        base_sequence=produce.base_sequence,
    )


def _await(turn: Turn, partition: Partition, source: Address, produce: Produce, base: Offset) -> None:
    """Park a produce, whose records begin at offset `base`, until the replicas that its `acks` asks for have them."""
    if produce.acks == 0:
        return
    deadline = turn.now.monotonic_ms + produce.timeout_ms
    partition.produces.append(
        ParkedProduce(
            source=source,
            correlation=produce.correlation,
            acks=produce.acks,
            base_offset=base,
            end_offset=Offset(base + count(produce.values)),
            leader_epoch=partition.leader_epoch,
            deadline_ms=deadline,
        )
    )
    turn.due(deadline)


def refuse(turn: Turn, source: Address, produce: Produce, error: ErrorCode) -> None:
    """Refuse a produce with an error. With acks=0 there is no answer: the connection is closed instead (B-65, KAFKA-955)."""
    if produce.acks != 0:
        turn.send(source, ProduceReply(produce.correlation, produce.tp, error))
    elif not turn.config.variant.acks0_silent:
        turn.effects.append(Disconnect(source))


def on_epoch_end(turn: Turn, partition: Partition, source: Address, request: EpochEnd) -> None:
    """Answer OffsetForLeaderEpoch: where an epoch ended in the leader's log (KIP-101, KIP-279), fenced by KIP-320."""
    variant = turn.config.variant
    error = ErrorCode.NONE
    epoch, end = request.leader_epoch, None
    if is_of_another_topic(turn, partition, request.topic_id):
        error = ErrorCode.INCONSISTENT_TOPIC_ID
    elif not isinstance(partition.role, Leader):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif variant.truncation == "kip320" and request.current_leader_epoch not in (NO_EPOCH, partition.leader_epoch):
        error = _epoch_error(request.current_leader_epoch, partition)
    elif variant.truncation == "kip101":
        end = epoch_cache.end_by_kip101(partition.log.epochs, epoch, partition.log.leo)
    else:
        epoch_end = epoch_cache.end_by_kip279(partition.log.epochs, epoch, partition.log.leo)
        assert epoch_end is not None or not variant.record_epoch_start, "a leader's own epoch is in its cache"
        epoch, end = epoch_end or (epoch, None)
    turn.send(source, EpochEndReply(request.correlation, partition.tp, error, epoch, end))
