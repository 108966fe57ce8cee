"""Checker of consumer groups that commit automatically: what is committed was handed to an application, which had time to use it.

The members of such a group say so in the value of their operations, `{"group":"g","commits":"next-poll"}`. `group-poll` is
answered as for `checkers.clients.group_delivery`; `group-leave` leaves the group, `group-abandon` is the crash of a member's
program, and `group-positions` asks for the positions that the group committed: `{"group":"g","committed":{"t-0":7,"t-1":null}}`.
What is promised is docs/promise.md SES-6.

Nobody sees the commits. A position is known from the answer to `group-positions`, and from the first record that a member is
given of a partition that is newly assigned to it: it claims all acknowledged records below it.

* No member had been given such a record: `skipped-record`.
* With `next-poll`, a member is done with what a poll gave when it polls again or leaves. A record with which nobody was done is
  `early-commit`: if its member crashes, or did, nobody is given it again. With `delivery` it is enough that a poll that gave the
  record had begun: librdkafka stores offsets as it hands records over.
* A member that is newly given a partition does not begin before a position that was told before (`resumed-behind`).
* A position that was told is not lower, or gone, in the final phase (`commit-lost`). Before that a coordinator that does not know
  that it was deposed may answer an old one.
* While a member keeps a partition, it is given each record once and in order (`repeated-record`). After a rebalance or a crash a
  group is given records again, which at-least-once allows.
* Members that leave after the bound B have committed all that they were given, else the run is not live.

    >>> from checkers.clients.auto_commit import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> group = '"group":"g"'
    >>> asks = f'invoke group-poll process=1 value={{{group},"commits":"next-poll"}}'
    >>> polled = f'ok group-poll process=1 value={{{group},"records":{{"t-0":[[0,"a"]]}}}}'
    >>> asked = f'invoke group-positions process=2 value={{{group},"commits":"next-poll"}}'
    >>> told = f'ok group-positions process=2 value={{{group},"committed":{{"t-0":1}}}}'
    >>> history = history_of("ok produce value=a offset=0", asks, polled, asked, told)
    >>> [one.kind for one in judge(history, (CHECKER,)).anomalies]
    ['early-commit']
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from checkers.clients.committed_offsets import LOST
from checkers.clients.excuses import WOUNDS, excuse_of_sessions
from checkers.clients.group_delivery import RESUMED_BEHIND, SKIPPED
from checkers.clients.told import Polled, Unreadable, is_acknowledged, is_at_the_end, partition_keys
from checkers.engine.anomalies import NO_GROUPS, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, recovery_deadline_ns
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import Call
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "auto-commit"
_OF_MEMBERS = ("group-poll", "group-leave", "group-abandon", "group-positions")
_NEVER = 1 << 62


class _Asked(Struct):
    """The value of an invocation."""

    group: str
    commits: Literal["", "next-poll", "delivery"] = ""


class _Told(Struct, forbid_unknown_fields=True):
    """The value of a completion; `committed` by partition, None where the group has committed nothing."""

    group: str
    commits: str = ""
    assigned: list[str] = []
    revoked: list[str] = []
    records: Polled = {}
    committed: dict[str, Annotated[int, Meta(ge=0)] | None] = {}


class _Step(NamedTuple):
    """One call of a member; `told` is None where the answer tells nothing."""

    member: int
    call: Call
    told: _Told | None


class _Handing(NamedTuple):
    """A poll that gave a record: its rows, and the one from which on the member was done with the record."""

    asked: int
    at: int
    done: int  # _NEVER: it crashed, or did nothing more


class _Claim(NamedTuple):
    """A position of which is known that the group had committed it, or that it began there; `at` is the row that tells it."""

    at: int
    position: int
    words: str


class _Group(NamedTuple):
    """One group and all that its members did, in the order of the invocations; `done_early`: what a poll gives is done with."""

    name: str
    done_early: bool
    steps: list[_Step]


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the groups of a run that commit automatically; counts the positions that were `told`, and members that `crashed`."""
    if not any(f in operations.words for f in _OF_MEMBERS):
        return Findings()  # no client of this run is a member of a group
    values = Unreadable(NAME)
    groups = _groups_of(operations, facts, values)
    if not groups:
        return Findings()  # members commit by calls
    acknowledged: dict[str, list[tuple[int, str, int]]] = {}
    keys = partition_keys(operations)
    for call in filter(is_acknowledged, operations.calls):
        rows = [(row.offset, row.value or "", call.ended) for row in call.rows if row.offset is not None]
        acknowledged.setdefault(keys.get(call.invoked, ""), []).extend(rows)
    anomalies: list[Anomaly] = []
    complaints: list[str] = []
    unchecked = values.complaints
    told = 0
    for group in groups:
        answers = [step for step in group.steps if step.told is not None and step.told.committed and step.call.type == "ok"]
        told += sum(position is not None for step in answers if step.told for position in step.told.committed.values())
        blind = next((step.call.invoked for step in group.steps if _may_have_given_unseen(step)), _NEVER)
        if blind != _NEVER:
            unchecked.append(f"{NAME}: a poll of {group.name} may have given records unseen: later positions were not judged")
        for key in _keys(group):
            if _highest(answers, key, before=_NEVER) is None and any(_handings(group, key)):
                unchecked.append(f"{NAME}: no position of {key} that {group.name} committed was told")
            claims = [claim for claim in _claims(group, answers, key) if claim.at < blind]
            anomalies += _claims_too_early(group, key, claims, acknowledged.get(key, []))
            anomalies += _begins_behind(group, answers, key)
            anomalies += _positions_lost(group, answers, key, facts)
            anomalies += _repeated(group, key)
            complaints += _left_uncommitted(group, answers, key, facts)
    excuse = excuse_of_sessions(events, facts, cuts)
    if excuse is not None or values.complaints:
        anomalies = []
        reason = excuse or "what cannot be read may hold any record"
        unchecked.append(f"{NAME}: {reason}: positions and deliveries were not judged")
    if not (told or anomalies or unchecked):
        unchecked.append(f"{NAME}: no position that a group committed was told")
    return Findings(
        anomalies=tuple(anomalies),
        unchecked=tuple(unchecked),
        not_live=() if excuse is not None else tuple(complaints),
        live_judged=recovery_deadline_ns(facts) is not None,
        counts={"told": told, "crashed": sum(step.call.f == "group-abandon" for group in groups for step in group.steps)},
    )


def _groups_of(operations: Operations, facts: Facts, values: Unreadable) -> list[_Group]:
    """The groups that commit automatically, by name."""
    members = len(facts.client_places) or _NEVER
    groups: dict[str, _Group] = {}
    for call in sorted(operations.calls, key=lambda call: call.invoked):
        if call.f not in _OF_MEMBERS:
            continue
        asked = values.read(call.asked[0].value if call.asked else None, _Asked)
        if asked is None or not asked.commits:
            continue
        answer = values.answer(call, _Told) if call.f in ("group-poll", "group-positions") else None
        group = groups.setdefault(asked.group, _Group(asked.group, asked.commits == "delivery", []))
        group.steps.append(_Step(call.process % members, call, answer))
    return [groups[name] for name in sorted(groups)]


def _may_have_given_unseen(step: _Step) -> bool:
    """Whether nobody knows what a poll gave: it has no outcome, or one that is not known."""
    call = step.call
    return call.f == "group-poll" and call.type != "fail" and (call.type != "ok" or step.told is None)


def _keys(group: _Group) -> list[str]:
    """The partitions of which members of a group were told."""
    told = [step.told for step in group.steps if step.told is not None]
    return sorted({key for one in told for key in (*one.assigned, *one.records, *one.committed)})


def _handings(group: _Group, key: str) -> Iterator[tuple[int, str, _Handing]]:
    """Each record of a partition that a poll gave: offset and value."""
    for at, step in enumerate(group.steps):
        if step.call.f != "group-poll" or step.told is None or not step.told.records.get(key):
            continue
        later = (one for one in group.steps[at + 1 :] if one.member == step.member and one.call.f != "group-positions")
        following = next(later, None)
        died = following is None or following.call.f == "group-abandon"
        done = _NEVER if following is None or died else following.call.invoked
        for offset, value in step.told.records[key]:
            yield offset, value, _Handing(step.call.invoked, step.call.ended, done)


def _beginnings(group: _Group, key: str) -> Iterator[tuple[_Step, _Step, int]]:
    """Polls in which a member was newly given a partition, each with the first that gave a record of it, and its offset."""
    begun: dict[int, _Step] = {}
    for step in group.steps:
        if step.told is None or step.call.f != "group-poll":
            continue
        if key in step.told.assigned:
            begun[step.member] = step
        if step.told.records.get(key) and step.member in begun:
            yield begun.pop(step.member), step, step.told.records[key][0][0]


def _claims(group: _Group, answers: list[_Step], key: str) -> list[_Claim]:
    """What is known of the positions that a group committed of a partition, in the order of the rows."""
    told = f"group {group.name} had committed position"
    claims = [
        _Claim(step.call.ended, position, f"{told} {position}")
        for step in answers
        if step.told is not None and (position := step.told.committed.get(key)) is not None
    ]
    began = f"a member of group {group.name} began at offset"
    claims += [_Claim(first.call.ended, offset, f"{began} {offset}") for _, first, offset in _beginnings(group, key)]
    return sorted(claims)


def _claims_too_early(group: _Group, key: str, claims: list[_Claim], acked: list[tuple[int, str, int]]) -> Iterator[Anomaly]:
    """Acknowledged records below a position, with which no member was done, or which none had been given."""
    by_position = sorted(claims, key=lambda claim: claim.position)
    positions = [claim.position for claim in by_position]
    earliest: list[_Claim] = []  # of the claims from here on
    for claim in reversed(by_position):
        earliest.append(min(claim, earliest[-1]) if earliest else claim)
    earliest.reverse()
    given: dict[tuple[int, str], list[_Handing]] = {}
    for offset, value, handing in _handings(group, key):
        given.setdefault((offset, value), []).append(handing)
    for offset, value, row in sorted(acked):
        at = bisect_right(positions, offset)
        if at == len(positions):
            continue
        claim, handings = earliest[at], given.get((offset, value), [])
        if not any(handing.asked < claim.at for handing in handings):
            words = f"{claim.words}, and no member had been given {value} at offset {offset}"
            yield _anomaly(SKIPPED.name, key, (row, claim.at), words)
        elif not group.done_early and not any(handing.done < claim.at for handing in handings):
            first = min(handings)
            words = f"{claim.words}, and the member that was given {value} at offset {offset} was not done with it"
            yield _anomaly(EARLY.name, key, (first.at, claim.at), words)


def _begins_behind(group: _Group, answers: list[_Step], key: str) -> Iterator[Anomaly]:
    """New owners of a partition that began below a position which had been told before."""
    for begun, first, offset in _beginnings(group, key):
        highest = _highest(answers, key, before=begun.call.invoked)
        if highest is not None and offset < highest[0]:
            words = f"group {group.name} had committed position {highest[0]}, and its next reader began at {offset}"
            yield _anomaly(RESUMED_BEHIND.name, key, (highest[1], first.call.ended), words)


def _highest(answers: list[_Step], key: str, *, before: int) -> tuple[int, int] | None:
    """The highest position that was told of a partition before a row, and the row that told it."""
    told = [(step.told.committed.get(key), step.call.ended) for step in answers if step.told is not None]
    return max(((position, row) for position, row in told if position is not None and row < before), default=None)


def _positions_lost(group: _Group, answers: list[_Step], key: str, facts: Facts) -> Iterator[Anomaly]:
    """Answers of the final phase that are lower than earlier ones."""
    for step in answers:
        if step.told is None or key not in step.told.committed or not is_at_the_end(facts, step.call):
            continue
        position, highest = step.told.committed[key], _highest(answers, key, before=step.call.invoked)
        if highest is not None and (position is None or position < highest[0]):
            found = "none was found" if position is None else f"{position} was found"
            words = f"group {group.name} had committed position {highest[0]}, but {found}"
            yield _anomaly(LOST.name, key, (highest[1], step.call.ended), words)


def _repeated(group: _Group, key: str) -> Iterator[Anomaly]:
    """Records that a member was given again, or out of order, though it kept the partition."""
    last: dict[int, tuple[int, int]] = {}  # member -> offset and row
    for step in group.steps:
        if step.call.f != "group-poll":
            if step.call.f != "group-positions":
                last.pop(step.member, None)
            continue
        if step.told is None:
            continue
        moved = key in step.told.assigned or key in step.told.revoked
        if moved:
            last.pop(step.member, None)
        offsets = [offset for offset, _ in step.told.records.get(key, ())]
        for offset in () if moved else offsets:
            before = last.get(step.member)
            if before is not None and offset <= before[0]:
                words = f"a member of group {group.name} was given offset {offset} after {before[0]} and kept the partition"
                yield _anomaly(REPEATED.name, key, (before[1], step.call.ended), words)
            last[step.member] = (max(offset, before[0]) if before else offset, step.call.ended)
        if moved and offsets and key not in step.told.revoked:
            last[step.member] = (offsets[-1], step.call.ended)


def _left_uncommitted(group: _Group, answers: list[_Step], key: str, facts: Facts) -> Iterator[str]:
    """What members were given, and had not committed although they left after the bound B."""
    deadline = recovery_deadline_ns(facts)
    last: dict[int, Call] = {step.member: step.call for step in group.steps if step.call.f != "group-positions"}
    if deadline is None or not all(call.f == "group-leave" and call.type == "ok" for call in last.values()):
        return
    if min(call.invoked_ns for call in last.values()) < deadline:
        return
    asked = [step for step in answers if step.call.invoked > max(call.ended for call in last.values())]
    given = max((offset for offset, _, _ in _handings(group, key)), default=-1)
    for step in asked[-1:]:
        position = step.told.committed.get(key) if step.told is not None else None
        if given >= 0 and (position is None or position <= given):
            said = "nothing" if position is None else f"position {position}"
            yield f"group {group.name} had committed {said} of {key} when its members had left, who were given offset {given}"


def _anomaly(kind: str, key: str, witness: tuple[int, ...], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=words)


EARLY = Kind("early-commit", Harm.LOSS, 43, unshown=NO_GROUPS)
REPEATED = Kind("repeated-record", Harm.DISORDER, 8, unshown=NO_GROUPS)

CHECKER = Checker(
    name=NAME,
    claim="A group that commits automatically commits no acknowledged record before a member was given it and is done with it.",
    assumes="A member is done with what a poll gave when it polls again or leaves, and nobody commits for the group by calls.",
    blind="Positions that nobody asked for and at which nobody began, or beyond the log; records that a group is given "
    "again after a rebalance.",
    reports=(SKIPPED, EARLY, LOST, RESUMED_BEHIND, REPEATED),
    group_by=WHOLE_RUN,
    operations=(*_OF_MEMBERS, "produce"),
    events=WOUNDS,
    check=check,
    split=gathered(check),
)
