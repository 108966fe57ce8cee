"""Rules of what a controller tells, and of znodes: turns that break each, and turns beside them that its clause allows."""

import pytest
from msgspec.structs import replace

from monitors.commands import COMMANDS
from monitors.znodes import ZNODES
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import (
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    NodeExists,
    NoNode,
    SetData,
    Written,
)
from reference.effects import AnyEffect, CancelTimer, SetTimer, ZkRequest
from reference.errors import ErrorCode
from reference.events import TimerFired, ZkReplied, ZkState
from reference.messages import (
    IsrChange,
    IsrChangeReply,
    IsrMember,
    IsrProposal,
    IsrResult,
    LeaderAndIsr,
    LeaderAndIsrReply,
    PartitionState,
    StopPartition,
    StopReplica,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import BrokerId, Incarnation, LeaderEpoch, ZkVersion
from tests.monitors.scene import (
    B1,
    B2,
    B3,
    ELECTED,
    EPOCH,
    LIST,
    NONE,
    REGISTERED,
    REGISTRATION,
    SHUTS_DOWN,
    THREE,
    TP,
    assign,
    beat,
    grant,
    heartbeat_refused,
    lead,
    metadata,
    read,
    reads,
    registered,
    state,
    stop,
    write,
)
from tests.monitors.turns import CONFIG, Turn, broken, note, send, turn_on_message, turn_with

CONNECTED: Turn = (ZkState("connected", 7), [])
LEADER_2 = state(7, 3)
WITHOUT_B2 = replace(state(7, 3, leader=3, stamp=30), isr=LEADER_2.isr[1:])


def zk(number: int, *ops: object, atomic: bool = False) -> AnyEffect:
    return ZkRequest(number, ops, atomic)  # type: ignore[arg-type]


def answers(number: int, *given: object, effects: tuple[AnyEffect, ...] = ()) -> Turn:
    return ZkReplied(number, given), [*effects]  # type: ignore[arg-type]


def owner(path: str, session: int) -> tuple[Turn, Turn]:
    """The broker reads a znode that belongs to a session."""
    return turn_with(zk(5, GetData(path))), answers(5, Data(REGISTRATION, 0, 10, session))


def writes(path: str, data: bytes, **flags: bool) -> Turn:
    return turn_with(zk(6, Create(path, data, **flags)))


def begins(told: tuple[PartitionState, ...]) -> Turn:
    """The last state of the failover is read, and b2 gets its first command."""
    command = LeaderAndIsr(1, B1, EPOCH, Incarnation(20), init=True, states=told, number=1)
    return read(LEADER_2, send("b2", command))


def creates(number: int, *told: PartitionState) -> AnyEffect:
    """b2 is told that its replica is new, and a state of the partition."""
    return send("b2", LeaderAndIsr(number, B1, EPOCH, Incarnation(20), init=False, states=told, new=(TP,), number=number))


def isr_change_answered(number: int, code: ErrorCode = NONE, *effects: AnyEffect) -> Turn:
    return turn_on_message("b2", LeaderAndIsrReply(number, NONE, ((TP, code),)), *effects)


def deletes(to: str) -> Turn:
    """A broker is told that the partition goes."""
    return turn_with(send(to, StopReplica(1, B1, EPOCH, Incarnation(40), (StopPartition(TP, LeaderEpoch(7)),), 1)))


def silent(*effects: AnyEffect) -> Turn:
    """b3 has sent no heartbeat in time."""
    return TimerFired("silent:3"), [*effects]


def offered(*offline: int) -> AnyEffect:
    """Metadata by which b2 does not serve, and these replicas are offline."""
    of_b2 = replace(LEADER_2, offline=tuple(BrokerId(b) for b in offline))
    return send("b3", UpdateMetadata(1, B1, EPOCH, Incarnation(30), (B1, B3), (of_b2,), full=True, number=1))


def joins(*members: int) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(BrokerId(b), Incarnation(10 * b)) for b in members)


def proposes(*members: int) -> IsrChange:
    return IsrChange(40, B2, Incarnation(20), (IsrProposal(TP, LeaderEpoch(7), joins(*members), ZkVersion(3)),))


def takes(*members: int) -> AnyEffect:
    """The answer that an ISR was written."""
    result = IsrResult(NONE, None, replace(LEADER_2, isr=joins(*members)))
    return send("b2", IsrChangeReply(40, NONE, message=None, results=(result,)))


def isr_written(epoch: int, *members: int) -> AnyEffect:
    return write(replace(LEADER_2, leader_epoch=LeaderEpoch(epoch), isr=joins(*members)))


ACTIVE_B3 = turn_with(note("broker-state", broker=B3, detail="active", incarnation=30))
EVENT = f"{paths.LOG_DIR_EVENT}0001"
READS_EVENT = turn_with(zk(5, GetData(EVENT)))
LOOKS = Exists(paths.CONTROLLER, watch=True)
CLAIMS = Create(paths.CONTROLLER, b'{"version":1,"brokerid":1}', ephemeral=True)
READS_B2 = (turn_with(zk(5, GetData(paths.broker_path(B2)))), answers(5, Data(REGISTRATION, 0, 20)))
# b2 holds a replica, is registered, and was told something that it has answered
IDLE_B2 = (
    *(ELECTED, LIST, registered(1, 2, 3), LIST, registered(1, 2, 3), *THREE),
    *READS_B2,
    turn_with(send("b2", UpdateMetadata(1, B1, EPOCH, Incarnation(20), (B1, B2, B3), (), full=True, number=1))),
)
ELECTS = (reads(), read(LEADER_2, write(replace(LEADER_2, leader_epoch=LeaderEpoch(8)))))
WRITTEN = (Written(1), Written(4))
NEXT = replace(LEADER_2, leader_epoch=LeaderEpoch(8), zk_version=ZkVersion(4))
ANSWERED = turn_on_message("b2", UpdateMetadataReply(1, NONE))

# b2 was told something and then registered anew
TOPICS_LISTED = (turn_with(zk(6, GetChildren(paths.TOPICS, watch=True))), answers(6, Children(("t",))))
DELETED_BY_HAND = (turn_with(zk(6, GetChildren(paths.TOPICS, watch=True))), answers(6, Children(())))
SECOND_LIFE = (ELECTED, *THREE, *TOPICS_LISTED, reads(), read(LEADER_2), turn_with(lead(1, LEADER_2, init=True)))


def tells_second_life(*told: PartitionState) -> Turn:
    """b2 is told these states under its next registration, once that is read."""
    return answers(6, effects=(send("b2", LeaderAndIsr(2, B1, EPOCH, Incarnation(21), init=False, states=told, number=2)),))


LOOKED_FOR = (turn_with(zk(8, Exists(paths.state_path(TP)))), answers(8, NoNode()))  # by a deletion
NARROWED = (turn_with(assign(B3, B1)), answers(90, Checked(), Written(4)))

BAD: dict[str, tuple[Turn, ...]] = {
    "state-not-held": (ELECTED, reads(), read(LEADER_2), turn_with(lead(1, state(7, 4)))),
    "state-not-told": (*IDLE_B2, ANSWERED, *ELECTS, answers(91, *WRITTEN)),
    "stranger-stopped": (ELECTED, *THREE, deletes("b4")),
    "init-incomplete": (ELECTED, *THREE, reads(), begins(())),
    "init-dropped": (
        *(ELECTED, reads(), read(LEADER_2, lead(1, LEADER_2, init=True))),
        turn_with(note("command-unanswered", broker=B2, incarnation=20, detail="LeaderAndIsr"), lead(2, LEADER_2)),
    ),
    "init-missing": (ELECTED, reads(), read(LEADER_2, lead(1, LEADER_2))),
    "new-replica-again": (
        ELECTED,
        reads(),
        read(LEADER_2),
        turn_with(creates(1)),
        isr_change_answered(1, NONE, creates(2, LEADER_2)),
    ),
    "unreadable-replica-elected": (
        *(ELECTED, *READS_B2, turn_with(creates(1)), isr_change_answered(1, ErrorCode.KAFKA_STORAGE_ERROR)),
        *(reads(), read(state(7, 3, leader=3), isr_written(8, 2, 3))),
    ),
    "offline-replica-not-told": (ELECTED, reads(), read(LEADER_2), turn_with(offered())),
    "epoch-not-raised": (ELECTED, reads(), read(LEADER_2, isr_written(7, 2))),
    "heartbeat-not-timed": (ELECTED, ACTIVE_B3, turn_on_message("b3", beat(B3, 30), grant("b3"))),
    "silence-ignored": (ELECTED, ACTIVE_B3, silent()),
    "results-mixed-up": (ELECTED, turn_on_message("b2", proposes(2), takes(2, 3))),
    "notification-kept": (ELECTED, READS_EVENT, answers(5, Data(b"", 0, 9))),
    "office-not-claimed": (turn_with(zk(5, LOOKS)), answers(5, NoNode())),
    "elected-without-znode": (CONNECTED, *owner(paths.CONTROLLER, 6), ELECTED),
    "registered-without-znode": (CONNECTED, *owner(paths.broker_path(B1), 6), REGISTERED),
    "unknown-znode": (turn_with(zk(5, GetChildren("/brokers/topic"))),),
    "another-znode-form": (writes(paths.CONTROLLER, b'{"version":1,"brokerid":2}', ephemeral=True),),
}

GOOD: dict[str, tuple[Turn, ...]] = {
    "state told as it was read": (ELECTED, reads(), read(LEADER_2), turn_with(lead(1, LEADER_2))),
    "state told as it was written": (ELECTED, *ELECTS, answers(91, *WRITTEN, effects=(lead(1, NEXT, init=True),))),
    "broker that has not answered is told later": (*IDLE_B2, *ELECTS, answers(91, *WRITTEN)),
    "broker that left the list and came back is told later": (
        *(*IDLE_B2, ANSWERED, LIST, registered(1, 3), LIST, registered(1, 2, 3), LIST, registered(1, 2, 3)),
        *(*ELECTS, answers(91, *WRITTEN)),
    ),
    "broker whose registration was missing is told later": (
        *(*IDLE_B2, ANSWERED, LIST, registered(1, 2, 3), READS_B2[0], answers(5, NoNode())),
        *(LIST, registered(1, 2, 3), LIST, registered(1, 2, 3), *ELECTS, answers(91, *WRITTEN)),
    ),
    "election that another write overtook is not told": (*IDLE_B2, ANSWERED, *ELECTS, answers(91, NodeExists(), NodeExists())),
    "new leader epoch told": (
        *(*IDLE_B2, ANSWERED, *ELECTS),
        answers(91, *WRITTEN, effects=(lead(2, NEXT), lead(3, NEXT, to="b3"))),
    ),
    "replicas of a deleted partition stopped": (ELECTED, *THREE, deletes("b3")),
    "replica stopped that a move dropped after the deletion had read it": (
        ELECTED,
        *THREE,
        *LOOKED_FOR,
        *NARROWED,
        deletes("b2"),
    ),
    "and the controller has read the topic again": (
        *(ELECTED, *THREE, *LOOKED_FOR, *NARROWED, turn_with(zk(7, GetData(paths.topic_path("t"))))),
        answers(7, Data(paths.topic_payload(((B3, B1),)), 4, 9)),
        deletes("b2"),
    ),
    "and the removal read topic and state at once": (
        *(ELECTED, turn_with(zk(8, GetData(paths.topic_path("t")), Exists(paths.state_path(TP))))),
        *(answers(8, Data(paths.topic_payload(((B2, B3, B1),)), 3, 9), NoNode()), *NARROWED, deletes("b2")),
    ),
    "first command lists what has a state": (ELECTED, *THREE, reads(), begins((LEADER_2,))),
    "partition of a topic that is gone is not asked for": (*SECOND_LIFE, *DELETED_BY_HAND, tells_second_life()),
    "partition that gets a state anew is not asked for before that is there": (
        # Seed 880105 of `--faults clock,zookeeper,disk --profile beyond --workload everything`.
        *(*SECOND_LIFE, *LOOKED_FOR, turn_with(zk(7, Create(paths.state_path(TP), paths.state_payload(state(0, 0)))))),
        tells_second_life(),
    ),
    "next registration is told everything": (*SECOND_LIFE, tells_second_life(LEADER_2)),
    "partition that moves is not asked for": (
        *(*SECOND_LIFE, turn_with(zk(9, GetData(admin_paths.REASSIGN)))),
        *(answers(9, Data(admin_paths.reassignments_payload({TP: Reassignment((B3, B1))}), 0, 9)), tells_second_life()),
    ),
    "partition without a state is not listed": (
        *(ELECTED, *THREE, reads()),
        answers(8, NoNode(), effects=(send("b2", LeaderAndIsr(1, B1, EPOCH, Incarnation(20), init=True, states=(), number=1)),)),
    ),
    "new replica told again after a timeout": (
        *(ELECTED, turn_with(creates(1))),
        turn_with(note("command-unanswered", broker=B2, incarnation=20, detail="LeaderAndIsr"), creates(2)),
    ),
    "replica that does not count told again that it is new": (
        *(ELECTED, reads(), read(WITHOUT_B2), turn_with(creates(1))),
        isr_change_answered(1, NONE, creates(2, WITHOUT_B2)),
    ),
    "heartbeat while the controller closes": (ELECTED, ACTIVE_B3, SHUTS_DOWN, turn_on_message("b3", beat(B3, 30))),
    "replica created again after it was stopped": (
        ELECTED,
        turn_with(creates(1)),
        isr_change_answered(1, NONE, stop(2)),
        turn_with(creates(3)),
    ),
    "replica that can be read again elected": (
        *(
            ELECTED,
            *READS_B2,
            turn_with(creates(1)),
            isr_change_answered(1, ErrorCode.KAFKA_STORAGE_ERROR, creates(2)),
            isr_change_answered(2),
        ),
        *(reads(), read(state(7, 3, leader=3), isr_written(8, 2, 3))),
    ),
    "dead broker's replica told as offline": (ELECTED, reads(), read(LEADER_2), turn_with(offered(2))),
    "proposed ISR keeps the epoch": (
        *(ELECTED, turn_on_message("b2", proposes(2)), reads()),
        read(LEADER_2, isr_written(7, 2)),
    ),
    "repair of what was proposed begins an epoch": (
        *(ELECTED, turn_on_message("b2", proposes(2)), reads()),
        read(LEADER_2, isr_written(8, 2)),
    ),
    "heartbeat timed anew": (
        ELECTED,
        ACTIVE_B3,
        turn_on_message("b3", beat(B3, 30), SetTimer("silent:3", 6000, 6000), grant("b3")),
    ),
    "heartbeat refused": (ELECTED, ACTIVE_B3, turn_on_message("b3", beat(B3, 30), send("b3", heartbeat_refused()))),
    "silent broker is inactive": (
        *(ELECTED, ACTIVE_B3),
        silent(note("broker-state", broker=B3, detail="inactive", incarnation=30)),
    ),
    "silence of a broker that is not registered any more": (  # both were due when a pause ended
        *(ELECTED, ACTIVE_B3),
        turn_with(CancelTimer("silent:3")),
        silent(),
    ),
    "silence after the office": (ELECTED, ACTIVE_B3, turn_with(note("controller-resigned")), silent()),
    "results of what was proposed": (ELECTED, turn_on_message("b2", proposes(2), takes(2))),
    "notification deleted": (ELECTED, READS_EVENT, answers(5, Data(b"", 0, 9), effects=(zk(6, Delete(EVENT)),))),
    "first command has the flag": (ELECTED, reads(), read(LEADER_2, lead(1, LEADER_2, init=True))),
    "later command has no flag": (ELECTED, turn_with(metadata(1)), reads(), read(LEADER_2, lead(1, LEADER_2))),
    "office claimed": (
        turn_with(zk(5, LOOKS)),
        answers(5, NoNode(), effects=(zk(6, CLAIMS),)),
    ),
    "office looked for twice": (  # two watches fired: the first answer is not used
        *(turn_with(zk(5, LOOKS)), turn_with(zk(6, LOOKS))),
        *(answers(5, NoNode()), answers(6, NoNode(), effects=(zk(7, CLAIMS),))),
    ),
    "notification read twice": (
        *(ELECTED, READS_EVENT, turn_with(zk(6, GetData(EVENT)))),
        *(answers(5, Data(b"", 0, 9)), answers(6, Data(b"", 0, 9), effects=(zk(7, Delete(EVENT)),))),
    ),
    "controller by its own znode": (CONNECTED, *owner(paths.CONTROLLER, 7), ELECTED),
    "controller by the znode that it created": (
        *(CONNECTED, writes(paths.CONTROLLER, paths.controller_payload(B1), ephemeral=True)),
        *(answers(6, Created(paths.CONTROLLER)), ELECTED),
    ),
    "registered by its own znode": (CONNECTED, *owner(paths.broker_path(B1), 7), REGISTERED),
    "znodes of the documents": (
        writes(paths.broker_path(B1), REGISTRATION, ephemeral=True),
        writes(paths.CONTROLLER_EPOCH, b"4"),
        writes(paths.LOG_DIR_EVENT, paths.log_dir_event_payload(B1), sequential=True),
        writes(paths.topic_path("t"), paths.topic_payload(((B1, B2),))),
        writes(paths.state_path(TP), paths.state_payload(LEADER_2)),
        turn_with(
            zk(7, SetData(admin_paths.REASSIGN, b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}', 0))
        ),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_rule_of_controllers_is_broken(name: str) -> None:
    assert broken(*BAD[name], rules=(*COMMANDS, *ZNODES))[-1:] == [name]


@pytest.mark.parametrize("name", GOOD)
def test_what_a_controller_may_tell_breaks_nothing(name: str) -> None:
    assert broken(*GOOD[name], rules=(*COMMANDS, *ZNODES)) == []


@pytest.mark.parametrize(
    ("path", "data", "flags"),
    [
        (paths.CONTROLLER, b'{"version":1,"brokerid":1}', {}),
        (paths.CONTROLLER, b'{"brokerid":1}', {"ephemeral": True}),
        (paths.CONTROLLER_EPOCH, b'{"epoch":4}', {}),
        (paths.broker_path(B1), paths.broker_payload(heartbeats=True, host="localhost", port=-1), {"ephemeral": True}),
        (paths.broker_path(B2), REGISTRATION, {"ephemeral": True}),
        (paths.topic_path("t"), b'{"version":1,"partitions":[[1,2]]}', {}),
        (paths.topic_path("t"), b'{"version":1,"partitions":{"0":[1]},"more":1}', {}),
        (paths.state_path(TP), b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0}', {}),
        (paths.LOG_DIR_EVENT, paths.log_dir_event_payload(B1), {}),
        (paths.LOG_DIR_EVENT, paths.log_dir_event_payload(B2), {"sequential": True}),
        (paths.TOPICS, b"{}", {}),
    ],
)
def test_another_form_of_a_znode_is_seen(path: str, data: bytes, flags: dict[str, bool]) -> None:
    assert broken(writes(path, data, **flags), rules=ZNODES) == ["another-znode-form"]


def test_next_registration_is_told_of_each_replica() -> None:
    """R-181: a new instance under the same id is told everything again."""
    assert broken(*SECOND_LIFE, tells_second_life(), rules=COMMANDS) == ["init-incomplete"]


def test_leader_of_an_earlier_protocol_writes_its_own_isr() -> None:
    legacy = replace(CONFIG, inter_broker_protocol="legacy")

    assert broken(*BAD["epoch-not-raised"], rules=COMMANDS, config=legacy) == []


def test_replica_that_a_move_dropped_is_a_stranger() -> None:
    """Where the partition is not being deleted (seed 212907 of `--faults all` met a deletion)."""
    assert broken(ELECTED, *THREE, *NARROWED, deletes("b2"), rules=COMMANDS) == ["stranger-stopped"]
