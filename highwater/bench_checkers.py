"""`make bench-checkers`: how fast foreign histories are judged on one core; medians of rounds, in seconds."""

import gc
from statistics import median
from time import perf_counter

from checkers.elle.judge import judge as judge_transactions
from checkers.linearizability.collections import PartitionLog
from checkers.linearizability.judge import judge
from highwater.cli.output import say
from history.foreign.pairing import Paired
from history.foreign.step import Call

_ROUNDS = 3
_SIZES = (10_000, 100_000, 1_000_000)
_OVERLAP = 8  # calls that are open at once


def log_calls(count: int) -> list[Call]:
    """A valid log: appends and reads in turns, `_OVERLAP` of them at once."""
    return [
        Call(
            index=i, line=i + 1, f="append" if i % 2 == 0 else "read", argument=i if i % 2 == 0 else i // 2,
            result=i // 2 if i % 2 == 0 else i - 1, start=2 * i, end=2 * (i + _OVERLAP) + 1,
        )
        for i in range(count)
    ]  # fmt: skip


def transaction_calls(count: int) -> list[Call]:
    """A valid list-append history: each transaction reads a key, whose list grows to ten, and appends to it."""
    calls = []
    for i in range(count):
        key, size = i // 10, i % 10
        value = (("r", key, tuple(range(size))), ("append", key, size))
        calls.append(
            Call(index=i, line=i + 1, process=i % _OVERLAP, f="txn", argument=value, result=value, start=2 * i, end=2 * i + 1)
        )
    return calls


def _seconds(calls: list[Call], *, transactions: bool) -> float:
    took = []
    for _ in range(_ROUNDS):
        gc.collect()
        began = perf_counter()
        if transactions:
            found = judge_transactions("list-append", Paired(calls=tuple(calls), failed=(), steps=0), ("strict-serializable",))
        else:
            found = judge(PartitionLog(), calls)
        took.append(perf_counter() - began)
        assert not found.anomalies, found
    return median(took)


def main() -> None:
    """Measure and print."""
    for count in _SIZES:
        say(f"log          {count:>9,} operations   {_seconds(log_calls(count), transactions=False):8.2f} s")
        if count < _SIZES[-1]:
            say(f"list-append  {count:>9,} transactions {_seconds(transaction_calls(count), transactions=True):8.2f} s")


if __name__ == "__main__":
    main()
