"""The leader grows and shrinks its ISR (V3 §G maybe_change_ISR): through the controller, or by a conditional write (C-24).

One change at a time. Through the controller (KIP-343) the leader repeats its request until it knows the resulting state; the
version in the request makes copies harmless (U-13). A write to ZooKeeper ends when ZooKeeper has applied it or certainly never
will. If the answer was lost, the leader reads the znode back; if the write has not landed, the leader sends it again on the same
version, because the lost copy may still land. Until the change ends, the HW and min.insync.replicas count both ISRs
(`high_watermark`).

    state                 event                                   next         effects                    by
    new, reading          without KIP-343, or to send it again    writing      write on the known         _write
                                                                               version
    new, writing, lost    the ELR is not known (R-316), the       reading      read the state             _read_back
                          version moved, or no answer
    writing, asking,      with KIP-343: due, or to ask again      asking       IsrChange to the           isr_change.send_due
      lost                                                                     controller
    asking                no result that ends it                  lost         ask again after a pause    ask_later
    writing, reading      no answer, or the session ends          lost                                    on_answer
    writing, reading      the znode is gone                       superseded                              on_answer
    reading               another leader or epoch is in the       superseded                              _compare
                          state
    asking                a later epoch, or (B-55) any refusal    superseded                              on_result
    any                   the change is applied or refused        gone         HW may advance             _finish
"""

from reference.config import asks_controller
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, BadVersion, Data, GetData, SessionExpired, SetData, Unknown, Written
from reference.effects import Note, ZkRequest
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import IsrMember, IsrResult, PartitionState
from reference.replica import eligible, high_watermark
from reference.replica.partition import FollowerProgress, IsrChange, IsrStep, Leader, Partition, brokers_of, stable_leo
from reference.types import BrokerId, ZkVersion


def maybe_expand(turn: Turn, partition: Partition, leader: Leader, follower: FollowerProgress) -> None:
    """Propose a follower that has caught up as a member (R-058)."""
    if leader.change is not None or follower.leo is None:
        return
    if turn.config.variant.isr_assigned_check and follower.broker not in partition.replicas:
        return  # B-38: its log is about to be deleted, and on an idle partition it would stay in the ISR
    member = IsrMember(follower.broker, follower.incarnation)
    members = leader.isr if turn.config.variant.broker_incarnation else brokers_of(leader.isr)
    if (member if turn.config.variant.broker_incarnation else follower.broker) in members:
        return
    refused = follower.refused_ms
    if refused is not None and turn.now.monotonic_ms - refused < turn.config.request_timeout_ms:
        return  # the controller refused it recently: the follower stops, or the controller has not seen it yet (KIP-841)
    if _may_join(turn, partition, leader, follower):
        others = tuple(m for m in leader.isr if m.broker != follower.broker)
        _propose(turn, partition, leader, tuple(sorted((*others, member))))


def _may_join(turn: Turn, partition: Partition, leader: Leader, follower: FollowerProgress) -> bool:
    """Whether the follower has caught up far enough to enter the ISR, by the variant's rule."""
    assert follower.leo is not None
    match turn.config.variant.isr_join:
        case "epoch_start":
            # KAFKA-7128: right after an election the leader's HW may be below the last committed record, so a replica at the
            # HW may lack committed records. All of them are below the start of the leader's epoch.
            return follower.leo >= partition.hw and follower.leo >= leader.epoch_start
        case "hw_only":
            return follower.leo >= partition.hw
        case "v3_literal":
            # V3 §G maybe_change_ISR: r.leo - leo_min < MIN_BYTES_LAG holds for every replica that is behind (C-07)
            ends = [f.leo for f in leader.followers if f.leo is not None and f.broker in brokers_of(leader.isr)]
            return follower.leo - min([stable_leo(partition), *ends]) < turn.config.lag_min_records


def maybe_shrink(turn: Turn, partition: Partition, leader: Leader) -> None:
    """Propose an ISR without lagging or silent followers (R-057, R-137); read back a write whose answer was lost."""
    if leader.change is not None:
        if leader.change.step is IsrStep.LOST and not asks_controller(turn.config):
            _read_back(turn, partition, leader.change)
        return
    slow = _laggards(turn, partition, leader)
    if turn.config.variant.isr_assigned_check:  # B-39: the ISR in the command may be wider than the assignment
        slow += [m.broker for m in leader.isr if m.broker not in (turn.config.broker, *partition.replicas)]
    if slow:
        _propose(turn, partition, leader, tuple(m for m in leader.isr if m.broker not in slow))


def _laggards(turn: Turn, partition: Partition, leader: Leader) -> list[BrokerId]:
    """The members of the ISR that lag, by the variant's rule and clock."""
    config = turn.config
    now = turn.now.monotonic_ms if config.variant.lag_clock == "monotonic" else turn.now.wall_ms
    members = [f for f in leader.followers if f.broker in brokers_of(leader.isr)]
    if config.variant.lag_rule == "caught_up":
        return [f.broker for f in members if f.leo != partition.log.leo and now - f.caught_up_ms > config.replica_lag_time_max_ms]
    if config.variant.lag_rule == "last_fetch":
        # too many messages behind, or too long without a fetch; a follower that fetches but never catches up stays
        ends = partition.log.leo - config.lag_max_records
        late = now - config.replica_lag_time_max_ms
        return [f.broker for f in members if f.fetched_ms < late or (f.leo is not None and f.leo < ends)]
    # V3 §G: only the replica with the smallest leo is checked, also on an idle partition (B-41)
    fetching = [f for f in members if f.leo is not None]
    if not fetching:
        return [f.broker for f in members if now - f.changed_ms > config.replica_lag_time_max_ms]
    last = min(fetching, key=lambda f: (f.leo, f.broker))
    assert last.leo is not None
    behind = partition.log.leo - last.leo > config.lag_max_records
    return [last.broker] if behind or now - last.changed_ms > config.replica_lag_time_max_ms else []


def _propose(turn: Turn, partition: Partition, leader: Leader, isr: tuple[IsrMember, ...]) -> None:
    """C-08: start a change of the partition's ISR to `wanted`, through the controller or ZooKeeper."""
    leader.change = IsrChange(wanted=isr)
    _note(turn, partition, "isr-change-sent", version=leader.zk_version, isr=isr)
    if asks_controller(turn.config):
        turn.needs_isr_change(partition.tp)
    elif not leader.knows_elr and turn.config.variant.elr:
        _read_back(turn, partition, leader.change)  # a write without the ELR in ZooKeeper would end it
    else:
        _write(turn, partition, leader, leader.change)


def _note(
    turn: Turn, partition: Partition, kind: str, *, version: ZkVersion, isr: tuple[IsrMember, ...], detail: str | None = None
) -> None:
    """Note a step of an ISR change, with the ISR that it is about."""
    turn.note(
        Note(
            kind=kind,
            tp=partition.tp,
            topic_id=partition.log.topic_id,
            leader_epoch=partition.leader_epoch,
            zk_version=version,
            isr=brokers_of(isr),
            detail=detail,
        )
    )


def _write(turn: Turn, partition: Partition, leader: Leader, change: IsrChange) -> None:
    """Write on the known version: after a write of the controller this one cannot land (V3 Discussion 3, R-071, R-076).

    Leader and leader epoch stay as they are: only the controller changes them (R-004, R-065).
    """
    me, variant = turn.config.broker, turn.config.variant
    change.step, change.request = IsrStep.WRITING, turn.zk_id()
    change.elr = eligible.after(variant, isr=leader.isr, elr=leader.elr, wanted=change.wanted, min_isr=partition.min_isr)
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


def _read_back(turn: Turn, partition: Partition, change: IsrChange) -> None:
    change.step = IsrStep.READING
    change.request = turn.zk_id()
    turn.effects.append(ZkRequest(change.request, (GetData(paths.state_path(partition.tp)),)))


def resume(turn: Turn, partition: Partition) -> None:
    """The connection to ZooKeeper is back: read back an ISR write whose answer was lost."""
    leader = partition.role
    if asks_controller(turn.config):
        return
    if isinstance(leader, Leader) and leader.change is not None and leader.change.step is IsrStep.LOST:
        _read_back(turn, partition, leader.change)


# --- answers of the controller -----------------------------------------------------------------------------------------------


def on_result(turn: Turn, partition: Partition, leader: Leader, result: IsrResult) -> None:
    """The controller answered the ISR change in flight. Only the state in the answer counts, applied or not.

    A state of this epoch with a later version ends the change: no copy of it can be applied any more. If the change was refused
    and the version has not moved, a late copy may still be applied by a controller that has changed its mind. So the leader
    withdraws the change: it asks for the present ISR, which moves the version.
    """
    change, state = leader.change, result.state
    assert change is not None
    mine = state is not None and state.leader_epoch == partition.leader_epoch and state.leader == turn.config.broker
    if state is not None and mine and state.zk_version > leader.zk_version:
        how = "applied" if result.error is ErrorCode.NONE else "read-back"
        _finish(turn, partition, leader, isr=state.isr, elr=state.elr, version=state.zk_version, how=how)
    elif state is None and result.error is ErrorCode.NONE:  # KIP-343's layout has no state (R-198): what was asked for is written
        _finish(turn, partition, leader, isr=change.wanted, elr=leader.elr, version=leader.zk_version, how="applied")
    elif state is not None and state.leader_epoch > partition.leader_epoch:
        change.step = IsrStep.SUPERSEDED  # the command for that epoch is on its way
    elif result.error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST):
        _withdraw(turn, partition, leader, change)
    elif turn.config.variant.isr_change_zombie == "authoritative":
        change.step = IsrStep.SUPERSEDED  # B-55: every refusal is believed, also that of a former controller
    else:
        # KAFKA-14154: it knows an older state than this leader, so it is a former controller or will soon be one
        ask_later(turn, partition, leader)


def _withdraw(turn: Turn, partition: Partition, leader: Leader, change: IsrChange) -> None:
    """Give up the proposed ISR: propose the present one in its place, so that the outcome of the old one is known."""
    for follower in leader.followers:
        if any(m.broker == follower.broker and m not in leader.isr for m in change.wanted):
            follower.refused_ms = turn.now.monotonic_ms
    if change.wanted != leader.isr:
        change.earlier = (*change.earlier, change.wanted)
        change.wanted = leader.isr
        _note(turn, partition, "isr-change-sent", version=leader.zk_version, isr=change.wanted)
    turn.needs_isr_change(partition.tp)


def take_unasked(turn: Turn, partition: Partition, leader: Leader, result: IsrResult) -> None:
    """B-32, KAFKA-12686: apply the answer to an ISR change that a command of the controller has cleared meanwhile."""
    if result.error is ErrorCode.NONE and result.state is not None:
        state = result.state
        _finish(turn, partition, leader, isr=state.isr, elr=state.elr, version=state.zk_version, how="applied")
    elif leader.change is not None:
        on_result(turn, partition, leader, result)


def ask_later(turn: Turn, partition: Partition, leader: Leader) -> None:
    """Arm the timer that sends the ISR change to the controller again."""
    assert leader.change is not None
    leader.change.step = IsrStep.LOST
    turn.retry(f"ask-isr:{partition.tp}")


def ask_again(turn: Turn, partition: Partition, leader: Leader) -> None:
    """Send the controller the same ISR change again, on the same version: at most one of its copies is applied."""
    if leader.change is not None and leader.change.step in (IsrStep.ASKING, IsrStep.LOST) and asks_controller(turn.config):
        turn.needs_isr_change(partition.tp)


# --- answers of ZooKeeper ----------------------------------------------------------------------------------------------------


def on_answer(turn: Turn, partition: Partition, leader: Leader, answer: AnyAnswer) -> None:
    """ZooKeeper answered the request of the change in flight: an ISR counts only once ZooKeeper holds it (R-059)."""
    change = leader.change
    assert change is not None
    match answer:
        case Written(version=version):
            _finish(turn, partition, leader, isr=change.wanted, elr=change.elr, version=ZkVersion(version), how="applied")
        case BadVersion() if not turn.config.variant.isr_version_reread:
            # The letter of V3: try again later with the version that was just refused (B-40).
            _finish(turn, partition, leader, isr=leader.isr, elr=leader.elr, version=leader.zk_version, how="refused")
        case BadVersion():
            _read_back(turn, partition, change)
        case Unknown():
            change.step = IsrStep.LOST
        case Data():
            _compare(turn, partition, leader, answer)
        case SessionExpired():
            change.step = IsrStep.LOST  # the node resigns its roles when it gets the expiry event
        case _:
            change.step = IsrStep.SUPERSEDED  # the znode is gone: the topic was deleted


def _compare(turn: Turn, partition: Partition, leader: Leader, node: Data) -> None:
    """After a write of unknown outcome, compare the state in ZooKeeper: write again, or take what it says."""
    change = leader.change
    assert change is not None
    state = paths.decode_state(partition.tp, partition.replicas, node)
    if state.leader_epoch != partition.leader_epoch or state.leader != turn.config.broker:
        # The controller wrote in between: this write never lands, and this leader may no longer change the ISR. The controller's
        # command is on its way; until it arrives, both ISRs count.
        change.step = IsrStep.SUPERSEDED
    elif state.zk_version == leader.zk_version:
        if not leader.knows_elr:
            leader.elr, leader.knows_elr = state.elr, True
        _write(turn, partition, leader, change)
    else:
        _finish(turn, partition, leader, isr=state.isr, elr=state.elr, version=state.zk_version, how="read-back")


def _finish(
    turn: Turn,
    partition: Partition,
    leader: Leader,
    *,
    isr: tuple[IsrMember, ...],
    elr: tuple[IsrMember, ...],
    version: ZkVersion,
    how: str,
) -> None:
    """Take this ISR and version as the outcome of the change under way."""
    turn.tally.isr_shrinks += len(isr) < len(leader.isr)
    turn.tally.isr_expands += len(isr) > len(leader.isr)
    leader.isr = isr
    leader.elr = elr
    leader.zk_version = version
    leader.change = None
    _note(turn, partition, "isr-change-ended", version=version, isr=isr, detail=how)
    if turn.config.variant.recheck_hw_after_isr:
        high_watermark.advance(turn, partition, leader)  # KAFKA-13091, B-25: perhaps no fetch follows that would advance it
