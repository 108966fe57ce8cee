"""Values that were read and that no transaction of the history wrote, whatever became of it.

A history has all clients of its run, so such a value can only be older than the history: a setup wrote it, or the history is the
end of a longer one. Then one state explains all reads of its key: a register begins with this value and never was nil, or each
list that was read begins with these values. That state is taken for the first version, and the key is unchecked, because nothing
shows who wrote it: the verdict is UNKNOWN at best.

Otherwise nobody can have written the value, and every isolation level forbids the read (phantom-read). Adya's thesis (section
3.1) has no history with it: a read follows the write of the version that it returns.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from checkers.elle.found import Found
from checkers.elle.table import NIL, Table

Values = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phantoms:
    """The phantoms of a history: the impossible ones, the first state of each key that may have had one, and why it is unchecked.

    `first`: key -> the only element of a register, or the elements of a list, before the first transaction.
    """

    found: tuple[Found, ...] = ()
    first: dict[int, Values] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()


def of_registers(table: Table, readers: dict[tuple[int, int], list[int]], phantoms: Collection[tuple[int, int]]) -> Phantoms:
    """Judge the phantoms `(key, value)` of registers. `readers`: who read each version of a key, nil included."""
    values: dict[int, list[int]] = {}
    for key, value in phantoms:
        values.setdefault(key, []).append(value)
    findings: list[Found] = []
    first: dict[int, Values] = {}
    for key, values_of_key in sorted(values.items()):
        others = [*sorted(values_of_key), *([NIL] if (key, NIL) in readers else [])]
        if len(others) == 1:
            first[key] = (others[0],)
            continue
        for value in sorted(values_of_key):
            value_read = next(value_before for value_before in reversed(others) if value_before != value)
            reader, witness = readers[key, value][0], readers[key, value_read][0]
            words = f"{_read_in_words(table, reader, value)}; it was not there before, because line {table.line(witness)} reads "
            findings.append(Found("phantom-read", key, words + table.values.name(value_read), (reader, witness)))
    return Phantoms(found=tuple(findings), first=first, unchecked=_words_of_first_states(table, first))


def of_lists(table: Table, reads: Sequence[int], phantoms: Collection[tuple[int, int]]) -> Phantoms:
    """Judge the phantoms `(key, value)` of lists. `reads`: the micro-operations that read a list, in order."""
    values: dict[int, set[int]] = {}
    for key, value in phantoms:
        values.setdefault(key, set()).add(value)
    lists_of: dict[int, list[tuple[int, Values]]] = {key: [] for key in values}
    for micro in reads if values else ():
        if int(table.key[micro]) in values:
            lists_of[int(table.key[micro])].append((micro, table.list_of(micro)))
    findings: list[Found] = []
    first: dict[int, Values] = {}
    for key, strange in sorted(values.items()):
        lists = lists_of[key]
        state = _first_state([shown for _, shown in lists], strange)
        if state is not None:
            first[key] = state
            continue
        for value in sorted(strange):
            findings.append(_phantom_in_list(table, key, value, lists))
    return Phantoms(found=tuple(findings), first=first, unchecked=_words_of_first_states(table, first))


def _first_state(lists: Sequence[Values], unwritten: set[int]) -> Values | None:
    """The list with which every read begins: all phantoms and nothing else, each once. None if there is none."""
    size = len(unwritten)
    state = lists[0][:size]
    return state if set(state) == unwritten and all(shown[:size] == state for shown in lists) else None


def _phantom_in_list(table: Table, key: int, value: int, lists: Sequence[tuple[int, Values]]) -> Found:
    """The phantom of a list: who read it, and who read the list without it before."""
    reader = next(int(table.transaction[micro]) for micro, shown in lists if value in shown)
    words = _read_in_words(table, reader, value)
    without = next(((int(table.transaction[micro]), shown) for micro, shown in lists if value not in shown), None)
    if without is None:
        return Found("phantom-read", key, f"{words}; the reads do not all begin with the same such values", (reader,))
    other_reader, shown = without
    words = f"{words}; it was not there before, because line {table.line(other_reader)} reads {table.shown(shown)}"
    return Found("phantom-read", key, words, (reader, other_reader))


def _read_in_words(table: Table, reader: int, value: int) -> str:
    return f"line {table.line(reader)} reads {table.values.name(value)}, which no transaction wrote"


def _words_of_first_states(table: Table, first: dict[int, Values]) -> tuple[str, ...]:
    """Which keys are not judged because their first value or elements are unknown, in sentences."""
    return tuple(
        f"key {table.key_name(key)}: nobody wrote {', '.join(map(table.values.name, state))}, which may be older than the history"
        for key, state in sorted(first.items())
    )


def without_registers(table: Table, first: dict[int, Values]) -> Table:
    """Return the table with nil in place of the first value of these registers."""
    value = table.value.copy()
    for key, (state,) in first.items():
        value[~table.write & (table.key == key) & (value == state)] = NIL
    return replace(table, value=value)


def without_lists(table: Table, first: dict[int, Values]) -> Table:
    """Return the table with the first elements of these lists taken off each read."""
    less = np.zeros(len(table.keys), np.int64)
    for key, state in first.items():
        less[key] = len(state)
    off = np.where(table.write, 0, less[table.key])
    return replace(table, first=table.first + off, length=table.length - off)
