"""The version order of a partition around offsets at which clients and disks saw more than one value (Jepsen's version orders).

An offset may rightly have several values: one for each generation of the log between excused losses (docs/promise.md CUT-1), and
any that were acknowledged under acks=1.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from history.event import ClusterEvent, EventKind
from reports.delivery import DeliveryTrack, natural

AROUND = 2  # offsets shown on each side of one with several values
ROWS_MAX = 12
VALUES_MAX = 6  # of one offset
_NAMES_MAX = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A value at an offset, and who says so: acknowledged to a producer, the clients or groups that read it, brokers' disks."""

    value: str
    acknowledged: bool
    readers: tuple[str, ...]
    disks: tuple[str, ...]

    @property
    def words(self) -> str:
        """Who says so: "acknowledged; read by client 4, client 5"."""
        parts = ["acknowledged"] if self.acknowledged else []
        parts += [
            f"{verb} {_listed(names)}" for verb, names in (("read by", self.readers), ("on the disk of", self.disks)) if names
        ]
        return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    left_out = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {left_out} more" if left_out > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """An offset of a partition with all its values, in the order in which they were told."""

    offset: int
    versions: tuple[Version, ...]
    left_out: int = 0  # values beyond the bound

    @property
    def differs(self) -> bool:
        """Whether it has more than one value."""
        return len(self.versions) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOrder:
    """Offsets of a partition with more than one value, with their neighbours; `left_out` counts such offsets beyond the bound."""

    key: str
    rows: tuple[VersionRow, ...]
    left_out: int


def version_orders_of(tracks: Sequence[DeliveryTrack], events: Iterable[ClusterEvent]) -> tuple[VersionOrder, ...]:
    """The version orders of the partitions that have an offset with more than one value."""
    on_disk: defaultdict[str, list[ClusterEvent]] = defaultdict(list)
    for event in events:
        if event.kind is EventKind.RECORD_ON_DISK:
            on_disk[f"{event.topic}-{event.partition}"].append(event)
    # A disk tells no topic id: where a name has several, its records may be of another topic.
    orders = (_order_of(track, on_disk.get(track.key, [])) for track in tracks)
    return tuple(order for order in orders if order.rows)


def _order_of(track: DeliveryTrack, on_disk: Sequence[ClusterEvent]) -> VersionOrder:
    told: defaultdict[int, dict[str, list[tuple[str, str]]]] = defaultdict(dict)  # offset -> value -> how it is known, of whom
    for offset, value, *how in _told(track, on_disk):
        told[offset].setdefault(value, []).append((how[0], how[1]))
    differing = sorted(offset for offset, values in told.items() if len(values) > 1)
    shown: set[int] = set()
    for offset in differing:
        neighbours = {near for near in range(offset - AROUND, offset + AROUND + 1) if near in told}
        if len(shown | neighbours) > ROWS_MAX:
            break
        shown |= neighbours
    rows = (
        VersionRow(
            offset=offset,
            versions=tuple(_version(value, known) for value, known in list(told[offset].items())[:VALUES_MAX]),
            left_out=max(0, len(told[offset]) - VALUES_MAX),
        )
        for offset in sorted(shown)
    )
    return VersionOrder(key=track.key, rows=tuple(rows), left_out=len({*differing} - shown))


def _version(value: str, known: Sequence[tuple[str, str]]) -> Version:
    of = {
        how: tuple(sorted({who for same, who in known if same == how}, key=natural)) for how in ("acknowledged", "read", "disk")
    }
    return Version(value=value, acknowledged=bool(of["acknowledged"]), readers=of["read"], disks=of["disk"])


def _told(track: DeliveryTrack, on_disk: Sequence[ClusterEvent]) -> Iterator[tuple[int, str, str, str]]:
    """Each offset with a value, how it is known, and of whom."""
    for ack in track.acknowledged:
        if ack.offset is not None:
            yield ack.offset, ack.value, "acknowledged", ""
    for read in track.given:
        yield read.offset, read.value, "read", read.reader
    for event in on_disk:
        if event.offset is not None and event.value is not None:
            yield event.offset, event.value, "disk", event.node or ""
