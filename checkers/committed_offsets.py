"""The positions that consumer groups commit: what was committed last is what is found.

A `commit` names a group and the position from which it wants to go on; `committed` asks for it. For each group and partition
that is a register whose last write wins, judged in real time: an answer must be a position that somebody in the group committed,
or may have, before the answer came, and that no later commit had certainly replaced before the question was asked. And who
commits says that it was given what lies before: nobody commits beyond what it knows of.

An unknown commit may have happened, at any time after it was asked for, so it explains an answer and refutes none.

    >>> from checkers.sketches import sketch
    >>> sketch("committed-offsets", "ok commit offset=3", "ok committed offset=1")
    ['phantom-commit']
"""

from typing import NamedTuple

import polars as pl

from checkers import screens
from checkers.checker import PARTITION, Checker, Facts, partition_of
from checkers.rows import Call, calls, operation_rows
from checkers.verdict import Anomaly, Cut, Findings

NAME = "committed-offsets"
_NEVER = 1 << 62


class _Commit(NamedTuple):
    """A position that a group committed, or perhaps did: from when, and from when for certain."""

    position: int
    asked: int
    done: int  # _NEVER where nobody knows


def _commits(done: list[Call]) -> dict[str, list[_Commit]]:
    found: dict[str, list[_Commit]] = {}
    for call in done:
        asked = call.asked[0]
        if call.f == "commit" and call.type != "fail" and asked.offset is not None:
            ended = call.ended if call.type == "ok" else _NEVER
            found.setdefault(asked.value or "", []).append(_Commit(asked.offset, call.invoked, ended))
    return found


def _answer(call: Call, commits: list[_Commit], key: str) -> Anomaly | None:
    """What is wrong with the answer to a question for the committed position; no offset means that there is none."""
    group, position = call.asked[0].value or "", call.rows[0].offset
    settled = [commit for commit in commits if commit.done < call.invoked]
    # A commit is replaced for certain by one that began after it had ended.
    last = max((commit.asked for commit in settled), default=-1)
    if position is None:
        if not settled:
            return None
        words = f"group {group} has committed {settled[-1].position}, and no position of its was found"
        return _anomaly("commit-lost", key, (settled[-1].done, call.ended), words)
    same = [commit for commit in commits if commit.position == position and commit.asked < call.ended]
    if not same:
        words = f"the position of group {group} was found to be {position}, which nobody committed"
        return _anomaly("phantom-commit", key, (call.ended,), words)
    if any(commit.done > last for commit in same):
        return None
    newest = max(settled, key=lambda commit: commit.asked)
    words = f"the position of group {group} was found to be {position}, after {newest.position} was committed in its place"
    return _anomaly("commit-lost", key, (newest.done, call.ended), words)


def _anomaly(kind: str, key: str, witness: tuple[int, ...], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=words)


def _ahead(done: list[Call], key: str) -> list[Anomaly]:
    """Commits of positions beyond everything that the process was given or told, where it polled at all."""
    known: dict[int, int] = {}  # process -> the position behind all it knows of
    polled: set[int] = set()  # the others may know what no row tells
    anomalies: list[Anomaly] = []
    for call in sorted(done, key=lambda call: call.ended if call.ended >= 0 else _NEVER):
        if call.f == "commit":
            position, reach = call.asked[0].offset, known.get(call.process, 0)
            if position is not None and call.process in polled and position > reach:
                words = f"process {call.process} commits position {position}, and knows of nothing from {reach} on"
                anomalies.append(_anomaly("commit-ahead", key, (call.invoked,), words))
            continue
        if call.type != "ok":
            continue
        if call.f != "committed":
            polled.add(call.process)
        asked = call.asked[0].offset or 0
        for row in call.rows:
            behind = asked if row.offset is None else row.offset + (call.f == "poll")
            known[call.process] = max(known.get(call.process, 0), behind)
    return anomalies


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """One partition, group by group."""
    if not operations["f"].is_in(["commit", "committed"]).any():
        return Findings()  # clients of this history keep their positions to themselves
    topic, partition = partition_of(operations, events)
    key = f"{topic}-{partition}"
    done = calls(operation_rows(operations))
    commits = _commits(done)
    answers = [call for call in done if call.f == "committed" and call.type == "ok"]
    found = [_answer(call, commits.get(call.asked[0].value or "", []), key) for call in answers]
    anomalies = [anomaly for anomaly in found if anomaly is not None] + _ahead(done, key)
    return Findings(anomalies=tuple(anomalies), counts={"commits": sum(map(len, commits.values()))})


CHECKER = Checker(
    name=NAME,
    claim="A consumer group finds the position that it committed last, and commits nothing that it was not given.",
    assumes="Operations `commit` and `committed` name the group in `value` and the position in `offset`.",
    blind="Histories without such operations; what a group read twice because it had not committed it.",
    kinds=("commit-lost", "phantom-commit", "commit-ahead"),
    group_by=PARTITION,
    operations=("commit", "committed", "poll", "latest"),
    check=check,
    screen=screens.committed_offsets,
)
