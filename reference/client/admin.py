"""The admin client: writes a request to ZooKeeper and reports its outcome (R-147, R-149, V3 §H).

One command at a time, over a session of its own. The request is one znode. Creating it is the only step that must not be
repeated: if the answer was lost, or the session expired meanwhile, the client looks for its znode. If the znode is absent, the
request never arrived or is already done, and the answer is NETWORK_EXCEPTION. A znode with other contents belongs to another
administrator, and the command is refused. If ZooKeeper appends a number to the name (R-245), the client cannot find its znode
again, and does not create it twice. The client watches its znode until the controller deletes it. After its timeout it answers
REQUEST_TIMED_OUT; the request stays, and the controller goes on with it.

    state               event                                    next        effects                     by
    idle                a command to list what is pending        listing     list the admin paths        start
    idle                any other command                        asking      write its request           start
    asking              no answer, and it may be written         looking     look for its znode          _forget
    below               no answer, or the session ends           listing     list the admin paths        _forget
    looking             its deletion did not arrive              asking      delete the znode again      _on_answers
    asking              written; the controller must delete it   watching    watch its znode             _on_answers
    looking             its znode is found                       watching    wait for the watch          _on_answers
    listing             the admin paths are listed               below       list the nodes of topics    _on_listing
    any but idle        the outcome is known, or time is over    idle        answer                      _end
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

from reference.client.calls import Answered
from reference.client.commands import BELOW, NESTED, SINGLE, Command, ListPending, ops_of, script
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    Children,
    Created,
    Data,
    Deleted,
    Exists,
    GetChildren,
    NodeExists,
    NoNode,
    RolledBack,
    SessionExpired,
    Unknown,
    Written,
)
from reference.effects import AnyEffect, CancelTimer, SetTimer, ZkConnect, ZkRequest
from reference.errors import ErrorCode
from reference.events import (
    AnyEvent,
    Booted,
    ConnectionLost,
    DirFailed,
    Flushed,
    Received,
    ShutDown,
    TimerFired,
    ZkReplied,
    ZkState,
    ZkWatch,
)
from reference.machine import Machine
from reference.types import Millis

TIMER = "admin"
Outputs = list[AnyEffect | Answered]


class CommandStep(StrEnum):
    """How far the admin client is with its command."""

    IDLE = "idle"
    ASKING = "asking"
    LOOKING = "looking"
    WATCHING = "watching"
    LISTING = "listing"
    BELOW = "below"


class Admin(Machine):
    """An administrator as a machine. `asked`: how often its request was sent; `doubtful`: it may exist, its answer was lost."""

    timeout_ms: Millis
    session: int = 0
    connecting: bool = False
    ids: int = 0
    request: int = 0
    command: Command | None = None
    step: CommandStep = CommandStep.IDLE
    asked: int = 0
    doubtful: bool = False
    found: tuple[str, ...] = ()  # by a listing, so far
    below: tuple[str, ...] = ()  # nodes of topics whose children are being listed

    def start(self, command: Command) -> Outputs:
        """Begin an administrator's command; a later `handle` returns its `Answered`."""
        assert self.command is None, "one at a time"
        self.command, self.asked, self.doubtful, self.found = command, 0, False, ()
        self.step = CommandStep.LISTING if isinstance(command, ListPending) else CommandStep.ASKING
        timer = SetTimer(TIMER, self.timeout_ms, self.timeout_ms)
        if self.session:
            return [timer, *self._go_on()]
        if self.connecting:
            return [timer]
        self.connecting = True
        return [timer, ZkConnect()]

    def handle(self, event: AnyEvent) -> Outputs:
        """Let the administrator handle one event; returns effects and, when the command ends, its `Answered`."""
        match event:
            case ZkState():
                return self._on_session(event)
            case ZkReplied(id=id_, answers=answers):
                if id_ != self.request:
                    return []
                self.request = 0
                return self._on_answers(answers)
            case ZkWatch():
                return self._go_on() if self.step is CommandStep.WATCHING and self.request == 0 else []
            case TimerFired(name=name):
                return self._end(ErrorCode.REQUEST_TIMED_OUT) if name == TIMER and self.command is not None else []
            case Booted() | Received() | Flushed() | DirFailed() | ConnectionLost() | ShutDown():
                return []
            case _:
                assert_never(event)

    def _on_session(self, event: ZkState) -> Outputs:
        """A new session repeats the command's last request; an expired one opens another session."""
        if event.state == "connected" and event.session != self.session:
            self.session, self.connecting = event.session, False
            return self._go_on() if self.command is not None else []
        if event.state == "expired":
            self.session, self.request, self.connecting = 0, 0, True
            return [*self._forget(), ZkConnect()]
        return []  # requests in flight are answered Unknown; new ones wait for the connection

    def _forget(self) -> Outputs:
        """The session or the answer is lost: a request in flight may have been performed. Ends the command if it may not be
        repeated.
        """
        if self.step is CommandStep.ASKING and self.asked:
            assert self.command is not None
            assert not isinstance(self.command, ListPending)
            if script(self.command).sequential:
                return self._end(ErrorCode.NETWORK_EXCEPTION)
            self.step, self.doubtful = CommandStep.LOOKING, True
        elif self.step is CommandStep.BELOW:
            self.step, self.found = CommandStep.LISTING, ()
        return []

    def _go_on(self) -> Outputs:
        """Send ZooKeeper the request for the next step of the administrator's command."""
        command = self.command
        assert command is not None
        if isinstance(command, ListPending):
            if self.step is CommandStep.BELOW:
                return self._ask(tuple(GetChildren(path) for path in self.below))
            return self._ask((*(Exists(path) for path in SINGLE), *(GetChildren(path) for path in (*BELOW, *NESTED))))
        request = script(command)
        if self.step is CommandStep.ASKING:
            self.asked += 1
            return self._ask(ops_of(request), atomic=request.beside is not None)
        return self._ask((Exists(request.path, watch=True),))

    def _ask(self, ops: Sequence[AnyOp], *, atomic: bool = False) -> Outputs:
        self.ids += 1
        self.request = self.ids
        return [ZkRequest(self.request, tuple(ops), atomic)]

    def _on_answers(self, answers: tuple[AnyAnswer, ...]) -> Outputs:
        """Go on with the command by ZooKeeper's answers to its last request, or report its outcome."""
        command = self.command
        assert command is not None
        if any(isinstance(answer, SessionExpired) for answer in answers):
            return self._forget()  # the client library reports it too, and another session begins
        if any(isinstance(answer, Unknown) for answer in answers):
            return self._forget() or self._go_on()
        if isinstance(command, ListPending):
            return self._on_listing(answers)
        request, answer = script(command), answers[-1]
        match answer:
            case Deleted() | NoNode() if request.gone:
                return self._end(ErrorCode.NONE)
            case Data() if request.gone:
                self.step = CommandStep.ASKING
                return self._go_on()  # a deletion may be repeated
            case RolledBack() if request.beside is not None:
                return self._end(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            case Created() if request.until_gone:
                self.step = CommandStep.WATCHING
                return self._go_on()
            case Created() | Written():
                return self._end(ErrorCode.NONE)
            case NodeExists():
                return self._end(request.taken)
            case Data(data=data) if data == request.data:
                if not request.until_gone:
                    return self._end(ErrorCode.NONE)
                self.step, self.doubtful = CommandStep.WATCHING, False  # the watch is set; its firing is the next event
                return []
            case Data():
                # Another administrator's znode. A request that was certainly created before is done; otherwise its fate is
                # unknown.
                return self._end(ErrorCode.NETWORK_EXCEPTION if self.doubtful else ErrorCode.NONE)
            case NoNode() if self.step is CommandStep.ASKING:
                return self._go_on()  # the parent node was deleted in between
            case NoNode():
                return self._end(ErrorCode.NETWORK_EXCEPTION if self.doubtful else ErrorCode.NONE)
            case _:
                raise AssertionError(f"{answer} is not an answer to the ZooKeeper request of an admin command")

    def _on_listing(self, answers: tuple[AnyAnswer, ...]) -> Outputs:
        """Collect the paths of pending requests: znodes, children of folders, and children of nested folders."""
        if self.step is CommandStep.LISTING:
            self.found = tuple(p for p, a in zip(SINGLE, answers, strict=False) if isinstance(a, Data))
            folders = zip((*BELOW, *NESTED), answers[len(SINGLE) :], strict=True)
            names = [(path, f"{path}/{name}") for path, a in folders if isinstance(a, Children) for name in a.names]
            self.found += tuple(name for path, name in names if path in BELOW)
            self.below = tuple(name for path, name in names if path in NESTED)
            self.step = CommandStep.BELOW
            if self.below:
                return self._go_on()
            answers = ()
        entries = zip(self.below, answers, strict=True)
        self.found += tuple(f"{path}/{name}" for path, a in entries if isinstance(a, Children) for name in a.names)
        return self._end(ErrorCode.NONE)

    def _end(self, error: ErrorCode) -> Outputs:
        command, self.command, self.step, self.request = self.command, None, CommandStep.IDLE, 0
        assert command is not None
        pending = self.found if error is ErrorCode.NONE else ()
        return [CancelTimer(TIMER), Answered(id=command.id, error=error, attempts=self.asked, found=pending)]
