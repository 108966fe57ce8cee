"""Turns the maps of a Jepsen history, read from EDN or JSON, into invocations and completions of operations.

Only client processes are read, and these have numbers; `:nemesis` is skipped. Steps without a process all belong to one process,
as in Elle's examples. Steps without a function have the function "txn". A read of a transaction may be asked without a third
element: `[:r k]` is `[:r k nil]`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from operator import itemgetter

from history.errors import HistoryError
from history.foreign.step import TRUE, Step, shown
from history.op import OpType

_NEMESIS = "nemesis"
_WITH_READS = frozenset({"txn", "read"})  # functions whose values may hold micro-operations
_READS = ("r", "read")
_TYPES: dict[Hashable, OpType] = {str(type): type for type in OpType}
_FIELDS = ("type", "process", "f", "value", "key", "time", "index", "rebalance-log", "seek-to-beginning?")
_KEYS_MAX = 1024  # different sets of keys that are remembered
_ABSENT = (None, "txn")  # what stands for an absent field; the second for an absent function

_Values = tuple[Hashable, ...]


def steps(records: Iterable[tuple[int, dict[Hashable, Hashable]]]) -> Iterator[Step]:
    """Yield the invocations and completions of clients in a Jepsen history, in its order. HistoryError if it has none."""
    return of_rows((line, tuple(record), tuple(record.values())) for line, record in records)


def of_rows(rows: Iterable[tuple[int, _Values, _Values]]) -> Iterator[Step]:
    """The same for records that are given as line, keys and values. Most rows of a history have the same keys."""
    line = 0
    last_keys: _Values = ()
    fields = _field_picker(last_keys)
    for line, keys, values in rows:
        if keys is not last_keys:
            last_keys = keys
            fields = _field_picker(keys)
        kind, process, f, value, key, time, index, log, rewinds = fields((*values, *_ABSENT))
        type_ = _TYPES.get(kind)
        if type_ is None:
            has = f"not {shown(kind)}" if kind is not None else f"and the step has {' '.join(map(shown, keys)) or 'nothing'} only"
            raise HistoryError(f"line {line}: :type must be one of {', '.join(map(str, OpType))}, {has}")
        # Any name but the nemesis must be refused: skipping its process, too, would leave its operations unjudged.
        if type(process) is not int and process is not None:
            if process == _NEMESIS:
                continue
            raise HistoryError(f"line {line}: :process must be a number or :{_NEMESIS}, not {shown(process)}")
        if not isinstance(f, str):
            raise HistoryError(f"line {line}: :f must be a name, not {shown(f)}")
        if not (time is None or type(time) is int) or not (index is None or type(index) is int):
            name, number = ("index", index) if time is None or type(time) is int else ("time", time)
            raise HistoryError(f"line {line}: :{name} must be a whole number, not {shown(number)}")
        if f in _WITH_READS and type(value) is tuple:
            value = _filled_transaction(value)
        keys_moved = () if log is None else _rebalanced_keys(log, line)
        yield Step(line, process, type_, f, value, key, time, index, keys_moved, rewinds == TRUE)
    if not line:
        raise HistoryError("the file has no invocation or completion of a client")


@lru_cache(maxsize=_KEYS_MAX)
def _field_picker(keys: _Values) -> Callable[[_Values], _Values]:
    """Pick the fields of a step from the values for these keys, which `_ABSENT` follows."""
    place = {key: number for number, key in enumerate(keys)}
    absent = {name: len(keys) + (name == "f") for name in _FIELDS}
    return itemgetter(*(place.get(name, absent[name]) for name in _FIELDS))


def _filled_transaction(value: _Values) -> _Values:
    """A transaction whose reads have a value each, nil where it was left out."""
    try:
        if 2 not in map(len, value):  # type: ignore[arg-type]  # what has no length is no micro-operation
            return value
    except TypeError:
        return value
    return tuple((*micro, None) if type(micro) is tuple and len(micro) == 2 and micro[0] in _READS else micro for micro in value)


def _rebalanced_keys(log: Hashable, line: int) -> tuple[Hashable, ...]:
    """The keys of `:rebalance-log [{:keys [...]} ...]`, which consumer operations may carry."""
    events = log if isinstance(log, tuple) else (None,)
    keys: list[Hashable] = []
    for event in events:
        named = dict(event).get("keys", ()) if isinstance(event, tuple) and all(_is_pair(e) for e in event) else None
        if not isinstance(named, tuple):
            raise HistoryError(f"line {line}: :rebalance-log is a list of maps with :keys, not {shown(log)}")
        keys.extend(named)
    return tuple(keys)


def _is_pair(value: Hashable) -> bool:
    return isinstance(value, tuple) and len(value) == 2
