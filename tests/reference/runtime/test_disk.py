"""What is written to real files is what a restart finds."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.events import DirImage, LogImage
from reference.messages import Batch
from reference.runtime.disk import CHECKPOINT, Disk, frame, read_frames
from reference.types import Incarnation, LeaderEpoch, Offset, TopicPartition

BORN = Incarnation(7)
ORDERS = TopicPartition("orders-0")
BILLS = TopicPartition("bills-3")


def batch(base: int, *values: str, epoch: int = 0) -> Batch:
    return Batch(Offset(base), LeaderEpoch(epoch), values or ("v",))


def opened(*paths: Path) -> Disk:
    disk = Disk(paths)
    disk.recover()
    return disk


def found(*paths: Path) -> tuple[DirImage, ...]:
    disk = Disk(paths)
    try:
        return disk.recover()
    finally:
        disk.close()


def test_an_empty_directory_is_made_and_holds_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "a" / "b") == (DirImage(0, readable=True),)


def test_a_restart_finds_what_was_appended_and_checkpointed(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.create(0, BILLS, BORN)
    disk.append(0, ORDERS, [batch(0, "a", "b"), batch(2, "c", epoch=1)])
    disk.append(0, ORDERS, [batch(3, "d", epoch=1)])
    disk.write_checkpoint(0, ((BILLS, Offset(0)), (ORDERS, Offset(2))))
    disk.close()

    logs = (
        LogImage(BILLS, (), BORN),
        LogImage(ORDERS, (batch(0, "a", "b"), batch(2, "c", epoch=1), batch(3, "d", epoch=1)), BORN),
    )
    assert found(tmp_path) == (DirImage(0, readable=True, logs=logs, checkpoint=((BILLS, 0), (ORDERS, 2))),)


def test_a_deleted_replica_is_gone_and_can_be_made_again(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0, "old")])
    pending = disk.flush_job(0)
    disk.delete(0, ORDERS)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0, "new")])
    pending()  # of a log that is gone: must neither fail nor touch the new one
    disk.flush_job(0)()
    disk.close()

    assert found(tmp_path)[0].logs == (LogImage(ORDERS, (batch(0, "new"),), BORN),)


def test_a_flush_syncs_each_log_that_was_written_since_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = opened(tmp_path)
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

    # a new replica is durable with its name and its birth before anything is written to it
    assert created == ["partition.metadata", "log", f"{ORDERS}.creating", tmp_path.name]
    assert first == ["log"]
    assert second == []
    assert synced == ["log"]


def test_a_directory_that_cannot_be_read_is_shown_as_such_and_the_others_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")

    assert found(tmp_path / "file", tmp_path / "good") == (DirImage(0, readable=False), DirImage(1, readable=True))


def test_a_checkpoint_that_is_no_checkpoint_makes_the_directory_unreadable(tmp_path: Path) -> None:
    """Kafka takes it for a failed directory too: guessing a high watermark could lose data."""
    (tmp_path / CHECKPOINT).write_text("0\n1\n")

    assert found(tmp_path) == (DirImage(0, readable=False),)


def test_writing_to_a_full_device_fails_and_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    disk.create(0, ORDERS, BORN)
    disk.append(0, ORDERS, [batch(0)])
    log = disk._logs[0, ORDERS]
    os.dup2(os.open("/dev/full", os.O_WRONLY), log.fd)

    with pytest.raises(OSError, match="No space left"):
        disk.append(0, ORDERS, [batch(1)])
    disk.close()
    assert found(tmp_path)[0].logs == (LogImage(ORDERS, (batch(0),), BORN),)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.data())
def test_recovery_keeps_exactly_the_whole_batches_before_the_first_damage(sizes: list[int], data: st.DataObject) -> None:
    """A torn write, or a flipped bit, costs the batch it hit and what stands after it; never what stands before."""
    batches, base = [], 0
    for size in sizes:
        batches.append(batch(base, *(f"v{base + i}" for i in range(size))))
        base += size
    frames = [frame(b) for b in batches]
    content = bytearray(b"".join(frames))
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans(), label="cut short, or damaged"):
        del content[at:]
    else:
        content[at] ^= 1 << data.draw(st.integers(0, 7))

    read, whole = read_frames(bytes(content))

    hit, end = 0, 0
    while end + len(frames[hit]) <= at:
        end += len(frames[hit])
        hit += 1
    assert [b for _, b in read] == batches[:hit]
    assert whole == end


steps = st.lists(
    st.one_of(st.tuples(st.just("append"), st.integers(1, 3)), st.tuples(st.just("truncate"), st.integers(0, 12))), max_size=12
)


@given(steps)
def test_any_sequence_of_writes_and_truncations_is_found_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("dir")
    disk = opened(path)
    disk.create(0, ORDERS, BORN)
    model: list[Batch] = []
    for number, (what, argument) in enumerate(steps):
        end = model[-1].base_offset + len(model[-1].values) if model else 0
        if what == "append":
            model.append(batch(end, *(f"{number}-{i}" for i in range(argument)), epoch=number))
            disk.append(0, ORDERS, [model[-1]])
        else:
            boundary = max((b.base_offset for b in model if b.base_offset <= argument), default=0)
            model = [b for b in model if b.base_offset < boundary]
            disk.truncate(0, ORDERS, Offset(boundary))
    disk.close()

    assert found(path)[0].logs == (LogImage(ORDERS, tuple(model), BORN),)
