"""The folder of one broker: its settings, reports to the harness, output and log directories."""

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from highwater.backends.real.batches import opened_dirs
from highwater.backends.real.means import Means
from highwater.backends.real.node.clocks import FakeClock
from highwater.backends.real.node.directories import LogDirs
from highwater.backends.real.site import ClockCondition, DirCondition, Probe, Proof
from highwater.errors import HarnessError
from history.event import EventKind
from nemesis.faults import Roll
from reference.config import BrokerConfig
from reference.events import DirImage
from reference.types import TopicPartition, broker_address
from server.disk.log_dirs import replica_folders
from server.lab.dir_faults import SOUND, Counts, DirFault
from server.lab.notes import NoteLine, NotesReader
from server.lab.power import Loss, Wound, lose_power
from server.lab.side_channel import Ask, Evidence, Look, Refused, SetDir, ask
from server.runtime.settings import Listener, NodeSettings

LOOK_S = 0.02
MET_LOOKS_MAX = 150
LISTENS_S_MAX = 60.0  # from the start of a process to its side channel, on a busy machine
_BROKEN = str(OSError(errno.EIO, os.strerror(errno.EIO)))  # the detail of a broker's note about a broken directory
ANSWER_S_MAX = 1.0  # a paused process does not answer at all


class Start(Struct, frozen=True, kw_only=True):
    """How one broker is started. `zookeeper` is "host:port,…"; `peers` and `clients` (one for each place) are its listeners.

    `metrics` is the "host:port" that answers scrapes.

    `needs` is what the faults of the plan need. Nothing else is prepared: libfaketime makes reading the time slow.
    """

    config: BrokerConfig
    zookeeper: str
    peers: Listener
    clients: tuple[Listener, ...]
    metrics: str
    needs: frozenset[Means] = frozenset()
    user: int | None = None  # the uid to run as, if not the harness's
    rolled: Callable[[Roll, BrokerConfig], BrokerConfig] | None = None  # its settings after a roll; None: it takes none


class NodeFolder:
    """The folder of one broker on the host, whether it runs as a process or in a container.

    The folder lies in the run's folder. Clocks and directories are changed from outside of the process.
    """

    def __init__(self, folder: Path, start: Start) -> None:
        config = start.config
        self.address = broker_address(config.broker)
        self.life = 0
        self.dirs = config.log_dirs
        self._rolled = start.rolled
        self.has_rolled = False
        self._needs = start.needs
        self._folder = folder / self.address
        self._folder.mkdir()
        if start.user is not None:
            os.chown(self._folder, start.user, start.user)
        # Each log directory lies in a folder of its own, so that it can be moved away and put back.
        self.log_dirs = tuple(self._folder / f"data-{index}" / "logs" for index in range(config.log_dirs))
        self._dirs = LogDirs(self.log_dirs, start.user, start.needs)
        self._dirs.make()
        self._dir_faults = [SOUND] * config.log_dirs
        self._clock = FakeClock(self._folder / "wall-clock") if "fake-clock" in start.needs else None
        self._notes = NotesReader(self._folder / "notes.jsonl")
        self._settings = NodeSettings(
            broker=config,
            life=0,
            peers=start.peers,
            clients=start.clients,
            metrics=start.metrics,
            startup_timeout_ms=None,  # a fault may keep ZooKeeper out of reach
            zookeeper=start.zookeeper,
            log_dirs=tuple(map(str, self.log_dirs)),
            notes=str(self._folder / "notes.jsonl"),
            side_channel=str(self._folder / "side-channel"),
            power_ledger=str(self._folder / "power-ledger"),
        )

    def begin_life(self, *, end_with_stdin: bool) -> Path:
        """Count a new process of the broker and write its settings; returns the settings file."""
        self.life += 1
        path = self._folder / "settings.json"
        faults = tuple(self._dir_faults)
        settings = replace(self._settings, life=self.life, end_with_stdin=end_with_stdin, dir_faults=faults)
        path.write_bytes(msgspec.json.encode(settings))
        return path

    def roll(self, roll: Roll) -> None:
        """Start the next process as another release, or with another inter-broker protocol."""
        assert self._rolled is not None
        self.has_rolled = True
        self._settings = replace(self._settings, broker=self._rolled(roll, self._settings.broker))

    async def says_version(self) -> Proof | None:
        """Whether the broker's process says that it is what its settings make it; None if it does not answer."""
        evidence = await self._ask_side_channel(Look())
        if evidence is None:
            return None
        config = self._settings.broker
        is_told = (evidence.release, evidence.protocol) == (config.release, config.inter_broker_protocol)
        return Proof(is_told, f"release {evidence.release} that speaks {evidence.protocol}")

    def release(self) -> None:
        """Unmount everything and restore permissions, so that the broker's files can be deleted. It must be down."""
        if self._clock is not None:
            self._clock.close()
        self._dirs.close()

    # --- clocks ------------------------------------------------------------------------------------------------------------

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Set how wrong the broker's wall clock is. HarnessError if it was started without libfaketime."""
        if self._clock is None:
            raise HarnessError(f"the clock of {self.address} cannot be set: no window of the plan's schedule needs a fake clock")
        return self._clock.set(condition, self.notes)

    # --- log directories ---------------------------------------------------------------------------------------------------

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """Apply or end a log directory's fault: I/O errors and slow flushes within the broker, the rest in the file system."""
        outside = self._dirs.set(dir_, replace(condition, broken=False, flush_ms=0))
        fault = DirFault(broken=condition.broken, flush_ms=condition.flush_ms)
        if fault == self._dir_faults[dir_]:
            return outside
        return await self.set_dir_fault(dir_, fault)

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """Replace a log directory by an empty one; returns what was lost. The broker must be down."""
        return self._dirs.swap(dir_)

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Cut the broker's files back to what was flushed, or a drawn part of the rest; returns what was lost."""
        ledger = self._folder / "power-ledger"
        try:
            # Undoing an unflushed truncation writes the truncated bytes again; a full directory has no room for them.
            with self._dirs.sound(dirs):
                return tuple(await asyncio.to_thread(lose_power, ledger, self.log_dirs, dirs, how))
        except (OSError, msgspec.MsgspecError) as error:
            raise HarnessError(f"removing the unflushed data of {self.address}: {error}") from error

    async def set_dir_fault(self, dir_: int, fault: DirFault) -> Probe:
        """Make a log directory fail within the broker, now and after restarts; the probe asks the broker."""
        self._dir_faults[dir_] = fault
        read = len(self.notes())
        before = await self._counts_after_setting(dir_) or Counts()

        async def probe() -> Proof:
            counts = await self._counts(dir_)
            for _ in range(MET_LOOKS_MAX):
                if counts is None or fault == SOUND or _has_acted(before, counts):
                    break
                await asyncio.sleep(LOOK_S)
                counts = await self._counts(dir_)
            # A broker that writes nothing meets no fault, though one is set: that is "not measured", not "no effect".
            otherwise = True if fault == SOUND else None
            if fault.broken and self._has_noted_failure(dir_, read):
                return Proof(True, f"the broker noted that directory {dir_} failed: {_BROKEN}")
            if counts is None:
                return Proof(otherwise, "no process runs; the next one starts with the fault that holds then")
            words = f"directory {dir_}: {counts.refused} accesses were refused, {counts.delayed} flushes delayed"
            return Proof(True if _has_acted(before, counts) else otherwise, f"{words} in this life")

        return probe

    def _has_noted_failure(self, dir_: int, read: int) -> bool:
        """Whether the broker noted the failure of log directory `dir_` after its note number `read`.

        A broker halts when its last directory fails (KIP-112) and cannot be asked for its counts then.
        """
        lines = self.notes()[read:]
        failed = (line.note for line in lines if line.note.kind == EventKind.DIR_FAILED)
        return any(note.dir == dir_ and note.detail == _BROKEN for note in failed)

    async def tell_faults(self, is_running: Callable[[], Awaitable[bool]]) -> None:
        """After a broker's start, send it the faults of its log directories, if there are any.

        A fault that ended earlier could not be switched off. Returns at once if no fault holds or the process has ended. Raises
        HarnessError if the process runs and does not listen within LISTENS_S_MAX.
        """
        end_s = time.monotonic() + LISTENS_S_MAX
        for dir_, fault in enumerate(self._dir_faults):
            while fault != SOUND and await self._counts_after_setting(dir_) is None and await is_running():
                if time.monotonic() > end_s:
                    raise HarnessError(
                        f"{self.address} does not listen on its side channel {LISTENS_S_MAX:.0f} s after its start"
                    )
                await asyncio.sleep(LOOK_S)

    async def _counts_after_setting(self, dir_: int) -> Counts | None:
        """Send a log directory's fault to the broker process; returns its counts, None if no process listens."""
        evidence = await self._ask_side_channel(SetDir(dir_, self._dir_faults[dir_]))
        return None if evidence is None else evidence.dirs[dir_]

    async def _counts(self, dir_: int) -> Counts | None:
        evidence = await self._ask_side_channel(Look())
        return None if evidence is None else evidence.dirs[dir_]

    async def _ask_side_channel(self, question: Ask) -> Evidence | None:
        """Ask the broker's side channel; None if it does not answer. Raises HarnessError if it refuses."""
        try:
            answer = await asyncio.wait_for(ask(self._folder / "side-channel", question), ANSWER_S_MAX)
        except (OSError, TimeoutError):
            return None
        if isinstance(answer, Refused):
            raise HarnessError(f"the side channel of {self.address} refused the request: {answer.why}")
        return answer

    # --- the record --------------------------------------------------------------------------------------------------------

    def notes(self) -> list[NoteLine]:
        """What all processes of this broker have reported to the harness so far."""
        try:
            return self._notes.read()
        except msgspec.MsgspecError as error:
            raise HarnessError(f"the notes of {self.address} cannot be read: {error}") from error

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """The partitions with a log in this directory; empty if it cannot be read."""
        try:
            return tuple(TopicPartition(folder.name) for folder in replica_folders(self.log_dirs[dir_]))
        except OSError:
            return ()

    def disks(self) -> tuple[DirImage, ...]:
        """The contents of the broker's log directories, with decoded record batches. It must be down."""
        return opened_dirs(self.log_dirs)

    def stopped_itself(self) -> str | None:
        """Why the broker's process stopped itself, as it reported; None if it did not."""
        lines = self.notes()
        if lines and lines[-1].note.kind == EventKind.NODE_STOPPED and lines[-1].life == self.life:
            return lines[-1].note.detail
        return None


def _has_acted(before: Counts, now: Counts) -> bool:
    """Whether accesses were refused or flushes delayed since `before`; a process started meanwhile counts from 0 again."""
    is_later_life = now.refused < before.refused or now.delayed < before.delayed
    since = Counts() if is_later_life else before
    return now.refused > since.refused or now.delayed > since.delayed
