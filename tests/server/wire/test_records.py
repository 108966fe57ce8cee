"""Record batches v2: batches built by real clients are accepted and patched; malformed ones are refused."""

import gzip
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from reference.errors import ErrorCode
from reference.messages import Batch
from reference.sealed import HEADER_BYTES, count
from reference.types import LeaderEpoch, Offset, ProducerId
from server.wire.framing import WireError
from server.wire.records import RecordsError, batch_of, check, check_produced, patched, read_header, sealed, split

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch_built(builder: type, codec: int, values: list[bytes], *, producer_id: int = -1, sequence: int = -1) -> bytes:
    """A batch built by a client library."""
    epoch = -1 if producer_id == -1 else 2
    batch = builder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 24,
    )
    for index, value in enumerate(values):
        batch.append(index, timestamp=1_700_000_000_123 + index, key=b"k", value=value, headers=[("h", b"x")])
    return bytes(batch.build())


def records_in(data: bytes) -> list[tuple[int, bytes]]:
    """Offsets and values, decoded by aiokafka."""
    records = MemoryRecords(data)
    records_found = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        records_found += [(record.offset, record.value) for record in batch]
    return records_found


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_aiokafka_batches_are_accepted_patched_and_read_back(codec: int) -> None:
    values = [b"value %d" % n * 20 for n in range(50)]
    data = batch_built(DefaultRecordBatchBuilder, codec, values, producer_id=9, sequence=70)
    header = check_produced(data)
    assert (header.records, header.producer_id, header.producer_epoch, header.base_sequence) == (50, 9, 2, 70)
    assert count(data) == 50
    stored = Batch(Offset(1 << 40), LeaderEpoch(12), data, producer_id=ProducerId(9), producer_epoch=2, base_sequence=70)
    on_the_wire = patched(stored)
    assert batch_of(on_the_wire) == Batch(
        Offset(1 << 40), LeaderEpoch(12), on_the_wire, intact=True, producer_id=ProducerId(9), producer_epoch=2, base_sequence=70
    )
    assert records_in(on_the_wire) == [((1 << 40) + n, value) for n, value in enumerate(values)]


@pytest.mark.parametrize("codec", [0, 1])
def test_kafka_python_batches_are_accepted_and_patched(codec: int) -> None:
    data = batch_built(KafkaPythonBuilder, codec, [b"a" * 100, b"b"])
    check_produced(data)
    assert records_in(patched(Batch(Offset(7), LeaderEpoch(1), data))) == [(7, b"a" * 100), (8, b"b")]


@given(values=st.lists(st.text(max_size=200), min_size=1, max_size=150), offset=st.integers(0, 2**62))
def test_encoded_values_are_read_by_aiokafka(values: list[str], offset: int) -> None:
    data = sealed(values, timestamp_ms=5, producer_id=ProducerId(3), producer_epoch=1, base_sequence=10)
    assert check_produced(data).producer_id == 3
    stored = patched(Batch(Offset(offset), LeaderEpoch(4), data))
    assert records_in(stored) == [(offset + n, value.encode()) for n, value in enumerate(values)]
    assert read_header(stored).leader_epoch == 4


def test_encoded_record_batch_has_the_golden_bytes() -> None:
    """The bytes of one batch (Kafka documentation, "Record Batch"): a difference means that the format changed."""
    header = "0000000000000000 0000003a ffffffff 02 f99bc18b 0000 00000000 0000000000000001 0000000000000001"
    producer = "ffffffffffffffff ffff ffffffff 00000001"
    record = "10 00 00 00 01 04 7631 00"
    assert sealed(["v1"], timestamp_ms=1) == bytes.fromhex(f"{header} {producer} {record}")


def test_consecutive_record_batches_are_split() -> None:
    first_batch, second_batch = sealed(["a"]), sealed(["b", "c"])
    assert split(first_batch + second_batch) == [first_batch, second_batch]
    assert split(b"") == []
    with pytest.raises(RecordsError):
        split(first_batch + second_batch[:-1])


def error_of(records: bytes) -> ErrorCode:
    with pytest.raises(RecordsError) as caught:
        check_produced(records)
    return caught.value.error


def recrc(data: bytearray) -> bytes:
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def test_crc_detects_any_single_bit_flip() -> None:
    data = sealed(["some value"])
    for at in range(17, len(data)):
        broken = bytearray(data)
        broken[at] ^= 4
        assert error_of(bytes(broken)) is ErrorCode.CORRUPT_MESSAGE


def test_incomplete_or_too_long_batches_are_refused() -> None:
    data = sealed(["some value"])
    assert error_of(b"") is ErrorCode.CORRUPT_MESSAGE
    for end in (1, 17, HEADER_BYTES - 1, HEADER_BYTES, len(data) - 1):
        assert error_of(data[:end]) is ErrorCode.CORRUPT_MESSAGE
    assert error_of(data + b"x") is ErrorCode.INVALID_RECORD
    assert error_of(data + data) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1])
def test_impossible_batch_lengths_are_refused(length: int) -> None:
    broken = bytearray(sealed(["some value"]))
    broken[8:12] = struct.pack(">i", length)
    assert error_of(bytes(broken)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_older_message_formats_are_refused_with_their_number(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1000)
    builder.append(0, timestamp=1, key=None, value=b"v" * 60)
    assert error_of(bytes(builder.build())) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (21, b"\x00\x20"),  # a control batch: only brokers write these
        (21, b"\x00\x10"),  # a transaction
        (21, b"\x00\x05"),  # unknown compression
        (57, b"\x00\x00\x00\x02"),  # more records than offsets
        (57, b"\xff\xff\xff\xff"),
        (23, b"\x00\x00\x00\x05"),  # more offsets than records
    ],
)
def test_header_fields_reserved_to_brokers_are_refused(at: int, value: bytes) -> None:
    broken = bytearray(sealed(["v"]))
    broken[at : at + len(value)] = value
    assert error_of(recrc(broken)) is ErrorCode.INVALID_RECORD


def test_batch_with_negative_offset_delta_is_corrupt() -> None:
    broken = bytearray(sealed(["v"]))
    broken[23:27] = b"\xff\xff\xff\xfe"
    assert error_of(recrc(broken)) is ErrorCode.CORRUPT_MESSAGE


@given(data=st.binary(max_size=200))
def test_any_bytes_give_a_batch_or_a_wire_error(data: bytes) -> None:
    try:
        header, end = check(data)
    except WireError:
        return
    assert end == 12 + header.length


@given(data=st.binary(max_size=100), at=st.integers(0, 80))
def test_any_bytes_inside_a_batch_give_a_batch_or_a_wire_error(data: bytes, at: int) -> None:
    good = sealed(["abc", "def"])
    try:
        check_produced(good[:at] + data + good[at + len(data) :])
    except WireError:
        return


def test_compressed_records_are_never_decompressed() -> None:
    """A compression bomb must not use memory here."""
    bomb = gzip.compress(bytes(10_000_000))
    broken = bytearray(sealed(["v"])[:HEADER_BYTES] + bomb)
    broken[8:12] = struct.pack(">i", len(broken) - 12)
    broken[21:23] = b"\0\1"
    check_produced(recrc(broken))


def test_batch_of_text_values_has_no_header_to_patch() -> None:
    with pytest.raises(TypeError):
        patched(Batch(Offset(0), LeaderEpoch(0), ("a",)))
