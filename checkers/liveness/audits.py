"""What a healed cluster still owes an administrator: each kind of request is carried out again (docs/promise.md LIVE-5).

Only requests are judged that began after the bound B, when no fault is in force and no other administrator works. But a request
that was refused is never carried out: an administrator whose answer was lost must find its own request, and neither take it for
that of another one nor send it again (R-147, R-149).
"""

from collections.abc import Iterable

from checkers.engine.facts import MS, PROMPT_MS, Facts
from checkers.engine.rows import Call, EventRow
from checkers.timeline.moves import EDIT
from history.event import EventKind as K
from history.op import ADMIN_REQUESTS

_IN_PROGRESS = "REASSIGNMENT_IN_PROGRESS"
_TAKEN = ("TOPIC_ALREADY_EXISTS", _IN_PROGRESS)  # the znode of a request is there already
_MOVES_LATER = "reassign-extra"
_SHARED = ("delete-topic", "elect-preferred", "elect-unclean", "reassign", "reassign-extra")  # one znode for all topics
_CREATE, _DELETE = ("create-topic", "add-partition"), ("delete-topic", "remove-partition")
_MOVE = ("reassign", "reassign-extra", "reassign-request")
_UNTIL_GONE = ("delete-topic", "elect-preferred", "elect-unclean", "add-partition", "remove-partition")  # ok: its znode is gone


def pending_requests(calls: list[Call], facts: Facts) -> list[str]:
    """The requests that administrators were told of after the final reads began, as still pending (LIVE-4)."""
    if facts.final_reads_at_ns is None:
        return []
    looks = [call for call in calls if call.f == "admin-pending" and call.invoked_ns >= facts.final_reads_at_ns]
    if looks and not any(call.type == "ok" for call in looks):
        return ["at the end no administrator could read the open requests under /admin"]
    answered = [call for call in looks if call.type == "ok"]
    return [f"{row.value} is still requested at the end" for call in answered for row in call.rows if row.value is not None]


def unserved(calls: list[Call], deadline_ns: int, *, offline: bool) -> list[str]:
    """Describe each admin request after the deadline that was not answered with success.

    While a partition is `offline`, its move cannot end, and may keep the znode that all moves share (SILENT-2).
    """
    complaints = []
    for call in _after(calls, deadline_ns, ADMIN_REQUESTS):
        if call.type != "ok":
            error = (call.rows[0].error if call.rows else None) or "no answer"
            if offline and call.f in _MOVE and error == _IN_PROGRESS:
                continue
            complaints.append(f"{_words(call)} was requested after the bound and failed: {error}")
    return complaints


def misrefused(calls: list[Call], facts: Facts) -> list[str]:
    """Describe each admin request that was refused because of another one, though there was none that could stand in its way.

    The other one is of the same kind, and of the same topic or partition where requests of that kind do not share a znode. It may
    have been made at any time before, unless it is known that it was carried out and its znode is gone. An operator who edits
    znodes by hand may stand in the way of everybody.
    """
    if any(call.f == EDIT for call in calls):
        return []
    first = {assigned.topic for assigned in facts.assignments}
    complaints = []
    for call in calls:
        error = call.rows[0].error if call.rows and call.type == "fail" else None
        if error not in _TAKEN or (call.f == "create-topic" and call.request[0] in first):
            continue
        rivals = {_znode(call), (_MOVES_LATER, None)} if call.f == "reassign" else {_znode(call)}  # it gets their entries
        others = [
            other_audit
            for other_audit in calls
            if other_audit is not call and _znode(other_audit) in rivals and other_audit.invoked < call.ended
        ]
        ended_deletions = [o for o in others if o.f in _UNTIL_GONE and o.type == "ok" and o.ended < call.invoked]
        if len(others) == len(ended_deletions):
            complaints.append(
                f"{_words(call)} was refused with {error} at row {call.ended}, though no other such request was there"
            )
    return complaints


def _znode(call: Call) -> tuple[str, str | None]:
    return call.f, None if call.f in _SHARED else call.request[0]


def slow(calls: Iterable[Call], facts: Facts, deadline_ns: int) -> list[str]:
    """Describe each request after the deadline whose answer took longer than PROMPT_MS, of a run in simulated time (LIVE-8)."""
    if not facts.simulated:
        return []
    waited = ((call, call.rows[0].time_ns - call.invoked_ns) for call in calls if call.rows and call.invoked_ns >= deadline_ns)
    return [
        f"process {call.process} waited {ns // MS} ms for the answer to its {call.f} at row {call.invoked}"
        for call, ns in waited
        if ns > PROMPT_MS * MS
    ]


def belied(calls: list[Call], rows: Iterable[tuple[str, EventRow]]) -> list[str]:
    """Describe each request that was refused and whose effect came nevertheless, though nobody else had asked for it."""
    effects = [(name, row) for name, row in rows if row.kind in (K.ASSIGNED, K.TOPIC_DELETED, K.REASSIGNMENT_BEGUN)]
    complaints = []
    for call in calls:
        family = next((kinds for kinds in (_CREATE, _DELETE, _MOVE) if call.f in kinds), None)
        if family is None or call.type != "fail":
            continue
        others = (
            other_call
            for other_call in calls
            if other_call is not call and other_call.type != "fail" and other_call.invoked < call.ended
        )
        if any(
            other_call.f == EDIT or (other_call.f in family and other_call.request[0] == call.request[0]) for other_call in others
        ):
            continue
        if (row := next((row for name, row in effects if _is_effect(call, name, row, effects)), None)) is not None:
            error = call.rows[0].error if call.rows else None
            complaints.append(
                f"{_words(call)} was refused with {error} at row {call.ended}, though it was carried out at row {row.at}"
            )
    return complaints


def _is_effect(call: Call, name: str, row: EventRow, effects: list[tuple[str, EventRow]]) -> bool:
    """Whether a row shows that a request was carried out before its refusal."""
    subject, replicas = call.request
    about = name if "partition" in call.f or call.f in _MOVE else name.rpartition("-")[0]
    if about != subject or not call.invoked < row.at < call.ended:
        return False
    if call.f in _MOVE:
        return row.kind == K.REASSIGNMENT_BEGUN and row.detail == f"forward to {replicas}"
    if call.f in _CREATE:
        before = [effect_row.kind for effect_name, effect_row in effects if effect_name == name and effect_row.at < row.at]
        return row.kind == K.ASSIGNED and before[-1:] != [K.ASSIGNED]
    return row.kind == K.TOPIC_DELETED


def unpreferred(calls: list[Call], rows: Iterable[tuple[str, EventRow]], deadline_ns: int) -> list[str]:
    """Describe each partition whose preferred replica was elected after the deadline, and which another broker leads at the end.

    A partition that was moved after the election is left out, and so is one without a leader, which is judged by itself.
    """
    elected = {
        name: call
        for call in _after(calls, deadline_ns, ("elect-preferred",))
        if call.type == "ok" and (name := call.asked[0].value) is not None
    }
    leaders: dict[str, str | None] = {}
    replicas: dict[str, tuple[str, ...]] = {}
    assigned_at: dict[str, int] = {}
    for name, row in rows:
        if row.kind == K.STATE_WRITTEN:
            leaders[name] = row.leader
        elif row.kind == K.ASSIGNED:
            replicas[name], assigned_at[name] = row.replicas, row.at
    return [
        f"{leaders[name]} leads {name} at the end, though its preferred replica {replicas[name][0]} was elected after the bound"
        for name, call in elected.items()
        if leaders.get(name) is not None and name in replicas
        if assigned_at[name] < call.invoked and leaders[name] != replicas[name][0]
    ]


def _after(done: list[Call], deadline_ns: int, kinds: tuple[str, ...]) -> list[Call]:
    return sorted((call for call in done if call.f in kinds and call.invoked_ns >= deadline_ns), key=lambda call: call.invoked)


def _words(call: Call) -> str:
    value = call.asked[0].value
    return call.f if value is None else f"{call.f} {value}"
