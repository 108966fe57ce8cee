"""What is wrong with the parameters of a fault, whatever backend performs it."""

from collections.abc import Iterator

from msgspec import UNSET

from nemesis.faults import (
    DRIFT_PPM_MAX,
    AnswerLate,
    AnswerLost,
    AnyFault,
    ClockStrobe,
    Clog,
    CrashAt,
    DeposedAt,
    DirFailure,
    DiskFault,
    DiskSlow,
    LinkFault,
    Packets,
    Partition,
    Reset,
    Roll,
    Slow,
    ZooKeeperFault,
    ZooKeeperLinks,
    drift_ppm,
    kinds_of,
    picks_messages,
)


def complaints(fault: AnyFault, *, brokers: int, log_dirs: int, servers: int) -> Iterator[str]:
    """What is wrong with the parameters of a fault, in a cluster of so many brokers, log directories and ZooKeeper servers."""
    if isinstance(fault, DiskFault) and not 0 <= fault.dir < log_dirs:
        yield f"there is no log directory {fault.dir}: each broker has {log_dirs}, numbered from 0"
    if isinstance(fault, Packets):
        shares = (fault.drop_per_mille, fault.duplicate_per_mille, fault.reorder_per_mille)
        if not all(0 <= share <= 1000 for share in shares):
            yield f"per_mille must be from 0 to 1000, not {', '.join(map(str, shares))}"
        if fault.copy_late_ms_max < 1:
            yield f"copy_late_ms_max must be at least 1, not {fault.copy_late_ms_max}"
    if isinstance(fault, ZooKeeperFault) and fault.servers < 1:
        yield f"servers must be at least 1, not {fault.servers}"
    if isinstance(fault, ZooKeeperLinks) and servers < 2:
        yield "there are no links between ZooKeeper servers: the cluster has one (cluster.zookeeper)"
    if isinstance(fault, Partition) and fault.peer is not None and fault.shape != "isolate":
        yield f"peer restricts the shape isolate alone, not {fault.shape}"
    if isinstance(fault, CrashAt | AnswerLost | AnswerLate | DeposedAt) and fault.nth < 1:
        yield f"nth must be at least 1, not {fault.nth}"
    if isinstance(fault, DirFailure) and fault.nth is not UNSET:
        if fault.append is UNSET:
            yield "nth counts appends: it needs append, which is produce or fetch"
        if fault.nth < 1:
            yield f"nth must be at least 1, not {fault.nth}"
    if isinstance(fault, Roll):
        if fault.to and fault.back:
            yield f"a roll leads to {fault.to!r} or back, not both"
        if fault.finalize and fault.back:
            yield "a roll back makes no upgrade final"
    yield from _picking_complaints(fault)
    if isinstance(fault, Reset | ClockStrobe) and fault.period_ms < 1 and not (picks_messages(fault) and fault.period_ms == 0):
        yield f"period_ms must be at least 1, not {fault.period_ms}"
    if isinstance(fault, Slow | DiskSlow | ZooKeeperLinks) and fault.extra_ms < 0:
        yield f"extra_ms must be at least 0, not {fault.extra_ms}"
    if drift_ppm(fault) > DRIFT_PPM_MAX:
        yield f"ppm must be at most {DRIFT_PPM_MAX}, not {drift_ppm(fault)}"
    if isinstance(fault, Partition | Slow | Clog | Reset) and not fault.links:
        yield "links must name at least one of peers, zookeeper, clients"
    if isinstance(fault, LinkFault) and fault.peer is not None and not 1 <= fault.peer <= brokers:
        yield f"there is no broker {fault.peer}, only 1 to {brokers}"


def _picking_complaints(fault: AnyFault) -> Iterator[str]:
    """What is wrong with how a fault picks messages."""
    if not isinstance(fault, Slow | Clog | Reset):
        return
    chance = fault.chance_per_mille
    if chance is not UNSET and not 1 <= chance <= 1000:
        yield f"chance_per_mille must be from 1 to 1000, not {chance}"
    if isinstance(fault, Reset) and not picks_messages(fault) and fault.direction is not UNSET:
        yield "a reset breaks a connection in both directions: only one at messages (kinds) has a direction"
    if isinstance(fault, Reset) and picks_messages(fault):
        if not kinds_of(fault):
            yield "a reset at messages must name their kinds"
        if fault.period_ms:
            yield f"a reset at messages has no period: period_ms must be 0, not {fault.period_ms}"
