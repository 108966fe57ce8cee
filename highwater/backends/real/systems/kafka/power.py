"""Power loss of a JVM broker: what it did not flush is undone, as for the reference (`server.lab.power`).

A library is loaded into the JVM (`flushes.c`) and records each flush, truncation and renaming of log segments. The record
outlives a kill. When the power is lost, it becomes a part of the flush ledger, and the ledger says what may be undone.

Only segments are undone. Kafka flushes its checkpoints before it puts them in place, and rebuilds its indexes after an unclean
end. A renamed folder, and the name of a new or removed segment, count as durable at once: a little milder than a real power loss.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path

import msgspec

from highwater.backends.real.systems.kafka import segments
from highwater.errors import HarnessError
from nemesis.targets import INTERNAL
from reference.types import NO_TOPIC_ID
from server.lab.flush_ledger import Cut, FlushLedger, Made, Synced, bytes_file, read_ledger
from server.lab.power import Layout, Loss, Wound, lose_power

_SOURCE = "flushes.c"
_NUMBERS = {"B": 0, "S": 2, "T": 4, "N": 1}  # blanks before the path in each kind of line, which ends a line
_encode = msgspec.msgpack.Encoder().encode


def missing() -> str | None:
    """What this machine lacks to record what a JVM flushes, in a sentence; None if nothing."""
    if _compiler() is None:
        return (
            "a power loss needs a C compiler, and there is no cc or gcc on the PATH (Debian, Ubuntu: apt install gcc libc6-dev)"
        )
    return None


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


class FlushRecord:
    """The record of what the processes of one broker flushed, in the broker's folder, below which its log directories are."""

    def __init__(self, folder: Path, log_dirs: Sequence[Path]) -> None:
        self._folder = folder
        self._log_dirs = tuple(log_dirs)
        self._library = folder / "flushes.so"
        self._record = folder / "flushes"
        self._ledger = folder / "power-ledger"

    def environment(self) -> Mapping[str, str]:
        """The variables under which a JVM keeps the record. HarnessError if the library cannot be compiled."""
        if not self._library.exists():
            self._compile()
        return {
            "LD_PRELOAD": str(self._library),
            "HIGHWATER_FLUSHES": str(self._record),
            "HIGHWATER_FLUSHES_BELOW": str(self._folder.resolve()),
        }

    def _compile(self) -> None:
        """Compile the library that records the broker's writes and flushes."""
        compiler = _compiler()
        assert compiler is not None, "a plan with power loss is refused before the run"
        with as_file(files(__package__).joinpath(_SOURCE)) as source:
            command = (compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(source), "-ldl", "-pthread")
            completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode:
            first_error = (completed.stderr.strip().splitlines() or ["it printed nothing"])[0]
            raise HarnessError(f"compiling {_SOURCE}: {first_error}")

    def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Undo unflushed changes in these log directories; returns what topics of the workload lost. No process may run."""
        self._move_record_to_ledger()
        destroyed = lose_power(self._ledger, self._log_dirs, dirs, how, layout=_LAYOUT)
        return tuple(wound for wound in destroyed if not wound.tp.startswith(INTERNAL))

    def _move_record_to_ledger(self) -> None:
        """Append the record to the flush ledger and remove it. HarnessError if no process of the broker kept one."""
        if not self._record.exists():
            if self._ledger.exists():
                return  # no process ran since the last power loss
            raise HarnessError(f"nothing in {self._folder.name} recorded what its JVM flushed: was {_SOURCE} loaded?")
        complete_lines, _, _ = self._record.read_text().rpartition("\n")
        recorded = {(entry.dir, entry.file) for entry in read_ledger(self._ledger) if isinstance(entry, Made | Synced | Cut)}
        ledger = FlushLedger(self._ledger)
        try:
            for line in complete_lines.splitlines():
                kind, *numbers = line.split(" ", _NUMBERS[line[0]])
                for place in self._segments_at(numbers[-1]) if numbers else ():
                    if place not in recorded:
                        ledger.created(*place)  # nothing of a new segment is durable
                        recorded.add(place)
                    self._enter_line(ledger, place, kind, [int(number) for number in numbers[:-1]])
            for place in self._all_segments():
                if place not in recorded:
                    ledger.created(*place)
        finally:
            ledger.close()
        self._record.unlink()
        bytes_file(self._record).unlink()

    def _enter_line(self, ledger: FlushLedger, place: tuple[int, str], kind: str, numbers: list[int]) -> None:
        """Enter one line of the recorder into the flush ledger."""
        match kind, numbers:
            case "S", [length]:
                ledger.synced(*place, length=length, cuts=ledger.cuts_of(*place))
            case "T", [length, size, at]:
                ledger.cut(*place, length=length, lost=lambda: self._bytes_cut(at, size))
            case "N", []:
                ledger.created(*place)
            case _:
                raise HarnessError(f"{self._record}: unknown line {kind} {numbers}")

    def _segments_at(self, path: str) -> list[tuple[int, str]]:
        """The segments of which a line tells: log directory and name. Of a folder these are all in it; of other files none."""
        for dir_, log_dir in enumerate(self._log_dirs):
            # A fault may have moved the directory aside, to another name in the same folder.
            around = log_dir.parent.resolve()
            if Path(path).is_relative_to(around):
                name = "/".join(Path(path).relative_to(around).parts[1:])
                if name.endswith(segments.SUFFIX):
                    return [(dir_, name)]
                return [(at, file) for at, file in self._all_segments() if at == dir_ and file.startswith(f"{name}/")]
        return []

    def _bytes_cut(self, at: int, size: int) -> bytes:
        with bytes_file(self._record).open("rb") as file:
            file.seek(at)
            return file.read(size)

    def _all_segments(self) -> list[tuple[int, str]]:
        """All segments there are now: directory and name."""
        return [
            (dir_, f"{folder.name}/{path.name}")
            for dir_, log_dir in enumerate(self._log_dirs)
            if log_dir.is_dir()
            for folder in _replicas(log_dir)
            for path in segments.segments_of(folder)
        ]


def _replicas(log_dir: Path) -> list[Path]:
    return [folder for internal in (False, True) for folder in segments.replica_folders(log_dir, internal=internal)]


def _ends_of_batches(data: bytes) -> list[int]:
    """Where the whole batches of a segment end, in bytes, after 0."""
    batch_ends = [0]
    for frame in segments.frames(data):
        batch_ends.append(batch_ends[-1] + len(frame))
    return batch_ends


_LAYOUT = Layout(
    replicas=_replicas,
    batches=lambda folder: [(batch.base_offset, _encode(batch)) for batch in segments.batches(folder)],
    ends=_ends_of_batches,
    topic_id=lambda folder: NO_TOPIC_ID,
)
