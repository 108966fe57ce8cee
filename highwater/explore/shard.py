"""One part of a breadth-first search: the states whose fingerprints fall into it, in memory and on disk.

In memory is one fingerprint a state. On disk, in a folder of its own, are

* `states`: the packed states in the order of their discovery, with the parts of states in the numbering of the folder (`parts`);
* `origins`: for each state its fingerprint, the state it was first reached from, and as which of its successors.

So expanded levels take no memory, a path is read back from the origins, and a search can be resumed. A shard expands the states
of its level in their order; successors that belong to another shard are collected in an outbox for it.
"""

from array import array
from collections.abc import Callable
from pathlib import Path
from struct import Struct as Layout
from typing import BinaryIO, Generic
from zlib import crc32

import msgspec
from msgspec import Struct

from highwater.explore.strategy import Judge, resident_mib
from highwater.explore.world import Action, Parts, State, World

ROOT = (1 << 64) - 1  # in place of the number of the state before the initial state
_PLACE_BITS = 8  # of the number of a state in the whole search: place of its shard, then number in the shard
SHARDS_MAX = 1 << _PLACE_BITS
PARTS_MAX = 150_000  # with all that is remembered about them about 0.9 GB; then those that no stored state needs are forgotten
_FORGOTTEN = -1
_ORIGIN = Layout("=16sQI")
_LENGTH = Layout("=I")
_BUFFER = 1 << 20


class Found(Struct, frozen=True):
    """A property that state `number` of the search is the first to break."""

    name: str
    wrong: str
    number: int


class Mark(Struct, kw_only=True):
    """Where a shard is, as a checkpoint stores it."""

    states: int = 0  # known
    expanded: int = 0
    level_end: int = 0  # the states of the present level are those before it
    state_bytes: int = 0  # length of the file `states`
    part_bytes: int = 0  # length of the file `parts`
    transitions: int = 0
    beyond: int = 0


class Report(Struct, kw_only=True):
    """What a shard tells after it has worked: its totals, what it found in this work, and what it has for the other shards."""

    states: int
    transitions: int
    beyond: int
    left: int  # states of the level that are not expanded
    following: int  # states of the next level
    memory_mib: int
    found: list[Found]
    reached: list[str]
    outboxes: list[bytes]  # one for each shard


class Translation:
    """Converts packed states between the numbering of this process and that of a file or of another process."""

    def __init__(self, parts: Parts | None) -> None:
        self._parts = parts
        self._outward: dict[int, int] = {}
        self._inward: list[int] = []

    def to_theirs(self, packed: bytes) -> tuple[bytes, bytes]:
        """A packed state in the others' numbering, and the parts that they must admit before they can read it; empty if none."""
        if self._parts is None:
            return packed, b""
        outward = self._outward
        numbers = array("I", packed)
        try:
            return array("I", [outward[number] for number in numbers]).tobytes(), b""
        except KeyError:
            fresh = [number for number in dict.fromkeys(numbers) if number not in outward]
            for number in fresh:
                outward[number] = len(self._inward)
                self._inward.append(number)
            return array("I", [outward[number] for number in numbers]).tobytes(), self._parts.export(fresh)

    def admit(self, exported: bytes) -> None:
        """Give numbers of this process to parts of the others."""
        assert self._parts is not None
        self._inward += self._parts.admit_parts(exported)

    def to_ours(self, packed: bytes) -> bytes:
        """A packed state of the others in the numbering of this process."""
        if self._parts is None:
            return packed
        inward = self._inward
        return array("I", [inward[number] for number in array("I", packed)]).tobytes()

    def numbers(self) -> list[int]:
        """The numbers of this process that stand for the others' numbers, in their order."""
        return self._inward

    def renumber(self, parts: Parts, new: dict[int, int]) -> None:
        """Follow a new numbering in this process; parts that are not in it are forgotten, and their numbers not used again."""
        self._parts = parts
        self._inward = [new.get(number, _FORGOTTEN) for number in self._inward]
        self._outward = {new[own]: number for own, number in self._outward.items() if own in new}

    def continue_numbering(self) -> None:
        """Use the numbering of the admitted parts outwards too, as when a file is continued."""
        self._outward = {own: number for number, own in enumerate(self._inward)}


class Shard(Generic[State, Action]):
    """The part of a breadth-first search at this place among so many shards, in a folder of its own."""

    def __init__(
        self,
        build: Callable[[], World[State, Action]],
        properties: tuple[str, ...],
        folder: Path,
        *,
        place: int = 0,
        shards: int = 1,
        stop: bool = True,
    ) -> None:
        """`properties`: names. `stop`: work ends as soon as a property is broken."""
        self._build = build
        self._world = world = build()
        self._judge = Judge(tuple(p for p in world.properties if p.name in properties), world.goals)
        self._folder = folder
        self._place = place
        self._shards = shards
        self._stop = stop
        self._parts_max = PARTS_MAX
        self._states_seen: set[bytes] = set()
        self._mark = Mark()
        self._findings: list[Found] = []
        self._disk = Translation(world.parts)
        self._out = [Translation(world.parts) for _ in range(shards)]
        self._in = [Translation(world.parts) for _ in range(shards)]
        self._outboxes = [bytearray() for _ in range(shards)]
        self._sent: set[bytes] = set()  # to other shards in this level
        folder.mkdir(parents=True, exist_ok=True)
        self._states, self._origins, self._parts = (
            (folder / name).open("ab", buffering=_BUFFER) for name in ("states", "origins", "parts")
        )
        self._reader: BinaryIO = (folder / "states").open("rb", buffering=_BUFFER)

    # --- work -------------------------------------------------------------------------------------------------------------------

    def begin(self) -> Report:
        """Take in the initial state if it belongs to this shard."""
        initial = self._world.initial()
        if self._place == self._owner(self._world.fingerprint(initial)):
            self._store(initial, self._world.fingerprint(initial), ROOT, 0)
        self._mark.level_end = self._mark.states
        self._flush()
        return self._report()

    def work(self, count: int, inboxes: list[bytes]) -> Report:
        """Take in the states that other shards found (one inbox of each), and expand so many states of the level.

        With `stop` it ends as soon as a property is broken.
        """
        for sender, inbox in enumerate(inboxes):
            self._receive(sender, inbox)
        mark = self._mark
        parts = self._world.parts
        if parts is not None and len(parts) > self._parts_max:
            self._renew_world()
        for _ in range(min(count, mark.level_end - mark.expanded)):
            if self._findings and self._stop:
                break
            self._expand(self._world.unpack(self._disk.to_ours(self._read_next())), mark.expanded << _PLACE_BITS | self._place)
            mark.expanded += 1
        return self._report()

    def advance(self) -> Report:
        """Begin the next level."""
        assert self._mark.expanded == self._mark.level_end
        self._flush()
        self._mark.level_end = self._mark.states
        self._sent.clear()
        return self._report()

    def origin(self, number: int) -> tuple[int, int]:
        """The state from which a state of this shard was first reached, or ROOT, and as which of its successors."""
        self._flush()
        with (self._folder / "origins").open("rb") as file:
            file.seek((number >> _PLACE_BITS) * _ORIGIN.size)
            _, parent, nth = _ORIGIN.unpack(file.read(_ORIGIN.size))
        return parent, nth

    def _expand(self, state: State, parent: int) -> None:
        """Add the successors that fall into this shard; send the others to their owners."""
        world = self._world
        seen = self._states_seen
        alone = self._shards == 1
        for nth, (_, after) in enumerate(world.successors(state)):
            self._mark.transitions += 1
            fingerprint = world.fingerprint(after)
            if fingerprint in seen or fingerprint in self._sent:
                continue
            if not world.within(after):
                self._mark.beyond += 1
            elif alone or self._owner(fingerprint) == self._place:
                self._store(after, fingerprint, parent, nth)
                if self._findings and self._stop:
                    return
            else:
                self._queue_for_owner(after, fingerprint, parent, nth)

    def _store(self, state: State, fingerprint: bytes, parent: int, nth: int) -> None:
        """Enter a new state: its fingerprint, how it was reached, and the state itself, on disk."""
        mark = self._mark
        self._states_seen.add(fingerprint)
        self._origins.write(_ORIGIN.pack(fingerprint, parent, nth))
        packed, parts = self._disk.to_theirs(self._world.pack(state))
        if parts:
            mark.part_bytes += self._parts.write(_LENGTH.pack(len(parts)) + parts)
        mark.state_bytes += self._states.write(_LENGTH.pack(len(packed)) + packed)
        number = mark.states << _PLACE_BITS | self._place
        mark.states += 1
        self._findings += [Found(name, wrong, number) for name, wrong in self._judge.newly_broken(state)]

    def _read_next(self) -> bytes:
        """The next packed state of the level, in the numbering of the folder."""
        (length,) = _LENGTH.unpack(self._reader.read(_LENGTH.size))
        return self._reader.read(length)

    def _flush(self) -> None:
        """What was written becomes readable."""
        for file in (self._states, self._origins, self._parts):
            file.flush()

    def _report(self) -> Report:
        """What happened since the last report."""
        mark = self._mark
        findings, self._findings = self._findings, []
        outboxes = [bytes(outbox) for outbox in self._outboxes]
        for outbox in self._outboxes:
            outbox.clear()
        return Report(
            states=mark.states,
            transitions=mark.transitions,
            beyond=mark.beyond,
            left=mark.level_end - mark.expanded,
            following=mark.states - mark.level_end,
            memory_mib=resident_mib(),
            found=findings,
            reached=list(self._judge.reached),
            outboxes=outboxes,
        )

    def _renew_world(self) -> None:
        """Continue in a new world that knows only the parts of stored states, so that memory does not grow with all others."""
        old, self._world = self._world.parts, self._build()
        fresh = self._world.parts
        assert old is not None
        assert fresh is not None
        numbers_kept = list(
            dict.fromkeys(number for partition_of_numbers in (self._disk, *self._in) for number in partition_of_numbers.numbers())
        )
        new = dict(zip(numbers_kept, fresh.admit_parts(old.export(numbers_kept)), strict=True))
        for translation in (self._disk, *self._in, *self._out):
            translation.renumber(fresh, new)
        self._judge.move_to_world(self._world.properties, self._world.goals)
        self._parts_max = max(PARTS_MAX, 2 * len(fresh))

    # --- other shards -----------------------------------------------------------------------------------------------------------

    def _owner(self, fingerprint: bytes) -> int:
        return crc32(fingerprint) % self._shards

    def _queue_for_owner(self, state: State, fingerprint: bytes, parent: int, nth: int) -> None:
        """Put a state into the outbox of the shard that owns it."""
        self._sent.add(fingerprint)
        owner = self._owner(fingerprint)
        packed, parts = self._out[owner].to_theirs(self._world.pack(state))
        self._outboxes[owner] += _LENGTH.pack(len(parts)) + parts
        self._outboxes[owner] += _ORIGIN.pack(fingerprint, parent, nth) + _LENGTH.pack(len(packed)) + packed

    def _receive(self, sender: int, inbox: bytes) -> None:
        """Add the states that another shard sent."""
        at = 0
        translation = self._in[sender]
        while at < len(inbox):
            parts, at = _read_field(inbox, at)
            if parts:
                translation.admit(parts)
            fingerprint, parent, nth = _ORIGIN.unpack_from(inbox, at)
            packed, at = _read_field(inbox, at + _ORIGIN.size)
            if fingerprint not in self._states_seen:
                self._store(self._world.unpack(translation.to_ours(packed)), fingerprint, parent, nth)

    # --- checkpoints ------------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> Mark:
        """Write everything to disk; the mark from which the shard can be resumed."""
        self._flush()
        return msgspec.structs.replace(self._mark)

    def resume(self, mark: Mark, reached: tuple[str, ...], broken: tuple[str, ...]) -> Report:
        """Continue from a checkpoint's mark; later writes are dropped. ValueError if the files are shorter than the mark says."""
        self._mark = mark
        self._judge.look_no_longer_for(reached, broken)
        sizes = (mark.state_bytes, mark.states * _ORIGIN.size, mark.part_bytes)
        for file, size in zip((self._states, self._origins, self._parts), sizes, strict=True):
            if file.tell() < size:
                raise ValueError(f"{file.name} has {file.tell()} bytes, expected {size}")
            file.truncate(size)
        with (self._folder / "parts").open("rb") as parts:
            while header := parts.read(_LENGTH.size):
                self._disk.admit(parts.read(_LENGTH.unpack(header)[0]))
        self._disk.continue_numbering()
        with (self._folder / "origins").open("rb", buffering=_BUFFER) as origins:
            for _ in range(mark.states):
                self._states_seen.add(_ORIGIN.unpack(origins.read(_ORIGIN.size))[0])
        for _ in range(mark.expanded):
            self._read_next()
        return self._report()

    def close(self) -> None:
        """Close the files."""
        for file in (self._states, self._origins, self._parts, self._reader):
            file.close()


def _read_field(inbox: bytes, at: int) -> tuple[bytes, int]:
    """A field with its length before it, and where it ends."""
    (length,) = _LENGTH.unpack_from(inbox, at)
    start = at + _LENGTH.size
    return inbox[start : start + length], start + length
