"""Segments and checkpoints of Kafka brokers, in all message formats, as a kill leaves them."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c as crc32c

from highwater.backends.real.systems.kafka.segments import CONTROL, NO_EPOCH, look
from highwater.rig.end_state import log_rows
from history.event import ClusterEvent, EventKind
from history.recorder import Recorder
from reference.messages import Batch
from reference.types import BrokerId, LeaderEpoch, Offset

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
CONTROL_BIT = 0x20


def batch(offset: int, values: Sequence[str], *, epoch: int = 0, codec: int = 0) -> bytes:
    """A batch of format v2 as a leader stores it."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=9999
    )
    for at, value in enumerate(values):
        builder.append(at, timestamp=0, key=None, value=value.encode(), headers=[])
    built = builder.build()
    return struct.pack(">q", offset) + bytes(built[8:12]) + struct.pack(">i", epoch) + bytes(built[16:])


def messages(offset: int, values: Sequence[str], *, codec: int = 0, magic: int = 1) -> bytes:
    """Messages of format v0 or v1 as a leader stores them; compressed ones lie in a wrapper that has the last one's offset."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=9999)
    for at, value in enumerate(values):
        # Inside of a wrapper offsets are relative since v1.
        builder.append(at if codec and magic else offset + at, timestamp=0, key=None, value=value.encode())
    built = bytes(builder.build())
    return struct.pack(">q", offset + len(values) - 1) + built[8:] if codec else built


def log(folder: Path, **segments: bytes) -> Path:
    """A replica's folder in a log directory with these segments, named by their first offset: `at_0`, `at_5` …"""
    folder.mkdir(parents=True)
    for name, data in segments.items():
        (folder / f"{int(name.removeprefix('at_')):020d}.log").write_bytes(data)
    return folder


def batches_in(path: Path) -> list[tuple[int, int, tuple[str, ...]]]:
    (image,) = look([path])
    (only,) = image.logs
    return [
        (this_batch.base_offset, this_batch.leader_epoch, this_batch.values)
        for this_batch in only.batches
        if isinstance(this_batch.values, tuple)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_format_v2_have_offsets_and_epochs(tmp_path: Path, codec: str) -> None:
    log(tmp_path / "t-0", at_0=batch(0, ["a", "b"], epoch=3, codec=CODECS[codec]) + batch(2, ["c"], epoch=4))

    assert batches_in(tmp_path) == [(0, 3, ("a",)), (1, 3, ("b",)), (2, 4, ("c",))]


@pytest.mark.parametrize(("codec", "magic"), [*((codec, 1) for codec in CODECS), ("none", 0), ("gzip", 0)])
def test_messages_of_old_formats_have_offsets_and_no_epoch(tmp_path: Path, codec: str, magic: int) -> None:
    log(tmp_path / "t-0", at_0=messages(0, ["a", "b"], codec=CODECS[codec], magic=magic) + messages(2, ["c"], magic=magic))

    assert batches_in(tmp_path) == [(0, NO_EPOCH, ("a",)), (1, NO_EPOCH, ("b",)), (2, NO_EPOCH, ("c",))]


@pytest.mark.parametrize("tail", [batch(2, ["torn"])[:-1], batch(2, ["x"])[:-1] + b"?", bytes(64), batch(2, ["x"])[:9]])
def test_torn_or_preallocated_tail_ends_the_log(tmp_path: Path, tail: bytes) -> None:
    log(tmp_path / "t-0", at_0=batch(0, ["a", "b"]) + tail)

    assert [values for *_, values in batches_in(tmp_path)] == [("a",), ("b",)]


def test_segment_behind_a_torn_one_is_no_part_of_the_log(tmp_path: Path) -> None:
    log(tmp_path / "t-0", at_0=batch(0, ["a"]) + b"torn", at_1=batch(1, ["b"]))

    assert [values for *_, values in batches_in(tmp_path)] == [("a",)]


def test_segments_follow_each_other_in_the_order_of_offsets(tmp_path: Path) -> None:
    folder = log(tmp_path / "t-0", at_2=batch(2, ["c"]), at_0=batch(0, ["a", "b"]))
    (folder / "00000000000000000000.log.deleted").write_bytes(batch(0, ["old"]))
    (folder / "00000000000000000000.index").write_bytes(bytes(10 << 10))

    assert [offset for offset, *_ in batches_in(tmp_path)] == [0, 1, 2]


def test_control_records_count_and_have_no_value_of_a_client(tmp_path: Path) -> None:
    data = bytearray(batch(0, ["commit"]))
    data[22] |= CONTROL_BIT
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    log(tmp_path / "t-0", at_0=bytes(data))

    assert batches_in(tmp_path) == [(0, 0, (CONTROL,))]


def test_folders_that_are_no_replicas_in_use_are_left_out(tmp_path: Path) -> None:
    for name in ("t-0", "t-0.0f-delete", "t-1.0f-future", "t-2.0f-stray", "__consumer_offsets-0", "lost+found"):
        log(tmp_path / name, at_0=batch(0, ["a"]))

    assert [image.tp for image in look([tmp_path])[0].logs] == ["t-0"]


def test_unreadable_directory_has_no_logs(tmp_path: Path) -> None:
    (image,) = look([tmp_path / "gone"])

    assert (image.readable, image.logs) == (False, ())


def rows(path: Path) -> list[ClusterEvent]:
    recorder = Recorder(lambda: 7)
    recorder.record(log_rows(BrokerId(1), look([path]), noted=False))
    return list(recorder.events)


def test_end_of_a_log_has_records_and_the_checkpointed_hw(tmp_path: Path) -> None:
    log(tmp_path / "t-0", at_0=batch(0, ["a", "b"], epoch=3))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")

    first, *records = rows(tmp_path)

    assert (first.kind, first.node, first.leo, first.hw) == (EventKind.LOG_ON_DISK, "b1", 2, 1)
    assert [(event.kind, event.offset, event.leader_epoch, event.value) for event in records] == [
        (EventKind.RECORD_ON_DISK, 0, 3, "a"),
        (EventKind.RECORD_ON_DISK, 1, 3, "b"),
    ]


def test_log_without_its_first_records_has_an_end_and_no_digest(tmp_path: Path) -> None:
    """Replicas need not delete old segments at once, so digests of their logs would differ."""
    log(tmp_path / "t-0", at_5=batch(5, ["f"]))
    log(tmp_path / "t-1", at_9=b"")

    end_rows = [row for row in rows(tmp_path) if row.kind is EventKind.LOG_ON_DISK]

    assert [(row.partition, row.leo, row.digest) for row in end_rows] == [(0, 6, None), (1, 9, None)]


def test_other_batch_boundaries_do_not_change_the_digest(tmp_path: Path) -> None:
    log(tmp_path / "d" / "t-0", at_0=batch(0, ["a", "b"]))
    log(tmp_path / "e" / "t-0", at_0=batch(0, ["a"]) + batch(1, ["b"]))

    assert rows(tmp_path / "d")[0].digest == rows(tmp_path / "e")[0].digest
    assert look([tmp_path / "d"])[0].logs[0].batches[0] == Batch(Offset(0), LeaderEpoch(0), ("a",))
