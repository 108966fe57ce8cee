"""Checker of share groups in a run of a black box: what was accepted or rejected is final, and all else is delivered (KIP-932).

Operations `share-poll`, `share-acknowledge`, `share-leave` and `share-abandon` have a JSON value: `{"group":"g"}`. A poll is
answered by offset, value and number of deliveries, and how long a record is locked:
`{"group":"g","records":{"t-0":[[7,"a",1]]},"lock_ms":6000}`. A share-acknowledge is answered, whatever the outcome, by what it
asked for and the partitions that confirmed it: `{"group":"g","acknowledged":{"t-0":[[7,"accept"]]},"confirmed":["t-0"]}`. What is
promised is docs/promise.md SES-5.

* A record whose acceptance or rejection was confirmed is delivered again (`redelivered-record`). A member may have fetched it
  before, so the delivery accuses only if the member made another poll in between, which began after the confirmation and the
  longest time that a client waits for an answer: that took all that had been fetched.
* An acknowledged record that nobody asked to accept or reject is not delivered any more (`undelivered-record`), although the last
  member polled alone for longer than twice the lock, and got nothing.

An acknowledgement that was not confirmed may have taken effect; one of which nobody knows what it asked for may be of any record
that its member had been given. Records that were acknowledged after the first of these polls are not missed. A record may be
delivered many times: after a release, after its lock has run out, after a change of the leader. The broker gives one up after
some deliveries, of which clients may not have heard, so one that was told more than DELIVERIES_MAX times is not missed.

    >>> from checkers.clients.share_groups import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> given = 'ok share-poll value={"group":"g","records":{"t-0":[[7,"a",1]]}}'
    >>> done = 'ok share-acknowledge value={"group":"g","acknowledged":{"t-0":[[7,"accept"]]},"confirmed":["t-0"]}'
    >>> between = 'ok share-poll value={"group":"g","records":{}} time_ns=2000000000'
    >>> asked, again = "invoke share-poll time_ns=2000000000", f"{given} time_ns=2000000000"
    >>> [one.kind for one in judge(history_of(given, done, asked, between, asked, again), (CHECKER,)).anomalies]
    ['redelivered-record']
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from checkers.clients.excuses import WOUNDS, excuse_of_sessions
from checkers.clients.told import Unreadable, is_acknowledged, is_at_the_end, partition_keys
from checkers.engine.anomalies import NO_GROUPS, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, recovery_deadline_ns
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import Call
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "share-groups"
DELIVERIES_MAX = 3  # that clients were told of, of a record that is missed; by default the broker gives one up after 5
_NEVER = 1 << 62
_MS = 1_000_000
_FINAL = ("accept", "reject")
_Place = tuple[str, str, int]  # group, partition and offset


class _Told(Struct, forbid_unknown_fields=True):
    """The value of an operation; `records` by offset, value and number of deliveries, `acknowledged` by offset and type."""

    group: str
    records: dict[str, list[tuple[int, str, int]]] = {}
    lock_ms: int = 0  # 0: not told
    acknowledged: dict[str, list[tuple[int, str]]] = {}
    confirmed: list[str] = []


class _Poll(NamedTuple):
    """A poll of a member that succeeded; `records` by place, with value and number of deliveries."""

    member: int
    group: str
    call: Call
    records: dict[_Place, tuple[str, int]]
    lock_ms: int


class _Run(NamedTuple):
    """What the members of a run were told, in the order of the invocations."""

    polls: list[_Poll]
    settled: dict[_Place, tuple[str, Call]]  # what was certainly accepted or rejected, by the first confirmation
    asked: set[_Place]  # what anybody asked to accept or reject, or may have asked
    ended: dict[tuple[str, int], str]  # group and member: what it did last
    acknowledged: dict[tuple[str, int], tuple[str, int]]  # produced under acks=all: value and row, by partition and offset
    failed: dict[str, int]  # group -> the last poll that failed, with records perhaps
    blind: set[str]  # groups of which any record may have been accepted, and nobody was told
    values: Unreadable


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the share groups of a run; counts records `settled` for certain, and those `redelivered`."""
    if "share-poll" not in operations.words:
        return Findings()  # no client of this run is a member of a share group
    run = _facts_of_run(operations, facts)
    anomalies = list(_records_redelivered(run, facts))
    unchecked = run.values.complaints
    drained = {group: _drained(run, group, facts) for group in sorted({poll.group for poll in run.polls})}
    for group, last in drained.items():
        if group in run.blind:
            unchecked.append(f"{NAME}: any record of {group} may have been accepted unseen: missing records were not judged")
        elif last is None or run.values.complaints:
            unchecked.append(f"{NAME}: nobody polled {group} alone and in vain to the end: missing records were not judged")
        else:
            anomalies += _records_undelivered(run, group, last)
    complaints = tuple(_complaints(run, facts, drained=None not in drained.values()))
    excuse = excuse_of_sessions(events, facts, cuts)
    if excuse is not None:
        anomalies = []
        unchecked.append(f"{NAME}: {excuse}: deliveries were not judged")
    if not run.settled:
        unchecked.append(f"{NAME}: no acknowledgement of a record was confirmed")
    return Findings(
        anomalies=tuple(anomalies),
        unchecked=tuple(unchecked),
        not_live=complaints,
        live_judged=recovery_deadline_ns(facts) is not None,
        counts={
            "settled": len(run.settled),
            "redelivered": sum(count > 1 for poll in run.polls for _, count in poll.records.values()),
        },
    )


def _facts_of_run(operations: Operations, facts: Facts) -> _Run:
    """What the calls of a run say."""
    members = len(facts.client_places) or _NEVER
    keys = partition_keys(operations)
    run = _Run([], {}, set(), {}, {}, {}, set(), Unreadable(NAME))
    given: dict[tuple[str, int], set[_Place]] = {}  # group and member -> all records that it was given
    lost: set[tuple[str, int]] = set()  # members with a poll of unknown outcome, which perhaps gave them records
    for call in sorted(operations.calls, key=lambda call: call.invoked):
        if call.f == "produce":
            if is_acknowledged(call):
                key = keys.get(call.invoked, "")
                rows = ((row.offset, row.value) for row in call.rows if row.offset is not None)
                run.acknowledged.update({(key, offset): (value or "", call.ended) for offset, value in rows})
            continue
        answer = run.values.answer_or_question(call, _Told)
        member = call.process % members
        if answer is None:
            continue
        run.ended[(answer.group, member)] = call.f if call.type == "ok" else ""
        if call.f == "share-poll" and call.type == "ok":
            run.polls.append(_Poll(member, answer.group, call, _records(answer), answer.lock_ms))
            given.setdefault((answer.group, member), set()).update(run.polls[-1].records)
        elif call.f == "share-poll":
            run.failed[answer.group] = call.invoked
            if call.type != "fail":
                lost.add((answer.group, member))
        elif call.f == "share-acknowledge" and (not call.rows or call.rows[0].value is None):
            # Nobody knows what it asked for: it may have accepted any record that its member was given.
            run.asked.update(given.get((answer.group, member), ()))
            if (answer.group, member) in lost:
                run.blind.add(answer.group)
        elif call.f == "share-acknowledge":
            _take_acknowledgements(run, call, answer)
    return run


def _take_acknowledgements(run: _Run, call: Call, answer: _Told) -> None:
    """Enter which records a call accepted or rejected, for certain or perhaps."""
    for key, acknowledged in answer.acknowledged.items():
        for offset, what in acknowledged:
            place = (answer.group, key, offset)
            if what in _FINAL:
                run.asked.add(place)
                if key in answer.confirmed:
                    run.settled.setdefault(place, (what, call))


def _records(told: _Told) -> dict[_Place, tuple[str, int]]:
    """The records of an answer by place, with value and number of deliveries."""
    return {(told.group, key, offset): (value, count) for key, of in told.records.items() for offset, value, count in of}


def _records_redelivered(run: _Run, facts: Facts) -> Iterator[Anomaly]:
    """Records that a member was given again, and fetched after their acceptance or rejection was confirmed."""
    wait_ns = (facts.client_timeout_ms or 0) * _MS
    before: dict[tuple[str, int], Call] = {}  # group and member -> its last poll
    for poll in run.polls:
        between = before.get((poll.group, poll.member))
        before[(poll.group, poll.member)] = poll.call
        for place, (value, _) in poll.records.items():
            if place not in run.settled or between is None:
                continue
            what, confirmed = run.settled[place]
            # Time is that of one clock, which the harness reads: rows alone do not say how long a client waited.
            if between.invoked > confirmed.ended and between.invoked_ns >= confirmed.rows[0].time_ns + wait_ns:
                verb = "accepted" if what == "accept" else "rejected"
                words = f"{value} at offset {place[2]} was certainly {verb} for group {poll.group}, and is delivered again"
                yield _anomaly("redelivered-record", place[1], (confirmed.ended, poll.call.ended), words)


def _drained(run: _Run, group: str, facts: Facts) -> tuple[Call, Call] | None:
    """The first and last of the polls in vain by which a member, alone in the group, has proved that nothing is left.

    None if no member has.
    """
    polls_of_group = [poll for poll in run.polls if poll.group == group]
    last = polls_of_group[-1].member if polls_of_group else -1
    others_stayed = any(of == group and member != last and did != "share-leave" for (of, member), did in run.ended.items())
    if others_stayed:
        return None
    vain: list[_Poll] = []
    for poll in reversed(polls_of_group):
        early = not is_at_the_end(facts, poll.call) or poll.call.invoked < run.failed.get(group, -1)
        if poll.records or poll.member != last or early:
            break
        vain.append(poll)
    lock_ms = max(poll.lock_ms for poll in polls_of_group)
    if not vain or not lock_ms or vain[0].call.rows[0].time_ns - vain[-1].call.invoked_ns < 2 * lock_ms * _MS:
        return None
    return vain[-1].call, vain[0].call


def _records_undelivered(run: _Run, group: str, drained: tuple[Call, Call]) -> Iterator[Anomaly]:
    """Records, acknowledged before the polls in vain, that nobody asked to accept or reject, and that are not delivered."""
    first, last = drained
    counts: dict[tuple[str, int], int] = {}
    for poll in run.polls:
        for (of, key, offset), (_, count) in poll.records.items():
            if of == group:
                counts[(key, offset)] = max(count, counts.get((key, offset), 0))
    for (key, offset), (value, row) in sorted(run.acknowledged.items()):
        count = counts.get((key, offset), 0)
        if row < first.invoked and (group, key, offset) not in run.asked and count <= DELIVERIES_MAX:
            nobody = f"nobody accepted or rejected {value} at offset {offset} for group {group}"
            words = f"{nobody}, and it is not delivered any more (deliveries: {count})"
            yield _anomaly("undelivered-record", key, (row, last.ended), words)


def _complaints(run: _Run, facts: Facts, *, drained: bool) -> Iterator[str]:
    """Why the run is not live: the last member did not come to the end, or no late record was delivered."""
    deadline = recovery_deadline_ns(facts)
    if deadline is None:
        return
    if not drained:
        yield "no member of a share group was left alone with nothing to deliver"
    late_polls = [poll for poll in run.polls if poll.call.invoked_ns >= deadline]
    if late_polls and not any(poll.records for poll in late_polls):
        yield "no member of a share group was given a record from the bound B after healing on"


def _anomaly(kind: str, key: str, witness: tuple[int, ...], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=words)


CHECKER = Checker(
    name=NAME,
    claim="A share group is given each acknowledged record until a member accepts or rejects it, and not again after that.",
    assumes="Every member reads all topics from the beginning, and a poll takes all that was fetched. Nobody alters the offsets.",
    blind="Records that two members hold at once, order, and records that were delivered too often in vain.",
    reports=(
        Kind("undelivered-record", Harm.LOSS, 45, unshown=NO_GROUPS),
        Kind("redelivered-record", Harm.DISORDER, 7, unshown=NO_GROUPS),
    ),
    group_by=WHOLE_RUN,
    operations=("share-poll", "share-acknowledge", "share-leave", "share-abandon", "produce"),
    events=WOUNDS,
    check=check,
    split=gathered(check),
)
