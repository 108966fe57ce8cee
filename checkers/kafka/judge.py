"""Judge a history of sends and polls by Jepsen's rules for queues like Kafka.

    >>> from checkers.kafka.judge import judge
    >>> from history.foreign.jepsen import steps
    >>> sent = [{"process": 0, "type": t, "f": "send", "value": (("send", "x", (0, v)),)} for t, v in (("invoke", 1), ("ok", 1))]
    >>> polled = [{"process": 1, "type": t, "f": "poll", "value": (("poll", (("x", ((0, 2),)),)),)} for t in ("invoke", "ok")]
    >>> [a.kind for a in judge(steps(enumerate(sent + polled, 1))).anomalies]
    ['inconsistent-offsets', 'lost-write', 'phantom-read', 'unseen']

A history is INVALID if it shows an anomaly that Kafka forbids; allowed ones become notes. It is UNKNOWN if no completed
operation polled a record, if values are not unique, or if an acknowledged record may still be on its way to a reader.
"""

from collections.abc import Iterable, Iterator

from checkers.engine.verdict import Anomaly, Validity
from checkers.kafka import cycles, processes, values
from checkers.kafka.found import Found
from checkers.kafka.logs import Logs
from checkers.kafka.transactions import Op, operations
from checkers.linearizability.judge import Cycle, Judgement, name_of_key
from history.foreign.step import Step, named
from history.op import OpType

MODEL = "kafka"
_OF_A_KIND_MAX = 8


def judge(steps: Iterable[Step]) -> Judgement:
    """Judge the steps of a history of sends and polls. Raises HistoryError, with the line, for any other step."""
    return judge_operations(operations(steps))


def judge_operations(ops: list[Op]) -> Judgement:
    """Judge operations of sends and polls, given in order of completion."""
    logs = Logs(ops)
    polling = [op for op in ops if op.type is OpType.OK and op.polled]
    findings: list[Found] = []
    unchecked: list[str] = []
    for log in logs.keys.values():
        unseen, late_count = values.unseen(log, polling)
        findings += [*values.of_log(log), *values.of_readers(log), *values.lost(log, logs), *unseen]
        if late_count:
            unchecked.append(
                f"{late_count} acknowledged values of {named(log.key)} may be late or lost: "
                "no operation polled after their acknowledgement"
            )
        again = sum(1 for writers in log.writers.values() if len(writers) > 1)
        if again:
            unchecked.append(f"{again} values of {named(log.key)} were sent by several operations: it is unknown whose were read")
    findings += [*processes.anomalies(logs), *cycles.anomalies(logs)]
    if not any(op.type is OpType.OK and op.polls for op in ops):
        unchecked.append("no completed operation polled a record")
    bad = [finding for finding in findings if not finding.allowed]
    return Judgement(
        validity=Validity.INVALID if bad else Validity.UNKNOWN if unchecked else Validity.VALID,
        anomalies=tuple(_anomalies(bad)),
        unchecked=tuple(unchecked),
        notes=tuple(_notes_on_findings([finding for finding in findings if finding.allowed])),
        operations=len(ops),
        cycles=tuple(Cycle(kind=finding.kind, links=finding.links) for finding in bad if finding.links),
    )


def _anomalies(findings: list[Found]) -> Iterator[Anomaly]:
    """Return the first `_OF_A_KIND_MAX` anomalies of each kind."""
    counted: dict[str, int] = {}
    for finding in sorted(findings, key=lambda finding: (finding.kind, finding.lines)):
        counted[finding.kind] = counted.get(finding.kind, 0) + 1
        if counted[finding.kind] <= _OF_A_KIND_MAX:
            yield Anomaly(
                kind=finding.kind, checker=MODEL, key=name_of_key(finding.key), witness=finding.lines, words=finding.words
            )


def _notes_on_findings(findings: list[Found]) -> Iterator[str]:
    for kind in sorted({finding.kind for finding in findings}):
        same = [finding for finding in findings if finding.kind == kind]
        yield f"{kind}: {len(same)}, allowed, because {same[0].allowed}; the first: {same[0].words}"
