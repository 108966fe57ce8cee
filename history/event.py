"""Cluster events: facts about nodes, ZooKeeper and the harness, as they were observed during the run.

White-box checkers read these rows. `EventKind` says which columns each kind fills. A fault that touches a node writes one row
without a partition. Where it destroys or withholds replicas, it also writes one row for each of those partitions.
"""

from enum import StrEnum

from msgspec import Struct


class EventKind(StrEnum):
    """The kind of a cluster event. `words` names the columns that rows of this kind fill, beside index, kind and time_ns."""

    words: str

    def __new__(cls, value: str, words: str) -> "EventKind":
        """Make an enum member that equals its text; its `words` names the columns that rows of this kind fill."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.words = words
        return member

    NODE_STARTED = "node-started", "node, life"
    NODE_STOPPED = "node-stopped", "node, life, detail: crash | power-loss | halt:<why>"
    REGISTERED = "registered", "node, life, incarnation (from ZooKeeper, at the moment of the write)"
    SESSION_ENDED = "session-ended", "node, incarnation: its registration was removed (from ZooKeeper)"
    CONTROLLER_ELECTED = "controller-elected", "node, controller_epoch"
    BROKER_STATE = (
        "broker-state",
        "node, life (controller), controller_epoch, broker, incarnation (of the broker), detail: its state",
    )
    COMMAND_UNANSWERED = (
        "command-unanswered",
        "node, life (controller), controller_epoch, broker, incarnation (of the broker), detail: the command that timed out",
    )
    FENCED = "fenced", "node, life, incarnation: from here on it refuses requests of clients and followers"
    UNFENCED = "unfenced", "node, life, incarnation: it accepts these requests again"
    CONTROLLER_RESIGNED = "controller-resigned", "node, controller_epoch"
    STATE_WRITTEN = (
        "state-written",
        "node (writer), partition, leader, leader_epoch, controller_epoch, zk_version, isr, stamps, elr (from ZooKeeper)",
    )
    ISR_CHANGE_SENT = "isr-change-sent", "node, partition, leader_epoch, zk_version, isr (wanted)"
    ISR_CHANGE_ENDED = (
        "isr-change-ended",
        "node, partition, leader_epoch, zk_version, isr (that the node now assumes), detail: applied | refused | read-back",
    )
    BECAME_LEADER = "became-leader", "node, life, partition, leader_epoch, leo, hw, isr"
    BECAME_FOLLOWER = "became-follower", "node, life, partition, leader_epoch, leader"
    RESIGNED = "resigned", "node, life, partition, leader_epoch: from here on it is neither leader nor follower"
    DIR_FAILED = "dir-failed", "node, life, incarnation, dir, detail: why. The broker reports the directory as failed"
    GAUGE = "gauge", "node, life, detail: the name of a metric that changed, gauge: its value"
    RECOVERED = "recovered", "node, life, partition, leo, hw, dir: the replica as found at startup"
    APPEND = "append", "node, life, partition, offset, leader_epoch (of the record), value, detail: leader | follower"
    TRUNCATE = "truncate", "node, life, partition, offset (the new LEO), detail: why"
    FLUSHED = (
        "flushed",
        "node, life, partition, dir, offset: records below it survive a power loss (topics with flush=before_ack; simulator)",
    )
    HW = "hw", "node, life, partition, hw, leo, leader_epoch, detail: leader | follower"
    ASSIGNED = "assigned", "topic_id, partition, replicas: assigned in the topic znode (from ZooKeeper)"
    TOPIC_DELETED = (
        "topic-deleted",
        "partition, topic_id: its removal or its topic's deletion was requested, or the topic znode was removed (from ZooKeeper)",
    )
    REPLICA_DELETED = "replica-deleted", "node, life, partition"
    REASSIGNMENT_BEGUN = "reassignment-begun", "node (controller), partition, detail: forward | back | down, and target replicas"
    REASSIGNMENT_ENDED = "reassignment-ended", "node (controller), partition, detail: forward | back, and target replicas"
    REASSIGNMENT_REFUSED = "reassignment-refused", "node (controller), partition, detail: why"
    REQUEST_REFUSED = "request-refused", "node (controller), detail: the path of the request under /admin, and why"
    WOUND = "wound", "node, incarnation, dir, partition, offset (first one destroyed), detail: power-loss | swapped | dropped"
    FAULT_BEGUN = "fault-begun", "fault (window id), node, detail: kind name"
    FAULT_ENDED = "fault-ended", "fault, node, detail: kind name"
    FAULT_ACTED = "fault-acted", "fault, node, detail: kind name, count: how often it took effect (messages dropped, ...)"
    FAULT_PROBED = (
        "fault-probed",
        "fault, node, detail: acts | no-effect | healed | still-there | not-measured, and what the probe observed, count: of the "
        "messages that the fault picked, those that arrived after their sender had given up the connection",
    )
    HEALED = "healed", "all faults have ended; none is in force from here on"
    FINAL_READS = "final-reads", "the final readers start"
    ZK_STATE = (
        "zk-state",
        "topic_id, partition, leader, leader_epoch, zk_version, isr, elr, replicas: the state in ZooKeeper at the end of the run",
    )
    METADATA_VIEW = (
        "metadata-view",
        "node, topic_id, partition, leader, leader_epoch, isr, replicas: metadata that the broker serves at the end of the run",
    )
    METADATA_TOLD = (
        "metadata-told",
        "node, topic_id, partition, leader, leader_epoch, isr, replicas, detail: its offline replicas; or, without a partition, "
        "the brokers that serve as replicas, and the controller as leader. What the broker tells clients, recorded only where "
        "it is wrong (simulator)",
    )
    LOG_ON_DISK = (
        "log-on-disk",
        "node, dir, topic_id, partition, leo, digest: a log in a directory at the end of the run; hw: of its checkpoint",
    )
    RECORD_ON_DISK = (
        "record-on-disk",
        "node, dir, partition, offset, leader_epoch (-1: the format has none), value: a record in such a log (no notes)",
    )
    CONFIGURED = (
        "configured",
        "detail: a topic, and one of its settings as it was written: `t min.insync.replicas=1`; without a value: removed "
        "(from ZooKeeper; not of the reference, whose topics keep theirs)",
    )
    UNCLEAN_ELECTION_ORDERED = "unclean-election-ordered", "partition, leader"
    RULE_BROKEN = (
        "rule-broken",
        "node, life, partition, detail: the rule that this process broke, what it did, and the clause. Recorded only where one "
        "is broken (simulator)",
    )
    ASSERTION = "assertion", "node, life, detail: an assertion of the system under test failed"


class ClusterEvent(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One row of the table of events: what was observed at which node and when. Absent columns are None."""

    index: int
    kind: EventKind
    time_ns: int
    node: str | None = None
    life: int | None = None  # number of this process among the processes of the node, from 1
    broker: str | None = None
    incarnation: int | None = None  # czxid of the registration
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    leader: str | None = None
    leader_epoch: int | None = None
    controller_epoch: int | None = None
    zk_version: int | None = None
    isr: tuple[str, ...] | None = None
    stamps: tuple[int, ...] | None = None
    elr: tuple[str, ...] | None = None
    replicas: tuple[str, ...] | None = None
    hw: int | None = None
    leo: int | None = None
    offset: int | None = None
    count: int | None = None
    gauge: int | None = None
    value: str | None = None
    digest: str | None = None
    dir: int | None = None
    fault: str | None = None
    detail: str | None = None
