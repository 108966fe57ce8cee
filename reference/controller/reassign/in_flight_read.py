"""The reads of the reassignment agent by proposal B of KIP-236 (C-19): requests and entries in flight."""

from reference.config import Variant
from reference.controller.context import Agent
from reference.coordination import admin_paths, reassignment_requests
from reference.coordination.admin_paths import REASSIGN, REASSIGNMENTS, REQUESTS, Reassignments
from reference.coordination.api import AnyAnswer, AnyOp, Children, Data, Exists, GetChildren, GetData
from reference.types import topic_of, topic_partition

ROOTS = (REASSIGN, REQUESTS)  # "requires only 1 more watch than the current version": none for each reassignment
LISTING: tuple[AnyOp, ...] = (
    *(Exists(root, watch=True) for root in ROOTS),
    GetChildren(REQUESTS, watch=True),
    GetChildren(REASSIGNMENTS),
)


def in_use(variant: Variant) -> bool:
    """C-19: whether the controller works by proposal B."""
    return variant.reassignment == "B"


def on_listed(agent: Agent, answers: tuple[AnyAnswer, ...]) -> tuple[AnyOp, ...]:
    """The next reads: requests and topics of entries in flight, then the entries; empty when all are known."""
    match agent.step:
        case "listing":
            agent.step = "topics"
            return _on_roots(agent, answers)
        case "topics":
            agent.step = "entries"
            found = [(op.path, answer) for op, answer in zip(agent.asked, answers, strict=True)]
            agent.requests = {path: reassignment_requests.decode_request(a.data) for path, a in found if isinstance(a, Data)}
            topics = [(path, a.names) for path, a in found if isinstance(a, Children)]
            agent.parents += tuple(path for path, _ in topics)
            return tuple(GetData(f"{path}/{name}") for path, names in topics for name in names if name.isdecimal())
        case _:
            _on_entries(agent, answers)
            return ()


def _on_roots(agent: Agent, answers: tuple[AnyAnswer, ...]) -> tuple[AnyOp, ...]:
    legacy, _, requests, topics = answers
    agent.legacy, agent.bad, agent.version = {}, 0, -1
    if isinstance(legacy, Data):
        agent.legacy, agent.bad = admin_paths.decode_reassignments(legacy.data)
        agent.version = legacy.version
    agent.entries, agent.versions, agent.requests, agent.parents = {}, {}, {}, ()
    ops: tuple[AnyOp, ...] = ()
    if isinstance(requests, Children):
        agent.parents += (REQUESTS,)
        ops += tuple(GetData(f"{REQUESTS}/{name}") for name in requests.names)
    if isinstance(topics, Children):
        agent.parents += (REASSIGNMENTS,)
        ops += tuple(GetChildren(f"{REASSIGNMENTS}/{topic}") for topic in topics.names)
    return ops


def _on_entries(agent: Agent, answers: tuple[AnyAnswer, ...]) -> None:
    found: Reassignments = {}
    for op, answer in zip(agent.asked, answers, strict=True):
        if isinstance(answer, Data):
            topic, _, index = op.path.removeprefix(f"{REASSIGNMENTS}/").rpartition("/")
            tp = topic_partition(topic, int(index))
            agent.versions[tp] = answer.version
            entry = reassignment_requests.decode_entry(answer.data)
            if entry is not None:  # else another client wrote there: the znode is deleted
                found[tp] = entry
    agent.entries = dict(sorted(found.items()))


def topics_asked(agent: Agent) -> tuple[str, ...]:
    """The topics of the requests and of the legacy entries."""
    tps = [tp for request in agent.requests.values() for tp in request.replicas]
    return tuple(sorted({topic_of(tp) for tp in (*tps, *agent.legacy)}))
