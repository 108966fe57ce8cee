"""Faults as data: what is done to the cluster, never how (docs/faults.md says what each means on each backend).

A fault holds for a window of a schedule (`nemesis.schedule.Window`) and is undone at its end: a cut link is joined, a
stopped process started, a clock set right. `wounds` follows docs/promise.md §1: a wound destroys bytes that a topic counted on.
"""

from typing import Literal, assert_never

from msgspec import Struct

from history.promise import Flush

Links = Literal["peers", "zookeeper", "clients"]
ALL_LINKS: tuple[Links, ...] = ("peers", "zookeeper", "clients")


class Fault(Struct, frozen=True, kw_only=True, tag_field="fault", forbid_unknown_fields=True):
    """Base of all faults; `tag` is the name used in plans."""


# --- network: everything between two nodes of different sides is lost while the window lasts -------------------------


class Partition(Fault, frozen=True, kw_only=True, tag="partition"):
    """Cut links. `isolate` cuts each target from everybody else; the other shapes ignore the target and split all brokers.

    ZooKeeper sits on the first side of `halves` and sees both sides of a `bridge` and of a `majorities-ring`.
    """

    shape: Literal["isolate", "halves", "majorities-ring", "bridge"] = "isolate"
    links: tuple[Links, ...] = ALL_LINKS
    direction: Literal["both", "inbound", "outbound"] = "both"  # seen from the target (or from the first half)


class Packets(Fault, frozen=True, kw_only=True, tag="packets"):
    """Single control requests and fetches between brokers (and their answers) dropped, doubled or overtaken, per 1000 messages.

    `kinds` narrows it to message kinds (lower-case class names of reference.messages, `fetch-reply`), `peer` to links with
    that broker. A copy comes up to `copy_late_ms_max` later: into another life of its receiver, or another reign of the
    controller. Never touches produce requests or ZooKeeper: those travel on connections that keep order.
    """

    drop_per_mille: int = 0
    duplicate_per_mille: int = 0
    reorder_per_mille: int = 0
    copy_late_ms_max: int = 6000
    kinds: tuple[str, ...] = ()
    peer: int | None = None


class Slow(Fault, frozen=True, kw_only=True, tag="slow"):
    """Every link of the target takes `extra_ms` longer, drawn from 0 to that."""

    extra_ms: int
    links: tuple[Links, ...] = ALL_LINKS


class Clog(Fault, frozen=True, kw_only=True, tag="clog"):
    """Links of the target deliver nothing during the window and everything after it (bytes wait in buffers)."""

    links: tuple[Links, ...] = ALL_LINKS
    kinds: tuple[str, ...] = ()  # narrows it to message kinds, as in Packets
    peer: int | None = None
    direction: Literal["both", "inbound", "outbound"] = "both"


class Reset(Fault, frozen=True, kw_only=True, tag="reset"):
    """Connections of the target break again and again, every `period_ms`: requests in flight have an unknown outcome."""

    period_ms: int
    links: tuple[Links, ...] = ALL_LINKS


# --- clocks --------------------------------------------------------------------------------------------------------------


class ClockJump(Fault, frozen=True, kw_only=True, tag="clock-jump"):
    """The wall clock of the target is off by `offset_ms` (may be negative) during the window."""

    offset_ms: int


class ClockDrift(Fault, frozen=True, kw_only=True, tag="clock-drift"):
    """Both clocks of the target run fast (positive) or slow by `ppm` parts per million."""

    ppm: int


class ClockStrobe(Fault, frozen=True, kw_only=True, tag="clock-strobe"):
    """The wall clock of the target hops between right and `offset_ms` off, every `period_ms`."""

    offset_ms: int
    period_ms: int


# --- processes -----------------------------------------------------------------------------------------------------------


class Pause(Fault, frozen=True, kw_only=True, tag="pause"):
    """The process stands still (SIGSTOP, a long GC) and goes on at the end of the window."""


class Crash(Fault, frozen=True, kw_only=True, tag="crash"):
    """kill -9: the page cache survives. The broker is started again at the end of the window."""


class CrashAt(Fault, frozen=True, kw_only=True, tag="crash-at"):
    """kill -9 between two effects: right after the `nth` effect of one kind within the window, or right before it.

    `effect` is a lower-case class name of reference.effects (`zk-request`, `append`, `flush`, `write-checkpoint`, `send`), or
    `send:` with a message kind as in Packets (`send:leader-and-isr`). The broker is started again at the end of the window;
    nothing happens where it performs fewer.
    """

    effect: str = "zk-request"
    nth: int = 1
    before: bool = False


class Restart(Fault, frozen=True, kw_only=True, tag="restart"):
    """A crash that is followed by a start at once; the window only spaces repetitions.

    With `session_ends` ZooKeeper ends the session too, and the new process is registered again before anybody could look (B-47).
    """

    session_ends: bool = False


class Shutdown(Fault, frozen=True, kw_only=True, tag="shutdown"):
    """SIGTERM: the broker hands its leaderships over, ends in good order, and is started again at the end of the window.

    One that has not come to an end by then is killed (KIP-343 stopping, controlled.shutdown.max.retries).
    """


class PowerLoss(Fault, frozen=True, kw_only=True, tag="power-loss"):
    """kill -9 and every unflushed suffix lost (drawn per file), the last batch perhaps torn. A wound under flush=none."""

    torn: bool = True
    lose_all: bool = False  # cut every file back to what was flushed, instead of a drawn length


class ExpireSession(Fault, frozen=True, kw_only=True, tag="expire-session"):
    """ZooKeeper ends the target's session at once; the target learns it when it next reaches a server."""


class ZooKeeperDown(Fault, frozen=True, kw_only=True, tag="zookeeper-down"):
    """Servers of ZooKeeper are killed, stand still, or are cut off from all brokers; the target is ignored.

    Of three servers one leaves a quorum, and brokers go on at another one; without a quorum nothing can be written.
    """

    how: Literal["kill", "pause", "cut"] = "kill"
    servers: int = 1  # so many of them, drawn; all where there are fewer


# --- disks ---------------------------------------------------------------------------------------------------------------


class DirUnreadable(Fault, frozen=True, kw_only=True, tag="dir-unreadable"):
    """chmod 000 on one log directory: every access fails with EACCES. Healed with a restart of the broker (KIP-112)."""

    dir: int = 0


class DirFile(Fault, frozen=True, kw_only=True, tag="dir-file"):
    """A file stands in the place of one log directory: every access fails with ENOTDIR (R-321). Healed with a restart.

    The directory was moved aside and comes back; with `removed` it is gone, and an empty one comes back: a wound.
    """

    dir: int = 0
    removed: bool = False


class DirFailure(Fault, frozen=True, kw_only=True, tag="dir-failure"):
    """Every access to one log directory fails with EIO. With `drop_unflushed` the device forgets what was not synced: a wound."""

    dir: int = 0
    drop_unflushed: bool = False


class DiskFull(Fault, frozen=True, kw_only=True, tag="disk-full"):
    """Writes to one log directory fail with ENOSPC; reads work."""

    dir: int = 0


class DiskSlow(Fault, frozen=True, kw_only=True, tag="disk-slow"):
    """Every flush of one log directory takes `extra_ms` longer."""

    dir: int = 0
    extra_ms: int = 200


class DiskSwap(Fault, frozen=True, kw_only=True, tag="disk-swap"):
    """The broker is stopped and one log directory comes back empty: a wound."""

    dir: int = 0


AnyFault = (
    Partition
    | Packets
    | Slow
    | Clog
    | Reset
    | ClockJump
    | ClockDrift
    | ClockStrobe
    | Pause
    | Crash
    | CrashAt
    | Restart
    | Shutdown
    | PowerLoss
    | ExpireSession
    | ZooKeeperDown
    | DirUnreadable
    | DirFile
    | DirFailure
    | DiskFull
    | DiskSlow
    | DiskSwap
)


def wounds(fault: AnyFault, flush: Flush) -> bool:
    """Whether this fault can destroy a copy that counted, for a topic with this flush setting (docs/promise.md §1, DUR-5).

    With `flush=before_ack` only flushed copies count, so what forgets unflushed bytes alone is free.
    """
    match fault:
        case PowerLoss():
            return flush == "none"
        case DirFailure(drop_unflushed=dropped):
            return dropped and flush == "none"
        case DirFile(removed=removed):
            return removed
        case DiskSwap():
            return True
        case Partition() | Packets() | Slow() | Clog() | Reset() | ClockJump() | ClockDrift() | ClockStrobe():
            return False
        case Pause() | Crash() | CrashAt() | Restart() | Shutdown() | ExpireSession() | ZooKeeperDown():
            return False
        case DirUnreadable() | DiskFull() | DiskSlow():
            return False
        case _:
            assert_never(fault)
