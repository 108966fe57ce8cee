"""Settings of a broker and the config switches of the protocol: each deviation from V3's text is a field of `Variant`.

The default of every switch is its setting in `safe`. A named variant of highwater/catalogue/bugs.yaml is `safe` with one or
more switches changed.
"""

from typing import Literal, get_args

import msgspec
from msgspec import Struct

from reference.types import BrokerId, Millis


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The config switches of the protocol. The comment at each names its statement (R, U, C) or bug (B, KAFKA) and its values."""

    # how a follower finds the offset where its log diverges from the leader's: U-01, B-01, B-04, B-06
    # "fetch" is Kafka's way since 2.7 (KIP-595): the leader finds the offset while it serves a fetch
    truncation: Literal["hw", "kip101", "kip279", "kip320", "fetch"] = "kip320"
    fetch_fencing: bool = True  # U-12, B-06: fetches carry the leader epoch; other epochs are refused
    follower_change: Literal["epoch", "leader_id"] = "epoch"  # U-07, B-07: act on each epoch | only on another leader
    leader_change: Literal["epoch", "role"] = "epoch"  # U-06, C-10: act on each epoch | only if not leader already
    epoch_end_recheck: bool = True  # B-10: an answer to EpochEnd from an earlier epoch is ignored

    # the log, its epoch cache, and how a follower handles an answer
    append_check: bool = True  # B-03: records below the log end are not appended again
    record_epoch_start: bool = True  # B-09, KAFKA-7415: a leader caches the start of its epoch before it writes
    epoch_cache: Literal["strict", "lazy"] = "strict"  # B-11, KAFKA-10706: entries that contradict a later epoch go | stay
    leo_of_diverging: bool = False  # B-12, KAFKA-13141: with truncation=fetch, a follower that must truncate counts
    hw_of_diverging: bool = False  # B-13, KAFKA-14704: with truncation=fetch, the HW rises before truncation
    out_of_range_resets: bool = False  # B-16, KAFKA-2143: a follower out of its leader's range empties its log
    epoch_before_transition: bool = False  # B-56: an epoch counts as followed though a crash interrupted the transition
    session_handler_lock: bool = False  # B-46, KAFKA-4360: a controller that outlives its session is never elected again

    isr_join: Literal["epoch_start", "hw_only", "v3_literal"] = "epoch_start"  # U-05, B-08 | 0.8 | C-07, B-29
    isr_change: Literal["maximal", "current", "eager"] = "maximal"  # B-30: HW over the union, min ISR over the intersection
    # which follower lags: by the time since it was caught up | V3: the last one, in messages or time (R-057, B-41, C-09) |
    # the article: each one, in messages or by the time since its fetch
    lag_rule: Literal["caught_up", "last_change", "last_fetch"] = "caught_up"
    isr_shrink: Literal["timer", "fetch"] = "timer"  # U-15, R-060: by a periodic timer | only while serving a fetch
    lag_clock: Literal["monotonic", "wall"] = "monotonic"
    isr_version_reread: bool = True  # B-40: a refused ISR write is read back

    hw_monotone: bool = True  # U-04: a leader's HW never falls within its epoch
    hw_clamp: bool = True  # U-03, B-20: HW <= LEO at a follower and after recovery
    hw_checkpoint: Literal["merge", "eager", "missing", "zero_on_shutdown"] = "merge"  # B-18, B-19
    consumer_limit: Literal["hw", "leo"] = "hw"  # B-23
    fetch_between_hw_leo: Literal["empty", "out_of_range"] = "empty"  # B-22
    list_offsets_before_epoch_start: bool = False  # B-22, KIP-207
    purgatory_epoch_check: bool = True  # B-27

    hw_under_min_isr: bool = False  # KAFKA-15583: the HW rises while the ISR has fewer than min.insync.replicas members
    elr: bool = True  # KIP-966, B-34: a replica that leaves a short ISR stays eligible to lead
    log_birth: bool = True  # B-33: a log created after its replica joined the ISR does not count as that replica
    min_isr_check: Literal["both", "append_only", "none"] = "both"  # B-65
    unclean_election: bool = False  # U-02, C-15, R-022
    empty_isr: bool = False  # U-18, B-57: if no member is alive, the ISR is written empty instead of kept

    controller_epoch: bool = True  # /controller_epoch exists; commands carry it; V3 has none
    controller_epoch_persist: bool = True  # B-46: the epoch comes from /controller_epoch, not from memory
    controller_epoch_check: bool = True  # U-08, B-45: commands of an older controller are refused
    admin_path_first: bool = False  # C-13: V3 deletes the admin path before it updates the topic path
    removals_first: bool = True  # B-62: who commands or creates replicas knows what is being deleted | V3 §D: read last
    zk_guard: bool = True  # B-44: controller writes are multis that check /controller_epoch
    epoch_bump: Literal["every_write", "leader_change", "never"] = "every_write"  # when the controller raises the leader epoch
    broker_incarnation: bool = True  # U-09, B-47, B-48: registrations are told apart; stale ISR members are not elected
    startup_leads: bool = False  # R-045 3.2: become leader from the state read at startup
    startup_epoch_floor: bool = True  # refuse a leader epoch below the last one in the log
    init_deletes: bool = False  # U-11, B-53
    stop_replica_epoch: bool = True  # U-10, B-52
    # R-081, V3 Discussion 6: clients are told of a leader when it is in ZooKeeper | once it has answered its command
    client_routing: Literal["at_once", "answered"] = "at_once"
    # the writes of a failover: all in flight at once | V3 §A step 3, to the letter | "multi() support in ZK 3.4" (C-26, R-068)
    failover_writes: Literal["in_flight", "one_by_one", "multi"] = "in_flight"
    recovery_election: bool = True  # once all members of a stale ISR are back, elect the longest log

    # reassignment (V3 §F, KIP-236)
    reassign_path: Literal["json", "v3"] = "json"  # C-06: /admin/reassign_partitions | /admin/partitions_reassigned/[t]/[p]
    reassign_widens: bool = True  # C-12: AR := OAR + RAR in the topic znode before a new replica is started
    reassign_complete: Literal["rar_in_isr", "isr_is_all"] = "rar_in_isr"  # C-11: moved when RAR is in the ISR | ISR == AR + RAR
    reassign_full: Literal["original_first", "target_first"] = "original_first"  # AR while a partition moves: OAR + RAR | KIP-455
    reassign_order: Literal["ar_last", "ar_first"] = "ar_last"  # B-59: AR := RAR after | before the old replicas are deleted
    reassign_failover: Literal["resume", "abort", "premature", "zombie"] = "resume"  # B-58: KAFKA-4214, KAFKA-6193, KAFKA-9478
    reassignment: Literal["A", "B"] = "A"  # C-19: the proposal of KIP-236: one list, with a cancellation | one znode for each
    reassign_rollback: bool = True  # R-233, R-243 | off: as before KIP-236, what is begun ends, and another target waits for it
    # B-70, KAFKA-14808: a leader whose replica is given up hands over first (R-235) | is removed, and nobody is elected
    reassign_given_up: Literal["hands_over", "removed"] = "hands_over"
    cancel_requires_isr: bool = True  # U-21, B-60: a rollback elects only from the ISR
    isr_assigned_check: bool = True  # B-38, B-39: only assigned replicas join the ISR, a leader drops others

    # heartbeats and ISR changes (KIP-343)
    heartbeat: bool = True  # R-180, B-43: brokers send heartbeats, and fence themselves without an answer
    isr_change_via: Literal["controller", "zookeeper"] = "controller"  # C-24: R-192 | V3 §G
    isr_change_version: bool = True  # U-13, B-31: a change names the state version that it was made from
    isr_member_epoch: bool = True  # B-35, B-36, KIP-903: a change names the registration of each member
    isr_add_shutting_down: bool = False  # B-37, KIP-841: a fenced or stopping broker may join an ISR
    isr_change_zombie: Literal["not_controller", "authoritative"] = "not_controller"  # B-55: judged by ZooKeeper | from memory
    isr_pending_clear: Literal["by_version", "on_lair"] = "by_version"  # B-32: on_lair takes any answer for that of the change
    recheck_hw_after_isr: bool = True  # B-25: advance the HW when an ISR change has ended

    # identity of topics, deletion, and late control requests
    topic_id: bool = True  # KIP-516, U-14, B-61: topics of the same name are told apart in logs, commands and requests
    broker_epoch_newer: Literal["again", "reject"] = "again"  # B-51, KAFKA-9839: a command for a newer registration is sent again
    controller_send_retry: bool = True  # B-54: a request without an answer is sent again | dropped
    # how a broker ends and starts
    clean_marker: Literal["early", "late"] = "early"  # B-64, KAFKA-10471: removed before the logs are loaded | after
    create_replica_without_leader: bool = True  # B-19, KAFKA-1647: also without a leader, and in the checkpoint
    # clients
    idempotence: bool = True  # B-66: a batch sent twice by an idempotent producer is appended once; not in 0.8
    idempotence_state_on_failover: bool = True  # B-66: followers keep the sequences with the log | only the leader
    acks0_silent: bool = False  # B-65, KAFKA-955: a non-leader drops a produce with acks=0 and stays connected
    # KIP-112; C-23: a bad directory takes its replicas | the broker out of service
    log_dir_failure: Literal["replicas", "broker"] = "replicas"
    dir_fail_keep_leader: bool = False  # B-63 a: a leader in a bad directory leads until the next command
    offline_replica_recreated: bool = False  # B-63 d, h: a replica in a bad directory is created again, empty, in another
    notification_requery: bool = True  # the controller queries the broker whose notification it read
    failover_query: bool = True  # R-307, U-22, B-63 i: a new controller learns offline replicas from its first commands

    # rolling upgrades
    layouts_by_setting: bool = True  # B-67: requests have the layouts of the setting | the newest ones of the sender's release
    protocol_by_setting: bool = True  # B-68: KIP-343 begins with the setting | with the code, before all brokers have it
    unnamed_log: Literal["adopted", "deleted"] = (
        "adopted"  # B-69: a log without a topic id takes the first | is an earlier topic's
    )


SAFE = Variant()

V3 = Variant(
    truncation="hw",
    fetch_fencing=False,
    follower_change="leader_id",
    leader_change="role",
    epoch_end_recheck=False,
    isr_join="v3_literal",
    isr_change="current",
    lag_rule="last_change",
    isr_version_reread=False,
    hw_monotone=False,
    hw_clamp=False,
    purgatory_epoch_check=False,
    list_offsets_before_epoch_start=True,
    hw_under_min_isr=True,
    elr=False,
    log_birth=False,
    min_isr_check="none",
    unclean_election=True,
    controller_epoch=False,
    controller_epoch_check=False,
    zk_guard=False,
    admin_path_first=True,
    removals_first=False,
    broker_incarnation=False,
    startup_leads=True,
    startup_epoch_floor=False,
    init_deletes=True,
    stop_replica_epoch=False,
    recovery_election=False,
    reassign_path="v3",
    reassign_widens=False,
    reassign_complete="isr_is_all",
    isr_assigned_check=False,
    log_dir_failure="broker",
    heartbeat=False,
    isr_change_via="zookeeper",
    topic_id=False,
    idempotence=False,
    acks0_silent=True,
)

# V3 with the path that its Discussion 6 leaves out: "the controller only updates ExternalView after the broker responds".
V3_EXTERNAL_VIEW = msgspec.structs.replace(V3, client_routing="answered")

# The 0.8 article: V3 plus the controller epoch and the versioned state znode.
ARTICLE = msgspec.structs.replace(
    V3,
    leader_change="epoch",
    controller_epoch=True,
    controller_epoch_check=True,
    init_deletes=False,
    isr_join="hw_only",
    lag_rule="last_fetch",
    hw_clamp=True,
    reassign_path="json",
)


def _without(**switches: object) -> Variant:
    return msgspec.structs.replace(SAFE, **switches)


# name -> variant: `safe`, the two documents, the steps of the truncation repair, then one for each catalogued mistake
VARIANTS: dict[str, Variant] = {
    "safe": SAFE,
    "v3": V3,
    "v3-external-view": V3_EXTERNAL_VIEW,
    "external-view": _without(client_routing="answered"),
    "article": ARTICLE,
    "truncate-to-hw": _without(truncation="hw"),
    "kip101": _without(truncation="kip101", fetch_fencing=False, isr_join="hw_only"),
    "kip279": _without(truncation="kip279", fetch_fencing=False, isr_join="hw_only"),
    "kip320": _without(truncation="kip320", isr_join="hw_only"),
    "truncate-on-fetch": _without(truncation="fetch"),
    "kip320-first-try": _without(truncation="fetch", fetch_fencing=False),
    # Refusing epochs below the last one in the log makes up for the missing fence.
    "kip320-first-try-no-floor": _without(truncation="fetch", fetch_fencing=False, startup_epoch_floor=False),
    "diverging-is-counted": _without(truncation="fetch", leo_of_diverging=True),
    "hw-before-truncation": _without(truncation="fetch", hw_of_diverging=True),
    "no-fetch-fencing": _without(fetch_fencing=False),
    "follower-by-leader-id": _without(follower_change="leader_id", fetch_fencing=False),
    "leader-by-role": _without(leader_change="role"),
    "no-epoch-end-recheck": _without(epoch_end_recheck=False),
    "no-append-check": _without(append_check=False),
    "no-epoch-start": _without(record_epoch_start=False),
    "epoch-cache-lazy": _without(epoch_cache="lazy"),
    "out-of-range-resets": _without(out_of_range_resets=True),
    "epoch-before-transition": _without(epoch_before_transition=True),
    "isr-join-hw-only": _without(isr_join="hw_only"),
    "isr-expand-v3": _without(isr_join="v3_literal"),
    "isr-current": _without(isr_change="current", isr_change_via="zookeeper"),
    "isr-eager": _without(isr_change="eager", isr_change_via="zookeeper"),
    "isr-no-reread": _without(isr_version_reread=False, isr_change_via="zookeeper"),
    "lag-by-last-change": _without(lag_rule="last_change"),
    "lag-by-last-fetch": _without(lag_rule="last_fetch"),
    "lag-by-wall-clock": _without(lag_clock="wall"),
    "isr-shrink-on-fetch": _without(isr_shrink="fetch"),
    "hw-not-monotone": _without(hw_monotone=False),
    "hw-not-clamped": _without(hw_clamp=False),
    # The checkpoint matters only if followers truncate to the HW and a bounced broker may still count as in sync.
    "truncate-to-hw-no-incarnation": _without(truncation="hw", broker_incarnation=False),
    "hw-checkpoint-eager": _without(hw_checkpoint="eager", truncation="hw", broker_incarnation=False),
    "hw-checkpoint-missing": _without(hw_checkpoint="missing", truncation="hw", broker_incarnation=False),
    "consumers-read-to-leo": _without(consumer_limit="leo"),
    "out-of-range-above-hw": _without(fetch_between_hw_leo="out_of_range"),
    "latest-before-epoch-start": _without(list_offsets_before_epoch_start=True),
    "no-purgatory-epoch-check": _without(purgatory_epoch_check=False),
    "hw-under-min-isr": _without(hw_under_min_isr=True),
    "no-elr": _without(elr=False),
    "no-log-birth": _without(log_birth=False),
    "acks0-silent": _without(acks0_silent=True),
    "no-min-isr-check": _without(min_isr_check="none", hw_under_min_isr=True),
    # Heartbeats would hide this mistake: an isolated leader counts as absent, and cannot ask for an ISR change.
    "unclean-election": _without(unclean_election=True, heartbeat=False, isr_change_via="zookeeper"),
    "empty-isr": _without(empty_isr=True, heartbeat=False, isr_change_via="zookeeper"),  # seen on the plan of unclean-election
    "controller-epoch-in-memory": _without(controller_epoch_persist=False, zk_guard=False),
    "controller-outlives-its-session": _without(session_handler_lock=True),
    "no-controller-epoch-check": _without(controller_epoch_check=False),
    "no-zk-guard": _without(zk_guard=False),
    "no-broker-incarnation": _without(broker_incarnation=False),
    "epoch-bump-on-leader-change": _without(epoch_bump="leader_change"),
    "stuck-zk-version": _without(epoch_bump="leader_change", isr_version_reread=False, isr_change_via="zookeeper"),
    "no-epoch-bump": _without(
        epoch_bump="never",
        leader_change="role",
        follower_change="leader_id",
        fetch_fencing=False,
        heartbeat=False,
        isr_change_via="zookeeper",
    ),
    "failover-by-multi": _without(failover_writes="multi"),
    "failover-one-by-one": _without(failover_writes="one_by_one"),
    "no-startup-epoch-floor": _without(startup_epoch_floor=False),
    "command-of-another-life": _without(startup_epoch_floor=False, broker_incarnation=False),
    "broker-epoch-newer-rejected": _without(broker_epoch_newer="reject"),
    "control-requests-once": _without(controller_send_retry=False),
    "clean-marker-late": _without(clean_marker="late"),
    "no-replica-without-leader": _without(create_replica_without_leader=False, truncation="hw", broker_incarnation=False),
    "hw-checkpoint-zero-on-shutdown": _without(hw_checkpoint="zero_on_shutdown", truncation="hw", broker_incarnation=False),
    "no-topic-id": _without(topic_id=False),
    "removals-last": _without(removals_first=False),
    "log-dir-fails-broker": _without(log_dir_failure="broker"),
    "log-dir-keep-leader": _without(dir_fail_keep_leader=True),
    "offline-replica-recreated": _without(offline_replica_recreated=True),
    "no-notification-requery": _without(notification_requery=False),
    "no-failover-query": _without(failover_query=False),
    "leads-from-startup": _without(startup_leads=True, broker_incarnation=False),
    "reassign-isr-is-all": _without(reassign_complete="isr_is_all"),
    "reassign-without-widening": _without(reassign_widens=False),
    "reassign-ar-first": _without(reassign_order="ar_first"),
    "reassign-failover-aborts": _without(reassign_failover="abort"),
    "reassign-failover-premature": _without(reassign_failover="premature"),
    "reassign-failover-zombie": _without(reassign_failover="zombie"),
    "reassignment-by-requests": _without(reassignment="B"),
    "reassign-target-first": _without(reassign_full="target_first"),
    "reassign-without-rollback": _without(reassign_rollback=False),
    # Kafka's order of the assignment lets a new replica lead before the move is done.
    "reassign-removes-its-leader": _without(reassign_full="target_first", reassign_given_up="removed"),
    "cancel-without-isr": _without(cancel_requires_isr=False),
    "isr-unassigned": _without(isr_assigned_check=False),
    # With fetch fencing the fetches of an unassigned replica would be refused for their epoch.
    "isr-unassigned-unfenced": _without(isr_assigned_check=False, fetch_fencing=False),
    "no-heartbeat": _without(heartbeat=False),
    "isr-via-zookeeper": _without(isr_change_via="zookeeper"),
    "isr-no-version": _without(isr_change_version=False),
    "isr-no-member-epoch": _without(isr_member_epoch=False),
    "isr-adds-stopping": _without(isr_add_shutting_down=True),
    "isr-zombie-controller": _without(isr_change_zombie="authoritative"),
    "isr-answers-mixed-up": _without(isr_pending_clear="on_lair"),
    "no-hw-recheck": _without(recheck_hw_after_isr=False),
    "no-idempotence": _without(idempotence=False),
    "idempotence-of-the-leader": _without(idempotence_state_on_failover=False),
    "newest-layouts": _without(layouts_by_setting=False),
    "protocol-before-the-setting": _without(protocol_by_setting=False),
    "unnamed-log-deleted": _without(unnamed_log="deleted"),
}

# Versions of the inter-broker protocol (docs/decisions/0060-inter-broker-protocol.md). A release is the newest one that the code
# of a broker knows, the oldest first; `legacy` is a setting of the newest release: its layouts without KIP-343's behaviour.
Release = Literal["v3", "kip112", "kip343_v0", "kip343"]
Protocol = Literal["v3", "kip112", "kip343_v0", "legacy", "kip343"]
RELEASES: tuple[Release, ...] = get_args(Release)
NEWEST: Release = RELEASES[-1]


class TopicSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one topic that its replicas need."""

    name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    flush: Literal["none", "before_ack"]


PRODUCER_ID_BLOCK_SIZE = 1000  # as in Kafka


class BrokerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one broker (R-062), in ms; `KAFKA_NAMES` has the documents' names of them (R-158)."""

    broker: BrokerId
    variant: Variant
    topics: tuple[TopicSpec, ...]  # topic configuration; assignments come from ZooKeeper
    host: str = "localhost"  # advertised.host.name: with `port` the address that the broker registers
    port: int = 9092  # advertised.port
    log_dirs: int = 1
    session_timeout_ms: Millis = Millis(6000)
    replica_lag_time_max_ms: Millis = Millis(4000)
    request_timeout_ms: Millis = Millis(2000)  # also of fetches between brokers
    fetch_wait_max_ms: Millis = Millis(500)
    fetch_backoff_ms: Millis = Millis(200)
    fetch_max_records: int = 500
    fetch_max_bytes: int | None = None  # None for values in the clear
    checkpoint_interval_ms: Millis = Millis(5000)
    lag_max_records: int = 4000  # R-138, V3's MAX_BYTES_LAG; with lag_rule=last_change
    lag_min_records: int = 1  # V3's MIN_BYTES_LAG, to which it gives no value; with isr_join=v3_literal
    reassign_interval_ms: Millis = Millis(1000)  # the longest pause of the reassignment agent (V3 §F: e.g. 30 s)
    retry_backoff_ms: Millis = Millis(300)  # after a failed registration, election or read from ZooKeeper
    producer_id_block_size: int = PRODUCER_ID_BLOCK_SIZE  # ids that a broker reserves at once
    release: Release = NEWEST  # the newest version of the inter-broker protocol that this code knows
    inter_broker_protocol: Protocol = NEWEST  # that it speaks, for the double roll
    controller_heartbeat_timeout_ms: Millis = Millis(6000)
    broker_heartbeat_timeout_ms: Millis = Millis(9000)
    controlled_shutdown_max_retries: int = 3
    controlled_shutdown_retry_backoff_ms: Millis = Millis(5000)

    def __post_init__(self) -> None:
        """R-188: a broker must not fence itself before the controller has declared it inactive (U-19)."""
        if self.broker_heartbeat_timeout_ms <= self.controller_heartbeat_timeout_ms:
            raise ValueError(
                "broker_heartbeat_timeout_ms must exceed controller_heartbeat_timeout_ms"
                f" ({self.broker_heartbeat_timeout_ms} <= {self.controller_heartbeat_timeout_ms})"
            )
        if RELEASES.index(_release_of(self.inter_broker_protocol)) > RELEASES.index(self.release):
            raise ValueError(
                f"inter_broker_protocol must be one that release {self.release} knows, not {self.inter_broker_protocol}"
            )


KAFKA_NAMES = {  # of settings of a broker, in the documents and in Kafka
    "broker.id": "broker",
    "zookeeper.session.timeout.ms": "session_timeout_ms",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
    "controller.socket.timeout.ms": "request_timeout_ms",
    "replica.fetch.wait.max.ms": "fetch_wait_max_ms",
    "replica.fetch.backoff.ms": "fetch_backoff_ms",
    "replica.fetch.max.bytes": "fetch_max_bytes",
    "replica.high.watermark.checkpoint.interval.ms": "checkpoint_interval_ms",
    "replica.lag.max.messages": "lag_max_records",
    "inter.broker.protocol.version": "inter_broker_protocol",
    "controller.heartbeat.timeout.ms": "controller_heartbeat_timeout_ms",
    "broker.heartbeat.timeout.ms": "broker_heartbeat_timeout_ms",
    "controlled.shutdown.max.retries": "controlled_shutdown_max_retries",
    "controlled.shutdown.retry.backoff.ms": "controlled_shutdown_retry_backoff_ms",
}


# What the document of a variant states of settings: V3 §F (the pause of the reassignment agent, "e.g., 30 secs"); the article's
# 0.8. The defaults above are shorter, so that a run of a minute has many failovers.
DOCUMENT_SETTINGS: dict[str, dict[str, int]] = {
    "v3": {"reassign_interval_ms": 30_000},
    "article": {"replica_lag_time_max_ms": 10_000, "lag_max_records": 4000, "request_timeout_ms": 30_000},
}


def _release_of(protocol: Protocol) -> Release:
    """The first release that knows this version of the protocol."""
    return NEWEST if protocol == "legacy" else protocol


def layouts_of(config: BrokerConfig) -> Protocol:
    """The version of the inter-broker protocol that gives a broker's requests their layouts."""
    return config.inter_broker_protocol if config.variant.layouts_by_setting else config.release


def _by_kip343(config: BrokerConfig) -> bool:
    spoken = config.inter_broker_protocol if config.variant.protocol_by_setting else config.release
    return spoken in ("kip343_v0", "kip343")


def sends_heartbeats(config: BrokerConfig) -> bool:
    """Whether the broker sends heartbeats: not with an inter-broker protocol before KIP-343, nor does it fence itself (R-205)."""
    return config.variant.heartbeat and _by_kip343(config)


def asks_controller(config: BrokerConfig) -> bool:
    """True if a leader asks the controller for an ISR change, False if it writes the state znode itself (C-24, R-205)."""
    return config.variant.isr_change_via == "controller" and _by_kip343(config)


def min_isr_of(config: BrokerConfig, topic: str) -> int:
    """min.insync.replicas of a topic; 1 where it is not configured."""
    return next((t.min_insync_replicas for t in config.topics if t.name == topic), 1)
