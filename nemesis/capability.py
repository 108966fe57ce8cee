"""Which fault each backend can perform, and how; or why it cannot.

A fault that a backend cannot perform is refused before the run and never skipped silently. This module assumes a complete host;
the container backend itself detects what the host's kernel lacks.
"""

from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import UNSET, Struct

from nemesis.faults import (
    AnswerLate,
    AnswerLost,
    AnyFault,
    ClockDrift,
    ClockJump,
    ClockStrobe,
    Clog,
    Crash,
    CrashAt,
    Decommission,
    DeposedAt,
    DirFailure,
    DirFile,
    DirUnreadable,
    DiskFull,
    DiskSlow,
    DiskSwap,
    ExpireSession,
    Join,
    Packets,
    Partition,
    Pause,
    PowerLoss,
    Reset,
    Restart,
    Roll,
    Shutdown,
    Slow,
    ZooKeeperDown,
    ZooKeeperLinks,
    picks_messages,
)
from nemesis.schedule import Window
from nemesis.targets import AnyTarget, ClientPlace, Everyone

Backend = Literal["sim", "process", "docker"]
_ANY = Everyone()
BACKENDS: tuple[Backend, ...] = ("sim", "process", "docker")


class Can(Struct, frozen=True):
    """The backend can inject the fault; `how` says by which means."""

    how: str


class Cannot(Struct, frozen=True):
    """The backend cannot inject the fault; `why` gives the reason."""

    why: str


Ability = Can | Cannot

ONE_PROTOCOL = "a process keeps the settings that it was given at the start of the run"
OUTSIDE = "the effects of a machine cannot be seen from outside its process"
_NO_PACKETS = "refused where doubled or reordered"
_TCP_HIDES = "TCP hides doubled and reordered packets"
_PROXIED = ("peers", "clients")  # the links whose proxies tell messages apart
_NO_KINDS = f"a proxy tells messages apart between brokers and on clients' links only (links: {', '.join(_PROXIED)})"
_PICKED = "a TCP proxy parses messages, and delays, holds or drops the picked ones, or resets their connection"
_PEERS_ONLY = "a proxy tells messages apart between brokers only, where it holds all of some kinds (clog, links: peers)"
_NOT_PICKED = "its connections cannot pick single messages by kind, chance or connection"
_CUT_BACK = "SIGKILL, then each file cut back to a length not below what was fsynced"
_STARTS_LATE = "the broker is not started with the others but at the end of the window"
_LEAVES = "SIGTERM once no replica is left on it, SIGKILL where it still runs at the end of the window, and no start again"
_TAKEN_OVER = "another client takes over the session's id and password and closes it"


_ONE_PLACE = "its clients run on the host, with one address for all of them"
_FIXED = "its ZooKeeper has the same servers for the whole run; controllers of Kafka leave a quorum as processes only"
_NO_PROXY = "ZooKeeper's servers on one machine talk to each other without a proxy"


def ability(backend: Backend, fault: AnyFault, target: AnyTarget = _ANY) -> Ability:
    """Whether and how this backend (simulator, processes, containers) injects this fault on this target."""
    if backend == "docker" and isinstance(target, ClientPlace):
        return Cannot(_ONE_PLACE)
    match backend:
        case "sim":
            return _ability_of_simulator(fault, target)
        case "process":
            return _ability_of_processes(fault)
        case "docker":
            return _ability_of_containers(fault)
        case _:
            assert_never(backend)


def refusals(backend: Backend, windows: Sequence[Window]) -> tuple[str, ...]:
    """One sentence for each fault of the schedule that this backend cannot inject."""
    sentences = []
    for window in windows:
        answer = ability(backend, window.fault, window.target)
        if isinstance(answer, Cannot):
            sentences.append(f"window {window.id} ({window.kind}): the {backend} backend cannot: {answer.why}")
    return tuple(sentences)


def performable(backend: Backend, windows: Sequence[Window]) -> tuple[Window, ...]:
    """The scheduled faults that this backend can inject."""
    return tuple(window for window in windows if isinstance(ability(backend, window.fault, window.target), Can))


def _cannot_be_simulated(fault: AnyFault, target: AnyTarget) -> bool:
    """Whether the simulator cannot pick the messages of this fault: between brokers it holds or loses those of some kinds."""
    if isinstance(fault, Packets) and not isinstance(target, ClientPlace):
        return fault.connection is not UNSET
    if isinstance(fault, Clog) and not isinstance(target, ClientPlace):
        return fault.chance_per_mille is not UNSET or fault.connection is not UNSET
    return picks_messages(fault)


def _ability_of_simulator(fault: AnyFault, target: AnyTarget) -> Ability:
    """How the simulator performs this fault on this target, or that it cannot."""
    if _cannot_be_simulated(fault, target):
        return Cannot(_NOT_PICKED)
    match fault:
        case Partition():
            return Can("messages over a cut link are lost; its connections break after a while")
        case Packets():
            return Can("single control requests and fetches, and their answers, by keyed draws; TCP repeats packets of clients")
        case Slow():
            return Can("a drawn delay on top of the link's own")
        case Clog():
            return Can("messages wait, in order, until the window ends")
        case Reset():
            return Can("connections break; bytes in flight may still arrive, but their sender does not learn of it")
        case ClockJump() | ClockStrobe():
            return Can("an offset of the node's wall clock")
        case ClockDrift():
            return Can("a rate of the node's wall and monotonic clocks")
        case Pause():
            return Can("no event reaches the node; afterwards overdue timers and waiting messages come in drawn order")
        case Crash() | Restart():
            return Can("the machine is dropped between two effects; the disk keeps its page cache")
        case Shutdown(protocol="legacy" | "kip343"):
            return Can("the machine is told ShutDown, and at the end of the window a machine with the other protocol starts")
        case Shutdown():
            return Can("the machine is told ShutDown, and dropped where it still runs at the end of the window")
        case CrashAt():
            return Can("the machine is dropped right after the effect, or right before it; the disk keeps its page cache")
        case AnswerLost():
            return Can("the client of ZooKeeper takes its connection for broken in place of the answer")
        case AnswerLate():
            return Can("ZooKeeper's messages to the broker wait, in order, from the request on")
        case DeposedAt():
            return Can("/controller is deleted, and the broker's messages to ZooKeeper wait, in order, from the request on")
        case Roll():
            return Can("the machine is told ShutDown, and at the end of the window a machine of the other version starts")
        case Join():
            return Can("the machine starts with empty directories at the end of the window, and not before")
        case Decommission():
            return Can("the machine is told ShutDown once topics and directories have no replica on it, and none starts again")
        case PowerLoss():
            return Can("a crash, and each file is cut back to a drawn length not below what was flushed")
        case ZooKeeperDown(how="leave" | "roll"):
            return Cannot(_FIXED)
        case ZooKeeperDown():
            return Can("modelled servers end, stop or are cut off; a single one is cut off from brokers, or answers late (pause)")
        case ZooKeeperLinks():
            return Can("messages between modelled servers are lost, or take longer by a drawn delay")
        case ExpireSession():
            return Can("the model of ZooKeeper ends the session and removes its ephemeral nodes")
        case DirUnreadable() | DirFailure() | DiskFull():
            return Can("effects on the directory fail with DirFailed")
        case DirFile():
            return Can("effects on the directory fail with DirFailed; where it was removed, it is empty at the next start")
        case DiskSlow():
            return Can("the event Flushed comes later")
        case DiskSwap():
            return Can("a crash, and the directory is empty at the next start")
        case _:
            assert_never(fault)


def _ability_of_processes(fault: AnyFault) -> Ability:
    """How the process backend performs faults on one host: by signals, and by proxies that carry all connections."""
    match fault:
        case Pause():
            return Can("SIGSTOP, then SIGCONT")
        case Restart(session_ends=True):
            return Can("SIGKILL, another client closes its session, then a new process on the same directories")
        case Crash() | Restart():
            return Can("SIGKILL, then a new process on the same directories")
        case Shutdown(protocol="legacy" | "kip343"):
            return Cannot(ONE_PROTOCOL)
        case Shutdown():
            return Can("SIGTERM, SIGKILL where it still runs at the end of the window, then a new process")
        case Roll():
            return Can("SIGTERM, SIGKILL where it still runs at the end of the window, then a process of the other version")
        case Join():
            return Can(_STARTS_LATE)
        case Decommission():
            return Can(_LEAVES)
        case CrashAt() | AnswerLost() | AnswerLate() | DeposedAt():
            return Cannot(OUTSIDE)
        case Packets(duplicate_per_mille=0, reorder_per_mille=0):
            return Can(f"a TCP proxy sends dropped bytes later, as TCP does; {_NO_PACKETS}")
        case Packets():
            return Cannot(_TCP_HIDES)
        case Slow() | Clog() | Reset() if picks_messages(fault) and not {*fault.links} <= {*_PROXIED}:
            return Cannot(_NO_KINDS)
        case Slow() | Clog() | Reset() if picks_messages(fault):
            return Can(_PICKED)
        case Clog(kinds=kinds) if kinds:
            return Can("a TCP proxy parses messages between brokers and holds those of these kinds back")
        case Partition() | Clog():
            return Can("a TCP proxy holds the bytes of one direction back, and opens no connection; they arrive afterwards")
        case Slow():
            return Can("a TCP proxy forwards bytes later")
        case Reset():
            return Can("a TCP proxy resets its connections")
        case ZooKeeperDown(how="roll"):
            return Can("SIGTERM to a controller of Kafka, SIGKILL at the end of the window, then a start as the other version")
        case ZooKeeperDown(how="leave"):
            return Can("a request of Kafka's removes a controller from the quorum, and another one adds it (KIP-853)")
        case ZooKeeperDown():
            return Can("SIGKILL and a start, SIGSTOP and SIGCONT, or TCP proxies that hold all bytes back")
        case ZooKeeperLinks():
            return Cannot(_NO_PROXY)
        case ExpireSession():
            return Can(_TAKEN_OVER)
        case ClockJump() | ClockStrobe():
            return Can("libfaketime in the broker's process, for its wall clock")
        case ClockDrift():
            return Can("libfaketime, an offset of the wall clock that grows; the monotonic clock stays right")
        case PowerLoss():
            return Can(_CUT_BACK)
        case DirUnreadable():
            return Can("chmod 000; where brokers run as root, without the capabilities that let root bypass permissions")
        case DirFile():
            return Can("the directory is moved aside, or removed, and a file made in its place")
        case DiskFull():
            return Can("a ballast file fills the small tmpfs in which the directory lies; refused where it is not root's")
        case DiskSwap():
            return Can("SIGKILL, and an empty directory in the place of the old one")
        case DirFailure(append="produce" | "fetch"):
            return Cannot(OUTSIDE)
        case DirFailure() | DiskSlow():
            return Can("the broker's disk layer is told to fail, or to wait")
        case _:
            assert_never(fault)


def _ability_of_containers(fault: AnyFault) -> Ability:
    """How containers perform this fault, or why they cannot."""
    match fault:
        case Packets() | Slow() | Clog() | Reset() if picks_messages(fault):
            return Cannot(_PEERS_ONLY)
        case Packets(duplicate_per_mille=0, reorder_per_mille=0):
            return Can(f"packets dropped by iptables, at random; {_NO_PACKETS}")
        case Packets():
            return Cannot(_TCP_HIDES)
        case Clog(kinds=kinds) if kinds:
            return Can("a TCP proxy in the broker's network parses messages between brokers and holds those of these kinds back")
        case Partition():
            return Can("packets between the two sides dropped by iptables")
        case Slow():
            return Can("packets are queued to a process in the broker's network (NFQUEUE) and let go later, in their order")
        case Clog():
            return Can("packets dropped by iptables; TCP repeats them when the window ends")
        case Reset():
            return Can("ss -K in the broker's network: the kernel resets its connections")
        case ClockJump() | ClockStrobe():
            return Can("libfaketime in the broker's process, for its wall clock")
        case ClockDrift():
            return Can("libfaketime, an offset of the wall clock that grows; the monotonic clock stays right")
        case Pause():
            return Can("the container's cgroup is frozen")
        case Shutdown(protocol="legacy" | "kip343"):
            return Cannot(ONE_PROTOCOL)
        case Shutdown():
            return Can("SIGTERM to the container's process, SIGKILL at the end of the window, then a start")
        case Roll():
            return Can("SIGTERM to the container's process, SIGKILL at the end of the window, then a start as the other version")
        case Join():
            return Can(_STARTS_LATE)
        case Decommission():
            return Can(_LEAVES)
        case CrashAt() | AnswerLost() | AnswerLate() | DeposedAt():
            return Cannot(OUTSIDE)
        case Crash() | Restart():
            return Can("SIGKILL of the container's process, then a start")
        case PowerLoss():
            return Can(_CUT_BACK)
        case ZooKeeperDown(how="leave" | "roll"):
            return Cannot(_FIXED)
        case ZooKeeperDown():
            return Can("SIGKILL and a start, a frozen cgroup, or all links of the server cut")
        case ZooKeeperLinks(how="cut"):
            return Can("packets between the servers dropped by iptables")
        case ZooKeeperLinks():
            return Can("packets between the servers are queued to a process (NFQUEUE) and let go later, in their order")
        case ExpireSession():
            return Can(_TAKEN_OVER)
        case DirUnreadable():
            return Can("chmod 000; brokers do not run as root")
        case DirFile():
            return Can("the directory is moved aside, or removed, and a file made in its place")
        case DirFailure(append="produce" | "fetch"):
            return Cannot(OUTSIDE)
        case DirFailure() | DiskSlow():
            return Can("the broker's disk layer is told to fail, or to wait")
        case DiskFull():
            return Can("a ballast file fills the small tmpfs in which the directory lies; refused where it is not root's")
        case DiskSwap():
            return Can("SIGKILL, and an empty directory in the place of the old one")
        case _:
            assert_never(fault)
