"""What every node has on this machine, process or container: a folder with its settings, notes, output and log directories."""

from pathlib import Path

import msgspec

from highwater.errors import HarnessError
from history.event import EventKind
from reference.config import BrokerConfig
from reference.events import DirImage
from reference.runtime.control import NoteLine, read_notes
from reference.runtime.disk import look, replica_folders
from reference.runtime.settings import Listener, NodeSettings
from reference.types import Address, TopicPartition, broker_address


class NodeFolder:
    """The part of `highwater.local.site.Node` that is made of files.

    `listen`, `zookeeper` and `peers` are "host:port": its own, and the way to each of the others.
    """

    def __init__(self, folder: Path, config: BrokerConfig, *, zookeeper: str, listen: str, peers: dict[Address, str]) -> None:
        self.address = broker_address(config.broker)
        self.life = 0
        self.dirs = config.log_dirs
        self._folder = folder / self.address
        self._folder.mkdir()
        self._settings = NodeSettings(
            broker=config,
            life=0,
            peers=Listener(bind=listen, advertised=peers),
            startup_timeout_ms=None,  # ZooKeeper may be out of reach on purpose
            zookeeper=zookeeper,
            log_dirs=tuple(str(self._folder / f"data-{index}") for index in range(config.log_dirs)),
            notes=str(self._folder / "notes.jsonl"),
        )

    def begin_life(self, *, end_with_stdin: bool) -> Path:
        """Count it, and write the settings it is started with; returns their file."""
        self.life += 1
        path = self._folder / "settings.json"
        path.write_bytes(
            msgspec.json.encode(msgspec.structs.replace(self._settings, life=self.life, end_with_stdin=end_with_stdin))
        )
        return path

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
            return tuple(TopicPartition(folder.name) for folder in replica_folders(path))
        except OSError:
            return ()

    def disks(self) -> tuple[DirImage, ...]:
        """What lies in the log directories; not while a process runs."""
        return look([Path(path) for path in self._settings.log_dirs])

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
