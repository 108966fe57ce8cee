"""Each rule: turns that break it, and turns beside them that its clause allows."""

import pytest
from msgspec.structs import replace

from checkers.control import clauses
from monitors.rules import RULES
from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import Check, Children, Create, Data, GetChildren, GetData, SetData, Written
from reference.effects import AnyEffect, SetTimer, ZkRequest
from reference.errors import ErrorCode
from reference.events import ConnectionLost, ShutDown, TimerFired, ZkReplied, ZkState
from reference.messages import (
    Fetch,
    FetchReply,
    IsrMember,
    LeaderAndIsr,
    LeaderAndIsrReply,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    PartitionState,
    Produce,
    StopPartition,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import (
    Address,
    BrokerId,
    BrokerState,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicId,
    TopicPartition,
    ZkVersion,
)
from tests.monitors.turns import CONFIG, Turn, broken, did, heard, note, send

TP = TopicPartition("t-0")
B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
EPOCH, NEW = ControllerEpoch(4), ControllerEpoch(5)
NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH
ELECTED = did(note("controller-elected"))
RESIGNED = did(note("controller-resigned"))


def state(epoch: int = 7, version: int = 0, *, leader: int | None = 2, stamp: int = 20) -> PartitionState:
    return PartitionState(
        tp=TP,
        leader=None if leader is None else BrokerId(leader),
        leader_incarnation=Incarnation(stamp),
        leader_epoch=LeaderEpoch(epoch),
        isr=(IsrMember(B2, Incarnation(20)), IsrMember(B3, Incarnation(30))),
        controller_epoch=EPOCH,
        zk_version=ZkVersion(version),
        replicas=(B2, B3),
        topic_id=TopicId(9),
    )


# --- commands of the controller ---------------------------------------------------------------------------------------------


def stop(number: int, *, delete: bool = False, to: str = "b2") -> AnyEffect:
    stops = (StopPartition(TP, LeaderEpoch(7), delete, TopicId(9), moved=True),)
    return send(to, StopReplica(number, B1, EPOCH, Incarnation(20), stops, number))


def stopped(number: int, error: ErrorCode = NONE, *effects: AnyEffect) -> Turn:
    return heard("b2", StopReplicaReply(number, error), *effects)


def lead(number: int, told: PartitionState, *, to: str = "b2", epoch: ControllerEpoch = EPOCH) -> LeaderAndIsr:
    return LeaderAndIsr(number, B1, epoch, Incarnation(20), init=False, states=(told,))


def metadata(number: int, *states: PartitionState, live: tuple[BrokerId, ...] = (B1, B3)) -> AnyEffect:
    return send("b3", UpdateMetadata(number, B1, EPOCH, Incarnation(30), live, states, full=False))


def assign(*replicas: BrokerId) -> AnyEffect:
    return ZkRequest(
        90, (Check(paths.CONTROLLER_EPOCH, 1), SetData(paths.topic_path("t"), paths.topic_payload((replicas,)), 3)), True
    )


def registered(*brokers: int) -> Turn:
    """The controller reads who is registered."""
    return ZkReplied(1, (Children(tuple(map(str, brokers))),)), []


LIST = did(ZkRequest(1, (GetChildren(paths.BROKER_IDS, watch=True),)))
FOUR = (LIST, registered(1, 2, 3))


def reads(number: int) -> AnyEffect:
    return ZkRequest(number, (GetData(paths.state_path(TP)),))


def read(number: int, found: PartitionState, *effects: AnyEffect) -> Turn:
    return ZkReplied(number, (Data(paths.state_payload(found), found.zk_version, 5),)), [*effects]


def write(wanted: PartitionState, number: int = 91, *, guarded: bool = True) -> AnyEffect:
    op = SetData(paths.state_path(TP), paths.state_payload(wanted), wanted.zk_version)
    return ZkRequest(number, (Check(paths.CONTROLLER_EPOCH, 1), op) if guarded else (op,), guarded)


# --- heartbeats and clients -------------------------------------------------------------------------------------------------


def beat(incarnation: int = 30, number: int = 70, broker: BrokerId = B3) -> MetadataHeartbeat:
    return MetadataHeartbeat(number, broker, Incarnation(incarnation), BrokerState.ACTIVE)


def accept(number: int = 70, to: str = "b3") -> AnyEffect:
    return send(to, MetadataHeartbeatReply(number, NONE, None, BrokerState.ACTIVE))


def answer(number: int, error: ErrorCode = NONE, *effects: AnyEffect) -> Turn:
    return heard("b2", MetadataHeartbeatReply(number, error, None, BrokerState.ACTIVE), *effects)


BEATS = did(send("b2", beat(10, 70, B1)))
FENCE = SetTimer("fence", 1, 1)


def fetch(number: int = 5, replica: BrokerId | None = None) -> Fetch:
    return Fetch(number, TP, replica, Incarnation(10), LeaderEpoch(7), Offset(0), Millis(500), 100)


def fetched(number: int = 5, error: ErrorCode = NONE, to: str = "c1") -> AnyEffect:
    return send(to, FetchReply(number, TP, error, LeaderEpoch(7), Offset(0)))


def produce(acks: int) -> Produce:
    return Produce(6, TP, acks, ("v",), Millis(500))


FOLLOWS = did(note("became-follower", tp=TP, leader=B2))
LEADS = did(note("became-leader", tp=TP))
DELETED = note("replica-deleted", tp=TP)
SHUTS_DOWN: Turn = (ShutDown(), [])

BAD: dict[str, tuple[Turn, ...]] = {
    "narrowed-early": (ELECTED, *FOUR, did(stop(1)), did(assign(B3, B1))),
    "deleted-before-stopped": (
        ELECTED,
        did(stop(1)),
        heard("b2", UpdateMetadataReply(9, NONE)),
        did(note("command-unanswered", broker=B2, incarnation=20), stop(2, delete=True)),
    ),
    "dead-leader-kept": (ELECTED, LIST, registered(1, 3), did(metadata(1)), did(reads(8)), read(8, state())),
    "older-state-told": (
        ELECTED,
        did(send("b2", lead(1, state(8)))),
        heard("b2", LeaderAndIsrReply(1, NONE), send("b2", lead(2, state(7)))),
    ),
    "older-metadata-told": (
        ELECTED,
        did(metadata(1, state(7, 3))),
        heard("b3", UpdateMetadataReply(1, NONE), metadata(2, state(7, 2))),
    ),
    "command-out-of-office": (ELECTED, RESIGNED, did(metadata(1))),
    "two-commands-in-flight": (ELECTED, did(metadata(1)), did(metadata(2))),
    "unguarded-write": (ELECTED, did(write(state(), guarded=False))),
    "stale-member-elected": (
        ELECTED,
        heard("b3", beat(31), accept()),
        did(reads(8)),
        read(8, state(), write(state(leader=3, stamp=30))),
    ),
    "outlives-its-session": (ELECTED, did(metadata(1)), (ZkState("expired"), [])),
    "answered-out-of-office": (heard("b3", beat(), accept()),),
    "refusal-does-not-fence": (BEATS, answer(70, ErrorCode.INVALID_INCARNATION_ID)),
    "late-answer-counts": (BEATS, did(send("b2", beat(10, 71, B1))), answer(70, NONE, FENCE)),
    "served-while-fenced": (did(note("fenced")), heard("c1", fetch(), fetched())),
    "parked-request-lost": (LEADS, heard("c1", fetch()), did(DELETED)),
    "older-controller-obeyed": (
        heard("b2", lead(1, state(), epoch=NEW), send("b2", LeaderAndIsrReply(1, NONE))),
        heard("b3", lead(1, state(), epoch=EPOCH), send("b3", LeaderAndIsrReply(1, NONE))),
    ),
    "fetched-from-another": (FOLLOWS, did(send("b3", fetch(replica=B1)))),
    "appended-out-of-role": (FOLLOWS, did(note("append", tp=TP, detail="leader"))),
    "leader-truncated": (LEADS, did(note("truncate", tp=TP, offset=3))),
    "closed-while-leading": (LEADS, SHUTS_DOWN, answer(70, NONE, note("resigned", tp=TP))),
}

GOOD: dict[str, tuple[Turn, ...]] = {
    "narrowed after the answer": (ELECTED, *FOUR, did(stop(1)), stopped(1), did(assign(B3, B1))),
    "narrowed without a broker that counts as inactive": (
        ELECTED,
        *FOUR,
        did(stop(1)),
        did(note("broker-state", broker=B2, detail="inactive")),
        did(assign(B3, B1)),
    ),
    "narrowed without a broker that is not registered": (
        ELECTED,
        *FOUR,
        did(stop(1)),
        LIST,
        registered(1, 3),
        did(assign(B3, B1)),
    ),
    "assignment keeps the broker that was told to stop": (ELECTED, *FOUR, did(stop(1)), did(assign(B2, B3, B1))),
    "deleted after the answer": (ELECTED, did(stop(1)), stopped(1, NONE, stop(2, delete=True))),
    "another leader in place of a dead one": (
        ELECTED,
        LIST,
        registered(1, 3),
        did(metadata(1)),
        did(reads(8)),
        read(8, state(), write(state(8, leader=3))),
    ),
    "dead leader that is heard of again": (
        ELECTED,
        LIST,
        registered(1, 3),
        did(metadata(1)),
        heard("b2", beat(21, 4, B2), accept(4, "b2")),
        did(reads(8)),
        read(8, state()),
    ),
    "later read of the same partition is under way": (
        ELECTED,
        LIST,
        registered(1, 3),
        did(metadata(1)),
        did(reads(8)),
        did(reads(9)),
        read(8, state()),
    ),
    "later state told": (
        ELECTED,
        did(send("b2", lead(1, state(7)))),
        heard("b2", LeaderAndIsrReply(1, NONE), send("b2", lead(2, state(8)))),
    ),
    "partition created again begins at epoch 0": (
        ELECTED,
        did(metadata(1, state(7))),
        did(ZkRequest(3, (Check(paths.CONTROLLER_EPOCH, 1), Create(paths.state_path(TP), b"")), True)),
        heard("b3", UpdateMetadataReply(1, NONE), metadata(2, state(0))),
    ),
    "command repeated after a timeout": (
        ELECTED,
        did(metadata(1)),
        did(note("command-unanswered", broker=B3, incarnation=30), metadata(2)),
    ),
    "broker that is not controller writes its own ISR": (did(write(state(), guarded=False)),),
    "member elected under its last registration": (
        ELECTED,
        heard("b3", beat(30), accept()),
        did(reads(8)),
        read(8, state(), write(state(leader=3, stamp=30))),
    ),
    "controller resigns with its session": (ELECTED, did(metadata(1)), (ZkState("expired"), [note("controller-resigned")])),
    "session that is lost but not over": (ELECTED, did(metadata(1)), (ZkState("disconnected"), [])),
    "heartbeat refused out of office": (
        heard("b3", beat(), send("b3", MetadataHeartbeatReply(70, ErrorCode.NOT_CONTROLLER, None, BrokerState.INACTIVE))),
    ),
    "refusal fences": (BEATS, answer(70, ErrorCode.INVALID_INCARNATION_ID, note("fenced"))),
    "refusal of a broker that is fenced": (did(note("fenced")), BEATS, answer(70, ErrorCode.INVALID_INCARNATION_ID)),
    "answer in time counts": (BEATS, answer(70, NONE, FENCE)),
    "fenced broker refuses": (did(note("fenced")), heard("c1", fetch(), fetched(error=ErrorCode.BROKER_NOT_AVAILABLE))),
    "request from before the fence is answered": (heard("c1", fetch()), did(note("fenced")), did(fetched())),
    "unfenced broker serves": (did(note("fenced")), did(note("unfenced")), heard("c1", fetch(), fetched())),
    "parked request answered with the deletion": (
        LEADS,
        heard("c1", fetch()),
        did(fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), DELETED),
    ),
    "request of a client that is gone": (LEADS, heard("c1", fetch()), (ConnectionLost(Address("c1")), []), did(DELETED)),
    "request without an answer": (LEADS, heard("c1", produce(0)), did(DELETED)),
    "older controller refused": (
        heard("b2", lead(1, state(), epoch=NEW), send("b2", LeaderAndIsrReply(1, NONE))),
        heard("b3", lead(1, state(), epoch=EPOCH), send("b3", LeaderAndIsrReply(1, ErrorCode.STALE_CONTROLLER_EPOCH))),
    ),
    "refused command does not count": (
        heard("b2", lead(1, state(), epoch=NEW), send("b2", LeaderAndIsrReply(1, STALE))),
        heard("b3", lead(1, state(), epoch=EPOCH), send("b3", LeaderAndIsrReply(1, NONE))),
    ),
    "fetch from the leader": (FOLLOWS, did(send("b2", fetch(replica=B1)))),
    "appends in their roles": (
        FOLLOWS,
        did(note("append", tp=TP, detail="follower")),
        LEADS,
        did(note("append", tp=TP, detail="leader")),
    ),
    "follower truncates": (FOLLOWS, did(note("truncate", tp=TP, offset=3))),
    "closed when the retries are used up": (LEADS, SHUTS_DOWN, (TimerFired("hand-over"), [note("resigned", tp=TP)])),
    "follower resigns in its shutdown": (FOLLOWS, SHUTS_DOWN, answer(70, NONE, note("resigned", tp=TP))),
    "write that ZooKeeper answered": (ELECTED, did(write(state(8))), (ZkReplied(91, (Written(2), Written(2))), [])),
}


@pytest.mark.parametrize("name", BAD)
def test_rule_is_broken(name: str) -> None:
    assert broken(*BAD[name]) == [name]


@pytest.mark.parametrize("name", GOOD)
def test_what_the_clause_allows_breaks_nothing(name: str) -> None:
    assert broken(*GOOD[name]) == []


def test_every_rule_is_declared_by_the_checker_and_shown_here() -> None:
    names = [rule.name for rule in RULES]

    assert sorted(kind.name for kind in clauses.RULES) == sorted(names) == sorted(BAD)


def test_protocol_without_the_clause_is_not_judged_by_it() -> None:
    unguarded = replace(CONFIG, variant=VARIANTS["no-zk-guard"])

    assert broken(*BAD["unguarded-write"], config=unguarded) == []
