"""Values of operations of sessions in words: transactions, polls of groups, read-process-write. They are JSON, often long."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

_LONG = 160  # characters of a value that nobody can read as words


def session_words(f: str, value: str) -> str:
    """What the JSON of an operation says, records by their range of offsets; the clipped value if it is no such JSON."""
    try:
        answer = json.loads(value)
        return "; ".join(_txn(answer) if f == "txn" else _member(answer))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return value if len(value) <= _LONG else f"{value[:_LONG]}…"


def _member(answer: dict[str, Any]) -> Iterator[str]:
    """What a member of a group, or a reader of committed records, asked for or was told."""
    if "id" in answer:
        yield f"transactional id {answer['id']}"
    if "group" in answer:
        yield f"group {answer['group']}"
    if answer.get("commits"):
        yield f"commits automatically after {answer['commits']}"
    for what in ("assigned", "revoked"):
        if answer.get(what):
            yield f"{what} {', '.join(answer[what])}"
    if "records" in answer:
        yield f"polled {_ranges(answer['records'])}"
    for what in ("results", "sends"):
        if answer.get(what):
            yield f"sent {_ranges(answer[what])}"
    for what in ("positions", "committed"):
        if answer.get(what):
            yield f"{what} {', '.join(f'{key} {position}' for key, position in sorted(answer[what].items()))}"
    if answer.get("acknowledged"):
        confirmed = answer.get("confirmed", ())
        yield "; ".join(_acknowledged(key, of, certain=key in confirmed) for key, of in sorted(answer["acknowledged"].items()))
    if answer.get("end"):
        yield "to the end"


def _acknowledged(key: str, types: list[list[Any]], *, certain: bool) -> str:
    """What became of the records of a partition, by type: "accept 3, release 1 of t-0"."""
    counts = Counter(what for _, what in types)
    words = ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))
    return f"{words} of {key}{'' if certain else ', not confirmed'}"


def _txn(micros: list[list[Any]]) -> Iterator[str]:
    """The micro-operations of a transaction, each as asked for or as answered."""
    for micro in micros:
        if micro[0] == "send":
            offset, value = micro[2] if isinstance(micro[2], list) else (None, micro[2])
            yield f"send {value} to {micro[1]}" + ("" if offset is None else f" at {offset}")
        elif len(micro) == 1:
            yield "poll"
        else:
            yield f"polled {_ranges(micro[1])}" + (" to the end" if micro[-1] == "end" else "")


def _ranges(records: dict[str, list[list[Any]]]) -> str:
    """The offsets of records by partition; "nothing" without any."""
    return ", ".join(_range(key, placed) for key, placed in sorted(records.items()) if placed) or "nothing"


def _range(key: str, placed: list[list[Any]]) -> str:
    if len(placed) == 1:
        offset, value = placed[0][:2]
        return f"{value} of {key}" + ("" if offset is None else f" at {offset}")
    known = [offset for offset, *_ in placed if offset is not None]
    where = f" at {min(known)} to {max(known)}" if known else ""
    return f"{len(placed)} records of {key}{where}"
