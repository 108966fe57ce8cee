"""What every node has on this machine, process or container: a folder with its settings, notes, output and log directories."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from highwater.errors import HarnessError
from highwater.local.opening import opened_dirs
from highwater.local.site import Probe, Proof
from history.event import EventKind
from reference.config import BrokerConfig
from reference.events import DirImage
from reference.runtime.control import NoteLine, NotesReader
from reference.runtime.disk import replica_folders
from reference.runtime.faults import SOUND, Counts, DirFault
from reference.runtime.power import Loss, Wound, lose_power
from reference.runtime.settings import Listener, NodeSettings
from reference.runtime.side_channel import Ask, Look, Refused, SetDir, ask
from reference.types import TopicPartition, broker_address

LOOK_S = 0.02
MET_LOOKS_MAX = 150
TOLD_LOOKS_MAX = 250  # of a process that is about to listen
ANSWER_S_MAX = 1.0  # one that stands still does not answer


class NodeFolder:
    """The part of `highwater.local.site.Node` that is made of files.

    `zookeeper` is "host:port,…"; `peers` and `clients` say where it listens for whom, and the way to the others.
    """

    def __init__(self, folder: Path, config: BrokerConfig, *, zookeeper: str, peers: Listener, clients: Listener) -> None:
        self.address = broker_address(config.broker)
        self.life = 0
        self.dirs = config.log_dirs
        self._folder = folder / self.address
        self._folder.mkdir()
        # Each in a folder of its own, so that it can be taken away and put back.
        self.log_dirs = tuple(self._folder / f"data-{index}" / "logs" for index in range(config.log_dirs))
        self._dir_faults = [SOUND] * config.log_dirs
        self._notes = NotesReader(self._folder / "notes.jsonl")
        self._settings = NodeSettings(
            broker=config,
            life=0,
            peers=peers,
            clients=(clients,),
            startup_timeout_ms=None,  # ZooKeeper may be out of reach on purpose
            zookeeper=zookeeper,
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

    # --- directories and what is in them -----------------------------------------------------------------------------------

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Cut files back to what was flushed, or a drawn part further."""
        ledger = self._folder / "power-ledger"
        try:
            return tuple(await asyncio.to_thread(lose_power, ledger, self.log_dirs, dirs, how))
        except (OSError, msgspec.MsgspecError) as error:
            raise HarnessError(f"what {self.address} did not flush cannot be taken away: {error}") from error

    async def set_dir_fault(self, dir_: int, fault: DirFault) -> Probe:
        """The disk layer of this process and of those to come meets this fault; how to measure that it does."""
        self._dir_faults[dir_] = fault
        before = await self._told(dir_)

        async def probe() -> Proof:
            counts = await self._counts(dir_)
            for _ in range(MET_LOOKS_MAX):
                if counts is None or fault == SOUND or counts != before:
                    break
                await asyncio.sleep(LOOK_S)
                counts = await self._counts(dir_)
            if counts is None:
                return Proof(fault == SOUND, "there is no process; the next one meets what holds then")
            met = counts != before
            words = f"{counts.refused} accesses to directory {dir_} were refused, {counts.delayed} flushes delayed"
            return Proof(met or fault == SOUND, f"{words} in this life")

        return probe

    async def tell_faults(self) -> None:
        """A process was started: it meets the faults that hold, those too that came between its settings and its listening."""
        for dir_, fault in enumerate(self._dir_faults):
            for _ in range(TOLD_LOOKS_MAX if fault != SOUND else 0):
                if await self._told(dir_) is not None:
                    break
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
