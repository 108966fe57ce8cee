"""The log of each key as its operations show it, with the writers and readers of each value.

The log maps an offset to the values observed there. Polls of any operation count, because a consumer is given safe data whatever
becomes of its transaction. Sends count if the operation must have committed: it succeeded, or a successful operation read one of
its values. Gaps are normal, so places are compared by index: the rank of an offset among those that hold a value. Records whose
index is unknown accuse no operation.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property

from checkers.kafka.transactions import Op, Record
from history.op import OpType


class Log:
    """The log of one key (partition) as clients saw it: the values at each offset, and who wrote and read each value."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.offsets: dict[int, dict[Hashable, Op]] = {}  # offset -> value -> the first operation that shows it
        self.writers: dict[Hashable, list[Op]] = {}
        self.readers: dict[Hashable, list[Op]] = {}

    @cached_property
    def order(self) -> list[int]:
        """The offsets of the log that hold a value, sorted; the position in this list is an offset's index."""
        return sorted(self.offsets)

    @cached_property
    def index(self) -> dict[int, int]:
        """The index of each offset of the log among the offsets that hold a value."""
        return {offset: index for index, offset in enumerate(self.order)}

    @cached_property
    def indices_of(self) -> dict[Hashable, list[int]]:
        """For each value of the log, the indices at which it was observed, ascending."""
        indices_by_value: dict[Hashable, list[int]] = {}
        for index, offset in enumerate(self.order):
            for value in self.offsets[offset]:
                indices_by_value.setdefault(value, []).append(index)
        return indices_by_value

    def index_of(self, offset: int | None, value: Hashable) -> int | None:
        """Return the index of a record in the log; None if unknown, or if it has no offset and its value is at several."""
        if offset is not None and value in self.offsets.get(offset, ()):
            return self.index[offset]
        indices = self.indices_of.get(value, ())
        return indices[0] if len(indices) == 1 else None

    def has_in_a_row(self, polled: Sequence[Record]) -> bool:
        """True if each of these records of one poll certainly is right behind the one before. All were polled with an offset."""
        first = self.index.get(polled[0][1], 0)  # type: ignore[arg-type]  # None is no offset
        return [self.index.get(offset) for _, offset, _ in polled] == list(range(first, first + len(polled)))  # type: ignore[arg-type]

    def between(self, first: int, last: int) -> list[Hashable]:
        """Return the values of the log between two indices, excluding both."""
        return [value for index in range(first + 1, last) for value in self.offsets[self.order[index]]]

    def writer(self, value: Hashable) -> Op | None:
        """Return the operation that sent this value; None if none or several did."""
        writers = self.writers.get(value, ())
        return writers[0] if len(writers) == 1 else None


class Logs:
    """The logs of all keys (partitions) of a history of sends and polls."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.keys: dict[Hashable, Log] = {}
        for op in ops:
            for key, _, value in op.sends:
                self._log(key).writers.setdefault(value, []).append(op)
            for key, _, value in op.polls:
                all_readers = (self.keys.get(key) or self._log(key)).readers
                readers = all_readers.get(value)
                if readers is None:
                    all_readers[value] = [op]
                elif readers[-1] is not op:
                    readers.append(op)
        self._committed = {op.number for op in ops if op.type is OpType.OK or self._was_read(op)}
        for op in ops:
            for key, offset, value in (*op.polls, *(op.sends if op.number in self._committed else ())):
                if offset is not None:
                    offsets = self.keys[key].offsets
                    values_at_offset = offsets.get(offset)
                    if values_at_offset is None:
                        offsets[offset] = {value: op}
                    elif value not in values_at_offset:
                        values_at_offset[value] = op

    def committed(self, op: Op) -> bool:
        """True if the operation succeeded, or its outcome is unknown and a successful operation read one of its values."""
        return op.number in self._committed

    def _log(self, key: Hashable) -> Log:
        log = self.keys.get(key)
        if log is None:
            log = self.keys[key] = Log(key)
        return log

    def _was_read(self, op: Op) -> bool:
        return op.type is OpType.INFO and any(
            reader.type is OpType.OK for key, _, value in op.sends for reader in self.keys[key].readers.get(value, ())
        )
