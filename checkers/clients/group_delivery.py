"""Checker of consumer groups in a run of a black box: a group that commits what it was given skips no acknowledged record.

Operations `group-poll` have a JSON value: `{"group":"g"}`, answered by
`{"group":"g","assigned":["t-0"],"revoked":[],"records":{"t-0":[[7,"a"]]}}`; `commit` names the group and the position. What is
promised is docs/promise.md SES-2.

* A commit of a position claims all records below it. An acknowledged one that no member had been given is `skipped-record`.
* While a member keeps a partition, its commits do not go back (`commit-regressed`).
* A member that is newly given a partition goes on at a position that the group committed, or at the beginning if there is none:
  its first record must not be before all positions that may have been in force (`resumed-behind`).

A commit of unknown outcome may have been in force, so it explains a position and refutes none. A client that went on under a new
process number is the same member.

    >>> from checkers.clients.group_delivery import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> polled = 'ok group-poll value={"group":"g","records":{"t-0":[[1,"b"]]}}'
    >>> history = history_of("ok produce value=a offset=0", polled, "invoke commit offset=2 value=g", "ok commit")
    >>> [one.kind for one in judge(history, (CHECKER,)).anomalies]
    ['skipped-record']
"""

from collections.abc import Set
from typing import NamedTuple

from msgspec import Struct

from checkers.clients.excuses import WOUNDS, excuse_of_sessions
from checkers.clients.told import Polled, Unreadable, is_acknowledged, partition_keys
from checkers.engine.anomalies import NO_GROUPS, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import Call
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "group-delivery"
_NEVER = 1 << 62


class _Commit(NamedTuple):
    """A commit that did or may have taken effect, by the member and the rows of its call."""

    position: int
    member: int
    asked: int
    done: int  # _NEVER if the outcome is unknown


class _Answer(Struct, forbid_unknown_fields=True):
    """The JSON of a completed `group-poll`."""

    group: str
    revoked: list[str] = []
    records: Polled = {}
    assigned: list[str] = []


class _Given(NamedTuple):
    """What one poll of a member says of one partition; `fresh`: the partition was assigned during the poll."""

    member: int
    asked: int
    at: int
    fresh: bool
    offsets: tuple[int, ...]


_Key = tuple[str, str]  # group and partition


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge what the groups of a run were given and committed."""
    if "group-poll" not in operations.words:
        return Findings()  # no client of this run is a member of a group
    calls = operations.calls
    members = len(facts.client_places) or _NEVER
    commits: dict[_Key, list[_Commit]] = {}
    deliveries: dict[_Key, list[_Given]] = {}
    acknowledged: dict[str, list[tuple[int, str, int]]] = {}
    values = Unreadable(NAME)
    keys = partition_keys(operations)
    for call in calls:
        key = keys.get(call.invoked, "")
        if call.f == "commit" and call.type != "fail" and call.asked[0].offset is not None:
            ended = call.ended if call.type == "ok" else _NEVER
            commit = _Commit(call.asked[0].offset, call.process % members, call.invoked, ended)
            commits.setdefault((call.asked[0].value or "", key), []).append(commit)
        elif call.f == "group-poll":
            for of, poll in _deliveries_of_poll(call, values.answer(call, _Answer), call.process % members):
                deliveries.setdefault(of, []).append(poll)
        elif is_acknowledged(call):
            rows = [(row.offset, row.value or "", call.ended) for row in call.rows if row.offset is not None]
            acknowledged.setdefault(key, []).extend(rows)
    anomalies: list[Anomaly] = []
    unchecked = values.complaints
    excuse = excuse_of_sessions(events, facts, cuts)
    for of in sorted(commits.keys() | deliveries.keys()):
        mine, polls = commits.get(of, []), sorted(deliveries.get(of, []), key=lambda poll: poll.at)
        anomalies += _records_skipped(of, mine, polls, acknowledged.get(of[1], []))
        anomalies += _commits_that_fall(of, mine, polls)
        anomalies += _owners_resumed_behind(of, mine, polls)
    unread = _never_given(commits.keys() | deliveries.keys(), deliveries, acknowledged)
    if excuse is not None or unchecked:
        anomalies = []
        unchecked.append(f"{NAME}: {excuse or 'what cannot be read may hold any record'}: commits and deliveries were not judged")
    elif unread and not anomalies:
        unchecked.append(f"{NAME}: {unread} acknowledged records were never given to a group")
    return Findings(
        anomalies=tuple(anomalies), unchecked=tuple(unchecked), counts={"given": sum(len(p) for p in deliveries.values())}
    )


def _deliveries_of_poll(call: Call, answer: _Answer | None, member: int) -> list[tuple[_Key, _Given]]:
    """What one poll of a member gave, by group and partition; nothing if it has no answer."""
    if answer is None:
        return []
    group, records, fresh = answer.group, answer.records, answer.assigned
    return [
        ((group, key), _Given(member, call.invoked, call.ended, key in fresh, tuple(o for o, _ in records.get(key, ()))))
        for key in sorted({*records, *fresh})
    ]


def _never_given(
    known: Set[_Key], deliveries: dict[_Key, list[_Given]], acknowledged: dict[str, list[tuple[int, str, int]]]
) -> int:
    """How many acknowledged records a group was never given, of all partitions of the topics of which it had a partition.

    A partition that the group never had counts, too: nobody knows whether its records would be given.
    """
    count = 0
    for group in sorted({group for group, _ in known}):
        topics = {key.rpartition("-")[0] for of, key in known if of == group}
        for key, rows in acknowledged.items():
            given = {offset for poll in deliveries.get((group, key), ()) for offset in poll.offsets}
            count += sum(offset not in given for offset, _, _ in rows) if key.rpartition("-")[0] in topics else 0
    return count


def _records_skipped(of: _Key, commits: list[_Commit], polls: list[_Given], acked: list[tuple[int, str, int]]) -> list[Anomaly]:
    """Acknowledged records below a committed position that no member was given before."""
    first: dict[int, int] = {}  # offset -> the row at which a member was given it
    for poll in polls:
        for offset in poll.offsets:
            first.setdefault(offset, poll.at)
    anomalies = []
    for offset, value, at in sorted(acked):
        claims = [c for c in commits if c.done != _NEVER and c.position > offset and first.get(offset, _NEVER) > c.asked]
        if claims:
            claim = min(claims)
            words = f"group {of[0]} committed position {claim.position} and had not been given {value} at offset {offset}"
            anomalies.append(_anomaly("skipped-record", of, (at, claim.done), words))
    return anomalies


def _commits_that_fall(of: _Key, commits: list[_Commit], polls: list[_Given]) -> list[Anomaly]:
    """Commits of a member below its last one, though it kept the partition."""
    anomalies = []
    before: dict[int, _Commit] = {}
    for commit in sorted((c for c in commits if c.done != _NEVER), key=lambda c: c.asked):
        last = before.get(commit.member)
        if last is not None and commit.position < last.position:
            renewed = any(p.fresh and p.member == commit.member and last.asked < p.at < commit.asked for p in polls)
            if not renewed:
                words = f"a member of group {of[0]} committed {commit.position} after {last.position} and kept the partition"
                anomalies.append(_anomaly("commit-regressed", of, (last.done, commit.done), words))
        before[commit.member] = commit
    return anomalies


def _owners_resumed_behind(of: _Key, commits: list[_Commit], polls: list[_Given]) -> list[Anomaly]:
    """New owners of a partition that began below every position that may have been in force.

    Those are the position of the last commit that had ended before the owner asked, and all that overlap it or came later.
    """
    anomalies = []
    begins: dict[int, _Given] = {}  # member -> the poll in which it was given the partition, until it is given a record
    for poll in polls:
        if poll.fresh:
            begins[poll.member] = poll
        if poll.offsets and poll.member in begins:
            start = begins.pop(poll.member)
            settled = [c for c in commits if c.done < start.asked]
            newest_asked = max((c.asked for c in settled), default=-1)
            in_force = [c.position for c in commits if c.done > newest_asked and c.asked < poll.at]
            if settled and in_force and poll.offsets[0] < min(in_force):
                words = f"group {of[0]} had committed {min(in_force)}, and its next reader began at {poll.offsets[0]}"
                newest = max(settled, key=lambda c: c.asked)
                anomalies.append(_anomaly("resumed-behind", of, (newest.done, poll.at), words))
    return anomalies


def _anomaly(kind: str, of: _Key, witness: tuple[int, ...], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=of[1], witness=witness, words=words)


SKIPPED = Kind("skipped-record", Harm.LOSS, 40, unshown=NO_GROUPS)
RESUMED_BEHIND = Kind("resumed-behind", Harm.LOSS, 60, unshown=NO_GROUPS)

CHECKER = Checker(
    name=NAME,
    claim="A consumer group is given each acknowledged record below its commits, and goes on where it committed.",
    assumes="Members commit what they polled, after they were given it, and nothing else.",
    blind="Records that a group is given twice, which at-least-once allows; groups whose members are not clients of the run.",
    reports=(
        SKIPPED,
        Kind("commit-regressed", Harm.LOSS, 70, unshown=NO_GROUPS),
        RESUMED_BEHIND,
    ),
    group_by=WHOLE_RUN,
    operations=("group-poll", "commit", "produce"),
    events=WOUNDS,
    check=check,
    split=gathered(check),
)
