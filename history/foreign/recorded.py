"""Reads a history that any program recorded: one line of manifest, then one JSON object a line (docs/your-own-system.md).

    {"manifest": {"system": "my-queue 1.2", "model": "log"}}
    {"process": 0, "type": "invoke", "f": "produce", "values": ["a"], "time": 1000}
    {"process": 0, "type": "ok", "f": "produce", "offsets": [0], "time": 2000}

The model `log` becomes a history like one of a run, whose rows are numbered by the lines of the file: the checkers of runs
judge it. For every other model the lines are steps as in Jepsen's JSON. A file with mistakes is refused with all of them at once:
the line, what was given and what is allowed.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from msgspec import Struct

from history.digest import digest
from history.errors import HistoryError, Mistakes
from history.event import ClusterEvent, EventKind
from history.foreign import jepsen
from history.foreign.jsonlines import frozen
from history.foreign.step import Step
from history.foreign.text import opened
from history.history import History
from history.manifest import RECORDED, RunManifest, SystemFacts
from history.op import Operation, OpType
from history.promise import Promise, TopicPromise

LOG = "log"
FINAL_READS = "final-reads"
_OF_RUNS = frozenset({"run_id", "plan_digest", "schema_version"})  # a manifest with one of these is of a run of highwater
_MISTAKES_MAX = 100
_BOUND = 1 << 63
_TOPIC, _ACKS_ALL = "t", -1

_Test = tuple[Callable[[Any], bool], str]  # whether a value is allowed, and what is


def _whole(value: object, *, least: int = 0) -> bool:
    return type(value) is int and least <= value < _BOUND


def _texts(value: object) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(text, str) for text in value)


def _records(value: object) -> bool:
    pairs = value if isinstance(value, list) else [None]
    return all(isinstance(pair, list) and len(pair) == 2 and _whole(pair[0]) and isinstance(pair[1], str) for pair in pairs)


def _one_of(*names: str) -> _Test:
    return (lambda value: value in names and isinstance(value, str)), f"one of {', '.join(names)}"


_WHOLE: _Test = (_whole, "a whole number from 0 on")
_TEXT: _Test = ((lambda value: isinstance(value, str) and value != ""), "a text that is not empty")
_TRUTH: _Test = ((lambda value: isinstance(value, bool)), "true or false")
_ANY: _Test = ((lambda value: True), "any JSON")
_OFFSETS: _Test = (
    (lambda value: isinstance(value, list) and all(map(_whole, value))),
    "a list of whole numbers from 0 on, one for each value",
)

_EVERY: dict[str, _Test] = {
    "process": _WHOLE,
    "type": _one_of(*map(str, OpType)),
    "f": _TEXT,
    "time": (_whole, "a whole number of nanoseconds from 0 on"),
}
_OF_STEPS: dict[str, _Test] = {
    "value": _ANY,
    "key": _ANY,
    "index": _WHOLE,
    "error": _ANY,
    "rebalance-log": _ANY,
    "seek-to-beginning?": _ANY,
}
_FS = ("produce", "poll", "latest", "earliest", "commit", "committed")
_OF_LOGS: dict[str, _Test] = {
    "topic": _TEXT,
    "partition": _WHOLE,
    "values": (_texts, "a list of texts that is not empty"),
    "acks": ((lambda value: type(value) is int and value in (-1, 0, 1)), "-1 (all), 0 or 1"),
    "offset": _WHOLE,
    "offsets": _OFFSETS,
    "records": (_records, "a list of [offset, text]"),
    "group": _TEXT,
    "error": _TEXT,
    "node": _TEXT,
}
# What a line of the model `log` must have beside the fields of every line, by f and type.
_NEEDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("produce", "invoke"): ("values",),
    ("poll", "invoke"): ("offset",),
    ("poll", "ok"): ("records",),
    ("latest", "ok"): ("offset",),
    ("earliest", "ok"): ("offset",),
    ("commit", "invoke"): ("group", "offset"),
    ("committed", "invoke"): ("group",),
}


class Recorded(Struct, frozen=True, kw_only=True):
    """A history that a program recorded. `log`: the history of a log, if that is the model; else `steps` for `model`."""

    system: str
    model: str
    log: History | None = None
    steps: tuple[Step, ...] = ()


class _Line(NamedTuple):
    """A line of the file; `asked` are the fields of the invocation that it completes, or its own."""

    number: int
    fields: dict[str, Any]
    asked: dict[str, Any]


def is_recorded(head: bytes) -> bool:
    """Whether a file that begins with these bytes has the manifest of this form, and not that of a run."""
    line, _, _ = head.lstrip().partition(b"\n")
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return False
    manifest = first.get("manifest") if isinstance(first, dict) else None
    return isinstance(manifest, dict) and not _OF_RUNS & manifest.keys()


def read(path: Path, models: Sequence[str]) -> Recorded:
    """Read a recorded history; the manifest must name one of `models`. Raises Mistakes with every mistake in the file."""
    reader = _Reader(models)
    try:
        with opened(path) as file:
            for number, line in enumerate(file, start=1):
                reader.take(number, line)
    except (OSError, EOFError, zlib.error) as error:
        raise HistoryError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    reader.finish()
    if reader.mistakes:
        raise Mistakes(path, reader.mistakes, shown=_MISTAKES_MAX)
    system, model = reader.manifest["system"], reader.manifest["model"]
    if model == LOG:
        return Recorded(system=system, model=model, log=_history_of_log(reader.manifest, reader.lines))
    rows = (
        (recorded_line.number, tuple(recorded_line.fields), tuple(map(frozen, recorded_line.fields.values())))
        for recorded_line in reader.lines
    )
    return Recorded(system=system, model=model, steps=tuple(jepsen.of_rows(rows)))


class _Reader:
    """Takes the lines of a file, checks each, and remembers all mistakes."""

    def __init__(self, models: Sequence[str]) -> None:
        self.manifest: dict[str, Any] = {}
        self.lines: list[_Line] = []
        self.mistakes: list[str] = []
        self._allowed: dict[str, _Test] = {"system": _TEXT, "model": _one_of(*models), "final_reads": _TRUTH}
        self._open_calls: dict[int, _Line] = {}
        self._manifest_was_read = False  # the manifest was read: the first line that is not blank
        self._knows_model = False
        self._time = 0

    def take(self, number: int, text: bytes) -> None:
        """Check one line of the file."""
        if not text.strip():
            return
        try:
            fields = json.loads(text, object_pairs_hook=_object_of_pairs, parse_constant=_no_json)
            frozen(fields)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", error)
            self._complain(number, f"not one JSON object: {reason}; given: {_value_in_short(text)}")
            return
        if not isinstance(fields, dict):
            self._complain(number, f"a line must be a JSON object, not {_value_in_short(fields)}")
        elif not self._manifest_was_read:
            self._manifest_was_read = True
            self._take_manifest(number, fields)
        elif "mark" in fields:
            self._take_mark(number, fields)
        else:
            self._take_step(number, fields)

    def finish(self) -> None:
        """Check the file as a whole."""
        if not self.lines and not self.mistakes:
            self.mistakes.append("the file has no line after its manifest")

    def _complain(self, number: int, words: str) -> None:
        self.mistakes.append(f"line {number}: {words}")

    def _take_manifest(self, number: int, fields: dict[str, Any]) -> None:
        """Take the first line; complain about fields beside the manifest."""
        self.manifest = fields["manifest"]
        for name in fields.keys() - {"manifest"}:
            self._complain(number, f"the first line must have the manifest alone, not {name!r} too")
        self._knows_model = self._allowed["model"][0](self.manifest.get("model"))
        self._has_right_fields(number, self.manifest, self._allowed, needs=("system", "model"), where="manifest: ")

    def _take_mark(self, number: int, fields: dict[str, Any]) -> None:
        """Take a mark, which says that the final reads begin here."""
        allowed = {"mark": _one_of(FINAL_READS), "time": _EVERY["time"]}
        if self.manifest.get("final_reads") is False:
            self._complain(number, "the manifest says that the history has no final reads (final_reads is false)")
        if self._has_right_fields(number, fields, allowed, needs=("mark", "time")):
            self.lines.append(_Line(number, fields, fields))

    def _take_step(self, number: int, fields: dict[str, Any]) -> None:
        """Take an invocation or an answer; complain if its fields, its time or its invocation do not fit."""
        log = self.manifest.get("model") == LOG
        allowed = {**_EVERY, **(_OF_LOGS if log else _OF_STEPS)}
        if not self._knows_model:  # what else a line may have depends on the model
            allowed = {**dict.fromkeys(fields, _ANY), **_EVERY}
        if log:
            allowed["f"] = _one_of(*_FS)
        if not self._has_right_fields(number, fields, allowed, needs=tuple(_EVERY)):
            return
        if fields["time"] < self._time:
            self._complain(number, f"time must be at least {self._time}, that of a line above, not {fields['time']}")
        self._time = max(self._time, fields["time"])
        invocation = self._invocation_of(number, fields)
        if invocation is not None and (not log or self._fits_invocation(number, fields, invocation)):
            self.lines.append(_Line(number, fields, invocation))

    def _has_right_fields(
        self, number: int, fields: dict[str, Any], allowed: dict[str, _Test], *, needs: Sequence[str], where: str = ""
    ) -> bool:
        """Whether the line has the needed fields and no wrong one; complain about each that is wrong."""
        before = len(self.mistakes)
        for name in needs:
            if name not in fields:
                self._complain(number, f"{where}{name} is missing; it must be {allowed[name][1]}")
        for name, value in fields.items():
            test = allowed.get(name)
            if test is None:
                self._complain(number, f"{where}unknown field {name!r}; known: {', '.join(allowed)}")
            elif not test[0](value):
                self._complain(number, f"{where}{name} must be {test[1]}, not {_value_in_short(value)}")
        return len(self.mistakes) == before

    def _invocation_of(self, number: int, fields: dict[str, Any]) -> dict[str, Any] | None:
        """What a line completes, or itself; None if its process may not do this now: it has one call open at a time."""
        process, f = fields["process"], fields["f"]
        before = self._open_calls.get(process)
        if fields["type"] == OpType.INVOKE:
            if before is None:
                self._open_calls[process] = _Line(number, fields, fields)
                return fields
            was = f"{before.fields['f']} of line {before.number}"
            self._complain(number, f"process {process} invokes {f} while its {was} is open; complete that first")
        elif before is None:
            self._complain(number, f"process {process} completes {f} and has no call open; invoke it first")
        elif before.fields["f"] != f:
            self._complain(number, f"process {process} must complete {before.fields['f']} of line {before.number}, not {f}")
        else:
            del self._open_calls[process]
            return before.fields
        return None

    def _fits_invocation(self, number: int, fields: dict[str, Any], invocation: dict[str, Any]) -> bool:
        """Whether a line of the model `log` has what its operation needs and answers what was asked."""
        before = len(self.mistakes)
        for name in _NEEDS.get((fields["f"], fields["type"]), ()):
            if name not in fields:
                self._complain(number, f"{name} is missing; {fields['f']} {fields['type']} needs {_OF_LOGS[name][1]}")
        for name in ("topic", "partition"):
            if name in fields and fields[name] != invocation.get(name):
                self._complain(number, f"{name} must be {invocation.get(name)!r} as invoked, not {fields[name]!r}")
        values, offsets = invocation.get("values", ()), fields.get("offsets")
        if offsets is not None and len(offsets) != len(values):
            self._complain(number, f"offsets must have one number for each of {len(values)} values, not {len(offsets)}")
        return len(self.mistakes) == before


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("one key twice in an object")
    return fields


def _value_in_short(value: object) -> str:
    text = value.decode(errors="replace").strip() if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


# --- as a history of a log ----------------------------------------------------------------------------------------------------


def _history_of_log(stated: dict[str, Any], lines: Sequence[_Line]) -> History:
    """The recorded lines as a history of our own, with a manifest that promises nothing of brokers."""
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    for line in lines:
        if "mark" in line.fields:
            events.append(ClusterEvent(index=line.number, kind=EventKind.FINAL_READS, time_ns=line.fields["time"]))
        else:
            operations.extend(_rows_of_line(line))
    topics = sorted({row.topic or _TOPIC for row in operations})
    promised = tuple(TopicPromise(topic=topic, min_insync_replicas=1) for topic in topics)
    manifest = RunManifest(
        run_id=RECORDED,
        seed=None,
        draws=0,
        plan_digest="",
        protocol="",
        system=SystemFacts(name=stated["system"]),
        backend=RECORDED,
        commit="",
        dirty=False,
        versions={},
        outcome="completed",
        promise=Promise(topics=promised, session_timeout_ms=0, replica_lag_time_max_ms=0, request_timeout_ms=0),
        brokers=tuple(sorted({row.node for row in operations if row.node is not None})),
        assignments=(),
        final_reads_at_ns=events[0].time_ns if events else None,
        makes_final_reads=stated.get("final_reads", True),
        end_ns=lines[-1].fields["time"],
        digest=digest(operations, events),
    )
    return History(manifest, operations=operations, events=events)


def _rows_of_line(line: _Line) -> Iterator[Operation]:
    """The operations of one line: one row for each record."""
    fields = line.fields
    invocation = line.asked
    f = line.fields["f"]
    records: list[tuple[int | None, str | None]] = [(fields.get("offset"), None)]
    if f == "produce":
        values = invocation["values"]
        records = list(zip(fields.get("offsets", [None] * len(values)), values, strict=True))
    elif f == "poll" and invocation is not fields:
        records = [(offset, value) for offset, value in fields.get("records", ())] or [(None, None)]
    elif f in ("commit", "committed"):
        records = [(fields.get("offset", invocation.get("offset") if f == "commit" else None), invocation["group"])]
    for slot, (offset, value) in enumerate(records):
        yield Operation(
            index=line.number,
            slot=slot,
            process=fields["process"],
            type=OpType(fields["type"]),
            f=f,
            topic=invocation.get("topic", _TOPIC),
            partition=invocation.get("partition", 0),
            value=value,
            offset=offset,
            acks=invocation.get("acks", _ACKS_ALL) if f == "produce" else None,
            error=fields.get("error"),
            node=fields.get("node"),
            time_ns=fields["time"],
        )
