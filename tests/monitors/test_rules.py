"""Each rule: turns that break it, and turns beside them that its clause allows.

The process is b1 under registration 10; b2 has registration 20, b3 has 30. Its term as controller has epoch 4.
"""

import pytest
from msgspec.structs import replace

from checkers.control import clauses
from monitors.controller import CONTROLLER
from monitors.membership import MEMBERSHIP
from monitors.moves import MOVES
from monitors.replicas import REPLICAS
from monitors.rules import RULES
from reference.config import VARIANTS
from reference.coordination import admin_paths, paths
from reference.coordination.api import AnyAnswer, Children, Data, Exists, GetChildren, GetData, NoNode, SetData, Written
from reference.effects import AnyEffect, CreateReplica, SetTimer, ZkConnect, ZkRequest
from reference.errors import ErrorCode
from reference.events import ConnectionLost, TimerFired, ZkReplied, ZkState
from reference.messages import (
    IsrChangeReply,
    IsrResult,
    LeaderAndIsr,
    MetadataHeartbeatReply,
    StopReplicaReply,
)
from reference.types import (
    NO_CONTROLLER_EPOCH,
    Address,
    BrokerState,
    Incarnation,
    TopicPartition,
)
from tests.monitors import test_broker_rules, test_controller_rules
from tests.monitors.scene import (
    ACTIVE_B2,
    APPENDS,
    B1,
    B2,
    B2_IS_GONE,
    B3,
    BAD_DIR,
    BEATS,
    CREATED,
    DELETED,
    DELETES,
    ELECTED,
    EPOCH,
    FENCE,
    FENCED,
    FOLLOWS,
    FOLLOWS_B2,
    GUARD,
    HELD,
    LEADS,
    LIST,
    NEW,
    NONE,
    NOT_LEADER,
    REFUSED,
    REGISTERED,
    REGISTRATION,
    RESIGNED,
    SHUTS_DOWN,
    STALE,
    STOPPING,
    THREE,
    TP,
    UNFENCED,
    acknowledged,
    answer,
    assign,
    batch,
    beat,
    commanded,
    fetch,
    fetched,
    grant,
    heartbeat_refused,
    latest,
    lead,
    led,
    log_ends_at,
    metadata,
    obeyed,
    produce,
    proposal_answered,
    proposal_refused,
    propose,
    read,
    reads,
    registered,
    role,
    serve,
    state,
    stop,
    stopped,
    stops,
    unanswered,
    updated,
    write,
)
from tests.monitors.turns import CONFIG, Turn, broken, note, send, turn_on_message, turn_with

# ----------------------------------------------------------------------------------------------------------------------------

LEADS_FROM_3 = (
    REGISTERED,
    commanded("b2", note("became-leader", tp=TP, leader_epoch=7, hw=3), obeyed("b2"), leader=1, version=3),
)

CANCEL = admin_paths.REASSIGN_CANCEL


def answered_with(number: int, *answers: AnyAnswer, effects: tuple[AnyEffect, ...] = ()) -> Turn:
    return ZkReplied(number, answers), [*effects]


ENTRY = admin_paths.reassignments_payload({TP: admin_paths.Reassignment((B3, B1), (B2, B3))})
REORDERS = admin_paths.reassignments_payload({TP: admin_paths.Reassignment((B3, B1), (B1, B3))})
MOVE = admin_paths.Reassignment((B3, B1), (B2, B3))
OTHER = TopicPartition("t-1")


def pending(entries: dict[TopicPartition, admin_paths.Reassignment]) -> AnyEffect:
    """The write of the pending moves."""
    return ZkRequest(14, (GUARD, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries), 0)), atomic=True)


MOVES_FROM_B2 = (
    turn_with(ZkRequest(11, (Exists(admin_paths.REASSIGN, watch=True),))),
    answered_with(11, Data(ENTRY, 0, 9), effects=(ZkRequest(12, (Exists(CANCEL, watch=True),)),)),
)
SESSION_ENDS: Turn = (ZkState("expired"), [note("controller-resigned"), ZkConnect()])

BAD: dict[str, tuple[Turn, ...]] = {
    "narrowed-early": (ELECTED, ACTIVE_B2, *THREE, turn_with(stop(2)), turn_with(assign(B3, B1))),
    "narrowed-untold": (
        *(ELECTED, LIST, registered(1, 2, 3), *THREE, turn_with(ZkRequest(5, (GetData(paths.broker_path(B2)),)))),
        *((ZkReplied(5, (Data(REGISTRATION, 0, 20),)), []), turn_with(lead(1, state())), led(1), turn_with(assign(B3, B1))),
    ),
    "cancelled-move-goes-on": (ELECTED, *MOVES_FROM_B2, answered_with(12, Data(b"", 0, 9)), *THREE, turn_with(assign(B3, B1))),
    "begun-while-cancelled": (
        *(ELECTED, *MOVES_FROM_B2, answered_with(12, Data(b"", 0, 9))),
        turn_with(pending({TP: MOVE, OTHER: MOVE})),
    ),
    "original-replaced": (
        *(ELECTED, *MOVES_FROM_B2, answered_with(12, NoNode())),
        turn_with(pending({TP: admin_paths.Reassignment((B3, B1), (B3, B2))})),
    ),
    "assigned-in-another-order": (
        *(ELECTED, *MOVES_FROM_B2, answered_with(12, NoNode()), *THREE),
        turn_with(assign(B1, B3)),
    ),
    "watched-out-of-office": (REGISTERED, LIST),
    "asked-without-notification": (ELECTED, turn_with(lead(1, state())), led(1, lead(2, state()))),
    "fence-too-late": (turn_with(SetTimer("fence", 9001, 9001)),),
    "session-not-renewed": ((ZkState("expired"), []),),
    "fence-postponed-by-refusal": (*BEATS, answer(ErrorCode.NOT_CONTROLLER, FENCE)),
    "deleted-before-stopped": (
        *(ELECTED, ACTIVE_B2, turn_with(stop(2))),
        turn_with(note("command-unanswered", broker=B2, incarnation=20, detail="StopReplica"), stop(3, delete=True)),
    ),
    "dead-leader-kept": (*B2_IS_GONE, reads(), read(state())),
    "older-state-told": (ELECTED, turn_with(lead(1, state(8))), led(1, lead(2, state(7)))),
    "older-metadata-told": (ELECTED, turn_with(metadata(1, state(7, 3))), updated(1, metadata(2, state(7, 2)))),
    "stranger-told": (ELECTED, turn_with(lead(1, state(), to="b4"))),
    "first-metadata-not-full": (ELECTED, turn_with(metadata(1, full=False))),
    "another-epoch-used": (ELECTED, turn_with(lead(1, state(), epoch=NEW))),
    "unconditional-write": (ELECTED, reads(), read(state(7, 3), write(state(8, 2)))),
    "stale-proposal-accepted": (ELECTED, reads(), read(state(7)), turn_on_message("b2", propose(6), proposal_answered())),
    "command-number-falls": (ELECTED, turn_with(lead(2, state())), turn_with(metadata(1))),
    "command-not-repeated": (ELECTED, turn_with(metadata(1)), unanswered("UpdateMetadata")),
    "init-repeated": (ELECTED, turn_with(lead(1, state(), init=True)), led(1, lead(2, state(), init=True))),
    "unwatched-read": (ELECTED, turn_with(ZkRequest(1, (GetChildren(paths.BROKER_IDS),)))),
    "silence-too-early": (ELECTED, turn_with(SetTimer("silent:3", 5999, 5999))),
    "command-out-of-office": (ELECTED, RESIGNED, turn_with(metadata(1))),
    "two-commands-in-flight": (ELECTED, turn_with(metadata(1)), turn_with(metadata(2))),
    "unguarded-write": (ELECTED, turn_with(write(state(), guarded=False))),
    "stale-member-elected": (
        *(ELECTED, turn_on_message("b3", beat(B3, 31), grant("b3")), reads()),
        read(state(), write(state(leader=3, stamp=30))),
    ),
    "outlives-its-session": (ELECTED, turn_with(metadata(1)), (ZkState("expired"), [ZkConnect()])),
    "answered-out-of-office": (turn_on_message("b3", beat(B3, 30), grant("b3")),),
    "state-not-granted": (ELECTED, STOPPING, turn_on_message("b3", beat(B3, 30), grant("b3"))),
    "refusal-does-not-fence": (*BEATS, answer(REFUSED)),
    "late-answer-counts": (*BEATS, turn_with(send("b2", beat(B1, 10, 71))), answer(NONE, FENCE)),
    "fence-not-postponed": (*BEATS, answer(NONE)),
    "heartbeat-of-another-registration": (REGISTERED, turn_with(send("b2", beat(B1, 9)))),
    "another-registration-obeyed": (REGISTERED, commanded("b2", obeyed("b2"), to=9)),
    "newer-registration-refused": (ELECTED, turn_on_message("b3", beat(B3, 31), send("b3", heartbeat_refused()))),
    "topic-not-read": (turn_with(ZkRequest(1, (GetChildren(paths.TOPICS),))), (ZkReplied(1, (Children(("t",)),)), [])),
    "proposal-forgotten": (LEADS, turn_with(send("b2", propose(7))), proposal_refused()),
    "fence-too-early": (turn_with(SetTimer("fence", 8999, 8999)),),
    "command-not-answered": (REGISTERED, commanded("b2")),
    "legacy-broker-asks": (REGISTERED, turn_with(send("b2", beat(B1, 10)))),
    "legacy-shutdown-waits": (LEADS, SHUTS_DOWN),
    "not-stopped": (REGISTERED, FOLLOWS, stops(send("b2", StopReplicaReply(1, NONE, ((TP, NONE),))))),
    "command-asks-zookeeper": (REGISTERED, commanded("b2", obeyed("b2"), ZkRequest(1, (Exists(paths.TOPICS),)))),
    "served-while-fenced": (LEADS, FENCED, turn_on_message("c1", fetch(), fetched())),
    "older-controller-obeyed": (
        *(REGISTERED, commanded("b2", obeyed("b2"), epoch=NEW)),
        commanded("b3", obeyed("b3"), epoch=EPOCH),
    ),
    "parked-request-lost": (LEADS, turn_on_message("c1", fetch()), turn_with(DELETED)),
    "served-out-of-role": (FOLLOWS, turn_on_message("c1", fetch(), fetched())),
    "fetched-from-another": (FOLLOWS, turn_with(send("b3", fetch(B1)))),
    "fetched-in-another-epoch": (FOLLOWS, turn_with(send("b2", fetch(B1, epoch=6)))),
    "fetched-elsewhere": (FOLLOWS, turn_with(APPENDS), turn_with(send("b2", fetch(B1, offset=1)))),
    "acknowledged-above-hw": (LEADS, turn_on_message("c1", produce(-1), acknowledged(3))),
    "another-hw-told": (LEADS, turn_on_message("c1", fetch(), fetched(hw=2))),
    "latest-is-not-hw": (LEADS, latest(4)),
    "given-above-hw": (LEADS, turn_on_message("c1", fetch(), fetched(records=4))),
    "appended-out-of-role": (FOLLOWS, turn_with(note("append", tp=TP, detail="leader", batches=(batch(1),)))),
    "leader-truncated": (LEADS, turn_with(note("truncate", tp=TP, offset=3))),
    "proposal-out-of-role": (FOLLOWS, turn_with(send("b2", propose(7)))),
    "other-version-proposed": (*LEADS_FROM_3, turn_with(send("b2", propose(7)))),
    "another-state-wanted": (REGISTERED, SHUTS_DOWN, turn_with(send("b2", beat(B1, 10)))),
    "role-not-commanded": (
        REGISTERED,
        commanded("b2", FOLLOWS_B2, obeyed("b2"), leader_epoch=8),
    ),
    "role-epoch-falls": (LEADS, role("became-follower", leader=B2, leader_epoch=6)),
    "offline-replica-denied": (HELD, BAD_DIR, turn_on_message("c1", fetch(), fetched(NOT_LEADER))),
    "wrong-log-end": (REGISTERED, FOLLOWS, turn_with(APPENDS), log_ends_at(3)),
    "closed-while-leading": (LEADS, *BEATS, SHUTS_DOWN, answer(NONE, FENCE, note("resigned", tp=TP))),
}

GOOD: dict[str, tuple[Turn, ...]] = {
    "pending moves written while all go back": (
        *(ELECTED, *MOVES_FROM_B2, answered_with(12, Data(b"", 0, 9))),
        turn_with(pending({TP: MOVE})),
    ),
    "move begun that nobody cancels": (
        *(ELECTED, *MOVES_FROM_B2, answered_with(12, NoNode())),
        turn_with(pending({TP: MOVE, OTHER: MOVE})),
    ),
    "widened to all replicas of the move and before it": (
        *(ELECTED, *MOVES_FROM_B2, answered_with(12, NoNode()), *THREE),
        turn_with(assign(B2, B3, B1)),
    ),
    "registrations watched in office": (ELECTED, LIST),
    "told again after a notification": (
        *(ELECTED, turn_with(lead(1, state())), led(1)),
        turn_with(ZkRequest(13, (GetData(f"{paths.LOG_DIR_EVENTS}/event-1"),))),
        answered_with(13, Data(paths.log_dir_event_payload(B2), 0, 9), effects=(lead(2, state()),)),
    ),
    "told again to another registration": (
        *(ELECTED, turn_with(lead(1, state())), led(1)),
        turn_with(send("b2", LeaderAndIsr(2, B1, EPOCH, Incarnation(21), init=False, states=(state(),), number=2))),
    ),
    "proposal from the version of the command": (*LEADS_FROM_3, turn_with(send("b2", propose(7, version=3)))),
    "later proposal from a later version": (
        *(*LEADS_FROM_3, turn_with(send("b2", propose(7, version=3)))),
        *(
            turn_on_message("b2", IsrChangeReply(40, NONE, message=None, results=(IsrResult(NONE),))),
            turn_with(send("b2", propose(7, version=5))),
        ),
    ),
    "heartbeat of a broker that stops": (
        REGISTERED,
        SHUTS_DOWN,
        turn_with(send("b2", beat(B1, 10, asks_for=BrokerState.STOPPING))),
    ),
    "narrowed after the answer": (ELECTED, ACTIVE_B2, *THREE, turn_with(stop(2)), stopped(2), turn_with(assign(B3, B1))),
    "narrowed without a broker that counts as inactive": (
        *(
            ELECTED,
            ACTIVE_B2,
            *THREE,
            turn_with(stop(2)),
            turn_with(note("broker-state", broker=B2, detail="inactive", incarnation=20)),
        ),
        turn_with(assign(B3, B1)),
    ),
    "narrowed without a broker that has not sent a heartbeat": (ELECTED, *THREE, turn_with(stop(2)), turn_with(assign(B3, B1))),
    "narrowed without a broker that is not registered": (
        *(ELECTED, ACTIVE_B2, *THREE, turn_with(stop(2)), LIST, registered(1, 3)),
        turn_with(assign(B3, B1)),
    ),
    "narrowed without a broker that was told again after the last list": (
        *(ELECTED, ACTIVE_B2, *THREE, LIST, registered(1, 3), turn_with(stop(2)), turn_with(assign(B3, B1))),
    ),
    "assignment keeps the broker that was told to stop": (
        ELECTED,
        ACTIVE_B2,
        *THREE,
        turn_with(stop(2)),
        turn_with(assign(B2, B3, B1)),
    ),
    "narrowed without a broker that metadata does not list": (
        *(ELECTED, ACTIVE_B2, *THREE, turn_with(stop(2)), updated(1, serve(B1, B3, number=3))),
        turn_with(assign(B3, B1)),
    ),
    "deletion told to the next registration": (ELECTED, ACTIVE_B2, turn_with(stop(2)), turn_with(stop(3, delete=True, to=21))),
    "narrowed while the next registration is read": (
        *(ELECTED, ACTIVE_B2, *THREE, turn_with(stop(2)), turn_with(ZkRequest(6, (GetData(paths.broker_path(B2)),)))),
        *((ZkReplied(6, (Data(REGISTRATION, 0, 21),)), []), turn_with(assign(B3, B1))),
    ),
    "write of an assignment that was narrow before": (
        *(ELECTED, *THREE, turn_with(ZkRequest(7, (GetData(paths.topic_path("t")),)))),
        (ZkReplied(7, (Data(paths.topic_payload(((B3, B1),)), 3, 9),)), []),
        *(turn_with(stop(2)), turn_with(assign(B3, B1))),
    ),
    "dead leader of a partition that is deleted": (*B2_IS_GONE, reads(), turn_with(DELETES), read(state())),
    "first command answered too late and repeated": (
        *(ELECTED, turn_with(lead(1, state(), init=True))),
        turn_with(note("command-unanswered", broker=B2, incarnation=20, detail="LeaderAndIsr")),
        led(1, lead(2, state(), init=True)),
    ),
    "deleted after the answer": (ELECTED, ACTIVE_B2, turn_with(stop(2)), stopped(2, stop(3, delete=True))),
    "another leader in place of a dead one": (*B2_IS_GONE, reads(), read(state(), write(state(leader=3)))),
    "dead leader that is heard of again": (*B2_IS_GONE, turn_on_message("b2", beat(B2, 21), grant("b2")), reads(), read(state())),
    "later read of the same partition is under way": (*B2_IS_GONE, reads(8), reads(9), read(state())),
    "later state told": (ELECTED, turn_with(lead(1, state(7))), led(1, lead(2, state(8)))),
    "partition created again begins at epoch 0": (
        *(ELECTED, turn_with(metadata(1, state(7))), turn_with(CREATED)),
        updated(1, metadata(2, state(0))),
    ),
    "part of the metadata after all of it": (ELECTED, turn_with(metadata(1)), updated(1, metadata(2, full=False))),
    "command repeated after a timeout": (ELECTED, turn_with(metadata(1)), unanswered("UpdateMetadata", metadata(2))),
    "write on the version that was read": (ELECTED, reads(), read(state(7, 3), write(state(8, 3)))),
    "write that ZooKeeper answered": (ELECTED, turn_with(write(state(8))), (ZkReplied(91, (Written(2), Written(2))), [])),
    "broker that is not controller writes its own ISR": (turn_with(write(state(), guarded=False)),),
    "stale proposal refused": (
        *(ELECTED, reads(), read(state(7))),
        turn_on_message("b2", propose(6), proposal_answered(ErrorCode.FENCED_LEADER_EPOCH)),
    ),
    "proposal of the leader accepted": (ELECTED, reads(), read(state(7)), turn_on_message("b2", propose(7), proposal_answered())),
    "member elected under its last registration": (
        *(ELECTED, turn_on_message("b3", beat(B3, 30), grant("b3")), reads()),
        read(state(), write(state(leader=3, stamp=30))),
    ),
    "controller resigns with its session": (
        *(ELECTED, turn_with(metadata(1))),
        SESSION_ENDS,
    ),
    "session that is lost but not over": (ELECTED, turn_with(metadata(1)), (ZkState("disconnected"), [])),
    "heartbeat refused out of office": (
        turn_on_message(
            "b3",
            beat(B3, 30),
            send(
                "b3", MetadataHeartbeatReply(70, ErrorCode.NOT_CONTROLLER, error_string=None, current_state=BrokerState.INACTIVE)
            ),
        ),
    ),
    "stopping broker stays stopping": (ELECTED, STOPPING, turn_on_message("b3", beat(B3, 30), grant("b3", BrokerState.STOPPING))),
    "registration that is over refused": (
        *(ELECTED, turn_on_message("b3", beat(B3, 31), grant("b3"))),
        turn_on_message("b3", beat(B3, 31), send("b3", heartbeat_refused())),
    ),
    "topic read": (
        turn_with(ZkRequest(1, (GetChildren(paths.TOPICS),))),
        (ZkReplied(1, (Children(("t",)),)), [ZkRequest(2, (GetData(paths.topic_path("t")),))]),
    ),
    "controller reads new topics only": (
        *(ELECTED, turn_with(ZkRequest(1, (GetChildren(paths.TOPICS, watch=True),)))),
        (ZkReplied(1, (Children(("t",)),)), []),
    ),
    "proposal repeated later": (LEADS, turn_with(send("b2", propose(7))), proposal_refused(SetTimer("ask-isr:t-0", 9, 9))),
    "proposal of an earlier leader": (LEADS, turn_with(send("b2", propose(7))), FOLLOWS, proposal_refused()),
    "refusal fences": (*BEATS, answer(REFUSED, note("fenced"))),
    "refusal of a broker that is fenced": (FENCED, *BEATS, answer(REFUSED)),
    "answer in time counts": (*BEATS, answer(NONE, FENCE)),
    "late answer is ignored": (*BEATS, turn_with(send("b2", beat(B1, 10, 71))), answer(NONE)),
    "fenced broker refuses": (FENCED, turn_on_message("c1", fetch(), fetched(ErrorCode.BROKER_NOT_AVAILABLE))),
    "request from before the fence is answered": (LEADS, turn_on_message("c1", fetch()), FENCED, turn_with(fetched())),
    "unfenced broker serves": (LEADS, FENCED, UNFENCED, turn_on_message("c1", fetch(), fetched())),
    "request with the number of one that was refused": (
        *(LEADS, FENCED, turn_on_message("c1", fetch(), fetched(ErrorCode.BROKER_NOT_AVAILABLE))),
        *(UNFENCED, turn_on_message("c1", fetch(), fetched())),
    ),
    "command with the number of one for another registration": (
        *(REGISTERED, commanded("b2", obeyed("b2", STALE), to=9)),
        commanded("b2", obeyed("b2")),
    ),
    "command with the number of one of an older controller": (
        *(REGISTERED, commanded("b2", obeyed("b2"), epoch=NEW)),
        commanded("b3", obeyed("b3", ErrorCode.STALE_CONTROLLER_EPOCH), epoch=EPOCH),
        commanded("b3", obeyed("b3"), epoch=NEW),
    ),
    "command in a layout without an epoch of the controller": (
        *(REGISTERED, commanded("b2", obeyed("b2"), epoch=NEW)),
        commanded("b3", obeyed("b3"), epoch=NO_CONTROLLER_EPOCH),
    ),
    "command for another registration refused": (REGISTERED, commanded("b2", obeyed("b2", STALE), to=9)),
    "older controller refused": (
        *(REGISTERED, commanded("b2", obeyed("b2"), epoch=NEW)),
        commanded("b3", obeyed("b3", ErrorCode.STALE_CONTROLLER_EPOCH), epoch=EPOCH),
    ),
    "refused command does not count": (
        *(REGISTERED, commanded("b2", obeyed("b2", STALE), epoch=NEW)),
        commanded("b3", obeyed("b3"), epoch=EPOCH),
    ),
    "parked request answered with the deletion": (LEADS, turn_on_message("c1", fetch()), turn_with(fetched(NOT_LEADER), DELETED)),
    "request without an answer": (LEADS, turn_on_message("c1", produce(0)), turn_with(DELETED)),
    "request of a client that is gone": (
        LEADS,
        turn_on_message("c1", fetch()),
        (ConnectionLost(Address("c1")), []),
        turn_with(DELETED),
    ),
    "request refused out of role": (FOLLOWS, turn_on_message("c1", fetch(), fetched(NOT_LEADER))),
    "fetch from the leader at the log end": (FOLLOWS, turn_with(APPENDS), turn_with(send("b2", fetch(B1, offset=2)))),
    "fetch after a truncation, whose end is not known": (
        *(FOLLOWS, turn_with(APPENDS), turn_with(note("truncate", tp=TP, offset=1))),
        turn_with(send("b2", fetch(B1, offset=0))),
    ),
    "fetch of a replica that was created again": (
        *(FOLLOWS, turn_with(APPENDS), turn_with(CreateReplica(0, TP)), FOLLOWS),
        turn_with(send("b2", fetch(B1))),
    ),
    "records below the high watermark": (
        *(LEADS, turn_on_message("c1", produce(-1), acknowledged(2))),
        *(turn_on_message("c1", fetch(), fetched(records=3)), latest(3)),
    ),
    "acks=1 does not wait for the high watermark": (LEADS, turn_on_message("c1", produce(1), acknowledged(7))),
    "leader appends": (LEADS, turn_with(note("append", tp=TP, detail="leader", batches=(batch(1),)))),
    "move narrowed after a deletion was told": (
        *(ELECTED, LIST, registered(1, 2, 3), *THREE, turn_with(ZkRequest(5, (GetData(paths.broker_path(B2)),)))),
        *((ZkReplied(5, (Data(REGISTRATION, 0, 20),)), []), turn_with(stop(1, delete=True)), stopped(1)),
        turn_with(assign(B3, B1)),
    ),
    "replicas in the order before the move that is rolled back": (
        # Seed 990218 of `--faults disk,zookeeper,crash --profile beyond --workload everything`.
        *(ELECTED, turn_with(ZkRequest(11, (Exists(admin_paths.REASSIGN, watch=True), Exists(CANCEL, watch=True))))),
        *(answered_with(11, Data(REORDERS, 0, 9), Data(b"", 0, 9)), *THREE, turn_with(assign(B1, B3))),
    ),
    "assignment that names an older version, which ZooKeeper refuses": (  # seed 990231 of the same
        *(ELECTED, LIST, registered(1, 2, 3), *THREE, turn_with(ZkRequest(5, (GetData(paths.broker_path(B2)),)))),
        *((ZkReplied(5, (Data(REGISTRATION, 0, 20),)), []), turn_with(lead(1, state())), led(1)),
        turn_with(assign(B3, B1, version=2)),
    ),
    "move that nobody cancels": (ELECTED, *MOVES_FROM_B2, answered_with(12, NoNode()), *THREE, turn_with(assign(B3, B1))),
    "cancelled move goes back": (
        *(ELECTED, *MOVES_FROM_B2, answered_with(12, Data(b"", 0, 9)), *THREE),
        turn_with(assign(B2, B3)),
    ),
    "session renewed": ((ZkState("expired"), [ZkConnect()]),),
    "follower truncates": (FOLLOWS, turn_with(note("truncate", tp=TP, offset=3))),
    "leader proposes": (LEADS, turn_with(send("b2", propose(7)))),
    "role that the command gives": (
        REGISTERED,
        commanded("b2", FOLLOWS_B2, obeyed("b2")),
    ),
    "role of a replica that was created again": (LEADS, turn_with(DELETED), role("became-follower", leader=B2, leader_epoch=0)),
    "offline replica is out of service": (HELD, BAD_DIR, turn_on_message("c1", fetch(), fetched(ErrorCode.KAFKA_STORAGE_ERROR))),
    "replica beside a failed directory": (
        HELD,
        turn_with(note("dir-failed", dir=1)),
        turn_on_message("c1", fetch(), fetched(NOT_LEADER)),
    ),
    "right log end": (REGISTERED, FOLLOWS, turn_with(APPENDS), log_ends_at(2)),
    "closed when the retries are used up": (LEADS, SHUTS_DOWN, (TimerFired("hand-over"), [note("resigned", tp=TP)])),
    "later commands have no flag": (ELECTED, turn_with(lead(1, state(), init=True)), led(1, lead(2, state(8)))),
    "first command repeated after a timeout": (
        *(ELECTED, turn_with(lead(1, state(), init=True))),
        turn_with(note("command-unanswered", broker=B2, incarnation=20, detail="LeaderAndIsr"), lead(2, state(), init=True)),
    ),
    "stopped replica has no role": (
        *(REGISTERED, FOLLOWS),
        stops(note("resigned", tp=TP), send("b2", StopReplicaReply(1, NONE, ((TP, NONE),)))),
    ),
    "late copy of a stop from before a deletion": (
        *(REGISTERED, FOLLOWS, stops(DELETED, delete=True, number=2), FOLLOWS),
        stops(send("b2", StopReplicaReply(1, NONE, ((TP, NONE),)))),
    ),
    "deletion that waits for ZooKeeper": (REGISTERED, FOLLOWS, stops(DELETED, delete=True)),
    "broker that closes answers nothing": (REGISTERED, SHUTS_DOWN, commanded("b2")),
    "follower resigns in its shutdown": (FOLLOWS, *BEATS, SHUTS_DOWN, answer(NONE, FENCE, note("resigned", tp=TP))),
}


LEGACY = replace(CONFIG, inter_broker_protocol="legacy")
B2_WITHOUT_HEARTBEATS: tuple[Turn, ...] = (
    turn_with(ZkRequest(5, (GetData(paths.broker_path(B2)),))),
    (ZkReplied(5, (Data(paths.broker_payload(heartbeats=False, host="b2", port=1), 0, 20),)), []),
)
JUDGED = (*MOVES, *CONTROLLER, *MEMBERSHIP, *REPLICAS)


@pytest.mark.parametrize("name", BAD)
def test_rule_is_broken(name: str) -> None:
    assert broken(*BAD[name], rules=JUDGED, config=LEGACY if name.startswith("legacy-") else CONFIG) == [name]


@pytest.mark.parametrize("name", GOOD)
def test_what_the_clause_allows_breaks_nothing(name: str) -> None:
    assert broken(*GOOD[name], rules=JUDGED) == []


def test_every_rule_is_declared_by_the_checker_and_shown_here() -> None:
    names = [rule.name for rule in RULES]
    shown = [*BAD, *test_controller_rules.BAD, *test_broker_rules.BAD]

    assert sorted(kind.name for kind in clauses.RULES) == sorted(names) == sorted(shown)


def test_protocol_without_the_clause_is_not_judged_by_it() -> None:
    unguarded = replace(CONFIG, variant=VARIANTS["no-zk-guard"])

    assert broken(*BAD["unguarded-write"], rules=JUDGED, config=unguarded) == []


def test_legacy_controller_does_not_wait_for_an_inactive_broker() -> None:
    """A controller that sends no heartbeats itself takes those of others (seed 212481 of `--faults all`)."""
    narrowed = (*THREE, turn_with(stop(2)), turn_with(assign(B3, B1)))

    assert broken(ELECTED, *narrowed, rules=JUDGED, config=LEGACY) == []
    assert broken(ELECTED, ACTIVE_B2, *narrowed, rules=JUDGED, config=LEGACY) == ["narrowed-early"]


def test_broker_without_heartbeats_is_waited_for() -> None:
    """R-206: it counts as active, whatever its controller is."""
    narrowed = (*THREE, turn_with(stop(2)), turn_with(assign(B3, B1)))

    for config in (CONFIG, LEGACY):
        assert broken(ELECTED, *B2_WITHOUT_HEARTBEATS, *narrowed, rules=JUDGED, config=config) == ["narrowed-early"]
