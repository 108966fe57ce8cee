"""The admin client makes one request in ZooKeeper for each command, and answers truthfully (V3 §H, R-147, R-149)."""

import pytest

from reference.client.admin import TIMER, Admin, Outputs
from reference.client.calls import Answered
from reference.client.commands import (
    AddPartition,
    AllowReassignments,
    CancelReassignments,
    Command,
    CreateTopic,
    DeleteTopic,
    DeposeController,
    ElectPreferred,
    ListPending,
    Reassign,
    RemovePartition,
    RequestReassignment,
)
from reference.coordination import admin_paths, paths
from reference.coordination.api import AnyAnswer, AnyOp, Create, Data, Delete, GetData, SessionExpired, Unknown
from reference.coordination.memory import Fired, MemoryZooKeeper
from reference.effects import SetTimer, ZkConnect, ZkRequest
from reference.errors import ErrorCode
from reference.events import TimerFired, ZkReplied, ZkState, ZkWatch
from reference.types import BrokerId, Millis, TopicPartition

TP = TopicPartition("t-1")
REPLICAS = (BrokerId(1), BrokerId(2))
COMMANDS: list[tuple[Command, str, bytes]] = [
    (DeleteTopic(id=1, topic="t"), paths.DELETE_TOPICS, b'{"version":1,"topics":["t"]}'),
    (
        ElectPreferred(id=1, tps=(TP,)),
        paths.PREFERRED_ELECTION,
        b'{"version":1,"partitions":[{"topic":"t","partition":1}]}',
    ),
    (AddPartition(id=1, tp=TP, replicas=REPLICAS), "/admin/partitions_add/t/1", b"[1,2]"),
    (RemovePartition(id=1, tp=TP), "/admin/partitions_remove/t/1", b""),
]


class World:
    """An admin client and a ZooKeeper that answers at once, unless it is told to lose a request or an answer."""

    def __init__(self) -> None:
        self.admin = Admin(timeout_ms=Millis(1000))
        self.zk = MemoryZooKeeper.boot()
        self.session = 0
        self.answers: list[Answered] = []
        self.asked: list[tuple[AnyOp, ...]] = []
        self.loses: list[str] = []  # for each of the next requests, what is lost: "request", "answer" or "" for nothing

    def start(self, command: Command) -> None:
        self._perform(self.admin.start(command))

    def _perform(self, outputs: Outputs) -> None:
        for output in outputs:
            match output:
                case ZkConnect():
                    self.session = self.zk.connect(timeout_ms=1000)
                    self._perform(self.admin.handle(ZkState("connected", self.session)))
                case ZkRequest(id=id_, ops=ops, atomic=atomic):
                    self._ask(id_, ops, atomic)
                case Answered():
                    self.answers.append(output)
                case _:
                    pass

    def _ask(self, id_: int, ops: tuple[AnyOp, ...], atomic: bool) -> None:
        self.asked.append(ops)
        lost = self.loses.pop(0) if self.loses else ""
        answers: tuple[AnyAnswer, ...] = (Unknown(),) * len(ops)
        if lost != "request":
            done, fired = self.zk.submit(self.session, ops, atomic=atomic)
            answers = answers if lost else done
            self._fire(fired)
        self._perform(self.admin.handle(ZkReplied(id_, answers)))

    def controller(self, *ops: AnyOp) -> None:
        """Write to ZooKeeper from another session."""
        other = self.zk.connect(timeout_ms=1000)
        self._fire(self.zk.submit(other, ops)[1])

    def _fire(self, fired: Fired) -> None:
        for session, path, change in fired:
            if session == self.session:
                self._perform(self.admin.handle(ZkWatch(path, change)))

    def expire(self) -> None:
        self.zk.expire(self.session)
        self._perform(self.admin.handle(ZkState("expired")))

    def data(self, path: str) -> bytes | None:
        (answer,), _ = self.zk.submit(self.zk.connect(timeout_ms=1000), (GetData(path),))
        return answer.data if isinstance(answer, Data) else None

    def made(self, path: str) -> int:
        """How often the client asked ZooKeeper to create `path`."""
        return sum(1 for ops in self.asked for op in ops if isinstance(op, Create) and op.path == path)

    def errors(self) -> list[ErrorCode]:
        return [answer.error for answer in self.answers]


@pytest.mark.parametrize(("command", "path", "data"), COMMANDS, ids=lambda value: type(value).__name__)
def test_admin_command_completes_when_its_request_is_removed(command: Command, path: str, data: bytes) -> None:
    """R-147, R-149, V3 §H: admin znodes exist only while their action is carried out."""
    world = World()
    world.start(command)
    assert (world.data(path), world.answers) == (data, [])

    world.controller(Delete(path))

    assert world.errors() == [ErrorCode.NONE]


def test_topic_creation_writes_the_topic_znode() -> None:
    """V3 §B, R-151: the controller finds new topics by their znodes."""
    world = World()
    world.start(CreateTopic(id=1, topic="t", assignment=(REPLICAS,)))

    assert world.errors() == [ErrorCode.NONE]
    assert world.data("/brokers/topics/t") == b'{"version":1,"partitions":{"0":[1,2]}}'


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (CreateTopic(id=1, topic="t", assignment=(REPLICAS,)), ErrorCode.TOPIC_ALREADY_EXISTS),
        (DeleteTopic(id=1, topic="t"), ErrorCode.REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_admin_command_does_not_overwrite_an_existing_znode(command: Command, error: ErrorCode) -> None:
    """R-147: the request of another administrator stays as it is."""
    world = World()
    above = [Create(path, b"") for path in (*paths.PERSISTENT, "/admin")]
    world.controller(*above, Create("/brokers/topics/t", b"other"), Create(paths.DELETE_TOPICS, b"other"))
    world.start(command)

    assert world.errors() == [error]
    assert world.data("/brokers/topics/t") == world.data(paths.DELETE_TOPICS) == b"other"


@pytest.mark.parametrize(("command", "path", "data"), COMMANDS, ids=lambda value: type(value).__name__)
def test_admin_finds_its_request_after_a_lost_answer(command: Command, path: str, data: bytes) -> None:
    """A second request would be carried out a second time."""
    world = World()
    world.loses = ["answer"]
    world.start(command)
    assert (world.made(path), world.answers) == (1, [])

    world.controller(Delete(path))

    assert (world.errors(), world.made(path)) == ([ErrorCode.NONE], 1)


def test_missing_request_after_a_lost_answer_is_unknown() -> None:
    """The request may never have arrived, or may be complete already."""
    world = World()
    world.loses = ["request"]
    world.start(COMMANDS[0][0])

    assert world.errors() == [ErrorCode.NETWORK_EXCEPTION]
    assert world.answers[0].attempts == 1


def test_admin_keeps_waiting_for_its_request_in_a_new_session() -> None:
    """The request is not ephemeral, so the next session finds it."""
    world = World()
    command, path, _ = COMMANDS[0]
    world.start(command)
    world.expire()
    assert world.answers == []

    world.controller(Delete(path))

    assert (world.errors(), world.made(path)) == ([ErrorCode.NONE], 1)


def test_admin_ignores_answers_of_an_expired_session() -> None:
    """The ZooKeeper library reports the expiry itself; requests in the expired session would loop forever."""
    admin = Admin(timeout_ms=Millis(1000))
    admin.start(COMMANDS[0][0])
    (request,) = admin.handle(ZkState("connected", 5))
    assert isinstance(request, ZkRequest)

    assert admin.handle(ZkReplied(request.id, (SessionExpired(),) * len(request.ops))) == []
    assert admin.handle(ZkState("expired")) == [ZkConnect()]
    (looks,) = admin.handle(ZkState("connected", 6))
    assert isinstance(looks, ZkRequest)
    assert not any(isinstance(op, Create) for op in looks.ops)


def test_admin_timeout_leaves_the_request_in_zookeeper() -> None:
    """The controller still carries it out, so the outcome is unknown and not failed."""
    world = World()
    command, path, data = COMMANDS[0]
    world.start(command)
    world.answers += [a for a in world.admin.handle(TimerFired(TIMER)) if isinstance(a, Answered)]

    assert (world.errors(), world.data(path)) == ([ErrorCode.REQUEST_TIMED_OUT], data)


def test_admin_lists_all_pending_requests() -> None:
    """docs/promise.md LIVE-4: no request may be left at the end."""
    world = World()
    for command, _, _ in COMMANDS:
        world.admin = Admin(timeout_ms=Millis(1000))
        world.start(command)
    world.admin = Admin(timeout_ms=Millis(1000))
    world.start(ListPending(id=9))

    assert sorted(world.answers[-1].found) == sorted(path for _, path, _ in COMMANDS)


MOVE = Reassign(id=1, tp=TP, replicas=REPLICAS)
MOVE_TOO = Reassign(id=2, tp=TP, replicas=REPLICAS, extra=True)
CANCEL, ALLOW = CancelReassignments(id=3), AllowReassignments(id=4)
ENTRIES = b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[1,2]}]}'


def test_deposed_controller_loses_its_znode_once() -> None:
    """R-001: the brokers that watch it elect a controller; without a controller there is nothing to depose."""
    world = World()
    world.controller(Create(paths.CONTROLLER, b"", ephemeral=True))

    world.start(DeposeController(id=1))
    world.start(DeposeController(id=2))

    assert (world.data(paths.CONTROLLER), world.errors()) == (None, [ErrorCode.NONE, ErrorCode.NONE])


@pytest.mark.parametrize(("command", "path"), [(MOVE, admin_paths.REASSIGN), (MOVE_TOO, admin_paths.REASSIGN_EXTRA)])
def test_reassignment_command_returns_before_the_move_ends(command: Command, path: str) -> None:
    """R-148, R-231: a move takes time, and meanwhile another move or a cancellation may be requested."""
    world = World()
    world.start(command)
    payload_seen = world.data(path)
    world.start(command)

    assert (payload_seen, world.errors()) == (ENTRIES, [ErrorCode.NONE, ErrorCode.REASSIGNMENT_IN_PROGRESS])


def test_cancellation_needs_a_move_and_stays_until_removed() -> None:
    """R-233, R-239: without a pending move there is nothing to cancel; the cancellation znode stays until it is removed."""
    world = World()
    for command in (CANCEL, MOVE, CANCEL, CANCEL):
        world.start(command)
    cancelled = world.data(admin_paths.REASSIGN_CANCEL)
    for _ in range(2):
        world.start(ALLOW)

    refusal = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert (cancelled, world.data(admin_paths.REASSIGN_CANCEL)) == (b"", None)
    assert world.errors() == [refusal, *[ErrorCode.NONE] * 5]


ASK = RequestReassignment(id=5, tp=TP, replicas=REPLICAS)
ASKED = b'{"version":1,"assignments":{"t":{"1":[1,2]}}}'


def test_proposal_b_makes_one_znode_for_each_request() -> None:
    """R-245, R-247: a second request for the same partition gets its own znode and is not refused."""
    world = World()
    for _ in range(2):
        world.start(ASK)
    world.start(ListPending(id=9))

    paths_ = tuple(f"{admin_paths.REQUEST}{number:010}" for number in range(2))
    assert world.errors() == [ErrorCode.NONE] * 3
    assert [world.data(path) for path in paths_] == [ASKED, ASKED]
    assert world.answers[-1].found == paths_


def test_admin_lists_proposal_b_moves_in_flight() -> None:
    """docs/promise.md LIVE-4, R-249: a move is not complete before its entry is removed."""
    world = World()
    above = (admin_paths.REASSIGNMENTS, f"{admin_paths.REASSIGNMENTS}/t")
    world.controller(Create("/admin", b""), *(Create(path, b"") for path in above), Create(f"{above[1]}/1", b"{}"))
    world.start(ListPending(id=9))

    assert world.answers[-1].found == (f"{above[1]}/1",)


@pytest.mark.parametrize(("lost_message", "made"), [("request", 0), ("answer", 1)])
def test_sequential_request_without_an_answer_is_unknown(lost_message: str, made: int) -> None:
    """R-245: ZooKeeper chooses the name of the znode, so the client can neither look for it nor safely create it again."""
    world = World()
    world.loses = [lost_message]
    world.start(ASK)

    assert world.errors() == [ErrorCode.NETWORK_EXCEPTION]
    assert [world.data(f"{admin_paths.REQUEST}{number:010}") for number in range(2)] == [ASKED] * made + [None] * (2 - made)


def test_session_expiry_makes_a_sequential_request_unknown() -> None:
    """R-245: the client opens another session for its next command."""
    admin = Admin(timeout_ms=Millis(1000))
    admin.start(ASK)
    admin.handle(ZkState("connected", 5))
    *_, answered, connects = admin.handle(ZkState("expired"))

    assert isinstance(answered, Answered)
    assert (answered.error, connects) == (ErrorCode.NETWORK_EXCEPTION, ZkConnect())


@pytest.mark.parametrize("lost_message", ["request", "answer"])
def test_cancellation_is_removed_despite_a_lost_message(lost_message: str) -> None:
    """R-239: a cancellation that stays would block all later moves. The deletion is idempotent, so it may be repeated."""
    world = World()
    for command in (MOVE, CANCEL):
        world.start(command)
    world.loses = [lost_message]
    world.start(ALLOW)

    assert (world.errors()[-1], world.data(admin_paths.REASSIGN_CANCEL)) == (ErrorCode.NONE, None)


def test_admin_command_starts_one_timer() -> None:
    world = World()

    assert world.admin.start(COMMANDS[0][0])[0] == SetTimer(TIMER, 1000, 1000)
    assert world.admin.clone().fingerprint() == world.admin.fingerprint()
