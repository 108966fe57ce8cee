"""A broker of another system: a command, a folder, log directories. It reports nothing to the harness."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from highwater.backends.real.means import Means
from highwater.backends.real.node.directories import LogDirs
from highwater.backends.real.node.runner import BrokerProcess, Launch, Runner
from highwater.backends.real.site import ClockCondition, DirCondition, Probe
from highwater.errors import HarnessError
from reference.events import DirImage
from reference.types import Address, TopicPartition
from server.lab.notes import NoteLine
from server.lab.power import Loss, Wound


class Prepared(Struct, frozen=True, kw_only=True):
    """The files of a broker, which `launch` may use: its folder and its log directories."""

    folder: Path
    log_dirs: tuple[Path, ...]


class Shape(Struct, frozen=True, kw_only=True):
    """How many log directories a broker has, and what the faults of the plan need of them."""

    dirs: int = 1
    needs: frozenset[Means] = frozenset()


ONE_DIR = Shape()


class PlainNode(BrokerProcess):
    """One broker of a system without notes. `launch` prepares each new process and returns its command.

    A system refuses the faults that need more than signals and directories: clocks, power loss, failing and slow disks.
    """

    def __init__(
        self, folder: Path, address: Address, runner: Runner, launch: Callable[[Prepared], Launch], *, shape: Shape = ONE_DIR
    ) -> None:
        self.address = address
        self.life = 0
        self.dirs = shape.dirs
        self._launches = launch
        self._folder = folder / self.address
        self._folder.mkdir()
        if runner.user is not None:
            os.chown(self._folder, runner.user, runner.user)
        # Each log directory lies in a folder of its own, so that it can be moved away and put back.
        self.log_dirs = tuple(self._folder / f"data-{index}" / "logs" for index in range(shape.dirs))
        self._dirs = LogDirs(self.log_dirs, runner.user, shape.needs)
        self._dirs.make()
        super().__init__(runner, self._folder)

    def _launch(self) -> Launch:
        self.life += 1
        return self._launches(Prepared(folder=self._folder, log_dirs=self.log_dirs))

    def release(self) -> None:
        """Unmount everything and make all files of the broker removable. It must be down."""
        self._dirs.close()

    def stopped_itself(self) -> str | None:
        """How the broker's process ended without the harness; None if it runs or the harness ended it."""
        code = self.runner.exit_code()
        return None if code is None else f"it ended with code {code}: {self.last_words() or 'it printed nothing'}"

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Raises HarnessError: the clock of such a broker cannot be set."""
        raise HarnessError(f"the clock of {self.address} cannot be set")

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """Apply or end a fault of a log directory from outside of the process. HarnessError for failing and slow ones."""
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
