"""What every node has on this machine, process or container: a folder with its settings, notes, output and log directories."""

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from highwater.backends.real.clocks import FakeClock
from highwater.backends.real.directories import LogDirs
from highwater.backends.real.opening import opened_dirs
from highwater.backends.real.site import ClockCondition, DirCondition, Probe, Proof
from highwater.errors import HarnessError
from highwater.plans.plan import Plan
from history.event import EventKind
from nemesis.faults import ClockDrift, ClockJump, ClockStrobe, DirUnreadable, DiskFull
from reference.config import BrokerConfig
from reference.events import DirImage
from reference.types import TopicPartition, broker_address
from server.disk.log_dirs import replica_folders
from server.lab.dir_faults import SOUND, Counts, DirFault
from server.lab.notes import NoteLine, NotesReader
from server.lab.power import Loss, Wound, lose_power
from server.lab.side_channel import Ask, Look, Refused, SetDir, ask
from server.runtime.settings import Listener, NodeSettings

LOOK_S = 0.02
MET_LOOKS_MAX = 150
LISTENS_S_MAX = 60.0  # a process that is being started, on a busy machine
_BROKEN = str(OSError(errno.EIO, os.strerror(errno.EIO)))  # what a process says that met a broken directory
ANSWER_S_MAX = 1.0  # one that stands still does not answer


class Needs(Struct, frozen=True, kw_only=True):
    """What a node must be started with so that a fault of the plan can be done to it."""

    fake_clock: bool = False  # asking for the time becomes slow
    permissions: bool = False  # those of files hold for it
    small_dirs: bool = False


def needs_of(plan: Plan) -> Needs:
    """What the faults of this plan need."""
    faults = [window.fault for window in plan.schedule]
    return Needs(
        fake_clock=any(isinstance(fault, ClockJump | ClockDrift | ClockStrobe) for fault in faults),
        permissions=any(isinstance(fault, DirUnreadable) for fault in faults),
        small_dirs=any(isinstance(fault, DiskFull) for fault in faults),
    )


class Start(Struct, frozen=True, kw_only=True):
    """How one node is started. `zookeeper` is "host:port,…"; `peers` and `clients` say where it listens for whom."""

    config: BrokerConfig
    zookeeper: str
    peers: Listener
    clients: Listener
    needs: Needs
    user: int | None = None  # as whom, where that is somebody else


class NodeFolder:
    """The part of `highwater.backends.real.site.Node` that is made of files.

    Made in the folder of the run; what is done to clocks and directories is done from outside of whatever runs.
    """

    def __init__(self, folder: Path, start: Start) -> None:
        config = start.config
        self.address = broker_address(config.broker)
        self.life = 0
        self.dirs = config.log_dirs
        self._needs = start.needs
        self._folder = folder / self.address
        self._folder.mkdir()
        if start.user is not None:
            os.chown(self._folder, start.user, start.user)
        # Each in a folder of its own, so that it can be taken away and put back.
        self.log_dirs = tuple(self._folder / f"data-{index}" / "logs" for index in range(config.log_dirs))
        self._dirs = LogDirs(self.log_dirs, start.user)
        self._dirs.make(small=start.needs.small_dirs)
        self._dir_faults = [SOUND] * config.log_dirs
        self._clock = FakeClock(self._folder / "wall-clock") if start.needs.fake_clock else None
        self._notes = NotesReader(self._folder / "notes.jsonl")
        self._settings = NodeSettings(
            broker=config,
            life=0,
            peers=start.peers,
            clients=(start.clients,),
            startup_timeout_ms=None,  # ZooKeeper may be out of reach on purpose
            zookeeper=start.zookeeper,
            log_dirs=tuple(map(str, self.log_dirs)),
            notes=str(self._folder / "notes.jsonl"),
            side_channel=str(self._folder / "side-channel"),
            power_ledger=str(self._folder / "power-ledger"),
        )

    def begin_life(self, *, end_with_stdin: bool) -> Path:
        """Count it, and write the settings it is started with; returns their file."""
        self.life += 1
        path = self._folder / "settings.json"
        faults = tuple(self._dir_faults)
        settings = msgspec.structs.replace(self._settings, life=self.life, end_with_stdin=end_with_stdin, dir_faults=faults)
        path.write_bytes(msgspec.json.encode(settings))
        return path

    def release(self) -> None:
        """Nothing mounted, every file can be removed. Not while a process runs."""
        if self._clock is not None:
            self._clock.close()
        self._dirs.close()

    # --- clocks ------------------------------------------------------------------------------------------------------------

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Its wall clock is so wrong from now on."""
        if self._clock is None:
            raise HarnessError(f"the clock of {self.address} cannot be set")
        return self._clock.set(condition, self.notes)

    # --- directories and what is in them -----------------------------------------------------------------------------------

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """This log directory is so from now on: its device in the process's own disk layer, the rest on the file system."""
        outside = self._dirs.set(dir_, condition)
        fault = DirFault(broken=condition.broken, flush_ms=condition.flush_ms)
        if fault == self._dir_faults[dir_]:
            return outside
        return await self.set_dir_fault(dir_, fault)

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """An empty directory in the place of this one. Not while a process runs."""
        return self._dirs.swap(dir_)

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Cut files back to what was flushed, or a drawn part further."""
        ledger = self._folder / "power-ledger"
        try:
            # What a cut had taken off is written again, for which a full directory has no room.
            with self._dirs.sound(dirs):
                return tuple(await asyncio.to_thread(lose_power, ledger, self.log_dirs, dirs, how))
        except (OSError, msgspec.MsgspecError) as error:
            raise HarnessError(f"what {self.address} did not flush cannot be taken away: {error}") from error

    async def set_dir_fault(self, dir_: int, fault: DirFault) -> Probe:
        """The disk layer of this process and of those to come meets this fault; how to measure that it does."""
        self._dir_faults[dir_] = fault
        read = len(self.notes())
        before = await self._told(dir_) or Counts()

        async def probe() -> Proof:
            counts = await self._counts(dir_)
            for _ in range(MET_LOOKS_MAX):
                if counts is None or fault == SOUND or _met(before, counts):
                    break
                await asyncio.sleep(LOOK_S)
                counts = await self._counts(dir_)
            # Who has nothing to write meets no fault: one that was set, or is left of two windows, is there all the same.
            otherwise = True if fault == SOUND else None
            if fault.broken and self._noted_broken(dir_, read):
                return Proof(True, f"it noted that directory {dir_} failed: {_BROKEN}")
            if counts is None:
                return Proof(otherwise, "there is no process; the next one meets what holds then")
            words = f"{counts.refused} accesses to directory {dir_} were refused, {counts.delayed} flushes delayed"
            return Proof(True if _met(before, counts) else otherwise, f"{words} in this life")

        return probe

    def _noted_broken(self, dir_: int, read: int) -> bool:
        """After so many notes? Whose last directory fails ends at once (KIP-112), and nobody can ask what it had met."""
        lines = self.notes()[read:]
        failed = (line.note for line in lines if line.note.kind == EventKind.DIR_FAILED)
        return any(note.dir == dir_ and note.detail == _BROKEN for note in failed)

    async def tell_faults(self, is_running: Callable[[], Awaitable[bool]]) -> None:
        """A process was started with the faults that hold: until it listens, for a fault that ends before that ends unheard of.

        Nothing where none holds, or it does not run (any more). HarnessError where it runs and does not listen.
        """
        end_s = time.monotonic() + LISTENS_S_MAX
        for dir_, fault in enumerate(self._dir_faults):
            while fault != SOUND and await self._told(dir_) is None and await is_running():
                if time.monotonic() > end_s:
                    raise HarnessError(f"{self.address} does not listen {LISTENS_S_MAX:.0f} s after its start")
                await asyncio.sleep(LOOK_S)

    async def _told(self, dir_: int) -> Counts | None:
        """Set the fault of a directory; what came of it so far. None where no process listens."""
        return await self._ask(SetDir(dir_, self._dir_faults[dir_]), dir_)

    async def _counts(self, dir_: int) -> Counts | None:
        return await self._ask(Look(), dir_)

    async def _ask(self, question: Ask, dir_: int) -> Counts | None:
        try:
            answer = await asyncio.wait_for(ask(self._folder / "side-channel", question), ANSWER_S_MAX)
        except (OSError, TimeoutError):
            return None
        if isinstance(answer, Refused):
            raise HarnessError(f"the side-channel of {self.address} refuses: {answer.why}")
        return answer.dirs[dir_]

    # --- the record --------------------------------------------------------------------------------------------------------

    def notes(self) -> list[NoteLine]:
        """What all lives have said so far."""
        try:
            return self._notes.read()
        except msgspec.MsgspecError as error:
            raise HarnessError(f"the notes of {self.address} cannot be read: {error}") from error

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """Whose logs lie in this directory."""
        try:
            return tuple(TopicPartition(folder.name) for folder in replica_folders(self.log_dirs[dir_]))
        except OSError:
            return ()

    def disks(self) -> tuple[DirImage, ...]:
        """What lies in the log directories, in the clear; not while a process runs."""
        return opened_dirs(self.log_dirs)

    def stopped_itself(self) -> str | None:
        """Why this life ended, in its own words; None where it did not say."""
        lines = self.notes()
        if lines and lines[-1].note.kind == EventKind.NODE_STOPPED and lines[-1].life == self.life:
            return lines[-1].note.detail
        return None

    def last_words(self) -> str:
        """The last line that the process printed: empty unless something is wrong with it."""
        path = self._folder / "output.log"
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return lines[-1] if lines else ""


def _met(before: Counts, now: Counts) -> bool:
    """Was more refused or delayed since? A process that was started meanwhile has counted from 0."""
    is_later_life = now.refused < before.refused or now.delayed < before.delayed
    since = Counts() if is_later_life else before
    return now.refused > since.refused or now.delayed > since.delayed
