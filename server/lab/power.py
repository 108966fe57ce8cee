"""Simulates a power loss on real disks: unsynced changes of the files are undone, all or a random part of them.

The changes to a segment since its last successful fsync are undone from the last one backwards, as far as the seed draws: appends
are cut off at a batch (or at any byte, if writes are torn), truncations are undone with the bytes that they cut off. The disk of
the simulator does the same (`sim.disk`). A folder whose new name was not durable may get its old name back. No process may use
the directories meanwhile, above all not the node that keeps the ledger.

`python -m server.lab.power --ledger FILE --dir DIR … --seed N [--torn] [--all] [--only I …]` does this and prints the wounds
as JSON lines.
"""

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reference.types import Offset, TopicId, TopicPartition
from server.disk.checkpoints import metadata_of
from server.disk.log_dirs import replica_folders
from server.disk.segments import headers_in
from server.lab.flush_ledger import Cut, FlushLedger, Made, Renamed, Settled, Synced, bytes_file, read_ledger
from server.wire.records import RecordsError, check, read_header

_METADATA = "partition.metadata"


class Wound(Struct, frozen=True, kw_only=True):
    """A log that lost records in a power loss: `offset` is the first whose record is gone or changed."""

    dir: int
    tp: TopicPartition
    topic_id: TopicId
    offset: Offset


class Loss(Struct, frozen=True, kw_only=True):
    """What a power loss may drop: `seed` draws it, `torn` also cuts inside batches, `lose_all` undoes every unsynced change."""

    seed: int
    torn: bool = False
    lose_all: bool = False


class Layout(Struct, frozen=True, kw_only=True):
    """How the logs in a log directory are read; other systems under test have layouts of their own."""

    replicas: Callable[[Path], Sequence[Path]]  # the folders of replicas in a log directory
    batches: Callable[[Path], list[tuple[int, bytes]]]  # of a replica, in order: first offset, and bytes that tell batches apart
    ends: Callable[[bytes], list[int]]  # the positions in a segment at which a power loss may cut: 0 and the end of each batch
    topic_id: Callable[[Path], TopicId]  # of a replica


class _File(Struct):
    # What the ledger says of one segment: its first `durable` bytes were synced, then `cuts` followed.

    durable: int = 0
    cuts: list[Cut] = []
    made: int = 0  # truncations before `cuts`, which are durable


class _Book(Struct):
    # The current state of all entries of a ledger.

    files: dict[tuple[int, str], _File] = {}
    renames: list[Renamed] = []


def lose_power(
    ledger: Path, dirs: Sequence[Path], only: Sequence[int], loss: Loss, *, layout: Layout | None = None
) -> list[Wound]:
    """Undo unsynced changes in the log directories numbered `only`, as a power loss does; note that the rest is durable."""
    layout = _own_layout() if layout is None else layout
    book = _book_of_ledger(ledger)
    chance = random.Random(loss.seed)
    wounds: list[Wound] = []
    keeper = FlushLedger(ledger)
    try:
        for dir_ in sorted(only):
            if not dirs[dir_].is_dir():
                continue
            before = _logs(dirs[dir_], layout)
            for rename in book.renames:
                if rename.dir == dir_:
                    _undo_rename(dirs[dir_], rename, chance, lose_all=loss.lose_all)
            for folder in layout.replicas(dirs[dir_]):
                for path in sorted(folder.glob("*.log")):
                    name = f"{folder.name}/{path.name}"
                    booked = book.files.get((dir_, name))
                    if booked is not None:
                        _cut_back(path, booked, bytes_file(ledger), chance, loss, frame_ends=layout.ends)
                    keeper.created(dir_, name)
                    keeper.synced(dir_, name, length=path.stat().st_size, cuts=0)
            keeper.settled(dir_)
            wounds += _wounds_of_dir(dir_, dirs[dir_], before, layout)
    finally:
        keeper.close()
    return wounds


def _book_of_ledger(ledger: Path) -> _Book:
    """Per file what is durable and what truncations could undo, from the flush ledger; and the renames that were not settled."""
    book = _Book()
    for entry in read_ledger(ledger):
        match entry:
            case Made():
                book.files[entry.dir, entry.file] = _File()
            case Synced():
                file = book.files.setdefault((entry.dir, entry.file), _File())
                # A flush that began before a truncation made the bytes before that truncation durable.
                del file.cuts[: entry.cuts - file.made]
                file.made = max(file.made, entry.cuts)
                file.durable = entry.length
            case Cut():
                book.files.setdefault((entry.dir, entry.file), _File(durable=entry.length + entry.size)).cuts.append(entry)
            case Renamed():
                book.renames.append(entry)
            case Settled():
                book.renames = [rename for rename in book.renames if rename.dir != entry.dir]
    return book


def _undo_rename(path: Path, rename: Renamed, chance: random.Random, *, lose_all: bool) -> None:
    """Give a renamed folder its old name again: always with `lose_all`, else in one draw of two."""
    before, after = path / rename.before, path / rename.after
    if after.is_dir() and not before.exists() and (lose_all or chance.randrange(2)):
        after.rename(before)


def _cut_back(
    path: Path, known_file: _File, cut_bytes: Path, chance: random.Random, loss: Loss, *, frame_ends: Callable[[bytes], list[int]]
) -> None:
    """Undo the last changes of a segment since its last fsync, as many as `chance` draws."""
    survive = 0 if loss.lose_all else chance.randrange(len(known_file.cuts) + 1)
    undone = known_file.cuts[survive:]
    data = path.read_bytes()
    for cut in reversed(undone):
        data = data[: cut.length] + _bytes_at(cut_bytes, cut)
    floor = min(known_file.cuts[survive - 1].length if survive else known_file.durable, len(data))
    if loss.lose_all:
        length = floor
    elif loss.torn and chance.randrange(2):
        length = chance.randint(floor, len(data))
    else:
        length = chance.choice([end for end in (*frame_ends(data), len(data)) if end >= floor])
    if undone:
        path.write_bytes(data[:length])
    else:
        with path.open("r+b") as file:
            file.truncate(length)


def _bytes_at(path: Path, cut: Cut) -> bytes:
    """The bytes that a truncation would remove."""
    with path.open("rb") as file:
        file.seek(cut.at)
        return file.read(cut.size)


def _cut_positions(data: bytes) -> list[int]:
    """The positions in a segment file at which a power loss may cut: 0 and the end of each batch."""
    positions = [0]
    while positions[-1] < len(data):
        try:
            _, end = check(data, positions[-1])
        except RecordsError:
            break
        positions.append(end)
    return positions


# --- wounds ---------------------------------------------------------------------------------------------------------------


def _own_layout() -> Layout:
    """The layout of the reference's logs."""
    return Layout(
        replicas=replica_folders,
        batches=lambda folder: [(read_header(header).base_offset, header) for header in headers_in(folder)],
        ends=_cut_positions,
        topic_id=lambda folder: metadata_of((folder / _METADATA).read_text()).topic_id,
    )


def _logs(path: Path, layout: Layout) -> dict[str, list[tuple[int, bytes]]]:
    return {folder.name: layout.batches(folder) for folder in layout.replicas(path)}


def _wounds_of_dir(dir_: int, path: Path, before: dict[str, list[tuple[int, bytes]]], layout: Layout) -> list[Wound]:
    """For each log that lost bytes: the first offset at which it differs from what it was before."""
    wounds = []
    for name, old in before.items():
        offset = _first_difference(old, layout.batches(path / name))
        if offset is not None:
            wounds.append(Wound(dir=dir_, tp=TopicPartition(name), topic_id=layout.topic_id(path / name), offset=Offset(offset)))
    return wounds


def _first_difference(before: list[tuple[int, bytes]], after: list[tuple[int, bytes]]) -> int | None:
    """The first offset whose record is missing or different in `after`; None if none is."""
    for old, new in zip(before, after, strict=False):
        if old != new:
            return old[0]
    return None if len(after) >= len(before) else before[len(after)][0]


# --- command line -----------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate a power loss and print which logs lost records. Exit code 2 if the flush ledger or a directory is missing."""
    parser = argparse.ArgumentParser(prog="python -m server.lab.power", description="Simulate a power loss on log directories.")
    parser.add_argument("--ledger", required=True, type=Path, metavar="FILE")
    parser.add_argument("--dir", required=True, type=Path, action="append", metavar="DIR", help="log directories, in order")
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--torn", action="store_true", help="also cut inside batches")
    parser.add_argument("--all", action="store_true", help="undo everything that was not synced")
    parser.add_argument("--only", type=int, action="append", metavar="I", help="number of a directory, from 0 (default: all)")
    options = parser.parse_args(arguments)
    only = range(len(options.dir)) if options.only is None else options.only
    if not set(only) <= set(range(len(options.dir))):
        sys.stderr.write(f"--only must be from 0 to {len(options.dir) - 1}, the directories given\n")
        return 2
    try:
        wounds = lose_power(options.ledger, options.dir, only, Loss(seed=options.seed, torn=options.torn, lose_all=options.all))
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        sys.stderr.write(f"{options.ledger}: {error}\n")
        return 2
    for wound in wounds:
        sys.stdout.write(msgspec.json.encode(wound).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
