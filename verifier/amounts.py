"""Rules about numbers and rows that are read: bank, counter, monotonic, sequential."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from history.foreign.step import Call
from verifier.asked import Asked, answer, is_done, row_of

# --- bank, counter -----------------------------------------------------------------------------------------------------------


def _balances(question: Asked, calls: Sequence[Call]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The balances to compare with, which are given or those of another read, and those of the read in question."""
    *others, read = calls
    (base,) = [row_of(call, call.result) for call in others if is_done(call, "read")] or [dict(question.initial)]
    return base, row_of(read, read.result if read.f == "read" else None)


def other_accounts(asked: Asked, *said: Call) -> bool:
    """Two reads, or the initial balances and a read, show other accounts."""
    base, told = _balances(asked, said)
    return base.keys() != told.keys()


def wrong_total(asked: Asked, *said: Call) -> bool:
    """Two reads, or the initial balances and a read, add up to other totals."""
    base, told = _balances(asked, said)
    return base.keys() == told.keys() and sum(base.values()) != sum(told.values())


def balance(wrong: Callable[[Any], bool]) -> Callable[..., bool]:
    """The rule that a read shows a balance of this kind."""
    return lambda _, read: read.f == "read" and any(wrong(value) for value in row_of(read, read.result).values())


def _bounds_of_sum(question: Asked, read: Call) -> tuple[int, int]:
    adds = [call for call in question.calls if call.f == "add"]
    returned: list[Any] = [call.argument for call in adds if call.end is not None and call.end < read.start]
    invoked: list[Any] = [call.argument for call in adds if call.start < read.end]  # type: ignore[operator]
    first = question.initial if isinstance(question.initial, int) else 0
    lower = first + sum(n for n in returned if n > 0) + sum(n for n in invoked if n < 0)
    return lower, first + sum(n for n in invoked if n > 0) + sum(n for n in returned if n < 0)


def below(asked: Asked, read: Call) -> bool:
    """A read is below what the additions allow."""
    return is_done(read, "read") and read.result < _bounds_of_sum(asked, read)[0]  # type: ignore[operator]


def above(asked: Asked, read: Call) -> bool:
    """A read is above what the additions allow."""
    return is_done(read, "read") and read.result > _bounds_of_sum(asked, read)[1]  # type: ignore[operator]


# --- monotonic, sequential ---------------------------------------------------------------------------------------------------


def _rows_read(asked: Asked, read: Call) -> list[dict[Any, Any]]:
    if read != asked.done("read")[-1]:
        raise ValueError
    return [row_of(read, row) for row in answer(read)]


def falls(name: str) -> Callable[..., bool]:
    """The rule that this field of the rows falls in the last read."""

    def rule(asked: Asked, read: Call) -> bool:
        numbers = [row[name] for row in _rows_read(asked, read)]
        return all(isinstance(n, int | float | Fraction) for n in numbers) and any(b < a for a, b in pairwise(numbers))

    return rule


def same_row(asked: Asked, read: Call) -> bool:
    """The last read shows a value more than once."""
    rows = [row["val"] for row in _rows_read(asked, read)]
    return len({*rows}) < len(rows)


def row_lost(asked: Asked, add: Call, read: Call) -> bool:
    """The last read lacks a row whose addition had returned."""
    returned = is_done(add, "add") and add in asked.calls and add.end < read.start  # type: ignore[operator]
    return returned and row_of(add, add.result)["val"] not in {row["val"] for row in _rows_read(asked, read)}


def rows_unadded(asked: Asked, read: Call) -> bool:
    """The last read shows more rows that no addition answered than additions of unknown outcome can have made."""
    strange = {row["val"] for row in _rows_read(asked, read)} - {row_of(call, call.result)["val"] for call in asked.done("add")}
    maybe = [c for c in asked.calls if c.f == "add" and c.end is None and c.start < read.end]  # type: ignore[operator]
    return len(strange) > len(maybe)


def _key_and_subkeys(read: Call) -> tuple[Any, list[Any]]:
    key, subkeys = answer(read)
    newest = next(at for at, subkey in enumerate((*subkeys, 0)) if subkey is not None)
    return key, [*subkeys][newest:]


def gap(_: Asked, *said: Call) -> bool:
    """A read shows a subkey and then misses one that was written before it."""
    *writes, read = said
    key, since = _key_and_subkeys(read)
    return None in since and all(write.f == "write" and write.argument == key for write in writes)


def unbegun(question: Asked, read: Call) -> bool:
    """A read shows a subkey of a key that nobody had begun to write."""
    key, since = _key_and_subkeys(read)
    begun = [c for c in (*question.calls, *question.failed) if c.f == "write" and c.argument == key and c.start <= read.end]  # type: ignore[operator]
    return bool(since) and not begun
