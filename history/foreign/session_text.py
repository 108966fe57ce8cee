"""Transactions by session, as PolySI, IsoVista and Plume have them: a line for each read and write.

    w(7,1,0,3)

is a write of 1 to key 7 by transaction 3 of session 0. The lines of a transaction stand together; every transaction committed.
Nothing says when one began or ended: the sessions alone have an order. A read of 0 found the key without a value, unless 0 was
written to it in a line before; some files begin with a transaction that does so.
"""

import re
from collections.abc import Hashable, Iterator
from typing import BinaryIO

from history.errors import HistoryError
from history.foreign.step import Step, shown
from history.foreign.text import DIGITS_MAX
from history.op import OpType

_NUMBER = rf"(-?\d{{1,{DIGITS_MAX}}})"
_LINE = re.compile(rf"([rw])\({_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\)\s*".encode())
_UNWRITTEN = 0
UNTIMED = "nothing says when a transaction began or ended: the order of each session counts, and no order in time"

_Id = tuple[int, int]  # session and transaction


def is_session_text(head: bytes) -> bool:
    """Whether a file that begins with these bytes is one."""
    return _LINE.match(head) is not None


def steps(file: BinaryIO) -> Iterator[Step]:
    """Yield each transaction as a completion, with the line of its first read or write. HistoryError for a bad line."""
    finished: set[_Id] = set()
    written: set[int] = set()  # keys to which 0 was written
    unwritten: dict[int, int] = {}  # keys of which 0 was read before, and the line
    open_id: _Id | None = None
    first = 0
    micros = list[tuple[Hashable, ...]]()
    for number, line in enumerate(file, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            if line.strip():
                raise HistoryError(f"line {number}: not r or w (key,value,session,transaction): {_shown(line)}")
            continue
        key, value, session, transaction = map(int, match.groups()[1:])
        f = match[1].decode()
        if (session, transaction) != open_id:
            if open_id is not None:
                yield _step(first, open_id, micros)
                finished.add(open_id)
            open_id = (session, transaction)
            first = number
            micros = []
            if open_id in finished:
                raise HistoryError(
                    f"line {number}: the lines of transaction {transaction} of session {session} must stand together"
                )
        if value == _UNWRITTEN and f == "w":
            if key in unwritten:
                reason = f"line {unwritten[key]} read it as the value before all writes"
                raise HistoryError(f"line {number}: 0 must not be written to key {key}: {reason}")
            written.add(key)
        if value == _UNWRITTEN and f == "r" and key not in written:
            unwritten.setdefault(key, number)
            micros.append((f, key, None))
        else:
            micros.append((f, key, value))
    if open_id is None:
        raise HistoryError("the file has no transaction")
    yield _step(first, open_id, micros)


def _step(line: int, owner: _Id, micros: list[tuple[Hashable, ...]]) -> Step:
    return Step(line, owner[0], OpType.OK, "txn", tuple(micros))


def _shown(line: bytes) -> str:
    return shown(line.decode(errors="replace").strip()[:60])
