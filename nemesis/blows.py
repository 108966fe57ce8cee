"""Blows: what a kind of fault does, to whom and for how long, drawn for one moment of one schedule.

Blows are short (0.3 to 10 s) and aim at roles: a fault hurts most at a leader, the controller or a member of the ISR, and
around the session timeout, where one half of the cluster already knows what the other does not.
"""

from collections.abc import Callable
from dataclasses import dataclass

from history.seed import Rng
from nemesis.faults import (
    ALL_LINKS,
    AnyFault,
    ClockDrift,
    ClockJump,
    ClockStrobe,
    Clog,
    Crash,
    CrashAt,
    DirFailure,
    DirFile,
    DirUnreadable,
    DiskFull,
    DiskSlow,
    DiskSwap,
    Links,
    Packets,
    Partition,
    PowerLoss,
    Reset,
    Restart,
    Slow,
    ZooKeeperDown,
)
from nemesis.schedule import Shape
from nemesis.targets import AnyTarget, Controller, Everyone, IsrMember, LeaderOf, Minority, Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a blow is drawn for: the cluster, and the partition that the blows of this round gather on."""

    shape: Shape
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """A fault on a target for so long."""

    fault: AnyFault
    target: AnyTarget
    lasts_ms: int


Draw = Callable[[Rng, Aim], Blow]

# --- whom ------------------------------------------------------------------------------------------------------------

Whom = Callable[[Rng, Aim], AnyTarget]


def leader(_: Rng, aim: Aim) -> AnyTarget:
    """The leader of the partition aimed at."""
    return LeaderOf(topic=aim.topic, partition=aim.partition)


def isr_member(_: Rng, aim: Aim) -> AnyTarget:
    """A follower in the ISR of the partition aimed at."""
    return IsrMember(topic=aim.topic, partition=aim.partition)


def controller(_: Rng, __: Aim) -> AnyTarget:
    """The controller."""
    return Controller()


def one(_: Rng, __: Aim) -> AnyTarget:
    """Any broker."""
    return Random()


def everyone(_: Rng, __: Aim) -> AnyTarget:
    """All brokers."""
    return Everyone()


def several(rng: Rng, aim: Aim) -> AnyTarget:
    """Two brokers or more, or a minority."""
    if aim.shape.brokers == 1:
        return Random()
    return Minority() if rng.ratio(1, 3) else Random(count=rng.between(2, aim.shape.brokers))


def some_role(rng: Rng, aim: Aim) -> AnyTarget:
    """Anybody, but leaders first: they hold what others do not have yet."""
    return rng.pick((leader, leader, leader, isr_member, isr_member, controller, one, several))(rng, aim)


# --- how long --------------------------------------------------------------------------------------------------------

HowLong = Callable[[Rng, Shape], int]


def brief(rng: Rng, _: Shape) -> int:
    """Up to 3 s."""
    return rng.between(300, 3000)


def lasting(rng: Rng, _: Shape) -> int:
    """Up to 8 s."""
    return rng.between(1000, 8000)


def below_session(rng: Rng, shape: Shape) -> int:
    """Too short for ZooKeeper to notice."""
    return rng.between(100, max(100, shape.session_timeout_ms * 4 // 5))


def above_session(rng: Rng, shape: Shape) -> int:
    """So long that the session ends."""
    return shape.session_timeout_ms * 6 // 5 + rng.between(0, 2500)


def around_session(rng: Rng, shape: Shape) -> int:
    """One or the other."""
    return below_session(rng, shape) if rng.ratio(1, 2) else above_session(rng, shape)


# --- what ------------------------------------------------------------------------------------------------------------

What = Callable[[Rng, Shape], AnyFault]


def blow(what: AnyFault | What, whom: Whom, how_long: HowLong) -> Draw:
    """How to draw a blow whose three parts are drawn each by itself."""

    def draw(rng: Rng, aim: Aim) -> Blow:
        fault = what(rng, aim.shape) if callable(what) else what
        return Blow(fault=fault, target=whom(rng, aim), lasts_ms=how_long(rng, aim.shape))

    return draw


def halves(rng: Rng, _: Shape) -> AnyFault:
    """Two halves, seldom cut in one direction alone."""
    return Partition(shape="halves", direction=rng.pick(("both", "both", "both", "inbound", "outbound")))


def one_way(rng: Rng, _: Shape) -> AnyFault:
    """Heard but deaf, or the other way round."""
    return Partition(links=_some_links(rng), direction=rng.pick(("inbound", "outbound")))


def packets(rng: Rng, _: Shape) -> AnyFault:
    """A burst: one vice or all of them, from a nuisance to three messages in four (Jepsen's packet behaviours)."""
    shares = (0, 0, 20, 100, 300, 750)
    drop, duplicate, reorder = rng.pick(shares), rng.pick(shares), rng.pick(shares)
    if not drop and not duplicate and not reorder:
        drop = 200
    return Packets(drop_per_mille=drop, duplicate_per_mille=duplicate, reorder_per_mille=reorder)


def slow(rng: Rng, shape: Shape) -> AnyFault:
    """From a far data centre to out of the ISR."""
    return Slow(extra_ms=rng.pick((20, 100, 400, shape.replica_lag_time_max_ms)), links=_some_links(rng))


def clog(rng: Rng, _: Shape) -> AnyFault:
    """Everything late, nothing lost."""
    return Clog(links=_some_links(rng), direction=rng.pick(("both", "both", "inbound", "outbound")))


def reset(rng: Rng, _: Shape) -> AnyFault:
    """Connections that break faster than most requests time out."""
    return Reset(period_ms=rng.between(50, 800), links=_some_links(rng))


def _some_links(rng: Rng) -> tuple[Links, ...]:
    links: tuple[tuple[Links, ...], ...] = (ALL_LINKS, ("peers",), ("zookeeper",), ("peers", "zookeeper"), ("clients",))
    return rng.pick(links)


def commands_late(rng: Rng, aim: Aim) -> Blow:
    """One kind of control request waits on its way to one broker while everything else passes; or its answers on the way back."""
    kind, answers = _command(rng, aim.shape), rng.ratio(1, 4)
    late = Clog(links=("peers",), kinds=(f"{kind}-reply" if answers else kind,), direction="outbound" if answers else "inbound")
    return Blow(fault=late, target=some_role(rng, aim), lasts_ms=around_session(rng, aim.shape))


def commands_doubled(rng: Rng, aim: Aim) -> Blow:
    """One kind of control request comes twice to one broker, the copy soon or after an election."""
    doubled = Packets(duplicate_per_mille=1000, kinds=(_command(rng, aim.shape),))
    return Blow(fault=doubled, target=some_role(rng, aim), lasts_ms=lasting(rng, aim.shape))


def commands_replayed(rng: Rng, aim: Aim) -> Blow:
    """Old control requests of one kind come again, in another life of whom they were for or another reign of who sent them."""
    late_ms = aim.shape.session_timeout_ms + rng.between(2000, 12_000)
    replayed = Packets(duplicate_per_mille=rng.pick((300, 1000)), copy_late_ms_max=late_ms, kinds=(_command(rng, aim.shape),))
    return Blow(fault=replayed, target=some_role(rng, aim), lasts_ms=lasting(rng, aim.shape))


def _command(rng: Rng, shape: Shape) -> str:
    return rng.pick(shape.control_requests)


def clock_jump(rng: Rng, _: Shape) -> AnyFault:
    """A jump either way."""
    return ClockJump(offset_ms=_offset_ms(rng))


def clock_drift(rng: Rng, _: Shape) -> AnyFault:
    """From what a bad crystal does to a tenth too slow or a third too fast."""
    # Overlapping windows add up, and the sum must not make a clock stand still.
    return ClockDrift(ppm=rng.pick((-100_000, -10_000, -500, 500, 10_000, 100_000, 300_000)))


def clock_strobe(rng: Rng, _: Shape) -> AnyFault:
    """Jumps to and fro."""
    return ClockStrobe(offset_ms=_offset_ms(rng), period_ms=rng.between(20, 1000))


def _offset_ms(rng: Rng) -> int:
    """From 10 ms to about three hours, evenly in the exponent, both ways (as Jepsen's clock bump)."""
    offset = rng.between(10, 20) << rng.below(20)
    return offset if rng.ratio(1, 2) else -offset


def dir_unreadable(rng: Rng, shape: Shape) -> AnyFault:
    """Permission revoked."""
    return DirUnreadable(dir=rng.below(shape.log_dirs))


def dir_file(rng: Rng, shape: Shape) -> AnyFault:
    """A file in the place of a directory that comes back."""
    return DirFile(dir=rng.below(shape.log_dirs))


def dir_removed(rng: Rng, shape: Shape) -> AnyFault:
    """A file in the place of a directory that is gone."""
    return DirFile(dir=rng.below(shape.log_dirs), removed=True)


def dir_failure(rng: Rng, shape: Shape) -> AnyFault:
    """A device that fails and forgets nothing."""
    return DirFailure(dir=rng.below(shape.log_dirs))


def dir_drop(rng: Rng, shape: Shape) -> AnyFault:
    """A device that fails and forgets what was not synced."""
    return DirFailure(dir=rng.below(shape.log_dirs), drop_unflushed=True)


def disk_full(rng: Rng, shape: Shape) -> AnyFault:
    """No space left."""
    return DiskFull(dir=rng.below(shape.log_dirs))


def disk_slow(rng: Rng, shape: Shape) -> AnyFault:
    """From a busy device to one that drops its broker out of the ISR."""
    return DiskSlow(dir=rng.below(shape.log_dirs), extra_ms=rng.pick((50, 200, 1000, shape.replica_lag_time_max_ms)))


def disk_swap(rng: Rng, shape: Shape) -> AnyFault:
    """An empty directory in the place of the old one."""
    return DiskSwap(dir=rng.below(shape.log_dirs))


def power_loss(rng: Rng, _: Shape) -> AnyFault:
    """Unflushed suffixes gone, whole or in part."""
    return PowerLoss(torn=rng.ratio(1, 2), lose_all=rng.ratio(1, 4))


def zookeeper_down(rng: Rng, _: Shape) -> AnyFault:
    """One server, of three seldom two: then there is no quorum."""
    return ZooKeeperDown(how=rng.pick(("kill", "pause", "cut")), servers=rng.pick((1, 1, 1, 2)))


def bounce(rng: Rng, aim: Aim) -> Blow:
    """Down and up again before ZooKeeper noticed: the old registration still stands when the new process asks for its own."""
    if rng.ratio(1, 2):
        return Blow(fault=Restart(), target=some_role(rng, aim), lasts_ms=rng.between(300, 1000))
    return Blow(fault=Crash(), target=some_role(rng, aim), lasts_ms=rng.between(50, max(50, aim.shape.session_timeout_ms // 2)))


def bounce_at_once(rng: Rng, aim: Aim) -> Blow:
    """Registered again, as another incarnation, before the controller has looked (B-47)."""
    return Blow(fault=Restart(session_ends=True), target=some_role(rng, aim), lasts_ms=rng.between(300, 1000))


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


def crash_at(rng: Rng, aim: Aim) -> Blow:
    """Between two effects that are named: what a broker writes first and what it says next are not one step."""
    effect = rng.pick((*_EFFECTS, f"send:{_command(rng, aim.shape)}"))
    point = CrashAt(effect=effect, nth=rng.between(1, 6), before=rng.ratio(1, 2))
    return Blow(fault=point, target=some_role(rng, aim), lasts_ms=around_session(rng, aim.shape))


def controller_crash_at(rng: Rng, aim: Aim) -> Blow:
    """Between two steps of a procedure of the controller: a znode written and nobody told, half of the brokers told."""
    effect = rng.pick(("zk-request", f"send:{rng.pick(aim.shape.control_requests)}"))
    point = CrashAt(effect=effect, nth=rng.between(1, 12), before=rng.ratio(1, 2))
    return Blow(fault=point, target=Controller(), lasts_ms=above_session(rng, aim.shape))
