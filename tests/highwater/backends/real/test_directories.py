"""Faults of log directories, measured as the broker's own user."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from highwater.backends.real.node.directories import LogDirs, unprivileged_prefix
from highwater.backends.real.site import SOUND, DirCondition, Probe, Proof
from reference.messages import Batch
from reference.types import Creation, Incarnation, LeaderEpoch, Offset, TopicId, TopicPartition
from server.disk.log_dirs import Disk
from server.wire.records import sealed


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[LogDirs]:
    """Two log directories on the file system of the test."""
    log_dirs = LogDirs([tmp_path / name / "logs" for name in ("data-0", "data-1")], needs=frozenset({"permissions"}))
    log_dirs.make()
    yield log_dirs
    log_dirs.close()


def proof_under(dirs: LogDirs, condition: DirCondition) -> Proof:
    return asyncio.run(_measured(dirs, condition))


async def _measured(dirs: LogDirs, condition: DirCondition) -> Proof:
    return await dirs.set(0, condition)()


def test_directory_without_permissions_refuses_writes(dirs: LogDirs) -> None:
    """Under root too, if setpriv can make root obey permissions."""
    if unprivileged_prefix() is None:
        pytest.skip("root ignores permissions, and setpriv (util-linux) is not installed")

    assert proof_under(dirs, DirCondition(unreadable=True)) == Proof(True, "writing 64 KiB in data-0: Permission denied")
    assert proof_under(dirs, SOUND) == Proof(True, "writing 64 KiB in data-0: no error")


def test_directory_is_back_after_a_file_stood_in_its_place(dirs: LogDirs) -> None:
    (dirs.paths[0] / "kept").write_text("here")

    proof = proof_under(dirs, DirCondition(is_file=True))
    assert proof.holds
    assert dirs.paths[0].is_file()

    assert proof_under(dirs, SOUND).holds
    assert (dirs.paths[0] / "kept").read_text() == "here"


def test_full_directory_leaves_space_in_other_directories(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can mount a small file system")
    full = LogDirs([tmp_path / name / "logs" for name in ("data-0", "data-1")], needs=frozenset({"small-dirs"}))
    full.make()
    try:
        assert proof_under(full, DirCondition(full=True)) == Proof(True, "writing 64 KiB in data-0: No space left on device")
        (full.paths[1] / "room").write_bytes(bytes(65536))
        assert proof_under(full, SOUND) == Proof(True, "writing 64 KiB in data-0: no error")
    finally:
        full.close()
    assert f" {tmp_path}/" not in Path("/proc/self/mounts").read_text()


def test_directory_fault_without_effect_is_detected(dirs: LogDirs) -> None:
    async def scene() -> Proof:
        probe = dirs.set(0, DirCondition(is_file=True))
        dirs.set(0, SOUND)
        return await probe()

    assert asyncio.run(scene()) == Proof(False, "writing 64 KiB in data-0: no error")


def test_swapped_log_dir_is_empty_and_all_its_logs_are_lost(dirs: LogDirs) -> None:
    """An empty log too, because other replicas cannot know that it was empty."""
    disk = Disk(list(dirs.paths))
    disk.recover()
    disk.create(0, TopicPartition("empty-0"), Incarnation(1), TopicId(8))
    disk.create(0, TopicPartition("t-0"), Incarnation(1), TopicId(9))
    disk.append(0, TopicPartition("t-0"), [Batch(Offset(0), LeaderEpoch(0), sealed(["a"]))])
    disk.create(1, TopicPartition("t-1"), Incarnation(1), TopicId(9))
    disk.close()

    wounds = dirs.swap(0)

    assert [(wound.tp, wound.topic_id, wound.dir, wound.offset) for wound in wounds] == [("empty-0", 8, 0, 0), ("t-0", 9, 0, 0)]
    assert list(dirs.paths[0].iterdir()) == []
    assert [path.name for path in dirs.paths[1].iterdir()] == ["t-1"]


def test_log_that_another_directory_replaced_is_not_lost(dirs: LogDirs) -> None:
    """A power loss had undone its deletion: the broker would delete it again, and use the later log."""
    disk = Disk(list(dirs.paths))
    disk.recover()
    for dir_, number in ((1, 0), (0, 1)):
        disk.create(dir_, TopicPartition("t-0"), Incarnation(1), TopicId(9), created=Creation(Incarnation(3), number))
    disk.close()

    assert dirs.swap(1) == ()
    assert [wound.tp for wound in dirs.swap(0)] == ["t-0"]


@pytest.mark.parametrize("condition", [DirCondition(unreadable=True), DirCondition(is_file=True)])
def test_log_dir_with_another_fault_can_be_swapped(dirs: LogDirs, condition: DirCondition) -> None:
    """Windows of different kinds may overlap on one directory."""
    disk = Disk(list(dirs.paths))
    disk.recover()
    disk.create(0, TopicPartition("t-0"), Incarnation(1), TopicId(9))
    disk.close()
    dirs.set(0, condition)

    wounds = dirs.swap(0)

    assert [wound.tp for wound in wounds] == ["t-0"]
    assert dirs.paths[0].is_file() is condition.is_file
    if not condition.is_file:
        assert (dirs.paths[0].stat().st_mode & 0o777 == 0) is condition.unreadable
    assert proof_under(dirs, SOUND).holds
    assert list(dirs.paths[0].iterdir()) == []


def test_log_dir_can_be_swapped_while_a_probe_writes_in_it(dirs: LogDirs) -> None:
    """A probe of another window may run at any moment."""
    is_over = threading.Event()

    def probe() -> None:
        while not is_over.is_set():
            with suppress(OSError):
                (dirs.paths[0] / ".probe").write_bytes(b"x")

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        for _ in range(200):
            dirs.swap(0)
    finally:
        is_over.set()
        thread.join()


def test_full_log_dir_stays_full_after_an_empty_one_replaces_it(tmp_path: Path) -> None:
    """Removing its files gives back the room that they took."""
    if os.geteuid():
        pytest.skip("only root can mount a small file system")
    full = LogDirs([tmp_path / "data-0" / "logs"], needs=frozenset({"small-dirs"}))
    full.make()
    try:
        (full.paths[0] / "notes").write_bytes(bytes(1 << 20))
        filled = full.set(0, DirCondition(full=True))
        full.swap(0)
        assert asyncio.run(measured(filled)).holds
    finally:
        full.close()


async def measured(probe: Probe) -> Proof:
    return await probe()
