"""Record batches are decoded for the history, with any compression."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from highwater.backends.real.batches import opened, opened_dirs, opened_line
from highwater.errors import HarnessError
from reference.effects import Note
from reference.messages import Batch
from reference.types import Incarnation, LeaderEpoch, Offset, TopicPartition
from server.disk.log_dirs import Disk
from server.lab.notes import NoteLine
from server.wire.records import batch_of, sealed

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch_bytes(values: Sequence[str], codec: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=9999
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=0, key=None, value=value.encode(), headers=[])
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS)
def test_batch_is_decoded_with_any_compression(codec: str) -> None:
    batch = Batch(Offset(40), LeaderEpoch(3), batch_bytes(["a", "bc"], CODECS[codec]))

    assert opened(batch) == Batch(Offset(40), LeaderEpoch(3), ("a", "bc"))


def test_batch_of_plain_values_is_not_decoded_again() -> None:
    batch = Batch(Offset(0), LeaderEpoch(0), ("a",))

    assert opened(batch) is batch


def test_damaged_batch_is_a_harness_error() -> None:
    """It is no anomaly: brokers check batches when they accept them, and here the harness reads the disk."""
    data = bytearray(batch_bytes(["a"], 0))
    data[-2] ^= 1

    with pytest.raises(HarnessError, match="the batch at offset 7 fails its CRC check"):
        opened(Batch(Offset(7), LeaderEpoch(0), bytes(data)))


def test_batches_in_a_broker_report_are_decoded() -> None:
    note = Note(kind="append", batches=(batch_of(sealed(["a"])),))
    line = NoteLine(node="b1", life=1, time_ns=0, note=note)

    assert [batch.values for batch in opened_line(line).note.batches] == [("a",)]


def test_batches_of_a_log_on_disk_are_decoded(tmp_path: Path) -> None:
    tp = TopicPartition("t-0")
    disk = Disk([tmp_path / "logs"])
    disk.recover()
    disk.create(0, tp, Incarnation(1))
    for offset, value in enumerate(("a", "b")):
        disk.append(0, tp, [Batch(Offset(offset), LeaderEpoch(2), sealed([value]))])
    disk.close()

    (image,) = opened_dirs([tmp_path / "logs"])

    assert [(batch.base_offset, batch.leader_epoch, batch.values) for batch in image.logs[0].batches] == [
        (0, 2, ("a",)),
        (1, 2, ("b",)),
    ]
