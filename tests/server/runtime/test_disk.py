"""Log directories on real files: formats, recovery, flushes, and faults."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from reference.events import DirImage, LogImage
from reference.messages import Batch
from reference.sealed import count
from reference.types import Creation, Incarnation, LeaderEpoch, Offset, TopicId, TopicPartition
from server.disk.log_dirs import CHECKPOINT, CLEAN, Disk, look
from server.disk.segments import segment_name
from server.lab.dir_faults import DirFault, DirFaults
from server.wire.records import check
from tests.server.runtime.batches import batch, header_only

BORN = Incarnation(7)
ORDERS = TopicPartition("orders-0")
BILLS = TopicPartition("bills-3")
FIRST = segment_name(0)
UNMARKED = f"version: 0\ntopic_id: {'A' * 22}\nborn: 7\n"  # a partition.metadata from before creations were marked


def open_disk(*paths: Path, segment_bytes: int = 1 << 30) -> Disk:
    disk = Disk(paths, segment_bytes=segment_bytes)
    disk.recover()
    return disk


def images_of(*paths: Path) -> tuple[DirImage, ...]:
    """What a new disk finds in these log directories."""
    disk = Disk(paths)
    try:
        return disk.recover()
    finally:
        disk.close()


def image(tp: TopicPartition, *batches: Batch) -> LogImage:
    return LogImage(tp, tuple(header_only(b) for b in batches), BORN)


def test_disk_recovery_creates_a_missing_log_directory(tmp_path: Path) -> None:
    assert images_of(tmp_path / "a" / "b") == (DirImage(0, readable=True),)


def test_restart_finds_appended_batches_and_checkpoint(tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.create(0, BILLS, BORN)
    disk.mark(0, BORN, 1)
    batches = batch(0, "a", "b"), batch(2, "c", epoch=1), batch(3, "d", epoch=1)
    disk.append(0, ORDERS, batches[:2])
    disk.append(0, ORDERS, batches[2:])
    disk.write_checkpoint(0, ((BILLS, Offset(0)), (ORDERS, Offset(2))))
    disk.close()

    logs = (image(BILLS), image(ORDERS, *batches))
    checkpoint = ((BILLS, 0), (ORDERS, 2))
    assert images_of(tmp_path) == (DirImage(0, readable=True, logs=logs, checkpoint=checkpoint, born=BORN, dirs=1),)


def test_log_dir_files_have_kafkas_formats(tmp_path: Path) -> None:
    """Kafka's tools can read the files: formats of its LogSegment, CheckpointFile and PartitionMetadataFile."""
    disk = open_disk(tmp_path, segment_bytes=140)
    disk.create(0, ORDERS, BORN, TopicId(77), created=Creation(BORN, 3))
    disk.append(0, ORDERS, [batch(0, "a", "b"), batch(2, "c", epoch=4), batch(3, "d", epoch=4)])
    disk.write_checkpoint(0, ((ORDERS, Offset(3)),))
    disk.close()

    folder = tmp_path / "orders-0"
    segments = sorted(path.name for path in folder.glob("*.log"))
    assert segments == ["00000000000000000000.log", "00000000000000000002.log"]
    values = []
    for name in segments:
        records = MemoryRecords((folder / name).read_bytes())
        while records.has_next():
            values += [(record.offset, record.value) for record in records.next_batch()]
    assert values == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert (tmp_path / CHECKPOINT).read_text() == "0\n1\norders 0 3\n"
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n4 2\n"
    assert (folder / "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAATQ\nborn: 7\ncreated: 7 3\n"


def test_records_are_read_back_across_segments(tmp_path: Path) -> None:
    disk = open_disk(tmp_path, segment_bytes=300)
    disk.create(0, ORDERS, BORN)
    batches = [batch(n, f"value {n}") for n in range(9)]
    disk.append(0, ORDERS, batches)
    disk.truncate(0, ORDERS, Offset(7))
    disk.append(0, ORDERS, [batch(7, "another", epoch=1)])
    batches[7:] = [batch(7, "another", epoch=1)]

    assert disk.with_records(0, ORDERS, [header_only(b) for b in batches]) == [b.values for b in batches]
    with pytest.raises(OSError, match="not where"):
        disk.with_records(0, ORDERS, [header_only(batch(7, "value 7"))])
    disk.close()
    restarted = open_disk(tmp_path)
    assert restarted.with_records(0, ORDERS, [header_only(b) for b in batches[6:]]) == [b.values for b in batches[6:]]
    restarted.close()


def test_record_at_a_reused_offset_is_told_apart_by_header(tmp_path: Path) -> None:
    """B-03: a follower without the offset check appends a batch below its LEO, so two batches have one base offset."""
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN)
    first, second = batch(0, "a", "b"), batch(0, "c", epoch=1)
    disk.append(0, ORDERS, [first, batch(2, "x"), second])
    assert disk.with_records(0, ORDERS, [header_only(first), header_only(second)]) == [first.values, second.values]
    disk.close()


def test_deleted_replica_can_be_created_again(tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0, "old")])
    pending = disk.flush_job(0)
    disk.delete(0, ORDERS)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0, "new")])
    pending()  # its log was deleted: the flush must neither fail nor touch the new log
    disk.flush_job(0)()
    disk.close()

    assert images_of(tmp_path)[0].logs == (image(ORDERS, batch(0, "new")),)


def test_topic_may_have_the_longest_name_of_kafka(tmp_path: Path) -> None:
    """The partition fills the longest folder name. Suffixes for creation and deletion must not make it too long."""
    longest = TopicPartition(f"{'x' * 249}-1000")
    disk = open_disk(tmp_path)
    for _ in range(2):
        disk.create(0, longest, BORN)
        disk.append(0, longest, [batch(0)])
        disk.delete(0, longest)
    disk.create(0, longest, BORN)
    disk.sweep_job(0)()
    disk.close()

    assert [path.name for path in tmp_path.iterdir()] == [longest]
    assert images_of(tmp_path) == (DirImage(0, readable=True, logs=(image(longest),)),)


def test_files_of_deleted_replicas_go_later_or_at_restart(tmp_path: Path) -> None:
    """A flush must not remove them: there may be a gigabyte of files, and acknowledgements wait for the flush."""
    disk = open_disk(tmp_path)
    left = []
    for remove in (disk.sweep_job, disk.flush_job):
        disk.create(0, ORDERS, BORN)
        disk.delete(0, ORDERS)
        left.append([path.name.partition(".")[0] for path in tmp_path.iterdir()])
        remove(0)()
        left.append([path.name.partition(".")[0] for path in tmp_path.iterdir()])
    disk.close()

    assert left == [[ORDERS], [], [ORDERS], [ORDERS]]
    assert images_of(tmp_path) == (DirImage(0, readable=True),)
    assert list(tmp_path.iterdir()) == []


def test_flush_makes_a_deletion_durable_before_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep may run late or never, but a flush reports everything before it as durable."""
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.delete(0, ORDERS)
    sweep = disk.sweep_job(0)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name))
    disk.flush_job(0)()
    flushed = list(synced)
    sweep()
    disk.flush_job(0)()
    disk.close()

    assert flushed == [tmp_path.name]
    assert synced == [tmp_path.name]
    assert list(tmp_path.iterdir()) == []


def test_failed_flush_closes_its_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that fails again and again must not use up the node's descriptors."""
    faults = DirFaults(1)
    disk = Disk([tmp_path], faults=faults)
    disk.recover()
    for tp in (ORDERS, BILLS):
        disk.create(0, tp, BORN)
    disk.flush_job(0)()
    open_ = [_open_below(tmp_path)]
    for broken in (True, False):  # the flush fails before any fsync, then in the first of two fsyncs
        disk.append(0, ORDERS, [batch(0 if broken else 1)])
        disk.append(0, BILLS, [batch(0 if broken else 1)])
        flush = disk.flush_job(0)
        faults.set(0, DirFault(broken=broken))
        monkeypatch.setattr(os, "fsync", _refused)
        with pytest.raises(OSError, match="Input/output error"):
            flush()
        faults.set(0, DirFault())
        open_.append(_open_below(tmp_path))
    disk.close()

    assert open_ == [2, 2, 2]


def _open_below(path: Path) -> int:
    return sum(Path(entry.path).resolve().is_relative_to(path) for entry in os.scandir("/proc/self/fd"))


def _refused(fd: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_flush_syncs_each_log_written_since_the_last_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = open_disk(tmp_path)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name))
    disk.create(0, ORDERS, BORN)
    created, synced[:] = list(synced), []
    disk.append(0, ORDERS, [batch(0)])
    disk.flush_job(0)()
    first, synced[:] = list(synced), []
    disk.flush_job(0)()
    second, synced[:] = list(synced), []
    disk.append(0, ORDERS, [batch(1)])
    disk.flush_job(0)()
    disk.close()

    # a new replica, its name and its metadata are durable before the first append
    assert created == ["partition.metadata", FIRST, f"{ORDERS}-creating", tmp_path.name]
    assert first == [FIRST]
    assert second == []
    assert synced == [FIRST]


def test_flush_syncs_every_written_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = open_disk(tmp_path, segment_bytes=100)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0), batch(1), batch(2)])
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name))
    disk.flush_job(0)()
    disk.close()
    assert synced == [segment_name(0), segment_name(1), segment_name(2)]


@pytest.mark.parametrize("damage", ["torn", "gap"])
def test_recovery_durably_removes_segments_behind_damage(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsync a power loss restores the segment; if the log has grown to its base offset, old records follow new ones."""
    disk = open_disk(tmp_path, segment_bytes=100)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0), batch(1), batch(2)])
    disk.close()
    second = tmp_path / ORDERS / segment_name(1)
    if damage == "torn":
        second.write_bytes(second.read_bytes()[:-1])
    else:
        second.unlink()
    synced: list[tuple[str, bool]] = []

    def sync(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        synced.append((path.name, (tmp_path / ORDERS / segment_name(2)).exists()))

    monkeypatch.setattr(os, "fsync", sync)
    images_of(tmp_path)

    assert (ORDERS, False) in synced


def test_unreadable_directory_does_not_affect_the_others(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")

    assert images_of(tmp_path / "file", tmp_path / "good") == (DirImage(0, readable=False), DirImage(1, readable=True))


@pytest.mark.parametrize(
    "content", ["", "1\n0\n", "0\n2\norders 0 1\n", "0\n1\norders 0\n", "0\n1\norders 0 x\n", "[]", "\x00\x00"]
)
def test_malformed_checkpoint_makes_the_directory_unreadable(tmp_path: Path, content: str) -> None:
    """Kafka fails the directory too: guessing a high watermark could lose data."""
    (tmp_path / CHECKPOINT).write_text(content)

    assert images_of(tmp_path) == (DirImage(0, readable=False),)


@pytest.mark.parametrize(
    "content",
    ["", "version: 1\nborn: 7\n", "version: 0\ntopic_id: !\nborn: 7\n", "version: 0\nborn: x\n", UNMARKED + "created: 7\n"],
)
def test_malformed_partition_metadata_makes_dir_unreadable(tmp_path: Path, content: str) -> None:
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.close()
    (tmp_path / ORDERS / "partition.metadata").write_text(content)

    assert images_of(tmp_path) == (DirImage(0, readable=False),)


def test_partition_metadata_without_a_creation_is_read(tmp_path: Path) -> None:
    """A broker that is upgraded finds logs from before their creation was marked."""
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN, created=Creation(BORN, 1))
    disk.close()
    (tmp_path / ORDERS / "partition.metadata").write_text(UNMARKED)

    assert images_of(tmp_path) == (DirImage(0, readable=True, logs=(image(ORDERS),)),)


def test_missing_first_segment_makes_the_directory_unreadable(tmp_path: Path) -> None:
    """There is no retention here, so a missing first segment means lost records."""
    disk = open_disk(tmp_path, segment_bytes=100)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0), batch(1)])
    disk.close()
    (tmp_path / ORDERS / FIRST).unlink()

    assert look([tmp_path]) == images_of(tmp_path) == (DirImage(0, readable=False),)
    assert (tmp_path / ORDERS / segment_name(1)).exists()


def test_reading_a_log_directory_changes_no_file(tmp_path: Path) -> None:
    """The harness reads the disks of a stopped node that will start again."""
    disk = open_disk(tmp_path, segment_bytes=150)
    disk.create(0, ORDERS, BORN)
    disk.create(0, BILLS, BORN)
    disk.append(0, ORDERS, [batch(0, "a"), batch(1, "b"), batch(2, "c"), batch(3, "d")])
    disk.delete(0, BILLS)
    disk.close()
    last = sorted((tmp_path / ORDERS).glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-3])
    before = sorted((str(path), path.stat().st_size) for path in tmp_path.rglob("*"))

    seen_images = look([tmp_path])
    assert sorted((str(path), path.stat().st_size) for path in tmp_path.rglob("*")) == before
    assert seen_images == images_of(tmp_path)
    assert seen_images[0].logs == (image(ORDERS, batch(0, "a"), batch(1, "b"), batch(2, "c")),)


def test_append_to_a_full_device_leaves_the_log_unchanged(tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0)])
    full = os.open("/dev/full", os.O_WRONLY)
    fd = disk._logs[0, ORDERS]._segments[-1].fd
    kept = os.dup(fd)
    os.dup2(full, fd)

    with pytest.raises(OSError, match="No space left"):
        disk.append(0, ORDERS, [batch(1)])
    os.close(full)
    os.close(kept)
    disk.close()
    assert images_of(tmp_path)[0].logs == (image(ORDERS, batch(0)),)


def test_half_written_checkpoint_does_not_replace_the_old_one(tmp_path: Path) -> None:
    """write() succeeds with fewer bytes on a nearly full disk; half a checkpoint would fail the directory at the next start."""
    disk = open_disk(tmp_path)
    disk.write_checkpoint(0, ((ORDERS, Offset(1)),))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="100 of 115 bytes of replication-offset-checkpoint"):
            disk.write_checkpoint(0, tuple((TopicPartition(f"orders-{index}"), Offset(2)) for index in range(10)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    disk.close()

    assert images_of(tmp_path)[0].checkpoint == ((ORDERS, 1),)


def test_dir_faults_refuse_accesses_and_count_them(tmp_path: Path) -> None:
    faults = DirFaults(2)
    disk = Disk([tmp_path / "a", tmp_path / "b"], faults=faults)
    disk.recover()
    for dir_, tp in ((0, ORDERS), (1, BILLS)):
        disk.create(dir_, tp, BORN)
    disk.append(1, BILLS, [batch(0)])
    faults.set(0, DirFault(broken=True))
    faults.set(1, DirFault(full=True))

    broken: tuple[Callable[[], object], ...] = (
        lambda: disk.append(0, ORDERS, [batch(0)]),
        lambda: disk.truncate(0, ORDERS, Offset(0)),
        lambda: disk.mark_clean(0, clean=False),
        lambda: disk.delete(0, ORDERS),
        lambda: disk.with_records(0, ORDERS, []),
        disk.flush_job(0),
    )
    for refused in broken:
        with pytest.raises(OSError, match="Input/output error"):
            refused()
    wants_room: tuple[Callable[[], object], ...] = (
        lambda: disk.append(1, BILLS, [batch(1)]),
        lambda: disk.write_checkpoint(1, ()),
    )
    for full in wants_room:
        with pytest.raises(OSError, match="No space left") as caught:
            full()
        assert caught.value.errno == errno.ENOSPC
    disk.flush_job(1)()
    disk.truncate(1, BILLS, Offset(0))
    faults.set(0, DirFault())
    disk.append(0, ORDERS, [batch(0)])
    disk.close()

    assert [counts.refused for counts in faults.counts] == [6, 2]


def test_slow_directory_delays_only_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = DirFaults(1)
    slept: list[float] = []
    monkeypatch.setattr("threading.Event.wait", lambda _, seconds: slept.append(seconds))
    disk = Disk([tmp_path], faults=faults)
    disk.recover()
    faults.set(0, DirFault(flush_ms=250))
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0)])
    assert slept == []
    disk.flush_job(0)()
    disk.close()
    assert slept == [0.25]
    assert faults.counts[0].delayed == 1


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(100, 400), st.data())
def test_recovery_keeps_exactly_the_batches_before_the_damage(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], segment_bytes: int, data: st.DataObject
) -> None:
    """A torn write or a flipped bit loses the batch that it hit and the later ones, never earlier ones."""
    path = tmp_path_factory.mktemp("dir")
    batches, base = [], 0
    for size in sizes:
        batches.append(batch(base, *(f"v{base + i}" for i in range(size))))
        base += size
    disk = open_disk(path, segment_bytes=segment_bytes)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, batches)
    disk.close()
    segments = sorted((path / ORDERS).glob("*.log"))
    damaged = data.draw(st.sampled_from(segments))
    content = bytearray(damaged.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans(), label="cut short, or damaged"):
        del content[at:]
    else:
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    hit = next(i for i, b in enumerate(batches) if segment_name(b.base_offset) == damaged.name)
    start = 0
    while start + len(batches[hit].values) <= at:
        start += len(batches[hit].values)
        hit += 1
    # the CRC does not cover the leader epoch
    is_harmless = len(content) >= at + 1 and 12 <= at - start < 16
    damaged.write_bytes(content)

    (log,) = images_of(path)[0].logs
    if not is_harmless:
        assert log.batches == tuple(header_only(b) for b in batches[:hit])
    (again,) = images_of(path)[0].logs
    assert again == log


def test_recovery_skips_crcs_after_a_clean_shutdown(tmp_path: Path) -> None:
    """Only headers are read then: checking the CRC would read every record."""
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0, "abc"), batch(1, "d")])
    disk.mark_clean(0, clean=True)
    disk.close()
    segment = tmp_path / ORDERS / FIRST
    segment.write_bytes(segment.read_bytes().replace(b"abc", b"abd"))

    assert images_of(tmp_path)[0].logs == (image(ORDERS, batch(0, "abc"), batch(1, "d")),)
    (tmp_path / CLEAN).unlink()
    assert images_of(tmp_path)[0].logs == (image(ORDERS),)


steps = st.lists(
    st.one_of(st.tuples(st.just("append"), st.integers(1, 3)), st.tuples(st.just("truncate"), st.integers(0, 12))), max_size=12
)


@given(steps, st.integers(80, 400))
def test_any_appends_and_truncations_survive_a_restart(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], segment_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("dir")
    disk = open_disk(path, segment_bytes=segment_bytes)
    disk.create(0, ORDERS, BORN)
    model: list[Batch] = []
    for number, (step, argument) in enumerate(steps):
        end = model[-1].base_offset + count(model[-1].values) if model else 0
        if step == "append":
            model.append(batch(end, *(f"{number}-{i}" for i in range(argument)), epoch=number))
            disk.append(0, ORDERS, [model[-1]])
        else:
            boundary = max((b.base_offset for b in model if b.base_offset <= argument), default=0)
            model = [b for b in model if b.base_offset < boundary]
            disk.truncate(0, ORDERS, Offset(boundary))
    assert disk.with_records(0, ORDERS, [header_only(b) for b in model]) == [b.values for b in model]
    disk.close()

    assert images_of(path)[0].logs == (image(ORDERS, *model),)
    epochs = [(b.leader_epoch, b.base_offset) for b in model]
    text = (path / ORDERS / "leader-epoch-checkpoint").read_text() if steps and epochs else "0\n0\n"
    assert text == "\n".join(["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs), ""])


def test_segment_bytes_equal_wire_bytes(tmp_path: Path) -> None:
    disk = open_disk(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0, "a", epoch=3)])
    disk.close()
    header, end = check((tmp_path / ORDERS / FIRST).read_bytes())
    assert (header.base_offset, header.leader_epoch, end) == (0, LeaderEpoch(3), (tmp_path / ORDERS / FIRST).stat().st_size)
