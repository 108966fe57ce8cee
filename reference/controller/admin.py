"""Requests of an administrator under /admin: only the controller watches them, and a procedure carries each out.

A procedure reads its znodes, waits for brokers where it must, and then does `writes`, one multi after the other, each checking
/controller_epoch (KAFKA-6082). The request stays in ZooKeeper until the last write. If an answer is lost or the controller dies,
the procedure starts again by reading (B-62), so every step can be repeated.

    state               event                             next       effects                     by
    any but stopping,   a request, or no answer           listing    read the admin path         _start
      electing, ready
    listing             a request to add, remove or       topics     read topics                 partitions.on_read,
                        delete                                                                   deletion.on_read
    topics              topics are read                   reading    read partitions             partitions.on_read,
                                                                                                 deletion.on_read
    listing             no request is there               idle                                   _on_elections_read,
                                                                                                 deletion.on_done
    topics, reading     it names no partition             idle                                   deletion.on_done
    listing             a request for elections           electing   elections                   _on_elections_read
    electing            none is under way                 ready                                  _wait_for_elections
    reading             partitions are planned            ready      add: elections              partitions._plan
    reading, ready      replicas must stop first          stopping   forget the partitions       deletion.begin_stopping
    stopping            all live brokers have answered    ready                                  deletion.stop
    topics, reading     no topic of the request exists    ready                                  deletion.on_read
    ready               a write is left                   writing    multi with epoch check      proceed
    writing             it is written                     ready      add: elections              _on_written
    ready               no write is left                  idle                                   proceed
"""

from typing import Literal

from reference.controller import deletion, leader_election, partitions
from reference.controller.context import (
    ADMIN_KINDS,
    AdminKind,
    AdminPath,
    AdminProcedure,
    AdminStep,
    ChangeStep,
    Controller,
    ControllerStep,
    PreferredLeader,
    UncleanLeader,
)
from reference.controller.outstanding import ask, is_outstanding, refuse, retry_later, write
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Created, Data, Delete, Deleted, Exists, GetChildren, Written
from reference.machine import Turn

_Election = Literal["preferred", "unclean"]

_REMOVALS: tuple[AdminKind, ...] = ("remove", "delete")
_READS = (AdminStep.LISTING, AdminStep.TOPICS, AdminStep.READING)
_PATHS: dict[AdminKind, str] = {
    "add": paths.PARTITIONS_ADD,
    "remove": paths.PARTITIONS_REMOVE,
    "preferred": paths.PREFERRED_ELECTION,
    "delete": paths.DELETE_TOPICS,
    "unclean": paths.UNCLEAN_ELECTION,
}


def watches() -> tuple[AnyOp, ...]:
    """The ZooKeeper reads with which a new controller watches the admin paths; `on_listed` takes the answers."""
    return tuple(Exists(_PATHS[kind], watch=True) for kind in ADMIN_KINDS)


def on_listed(controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """Remember which admin requests exist; `begin` starts them once this controller is active."""
    controller.admin = {k: AdminProcedure(again=isinstance(a, Data)) for k, a in zip(ADMIN_KINDS, answers, strict=True)}


def _procedures(controller: Controller) -> list[tuple[AdminKind, AdminProcedure]]:
    # In the order of V3 §D; the mapping has another order after a clone.
    return [(kind, controller.admin[kind]) for kind in ADMIN_KINDS if kind in controller.admin]


def begin(turn: Turn, controller: Controller) -> None:
    """V3 §D step 8: call on_partitions_add(), V3 §D step 9: call on_partitions_remove(); then the article's other requests."""
    for kind, procedure in _procedures(controller):
        if procedure.again and procedure.step is AdminStep.IDLE:
            _start(turn, controller, kind)


def begin_removals(turn: Turn, controller: Controller) -> None:
    """Read the requests to delete topics and partitions, ahead of all others."""
    for kind, procedure in _procedures(controller):
        if kind in _REMOVALS and procedure.again:
            _start(turn, controller, kind)


def reads_removals(controller: Controller) -> bool:
    """Whether a request to delete topics or partitions has not been read to its end."""
    return any(k in _REMOVALS and p.step in _READS for k, p in _procedures(controller))


def on_watch(turn: Turn, controller: Controller, path: str) -> None:
    """R-083: a watch at or below an admin path fired; read the requests there."""
    for kind, procedure in _procedures(controller):
        if path == _PATHS[kind] or path.startswith(f"{_PATHS[kind]}/"):
            if controller.step is ControllerStep.ACTIVE and procedure.step is AdminStep.IDLE:
                _start(turn, controller, kind)
            else:
                procedure.again = True


def _start(turn: Turn, controller: Controller, kind: AdminKind) -> None:
    """List what an administrator asks for under this kind's path, and set the watch."""
    procedure = controller.admin[kind]
    procedure.again = False
    procedure.writes = []
    path = _PATHS[kind]
    children = (GetChildren(path, watch=True),) if kind in ("add", "remove") else ()
    procedure.step = AdminStep.LISTING
    ask(turn, controller, AdminPath(kind), (Exists(path, watch=True), *children))


def on_answer(turn: Turn, controller: Controller, kind: AdminKind, answers: tuple[AnyAnswer, ...]) -> None:
    """ZooKeeper answered a read or a write of an administrator's request that the controller carries out."""
    if controller.admin[kind].step is AdminStep.WRITING:
        _on_written(turn, controller, kind, answers)
        return
    match kind:
        case "add" | "remove":
            partitions.on_read(turn, controller, kind, answers)
        case "preferred" | "unclean":
            _on_elections_read(turn, controller, kind, answers)
        case "delete":
            deletion.on_read(turn, controller, answers)


def _on_written(turn: Turn, controller: Controller, kind: AdminKind, answers: tuple[AnyAnswer, ...]) -> None:
    """One of the procedure's writes is done: go on with the next, or read again if another client was faster."""
    procedure = controller.admin[kind]
    if not all(isinstance(answer, (Written, Deleted, Created)) for answer in answers):
        # Another client changed a znode that was read. Not at once: a faster writer would keep this controller busy.
        retry_later(turn)
        return
    procedure.writes = procedure.writes[1:]
    procedure.step = AdminStep.READY
    if kind == "add" and procedure.writes:  # the topic path lists them now; after the next write it may be deleted
        partitions.init_leaders(turn, controller, procedure)
    elif kind == "delete":
        deletion.forget(controller, procedure.topics)


def proceed(turn: Turn, controller: Controller) -> None:
    """Take each admin request as far as it goes: what it waited for may have happened. Wait until this controller is active."""
    if controller.step is not ControllerStep.ACTIVE:
        return
    for kind, procedure in _procedures(controller):
        if procedure.step is AdminStep.STOPPING:
            deletion.stop(turn, controller, procedure)
        elif procedure.step is AdminStep.ELECTING:
            _wait_for_elections(controller, kind, procedure)
        if procedure.step is AdminStep.READY and procedure.writes:
            procedure.step = AdminStep.WRITING
            write(turn, controller, AdminPath(kind), procedure.writes[0], atomic=True)
        elif procedure.step is AdminStep.READY:
            procedure.step = AdminStep.IDLE
        if procedure.step is AdminStep.IDLE and procedure.again:
            _start(turn, controller, kind)


def retry(turn: Turn, controller: Controller) -> None:
    """Start again, by reading, each admin request whose ZooKeeper answer was lost or whose write failed."""
    for kind, procedure in _procedures(controller):
        at_rest = procedure.step in (AdminStep.IDLE, AdminStep.STOPPING, AdminStep.ELECTING, AdminStep.READY)
        if not at_rest and not is_outstanding(controller, AdminPath(kind)):
            _start(turn, controller, kind)


def _on_elections_read(turn: Turn, controller: Controller, kind: _Election, answers: tuple[AnyAnswer, ...]) -> None:
    """For each partition in an administrator's election request, start an election (R-147, docs/promise.md DUR-7).

    A preferred replica that is not live, or not in the ISR as stamped there, does not become leader: this is balance, not repair.
    An unclean election leaves a partition alone that has a leader or can elect one without loss, so it is safe to repeat.
    """
    procedure = controller.admin[kind]
    answer = answers[0]
    if not isinstance(answer, Data):
        procedure.step = AdminStep.IDLE
        return
    listed = sorted(set(paths.decode_preferred(answer.data)))
    unknown = [tp for tp in listed if tp not in controller.assignments]
    if unknown or not listed:
        refuse(turn, _PATHS[kind], f"no such partition: {', '.join(unknown)}" if listed else "it names no partition")
    procedure.partitions = {tp: controller.assignments[tp] for tp in listed if tp in controller.assignments}
    procedure.writes = [(Delete(_PATHS[kind], answer.version),)]
    procedure.step = AdminStep.ELECTING
    for tp in procedure.partitions:
        leader_election.start(turn, controller, tp, PreferredLeader() if kind == "preferred" else UncleanLeader())


def _wait_for_elections(controller: Controller, kind: str, procedure: AdminProcedure) -> None:
    """Go on when no change is left (R-147). A change that waits for logs has no leader that could be replaced."""
    changes = [controller.changes[tp] for tp in procedure.partitions if tp in controller.changes]
    if all(change.step is ChangeStep.ASKING and kind == "preferred" for change in changes):
        procedure.step = AdminStep.READY
