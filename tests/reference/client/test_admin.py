"""The admin client: one request in ZooKeeper for each command, made once, and the truth about it (V3 §H, R-147, R-149)."""

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
    """An administrator and a ZooKeeper that answers at once, unless told to lose what it is asked or to lose its answers."""

    def __init__(self) -> None:
        self.admin = Admin(timeout_ms=Millis(1000))
        self.zk = MemoryZooKeeper.boot()
        self.session = 0
        self.answers: list[Answered] = []
        self.asked: list[tuple[AnyOp, ...]] = []
        self.loses: list[str] = []  # of the next requests: "request" or "answer"

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
        """Somebody else writes."""
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
        """How often it was asked for."""
        return sum(1 for ops in self.asked for op in ops if isinstance(op, Create) and op.path == path)

    def errors(self) -> list[ErrorCode]:
        return [answer.error for answer in self.answers]


@pytest.mark.parametrize(("command", "path", "data"), COMMANDS, ids=lambda value: type(value).__name__)
def test_a_command_is_done_when_its_request_is_gone(command: Command, path: str, data: bytes) -> None:
    """R-147, R-149, V3 §H: admin znodes exist only during the action."""
    world = World()
    world.start(command)
    assert (world.data(path), world.answers) == (data, [])

    world.controller(Delete(path))

    assert world.errors() == [ErrorCode.NONE]


def test_a_topic_is_made_by_its_own_znode() -> None:
    """V3 §B, R-151: the controller finds it there."""
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
def test_what_stands_there_already_is_left_alone(command: Command, error: ErrorCode) -> None:
    """R-147: the request of another administrator is not overwritten."""
    world = World()
    above = [Create(path, b"") for path in (*paths.PERSISTENT, "/admin")]
    world.controller(*above, Create("/brokers/topics/t", b"other"), Create(paths.DELETE_TOPICS, b"other"))
    world.start(command)

    assert world.errors() == [error]
    assert world.data("/brokers/topics/t") == world.data(paths.DELETE_TOPICS) == b"other"


@pytest.mark.parametrize(("command", "path", "data"), COMMANDS, ids=lambda value: type(value).__name__)
def test_a_request_whose_answer_was_lost_is_looked_for_and_not_made_again(command: Command, path: str, data: bytes) -> None:
    """Made a second time it would be done a second time."""
    world = World()
    world.loses = ["answer"]
    world.start(command)
    assert (world.made(path), world.answers) == (1, [])

    world.controller(Delete(path))

    assert (world.errors(), world.made(path)) == ([ErrorCode.NONE], 1)


def test_a_request_that_is_nowhere_after_a_lost_answer_is_unknown() -> None:
    """It never arrived, or it was done before anybody looked."""
    world = World()
    world.loses = ["request"]
    world.start(COMMANDS[0][0])

    assert world.errors() == [ErrorCode.NETWORK_EXCEPTION]
    assert world.answers[0].attempts == 1


def test_a_session_that_ended_while_a_request_stands_there_changes_nothing() -> None:
    """The request is no ephemeral: the next session finds it and waits on."""
    world = World()
    command, path, _ = COMMANDS[0]
    world.start(command)
    world.expire()
    assert world.answers == []

    world.controller(Delete(path))

    assert (world.errors(), world.made(path)) == ([ErrorCode.NONE], 1)


def test_an_answer_of_a_session_that_is_over_is_waited_out() -> None:
    """The library reports the end itself; asking on over the old session would go round in circles."""
    admin = Admin(timeout_ms=Millis(1000))
    admin.start(COMMANDS[0][0])
    (request,) = admin.handle(ZkState("connected", 5))
    assert isinstance(request, ZkRequest)

    assert admin.handle(ZkReplied(request.id, (SessionExpired(),) * len(request.ops))) == []
    assert admin.handle(ZkState("expired")) == [ZkConnect()]
    (looks,) = admin.handle(ZkState("connected", 6))
    assert isinstance(looks, ZkRequest)
    assert not any(isinstance(op, Create) for op in looks.ops)


def test_an_administrator_gives_up_waiting_and_the_request_stays() -> None:
    """The controller goes on with it: the outcome is unknown, not failed."""
    world = World()
    command, path, data = COMMANDS[0]
    world.start(command)
    world.answers += [a for a in world.admin.handle(TimerFired(TIMER)) if isinstance(a, Answered)]

    assert (world.errors(), world.data(path)) == ([ErrorCode.REQUEST_TIMED_OUT], data)


def test_what_is_asked_for_can_be_listed() -> None:
    """docs/promise.md LIVE-4: at the end nothing must be left."""
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


@pytest.mark.parametrize(("command", "path"), [(MOVE, admin_paths.REASSIGN), (MOVE_TOO, admin_paths.REASSIGN_EXTRA)])
def test_a_reassignment_is_asked_for_and_not_waited_for(command: Command, path: str) -> None:
    """R-148, R-231: it takes its time, and meanwhile there may be another one, or a cancellation."""
    world = World()
    world.start(command)
    asked = world.data(path)
    world.start(command)

    assert (asked, world.errors()) == (ENTRIES, [ErrorCode.NONE, ErrorCode.REASSIGNMENT_IN_PROGRESS])


def test_what_is_pending_is_rolled_back_and_nothing_else() -> None:
    """R-233, R-239: a cancellation stays until it is taken back; without anything pending there is nothing to cancel."""
    world = World()
    for command in (CANCEL, MOVE, CANCEL, CANCEL):
        world.start(command)
    cancelled = world.data(admin_paths.REASSIGN_CANCEL)
    for _ in range(2):
        world.start(ALLOW)

    refused = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert (cancelled, world.data(admin_paths.REASSIGN_CANCEL)) == (b"", None)
    assert world.errors() == [refused, *[ErrorCode.NONE] * 5]


ASK = RequestReassignment(id=5, tp=TP, replicas=REPLICAS)
ASKED = b'{"version":1,"assignments":{"t":{"1":[1,2]}}}'


def test_by_proposal_b_each_request_is_a_znode_of_its_own() -> None:
    """R-245, R-247: also for the same partition again, and nobody is refused."""
    world = World()
    for _ in range(2):
        world.start(ASK)
    world.start(ListPending(id=9))

    paths_ = tuple(f"{admin_paths.REQUEST}{number:010}" for number in range(2))
    assert world.errors() == [ErrorCode.NONE] * 3
    assert [world.data(path) for path in paths_] == [ASKED, ASKED]
    assert world.answers[-1].found == paths_


def test_what_is_in_flight_by_proposal_b_is_listed() -> None:
    """docs/promise.md LIVE-4, R-249: it is not done before its entry is gone."""
    world = World()
    above = (admin_paths.REASSIGNMENTS, f"{admin_paths.REASSIGNMENTS}/t")
    world.controller(Create("/admin", b""), *(Create(path, b"") for path in above), Create(f"{above[1]}/1", b"{}"))
    world.start(ListPending(id=9))

    assert world.answers[-1].found == (f"{above[1]}/1",)


@pytest.mark.parametrize(("lost", "made"), [("request", 0), ("answer", 1)])
def test_nobody_knows_whether_a_numbered_request_was_made(lost: str, made: int) -> None:
    """R-245: its name is not known before it is made, so it is neither looked for nor made again."""
    world = World()
    world.loses = [lost]
    world.start(ASK)

    assert world.errors() == [ErrorCode.NETWORK_EXCEPTION]
    assert [world.data(f"{admin_paths.REQUEST}{number:010}") for number in range(2)] == [ASKED] * made + [None] * (2 - made)


def test_a_session_that_ends_before_the_answer_leaves_a_numbered_request_unknown() -> None:
    """R-245: and another session begins for the next command."""
    admin = Admin(timeout_ms=Millis(1000))
    admin.start(ASK)
    admin.handle(ZkState("connected", 5))
    *_, answered, connects = admin.handle(ZkState("expired"))

    assert isinstance(answered, Answered)
    assert (answered.error, connects) == (ErrorCode.NETWORK_EXCEPTION, ZkConnect())


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_cancellation_is_taken_back_whatever_is_lost(lost: str) -> None:
    """R-239: else nothing could ever be moved again; a deletion may be done twice."""
    world = World()
    for command in (MOVE, CANCEL):
        world.start(command)
    world.loses = [lost]
    world.start(ALLOW)

    assert (world.errors()[-1], world.data(admin_paths.REASSIGN_CANCEL)) == (ErrorCode.NONE, None)


def test_a_command_has_one_timer() -> None:
    world = World()

    assert world.admin.start(COMMANDS[0][0])[0] == SetTimer(TIMER, 1000, 1000)
    assert world.admin.clone().fingerprint() == world.admin.fingerprint()
