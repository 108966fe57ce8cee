"""Did the partitions go where an administrator sent them (docs/promise.md L4)?

Judged is the last request for each partition, and only where nothing came between: no cancellation was or may have been in force
since, and the controller did not refuse it. A partition that nobody leads can be moved by nobody, which is not for L4 to say.
"""

from checkers.rows import Call, EventRow
from history.event import EventKind as K

REQUESTS = ("reassign", "reassign-extra", "cancel-reassignments", "allow-reassignments")


def undone(done: list[Call], rows: list[tuple[str, EventRow]]) -> list[str]:
    """What was asked for and is not so; `rows` with the partition that each is about, as "orders-0"."""
    assigned: dict[str, tuple[str, ...]] = {}
    refused: dict[str, int] = {}
    led: dict[str, bool] = {}
    for name, row in rows:
        if row.kind == K.ASSIGNED:
            assigned[name] = row.replicas
        elif row.kind == K.REASSIGNMENT_REFUSED:
            refused[name] = row.at
        elif row.kind == K.STATE_WRITTEN:
            led[name] = row.leader is not None
    return [
        f"{name} was to be on {', '.join(replicas)} and is on {', '.join(assigned[name])} at the end"
        for name, (replicas, since) in _wanted(done).items()
        if led.get(name) and name in assigned and refused.get(name, -1) < since and assigned[name] != replicas
    ]


def _wanted(done: list[Call]) -> dict[str, tuple[tuple[str, ...], int]]:
    """The replicas that each partition must have come to, and since when that is wanted."""
    wanted: dict[str, tuple[tuple[str, ...], int]] = {}
    cancelled = False
    for call in sorted((call for call in done if call.f in REQUESTS), key=lambda call: call.invoked):
        certain = call.type == "ok"
        if call.f == "cancel-reassignments":
            cancelled = cancelled or call.type != "fail"
        elif call.f == "allow-reassignments":
            cancelled = cancelled and not certain
        elif call.type != "fail":
            name, _, replicas = (call.asked[0].value or "").partition(" on ")
            wanted.pop(name, None)
            if certain and not cancelled:
                wanted[name] = (tuple(f"b{number}" for number in replicas.split(",")), call.invoked)
        if cancelled:
            wanted.clear()
    return wanted
