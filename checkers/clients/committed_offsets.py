"""Checker of committed offsets of consumer groups: `committed` answers the offset that the group committed last.

A `commit` names a group and the next position to read; `committed` asks for it. For each group and partition this is a register
whose last write wins, judged in real time. An answer must be a position that a member of the group committed, or may have
committed, before the answer came. No later commit may have certainly replaced it before `committed` was invoked. A process that
commits a position claims to have been given everything before it, so it must not commit beyond what it knows of.

Why it is sound: a commit of unknown outcome may have taken effect at any time after its invocation, so it can explain an answer
and refutes none.

    >>> from checkers.sketches import sketch
    >>> sketch("committed-offsets", "ok commit offset=3", "ok committed offset=1")
    ['phantom-commit']
"""

from typing import NamedTuple

from checkers.engine import screens
from checkers.engine.anomalies import NO_COMMITS, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "committed-offsets"
_NEVER = 1 << 62


class _Commit(NamedTuple):
    """An offset that a consumer group committed or may have committed, with the rows of the request and its answer."""

    position: int
    asked: int
    done: int  # _NEVER if the outcome is unknown


def _commits_by_group(calls: list[Call]) -> dict[str, list[_Commit]]:
    """The commits of each group; one of unknown outcome never ends."""
    commits: dict[str, list[_Commit]] = {}
    for call in calls:
        request = call.asked[0]
        if call.f == "commit" and call.type != "fail" and request.offset is not None:
            ended = call.ended if call.type == "ok" else _NEVER
            commits.setdefault(request.value or "", []).append(_Commit(request.offset, call.invoked, ended))
    return commits


def _anomaly_of_answer(call: Call, commits: list[_Commit], key: str) -> Anomaly | None:
    """Find the anomaly in one answer to a group's request for its committed offset; no offset means "none committed"."""
    group = call.asked[0].value or ""
    position = call.rows[0].offset
    settled = [commit for commit in commits if commit.done < call.invoked]
    # A commit is certainly replaced by one that was invoked after it had completed.
    last = max((commit.asked for commit in settled), default=-1)
    if position is None:
        if not settled:
            return None
        words = f"group {group} had committed position {settled[-1].position}, but none was found"
        return _anomaly("commit-lost", key, (settled[-1].done, call.ended), words)
    same = [commit for commit in commits if commit.position == position and commit.asked < call.ended]
    if not same:
        words = f"group {group} was given the committed position {position}, which no process had committed"
        return _anomaly("phantom-commit", key, (call.ended,), words)
    if any(commit.done > last for commit in same):
        return None
    newest = max(settled, key=lambda commit: commit.asked)
    words = f"group {group} was given the committed position {position} after {newest.position} had replaced it"
    return _anomaly("commit-lost", key, (newest.done, call.ended), words)


def _anomaly(kind: str, key: str, witness: tuple[int, ...], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=words)


def _commits_ahead(calls: list[Call], key: str) -> list[Anomaly]:
    """Find commits of offsets beyond all that the committing consumer had read or been told."""
    positions: dict[int, int] = {}  # process -> the position after the highest offset it knows of
    polled: set[int] = set()  # other processes may know of offsets that no row shows
    anomalies: list[Anomaly] = []
    for call in sorted(calls, key=lambda call: call.ended if call.ended >= 0 else _NEVER):
        if call.f == "commit":
            position = call.asked[0].offset
            reach = positions.get(call.process, 0)
            if position is not None and call.process in polled and position > reach:
                words = f"process {call.process} commits position {position} but knows of no record from offset {reach} on"
                anomalies.append(_anomaly("commit-ahead", key, (call.invoked,), words))
            continue
        if call.type != "ok":
            continue
        if call.f != "committed":
            polled.add(call.process)
        offset = call.asked[0].offset or 0
        for row in call.rows:
            behind = offset if row.offset is None else row.offset + (call.f == "poll")
            positions[call.process] = max(positions.get(call.process, 0), behind)
    return anomalies


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the committed offsets of one partition, one consumer group after the other."""
    if not operations.words & {"commit", "committed"}:
        return Findings()  # no client of this history commits positions
    topic, partition = partition_of(operations, events)
    key = f"{topic}-{partition}"
    calls = operations.calls
    commits = _commits_by_group(calls)
    answers = [call for call in calls if call.f == "committed" and call.type == "ok"]
    found = [_anomaly_of_answer(call, commits.get(call.asked[0].value or "", []), key) for call in answers]
    anomalies = [anomaly for anomaly in found if anomaly is not None] + _commits_ahead(calls, key)
    return Findings(anomalies=tuple(anomalies), counts={"commits": sum(map(len, commits.values()))})


LOST = Kind("commit-lost", Harm.LOSS, 50, breaks=("DUR",), unshown=NO_COMMITS)

CHECKER = Checker(
    name=NAME,
    claim="A consumer group gets back the position that it committed last, and commits no position beyond what it was given.",
    assumes="Operations `commit` and `committed` name the group in `value` and the position in `offset`.",
    blind="Histories without such operations; records that a group read twice because it had not committed.",
    reports=(
        LOST,
        Kind("phantom-commit", Harm.FALSE_READ, 130, breaks=("DUR",), unshown=NO_COMMITS),
        Kind("commit-ahead", Harm.FALSE_READ, 140, breaks=("DUR",), unshown=NO_COMMITS),
    ),
    group_by=PARTITION,
    operations=("commit", "committed", "poll", "latest"),
    check=check,
    screen=screens.nothing,
)
