"""Sequential objects as functions from state and call to all possible answers, each with the state after it.

They are written from the documents, not from `checkers`: no code is shared. An object without an answer (`acquire` of a held
mutex) returns no pairs. A call is right if its recorded answer is among the answers.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from history.foreign.step import UNKNOWN

Answers = list[tuple[Any, Any]]  # (answer, state after it)
Object = Callable[[Any, str, Any], Answers]
Letter = tuple[str, Hashable, Hashable]  # function, argument, recorded answer
LOST = object()  # recorded answer of a call that never returned


def register(state: Any, f: str, argument: Any) -> Answers:
    """The register (read, write) as a function from state and call to all possible answers."""
    return [(None, argument)] if f == "write" else [(state, state)]


def cas_register(state: Any, f: str, argument: Any) -> Answers:
    """The register with compare-and-set as a function from state and call to all possible answers."""
    if f != "cas":
        return register(state, f, argument)
    old, new = argument
    return [(argument, new)] if state == old else [("false", state)]


def multi_register(state: Any, f: str, argument: Any) -> Answers:
    """Several registers, read and written by one transaction, as a function from state and call to possible answers."""
    values = dict(state)
    answer = []
    for what, key, value in argument:
        if what == "write":
            values[key] = value
        answer.append((what, key, values.get(key, 0)))
    return [(tuple(answer), tuple(sorted(values.items())))]


def mutex(state: Any, f: str, argument: Any) -> Answers:
    """The mutex, held or free, as a function from state and call to all possible answers."""
    return [(None, f == "acquire")] if state == (f == "release") else []


def kv(state: Any, f: str, argument: Any) -> Answers:
    """One key with a string value (get, put, append) as a function from state and call to all possible answers."""
    if f == "get":
        return [(state, state)]
    return [(None, argument if f == "put" else f"{state}{argument}")]


def grow_set(state: Any, f: str, argument: Any) -> Answers:
    """The set that only grows (add, read) as a function from state and call to all possible answers."""
    return [(None, state | {argument})] if f == "add" else [(state, state)]


def fifo_queue(state: Any, f: str, argument: Any) -> Answers:
    """The first-in-first-out queue (enqueue, dequeue) as a function from state and call to all possible answers."""
    if f == "enqueue":
        return [(None, (*state, argument))]
    return [(state[0], state[1:])] if state else [(None, ())]


def unordered_queue(state: Any, f: str, argument: Any) -> Answers:
    """The queue without an order, a multiset of values, as a function from state and call to all possible answers."""
    counts = dict(state)
    if f == "enqueue":
        return [(None, tuple(sorted({**counts, argument: counts.get(argument, 0) + 1}.items())))]
    takes = [(value, tuple((v, n - (v == value)) for v, n in state if n > (v == value))) for value in counts]
    return takes or [(None, ())]


NAMED_MAX = 3  # no history names a higher offset
_OFFSETS = range(NAMED_MAX + 7)  # room behind it for all appends of a small history


def partition_log(state: Any, f: str, argument: Any) -> Answers:
    """The partition log as a function from state (records and next offset) and call to all possible answers."""
    records, least = state
    if f == "read":
        return [(dict(records).get(argument), state)]
    if f == "end":
        return [(offset, (records, offset)) for offset in _OFFSETS if offset >= least]
    # A successful append may be answered without an offset.
    return [
        (answer_offset, ((*records, (offset, argument)), offset + 1))
        for offset in _OFFSETS
        if offset >= least
        for answer_offset in (offset, None)
    ]


def versioned_node(state: Any, f: str, argument: Any) -> Answers:
    """The znode, absent or a value with a version, as a function from state and call to all possible answers."""
    if f == "create":
        return [("ok", (argument, 0))] if state is None else [("node-exists", state)]
    if state is None:
        return [("no-node", None)]
    value, version = state
    if f == "read":
        return [((value, version), state)]
    if f == "delete":
        return [("ok", None)] if argument in (version, -1) else [("bad-version", state)]
    new, version_wanted = argument
    return [(version + 1, (new, version + 1))] if version_wanted in (version, -1) else [("bad-version", state)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object for which small histories are made: its first state, and the calls with answers that they use."""

    name: str
    object: Object
    first: Hashable
    letters: tuple[Letter, ...]
    unique: bool = False  # every `write`, `add`, `enqueue`, `append` has a value of its own: the number of the call


def _lost_letters(*letters: Letter) -> tuple[Letter, ...]:
    return (*letters, *((f, argument, UNKNOWN) for f, argument, _ in dict.fromkeys((f, a, None) for f, a, _ in letters)))


def _txn(*micros: tuple[str, str, Hashable]) -> Letter:
    return "txn", tuple((f, k, v if f == "write" else None) for f, k, v in micros), micros


OWN = "own"  # stands for the number of the call, in subjects with unique values
_SEEN = tuple(range(5))  # numbers that a read may name

SUBJECTS: tuple[Subject, ...] = (
    Subject(
        name="register", object=register, first=0,
        letters=_lost_letters(("write", 1, None), ("write", 2, None), ("read", None, 0), ("read", None, 1), ("read", None, 2)),
    ),
    Subject(
        name="cas-register", object=cas_register, first=0,
        letters=_lost_letters(
            ("write", 1, None), ("read", None, 0), ("read", None, 1),
            ("cas", (0, 1), (0, 1)), ("cas", (1, 0), (1, 0)), ("cas", (0, 1), "false"), ("cas", (1, 2), (1, 2)),
        ),
    ),
    Subject(
        name="multi-register", object=multi_register, first=(),
        letters=_lost_letters(
            _txn(("write", "x", 1)), _txn(("write", "x", 1), ("write", "y", 1)), _txn(("read", "x", 0), ("write", "y", 1)),
            _txn(("read", "x", 1), ("write", "y", 2)), _txn(("read", "x", 0), ("read", "y", 1)),
            _txn(("read", "x", 1), ("read", "y", 0)), _txn(("write", "x", 2), ("read", "x", 2), ("read", "y", 1)),
        ),
    ),
    Subject(name="mutex", object=mutex, first=False, letters=_lost_letters(("acquire", None, None), ("release", None, None))),
    Subject(
        name="kv", object=kv, first="",
        letters=_lost_letters(
            ("put", "a", None), ("append", "a", None), ("append", "b", None), ("put", "", None),
            ("get", None, ""), ("get", None, "a"), ("get", None, "ab"), ("get", None, "b"),
        ),
    ),
    Subject(
        name="set", object=grow_set, first=frozenset(),
        letters=_lost_letters(
            ("add", 1, None), ("add", 2, None), ("read", None, frozenset()), ("read", None, frozenset({1})),
            ("read", None, frozenset({2})), ("read", None, frozenset({1, 2})),
        ),
    ),
    Subject(
        name="fifo-queue", object=fifo_queue, first=(),
        letters=_lost_letters(
            ("enqueue", 1, None), ("enqueue", 2, None), ("dequeue", None, 1), ("dequeue", None, 2), ("dequeue", None, None)
        ),
    ),
    Subject(
        name="unordered-queue", object=unordered_queue, first=(),
        letters=_lost_letters(
            ("enqueue", 1, None), ("enqueue", 2, None), ("dequeue", None, 1), ("dequeue", None, 2), ("dequeue", None, None)
        ),
    ),
    Subject(
        name="partition-log", object=partition_log, first=((), 0), unique=True,
        letters=(
            ("append", OWN, 0), ("append", OWN, 1), ("append", OWN, 2), ("append", OWN, UNKNOWN), ("append", OWN, None),
            ("end", None, 1), *(("read", offset, value) for offset in (0, 1) for value in (None, *_SEEN[:4])),
        ),
    ),
    Subject(
        name="partition-log, equal values", object=partition_log, first=((), 0),
        letters=(
            ("append", 7, 0), ("append", 7, 1), ("append", 7, UNKNOWN), ("append", 7, None), ("append", 8, UNKNOWN),
            ("end", None, 0), ("end", None, 2), *(("read", offset, value) for offset in (0, 1) for value in (None, 7, 8)),
        ),
    ),
    Subject(
        name="versioned-node", object=versioned_node, first=None,
        letters=_lost_letters(
            ("create", 1, "ok"), ("create", 1, "node-exists"), ("set", (2, 0), 1), ("set", (2, 0), "bad-version"),
            ("set", (3, -1), 2), ("set", (3, -1), "no-node"), ("delete", 0, "ok"), ("delete", 1, "ok"),
            ("read", None, (1, 0)), ("read", None, (2, 1)), ("read", None, "no-node"),
        ),
    ),
    # The same objects with unique values, which the polynomial algorithms judge.
    Subject(
        name="register, unique values", object=register, first=-1, unique=True,
        letters=_lost_letters(("write", OWN, None), *(("read", None, seen) for seen in (-1, *_SEEN[:4]))),
    ),
    Subject(
        name="set, unique values", object=grow_set, first=frozenset(), unique=True,
        letters=_lost_letters(
            ("add", OWN, None), *(("read", None, frozenset(s)) for s in ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)))
        ),
    ),
    Subject(
        name="fifo-queue, unique values", object=fifo_queue, first=(), unique=True,
        letters=(
            ("enqueue", OWN, None), ("enqueue", OWN, UNKNOWN), *(("dequeue", None, seen) for seen in (None, *_SEEN[:4])),
            ("dequeue", None, UNKNOWN),
        ),
    ),
    Subject(
        name="unordered-queue, unique values", object=unordered_queue, first=(), unique=True,
        letters=(
            ("enqueue", OWN, None), ("enqueue", OWN, UNKNOWN), *(("dequeue", None, seen) for seen in (None, *_SEEN[:4])),
            ("dequeue", None, UNKNOWN),
        ),
    ),
)  # fmt: skip
