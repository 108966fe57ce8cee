"""A broker of another system as a process: a command, a folder, log directories. It reports nothing to the harness."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from highwater.backends.real.node.directories import LogDirs
from highwater.backends.real.processes.broker import BrokerProcess, Launch
from highwater.backends.real.site import ClockCondition, DirCondition, Probe
from highwater.errors import HarnessError
from reference.events import DirImage
from reference.types import BrokerId, TopicPartition, broker_address
from server.lab.notes import NoteLine
from server.lab.power import Loss, Wound


class Prepared(Struct, frozen=True, kw_only=True):
    """The files of a broker: its folder and its log directories, which `launch` may use, and the number of the new process."""

    folder: Path
    log_dirs: tuple[Path, ...]
    life: int


def dying_with_us() -> tuple[str, ...]:
    """A command prefix that makes the kernel kill the process when the harness dies; empty without setpriv (util-linux).

    The kernel does so when the thread that started the process ends, so start it in the main thread.
    """
    setpriv = shutil.which("setpriv")
    return () if setpriv is None else (setpriv, "--pdeathsig", "KILL", "--")


class PlainNode(BrokerProcess):
    """One broker of a system without notes. `launch` prepares each new process and returns its command.

    A system refuses the faults that need more than signals and directories: clocks, power loss, failing and slow disks.
    """

    def __init__(
        self, folder: Path, broker: BrokerId, launch: Callable[[Prepared], Launch], *, dirs: int = 1, small: bool = False
    ) -> None:
        self.address = broker_address(broker)
        self.life = 0
        self.dirs = dirs
        self._launches = launch
        self._folder = folder / self.address
        self._folder.mkdir()
        # Each log directory lies in a folder of its own, so that it can be moved away and put back.
        self.log_dirs = tuple(self._folder / f"data-{index}" / "logs" for index in range(dirs))
        self._dirs = LogDirs(self.log_dirs)
        self._dirs.make(small=small)
        super().__init__(self._folder)

    def _launch(self) -> Launch:
        self.life += 1
        found = self._launches(Prepared(folder=self._folder, log_dirs=self.log_dirs, life=self.life))
        return Launch(command=(*dying_with_us(), *found.command), environment=found.environment)

    def close(self) -> None:
        """Kill the broker, unmount everything and make all its files removable."""
        self.end()
        self._dirs.close()

    def stopped_itself(self) -> str | None:
        """How the broker's process ended without the harness; None if it runs or the harness ended it."""
        code = None if self._process is None else self._process.poll()
        return None if code is None else f"it ended with code {code}: {self.last_words() or 'it printed nothing'}"

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Raises HarnessError: the clock of such a broker cannot be set."""
        raise HarnessError(f"the clock of {self.address} cannot be set")

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """Apply or end a fault of a log directory, from outside of the process."""
        return self._dirs.set(dir_, condition)

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """Raises HarnessError: what was lost could not be told."""
        raise HarnessError(f"the directories of {self.address} cannot be swapped")

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Raises HarnessError: nobody records what such a broker flushed."""
        raise HarnessError(f"what {self.address} flushed is not known")

    def notes(self) -> list[NoteLine]:
        """Nothing: such a broker reports nothing to the harness."""
        return []

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """The partitions with a folder in this directory, sorted; empty if it cannot be read."""
        try:
            return tuple(sorted(TopicPartition(path.name) for path in self.log_dirs[dir_].iterdir() if path.is_dir()))
        except OSError:
            return ()

    def disks(self) -> tuple[DirImage, ...]:
        """Nothing: the format of its logs is its own."""
        return ()
