"""Replicas go when they must, and stay gone (RES of the catalogue: B-48, B-52, B-53, B-59; V3 §F step 3.2.4, R-236).

A replica that counts is not deleted: none that stands in ZooKeeper's ISR of a topic that nobody asked to delete. And the replica
of a topic that was deleted does not come back under the id of that topic: where a broker has deleted its log after the deletion
was asked for, nothing is appended to one there again. That it is led or followed for a moment is no harm: a controller that dies
in the middle of a deletion leaves it to the next one, which begins it anew. A partition that was removed and added again has the
id of before (V3 §H); that it is another one shows in its state znode, which is written for the first time.

    >>> from checkers.sketches import sketch
    >>> sketch("deletion", "state-written leader=b1 isr=b1,b2 topic_id=9", "replica-deleted node=b2 topic_id=9")
    ['wrongly-deleted']
"""

import polars as pl

from checkers.checker import PARTITION, Checker, Facts, partition_of
from checkers.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "deletion"


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """One partition, over all topics that had the name. Rows without a topic's id are of the one topic of their name."""
    topic, partition = partition_of(operations, events)
    key = f"{topic}-{partition}"
    isr: dict[str, tuple[tuple[str, ...], int]] = {}  # topic id -> ISR and its row
    ended: dict[str, int] = {}
    deleted: dict[tuple[str, str], int] = {}  # (node, topic id) -> row
    anomalies: list[Anomaly] = []
    columns = (events[name].to_list() for name in ("index", "kind", "node", "topic_id", "isr", "zk_version"))
    for at, kind, node, id_, members, version in zip(*columns, strict=True):
        topic_id = id_ or ""
        if kind == K.STATE_WRITTEN:
            # One that has no state before that was asked for while it was being made: it is the same still.
            if version == 0 and topic_id in isr and ended.pop(topic_id, None) is not None:
                deleted = {who: row for who, row in deleted.items() if who[1] != topic_id}
            isr[topic_id] = (tuple(members or ()), at)
        elif kind == K.TOPIC_DELETED:
            ended.setdefault(topic_id, at)
        elif kind == K.REPLICA_DELETED:
            if topic_id in ended:  # a replica that was moved away may come back as long as its topic lives
                deleted[(node, topic_id)] = at
            counted, since = isr.get(topic_id, ((), -1))
            if node in counted and topic_id not in ended:
                words = f"{node} deleted its replica while it stood in the ISR"
                anomalies.append(Anomaly(kind="wrongly-deleted", checker=NAME, key=key, witness=(since, at), words=words))
        elif kind == K.APPEND and (node, topic_id) in deleted:
            words = f"{node} appends to a replica of topic {topic_id} again, which was deleted"
            witness = tuple(sorted((ended[topic_id], deleted.pop((node, topic_id)), at)))
            anomalies.append(Anomaly(kind="resurrected", checker=NAME, key=key, witness=witness, words=words))
    return Findings(anomalies=tuple(anomalies))


CHECKER = Checker(
    name=NAME,
    claim="No replica in the ISR of a living topic is deleted, and nothing is appended to one that was deleted with its topic.",
    assumes="Brokers note each deletion with the topic's id; ZooKeeper's writes are complete.",
    blind="Replicas outside the ISR; logs that vanish without a deletion (the ledger sees what they held); strays (convergence).",
    kinds=("wrongly-deleted", "resurrected"),
    group_by=PARTITION,
    events=(K.STATE_WRITTEN, K.TOPIC_DELETED, K.REPLICA_DELETED, K.APPEND),
    across_topics=True,
    check=check,
)
