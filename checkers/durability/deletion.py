"""Checker of deletions: only replicas outside the ISR are deleted, and a deleted topic's log is not written again.

Source: RES of the catalogue (B-48, B-52, B-53, B-59); V3 §F step 3.2.4, R-236. No replica in ZooKeeper's ISR is deleted unless
its topic's deletion was requested. After a broker has deleted a log of a topic under deletion, it neither leads nor follows nor
appends under that topic id: if a controller dies during a deletion, the next one starts it again and commands no such replica,
which would fetch the deleted records (B-62). A log that is back after a power loss, since its deletion was not on disk yet, may
have a role until it is deleted again. A partition that was removed and added again keeps its topic id (V3 §H). The checker
recognizes it by its state znode, which is written for the first time (version 0).

    >>> from checkers.sketches import sketch
    >>> sketch("deletion", "state-written leader=b1 isr=b1,b2 topic_id=9", "replica-deleted node=b2 topic_id=9")
    ['wrongly-deleted']
"""

from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "deletion"
_ROLES = {K.BECAME_LEADER: "leads", K.BECAME_FOLLOWER: "follows with"}
_AGAIN = {**_ROLES, K.APPEND: "appended to"}  # what a deleted replica never does


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge replica deletions of one partition over all topics that had its name.

    Rows without a topic id count as rows of one further topic.
    """
    topic, partition = partition_of(operations, events)
    key = f"{topic}-{partition}"
    isr: dict[str, tuple[tuple[str, ...], int]] = {}  # topic id -> ISR and its row
    ended: dict[str, int] = {}
    deleted: dict[tuple[str, str], int] = {}  # (node, topic id) -> row
    back: set[tuple[str, str]] = set()  # those of which a restart found the log
    anomalies: list[Anomaly] = []
    columns = (events.column(name) for name in ("index", "kind", "node", "topic_id", "isr", "zk_version"))
    for at, kind, node, id_, members, version in zip(*columns, strict=True):
        topic_id = id_ or ""
        replica = (node, topic_id)
        if kind == K.STATE_WRITTEN:
            # A partition without an earlier state row was deleted while it was being created: it is still the same partition.
            if version == 0 and topic_id in isr and ended.pop(topic_id, None) is not None:
                deleted = {who: row for who, row in deleted.items() if who[1] != topic_id}
            isr[topic_id] = (tuple(members or ()), at)
        elif kind == K.TOPIC_DELETED:
            ended.setdefault(topic_id, at)
        elif kind == K.REPLICA_DELETED:
            if topic_id in ended:  # a replica that was moved away may come back while its topic exists
                deleted[replica] = at
                back.discard(replica)
            counted, since = isr.get(topic_id, ((), -1))
            if node in counted and topic_id not in ended:
                words = f"{node} deleted its replica while it was in the ISR"
                anomalies.append(Anomaly(kind="wrongly-deleted", checker=NAME, key=key, witness=(since, at), words=words))
        elif kind == K.RECOVERED and replica in deleted:
            back.add(replica)
        elif kind in _AGAIN and replica in deleted and not (kind in _ROLES and replica in back):
            words = f"{node} {_AGAIN[kind]} its replica of topic {topic_id} after deleting it"
            witness = tuple(sorted((ended[topic_id], deleted.pop(replica), at)))
            anomalies.append(Anomaly(kind="resurrected", checker=NAME, key=key, witness=witness, words=words))
    return Findings(anomalies=tuple(anomalies))


CHECKER = Checker(
    name=NAME,
    claim="No replica in the ISR of a living topic is deleted; one deleted with its topic has no role and takes no records.",
    assumes="Brokers record each deletion with the topic's id; ZooKeeper's writes are recorded completely.",
    blind="Replicas outside the ISR; logs that vanish without a deletion (see acked-loss); stray logs (see convergence).",
    reports=(
        Kind("wrongly-deleted", Harm.LOSS, 80, breaks=("RES",), shown_by=("reassign-without-widening",)),
        Kind("resurrected", Harm.FALSE_READ, 120, breaks=("RES",), shown_by=("removals-last",)),
    ),
    group_by=PARTITION,
    events=(K.STATE_WRITTEN, K.TOPIC_DELETED, K.REPLICA_DELETED, K.RECOVERED, *_AGAIN),
    across_topics=True,
    check=check,
)
