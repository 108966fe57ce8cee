"""The reassignment agent: partitions are given other replicas while they serve (V3 §F, KIP-236).

"Wakes up if notified or a certain amount of time has passed": it then reads the requests and the state of their partitions, takes
each partition one step on (`plan`, `move`), and does at most one multi, which checks /controller_epoch (KAFKA-6082). The request
and the original replicas stay in ZooKeeper until the last write, so the next controller starts again by reading (B-58, B-62); a
step whose answer was lost is read back and repeated. A switch says which proposal of KIP-236 holds (C-19).

    state                     event                               next       effects                     by
    idle                      notified, or time has passed        listing    read the requests           wake
    listing                   requests are in several znodes      topics     read topics                 read.on_listed,
                                                                                                         read._on_listed_in_flight
    topics                    topics are read                     entries    read entries                read.on_listed,
                                                                                                         read._on_listed_in_flight
    listing, topics,          all requests are known              reading    read their partitions       _read_next
      entries
    reading                   partitions are read                 idle       one step of each move       _act
    idle                      there is something to write         writing    one multi                   _act
    writing                   it is written                       idle       another round               _on_written
    any but idle              no answer, or a write refused       idle       another round               retry
"""

from reference.controller.context import AgentStep, Controller, ControllerStep, Reassigning
from reference.controller.outstanding import ask, is_outstanding, retry_later, write
from reference.controller.reassign import move as reassign_move
from reference.controller.reassign import plan as reassign_plan
from reference.controller.reassign import read as reassign_read
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Created, Data, Deleted, Exists, Written
from reference.effects import CancelTimer
from reference.machine import Turn
from reference.timers import Timer, name_of


def watches(turn: Turn) -> tuple[AnyOp, ...]:
    """The ZooKeeper reads with which a new controller watches for reassignment requests; `on_listed` takes the answers."""
    return tuple(Exists(path, watch=True) for path in reassign_read.roots(turn.config.variant))


def on_listed(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """Remember whether there are reassignment requests; `begin` wakes the agent once this controller is active.

    R-252: entries in flight have no watch, so a new controller always reads them.
    """
    in_flight = turn.config.variant.reassignment == "B"
    controller.agent.again = in_flight or any(isinstance(answer, Data) for answer in answers)


def begin(turn: Turn, controller: Controller) -> None:
    """V3 §D step 7: call on_partitions_reassigned()."""
    if controller.agent.again:
        wake(turn, controller)
    else:
        controller.agent.resumed = True


def on_watch(turn: Turn, controller: Controller, path: str) -> bool:
    """V3 §F step 1: a reassignment request came, or the state of a moving partition changed. False for other watches."""
    roots = reassign_read.roots(turn.config.variant)
    watched = any(path == root or path.startswith(f"{root}/") for root in roots)
    if watched or paths.tp_of_state_path(path) in controller.agent.moves:
        wake(turn, controller)
        return True
    return False


def wake(turn: Turn, controller: Controller) -> None:
    """V3 §F step 1.1.2: wake up the agent; if it is awake, it does another round. Only the active controller does so."""
    agent = controller.agent
    agent.again = controller.step is not ControllerStep.ACTIVE or agent.step is not AgentStep.IDLE
    if not agent.again:
        agent.step = AgentStep.LISTING
        _ask(turn, controller, reassign_read.listing(turn.config.variant, agent))


def _ask(turn: Turn, controller: Controller, ops: tuple[AnyOp, ...]) -> None:
    controller.agent.asked = ops
    ask(turn, controller, Reassigning(), ops)


def on_answer(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """ZooKeeper answered a read or the write of the reassignment agent."""
    agent = controller.agent
    if agent.step is AgentStep.WRITING:
        _on_written(turn, controller, answers)
    elif agent.step is AgentStep.READING:
        _act(turn, controller, answers)
    else:
        _read_next(turn, controller, reassign_read.on_listed(turn.config.variant, agent, answers))


def _read_next(turn: Turn, controller: Controller, ops: tuple[AnyOp, ...]) -> None:
    """Send the agent's next reads; if none are left, act on what was read."""
    agent = controller.agent
    if not ops:
        agent.step = AgentStep.READING
        ops = reassign_read.details(agent)
    if ops:
        _ask(turn, controller, ops)
    else:
        agent.asked = ()
        _act(turn, controller, ())


def _act(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """V3 §F on_wakeup(): one round of the reassignment agent."""
    agent = controller.agent
    ops = reassign_plan.plan(turn, controller, reassign_read.facts_of(agent.asked, answers))
    agent.step, agent.asked = AgentStep.IDLE, ()
    # B-58, KAFKA-9478: entries without a move are never read again
    forgotten = turn.config.variant.reassign_failover == "zombie" and not agent.moves
    if (agent.moves or agent.entries or agent.extra) and not forgotten:
        turn.arm(name_of(Timer.REASSIGN), turn.config.reassign_interval_ms)
    else:
        turn.effects.append(CancelTimer(name_of(Timer.REASSIGN)))
    if ops:
        agent.step = AgentStep.WRITING
        write(turn, controller, Reassigning(), ops, atomic=True)


def _on_written(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """Read again what was written, or what another client wrote first.

    R-053, V3 §F step 3.2.1, V3 §F step 3.2.7: the controller's lock is that one machine takes one event at a time and does one
    write after the other; another controller is kept out by the epoch that each write checks.
    """
    if all(isinstance(answer, (Written, Deleted, Created)) for answer in answers):
        controller.agent.step = AgentStep.IDLE
        controller.agent.again = True
    else:
        retry_later(turn)  # not at once: a faster writer would keep this controller busy


def proceed(turn: Turn, controller: Controller) -> None:
    """Take every partition's reassignment as far as it goes: what it waited for may have happened."""
    if controller.step is not ControllerStep.ACTIVE:
        return
    agent = controller.agent
    for tp, move in sorted(agent.moves.items()):
        reassign_move.proceed(turn, controller, tp, move)
    if agent.again and agent.step is AgentStep.IDLE:
        wake(turn, controller)


def retry(turn: Turn, controller: Controller) -> None:
    """Let the reassignment agent read again, because ZooKeeper's answer was lost or a write failed."""
    agent = controller.agent
    if agent.step is not AgentStep.IDLE and not is_outstanding(controller, Reassigning()):
        agent.step = AgentStep.IDLE
        wake(turn, controller)
