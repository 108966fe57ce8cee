"""Faults as data: what is done to the cluster, not how (docs/faults.md says what each backend does).

A fault holds during a window of a schedule (`nemesis.schedule.Window`) and is undone at the window's end: a cut link is joined, a
stopped process started, a wrong clock set right. Faults come in families (`LinkFault`, `ClockFault`, `ProcessFault`,
`StepFault`, `ZooKeeperFault`, `DiskFault`): a backend performs each family in one module. `wounds` follows docs/promise.md §1: a
wound destroys bytes that a topic counted on.
"""

from typing import Literal, assert_never

from msgspec import UNSET, Struct, UnsetType

from history.promise import Flush

Links = Literal["peers", "zookeeper", "clients"]
Direction = Literal["both", "inbound", "outbound"]
# What a broker asks ZooKeeper for: writes, and reads of the same znodes
ZkStep = Literal[
    "registration",
    "controller-election",
    "controller-epoch",
    "partition-state",
    "topic",
    "admin",
    "reassignment",
    "log-dir-event",
    "read-brokers",
    "read-partition-state",
    "read-topic",
    "read-admin",
]
Connection = Literal["one", "all"]
ALL_LINKS: tuple[Links, ...] = ("peers", "zookeeper", "clients")


class Fault(Struct, frozen=True, kw_only=True, tag_field="fault", forbid_unknown_fields=True):
    """Base class of what a nemesis does to the cluster; `tag` is the name used in plans."""


# --- links ---------------------------------------------------------------------------------------------------------------


class Partition(Fault, frozen=True, kw_only=True, tag="partition"):
    """Links are cut. `isolate` cuts each target off from everybody else; the other shapes ignore the target and split all
    brokers.

    ZooKeeper is on the first side of `halves`; both sides of a `bridge` and of a `majorities-ring` reach it.
    """

    shape: Literal["isolate", "halves", "majorities-ring", "bridge"] = "isolate"
    links: tuple[Links, ...] = ALL_LINKS
    direction: Direction = "both"  # seen from the target (or from the first half)
    peer: int | None = None  # isolate: restricts the cut to the links with that broker


class Packets(Fault, frozen=True, kw_only=True, tag="packets"):
    """Control requests and fetches between brokers, and their answers, are dropped, duplicated or reordered, per 1000 messages.

    The parameter `kinds` restricts the fault Packets to message kinds (lower-case class names of reference.messages, such as
    `fetch-reply`), and `peer` restricts it to the links with that broker. The copy of a duplicated message arrives up to
    `copy_late_ms_max` later, perhaps after its receiver restarted or another controller was elected. Produce requests and
    requests to ZooKeeper are not touched, because their connections keep order.

    On the links of a client place only `drop_per_mille` is allowed: TCP repeats the dropped bytes, so that they arrive later.
    The parameters `direction` and `connection` of Packets restrict it as in Slow.
    """

    drop_per_mille: int = 0
    duplicate_per_mille: int = 0
    reorder_per_mille: int = 0
    copy_late_ms_max: int = 6000
    kinds: tuple[str, ...] = ()
    peer: int | None = None
    direction: Direction | UnsetType = UNSET
    connection: Connection | UnsetType = UNSET


class Slow(Fault, frozen=True, kw_only=True, tag="slow"):
    """Messages over the links of the target arrive up to `extra_ms` later, drawn from 0.

    Slow, and Clog, Packets and Reset, act on single messages if they have one of these parameters: `kinds` (such as `end-txn` or
    `fetch-reply`, nemesis/messages.py), `chance_per_mille` (so many messages of 1000, drawn), `connection` (`one`: on each link
    the first connection that has such a message, and no other). What follows a late message on its connection is late, too: order
    is kept. It arrives even after the sender has given up the connection. `direction` is seen from the target.
    """

    extra_ms: int
    links: tuple[Links, ...] = ALL_LINKS
    peer: int | None = None
    kinds: tuple[str, ...] | UnsetType = UNSET
    chance_per_mille: int | UnsetType = UNSET
    direction: Direction | UnsetType = UNSET
    connection: Connection | UnsetType = UNSET


class Clog(Fault, frozen=True, kw_only=True, tag="clog"):
    """Links of the target deliver nothing while the fault lasts, and everything after it: bytes wait in buffers.

    With `kinds`, messages of these kinds wait, and between brokers (`links` are `peers` alone) other kinds overtake them. With
    `chance_per_mille` or `connection` (as in Slow), and on the links of clients, what follows on their connections waits, too.
    """

    links: tuple[Links, ...] = ALL_LINKS
    kinds: tuple[str, ...] = ()
    peer: int | None = None
    direction: Direction = "both"
    chance_per_mille: int | UnsetType = UNSET
    connection: Connection | UnsetType = UNSET


class Reset(Fault, frozen=True, kw_only=True, tag="reset"):
    """Connections of the target break every `period_ms`: requests in flight have an unknown outcome.

    If `period_ms` is 0 and `kinds` are given, a connection breaks at each message of these kinds (`chance_per_mille`, `direction`
    and `connection` as in Slow) instead of delivering it. At `end-txn` the broker never gets the request; at `end-txn-reply` the
    broker has performed it, and the answer is lost.
    """

    period_ms: int = 0
    links: tuple[Links, ...] = ALL_LINKS
    peer: int | None = None
    kinds: tuple[str, ...] | UnsetType = UNSET
    chance_per_mille: int | UnsetType = UNSET
    direction: Direction | UnsetType = UNSET
    connection: Connection | UnsetType = UNSET


# --- clocks --------------------------------------------------------------------------------------------------------------


class ClockJump(Fault, frozen=True, kw_only=True, tag="clock-jump"):
    """The wall clock of the target is off by `offset_ms`, which may be negative."""

    offset_ms: int


class ClockDrift(Fault, frozen=True, kw_only=True, tag="clock-drift"):
    """The wall and the monotonic clock of the target run fast (positive) or slow (negative) by `ppm` parts per million."""

    ppm: int


class ClockStrobe(Fault, frozen=True, kw_only=True, tag="clock-strobe"):
    """The wall clock of the target jumps off by `offset_ms` and back, in turn, every `period_ms`."""

    offset_ms: int
    period_ms: int


# --- processes -----------------------------------------------------------------------------------------------------------


class Pause(Fault, frozen=True, kw_only=True, tag="pause"):
    """The process is stopped (SIGSTOP, or a long GC) and continues at the fault's end."""


class Crash(Fault, frozen=True, kw_only=True, tag="crash"):
    """kill -9; the page cache survives. The broker is started again at the fault's end."""


class CrashAt(Fault, frozen=True, kw_only=True, tag="crash-at"):
    """kill -9 between two effects: right after the `nth` effect of one kind (such as an append), or right `before` it.

    The parameter `effect` of CrashAt is a lower-case class name of reference.effects (`zk-request`, `append`, `flush`,
    `write-checkpoint`, `send`), `send:` with a message kind (`send:leader-and-isr`), or `zk-request:` with a named step
    (`zk-request:controller-epoch`). The broker is started again at the fault's end. A broker that performs fewer such effects is
    not killed.
    """

    effect: str = "zk-request"
    nth: int = 1
    before: bool = False


class AnswerLost(Fault, frozen=True, kw_only=True, tag="answer-lost"):
    """ZooKeeper performs the `nth` request of the target at a named step; the connection breaks before the answer arrives."""

    step: ZkStep = "partition-state"
    nth: int = 1


class AnswerLate(Fault, frozen=True, kw_only=True, tag="answer-late"):
    """From the `nth` request of the target at a named step on, everything that ZooKeeper sends it waits until the fault's end.

    Messages of brokers and clients arrive meanwhile: a command of the controller overtakes a read.
    """

    step: ZkStep = "partition-state"
    nth: int = 1


class DeposedAt(Fault, frozen=True, kw_only=True, tag="deposed-at"):
    """Another controller is elected while the `nth` request of the target at a named step is on its way to ZooKeeper.

    /controller is deleted before the request is sent. The request, and what follows it, waits until the fault's end.
    """

    step: ZkStep = "partition-state"
    nth: int = 1


class Restart(Fault, frozen=True, kw_only=True, tag="restart"):
    """A crash and a start right after it, whatever the duration of the fault.

    With the parameter `session_ends` of Restart, ZooKeeper also ends the broker's session, and the new process registers before
    the controller has read that the old registration is gone (B-47).
    """

    session_ends: bool = False


class Shutdown(Fault, frozen=True, kw_only=True, tag="shutdown"):
    """SIGTERM: the broker hands its leaderships over and exits. It is started again at the fault's end.

    A broker that still runs at that time is killed first (KIP-343 stopping, controlled.shutdown.max.retries). With the parameter
    `protocol` of Shutdown it starts with this inter-broker protocol: an upgrade to KIP-343, or its rollback (R-205).
    """

    protocol: Literal["legacy", "kip343"] | UnsetType = UNSET


class Roll(Fault, frozen=True, kw_only=True, tag="roll"):
    """SIGTERM, and at the fault's end a start as another version: one broker's step of a rolling upgrade, or of its way back.

    A broker that still runs at that time is killed first. From then on it runs the version `to`, in the words of its system: the
    version under test if empty, the one that it ran first with the parameter `back` of Roll. A cluster rolls by one window for
    each broker, and a crash in the middle of a roll is a window of its own.

    Before `finalize` the brokers of a mixed cluster speak what the oldest version of the run knows. With it the upgrade becomes
    final, and no older broker may join afterwards: with KRaft the cluster's feature level is raised once all brokers serve
    (KIP-584); elsewhere this broker alone speaks its own version's protocol from this start on, so that a second roll is needed.
    """

    to: str = ""
    back: bool = False
    finalize: bool = False


class Join(Fault, frozen=True, kw_only=True, tag="join"):
    """The broker is not started with the others. At the fault's end it joins the running cluster, with empty directories.

    Its window begins at 0, and no topic has a replica on it at first: an administrator may move some there later.
    """


class Decommission(Fault, frozen=True, kw_only=True, tag="decommission"):
    """The broker leaves the cluster for good: it is shut down once no partition has a replica on it, and never started again.

    An administrator moves its replicas away. If one is left on it at the fault's end, the broker stays. A cluster that remembers
    its brokers is told to forget it (Kafka's UnregisterBroker).
    """


class PowerLoss(Fault, frozen=True, kw_only=True, tag="power-loss"):
    """kill -9; each file loses a drawn part of what was not flushed, and its last batch may be torn (flush=none: data loss)."""

    torn: bool = True
    lose_all: bool = False  # each file loses everything that was not flushed


class ExpireSession(Fault, frozen=True, kw_only=True, tag="expire-session"):
    """ZooKeeper ends the target's session at once; the target learns of it when it next reaches a server."""


# --- ZooKeeper -----------------------------------------------------------------------------------------------------------


class ZooKeeperDown(Fault, frozen=True, kw_only=True, tag="zookeeper-down"):
    """Servers of ZooKeeper are killed, paused, or cut off from all brokers; the target is ignored.

    If one of three ZooKeeper servers is hit, the other two are a quorum, to which brokers reconnect. Without a quorum nothing can
    be written. `leave`: a controller of Kafka is removed from the quorum, and added again at the end (KIP-853).
    `roll`: a controller that no window has rolled is shut down, and starts as the version under test at the end.
    """

    how: Literal["kill", "pause", "cut", "leave", "roll"] = "kill"
    servers: int = 1  # how many, drawn; all where there are fewer


class ZooKeeperLinks(Fault, frozen=True, kw_only=True, tag="zookeeper-links"):
    """Servers of ZooKeeper are cut off from the other servers, or messages between them come late; the target is ignored.

    Brokers and clients still reach every server. A server that is cut off closes their connections once it has heard no leader
    for a while; one whose messages come late (`slow`, by up to `extra_ms`) serves stale reads.
    """

    how: Literal["cut", "slow"] = "cut"
    servers: int = 1  # how many, drawn
    extra_ms: int = 0  # of `slow`


# --- disks ---------------------------------------------------------------------------------------------------------------


class DirUnreadable(Fault, frozen=True, kw_only=True, tag="dir-unreadable"):
    """chmod 000 on one log directory: every access fails with EACCES. Undone with a restart of the broker (KIP-112)."""

    dir: int = 0


class DirFile(Fault, frozen=True, kw_only=True, tag="dir-file"):
    """A file is in the place of one log directory: every access fails with ENOTDIR (R-321). Undone with a restart of the broker.

    The directory was moved aside and comes back. With `removed` it was deleted and an empty one comes back: a wound.
    """

    dir: int = 0
    removed: bool = False


class DirFailure(Fault, frozen=True, kw_only=True, tag="dir-failure"):
    """Every access to one log directory fails with EIO. With `drop_unflushed` the device loses what was not synced.

    With `append` the directory works until the broker appends to a log in it: the records of a produce request at a leader
    (`produce`), or those of a fetch at a follower (`fetch`). This append is the first access that fails (KIP-112); with `nth`,
    which needs `append`, it is the nth one since the window opened, and else the first.
    """

    dir: int = 0
    drop_unflushed: bool = False
    append: Literal["produce", "fetch"] | UnsetType = UNSET
    nth: int | UnsetType = UNSET


class DiskFull(Fault, frozen=True, kw_only=True, tag="disk-full"):
    """Writes to one log directory fail with ENOSPC; reads work."""

    dir: int = 0


class DiskSlow(Fault, frozen=True, kw_only=True, tag="disk-slow"):
    """Each flush of one log directory takes `extra_ms` longer."""

    dir: int = 0
    extra_ms: int = 200


class DiskSwap(Fault, frozen=True, kw_only=True, tag="disk-swap"):
    """The broker is killed, and one log directory is empty when it starts again: its records are lost."""

    dir: int = 0


LinkFault = Partition | Packets | Slow | Clog | Reset
ClockFault = ClockJump | ClockDrift | ClockStrobe
ProcessFault = Pause | Crash | CrashAt | Restart | Shutdown | Roll | Join | Decommission | PowerLoss | ExpireSession
StepFault = AnswerLost | AnswerLate | DeposedAt
ZooKeeperFault = ZooKeeperDown | ZooKeeperLinks
DiskFault = DirUnreadable | DirFile | DirFailure | DiskFull | DiskSlow | DiskSwap  # of the directory `dir`, numbered from 0
AnyFault = LinkFault | ClockFault | ProcessFault | StepFault | ZooKeeperFault | DiskFault

DRIFT_PPM_MAX = 900_000  # at -1,000,000 ppm a clock would stop


def hits_every_broker(fault: AnyFault) -> bool:
    """True for a fault that acts on all brokers, whatever its target."""
    return isinstance(fault, ZooKeeperFault) or (isinstance(fault, Partition) and fault.shape != "isolate")


def drift_ppm(fault: AnyFault) -> int:
    """By how many parts per million clocks run wrong under this fault: drifts of overlapping faults add up."""
    return fault.ppm if isinstance(fault, ClockDrift) else 0


def kinds_of(fault: AnyFault) -> tuple[str, ...]:
    """The kinds of messages that the fault names; empty if it names none."""
    kinds = fault.kinds if isinstance(fault, Packets | Slow | Clog | Reset) else UNSET
    return () if kinds is UNSET else kinds


def picks_messages(fault: AnyFault) -> bool:
    """True for a fault of single messages that wait, break or are repeated in their connection's order.

    False for Clog between brokers that names kinds alone: other messages overtake those that it holds.
    """
    if isinstance(fault, Clog) and fault.links == ("peers",) and fault.kinds:
        return fault.chance_per_mille is not UNSET or fault.connection is not UNSET
    if isinstance(fault, Packets):
        return bool(fault.kinds) or fault.connection is not UNSET
    if isinstance(fault, Slow | Clog | Reset):
        return bool(kinds_of(fault)) or fault.chance_per_mille is not UNSET or fault.connection is not UNSET
    return False


def withholds(fault: AnyFault) -> bool:
    """True if this fault makes all replicas in one log directory unreadable while it lasts."""
    return isinstance(fault, DirUnreadable | DirFile | DirFailure)


def wounds(fault: AnyFault, flush: Flush) -> bool:
    """True if this fault can destroy replica bytes that count for durability, given the flush setting (docs/promise.md DUR-5).

    With `flush=before_ack` only flushed copies count, so a fault that loses only unflushed bytes destroys none.
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
        case Pause() | Crash() | CrashAt() | Restart() | Shutdown() | Roll() | Join() | Decommission() | ExpireSession():
            return False
        case ZooKeeperDown() | ZooKeeperLinks():
            return False
        case DirUnreadable() | DiskFull() | DiskSlow() | AnswerLost() | AnswerLate() | DeposedAt():
            return False
        case _:
            assert_never(fault)
