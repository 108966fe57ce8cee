"""Unclean elections that were confirmed and never held (docs/promise.md DUR-7, LIVE-4; V3 §D: a request stays until it is done).

An operator's order stays in ZooKeeper until a leader is elected, or until no replica can lead. Then it is deleted, and the
operator is told that it is done. A controller that deletes it earlier and dies forgets it, and the partition stays offline.

An order that the operator waits for in vain is judged too, if in the last 6 s nothing happened to brokers and no fault was in
force but at brokers that are down.

An order is judged if a replica could lead from its request to its confirmation: one assigned, registered, and active for the
controller, whose directories never failed and were never swapped (DUR-6). It is in ISR or ELR; or it was in the ISR once, was
never taken away, and its broker is older than the topic, so that its log was never emptied. A swap that came before the
registration for which a member of the ISR counts does not matter: the member joined with the log that it made afterwards, so this
log is not emptied (DUR-4), although it is younger than the topic. Edits by hand may delete the order.
Only simulated runs are judged: on real nodes the rows of operators and of ZooKeeper come by different clocks.
"""

from collections.abc import Iterable

from checkers.engine.calms import CALM_MS
from checkers.engine.facts import MS, Facts
from checkers.engine.rows import Call, ClusterRow
from checkers.engine.tables import Events
from checkers.timeline.moves import EDIT
from history.event import EventKind as K

REQUEST = "elect-unclean"
_HELD_MS = CALM_MS + 1000  # a connection may stand still for CALM_MS after a cut; then the election takes a few messages
_OF_BROKERS = (K.REGISTERED, K.SESSION_ENDED, K.BROKER_STATE, K.FAULT_BEGUN, K.FAULT_ENDED)
ROWS = (K.STATE_WRITTEN, K.ASSIGNED, K.TOPIC_DELETED, K.DIR_FAILED, K.WOUND, *_OF_BROKERS)
_PATH = "/admin/unclean_election"


def forgotten(calls: list[Call], events: Events, facts: Facts) -> list[str]:
    """Describe each unclean election that was confirmed, or waited for in vain, without a leader though a replica could lead."""
    requests = [call for call in calls if call.f == REQUEST and (call.type == "ok" or _in_vain(call))]
    edited = any(call.f == EDIT and (call.asked[0].value or "").startswith(_PATH) for call in calls)
    if not requests or edited or not facts.simulated:
        return []
    rows = events.of(*ROWS, K.REQUEST_REFUSED).as_rows(ClusterRow)
    complaints = []
    for call in requests:
        name, _ = call.request
        rows_before = [row for row in rows if row.at < call.ended]
        refused = any(row.kind == K.REQUEST_REFUSED and row.at > call.invoked and _PATH in row.detail for row in rows_before)
        since = {row.node: row.incarnation for row in reversed(rows_before) if row.kind == K.REGISTERED}
        about = [row for row in rows_before if _is_about(row, name)]
        able = [] if refused else _electable_replicas(about, call, since)
        joined = _registrations_of_members(about, rows_before, call)
        fit = [node for node in able if _has_served(node, rows_before, call, joined.get(node, -1))]
        if fit and (call.type == "ok" or _is_calm(rows_before, call, facts)):
            ended = "confirmed" if call.type == "ok" else "given up"
            happened = f"the unclean election of {name} was {ended} at row {call.ended}, and nobody was elected"
            complaints.append(f"{happened}, though {' and '.join(fit)} could lead")
    return complaints


def _in_vain(call: Call) -> bool:
    return bool(call.rows) and call.rows[0].error == "REQUEST_TIMED_OUT"


def _is_calm(rows: list[ClusterRow], call: Call, facts: Facts) -> bool:
    """Whether in the last _HELD_MS nothing happened to any broker, and no fault was in force but at brokers that are down."""
    since_ns = call.rows[0].time_ns - _HELD_MS * MS
    rows_of_brokers = [row for row in rows if row.kind in _OF_BROKERS]
    if call.invoked_ns > since_ns or any(row.time_ns >= since_ns for row in rows_of_brokers):
        return False
    last = {(row.fault, row.node): row.kind for row in rows_of_brokers if row.kind in (K.FAULT_BEGUN, K.FAULT_ENDED)}
    registered = {row.node: row.kind == K.REGISTERED for row in rows_of_brokers if row.kind in (K.REGISTERED, K.SESSION_ENDED)}
    hit = [node for (_, node), kind in last.items() if kind == K.FAULT_BEGUN]
    return all(node in facts.brokers and not registered.get(node, False) for node in hit)


def _is_about(row: ClusterRow, name: str) -> bool:
    return row.partition is not None and f"{row.topic}-{row.partition}" == name


def _electable_replicas(rows: list[ClusterRow], call: Call, since: dict[str, int]) -> list[str]:
    """The replicas that an order may elect; none if the partition had a leader since the request, or is deleted.

    `since`: the first registration of each broker.
    """
    states = [row for row in rows if row.kind == K.STATE_WRITTEN]
    assigned = [row.replicas for row in rows if row.kind == K.ASSIGNED]
    before = [row for row in states if row.at < call.invoked]
    was_led = any(row.leader is not None for row in states[max(len(before) - 1, 0) :])
    if not before or was_led or any(row.kind == K.TOPIC_DELETED for row in rows):
        return []
    last = before[-1]
    topic_id = int(last.topic_id) if last.topic_id is not None and last.topic_id.isdecimal() else -1
    counted = {*last.isr, *(last.elr or ())}
    older = {node for row in before for node in row.isr if since.get(node, topic_id) < topic_id}
    return [node for node in sorted(counted | older) if assigned and all(node in replicas for replicas in assigned)]


def _registrations_of_members(about: list[ClusterRow], rows: list[ClusterRow], call: Call) -> dict[str, int]:
    """For each member of the ISR before the request, the row of the registration for which it counts."""
    states = [row for row in about if row.kind == K.STATE_WRITTEN and row.at < call.invoked]
    counted = dict(zip(states[-1].isr, states[-1].stamps or (), strict=False)) if states else {}
    return {row.node: row.at for row in rows if row.kind == K.REGISTERED and counted.get(row.node) == row.incarnation}


def _rows_in_force(rows: list[ClusterRow], call: Call) -> Iterable[ClusterRow]:
    """The last of these rows before the request, and all later ones."""
    before = [row for row in rows if row.at < call.invoked]
    return (*before[-1:], *rows[len(before) :])


def _has_served(node: str, rows: list[ClusterRow], call: Call, joined: int) -> bool:
    """Whether a broker was registered and active all the time; no directory failed, and none was swapped since row `joined`."""
    swapped = [row for row in rows if row.node == node and row.kind == K.WOUND and row.detail == "swapped"]
    if any(row.at > joined for row in swapped) or any(row.node == node and row.kind == K.DIR_FAILED for row in rows):
        return False
    lives = [row for row in rows if row.node == node and row.kind in (K.REGISTERED, K.SESSION_ENDED)]
    if not lives or lives[-1].kind != K.REGISTERED or lives[-1].at > call.invoked:
        return False
    noted = [row for row in rows if row.kind == K.BROKER_STATE and (row.broker, row.incarnation) == (node, lives[-1].incarnation)]
    in_force = list(_rows_in_force(noted, call))
    return bool(in_force) and in_force[0].at < call.invoked and all(row.detail == "active" for row in in_force)
