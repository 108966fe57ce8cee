"""When what sessions were promised may be gone without a mistake: faults destroyed as many copies as a promise needs (DUR-4).

The state of a session (transactions, positions of groups) is in topics of the cluster's own, whose records no row of a history
shows. So nobody can say which of them a fault destroyed. Where faults took bytes from as many brokers as the weakest topic has to
keep in sync, or as those of sessions (SESSIONS_KEEP), or records of a topic are lost with an excuse, missing and repeated records
of sessions accuse nobody.
"""

from checkers.engine.facts import Facts
from checkers.engine.tables import Events
from checkers.engine.verdict import Cut
from history.event import EventKind
from history.promise import SESSIONS_KEEP

WOUNDS = (EventKind.WOUND,)


def excuse_of_sessions(events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> str | None:
    """What excuses lost records of sessions, in words; None: nothing does. `events` are those of the kinds in WOUNDS."""
    if cuts:
        cut = min(cuts)
        return f"records of {cut.topic}-{cut.partition} were lost with an excuse"
    nodes = sorted({str(node) for node in events.column("node")})
    copies = min(SESSIONS_KEEP, *(topic.min_insync_replicas for topic in facts.promise.topics))
    return f"faults destroyed bytes of {', '.join(nodes)}" if len(nodes) >= copies else None
