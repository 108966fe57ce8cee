"""Definitions of the checkers of a whole run, and of those of topics that had the same name in turn."""

from itertools import combinations, pairwise

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import OpType
from proof.log_rows import Case, Events, Operations, log_at


def single_controller(operations: Operations, events: Events) -> set[str]:
    """Definition: each controller epoch belongs to one broker."""
    elected = [(row.controller_epoch, row.node) for row in events if row.controller_epoch is not None]
    return {"two-controllers" for first, second in combinations(elected, 2) if first[0] == second[0] and first[1] != second[1]}


def topic_identity(operations: Operations, events: Events) -> set[str]:
    """Definition of DUR-8: no record is seen under a topic id under which no leader appended it."""
    named = [row for row in events if row.topic_id is not None]
    if len({row.topic_id for row in named}) < 2:
        return set()
    led_values = {(row.value, row.topic_id) for row in named if row.detail == "leader"}
    pairs_seen = [(row.value, row.topic_id) for row in named]
    pairs_seen.extend((row.value, row.topic_id) for row in operations if row.type is OpType.OK and row.topic_id is not None)
    return {"other-topic" for pair in pairs_seen if pair not in led_values and any(pair[0] == value for value, _ in led_values)}


def incarnations(operations: Operations, events: Events) -> set[str]:
    """Definition: a broker's registrations and process numbers rise, and an ended process reports nothing more."""
    wrong = False
    for at, row in enumerate(events):
        before = [earlier for earlier in events[:at] if earlier.node == row.node]
        same = [earlier for earlier in before if earlier.kind is row.kind]
        match row.kind:
            case K.REGISTERED:
                wrong |= any((earlier.incarnation or 0) >= (row.incarnation or 0) for earlier in same)
            case K.NODE_STARTED:
                wrong |= any((earlier.life or 0) >= (row.life or 0) for earlier in same)
            case K.STATE_WRITTEN:
                wrong |= any(not _is_in_order(events[:at], row, place) for place in range(len(row.stamps or ())))
            case _:
                started = [earlier.life or 0 for earlier in before if earlier.kind is K.NODE_STARTED]
                wrong |= row.life is not None and row.life < max(started, default=0)
    return {"incarnation-order"} if wrong else set()


def _is_in_order(before: Events, state: ClusterEvent, place: int) -> bool:
    """Whether the stamp is a registration of this member, not below its earlier stamps. -1: no stamp."""
    node, stamp = (state.isr or ())[place], (state.stamps or ())[place]
    if stamp == -1:
        return True
    registered = any(row.kind is K.REGISTERED and (row.node, row.incarnation) == (node, stamp) for row in before)
    stamps = [
        dict(zip(row.isr or (), row.stamps or (), strict=True)).get(node, -1)
        for row in before
        if row.kind is K.STATE_WRITTEN and (row.topic_id, row.partition) == (state.topic_id, state.partition)
    ]
    return registered and max(stamps, default=-1) <= stamp


def deletion(operations: Operations, events: Events) -> set[str]:
    """Definition: no replica in the ISR of an existing topic is deleted; one deleted with its topic stays so."""
    kinds: set[str] = set()
    for row in events:
        before = [earlier for earlier in events if earlier.index < row.index and earlier.topic_id == row.topic_id]
        requests = _deletion_requests(before)
        if row.kind is K.REPLICA_DELETED and not requests:
            states = [earlier for earlier in before if earlier.kind is K.STATE_WRITTEN]
            kinds |= {"wrongly-deleted"} if states and row.node in (states[-1].isr or ()) else set()
        if row.kind in (K.APPEND, K.BECAME_LEADER, K.BECAME_FOLLOWER) and requests:
            own = [earlier for earlier in before if earlier.node == row.node and earlier.index > requests[0].index]
            deletions = [earlier.index for earlier in own if earlier.kind is K.REPLICA_DELETED]
            is_back = row.kind is not K.APPEND and any(
                earlier.kind is K.RECOVERED and earlier.index > max(deletions, default=0) for earlier in own
            )
            kinds |= {"resurrected"} if deletions and not is_back else set()
    return kinds


def _deletion_requests(before: Events) -> list[ClusterEvent]:
    """Return the requests to delete the topic since it was last created.

    A creation is a first state (zk_version 0) after an earlier state.
    """
    requests: list[ClusterEvent] = []
    written = False
    for row in before:
        if row.kind is K.STATE_WRITTEN:
            requests = [] if row.zk_version == 0 and written else requests
            written = True
        requests = [*requests, row] if row.kind is K.TOPIC_DELETED else requests
    return requests


def electorate(case: Case) -> set[str]:
    """Definition: no write takes ISR and ELR below m or the assigned replicas, except while an ordered election lasts.

    A real cluster that never writes an ELR keeps none.
    """
    writes = [row for row in case.events if row.kind is K.STATE_WRITTEN]
    if not case.simulated and not any(row.elr for row in writes):
        return set()
    kinds = set()
    for before, row in pairwise(writes):
        needed = _members_needed(case, row)
        orders = [event for event in case.events if event.kind is K.UNCLEAN_ELECTION_ORDERED and event.index < row.index]
        lasts = any(
            not any(
                order.index < event.index <= row.index and len(event.isr or ()) >= _members_needed(case, event)
                for event in writes
            )
            for order in orders
        )
        if len(_may_lead(before)) >= needed > len(_may_lead(row)) and not lasts:
            kinds.add("short-electorate")
    return kinds


def producers(case: Case) -> set[str]:
    """Definition of ORD-3 for logs: no log of a replica has a value of an idempotent producer twice."""
    once = {row.value for row in case.operations if row.delivery == "once"}
    for row in case.events:
        log = list(log_at(case.events, row.node or "", row.index).values())
        if row.kind is K.APPEND and row.value in once and log.count(row.value) > 1:
            return {"sequence-doubled"}
    return set()


def flushes(case: Case) -> set[str]:
    """Definition of DUR-5: at each promise and each write of the ISR, every counted-on replica has flushed what is promised."""
    if case.flush != "before_ack" or not any(row.kind is K.FLUSHED for row in case.events):
        return set()
    promises = [(row.index, row.hw or 0) for row in case.events if row.kind is K.HW and row.detail == "leader"]
    promises += [(row.index, (row.offset or 0) + 1) for row in case.operations if row.type is OpType.OK and row.acks == -1]
    writes = [row for row in case.events if row.kind is K.STATE_WRITTEN]
    last = max((row.index for row in case.events), default=0)
    moments = [at for at in (*(at for at, _ in promises), *(row.index for row in writes)) if at <= last]
    short = any(
        _flushed_end(case, node, at) < max((end for when, end in promises if when <= at), default=0)
        for at in moments
        for node in _counted_on(case, [row for row in writes if row.index <= at])
    )
    return {"unflushed"} if short else set()


def _counted_on(case: Case, writes: Events) -> set[str]:
    """The ISR; a short one together with the last that had m members."""
    isr = set(writes[-1].isr or ()) if writes else set()
    full = [set(row.isr or ()) for row in writes if len(row.isr or ()) >= case.m]
    return isr if len(isr) >= case.m or not full else isr | full[-1]


def _flushed_end(case: Case, node: str, at: int) -> int:
    """Up to which offset the node had flushed its log at a row."""
    flush_rows = [row for row in case.events if row.node == node and row.index <= at and row.kind in (K.FLUSHED, K.TRUNCATE)]
    flushed = [row for row in flush_rows if row.kind is K.FLUSHED]
    if not flushed:
        return 0
    return min(row.offset or 0 for row in flush_rows if row.index >= flushed[-1].index)


def _may_lead(state: ClusterEvent) -> set[str]:
    return {*(state.isr or ()), *(state.elr or ())}


def _members_needed(case: Case, state: ClusterEvent) -> int:
    assigned = [row for row in case.events if row.kind is K.ASSIGNED and row.index < state.index]
    return min(case.m, len(assigned[-1].replicas or ())) if assigned else case.m
