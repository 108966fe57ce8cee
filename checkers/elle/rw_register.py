"""Elle's rw-register workload: `[:w k v]` and `[:r k v]`. Values are written once per key; nil is the first version.

The version order is known in part only. Each inference depends on the promised level: if it were wrong, the history would show
another forbidden anomaly.

- Nil is before every value that was certainly written.
- If a transaction read v and wrote w, v is before w; otherwise the writer of v would be both before and after it (G1c).
- If a transaction returned before another was invoked, the version that it left is not after the version that the other found
  (G-single-realtime); the same within a process (G-single-process).

The order of the other versions is searched (`checkers.elle.orders`). A value that no transaction wrote
(`checkers.elle.phantoms`) has no place in the order. A key to which a value was written twice is unchecked.
"""

from collections.abc import Callable, Iterator, Sequence
from graphlib import TopologicalSorter
from itertools import groupby
from operator import itemgetter

import numpy as np

from checkers.elle.found import Found
from checkers.elle.graph import RW, WR, WW, Edges, components, edges, fan
from checkers.elle.orders import Unordered, Write
from checkers.elle.phantoms import Phantoms, of_registers
from checkers.elle.table import NEVER, NIL, Ints, Table

WRITES = "w"
_Version = tuple[int, int]  # key and value


class RwRegister:
    """The writers, readers and (partial) version order of each register key of a history."""

    def __init__(self, table: Table, forbidden: frozenset[str]) -> None:
        self._table = table
        self._forbidden = forbidden
        self._writer: dict[_Version, int] = {}
        self._failed: dict[_Version, int] = {}
        self._last: dict[tuple[int, int], int] = {}  # (transaction, key) -> the value that it left
        self._outer: dict[tuple[int, int], int] = {}  # (transaction, key) -> the value that it found
        self._reads: list[tuple[int, int, int]] = []  # (transaction, key, value) of reads from other transactions
        self._readers: dict[_Version, list[int]] = {}
        self._within: list[Found] = []
        self._bad_keys: set[int] = set()
        self.unchecked = list(table.odd)
        self.junctions = 0
        self._read_columns()
        # Versions that certainly exist: those left by a committed transaction, and those that were read. If one value of a
        # transaction of unknown outcome was read, the transaction committed (otherwise G1a), so its other versions exist, too.
        proven = {
            self._writer[v] for v in self._readers if v in self._writer and v[0] not in self._bad_keys and "G1a" in forbidden
        }
        self._left = {
            (key, value): transaction
            for (transaction, key), value in self._last.items()
            if key not in self._bad_keys
            and (table.end[transaction] < NEVER or (key, value) in self._readers or transaction in proven)
        }

    def _read_columns(self) -> None:
        """Read the micro-operations in order: who wrote each version, what each transaction read from outside and left."""
        table = self._table
        values_held: dict[int, int] = {}
        own: set[tuple[int, int]] = set()
        before = -1
        columns = (table.transaction.tolist(), table.key.tolist(), table.write.tolist(), table.value.tolist())
        for transaction, key, write, value in zip(*columns, strict=True):
            if transaction >= table.count:
                if write:
                    self._failed[key, value] = transaction
                continue
            if transaction != before:
                values_held = {}
                own = set()
                before = transaction
            if write:
                if (key, value) in self._writer and key not in self._bad_keys:
                    self._bad_keys.add(key)
                    words = f"{table.values.name(value)} is written twice, so its versions cannot be told apart"
                    self.unchecked.append(f"key {table.key_name(key)}: {words}")
                self._writer[key, value] = transaction
                self._last[transaction, key] = value
                own.add((key, value))
            elif key not in values_held:
                self._outer[transaction, key] = value
                self._sees(transaction, key, value)
            elif values_held[key] != value:
                if (key, value) not in own:
                    self._sees(transaction, key, value)
                words = (
                    f"line {table.line(transaction)} reads {table.values.name(value)} after {table.values.name(values_held[key])}"
                )
                self._within.append(Found("internal", key, words, (transaction,)))
            values_held[key] = value

    def _sees(self, transaction: int, key: int, value: int) -> None:
        self._reads.append((transaction, key, value))
        self._readers.setdefault((key, value), []).append(transaction)

    def phantoms(self) -> Phantoms:
        """Find the values of registers that were read and that no transaction wrote."""
        strange = [v for v in self._readers if v[1] != NIL and v not in self._writer and v not in self._failed]
        return of_registers(self._table, self._readers, strange)

    def anomalies(self) -> Iterator[Found]:
        """Find the anomalies of registers that need no dependency cycle of transactions."""
        table = self._table
        yield from self._within
        for reader, key, value in self._reads:
            if value == NIL or key in self._bad_keys:
                continue
            words = f"line {table.line(reader)} reads {table.values.name(value)}"
            writer, failed = self._writer.get((key, value)), self._failed.get((key, value))
            if writer is None and failed is not None:
                text = f"{words}, which line {table.line(failed)} wrote and aborted"
                yield Found("G1a", key, text, (failed, reader))
            elif writer is None:
                continue  # a phantom
            elif writer == reader:
                yield Found("future-read", key, f"{words} before writing it", (reader,))
            elif self._last[writer, key] != value:
                yield Found("G1b", key, f"{words}, which line {table.line(writer)} overwrote itself", (writer, reader))
        yield from self._lost_updates()
        yield from self._order_versions()

    def _lost_updates(self) -> Iterator[Found]:
        """Find two committed transactions that read the same version of a key and both overwrote it."""
        table = self._table
        for (key, value), readers in self._readers.items():
            if key in self._bad_keys or (value != NIL and (key, value) not in self._writer):
                continue
            first = [t for t in dict.fromkeys(readers) if self._outer.get((t, key)) == value]
            over = [t for t in first if (t, key) in self._last and self._writer.get((key, value)) != t]
            if len(over) > 1:
                lines = f"line {table.line(over[0])} and line {table.line(over[1])}"
                words = f"{lines} both read {table.values.name(value)} and overwrote it"
                yield Found("lost-update", key, words, (over[0], over[1]))

    def _order_versions(self) -> Iterator[Found]:
        """Infer the order of each key's versions; report keys whose inferred order has a cycle."""
        table = self._table
        pairs = {pair for pair in self._ordered_versions() if pair[0] != pair[1]}
        versions = sorted({version for pair in pairs for version in pair})
        numbers = {version: number for number, version in enumerate(versions)}
        source = np.array([numbers[known_version] for known_version, _ in sorted(pairs)], np.int64)
        target = np.array([numbers[later_version] for _, later_version in sorted(pairs)], np.int64)
        labels = components(source, target, len(versions))
        circles: dict[int, list[_Version]] = {}
        for at in np.flatnonzero(labels[source] == labels[target]).tolist():
            circles.setdefault(int(labels[source[at]]), []).append(versions[int(source[at])])
        wrong = set()
        for label in sorted(circles):
            members = sorted(set(circles[label]))
            wrong.add(members[0][0])
            names = ", ".join(table.values.name(value) for _, value in members[:12])
            writers = tuple(self._left[member] for member in members[:12])
            yield Found("cyclic-versions", members[0][0], f"each of {names} must come before the others", writers)
        nothing = {((key, NIL), (key, value)) for key, value in self._left}
        self._pairs = sorted(pair for pair in pairs | nothing if pair[0][0] not in wrong)

    def _ordered_versions(self) -> Iterator[tuple[_Version, _Version]]:
        """Pairs of versions of a key, the earlier one first, as far as the forbidden cycles need them."""
        if "G1c" in self._forbidden:
            for (transaction, key), value in self._outer.items():
                wrote = self._last.get((transaction, key))
                if wrote is not None and (key, value) in self._left and (key, wrote) in self._left:
                    yield (key, value), (key, wrote)
        if "G-single-realtime" in self._forbidden:
            yield from self._versions_in_time(one_process=False)
        elif "G-single-process" in self._forbidden:
            yield from self._versions_in_time(one_process=True)

    def _versions_in_time(self, *, one_process: bool) -> Iterator[tuple[_Version, _Version]]:
        """Pairs of a version left by a transaction and a version found by one invoked after it returned.

        Pairs that follow from others by transitivity are left out.
        """
        table = self._table
        start, end, process = table.start.tolist(), table.end.tolist(), table.process.tolist()
        points: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for transaction, key in sorted({*self._last, *self._outer}):
            group = points.setdefault((key, process[transaction] if one_process else 0), [])
            group.append((start[transaction], 0, transaction))
            if end[transaction] < NEVER:
                group.append((end[transaction], 1, transaction))
        for (key, _), group in sorted(points.items()):
            frontier: dict[int, _Version] = {}  # versions of returned transactions that no later returned one has replaced
            earlier: dict[int, tuple[int, ...]] = {}
            for _, kind, transaction in sorted(group):
                if kind == 0:
                    earlier[transaction] = tuple(frontier)
                    version_found = self._version_found(transaction, key)
                    if version_found is not None:
                        yield from ((version, version_found) for version in frontier.values())
                    continue
                version_left = (key, self._last.get((transaction, key), self._outer.get((transaction, key), NIL)))
                # A transaction that found no known version is not ordered after the earlier ones, so it replaces none of them.
                if version_left in self._left and self._version_found(transaction, key) is not None:
                    for number in earlier[transaction]:
                        frontier.pop(number, None)
                    frontier[transaction] = version_left

    def _version_found(self, transaction: int, key: int) -> _Version | None:
        """The version that the transaction found; if that is not known, the version that it left."""
        for value in (self._outer.get((transaction, key)), self._last.get((transaction, key))):
            if value is not None and (key, value) in self._left:
                return key, value
        return None

    def shown(self) -> tuple[list[tuple[int, int, int]], Callable[[int, int, int], bool]]:
        """The arguments for finding fractured reads: each read with the writer of the value found, and `missed`.

        If a transaction sees two writers of a key and reads from one, that one is later (Biswas and Enea 2019, read atomic). A
        write is missed if this order, together with reads-from, has a cycle.
        """
        outer_reads = {at: value for at, value in self._outer.items() if at[1] not in self._bad_keys}
        reads_of_writers = [(reader, key, self._writer.get((key, value), -1)) for (reader, key), value in outer_reads.items()]
        order: set[tuple[int, int]] = set()
        for reader, reads_of_reader in groupby(sorted(reads_of_writers), key=itemgetter(0)):
            read = [(key, writer) for _, key, writer in reads_of_reader if writer >= 0]
            order.update((writer, reader) for _, writer in read)
            writers_seen = {writer for _, writer in read}
            order.update(
                (seen_writer, last)
                for key, last in read
                for seen_writer in writers_seen
                if seen_writer != last and (seen_writer, key) in self._last
            )
        source, target = _columns(sorted(order), 2)
        circles = components(source, target, self._table.count).tolist()

        def missed(reader: int, key: int, writer: int) -> bool:
            """Whether the reader missed this write: it read nil, or a value whose writer would come both before and after it."""
            if (writer, key) not in self._last:
                return False
            value = outer_reads[reader, key]
            last = self._writer.get((key, value), writer)
            return value == NIL or (last != writer and circles[last] == circles[writer])

        return reads_of_writers, missed

    def unordered(self) -> Unordered:
        """Return the writes of each key whose versions have no single order. Call `anomalies` first."""
        later: dict[int, dict[_Version, list[_Version]]] = {}
        for version in sorted(self._left):
            later.setdefault(version[0], {})[version] = []
        for earlier_version, later_version in self._pairs:
            if earlier_version[1] != NIL:
                later[earlier_version[0]][earlier_version].append(later_version)
        open_ones = [versions for versions in later.values() if not _is_chain(versions)]
        writes = {
            (key, value): Write(key, value, self._left[key, value], tuple(self._readers.get((key, value), ())))
            for versions in open_ones
            for key, value in versions
        }
        return Unordered(
            keys=[[writes[version] for version in versions] for versions in open_ones],
            known=frozenset(
                (writes[earlier_version], writes[later_version])
                for versions in open_ones
                for earlier_version in versions
                for later_version in versions[earlier_version]
            ),
        )

    def edges(self) -> Iterator[Edges]:
        """Make the dependencies (wr, ww, rw) between transactions, where the version order is known. Call `anomalies` first."""
        table = self._table
        wr = [
            (self._writer[key, value], reader, key, value)
            for reader, key, value in self._reads
            if key not in self._bad_keys and (key, value) in self._writer
        ]
        source, target, keys, values = _columns(wr, 4)
        yield edges(source, target, WR, key=keys, value=values)
        groups = {
            version: number for number, version in enumerate(sorted({earlier_version for earlier_version, _ in self._pairs}))
        }
        group, then = _columns(
            [(groups[earlier_version], self._left[later_version]) for earlier_version, later_version in self._pairs], 2
        )
        after = fan(group, then, table.count)
        self.junctions = after.size
        yield after.inside()
        read = [(groups[v], reader, v[0]) for v in groups for reader in self._readers.get(v, ())]
        group, source, keys = _columns(read, 3)
        yield after.into(group, source, RW, key=keys)
        group, source, keys = _columns([(groups[v], self._left[v], v[0]) for v in groups if v[1] != NIL], 3)
        yield after.into(group, source, WW, key=keys)


def _is_chain(later: dict[_Version, list[_Version]]) -> bool:
    """Whether the versions have only one order."""
    sorter = TopologicalSorter(later)
    sorter.prepare()
    while ready := sorter.get_ready():
        if len(ready) > 1:
            return False
        sorter.done(*ready)
    return True


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> tuple[Ints, ...]:
    return tuple(np.array(rows, np.int64).reshape(-1, width).T)
