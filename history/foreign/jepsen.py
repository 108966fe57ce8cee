"""Turns the maps of a Jepsen history, read from EDN or JSON, into invocations and completions of operations.

Only client processes are read, and these have numbers; `:nemesis` is skipped. Steps without a process all belong to one process,
as in Elle's examples. Steps without a function have the function "txn".
"""

from collections.abc import Hashable, Iterable, Iterator

from history.errors import HistoryError
from history.foreign.step import Step, shown
from history.op import OpType

_NEMESIS = "nemesis"
_TYPES = {str(type): type for type in OpType}


def steps(records: Iterable[tuple[int, dict[Hashable, Hashable]]]) -> Iterator[Step]:
    """Yield the invocations and completions of clients in a Jepsen history, in its order. HistoryError if it has none."""
    line = 0
    for line, record in records:
        kind = record.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise HistoryError(f"line {line}: :type must be one of {', '.join(_TYPES)}, not {shown(kind)}")
        process = record.get("process")
        if process == _NEMESIS:
            continue
        # Any other name must be refused: skipping the process like the nemesis would leave its operations unjudged.
        if process is not None and not isinstance(process, int):
            raise HistoryError(f"line {line}: :process must be a number or :{_NEMESIS}, not {shown(process)}")
        f = record.get("f", "txn")
        if not isinstance(f, str):
            raise HistoryError(f"line {line}: :f must be a name, not {shown(f)}")
        yield Step(
            line, process, _TYPES[kind], str(f), record.get("value"), record.get("key"),
            _number(record, "time", line), _number(record, "index", line),
            _rebalanced(record, line), record.get("seek-to-beginning?") == "true",
        )  # fmt: skip
    if not line:
        raise HistoryError("the file has no invocation or completion of a client")


def _rebalanced(record: dict[Hashable, Hashable], line: int) -> tuple[Hashable, ...]:
    """The keys of `:rebalance-log [{:keys [...]} ...]`, which consumer operations may carry."""
    log = record.get("rebalance-log")
    if log is None:
        return ()
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


def _number(record: dict[Hashable, Hashable], name: str, line: int) -> int | None:
    value = record.get(name)
    if value is None or isinstance(value, int):
        return value
    raise HistoryError(f"line {line}: :{name} must be a whole number, not {shown(value)}")
