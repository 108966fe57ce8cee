"""Record batches in Kafka's format v2 (KIP-98): only the header is read, never the records.

Bytes of a batch: base offset 8, length of the rest 4, leader epoch 4, magic 1, CRC-32C 4, attributes 2, last offset delta 4,
base and largest timestamp 8 each, producer id 8, producer epoch 2, base sequence 4, number of records 4, records. The CRC covers
everything from the attributes on. Base offset and leader epoch come before it, so a broker can set both without recomputing the
CRC or decompressing the records.
"""

import struct
from collections.abc import Sequence

from crc32c import crc32c
from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import Batch
from reference.sealed import HEADER_BYTES, count
from reference.types import NO_PRODUCER_ID, NO_SEQUENCE, LeaderEpoch, Offset, ProducerId
from server.wire.framing import WireError

MAGIC = 2
LENGTH_FROM = 12  # the length counts the bytes after it
_CRC_FROM = 21
_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qii")  # base offset, length, leader epoch
_COMPRESSION = 0x07
_COMPRESSION_MAX = 4  # none, gzip, snappy, lz4, zstd
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40
_NOT_OF_A_CLIENT = _TRANSACTIONAL | _CONTROL | _DELETE_HORIZON


class RecordsError(WireError):
    """A record batch that must not be appended; `error` is the code that its producer gets."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


class BatchHeader(Struct, frozen=True, array_like=True):
    """The header of a record batch (Kafka's format v2); times are milliseconds since 1970."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int


def read_header(data: bytes, at: int = 0) -> BatchHeader:
    """Decode the header of a record batch without checking it; RecordsError if bytes are missing."""
    if len(data) - at < HEADER_BYTES:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"{len(data) - at} bytes; a record batch has at least {HEADER_BYTES}")
    return BatchHeader(*_HEADER.unpack_from(data, at))


def check(data: bytes, at: int = 0) -> tuple[BatchHeader, int]:
    """Check the record batch at position `at`; returns its header and the position behind it.

    RecordsError if it is cut short, not v2, or its CRC is wrong.
    """
    header = read_header(data, at)
    end = at + LENGTH_FROM + header.length
    # Check the magic first: older formats have other fields at these positions (KIP-98).
    if header.magic != MAGIC:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"records of format {header.magic}; format {MAGIC} is taken")
    if end - at < HEADER_BYTES or end > len(data):
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"a record batch of {end - at} bytes, of which {len(data) - at} are there")
    if crc32c(memoryview(data)[at + _CRC_FROM : end]) != header.crc:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, "a record batch does not match its CRC")
    if header.last_offset_delta < 0:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"a record batch that ends {header.last_offset_delta} after its start")
    return header, end


def check_produced(records: bytes) -> BatchHeader:
    """Check the records of one partition of a produce request (KIP-98): one batch, no transaction, no control records.

    RecordsError if the batch must not be appended.
    """
    header, end = check(records)
    if end != len(records):
        raise RecordsError(ErrorCode.INVALID_RECORD, f"{len(records) - end} bytes after the one record batch of a produce")
    if header.attributes & _NOT_OF_A_CLIENT or header.attributes & _COMPRESSION > _COMPRESSION_MAX:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"a record batch with attributes {header.attributes:#06x}")
    if header.records <= 0 or header.last_offset_delta != header.records - 1:
        offsets = header.last_offset_delta + 1
        raise RecordsError(ErrorCode.INVALID_RECORD, f"a record batch of {header.records} records with {offsets} offsets")
    return header


def split(data: bytes) -> list[bytes]:
    """Split consecutive record batches, as in a fetch response, and check each; RecordsError if the last one is incomplete."""
    batches = []
    at = 0
    while at < len(data):
        _, end = check(data, at)
        batches.append(data[at:end])
        at = end
    return batches


def batch_of(data: bytes) -> Batch:
    """Turn the bytes of a record batch into a `Batch`, with offset, epoch and producer fields from its header."""
    return batch_with(read_header(data), data)


def batch_with(header: BatchHeader, data: bytes) -> Batch:
    """Turn the bytes of a record batch into a `Batch`; `header` is already decoded."""
    return Batch(
        base_offset=Offset(header.base_offset),
        leader_epoch=LeaderEpoch(header.leader_epoch),
        values=data,
        producer_id=ProducerId(header.producer_id),
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def patched(batch: Batch) -> bytes:
    """The bytes of a record batch with the broker's base offset and leader epoch in the header. TypeError for text values."""
    values = batch.values
    if not isinstance(values, bytes):
        raise TypeError("a batch of text values cannot be written as bytes")
    return b"".join(pieces(batch))


def pieces(batch: Batch) -> tuple[bytes, bytes]:
    """A record batch with the broker's base offset and epoch in two pieces: the changed start, and the rest without a copy."""
    values = batch.values
    assert isinstance(values, bytes)
    return prefix(batch), values[_PREFIX.size :]


def prefix(batch: Batch) -> bytes:
    """The first bytes of a record batch, which the broker sets: base offset, length and leader epoch."""
    values = batch.values
    assert isinstance(values, bytes)
    return _PREFIX.pack(batch.base_offset, int.from_bytes(values[8:LENGTH_FROM], "big", signed=True), batch.leader_epoch)


def sealed(
    values: Sequence[str],
    *,
    timestamp_ms: int = 0,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """Encode values as the bytes of one record batch at offset 0, without keys or compression, for tests and tools."""
    assert values
    body = b"".join(_record(index, value.encode()) for index, value in enumerate(values))
    times = (timestamp_ms, timestamp_ms)
    last = len(values) - 1
    fields = (0, last, *times, producer_id, producer_epoch, base_sequence, len(values))
    covered = struct.pack(">hiqqqhii", *fields) + body
    start = struct.pack(">qiibI", 0, HEADER_BYTES - LENGTH_FROM + len(body), -1, MAGIC, crc32c(covered))
    batch = start + covered
    assert count(batch) == len(values)
    return batch


def _record(index: int, value: bytes) -> bytes:
    """Encode one record: attributes, timestamp delta, offset delta, null key, value, no headers."""
    body = b"\0" + _zigzag(0) + _zigzag(index) + _zigzag(-1) + _zigzag(len(value)) + value + _zigzag(0)
    return _zigzag(len(body)) + body


def _zigzag(number: int) -> bytes:
    """A signed varint, as records encode their numbers."""
    bits = number * 2 if number >= 0 else -number * 2 - 1
    groups = bytearray()
    while bits >= 0x80:
        groups.append(bits & 0x7F | 0x80)
        bits >>= 7
    groups.append(bits)
    return bytes(groups)
