"""Did the partitions go where an administrator sent them (docs/promise.md LIVE-4)?

Judged is the last request for each partition, and only where nothing came between: no cancellation was or may have been in force
since, and the controller did not refuse it. A partition that nobody leads can be moved by nobody, which is not for LIVE-4 to say.

Last is what the protocol puts last. KIP-236: what /admin/reassign_partitions_extra holds follows upon what
/admin/reassign_partitions holds, which is rolled back first (R-243), whichever of the two was written first. While no controller
reads them, an administrator can fill the extra znode and then the other one: it is the extra request that has the last word.
A request of proposal B (R-245) and one in the way of old are never both carried out for one partition: the later one to be looked
at is refused while the other is on its way (R-251).

What was asked of a partition that has been removed since, or of a topic that has been deleted, is nobody's concern any more.
"""

from checkers.rows import Call, EventRow
from history.event import EventKind as K

REQUESTS = ("reassign", "reassign-extra", "reassign-request", "cancel-reassignments", "allow-reassignments")
_REFUSED = "refused"


def undone(done: list[Call], rows: list[tuple[str, EventRow]]) -> list[str]:
    """What was asked for and is not so; `rows` with the partition that each is about, as "orders-0"."""
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
    return [
        f"{name} was to be on {', '.join(replicas)} and is on {', '.join(assigned[name])} at the end"
        for name, (replicas, since) in _wanted(done, settled).items()
        if led.get(name)
        and name in assigned
        and max(refused.get(name, -1), ended.get(name, -1)) < since
        and assigned[name] != replicas
    ]


def _wanted(done: list[Call], settled: dict[str, list[tuple[int, str]]]) -> dict[str, tuple[tuple[str, ...], int]]:
    """The replicas that each partition must have come to, and since when that is wanted."""
    wanted: dict[str, tuple[tuple[str, ...], int]] = {}
    extras: dict[str, Call] = {}
    cancelled = False
    for call in sorted((call for call in done if call.f in REQUESTS), key=lambda call: call.invoked):
        certain = call.type == "ok"
        if call.f == "cancel-reassignments":
            cancelled = cancelled or call.type != "fail"
        elif call.f == "allow-reassignments":
            cancelled = cancelled and not certain
        elif call.type != "fail":
            name, replicas = _asked(call)
            if call.f == "reassign-extra":
                extras[name] = call
            elif certain and name in extras and _waits(extras[name], call, settled.get(name, [])):
                continue  # it will be rolled back: wanted is what the extra request wants, if it is known to stand
            wanted.pop(name, None)
            if certain and not cancelled:
                wanted[name] = (tuple(f"b{number}" for number in replicas.split(",")), call.invoked)
        if cancelled:
            wanted.clear()
    return wanted


def _asked(call: Call) -> tuple[str, str]:
    """The partition and its replicas, as in "orders-0 on 1,2,3"."""
    name, _, replicas = (call.asked[0].value or "").partition(" on ")
    return name, replicas


def _waits(extra: Call, later: Call, settled: list[tuple[int, str]]) -> bool:
    """Was the extra request not taken up yet when the later one was in place?

    Once it is taken up it stands in the znode that the later one creates (R-242), and that is free again only when it is done.
    """
    ends = (_REFUSED, f"forward to {_asked(extra)[1]}")
    return not any(extra.invoked < at < later.ended and how in ends for at, how in settled)
