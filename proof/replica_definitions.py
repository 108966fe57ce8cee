"""Definitions that the checkers of replicas and of ZooKeeper's states are compared with, over all pairs of rows."""

from collections.abc import Iterator
from itertools import combinations, pairwise

from history.event import ClusterEvent
from history.event import EventKind as K
from proof.log_rows import Case, Events, Operations, calls, log_at, records_at


def single_leader(operations: Operations, events: Events) -> set[str]:
    """Definition: in one leader epoch at most one broker raises its high watermark."""
    advanced: set[tuple[int | None, str | None]] = set()
    for at, row in enumerate(events):
        if row.kind is not K.HW or row.detail != "leader":
            continue
        before = [
            earlier_row.hw
            for earlier_row in events[:at]
            if earlier_row.node == row.node and earlier_row.leader_epoch == row.leader_epoch
            and (earlier_row.kind is K.BECAME_LEADER or (earlier_row.kind is K.HW and earlier_row.detail == "leader"))
        ]  # fmt: skip
        if before and (row.hw or 0) > (before[-1] or 0):
            advanced.add((row.leader_epoch, row.node))
    return {
        "two-leaders" for earlier_row, other_row in combinations(sorted(advanced, key=str), 2) if earlier_row[0] == other_row[0]
    }


def isr_agreement(operations: Operations, events: Events) -> set[str]:
    """Definition: ISR members agree below the HW, compared whenever an HW, an ISR, a leader or a log changes.

    Those that a leader asks for reach its HW and the start of its epoch.
    """
    kinds = {kind for row in events if row.kind is K.ISR_CHANGE_SENT for kind in _asked_too_early(events, row)}
    for at, row in enumerate(events):
        shorter = row.kind in (K.APPEND, K.TRUNCATE) and len(log_at(events, str(row.node), row.index - 1)) > (row.offset or 0)
        if not shorter and row.kind not in (K.HW, K.BECAME_LEADER, K.STATE_WRITTEN):
            continue
        states = [earlier_row for earlier_row in events[: at + 1] if earlier_row.kind is K.STATE_WRITTEN]
        isr = states[-1].isr or () if states else ()
        for leader, hw, own in _leaders(events[: at + 1]):
            if row.kind in (K.HW, K.BECAME_LEADER) and leader != row.node:
                continue
            if shorter and leader == row.node:
                continue  # a leader that loses its own records no longer vouches for them
            leader_log = log_at(events, leader, row.index)
            for member in {*own, *isr} - {leader}:
                member_log = log_at(events, member, row.index)
                if any(member_log.get(offset) != value for offset, value in leader_log.items() if offset < hw):
                    kinds |= {"weak-isr"} if member in own else set()
                    kinds |= {"strong-isr"} if member in isr else set()
    return kinds


def _asked_too_early(events: Events, ask: ClusterEvent) -> Iterator[str]:
    """What is wrong with a request for members that know no later epoch: a log ends before the leader's epoch or below its HW."""
    before = [row for row in events if row.index < ask.index]
    roles = {row.node: row for row in before if row.kind in (K.BECAME_LEADER, K.BECAME_FOLLOWER)}
    office = roles.get(ask.node)
    if office is None or office.kind is not K.BECAME_LEADER:
        return
    hw = next(hw for leader, hw, _ in _leaders(before) if leader == ask.node)
    for member in {*(ask.isr or ())} - {*(office.isr or ())} - {ask.node}:
        later = member in roles and (roles[member].leader_epoch or 0) > (office.leader_epoch or 0)
        end = len(log_at(events, member, ask.index))
        if not later and end < (office.leo or 0):
            yield "early-join"
        if not later and end < hw:
            yield "joined-below-hw"


def _leaders(events: Events) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Each broker that believes it leads the partition, with its high watermark and its ISR."""
    for node in sorted({str(row.node) for row in events if row.kind is K.BECAME_LEADER}):
        office = [row for row in events if row.kind in (K.BECAME_LEADER, K.BECAME_FOLLOWER) and row.node == node][-1]
        if office.kind is K.BECAME_FOLLOWER:
            continue
        leader_rows = [
            row.hw
            for row in events
            if row.kind is K.HW and row.node == node and row.detail == "leader"
            and row.leader_epoch == office.leader_epoch and row.index > office.index
        ]  # fmt: skip
        hw = leader_rows[-1] if leader_rows else office.hw
        yield node, hw or 0, office.isr or ()


def election(operations: Operations, events: Events) -> set[str]:
    """Definition of legal elections without operators and data loss: the new leader was in the ISR or the ELR (m = 2)."""
    states = [row for row in events if row.kind is K.STATE_WRITTEN]
    kinds: set[str] = set()
    for at, row in enumerate(states[1:], 1):
        if row.leader is None or row.leader_epoch == states[at - 1].leader_epoch:
            continue
        eligible = set(states[at - 1].isr or ())
        # All members of an ISR since the last state whose ISR had two members.
        for back in range(at - 1, -1, -1):
            eligible |= set(states[back].isr or ())
            if len(states[back].isr or ()) >= 2:
                break
        kinds |= set() if row.leader in eligible else {"unclean-election"}
    return kinds


def log_matching(operations: Operations, events: Events) -> set[str]:
    """Definition: one offset and epoch hold one value; no replica truncates a record that a leader's HW covered."""
    appends = [row for row in events if row.kind is K.APPEND]
    kinds = {
        "log-mismatch"
        for record_value, other_value in combinations(appends, 2)
        if (record_value.offset, record_value.leader_epoch) == (other_value.offset, other_value.leader_epoch)
        and record_value.value != other_value.value
    }
    for row in events:
        if row.kind is K.APPEND or row.kind is K.TRUNCATE:
            before = records_at(events, str(row.node), row.index - 1)
            gone = {offset: record for offset, record in before.items() if offset >= (row.offset or 0)}
            kinds |= {"truncated-committed" for at, record in gone.items() if record == _committed_record(events, at, row.index)}
        if row.kind is K.HW:
            covered = {
                at: record_value
                for at, record_value in records_at(events, str(row.node), row.index).items()
                if at < (row.hw or 0)
            }
            committed = {at: _committed_record(events, at, row.index) for at in covered}
            kinds |= {"uncommitted-below-hw" for at, record_value in covered.items() if committed[at] not in (None, record_value)}
    return kinds


def _committed_record(events: Events, offset: int, before: int) -> tuple[str | None, int | None] | None:
    """The first record at an offset that the HW of a leader covered; None if there is none."""
    for row in events:
        if row.index < before and row.kind is K.HW and row.detail == "leader" and (row.hw or 0) > offset:
            records = records_at(events, str(row.node), row.index)
            if offset in records:
                return records[offset]
    return None


def state_writes(operations: Operations, events: Events) -> set[str]:
    """Definition: which partition states in ZooKeeper may follow another, and which broker may write them."""
    kinds: set[str] = set()
    states = [row for row in events if row.kind is K.STATE_WRITTEN]
    for at, row in enumerate(states):
        assigned = [
            earlier_row.replicas for earlier_row in events if earlier_row.kind is K.ASSIGNED and earlier_row.index < row.index
        ]
        kinds |= {"isr-outside-replicas"} if assigned and set(row.isr or ()) - set(assigned[-1] or ()) else set()
        kinds |= {"leader-outside-isr"} if row.leader is not None and row.leader not in (row.isr or ()) else set()
        same = [earlier_row for earlier_row in states[:at] if earlier_row.leader_epoch == row.leader_epoch]
        kinds |= {"two-elected"} if any(earlier_row.leader != row.leader for earlier_row in same) else set()
        if at == 0:
            continue
        last = states[at - 1]
        fell = None not in (row.controller_epoch, last.controller_epoch) and (row.controller_epoch or 0) < (
            last.controller_epoch or 0
        )
        kinds |= {"epoch-regressed"} if fell or (row.leader_epoch or 0) < (last.leader_epoch or 0) else set()
        elections = [
            earlier_row for earlier_row in events if earlier_row.kind is K.CONTROLLER_ELECTED and earlier_row.index < row.index
        ]
        highest = max((earlier_row.controller_epoch or 0 for earlier_row in elections), default=0)
        elected = [
            earlier_row.node for earlier_row in elections if (earlier_row.controller_epoch or 0) == highest
        ]  # an election with a lower epoch was noted late
        leaves_it = (row.leader, row.leader_epoch) == (last.leader, last.leader_epoch)
        if elected and row.node != elected[-1] and not (row.node == last.leader and leaves_it):
            ever = {earlier_row.node for earlier_row in elections}
            kinds.add("deposed-controller" if row.node in ever else "unentitled-write")
        if elected and row.node == last.leader != elected[-1] and leaves_it and _asked_before(events, row):
            kinds.add("unentitled-write")
    return kinds


def _asked_before(events: Events, own: ClusterEvent) -> bool:
    """Whether another broker wrote an ISR that the leader had asked for, since the leader's process started."""
    starts = [
        earlier_row.index
        for earlier_row in events
        if earlier_row.kind is K.NODE_STARTED and earlier_row.node == own.node and earlier_row.index < own.index
    ]
    rows_between = [earlier_row for earlier_row in events if max(starts, default=-1) < earlier_row.index < own.index]
    for row in (earlier_row for earlier_row in rows_between if earlier_row.kind is K.STATE_WRITTEN):
        requests_sent = [
            earlier_row
            for earlier_row in rows_between
            if earlier_row.kind is K.ISR_CHANGE_SENT and earlier_row.node == own.node and earlier_row.index < row.index
        ]
        before = [earlier_row for earlier_row in events if earlier_row.kind is K.STATE_WRITTEN and earlier_row.index < row.index]
        kept = before and (row.leader, row.leader_epoch) == (before[-1].leader, before[-1].leader_epoch)
        if (
            kept
            and row.leader == own.node != row.node
            and row.node is not None
            and requests_sent
            and requests_sent[-1].isr == row.isr
        ):
            return True
    return False


def fencing(case: Case) -> set[str]:
    """Definition: what a broker must not do while it is fenced."""
    operations, events = case.operations, case.events
    kinds: set[str] = set()
    for at, row in enumerate(events):
        if row.detail == "leader" and _is_fenced(events, row.node, row.index, row.index):
            if row.kind is K.APPEND:
                kinds.add("fenced-append")
            elif row.kind is K.HW and _commits(case, events[:at], row):
                kinds.add("fenced-commit")
    for f in ("produce", "poll", "latest"):
        for call in calls(operations, f):
            if call.ok and _is_fenced(events, call.answer[0].node, call.asked[0].index, call.answer[0].index):
                kinds.add("fenced-answer")
    return kinds


def _commits(case: Case, before: Events, watermark: ClusterEvent) -> bool:
    """Whether a fenced leader raises its high watermark for a reason that it did not have before the fence."""
    leadership = (K.HW, watermark.node, watermark.leader_epoch, "leader")
    earlier = [row.hw or 0 for row in before if (row.kind, row.node, row.leader_epoch, row.detail) == leadership]
    if not earlier or (watermark.hw or 0) <= earlier[-1]:
        return False
    flushed = case.flush == "before_ack" and _waited_for_its_flush_alone(before, watermark)
    return not flushed and not _finishes_a_change(before, watermark.node)


def _fence_of(events: Events, node: str | None) -> int:
    """The row with which a broker was fenced, if it still is at the end of these events."""
    lifted = max((row.index for row in events if row.node == node and row.kind is K.UNFENCED), default=-1)
    return min(row.index for row in events if row.node == node and row.kind is K.FENCED and row.index > lifted)


def _waited_for_its_flush_alone(events: Events, rise: ClusterEvent) -> bool:
    """Whether all other members of the ISR that the leader knew had reached the new HW before the fence."""
    isrs_known = [row.isr or () for row in events if row.node == rise.node and row.kind in (K.BECAME_LEADER, K.ISR_CHANGE_ENDED)]
    fence = _fence_of(events, rise.node)
    reached = {
        row.node
        for row in events
        if row.index < fence
        and (
            (row.kind is K.APPEND and (row.offset or 0) >= (rise.hw or 0) - 1)
            or (row.kind is K.RECOVERED and (row.leo or 0) >= (rise.hw or 0))
        )
    }
    return not isrs_known or {*isrs_known[-1]} - {rise.node} <= reached


def _finishes_a_change(events: Events, node: str | None) -> bool:
    """Whether the node's last completed ISR change was sent before the fence and ended behind it."""
    rows_of_node = [row for row in events if row.node == node]
    fence = _fence_of(events, node)
    changes = [row for row in rows_of_node if row.kind in (K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)]
    whole = [(a, b) for a, b in pairwise(changes) if a.kind is K.ISR_CHANGE_SENT and b.kind is K.ISR_CHANGE_ENDED]
    return bool(whole) and whole[-1][0].index < fence < whole[-1][1].index


def _is_fenced(events: Events, node: str | None, first: int, last: int) -> bool:
    """Whether the node was fenced at row `first` and not released until row `last`."""
    fence_rows = [row for row in events if row.node == node and row.kind in (K.FENCED, K.UNFENCED)]
    before = [row for row in fence_rows if row.index < first]
    return bool(before) and before[-1].kind is K.FENCED and not any(
        row.kind is K.UNFENCED and first < row.index < last for row in fence_rows
    )  # fmt: skip
