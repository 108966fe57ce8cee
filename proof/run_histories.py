"""Random histories of whole runs: controllers, processes and registrations of brokers, deleted and re-created topics."""

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Case

_NODES = ("b1", "b2", "b3")


def _event(index: int, kind: K, **columns: object) -> ClusterEvent:
    return ClusterEvent(index=index, kind=kind, time_ns=10_000_000 * index, **columns)  # type: ignore[arg-type]


def drawn_incarnations(rng: Rng) -> Case:
    """Return a random history of brokers that register, start and act, rarely as a wrong process or registration."""
    rows: list[ClusterEvent] = []
    life = dict.fromkeys(_NODES, 0)
    registered = {node: [0] for node in _NODES}
    stamp = dict.fromkeys(_NODES, -1)
    sessions_made = 10
    for index in range(6 + rng.below(12)):
        node = rng.pick(_NODES)
        is_odd = rng.below(24) == 0
        match rng.below(8):
            case 0 | 1:
                sessions_made += 1
                registered[node].append(sessions_made)
                incarnation_told = rng.pick(tuple(registered[node])) if is_odd else sessions_made
                rows.append(_event(index, K.REGISTERED, node=node, incarnation=incarnation_told, life=life[node] or 1))
            case 2:
                life[node] += 1
                rows.append(_event(index, K.NODE_STARTED, node=node, life=max(1, life[node] - is_odd)))
            case 3 | 4 | 5:
                kind = rng.pick((K.APPEND, K.HW, K.TRUNCATE, K.FENCED, K.UNFENCED, K.BECAME_LEADER, K.BECAME_FOLLOWER))
                spoken = max(1, life[node] - is_odd)
                rows.append(_event(index, kind, node=node, life=spoken, offset=0, hw=0, leo=0, value="v", leader_epoch=1))
            case _:
                isr = _NODES[: 1 + rng.below(3)]
                for member in isr:
                    if rng.below(3) == 0 and len(registered[member]) > 1:
                        stamp[member] = registered[member][-1] if rng.below(8) else rng.pick(tuple(registered[member]))
                stamps = tuple(99 if is_odd and rng.below(6) == 0 else stamp[member] for member in isr)
                rows.append(_event(index, K.STATE_WRITTEN, node=isr[0], leader=isr[0], leader_epoch=1, isr=isr, stamps=stamps))
    return Case([], rows)


def drawn_deletion(rng: Rng) -> Case:
    """Return a random history of one or two topics of a name: created, written to, deleted and created again."""
    rows: list[ClusterEvent] = []
    ids = rng.pick((("1",), ("1", "2"), (None,)))
    deleted: set[tuple[str | None, str]] = set()
    ending: set[str | None] = set()
    written: set[str | None] = set()
    isr: dict[str | None, tuple[str, ...]] = {}
    for index in range(5 + rng.below(10)):
        node, topic_id = rng.pick(_NODES), rng.pick(ids)
        is_wrong = rng.below(6) == 0
        match rng.below(8):
            case 0 | 1:
                isr[topic_id] = _NODES[rng.below(2) : 2 + rng.below(2)]
                anew = rng.below(4) == 0 and topic_id in ending
                version = 0 if topic_id not in written or anew else 1 + rng.below(3)
                written.add(topic_id)
                if anew:
                    ending.discard(topic_id)
                about = {"node": "b1", "leader": "b1", "leader_epoch": 1, "isr": isr[topic_id], "zk_version": version}
                rows.append(_event(index, K.STATE_WRITTEN, topic_id=topic_id, **about))
            case 2:
                ending.add(topic_id)
                rows.append(_event(index, K.TOPIC_DELETED, topic_id=topic_id))
            case 3 | 4 if topic_id in ending or node not in isr.get(topic_id, ()) or is_wrong:
                deleted.add((topic_id, node))
                rows.append(_event(index, K.REPLICA_DELETED, node=node, topic_id=topic_id, life=1))
            case 5 | 6 | 7 if (topic_id, node) not in deleted or is_wrong or rng.below(4) == 0:
                kind = rng.pick((K.APPEND, K.APPEND, K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RECOVERED))
                about = {"node": node, "life": 1, "offset": 0, "value": f"v{index}", "leader_epoch": 1, "detail": "follower"}
                about |= {"leo": 0, "hw": 0} if kind in (K.BECAME_LEADER, K.RECOVERED) else {}
                rows.append(_event(index, kind, topic_id=topic_id, **about))
            case _:
                pass
    return Case([], rows)


def drawn_controllers(rng: Rng) -> Case:
    """Return a random history of controller elections whose epochs mostly rise."""
    rows, epoch = [], 0
    for index in range(1 + rng.below(5)):
        epoch += 1 if rng.below(4) else 0
        node = f"b{1 + rng.below(3)}"
        stated = epoch if rng.below(8) else None
        rows.append(ClusterEvent(index=index, kind=K.CONTROLLER_ELECTED, time_ns=index, node=node, controller_epoch=stated))
    return Case([], rows)


def drawn_topics(rng: Rng) -> Case:
    """Return a random history of appends and reads, under their topic ids, of two topics that had the same name."""
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    for index in range(3 + rng.below(5)):
        about = {"topic": "t", "partition": 0, "topic_id": ("1", "2", None)[rng.below(7) // 3], "value": f"v{rng.below(3)}"}
        if rng.below(3):
            role = "leader" if rng.below(3) else "follower"
            row = {**about, "node": "b1", "life": 1, "offset": 0, "leader_epoch": 1, "detail": role}
            events.append(ClusterEvent(index=index, kind=K.APPEND, time_ns=index, **row))  # type: ignore[arg-type]
        else:
            type_ = OpType.OK if rng.below(4) else OpType.INFO
            row = {**about, "type": type_, "f": "poll", "offset": 0}
            operations.append(Operation(index=index, process=0, time_ns=index, **row))  # type: ignore[arg-type]
    return Case(operations, events)


def drawn_producers(rng: Rng) -> Case:
    """Return a random history of two producers that mostly follow the rules, and of the logs of two replicas."""
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    logs: dict[str, list[str]] = {"b1": [], "b2": []}
    about = {"topic": "t", "partition": 0}
    for index in range(0, 4 * (2 + rng.below(6)), 4):
        process = rng.below(2)
        value = f"v{index}"
        delivery = rng.pick(("once", "once", "once", None))
        invocation = {
            "process": process,
            "f": "produce",
            "value": value,
            "acks": rng.pick((-1, -1, 1)),
            "delivery": delivery,
            **about,
        }
        error = "OUT_OF_ORDER_SEQUENCE_NUMBER" if rng.below(6) == 0 else None
        answer = {"node": rng.pick(("b1", "b1", "b2", None)), "error": error}
        type_ = OpType.OK if error is None else OpType.FAIL
        operations.append(Operation(index=index, type=OpType.INVOKE, time_ns=index, **invocation))  # type: ignore[arg-type]
        operations.append(Operation(index=index + 1, type=type_, time_ns=index, **invocation, **answer))  # type: ignore[arg-type]
        node = rng.pick(("b1", "b2"))
        log = logs[node]
        if log and rng.below(4) == 0:
            del log[len(log) - 1 :]
            events.append(_event(index + 2, K.TRUNCATE, **about, node=node, offset=len(log), leader_epoch=1))
        value_told = rng.pick((value, value, value, f"v{index - 4}"))
        log.append(value_told)
        columns = {"node": node, "offset": len(log) - 1, "value": value_told, "leader_epoch": 1, "detail": "leader"}
        events.append(_event(index + 3, K.APPEND, **about, **columns))
    return Case(operations, events)


def drawn_flushes(rng: Rng) -> Case:
    """Return a random history of three replicas that flush, rarely too late for an HW, an acknowledgement or a join."""
    events: list[ClusterEvent] = []
    operations: list[Operation] = []
    flushed = dict.fromkeys(_NODES, 0)
    isr: tuple[str, ...] = _NODES
    about = {"topic": "t", "partition": 0}
    for index in range(4 + rng.below(14)):
        safe = min(flushed[node] for node in isr) + (rng.below(16) == 0)
        node = rng.pick(_NODES)
        match rng.below(9) if index else 0:
            case 0 | 1:
                isr = tuple(node for node in _NODES if flushed[node] >= safe or not rng.below(8)) or isr
                events.append(_event(index, K.STATE_WRITTEN, **about, leader=isr[0], leader_epoch=1, zk_version=index, isr=isr))
            case 2 | 3 | 4 | 5:
                flushed[node] += 1 + rng.below(2)
                events.append(_event(index, K.FLUSHED, **about, node=node, offset=flushed[node]))
            case 6:
                events.append(_event(index, K.HW, **about, node=isr[0], hw=safe, leo=safe, leader_epoch=1, detail="leader"))
            case 7 if safe:
                answer = {
                    "process": index,
                    "time_ns": index,
                    "f": "produce",
                    "value": f"v{index}",
                    "offset": safe - 1,
                    "acks": -1,
                }
                operations.append(Operation(index=index, type=OpType.OK, **about, **answer))  # type: ignore[arg-type]
            case _ if rng.below(4) == 0 and flushed[node]:
                flushed[node] -= 1
                events.append(_event(index, K.TRUNCATE, **about, node=node, offset=flushed[node], leader_epoch=1))
            case _:
                pass
    return Case(operations, events, m=1 + rng.below(3), flush="before_ack" if rng.below(8) else "none")


def drawn_electorate(rng: Rng) -> Case:
    """Return a random history of the writes of one partition's state, which mostly keep who leaves the ISR in the ELR."""
    keeps = bool(rng.below(4))
    rows: list[ClusterEvent] = []
    isr: tuple[str, ...] = _NODES
    elr: tuple[str, ...] = ()
    for index in range(3 + rng.below(10)):
        match rng.below(10):
            case 0 if rows:
                rows.append(_event(index, K.ASSIGNED, topic="t", partition=0, replicas=_NODES[: 1 + rng.below(3)]))
            case 1 if rows:
                rows.append(_event(index, K.UNCLEAN_ELECTION_ORDERED, topic="t", partition=0, leader="b1"))
            case _:
                before, isr = {*isr, *elr}, tuple(node for node in _NODES if rng.below(2)) or ("b1",)
                elr = tuple(sorted(before - {*isr})) if keeps and len(isr) < 2 and rng.below(6) else ()
                about = {"leader": isr[0], "leader_epoch": 1, "zk_version": index, "isr": isr, "elr": elr}
                rows.append(_event(index, K.STATE_WRITTEN, topic="t", partition=0, node=isr[0], **about))
    return Case([], rows, m=2, simulated=bool(rng.below(2)))
