"""The kinds of process faults that a schedule can draw: pauses, crashes, crash points, power losses, ended sessions."""

from history.seed import Rng
from nemesis.blows import (
    Aim,
    Blow,
    Kind,
    above_session,
    any_broker,
    around_session,
    below_session,
    blow,
    brief,
    command,
    controller,
    everyone,
    isr_member,
    lasting,
    leader,
    several,
    some_role,
)
from nemesis.faults import AnyFault, Crash, CrashAt, ExpireSession, Pause, PowerLoss, Restart, Shutdown
from nemesis.schedule import Shape
from nemesis.targets import Controller

_EFFECTS = (
    "zk-request",
    "append",
    "truncate",
    "flush",
    "write-checkpoint",
    "create-replica",
    "delete-replica",
    "mark-dir",
    "send",
)


def _power_loss(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: a power loss, in which files lose all unflushed bytes or a part of them."""
    return PowerLoss(torn=rng.ratio(1, 2), lose_all=rng.ratio(1, 4))


def _bounce(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: a restart within the session timeout, so that the old registration still exists at the start."""
    if rng.ratio(1, 2):
        return Blow(fault=Restart(), target=some_role(rng, aim), lasts_ms=rng.between(300, 1000))
    return Blow(fault=Crash(), target=some_role(rng, aim), lasts_ms=rng.between(50, max(50, aim.shape.session_timeout_ms // 2)))


def _bounce_at_once(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: a broker registers again before the controller has read that its old registration is gone (B-47)."""
    return Blow(fault=Restart(session_ends=True), target=some_role(rng, aim), lasts_ms=rng.between(300, 1000))


def _crash_at(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: a crash between two effects, as between a broker's write and the message that follows it."""
    effect = rng.pick((*_EFFECTS, f"send:{command(rng, aim.shape)}"))
    point = CrashAt(effect=effect, nth=rng.between(1, 6), before=rng.ratio(1, 2))
    return Blow(fault=point, target=some_role(rng, aim), lasts_ms=around_session(rng, aim.shape))


def _controller_crash_at(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: the controller crashes within a procedure, as between writing a znode and telling the brokers."""
    effect = rng.pick(("zk-request", f"send:{rng.pick(aim.shape.control_requests)}"))
    point = CrashAt(effect=effect, nth=rng.between(1, 12), before=rng.ratio(1, 2))
    return Blow(fault=point, target=Controller(), lasts_ms=above_session(rng, aim.shape))


KINDS: tuple[Kind, ...] = (
    Kind(
        name="pause-short",
        says="a process paused for less than its session timeout",
        draw=blow(Pause(), some_role, below_session),
    ),
    Kind(
        name="pause-long",
        says="a process paused until after its session ended",
        draw=blow(Pause(), some_role, above_session),
    ),
    Kind(
        name="controller-kill",
        says="kill -9 of the controller",
        draw=blow(Crash(), controller, around_session),
    ),
    Kind(
        name="crash-leader",
        says="kill -9 of a leader",
        draw=blow(Crash(), leader, around_session),
    ),
    Kind(
        name="crash-isr-member",
        says="kill -9 of a follower in the ISR",
        draw=blow(Crash(), isr_member, around_session),
    ),
    Kind(
        name="crash-random",
        says="kill -9 of any broker",
        draw=blow(Crash(), any_broker, lasting),
    ),
    Kind(
        name="crash-several",
        says="kill -9 of a minority or more at once",
        draw=blow(Crash(), several, around_session),
    ),
    Kind(
        name="crash-everyone",
        says="kill -9 of all brokers at once",
        draw=blow(Crash(), everyone, brief),
        everyone=True,
    ),
    Kind(
        name="shutdown",
        says="a controlled shutdown, then a start",
        draw=blow(Shutdown(), some_role, around_session),
    ),
    Kind(
        name="bounce",
        says="kill -9, and a start before the session ends",
        draw=_bounce,
    ),
    Kind(
        name="point-random",
        says="kill -9 of a broker between two effects, at a named effect",
        draw=_crash_at,
    ),
    Kind(
        name="point-controller",
        says="kill -9 of the controller between two effects",
        draw=_controller_crash_at,
    ),
    Kind(
        name="power-loss",
        says="power loss: what was not flushed is gone",
        draw=blow(_power_loss, some_role, around_session),
        destroys="unflushed",
    ),
    Kind(
        name="power-loss-everyone",
        says="power loss of all brokers at once",
        draw=blow(_power_loss, everyone, brief),
        destroys="unflushed",
        everyone=True,
    ),
    Kind(
        name="expire-session",
        says="ZooKeeper ends a session",
        draw=blow(ExpireSession(), some_role, brief),
    ),
    Kind(
        name="bounce-at-once",
        says="kill -9, the session ended, and a new registration before the controller reads",
        draw=_bounce_at_once,
    ),
)
