"""Sealed records: one record batch in Kafka's format v2, of which the protocol reads the header and never the records.

The simulator carries values in the clear, as tuples of strings. Kafka's wire protocol carries sealed batches, perhaps compressed;
brokers store and forward them unchanged. The CRC does not cover the base offset and the leader epoch: both are written into the
header when a batch leaves the machine (`server.wire.records`). A sealed batch is never divided: truncation inside of one removes
the whole batch, and a read ends with a whole batch, as in Kafka. Where the records are on a disk, the header alone stands for a
batch.
"""

Values = tuple[str, ...] | bytes

HEADER_BYTES = 61
_LENGTH_FROM = 12  # the length of a batch counts the bytes after it
_LENGTH = slice(8, _LENGTH_FROM)
_LAST_OFFSET_DELTA = slice(23, 27)


def count(values: Values) -> int:
    """The number of offsets that a batch's values take; a batch in bytes must have at least its HEADER_BYTES."""
    if isinstance(values, bytes):
        return int.from_bytes(values[_LAST_OFFSET_DELTA], "big", signed=True) + 1
    return len(values)


def size(values: Values) -> int:
    """The size of a batch: bytes as its header says; for values kept as text the number of characters."""
    if isinstance(values, bytes):
        return _LENGTH_FROM + int.from_bytes(values[_LENGTH], "big", signed=True)
    return sum(map(len, values))


def in_the_clear(values: Values) -> tuple[str, ...]:
    """The values of a batch kept as text. TypeError for a batch of bytes: only the consumer opens one."""
    if isinstance(values, bytes):
        raise TypeError("expected values as text, not the bytes of a record batch")
    return values
