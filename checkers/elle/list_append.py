"""list-append: `[:append k v]` and `[:r k [v …]]`. A read of a list shows all earlier versions, so the version order is known.

The version order of a key is its longest read; every other read must be a prefix of it. Appends that certainly committed and
were not read come after all values that were read, in an order that is searched (`checkers.elle.orders`). If one value of a
transaction of unknown outcome was read, the transaction committed. Values must be appended once per key: a key to which a value
was appended twice is unchecked. The order continues across a value that no transaction appended (`checkers.elle.phantoms`).
"""

from collections.abc import Callable, Iterator

import numpy as np

from checkers.elle.found import Found, sees_itself
from checkers.elle.graph import RW, WR, WW, Edges, edges, fan
from checkers.elle.orders import Unordered, Write
from checkers.elle.phantoms import Phantoms, of_lists
from checkers.elle.table import Flags, Ints, Table, packed

WRITES = "append"
_PIECE = 1 << 21  # elements compared at a time
_NOBODY = -1


class ListAppend:
    """The appends, reads and version order of each list key of a history."""

    def __init__(self, table: Table, forbidden: frozenset[str]) -> None:
        self._table = table
        self._forbidden = forbidden
        appends = np.flatnonzero(table.write & (table.transaction < table.count))
        # `names` are sorted, so that the append of a value is found by binary search.
        names = packed(table.key[appends], table.value[appends])
        order = np.argsort(names, kind="stable")
        self._names, self._appends = names[order], appends[order]
        twice = self._names[1:][self._names[1:] == self._names[:-1]]
        self._bad_keys = np.zeros(len(table.keys), np.bool_)
        self._bad_keys[twice >> 32] = True
        self.unchecked = [*table.odd, *(self._twice(int(name)) for name in np.unique(twice))]
        failed = np.flatnonzero(table.write & (table.transaction >= table.count))
        self._failed = dict(zip(packed(table.key[failed], table.value[failed]).tolist(), failed.tolist(), strict=True))
        self._reads = np.flatnonzero(~table.write & (table.transaction < table.count))
        self.junctions = 0  # nodes that `edges` adds after the transactions
        self._choose_longest()
        self._find_incompatible_reads()
        self._group_micros()

    def _twice(self, name: int) -> str:
        key, value = self._table.key_name(name >> 32), self._table.values.name((name & 0xFFFFFFFF) - 1)
        return f"key {key}: {value} is appended twice, so its versions cannot be told apart"

    def _choose_longest(self) -> None:
        """Set the version order of each key to its longest read (`_from`, `_size`), and find the writer of each of its values."""
        table, reads = self._table, self._reads
        order = np.lexsort((-reads, table.length[reads], table.key[reads]))
        by_key = reads[order]
        last = np.ones(len(by_key), np.bool_)
        last[:-1] = table.key[by_key[1:]] != table.key[by_key[:-1]]
        self._longest = by_key[last]
        self._from = np.zeros(len(table.keys), np.int64)
        self._size = np.zeros(len(table.keys), np.int64)
        self._reader = np.full(len(table.keys), _NOBODY, np.int64)
        chosen = table.key[self._longest]
        self._from[chosen] = table.first[self._longest]
        self._size[chosen] = table.length[self._longest]
        self._reader[chosen] = table.transaction[self._longest]
        self._begin = np.concatenate([[0], np.cumsum(self._size)])[:-1]  # start of each key's order in the array
        self._order_key = np.repeat(np.arange(len(table.keys)), self._size)
        place = np.arange(len(self._order_key)) - self._begin[self._order_key]
        self._order_value = table.elements[self._from[self._order_key] + place]
        self._order_append = self._appending_micros(self._order_key, self._order_value)
        at = self._order_append
        self._order_writer = np.where(at == _NOBODY, _NOBODY, table.transaction[at] if len(table.transaction) else _NOBODY)

    def _appending_micros(self, key: Ints, value: Ints) -> Ints:
        """The micro-operations that appended these values; `_NOBODY` if no transaction that may have committed did."""
        names = packed(key, value)
        if not len(self._names):
            return np.full(len(names), _NOBODY, np.int64)
        at = np.minimum(np.searchsorted(self._names, names), len(self._names) - 1)
        return np.where(self._names[at] == names, self._appends[at], _NOBODY)

    def _find_incompatible_reads(self) -> None:
        """Find the reads of a list that are not a prefix of the longest read of the same key."""
        table, reads = self._table, self._reads
        self._is_odd_read = np.zeros(len(table.transaction), np.bool_)
        piece_ends = np.cumsum(table.length[reads])
        low = 0
        while low < len(reads):
            done = int(piece_ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(piece_ends, done + _PIECE, side="right")))
            nonempty = reads[low:high]
            nonempty = nonempty[table.length[nonempty] > 0]
            sizes = table.length[nonempty]
            starts = np.cumsum(sizes) - sizes
            offset = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
            elements_read = table.elements[np.repeat(table.first[nonempty], sizes) + offset]
            elements_of_longest = table.elements[np.repeat(self._from[table.key[nonempty]], sizes) + offset]
            if len(nonempty):
                self._is_odd_read[nonempty] = np.logical_or.reduceat(elements_read != elements_of_longest, starts)
            low = high

    def _group_micros(self) -> None:
        """Group micro-operations by transaction and key, in order (`_order`), with the number of appends before each."""
        table = self._table
        name = table.transaction * (len(table.keys) + 1) + table.key
        self._order = np.argsort(name, kind="stable")
        name = name[self._order]
        size = len(name)
        head = np.ones(size, np.bool_)
        head[1:] = name[1:] != name[:-1]
        self._head = np.maximum.accumulate(np.where(head, np.arange(size), 0))
        tail = np.ones(size, np.bool_)
        tail[:-1] = head[1:]
        write = table.write[self._order]
        before: Ints = np.cumsum(write) - write
        # By place in `_order`: the number of appends of the group before it.
        self._appends_before: Ints = before - before[self._head] if size else before
        # By micro-operation: whether an append of the same group is before it, and whether one follows.
        self._after_own = np.zeros(size, np.bool_)
        self._after_own[self._order] = self._appends_before > 0
        total = np.zeros(size, np.int64)
        transaction_ends = np.flatnonzero(tail)
        counts = (self._appends_before + write)[transaction_ends]
        total = np.repeat(counts, np.diff(np.concatenate([[-1], transaction_ends])))
        self._goes_on = np.zeros(size, np.bool_)
        self._goes_on[self._order] = total > self._appends_before + write

    def anomalies(self) -> Iterator[Found]:
        """Find anomalies of lists that need no dependency cycle: aborted, intermediate, internal, incompatible and lost reads."""
        yield from self._anomalies_of_longest_reads()
        yield from self._odd_reads()
        yield from self._torn_appends()
        yield from self._intermediate_reads()
        yield from self._internal_reads()
        yield from self._lost_updates()

    def phantoms(self) -> Phantoms:
        """Find the values of lists that were read and that no transaction appended.

        They are in the longest read of a key, or in one that is not a prefix of it.
        """
        table = self._table
        nobody = np.flatnonzero(self._order_append == _NOBODY)
        unwritten = {(int(self._order_key[at]), int(self._order_value[at])) for at in nobody}
        for micro in np.flatnonzero(self._is_odd_read).tolist():
            unwritten.update((int(table.key[micro]), value) for value in table.list_of(micro))
        if unwritten:
            written = table.write.nonzero()[0]
            unwritten -= set(zip(table.key[written].tolist(), table.value[written].tolist(), strict=True))
        return of_lists(table, self._reads.tolist(), unwritten)

    def _failed_in_orders(self) -> list[tuple[int, int]]:
        """Find G1a: values that a failed transaction appended and that other transactions read."""
        nobody = np.flatnonzero(self._order_append == _NOBODY)
        names = packed(self._order_key[nobody], self._order_value[nobody]).tolist()
        return [(at, self._failed[name]) for at, name in zip(nobody.tolist(), names, strict=True) if name in self._failed]

    def _anomalies_of_longest_reads(self) -> Iterator[Found]:
        """Anomalies of the longest reads: a value twice, a failed append, an append over it."""
        table = self._table
        names = packed(self._order_key, self._order_value)
        _, index, count = np.unique(names, return_index=True, return_counts=True)
        for at in index[count > 1].tolist():
            key = int(self._order_key[at])
            self._bad_keys[key] = True
            reader = int(self._reader[key])
            words = f"line {table.line(reader)} reads {table.values.name(int(self._order_value[at]))} more than once"
            yield Found("duplicate-elements", key, words, (reader,))
        for at, append in self._failed_in_orders():
            key, writer = int(self._order_key[at]), int(table.transaction[append])
            yield self._aborted_read(int(self._reader[key]), key, append)
            later = self._order_writer[at + 1 : int(self._begin[key] + self._size[key])]
            later = later[later != _NOBODY]
            if len(later):
                over = int(later[0])
                words = f"line {table.line(over)} appended after a value that line {table.line(writer)} appended and aborted"
                yield Found("dirty-update", key, words, (writer, over))

    def _aborted_read(self, reader: int, key: int, append: int) -> Found:
        """A read of a value whose append certainly failed (G1a)."""
        table = self._table
        writer = int(table.transaction[append])
        value = table.values.name(int(table.value[append]))
        words = f"line {table.line(reader)} reads {value}, which line {table.line(writer)} appended and aborted"
        return Found("G1a", key, words, (writer, reader))

    def _odd_reads(self) -> Iterator[Found]:
        """Anomalies of reads that are no prefix of the longest one."""
        table = self._table
        for micro in np.flatnonzero(self._is_odd_read).tolist():
            key, reader = int(table.key[micro]), int(table.transaction[micro])
            values = table.list_of(micro)
            first = int(self._from[key])
            longest = table.elements[first : first + int(self._size[key])].tolist()
            words = f"line {table.line(reader)} reads {table.shown(values)}, which is not a prefix of {table.shown(longest)}"
            yield Found("incompatible-order", key, words, (int(self._reader[key]), reader))
            if len(set(values)) < len(values):
                words = f"line {table.line(reader)} reads {table.shown(values)}, which has a value more than once"
                yield Found("duplicate-elements", key, words, (reader,))
            for value in sorted(set(values) - set(longest)):
                name = (key << 32) + value + 1
                if name in self._failed and self._appending_micros(np.array([key]), np.array([value]))[0] == _NOBODY:
                    yield self._aborted_read(reader, key, self._failed[name])
            self._bad_keys[key] = True

    def _places_of_appends(self) -> Ints:
        """The place of each append in the version order of its key; -1 for other micro-operations."""
        seat = np.full(len(self._table.transaction), -1, np.int64)
        has_append = self._order_append != _NOBODY
        seat[self._order_append[has_append]] = (np.arange(len(self._order_append)) - self._begin[self._order_key])[has_append]
        return seat

    def _torn_appends(self) -> Iterator[Found]:
        """Find appends that were read without an earlier append of the same transaction to the same key."""
        table = self._table
        seat = self._places_of_appends()
        appends = self._order[table.write[self._order] & (table.transaction[self._order] < table.count)]
        earlier, later = appends[:-1], appends[1:]
        wrong = (table.transaction[earlier] == table.transaction[later]) & (table.key[earlier] == table.key[later])
        wrong &= (seat[later] >= 0) & ((seat[earlier] < 0) | (seat[earlier] > seat[later])) & ~self._bad_keys[table.key[later]]
        for first, then in zip(earlier[wrong].tolist(), later[wrong].tolist(), strict=True):
            key, writer, reader = int(table.key[then]), int(table.transaction[then]), int(self._reader[table.key[then]])
            early, later_name = (table.values.name(int(table.value[micro])) for micro in (first, then))
            words = (
                f"line {table.line(reader)} reads {later_name} without {early} before it; line {table.line(writer)} appended both"
            )
            yield Found("incompatible-order", key, words, (writer, reader))

    def _intermediate_reads(self) -> Iterator[Found]:
        """Find G1b: reads by another transaction that end between two appends of one transaction."""
        table = self._table
        reads = self._reads[table.length[self._reads] > 0]
        last = table.elements[table.first[reads] + table.length[reads] - 1]
        append = self._appending_micros(table.key[reads], last)
        suspicious = append != _NOBODY
        suspicious[suspicious] = self._goes_on[append[suspicious]]
        suspicious &= ~self._bad_keys[table.key[reads]] | self._is_odd_read[reads]
        for read, by in zip(reads[suspicious].tolist(), append[suspicious].tolist(), strict=True):
            reader, writer = int(table.transaction[read]), int(table.transaction[by])
            if reader != writer:
                value = table.values.name(int(table.value[by]))
                words = f"line {table.line(reader)} reads {value} as the last value, but line {table.line(writer)} appended more"
                yield Found("G1b", int(table.key[read]), words, (writer, reader))

    def _internal_reads(self) -> Iterator[Found]:
        """Find transactions whose reads miss their own earlier appends or show their own later ones."""
        for place in self._suspect_groups():
            group = self._order[place : int(np.searchsorted(self._head, place, side="right"))]
            yield from sees_itself(self._table, group.tolist(), self._is_bad_name)

    def _suspect_groups(self) -> list[int]:
        """Fast pre-check of `_internal_reads`: the first place of each group of micro-operations that may show an anomaly.

        Suspect are a length or an own element that does not fit, and a read that is not a prefix of the longest.
        """
        table, order = self._table, self._order
        read = ~table.write[order]
        size = len(order)
        if not size:
            return []
        own = table.length[order] - self._appends_before  # appends of other transactions: equal for all reads of a group
        places = np.arange(size)
        earlier = np.maximum.accumulate(np.where(read, places, -1))
        earlier = np.concatenate([[-1], earlier[:-1]])
        again = read & (earlier >= self._head)
        bad = again & (own != own[earlier])
        bad |= read & ((own < 0) | self._is_odd_read[order])
        # Compare each append with the next read of its group and with the last read before it.
        later = np.minimum.accumulate(np.where(read, places, size)[::-1])[::-1]
        is_held = ~read & (later < size)
        is_held[is_held] = self._head[later[is_held]] == self._head[is_held]
        a, r = places[is_held], later[is_held]
        where = table.length[order[r]] - (self._appends_before[r] - self._appends_before[a])
        fits = where >= 0
        fits[fits] = table.elements[table.first[order[r[fits]]] + where[fits]] == table.value[order[a[fits]]]
        bad[a] |= ~fits
        foreseen = ~read & (earlier >= self._head)
        append = order[foreseen]
        seat = self._places_of_appends()
        bad[foreseen] |= (seat[append] >= 0) & (seat[append] < table.length[order[earlier[foreseen]]])
        bad &= table.transaction[order] < table.count
        return [int(place) for place in np.unique(self._head[bad])]

    def _is_bad_name(self, key: int, value: int) -> bool:
        at = int(np.searchsorted(self._names, (key << 32) + value + 1))
        return at + 1 < len(self._names) and self._names[at] == self._names[at + 1]

    def _lost_updates(self) -> Iterator[Found]:
        """Find two committed transactions that read the same version of a key and both appended to it."""
        table = self._table
        first = np.zeros(len(table.transaction), np.bool_)
        first[self._order] = self._head == np.arange(len(self._order))
        reads = self._reads[first[self._reads] & self._goes_on[self._reads] & ~self._is_odd_read[self._reads]]
        reads = reads[table.ok[table.transaction[reads]] & ~self._bad_keys[table.key[reads]]]
        version = packed(table.key[reads], table.length[reads])
        order = np.argsort(version, kind="stable")
        version, reads = version[order], reads[order]
        again = np.flatnonzero(version[1:] == version[:-1])
        # The first two readers of a version are enough.
        fresh = again[np.concatenate([[True], version[again[1:]] != version[again[:-1]]])] if len(again) else again
        for at in fresh.tolist():
            first_reader, second_reader = int(table.transaction[reads[at]]), int(table.transaction[reads[at + 1]])
            if first_reader != second_reader:
                values = table.shown(table.list_of(int(reads[at])))
                words = (
                    f"line {table.line(first_reader)} and line {table.line(second_reader)} both read {values} and appended to it"
                )
                yield Found("lost-update", int(table.key[reads[at]]), words, (first_reader, second_reader))

    def edges(self) -> Iterator[Edges]:
        """Make the dependencies (ww, wr, rw) between transactions from the version order of each list.

        Call `anomalies` first: it finds the keys that have no order. Junctions are numbered from `Table.count` on.
        """
        table = self._table
        has_writer = (self._order_writer != _NOBODY) & ~self._bad_keys[self._order_key]
        at = np.flatnonzero(has_writer)
        writer, key, value = self._order_writer[at], self._order_key[at], self._order_value[at]
        same = key[1:] == key[:-1]
        yield edges(writer[:-1][same], writer[1:][same], WW, key=key[1:][same], value=value[1:][same])
        reads = self._reads_of_others()
        reader, key = table.transaction[reads], table.key[reads]
        begin, size = self._begin[key], table.length[reads]
        # Places among the known versions: the last one read, and the next.
        next_known = np.searchsorted(at, begin + size)
        last_known = next_known - 1
        has_last = last_known >= 0
        has_last[has_last] = at[last_known[has_last]] >= begin[has_last]
        last = at[last_known[has_last]]
        yield edges(self._order_writer[last], reader[has_last], WR, key=key[has_last], value=self._order_value[last])
        has_next = next_known < len(at)
        has_next[has_next] = at[next_known[has_next]] < begin[has_next] + self._size[key[has_next]]
        then = at[next_known[has_next]]
        yield edges(reader[has_next], self._order_writer[then], RW, key=key[has_next], value=self._order_value[then])
        yield from self._edges_to_unread(reader[~has_next], key[~has_next], at)

    def shown(self) -> tuple[list[tuple[int, int, int]], Callable[[int, int, int], bool]]:
        """Return the arguments for finding fractured reads: each read (reader, key, writer of its last value), and whether a
        reader missed what a writer wrote to a key.
        """
        table = self._table
        place = dict.fromkeys(self._names_unread(), 1 << 62)
        for at in np.flatnonzero(self._order_writer != _NOBODY).tolist():
            key = int(self._order_key[at])
            place[int(self._order_writer[at]), key] = at - int(self._begin[key])
        reads = self._reads_of_others()
        rows = list(zip(table.transaction[reads].tolist(), table.key[reads].tolist(), table.length[reads].tolist(), strict=True))
        length = {(reader, key): size for reader, key, size in reversed(rows)}
        writers = [int(self._order_writer[self._begin[key] + size - 1]) if size else _NOBODY for _, key, size in rows]
        reads_of_writers = [(reader, key, writer) for (reader, key, _), writer in zip(rows, writers, strict=True)]
        return reads_of_writers, lambda reader, key, writer: place.get((writer, key), -1) >= length[reader, key]

    def _names_unread(self) -> Iterator[tuple[int, int]]:
        appends = self._unread_appends()
        return zip(self._table.transaction[appends].tolist(), self._table.key[appends].tolist(), strict=True)

    def _reads_of_others(self) -> Ints:
        """The reads whose last value another transaction appended."""
        table = self._table
        reads = self._reads[~self._is_odd_read[self._reads] & ~self._bad_keys[table.key[self._reads]]]
        own: Flags = self._after_own[reads] & (table.length[reads] > 0)
        reads_of_own = reads[own]
        last = table.elements[table.first[reads_of_own] + table.length[reads_of_own] - 1]
        append = self._appending_micros(table.key[reads_of_own], last)
        own[own] = (append != _NOBODY) & (table.transaction[append] == table.transaction[reads_of_own])
        return reads[~own]

    def _is_committed(self) -> Flags:
        """Flags of committed transactions: acknowledged ones, and those of which a value was read (otherwise G1a)."""
        committed = self._table.ok
        if "G1a" in self._forbidden:
            committed = committed.copy()
            committed[self._order_writer[(self._order_writer != _NOBODY) & ~self._bad_keys[self._order_key]]] = True
        return committed

    def _unread_appends(self) -> Ints:
        """The appends of committed transactions that no read of their key shows."""
        read = np.zeros(len(self._table.transaction), np.bool_)
        read[self._order_append[self._order_append != _NOBODY]] = True
        return np.flatnonzero(self._table.write & (self._table.transaction < self._table.count) & ~read)

    def _surely_unread_appends(self) -> Ints:
        """The appends that were never read, of committed transactions, to keys that have an order."""
        table = self._table
        appends = self._unread_appends()
        return appends[self._is_committed()[table.transaction[appends]] & ~self._bad_keys[table.key[appends]]]

    def unordered(self) -> Unordered:
        """Return the unread appends of each key to which several transactions made some. Call `anomalies` first."""
        table = self._table
        appends = self._surely_unread_appends()
        names = packed(table.key[appends], table.transaction[appends])
        _, first = np.unique(names, return_index=True)
        by_key = appends[first]
        parts = np.split(by_key, np.flatnonzero(np.diff(table.key[by_key])) + 1)
        return Unordered(
            keys=[
                [Write(int(table.key[at]), int(table.value[at]), int(table.transaction[at])) for at in part.tolist()]
                for part in parts
                if len(part) > 1
            ]
        )

    def _edges_to_unread(self, reader: Ints, key: Ints, known: Ints) -> Iterator[Edges]:
        """Edges (ww, rw) to committed appends that were never read: these come after every version that was read."""
        table = self._table
        appends = self._surely_unread_appends()
        group = fan(table.key[appends], table.transaction[appends], table.count)
        yield group.inside()
        yield group.into(key, reader, RW, key=key)
        last = np.ones(len(known), np.bool_)
        last[:-1] = self._order_key[known[1:]] != self._order_key[known[:-1]]
        last_appends = known[last]
        yield group.into(self._order_key[last_appends], self._order_writer[last_appends], WW, key=self._order_key[last_appends])
        self.junctions = group.size
