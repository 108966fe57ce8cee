"""The contract of log directories with the simulator's disk, and with real files and their ledger."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import assert_never

import pytest
from hypothesis import example, given

from highwater.backends.sim.disk import Disk as SimulatedDisk
from highwater.backends.sim.disk import Refusal
from highwater.backends.sim.network import Acting
from history.seed import Draws
from reference.effects import Append, CreateReplica, DeleteReplica, MarkClean, MarkDir, Truncate, WriteCheckpoint
from reference.events import DirImage
from reference.types import TopicPartition
from server.disk.log_dirs import Disk
from server.lab.dir_faults import DirFault, DirFaults
from server.lab.flush_ledger import FlushLedger
from server.lab.power import Loss, lose_power
from tests.contract.disk import STEPS, Bench, DiskContract, DiskEffect, check_that_power_undoes_a_suffix, losses


class Simulated:
    """The simulator's disk."""

    def __init__(self) -> None:
        self._disk = SimulatedDisk("b1", 2, Draws(1), (1, 1))

    def perform(self, effect: DiskEffect) -> str | None:
        return self._disk.perform(effect)

    def begin_flush(self, dir_: int) -> Callable[[], None]:
        mark = self._disk.flush_mark(dir_)
        return lambda: self._disk.flushed(dir_, mark)

    def crash(self) -> None:
        pass

    def lose_power(self, loss: Loss) -> list[tuple[TopicPartition, int]]:
        wounds = []
        for dir_ in (0, 1):
            lost = self._disk.lose_unflushed(dir_, str(loss.seed), torn=loss.torn, all_of_it=loss.lose_all)
            wounds += [(tp, offset) for tp, _, offset in lost]
        return wounds

    def refuse(self, dir_: int, *, reads: bool) -> Callable[[], None]:
        refusal = Refusal(Acting("f1", "b1"), "EIO", reads=reads)
        refusals = self._disk.dirs[dir_].refusals
        refusals.append(refusal)
        return lambda: refusals.remove(refusal)

    def image(self) -> tuple[DirImage, ...]:
        return self._disk.image()


class Real:
    """Real files, in small segments."""

    def __init__(self, root: Path) -> None:
        self._paths = [root / "0", root / "1"]
        self._ledger = root / "ledger"
        self.faults = DirFaults(2)
        self._begin()

    def _begin(self) -> None:
        self._book = FlushLedger(self._ledger)
        self.disk = Disk(self._paths, segment_bytes=200, ledger=self._book, faults=self.faults)
        self.disk.recover()

    def close(self) -> None:
        self.disk.close()
        self._book.close()

    def perform(self, effect: DiskEffect) -> str | None:
        try:
            self._perform(effect)
        except OSError as error:
            return str(error)
        return None

    def _perform(self, effect: DiskEffect) -> None:
        match effect:
            case Append():
                self.disk.append(effect.dir, effect.tp, effect.batches)
            case Truncate():
                self.disk.truncate(effect.dir, effect.tp, effect.to)
            case CreateReplica():
                self.disk.create(effect.dir, effect.tp, effect.born, effect.topic_id, created=effect.created)
            case DeleteReplica():
                self.disk.delete(effect.dir, effect.tp)
            case MarkDir():
                self.disk.mark(effect.dir, effect.born, effect.dirs)
            case MarkClean():
                self.disk.mark_clean(effect.dir, clean=effect.clean)
            case WriteCheckpoint():
                self.disk.write_checkpoint(effect.dir, effect.entries)
            case _:
                assert_never(effect)

    def begin_flush(self, dir_: int) -> Callable[[], None]:
        return self.disk.flush_job(dir_)

    def crash(self) -> None:
        self.close()
        self._begin()

    def lose_power(self, loss: Loss) -> list[tuple[TopicPartition, int]]:
        self.close()
        wounds = lose_power(self._ledger, self._paths, [0, 1], loss)
        self._begin()
        return [(wound.tp, wound.offset) for wound in wounds]

    def refuse(self, dir_: int, *, reads: bool) -> Callable[[], None]:
        self.faults.set(dir_, DirFault(broken=not reads, full=reads))
        return lambda: self.faults.set(dir_, DirFault())

    def image(self) -> tuple[DirImage, ...]:
        """What the next process recovers, with the same faults."""
        disk = Disk(self._copies(), faults=self.faults)
        try:
            return disk.recover()
        finally:
            disk.close()

    def _copies(self) -> list[Path]:
        """Copies of the log directories, beside them."""
        copies = [path.with_name(f"{path.name}-copy") for path in self._paths]
        for path, copy in zip(self._paths, copies, strict=True):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
        return copies


class TestSimulatedDisk(DiskContract):
    """The contract with the simulator's disk."""

    @pytest.fixture
    def bench(self) -> Bench:
        return Simulated()


@given(STEPS, losses())
def test_power_loss_undoes_latest_writes_in_the_simulator(steps: list[tuple[str, int]], loss: Loss) -> None:
    check_that_power_undoes_a_suffix(Simulated(), steps, loss)


class TestRealDisk(DiskContract):
    """The contract with a file system."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        real = Real(tmp_path)
        yield real
        real.close()


@example([("append", 1), ("append", 1), ("append", 1), ("truncate", 1)], Loss(seed=0, lose_all=True))
@given(STEPS, losses())
def test_power_loss_undoes_latest_writes_on_a_file_system(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], loss: Loss
) -> None:
    bench = Real(tmp_path_factory.mktemp("disk"))
    check_that_power_undoes_a_suffix(bench, steps, loss)
    bench.close()
