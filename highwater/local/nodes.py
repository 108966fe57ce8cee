"""Brokers as processes: started, killed, stopped and continued by signals; each life appends its notes to one file of its node.

A node ends when its stdin closes, so that none outlives this process, however this one ends.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

import reference
from highwater.errors import HarnessError
from history.event import EventKind
from reference.config import BrokerConfig
from reference.events import DirImage
from reference.runtime.control import NoteLine, read_notes
from reference.runtime.disk import Disk
from reference.runtime.settings import NodeSettings
from reference.types import Address, broker_address

END_TIMEOUT_S = 10


class NodeProcess:
    """One broker through all its lives. `ports` are those of all brokers."""

    def __init__(self, folder: Path, config: BrokerConfig, *, zookeeper: str, ports: dict[Address, int]) -> None:
        self.address = broker_address(config.broker)
        self.life = 0
        self.paused = False
        self._folder = folder / self.address
        self._folder.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = NodeSettings(
            broker=config,
            life=0,
            listen=f"127.0.0.1:{ports[self.address]}",
            peers={peer: f"127.0.0.1:{port}" for peer, port in ports.items() if peer != self.address},
            zookeeper=zookeeper,
            log_dirs=tuple(str(self._folder / f"data-{index}") for index in range(config.log_dirs)),
            notes=str(self._folder / "notes.jsonl"),
            end_with_stdin=True,
        )

    def start(self) -> None:
        """A new life."""
        assert not self.is_running()
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

    def is_running(self) -> bool:
        """Is there a process, perhaps a paused one?"""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL; the page cache stays. Nothing where it is down."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_TIMEOUT_S)
        self.paused = False
        self._close()

    def terminate(self) -> None:
        """SIGTERM: it may end in good order, or take its time."""
        if self.is_running():
            self._signal(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP."""
        if self.is_running():
            self._signal(signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        if self.is_running():
            self._signal(signal.SIGCONT)
        self.paused = False

    def notes(self) -> list[NoteLine]:
        """What all lives have said so far."""
        path = Path(self._settings.notes)
        try:
            return read_notes(path) if path.exists() else []
        except msgspec.MsgspecError as error:
            raise HarnessError(f"the notes of {self.address} cannot be read: {error}") from error

    def disks(self) -> tuple[DirImage, ...]:
        """What lies in the log directories; not while a process runs."""
        assert not self.is_running()
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

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
