"""Run a checker on a history written in a few lines, for the examples in docstrings.

A line is a row: `ok poll offset=0 value=a` for an operation, `hw node=b1 hw=2 leo=2` for an event (docs/history-format.md names
the columns). Nodes in a list are joined by commas; a value with spaces stands in single quotes. Defaults: topic t, partition 0,
life 1, process 1, epoch 1, acks -1, HW of a leader; indices and milliseconds count up. A completion without an invocation gets
one.

    >>> from checkers.sketches import sketch
    >>> sketch("order", "ok produce value=a offset=1", "ok produce value=b offset=0", "ok poll offset=7 value=c")
    ['offset-order', 'phantom-read']
"""

import shlex
from collections.abc import Iterator

import msgspec

from checkers.judge import judge
from checkers.registry import ALL
from history.event import ClusterEvent, EventKind
from history.history import History
from history.manifest import Assignment, RunManifest
from history.op import Operation, OpType
from history.promise import Promise, TopicPromise

_MS = 1_000_000
_KINDS = {str(kind) for kind in EventKind}
_WRITES = ("produce", "send", "log")  # whose invocation has the values
_LISTS = ("isr", "elr", "replicas", "stamps")
_PARTITION = {"topic": "t", "partition": "0"}
# Kinds whose rows name no partition.
_NODE_KINDS = {
    "registered",
    "session-ended",
    "controller-elected",
    "node-started",
    "node-stopped",
    "healed",
    "final-reads",
    "fault-begun",
    "fault-ended",
}


def sketch(checker: str, *lines: str) -> list[str]:
    """Return the anomaly kinds that one checker finds in a history of these few lines, then its other reasons.

    KeyError if there is no such checker.
    """
    checkers = tuple(
        checker_there
        for checker_there in ALL
        if checker_there.name == checker or (checker_there.phase == "ledger" and checker != checker_there.name)
    )
    if checker not in {checker_there.name for checker_there in checkers}:
        raise KeyError(checker)
    verdict = judge(history_of(*lines), checkers)
    kinds = sorted({checker_there.kind for checker_there in verdict.anomalies if checker_there.checker == checker})
    return [*kinds, *(words for words in verdict.unchecked if words.startswith(f"{checker}:")), *verdict.not_live]


def history_of(*lines: str) -> History:
    """Return these lines as a history of a completed run."""
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    for index, columns in enumerate(_rows_of_lines(lines)):
        row = {"index": index, "time_ns": index * _MS, **columns}
        if "kind" in columns:
            events.append(msgspec.convert(row, ClusterEvent, strict=False))
        else:
            operations.append(msgspec.convert(row, Operation, strict=False))
    healed = next((row.time_ns for row in events if row.kind == EventKind.HEALED), None)
    return History(_manifest_of_sketch(healed), operations=operations, events=events)


def _rows_of_lines(lines: tuple[str, ...]) -> Iterator[dict[str, object]]:
    """The rows of a sketch: lines of operations and events, with defaults for what they do not say."""
    open_calls: set[object] = set()
    for line in lines:
        first, *words = _words_of_line(line)
        if first in _KINDS:
            named = dict(word.split("=", 1) for word in words)
            where = {} if first in _NODE_KINDS else _PARTITION
            columns_given = {"life": "1", "leader_epoch": "1", "detail": "leader", **named}
            yield {
                "kind": first,
                **where,
                **columns_given,
                **{name: tuple(columns_given[name].split(",")) for name in _LISTS if name in columns_given},
            }
            continue
        columns: dict[str, object] = {"process": "1", **_PARTITION, "type": first, "f": words[0]}
        columns.update(dict(word.split("=", 1) for word in words[1:]))
        if first == OpType.INVOKE:
            open_calls.add(columns["process"])
        elif columns["process"] in open_calls:
            open_calls.remove(columns["process"])
        else:
            yield _columns_of_question(columns)
        if first == OpType.OK:
            columns.setdefault("leader_epoch", "1")
        yield {"acks": "-1", **columns} if words[0] == "produce" else columns


def _words_of_line(line: str) -> list[str]:
    """The words of a line of a sketch."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.quotes, lexer.escape, lexer.commenters = True, "'", "", ""  # values may be JSON
    return list(lexer)


def _columns_of_question(answer: dict[str, object]) -> dict[str, object]:
    """The columns of the invocation that an answer must have had."""
    names = ("process", "topic", "partition", "f", *(("value", "acks", "delivery") if answer["f"] in _WRITES else ()))
    columns_asked = {name: answer[name] for name in names if name in answer}
    defaults = {"acks": "-1"} if answer["f"] == "produce" else {"offset": "0"} if answer["f"] == "poll" else {}
    return {**defaults, **columns_asked, "type": "invoke"}


def _manifest_of_sketch(healed_at_ns: int | None) -> RunManifest:
    """The manifest of a sketch: three brokers, one partition."""
    promise = Promise(
        topics=(TopicPromise(topic="t", flush="before_ack"),), unclean_election="never", profile="beyond",
        session_timeout_ms=1000, replica_lag_time_max_ms=1000, request_timeout_ms=500, replacement_ms=5000,
    )  # fmt: skip
    end_ns = 3_600_000 * _MS
    return RunManifest(
        log_dirs=2, client_timeout_ms=500, client_retries=(3,),
        healed_at_ns=healed_at_ns, final_reads_at_ns=None if healed_at_ns is None else end_ns - _MS, end_ns=end_ns,
        run_id="sketch", seed=None, draws=0, plan_digest="", protocol="", backend="sim", commit="", dirty=False, versions={},
        outcome="completed", promise=promise, brokers=("b1", "b2", "b3"),
        assignments=(Assignment(topic="t", partition=0, replicas=("b1", "b2", "b3")),), min_acked=0, faults=(),
    )  # fmt: skip
