"""Definitions of how a run must end: the cluster is whole and its final observations agree (docs/promise.md §6)."""

from history.event import ClusterEvent
from history.event import EventKind as K
from proof.liveness_definitions import BOUND_NS
from proof.log_rows import Case, Events, calls

BROKERS = ("b1", "b2", "b3")


def convergence(case: Case) -> set[str]:
    """Definition of LIVE-1 and LIVE-2: ZooKeeper, each broker's metadata for clients, and each log on disk agree.

    A partition whose deletion was ordered need not agree.
    """
    states, views, logs = (
        [row for row in case.events if row.kind is kind] for kind in (K.ZK_STATE, K.METADATA_VIEW, K.LOG_ON_DISK)
    )
    if not states:
        return {f"told {row.node}" for row in views} | {f"left {row.node} {row.dir}" for row in logs}
    state = states[0]
    orders = [row.kind for row in case.events if row.kind in (K.ASSIGNED, K.TOPIC_DELETED) and row.topic_id == state.topic_id]
    if orders[-1:] == [K.TOPIC_DELETED]:
        return set()  # its deletion goes on
    written = [row.node for row in case.events if row.kind is K.STATE_WRITTEN]
    complaints: set[str] = set()
    for node in BROKERS:
        views_of_node = [row for row in views if row.node == node]
        complaints |= {f"mute {node}"} if not views_of_node and state.leader is not None else set()
        for view in views_of_node:
            complaints |= {f"leader {node}"} if not _agree(_reign(view), _reign(state)) else set()
            complaints |= {f"assignment {node}"} if view.replicas != state.replicas else set()
            complaints |= {f"view-id {node}"} if view.topic_id not in (None, state.topic_id) else set()
            # No message tells the other brokers of a state that the leader wrote itself.
            told_of = written[-1:] != [state.leader] if written else state.leader is not None
            complaints |= {f"isr {node}"} if told_of and set(view.isr or ()) != set(state.isr or ()) else set()
        complaints |= _logs_of(node, state, logs)
    return complaints


def _reign(row: ClusterEvent) -> tuple[str | None, int | None]:
    return row.leader, row.leader_epoch


def _agree(one: tuple[object, object], other: tuple[object, object]) -> bool:
    """Whether two observations are equal; the second part of each (leader epoch, digest) may be unknown."""
    return one[0] == other[0] and (None in (one[1], other[1]) or one[1] == other[1])


def _logs_of(node: str, state: ClusterEvent, logs: Events) -> set[str]:
    """LIVE-2: one log on each assigned replica, equal to the leader's, and none elsewhere."""
    logs_of_node = [row for row in logs if row.node == node]
    complaints = {f"log-id {node} {row.dir}" for row in logs_of_node if row.topic_id not in (None, state.topic_id)}
    if node not in (state.replicas or ()):
        return complaints | {f"stray {node} {row.dir}" for row in logs_of_node}
    complaints |= {f"twice {node}"} if len(logs_of_node) > 1 else set()
    complaints |= {f"missing {node}"} if not logs_of_node and state.leader is not None else set()
    right = [(row.leo, row.digest) for row in logs if row.node == state.leader][:1]
    unlike = node != state.leader and any(right and not _agree((row.leo, row.digest), right[0]) for row in logs_of_node)
    return complaints | ({f"unlike {node}"} if unlike else set())


def cluster(case: Case) -> set[str]:
    """Definition of LIVE-1 and LIVE-4: all brokers registered, one controller, every partition known, no request left."""
    kinds = {row.kind for row in case.events}
    if K.REGISTERED not in kinds or (K.BECAME_LEADER in kinds and K.STATE_WRITTEN not in kinds):
        return {"unjudged"}
    in_time = [row for row in case.events if row.time_ns <= (case.healed_at_ns or 0) + BOUND_NS]
    complaints = {f"{what} at the end" for what in _cluster_lacks(case.events)}
    if len(in_time) < len(case.events):
        complaints |= {f"{what} in time" for what in _cluster_lacks(in_time)}
    is_led = [row.leader for row in case.events if row.kind is K.STATE_WRITTEN][-1:] != [None]
    looks = [call for call in calls(case.operations, "admin-pending") if call.asked[0].time_ns >= (case.final_reads_at_ns or 0)]
    complaints |= {"unlooked"} if looks and not any(call.ok for call in looks) else set()
    pending = [row.value for call in looks if call.ok for row in call.answer if row.value is not None]
    return complaints | {f"pending {value}" for value in pending if is_led or not value.startswith("/admin/reassign")}


def _cluster_lacks(rows: Events) -> set[str]:
    """LIVE-1: brokers without a live registration; no controller, or the last elected one has gone or resigned."""
    complaints = {f"unregistered {node}" for node in BROKERS if not _is_registered(rows, node)}
    elected = [row for row in rows if row.kind is K.CONTROLLER_ELECTED]
    if not elected:
        return complaints | {"uncontrolled"}
    node = elected[-1].node
    since = [row for row in rows if row.index > elected[-1].index]
    resigned = any(row.kind is K.CONTROLLER_RESIGNED and row.node == node for row in since)
    ended = any(row.kind is K.SESSION_ENDED and row.node == node and _had_session(rows, row) for row in since)
    return complaints | ({"uncontrolled"} if resigned or ended else set())


def _is_registered(rows: Events, node: str) -> bool:
    made = [row for row in rows if row.kind is K.REGISTERED and row.node == node]
    ends = [row for row in rows if row.kind is K.SESSION_ENDED and row.node == node and made and row.index > made[-1].index]
    return bool(made) and not any(row.incarnation == made[-1].incarnation for row in ends)


def _had_session(rows: Events, ended: ClusterEvent) -> bool:
    """Whether the session that ended was the broker's current one."""
    made = [row for row in rows if row.kind is K.REGISTERED and row.node == ended.node and row.index < ended.index]
    return bool(made) and made[-1].incarnation == ended.incarnation
