"""Brokers as processes: started, killed, stopped and continued by signals; each life appends its notes to one file of its node.

A node ends when its stdin closes, so that none outlives this process, however this one ends.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

import reference
from highwater.errors import HarnessError
from highwater.local.processes import RUNNING, STOPPED, gone, in_state
from highwater.local.site import ClockCondition, Cutback, DirCondition, Probe, Proof, Wound
from history.event import EventKind
from reference.config import BrokerConfig
from reference.events import DirImage
from reference.runtime.control import NoteLine, read_notes
from reference.runtime.disk import Disk
from reference.runtime.settings import Listener, NodeSettings
from reference.types import Address, TopicPartition, broker_address

END_TIMEOUT_S = 10


class NodeProcess:
    """One broker through all its lives: `highwater.local.site.Node`.

    `listen`, `zookeeper` and `peers` are "host:port": its own, and the way to each of the others.
    """

    def __init__(self, folder: Path, config: BrokerConfig, *, listen: str, zookeeper: str, peers: dict[Address, str]) -> None:
        self.address = broker_address(config.broker)
        self.life = 0
        self.dirs = config.log_dirs
        self._folder = folder / self.address
        self._folder.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._last: subprocess.Popen[bytes] | None = None  # the one before, which has ended
        self._settings = NodeSettings(
            broker=config,
            life=0,
            peers=Listener(bind=listen, advertised=peers),
            startup_timeout_ms=None,  # ZooKeeper may be out of reach on purpose
            zookeeper=zookeeper,
            log_dirs=tuple(str(self._folder / f"data-{index}") for index in range(config.log_dirs)),
            notes=str(self._folder / "notes.jsonl"),
            end_with_stdin=True,
        )

    # --- the process -------------------------------------------------------------------------------------------------------

    async def start(self) -> Probe:
        """A new life."""
        assert not self._runs()
        self._close()
        self.life += 1
        settings = self._folder / f"settings-{self.life}.json"
        settings.write_bytes(msgspec.json.encode(msgspec.structs.replace(self._settings, life=self.life)))
        # Where this process found the packages, the node finds them, installed or not.
        environment = {**os.environ, "PYTHONPATH": str(Path(next(iter(reference.__path__))).parent)}
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "reference.runtime", "--config", str(settings)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        return self._probe(running=True)

    async def is_running(self) -> bool:
        """Is there a process, perhaps a paused one?"""
        return self._runs()

    async def kill(self) -> Probe:
        """SIGKILL; the page cache stays. Nothing where it is down."""
        self.end()
        return self._probe(running=False)

    def end(self) -> None:
        """The same, outside of the loop."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_TIMEOUT_S)
        self._close()

    async def terminate(self) -> Probe:
        """SIGTERM: it may end in good order, or take its time."""
        self._signal(signal.SIGTERM)
        return self._probe(running=False)

    async def pause(self) -> Probe:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)
        return self._probe(running=True, state=STOPPED)

    async def resume(self) -> Probe:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        return self._probe(running=True, state=RUNNING)

    def _probe(self, *, running: bool, state: str = RUNNING + STOPPED) -> Probe:
        """Is this process there, in one of these states of the kernel, or is it gone?"""
        process = self._process or self._last

        async def probe() -> Proof:
            if not running:
                return await gone(process)
            proof = await in_state(process, state)
            why = None if proof.holds else self.stopped_itself()
            return proof if why is None else Proof(True, f"it stopped by itself: {why}")

        return probe

    # --- clocks and directories --------------------------------------------------------------------------------------------

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Refused before the run."""
        raise HarnessError(f"the clock of {self.address} cannot be set: {condition}")

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """Refused before the run."""
        raise HarnessError(f"directory {dir_} of {self.address} cannot be changed: {condition}")

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """Refused before the run."""
        raise HarnessError(f"directory {dir_} of {self.address} cannot be swapped")

    async def lose_unflushed(self, dirs: Sequence[int], how: Cutback) -> tuple[Wound, ...]:
        """Refused before the run."""
        raise HarnessError(f"what {self.address} did not flush cannot be lost: {dirs} {how}")

    # --- the record --------------------------------------------------------------------------------------------------------

    def notes(self) -> list[NoteLine]:
        """What all lives have said so far."""
        path = Path(self._settings.notes)
        try:
            return read_notes(path) if path.exists() else []
        except msgspec.MsgspecError as error:
            raise HarnessError(f"the notes of {self.address} cannot be read: {error}") from error

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """Whose logs lie in this directory."""
        path = Path(self._settings.log_dirs[dir_])
        try:
            return tuple(sorted(TopicPartition(entry.name) for entry in path.iterdir() if entry.is_dir()))
        except OSError:
            return ()

    def disks(self) -> tuple[DirImage, ...]:
        """What lies in the log directories; not while a process runs."""
        assert not self._runs()
        disk = Disk([Path(path) for path in self._settings.log_dirs])
        try:
            return disk.recover()
        finally:
            disk.close()

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

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._last, self._process = self._process, None
