"""Sealed records: one record batch in Kafka's format v2, of which the protocol reads the header and never the records.

The simulator carries values in the clear, as tuples of strings; over Kafka's wire protocol come sealed batches, compressed
perhaps, that brokers store and hand on as they came. The offset of the first record and the leader epoch stand outside of what
the CRC covers, and are written into the header where a batch leaves the machine (`server.wire.records`). A sealed batch is
never divided: a log that is cut inside of one loses all of it, and what is read of a log ends with a whole one, as in Kafka.
The header alone stands for a batch where the records are on a disk.
"""

Values = tuple[str, ...] | bytes

HEADER_BYTES = 61
_LENGTH_FROM = 12  # the length of a batch counts the bytes after it
_LENGTH = slice(8, _LENGTH_FROM)
_LAST_OFFSET_DELTA = slice(23, 27)


def count(values: Values) -> int:
    """How many offsets these records take; at least HEADER_BYTES of a sealed batch must be there."""
    if isinstance(values, bytes):
        return int.from_bytes(values[_LAST_OFFSET_DELTA], "big", signed=True) + 1
    return len(values)


def size(values: Values) -> int:
    """Bytes as the header says, where they are sealed; characters of values in the clear."""
    if isinstance(values, bytes):
        return _LENGTH_FROM + int.from_bytes(values[_LENGTH], "big", signed=True)
    return sum(map(len, values))


def in_the_clear(values: Values) -> tuple[str, ...]:
    """The values where they are in the clear. TypeError of a sealed batch, which only its reader at the far end opens."""
    if isinstance(values, bytes):
        raise TypeError("a sealed batch")
    return values
