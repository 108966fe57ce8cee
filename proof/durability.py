"""Definition of durability (docs/promise.md §1, §2, CUT-1): which promised records are missing, and why each was lost.

No state is kept from row to row. For each promise, each leader and each wound the functions compute from the whole history which
replicas held a record, which were counted on, and what was noticed.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from history.event import ClusterEvent
from history.event import EventKind as K
from proof.log_rows import Case, Events, calls, log_at

_FOR_GOOD = 1 << 30


class Promised(NamedTuple):
    """A promised record, the epoch in which it was promised, and the row that promised it."""

    offset: int
    value: str
    epoch: int
    at: int
    by_leader: bool = False


class Missing(NamedTuple):
    """A promised record that a leader lacks at its start, that a read left out, or that the last log lacks."""

    record: Promised
    epoch: int  # of the leader that lacks it
    at: int


def acked_loss(case: Case) -> set[str]:
    """Definition of the checker acked-loss: lost promised records, excused ones with the fault that excuses them."""
    evidence = any(row.kind is K.STATE_WRITTEN for row in case.events)
    kinds: set[str] = set()
    cuts: dict[tuple[int, int], int] = {}  # (epoch, row) of a leader's start -> the lowest offset excused there
    settled: dict[tuple[int, str], tuple[int, int]] = {}  # record -> (epoch, row) that began the generation without it
    for loss in sorted(_records_missing(case), key=lambda loss: (max(loss.at, loss.record.at), loss.at, loss.record.offset)):
        key = loss.record.offset, loss.record.value
        # Each record ends in one way, unless it came back and a leader promised it again.
        epoch, index = settled.get(key, (-1, -1))
        if loss.record.epoch < epoch or loss.record.at < index or (index >= 0 and not loss.record.by_leader):
            continue
        account = _row_of_excuse(case, loss)
        settled[key] = loss.epoch, max(loss.at, loss.record.at)
        if account is None:
            settled[key] = _FOR_GOOD, _FOR_GOOD
            kinds.add("lost-write" if evidence else "unjudged")
            continue
        kinds.add(f"excused {loss.record.offset} {loss.record.value} by {account}")
        start = loss.epoch, max(loss.at, loss.record.at)
        cuts[start] = min(loss.record.offset, cuts.get(start, loss.record.offset))
    lowest = [
        (epoch, offset)
        for (epoch, at), offset in cuts.items()
        if not any(other_epoch == epoch and before < at and lower <= offset for (other_epoch, before), lower in cuts.items())
    ]
    return kinds | {f"cut at {offset} of {epoch}" for epoch, offset in lowest}


def promises(case: Case) -> Iterator[Promised]:
    """Return all promised records of a history: acknowledged under acks=all, read by a consumer, or below a leader's HW."""
    for call in (*calls(case.operations, "produce"), *calls(case.operations, "poll")):
        if call.ok and (call.asked[0].f == "poll" or call.asked[0].acks == -1):
            for row in call.answer:
                if row.offset is not None and row.value is not None and row.leader_epoch is not None:
                    yield Promised(row.offset, row.value, row.leader_epoch, row.index)
    for event in case.events:
        if event.kind in (K.HW, K.BECAME_LEADER) and event.detail != "follower" and event.leader_epoch is not None:
            for offset, value in log_at(case.events, str(event.node), event.index).items():
                if offset < (event.hw or 0) and value is not None:
                    yield Promised(offset, value, event.leader_epoch, event.index, by_leader=True)


def _records_missing(case: Case) -> Iterator[Missing]:
    """Each promised record that a later leader, a read, or the end of the run lacks."""
    leaders = [row for row in case.events if row.kind is K.BECAME_LEADER]
    reads = [call for call in calls(case.operations, "poll") if call.ok]
    for record in promises(case):
        for leader in leaders:
            epoch = leader.leader_epoch or 0
            later = epoch > record.epoch or (epoch == record.epoch and leader.index > record.at)
            if later and log_at(case.events, str(leader.node), leader.index).get(record.offset) != record.value:
                yield Missing(record, epoch, leader.index)
        for call in reads:
            offsets = [row.offset for row in call.answer if row.offset is not None and row.value is not None]
            start = call.asked[0].offset
            if not offsets or start is None or record.at > call.asked[0].index:
                continue
            if start <= record.offset < max(offsets) and record.offset not in offsets:
                yield Missing(record, call.answer[0].leader_epoch or 0, call.answer[0].index)
        if leaders and _ends_without(case.events, record, max(leaders, key=lambda row: (row.leader_epoch or 0, row.index))):
            yield Missing(record, max(row.leader_epoch or 0 for row in leaders), case.events[-1].index + 1)


def _ends_without(events: Events, record: Promised, leader: ClusterEvent) -> bool:
    """Whether the last leader's log lacked the record, judged before the harness destroyed a part of that log."""
    ends_of_log = [
        row.index - 1 for row in events if row.node == leader.node and row.index > leader.index and row.kind is K.WOUND
    ]
    last = min(ends_of_log, default=events[-1].index)
    is_held = log_at(events, str(leader.node), last).get(record.offset) == record.value
    return record.epoch <= (leader.leader_epoch or 0) and not is_held


def _row_of_excuse(case: Case, loss: Missing) -> int | None:
    """The row that excuses the loss: the wound that took the last counted-on copy, or the order for this leader's election."""
    causes: list[tuple[int, int]] = []  # (row at which it was noticed, row of the wound)
    for wound in wounds(case):
        when = noticed(case.events, wound)
        if when is None or when >= loss.at or not _destroys(case.events, wound, loss.record):
            continue
        counted = counted_on(case.events, when, case.m)
        if wound.node not in counted or any(_holds_record(case, node, loss.record, when) for node in counted):
            continue
        together = max(len(_wounded_nodes(case, index)) for index in range(wound.index, when + 1))
        if together >= case.m and not _has_come_back(case.events, loss, when):
            causes.append((when, wound.index))
    if causes:
        return max(causes)[1]
    return _order_of_election(case.events, loss) if case.by_operator else None


def wounds(case: Case) -> list[ClusterEvent]:
    """Return the faults of a history that destroyed bytes which count for durability.

    Under flush=before_ack only a swapped directory destroys copies that count (DUR-5).
    """
    return [row for row in case.events if row.kind is K.WOUND and (case.flush == "none" or row.detail == "swapped")]


def noticed(events: Events, wound: ClusterEvent) -> int | None:
    """Return the first row at which the loss of bytes can be noticed: the session ended or the directory was reported."""
    for index in range(wound.index, events[-1].index + 1):
        rows_of_node = [row for row in events if row.node == wound.node and row.index <= index]
        sessions = [row for row in rows_of_node if row.kind in (K.REGISTERED, K.SESSION_ENDED)]
        lasts = bool(sessions) and sessions[-1].kind is K.REGISTERED and sessions[-1].incarnation == wound.incarnation
        started = max((row.index for row in rows_of_node if row.kind is K.NODE_STARTED), default=-1)
        if not lasts or any(row.kind is K.DIR_FAILED and row.dir == wound.dir and row.index > started for row in rows_of_node):
            return index
    return None


def counted_on(events: Events, index: int, m: int) -> set[str]:
    """The replicas that count for durability: the ISR without pending removals; if fewer than m, also the last ISR of m."""
    states = [row for row in events if row.kind is K.STATE_WRITTEN and row.index <= index]
    if not states:
        return set()
    isr = set(states[-1].isr or ())
    changes = [
        row
        for row in events
        if row.kind in (K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)
        and row.node == states[-1].leader
        and states[-1].index < row.index <= index
    ]
    sent = changes and changes[-1].kind is K.ISR_CHANGE_SENT
    staying = isr & set(changes[-1].isr or ()) if sent else isr
    full = [set(row.isr or ()) for row in states if len(row.isr or ()) >= m]
    return staying if len(staying) >= m else isr | (full[-1] if full else set())


def _destroys(events: Events, wound: ClusterEvent, record: Promised) -> bool:
    is_held = log_at(events, str(wound.node), wound.index - 1).get(record.offset) == record.value
    return is_held and record.offset >= (wound.offset or 0)


def _holds_record(case: Case, node: str, record: Promised, index: int) -> bool:
    """Whether the node holds the record. A destroyed copy counts as held until its wound is noticed."""
    if log_at(case.events, node, index).get(record.offset) == record.value:
        return True
    wounds_of_node = [
        row for row in wounds(case) if row.node == node and row.index <= index and _destroys(case.events, row, record)
    ]
    return any((noticed(case.events, row) or index + 1) > index for row in wounds_of_node)


def _wounded_nodes(case: Case, index: int) -> set[str | None]:
    """The wounded nodes: from the wound until the replica is in the ISR again under another registration."""
    return {
        wound.node
        for wound in wounds(case)
        if wound.index <= index and not any(is_whole(case.events, wound, row) for row in case.events if row.index <= index)
    }


def is_whole(events: Events, wound: ClusterEvent, state: ClusterEvent) -> bool:
    """Whether ZooKeeper's state shows that the replica rejoined after its bytes were destroyed, as under a new registration."""
    isr = state.isr or ()
    if state.kind is not K.STATE_WRITTEN or state.index < wound.index or wound.node not in isr:
        return False
    between = [row for row in events if wound.index < row.index < state.index]
    if not any(r.kind is K.REGISTERED and r.node == wound.node and r.incarnation != wound.incarnation for r in between):
        return False
    before = [row.isr or () for row in events if row.kind is K.STATE_WRITTEN and row.index < state.index]
    stamp = -1 if state.stamps is None else state.stamps[isr.index(str(wound.node))]
    rejoined = bool(before) and wound.node not in before[-1] if stamp == -1 else stamp != wound.incarnation
    return rejoined or state.leader == wound.node


def _has_come_back(events: Events, loss: Missing, when: int) -> bool:
    """Whether a leader between the notice and the loss still had the record."""
    return any(
        log_at(events, str(row.node), row.index).get(loss.record.offset) == loss.record.value
        for row in events
        if row.kind is K.BECAME_LEADER and when < row.index < loss.at
    )


def _order_of_election(events: Events, loss: Missing) -> int | None:
    """DUR-7: the operator's order for an unclean election that made this leader, if its log lacked the record."""
    states = [row for row in events if row.kind is K.STATE_WRITTEN]
    for order in reversed([row for row in events if row.kind is K.UNCLEAN_ELECTION_ORDERED]):
        held = max((row.leader_epoch or 0 for row in states if row.index < order.index), default=-1)
        later = [row for row in states if row.index > order.index and (row.leader_epoch or 0) > held]
        elected = next((row for row in later if row.leader == order.leader), None)
        if elected is None or not loss.record.epoch < loss.epoch == elected.leader_epoch:
            continue
        if log_at(events, str(elected.leader), elected.index).get(loss.record.offset) != loss.record.value:
            return order.index
    return None


def elections(case: Case) -> set[str]:
    """Definition of DUR-6 and DUR-7: each new leader was in the ISR or ELR, or was ordered; none has an emptied directory."""
    states = [row for row in case.events if row.kind is K.STATE_WRITTEN]
    kinds: set[str] = set() if states else {"unjudged"}
    for before, row in pairwise(states):
        if row.leader is None or row.leader_epoch == before.leader_epoch:
            continue
        # KIP-966: the ELR holds all members of the ISR since it last had m members (or ever, if it never had).
        earlier = [event for event in states if event.index < row.index]
        full = max((at for at, event in enumerate(earlier) if len(event.isr or ()) >= case.m), default=0)
        eligible = {node for event in earlier[full:] for node in event.isr or ()}
        if row.leader not in eligible and not (case.by_operator and _is_ordered(case.events, row)):
            kinds.add("unclean-election")
        swap = _last_swap(case.events, row.leader, row.index)
        # The controller is not held to an unnoticed swap, nor if it names the registration that was emptied.
        stamp = dict(zip(row.isr or (), row.stamps or (), strict=False)).get(row.leader, -1)
        if swap is not None and (noticed(case.events, swap) or row.index) < row.index and stamp != swap.incarnation:
            kinds.add("empty-leader")
    for row in case.events if states else ():
        if row.kind is K.BECAME_LEADER and _last_swap(case.events, str(row.node), row.index) is not None:
            kinds.add("empty-leader")
    return kinds


def _is_ordered(events: Events, state: ClusterEvent) -> bool:
    """Whether the last unclean election that an operator ordered named this leader and was not carried out before."""
    orders = [row for row in events if row.kind is K.UNCLEAN_ELECTION_ORDERED and row.index < state.index]
    if not orders or orders[-1].leader != state.leader:
        return False
    states = [row for row in events if row.kind is K.STATE_WRITTEN and row.index < state.index]
    since = [
        (state_before, state_after) for state_before, state_after in pairwise(states) if state_after.index > orders[-1].index
    ]
    return not any(
        state_after.leader == state.leader and state_after.leader_epoch != state_before.leader_epoch
        for state_before, state_after in since
    )


def _last_swap(events: Events, node: str, index: int) -> ClusterEvent | None:
    """The last swap of the node's directory, unless the node was in the ISR again since."""
    swaps = [row for row in events if row.kind is K.WOUND and row.detail == "swapped" and row.node == node and row.index < index]
    if not swaps or any(is_whole(events, swaps[-1], row) for row in events if row.index < index):
        return None
    return swaps[-1]
