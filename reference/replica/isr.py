"""The leader grows and shrinks its ISR (V3 §G maybe_change_ISR): through the controller, or by a conditional write (C-24).

One change at a time. Who asks the controller (KIP-343) asks until it knows the state that came of it; the version in the
request makes copies harmless (U-13). Who writes: a change ends when ZooKeeper has applied it, or when it is certain that it
never will be: a write whose answer was lost is read back and, where it has not landed, sent again on the same version, because
the lost one may still land later. Until then the HW and min.insync.replicas count both ISRs (`high_watermark`).
"""

from reference.config import asks_controller
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, BadVersion, Data, GetData, SessionExpired, SetData, Unknown, Written
from reference.effects import Note, SetTimer, ZkRequest
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import IsrMember, IsrResult, PartitionState
from reference.replica import eligible, high_watermark
from reference.replica.partition import FollowerProgress, IsrChange, Leader, Partition, brokers_of, stable_leo
from reference.types import BrokerId, ZkVersion


def maybe_expand(turn: Turn, partition: Partition, leader: Leader, follower: FollowerProgress) -> None:
    """Take a follower in that has caught up (R-058)."""
    if leader.change is not None or follower.leo is None:
        return
    if turn.config.variant.isr_assigned_check and follower.broker not in partition.replicas:
        return  # B-38: its log is about to be deleted, and on an idle partition nothing would ever put it out again
    member = IsrMember(follower.broker, follower.incarnation)
    known = leader.isr if turn.config.variant.broker_incarnation else brokers_of(leader.isr)
    if (member if turn.config.variant.broker_incarnation else follower.broker) in known:
        return
    refused = follower.refused_ms
    if refused is not None and turn.now.monotonic_ms - refused < turn.config.request_timeout_ms:
        return  # the controller did not want it a moment ago: it has stopped, or is not seen there yet (KIP-841)
    if _may_join(turn, partition, leader, follower):
        others = tuple(m for m in leader.isr if m.broker != follower.broker)
        _propose(turn, partition, leader, tuple(sorted((*others, member))))


def _may_join(turn: Turn, partition: Partition, leader: Leader, follower: FollowerProgress) -> bool:
    assert follower.leo is not None
    match turn.config.variant.isr_join:
        case "epoch_start":
            # KAFKA-7128: right after an election the leader's HW may lie below what was committed, so that a replica at the
            # HW may lack committed records. All of them lie below the start of the leader's epoch.
            return follower.leo >= partition.hw and follower.leo >= leader.epoch_start
        case "hw_only":
            return follower.leo >= partition.hw
        case "v3_literal":
            # V3 §G maybe_change_ISR: r.leo - leo_min < MIN_BYTES_LAG holds for every replica that is behind (C-07)
            ends = [f.leo for f in leader.followers if f.leo is not None and f.broker in brokers_of(leader.isr)]
            return follower.leo - min([stable_leo(partition), *ends]) < 1


def maybe_shrink(turn: Turn, partition: Partition, leader: Leader) -> None:
    """Leave out followers that are too slow or silent (R-057, R-137), and go on with a change whose answer was lost."""
    if leader.change is not None:
        if leader.change.step == "lost" and not asks_controller(turn.config):
            _read_back(turn, partition, leader.change)
        return
    slow = _slow(turn, partition, leader)
    if turn.config.variant.isr_assigned_check:  # B-39: the ISR that the leader was given may be wider than what is assigned
        slow += [m.broker for m in leader.isr if m.broker not in (turn.config.broker, *partition.replicas)]
    if slow:
        _propose(turn, partition, leader, tuple(m for m in leader.isr if m.broker not in slow))


def _slow(turn: Turn, partition: Partition, leader: Leader) -> list[BrokerId]:
    config = turn.config
    now = turn.now.monotonic_ms if config.variant.lag_clock == "monotonic" else turn.now.wall_ms
    members = [f for f in leader.followers if f.broker in brokers_of(leader.isr)]
    if config.variant.lag_rule == "caught_up":
        return [f.broker for f in members if f.leo != partition.log.leo and now - f.caught_up_ms > config.replica_lag_time_max_ms]
    if config.variant.lag_rule == "last_fetch":
        # too many messages behind, or too long without a fetch; who fetches and never arrives stays
        ends = partition.log.leo - config.lag_max_records
        late = now - config.replica_lag_time_max_ms
        return [f.broker for f in members if f.fetched_ms < late or (f.leo is not None and f.leo < ends)]
    # V3 §G: only the replica with the smallest leo is looked at, also on a partition where nothing moves (B-41)
    known = [f for f in members if f.leo is not None]
    if not known:
        return [f.broker for f in members if now - f.changed_ms > config.replica_lag_time_max_ms]
    last = min(known, key=lambda f: (f.leo, f.broker))
    assert last.leo is not None
    behind = partition.log.leo - last.leo > config.lag_max_records
    return [last.broker] if behind or now - last.changed_ms > config.replica_lag_time_max_ms else []


def _propose(turn: Turn, partition: Partition, leader: Leader, wanted: tuple[IsrMember, ...]) -> None:
    """One change at a time, written only where there is one (C-08)."""
    elr = eligible.after(turn.config.variant, isr=leader.isr, elr=leader.elr, wanted=wanted, min_isr=partition.min_isr)
    asks = asks_controller(turn.config)
    leader.change = IsrChange(wanted=wanted, elr=elr, request=0 if asks else turn.zk_id())
    _note_sent(turn, partition, leader, wanted)
    if asks:
        turn.needs_isr_change(partition.tp)
    else:
        _write(turn, partition, leader, leader.change)


def _note_sent(turn: Turn, partition: Partition, leader: Leader, wanted: tuple[IsrMember, ...]) -> None:
    turn.note(
        Note(
            kind="isr-change-sent",
            tp=partition.tp,
            topic_id=partition.log.topic_id,
            leader_epoch=partition.leader_epoch,
            zk_version=leader.zk_version,
            isr=brokers_of(wanted),
        )
    )


def _write(turn: Turn, partition: Partition, leader: Leader, change: IsrChange) -> None:
    """Conditional on the version we know: after the controller has written, this can no longer land (V3 Discussion 3, R-071,
    R-076). Leader and epoch stay as they are: those are the controller's to change (R-004, R-065).
    """
    me = turn.config.broker
    state = PartitionState(
        tp=partition.tp,
        leader=me,
        leader_incarnation=turn.incarnation,
        leader_epoch=partition.leader_epoch,
        isr=change.wanted,
        controller_epoch=partition.controller_epoch,
        zk_version=leader.zk_version,
        replicas=partition.replicas,
        elr=change.elr,
    )
    op = SetData(paths.state_path(partition.tp), paths.state_payload(state), leader.zk_version)
    turn.effects.append(ZkRequest(change.request, (op,)))
    change.step = "writing"


def _read_back(turn: Turn, partition: Partition, change: IsrChange) -> None:
    change.step = "reading"
    change.request = turn.zk_id()
    turn.effects.append(ZkRequest(change.request, (GetData(paths.state_path(partition.tp)),)))


def resume(turn: Turn, partition: Partition) -> None:
    """The connection to ZooKeeper is back: look what became of a lost write."""
    leader = partition.role
    if asks_controller(turn.config):
        return
    if isinstance(leader, Leader) and leader.change is not None and leader.change.step == "lost":
        _read_back(turn, partition, leader.change)


# --- the controller's word ---------------------------------------------------------------------------------------------------


def on_result(turn: Turn, partition: Partition, leader: Leader, result: IsrResult) -> None:
    """What the controller made of the change in flight. What counts is the state it tells of, applied or not.

    A state of this epoch with a later version ends the change: no copy of it can be applied any more. Where a change was
    refused and the version has not moved, a copy that is still on its way may yet be applied, to a controller that thinks
    otherwise by then: the change is withdrawn by asking for the ISR as it is, which moves the version.
    """
    change, state = leader.change, result.state
    assert change is not None
    mine = state is not None and state.leader_epoch == partition.leader_epoch and state.leader == turn.config.broker
    if state is not None and mine and state.zk_version > leader.zk_version:
        how = "applied" if result.error is ErrorCode.NONE else "read-back"
        _ended(turn, partition, leader, isr=state.isr, elr=state.elr, version=state.zk_version, how=how)
    elif state is not None and state.leader_epoch > partition.leader_epoch:
        change.step = "superseded"  # the command for that epoch is on its way
    elif result.error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST):
        _withdraw(turn, partition, leader, change)
    elif turn.config.variant.isr_change_zombie == "authoritative":
        change.step = "superseded"  # B-55: who says no is believed, whatever it knows
    else:
        # KAFKA-14154: it knows of less than we do, so it is no controller, or will not be for long
        ask_later(turn, partition, leader)


def _withdraw(turn: Turn, partition: Partition, leader: Leader, change: IsrChange) -> None:
    for follower in leader.followers:
        if any(m.broker == follower.broker and m not in leader.isr for m in change.wanted):
            follower.refused_ms = turn.now.monotonic_ms
    if change.wanted != leader.isr:
        change.earlier = (*change.earlier, change.wanted)
        change.wanted, change.elr = leader.isr, leader.elr
        _note_sent(turn, partition, leader, change.wanted)
    turn.needs_isr_change(partition.tp)


def take_unasked(turn: Turn, partition: Partition, leader: Leader, result: IsrResult) -> None:
    """B-32, KAFKA-12686: a command cleared the change in flight, and the answer to it is applied all the same."""
    if result.error is ErrorCode.NONE and result.state is not None:
        state = result.state
        _ended(turn, partition, leader, isr=state.isr, elr=state.elr, version=state.zk_version, how="applied")
    elif leader.change is not None:
        on_result(turn, partition, leader, result)


def ask_later(turn: Turn, partition: Partition, leader: Leader) -> None:
    """Ask again after a pause."""
    assert leader.change is not None
    leader.change.step = "lost"
    pause = turn.config.retry_backoff_ms
    turn.effects.append(SetTimer(f"ask-isr:{partition.tp}", pause, 2 * pause))


def ask_again(turn: Turn, partition: Partition, leader: Leader) -> None:
    """The same once more, on the same version: at most one of all its copies is applied."""
    if leader.change is not None and leader.change.step in ("asking", "lost") and asks_controller(turn.config):
        turn.needs_isr_change(partition.tp)


# --- ZooKeeper's word --------------------------------------------------------------------------------------------------------


def on_answer(turn: Turn, partition: Partition, leader: Leader, answer: AnyAnswer) -> None:
    """ZooKeeper answered the request of the change in flight: what it has not taken is not the ISR (R-059)."""
    change = leader.change
    assert change is not None
    match answer:
        case Written(version=version):
            _ended(turn, partition, leader, isr=change.wanted, elr=change.elr, version=ZkVersion(version), how="applied")
        case BadVersion() if not turn.config.variant.isr_version_reread:
            # the letter of V3: try again later, with the version that has just been refused (B-40)
            _ended(turn, partition, leader, isr=leader.isr, elr=leader.elr, version=leader.zk_version, how="refused")
        case BadVersion():
            _read_back(turn, partition, change)
        case Unknown():
            change.step = "lost"
        case Data():
            _compare(turn, partition, leader, answer)
        case SessionExpired():
            change.step = "lost"  # the node lays down its roles when it hears of the expiry
        case _:
            change.step = "superseded"  # the znode is gone: the topic was deleted


def _compare(turn: Turn, partition: Partition, leader: Leader, node: Data) -> None:
    change = leader.change
    assert change is not None
    found = paths.decode_state(partition.tp, partition.replicas, node)
    if found.leader_epoch != partition.leader_epoch or found.leader != turn.config.broker:
        # The controller wrote in between: our write never lands, and no ISR of this epoch is ours to change any more. Its
        # command is on the way; until it comes, both ISRs keep counting.
        change.step = "superseded"
    elif found.zk_version == leader.zk_version:
        change.request = turn.zk_id()
        _write(turn, partition, leader, change)
    else:
        _ended(turn, partition, leader, isr=found.isr, elr=found.elr, version=found.zk_version, how="read-back")


def _ended(
    turn: Turn,
    partition: Partition,
    leader: Leader,
    *,
    isr: tuple[IsrMember, ...],
    elr: tuple[IsrMember, ...],
    version: ZkVersion,
    how: str,
) -> None:
    leader.isr = isr
    leader.elr = elr
    leader.zk_version = version
    leader.change = None
    turn.note(
        Note(
            kind="isr-change-ended",
            tp=partition.tp,
            topic_id=partition.log.topic_id,
            leader_epoch=partition.leader_epoch,
            zk_version=version,
            isr=brokers_of(isr),
            detail=how,
        )
    )
    if turn.config.variant.recheck_hw_after_isr:
        high_watermark.advance(turn, partition, leader)  # KAFKA-13091, B-25: no fetch may come that would do it
