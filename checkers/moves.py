"""Partition reassignments that were requested and not carried out (docs/promise.md LIVE-4).

For each partition the last request is judged, and only if nothing came between: no cancellation was or may have been in force
since, and the controller did not refuse the request. A partition without a leader cannot be moved; LIVE-4 does not judge it.

The protocol decides which request is last. KIP-236: a request in /admin/reassign_partitions_extra takes effect after the one in
/admin/reassign_partitions, which is rolled back first (R-243), whichever of the two was written first. While no controller reads
them, an administrator can write the extra znode and then the other one: the extra request is then the last.
A request of proposal B (R-245) and a legacy request are never both carried out for one partition: the controller refuses the one
that it reads second while the first is under way (R-251).

An operator who edits the znodes of moves by hand may undo any move that was requested before the edit ended: only later ones are
judged.

Requests for a partition that was removed since, or for a deleted topic, are not judged.
"""

from math import inf

from checkers.rows import Call, EventRow
from history.event import EventKind as K

REQUESTS = ("reassign", "reassign-extra", "reassign-request", "cancel-reassignments", "allow-reassignments")
EDIT = "edit-znode"
_REFUSED = "refused"


def undone(done: list[Call], rows: list[tuple[str, EventRow]]) -> list[str]:
    """Describe each partition reassignment that was requested and not carried out at the end of the run."""
    assigned: dict[str, tuple[str, ...]] = {}
    refused: dict[str, int] = {}
    ended: dict[str, int] = {}
    led: dict[str, bool] = {}
    settled: dict[str, list[tuple[int, str]]] = {}
    for name, row in rows:
        if row.kind == K.ASSIGNED:
            assigned[name] = row.replicas
        elif row.kind == K.REASSIGNMENT_REFUSED:
            refused[name] = row.at
            settled.setdefault(name, []).append((row.at, _REFUSED))
        elif row.kind == K.REASSIGNMENT_BEGUN:
            settled.setdefault(name, []).append((row.at, row.detail or ""))
        elif row.kind == K.TOPIC_DELETED:
            ended[name] = row.at
        elif row.kind == K.STATE_WRITTEN:
            led[name] = row.leader is not None
    edited = max((_ended(call) for call in done if call.f == EDIT and _is_of_moves(call)), default=-1)
    return [
        f"{name} was to be moved to {', '.join(replicas)} and is on {', '.join(assigned[name])} at the end"
        for name, (replicas, since) in _wanted(done, settled).items()
        if led.get(name)
        and name in assigned
        and max(refused.get(name, -1), ended.get(name, -1), edited) < since
        and assigned[name] != replicas
    ]


def _is_of_moves(call: Call) -> bool:
    return (call.asked[0].value or "").startswith("/admin/reassign")


def _cancels(call: Call) -> bool:
    return call.f == EDIT and (call.asked[0].value or "").startswith("/admin/reassign_cancel created")


def _ended(call: Call) -> float:
    return inf if call.type in ("info", "") else call.ended


def _wanted(done: list[Call], settled: dict[str, list[tuple[int, str]]]) -> dict[str, tuple[tuple[str, ...], int]]:
    """The replicas that each partition must have at the end of the run, with the request for them."""
    wanted: dict[str, tuple[tuple[str, ...], int]] = {}
    extras: dict[str, Call] = {}
    cancelled = False
    for call in sorted((call for call in done if call.f in REQUESTS or _cancels(call)), key=lambda call: call.invoked):
        certain = call.type == "ok"
        if call.f in ("cancel-reassignments", EDIT):
            cancelled = cancelled or call.type != "fail"
        elif call.f == "allow-reassignments":
            cancelled = cancelled and not certain
        elif call.type != "fail":
            name, replicas = _asked(call)
            if call.f == "reassign-extra":
                extras[name] = call
            elif certain and name in extras and _waits(extras[name], call, settled.get(name, [])):
                continue  # it will be rolled back: the extra request stays wanted, if it certainly succeeded
            wanted.pop(name, None)
            if certain and not cancelled:
                wanted[name] = (tuple(f"b{number}" for number in replicas.split(",")), call.invoked)
        if cancelled:
            wanted.clear()
    return wanted


def _asked(call: Call) -> tuple[str, str]:
    """Parse the recorded request of a reassignment, "orders-0 on 1,2,3", into partition and replicas."""
    name, _, replicas = (call.asked[0].value or "").partition(" on ")
    return name, replicas


def _waits(extra: Call, later: Call, settled: list[tuple[int, str]]) -> bool:
    # True if the controller had not taken up the request in the extra znode when the later one was written.
    #
    # An extra request that is taken up is in the znode that the later one creates, which is free again only when it is
    # done.
    ends = (_REFUSED, f"forward to {_asked(extra)[1]}")
    return not any(extra.invoked < at < later.ended and how in ends for at, how in settled)
