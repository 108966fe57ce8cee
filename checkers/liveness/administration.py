"""Checker of administrators whose requests go to brokers: each is carried out, and nothing else (docs/promise.md LIVE-4, LIVE-5).

It stands in for `availability-cluster` where brokers note nothing, and judges by the same rules what the rows of coordination
show. Such an administrator moves a partition with one request, which replaces the one before, and a cancellation names what it
cancelled (KIP-455):

* a partition ends on the replicas of the last request for it, or, if that was cancelled, on those that it had before;
* whatever became of requests whose outcome is unknown: it ends on replicas that somebody asked for, and between two sets never;
* no move is under way at the end; a topic that was deleted is gone, a partition that was added is there, and a setting is set;
* each request after the bound B is carried out, and the preferred replica leads where it was elected after B.

A request of unknown outcome may be carried out at any later time, so the partition that it names is judged by the second rule
only. So are all partitions after such a cancellation. A cancelled move keeps the replicas in another order. A partition without a
leader cannot be moved.

    >>> from checkers.liveness.administration import CHECKER
    >>> from checkers.judge import judge
    >>> from checkers.sketches import history_of
    >>> rows = "assigned replicas=b1,b2", "state-written leader=b1 isr=b1,b2", "invoke reassign value='t-0 on 1,3'", "ok reassign"
    >>> judge(history_of(*rows, "healed"), (CHECKER,)).not_live
    ('t-0 was to be moved to b1, b3 and is on b1, b2 at the end',)
"""

from collections.abc import Iterator
from typing import NamedTuple

from checkers.engine.anomalies import HISTORIES, not_live
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, recovery_deadline_ns
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import Call, EventRow
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from checkers.liveness.audits import pending_requests, unpreferred, unserved
from checkers.liveness.confirmed import unmade
from history.event import EventKind as K
from history.op import ADMIN_REQUESTS

NAME = "administration"
MOVES = ("reassign", "reassign-extra", "reassign-request")
_CANCEL = "cancel-reassignments"
_UNDER_WAY = "the move of "  # as clients/jvm/Administrator.java lists it
_Replicas = tuple[str, ...]
_Placed = list[tuple[str, EventRow]]


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge all requests of administrators in a run, if it healed and went on until the bound."""
    deadline = recovery_deadline_ns(facts)
    done = operations.calls
    if deadline is None or not done:
        return Findings()
    rows = events.rows
    named = {at: f"{t}-{p}" for at, t, p in events.columns("index", "topic", "partition") if p is not None}
    placed = [(named[row.at], row) for row in rows if row.at in named and row.kind != K.ZK_STATE]
    leaders = _leaders(placed)
    offline = [name for name, leader in leaders.items() if leader is None]
    complaints = [
        *(said for said in pending_requests(done, facts) if not any(said.startswith(f"{_UNDER_WAY}{n} ") for n in offline)),
        *_misplaced(done, placed, leaders),
        *unmade(done, placed, []),
        *_undeleted(done, events),
        *_unset(done, events),
        *unserved(done, deadline, offline=bool(offline)),
        *unpreferred(done, placed, deadline),
    ]
    return Findings(not_live=tuple(complaints), live_judged=True)


def _leaders(placed: _Placed) -> dict[str, str | None]:
    """The last leader of each partition that was not deleted."""
    leaders: dict[str, str | None] = {}
    for name, row in placed:
        if row.kind == K.STATE_WRITTEN:
            leaders[name] = row.leader
        elif row.kind == K.TOPIC_DELETED:
            leaders.pop(name, None)
    return leaders


# --- moves ----------------------------------------------------------------------------------------------------------------------


class _Due(NamedTuple):
    """Where a partition must be at the end, and in which words; `origin`: where it goes back to if its move is cancelled."""

    replicas: _Replicas
    words: str
    in_order: bool
    origin: _Replicas
    ended: int


def _misplaced(done: list[Call], placed: _Placed, leaders: dict[str, str | None]) -> Iterator[str]:
    """Describe each partition that is at the end where it was not to be."""
    assigned: dict[str, list[tuple[int, _Replicas]]] = {}
    for name, row in placed:
        if row.kind == K.TOPIC_DELETED:
            assigned.pop(name, None)
        elif row.kind == K.ASSIGNED:
            assigned.setdefault(name, []).append((row.at, row.replicas))
    due = _all_due(done, assigned)
    for name, rows in assigned.items():
        if leaders.get(name) is None:
            continue
        last = rows[-1][1]
        wanted = due.get(name)
        if wanted is not None and not _is_met(wanted, last):
            yield f"{name} {wanted.words} {', '.join(wanted.replicas)} and is on {', '.join(last)} at the end"
        elif wanted is None and set(last) not in _asked_for(name, done, rows[0][1]):
            yield f"{name} is on {', '.join(last)} at the end, which nobody asked for"


def _is_met(wanted: _Due, last: _Replicas) -> bool:
    return wanted.replicas == last if wanted.in_order else set(wanted.replicas) == set(last)


def _asked_for(name: str, done: list[Call], first: _Replicas) -> list[set[str]]:
    """The sets of replicas on which a partition may end: its first ones, and those of each move that may have been made."""
    moves = (call for call in done if call.f in MOVES and call.type != "fail" and call.request[0] == name)
    return [set(first), *(set(_brokers(call.request[1])) for call in moves)]


def _all_due(done: list[Call], assigned: dict[str, list[tuple[int, _Replicas]]]) -> dict[str, _Due]:
    """Where each partition must be at the end, as far as the last request for it was certain."""
    due: dict[str, _Due] = {}
    doubtful: set[str] = set()
    for call in sorted((call for call in done if call.f in (*MOVES, _CANCEL) and call.type != "fail"), key=_invoked):
        if call.type != "ok":
            doubtful |= {*assigned} if call.f == _CANCEL else {call.request[0]}
        elif call.f == _CANCEL:
            _cancel(call, due, doubtful)
        else:
            _move(call, due, doubtful, assigned)
    return {name: wanted for name, wanted in due.items() if name not in doubtful}


def _move(call: Call, due: dict[str, _Due], doubtful: set[str], assigned: dict[str, list[tuple[int, _Replicas]]]) -> None:
    name, numbers = call.request
    before, target = due.get(name), _brokers(numbers)
    then = [replicas for at, replicas in assigned.get(name, ()) if at < call.invoked]
    if not then or (before is not None and before.ended > call.invoked):  # made later, or two requests at once
        doubtful.add(name)
        return
    at_rest = before is None or _is_met(before, then[-1])
    due[name] = _Due(target, "was to be moved to", True, then[-1] if before is None or at_rest else before.origin, call.ended)


def _cancel(call: Call, due: dict[str, _Due], doubtful: set[str]) -> None:
    """The partitions that the answer names go back; those that are moved meanwhile may do either."""
    cancelled = {row.value for row in call.rows}
    for name, wanted in list(due.items()):
        if wanted.ended > call.invoked:
            doubtful.add(name)
        elif name in cancelled:
            due[name] = _Due(wanted.origin, "was to go back to", False, wanted.origin, call.ended)


def _invoked(call: Call) -> int:
    return call.invoked


def _brokers(numbers: str) -> _Replicas:
    return tuple(f"b{number}" for number in numbers.split(","))


# --- topics and settings --------------------------------------------------------------------------------------------------------


def _undeleted(done: list[Call], events: Events) -> Iterator[str]:
    """Describe each topic whose deletion was confirmed, that nobody may have made again since, and that is there at the end."""
    there = events.of(K.ZK_STATE).distinct("topic")
    last: dict[str, Call] = {}
    for call in sorted((call for call in done if call.f in ("create-topic", "delete-topic")), key=_invoked):
        if call.type != "fail":
            last[call.request[0]] = call
    unsure = {call.request[0] for call in done if call.f == "create-topic" and call.type not in ("ok", "fail")}
    for topic, call in last.items():
        if call.f == "delete-topic" and call.type == "ok" and topic in there and topic not in unsure:
            yield f"{topic} is there at the end, though its deletion was confirmed at row {call.ended}"


def _unset(done: list[Call], events: Events) -> Iterator[str]:
    """Describe each setting whose last change was confirmed, and that has another value at the end."""
    values: dict[str, str] = {}
    for detail in events.of(K.CONFIGURED).column("detail"):
        name, _, value = detail.partition("=")
        values[name] = value
    wanted: dict[str, tuple[str, Call]] = {}
    changes = sorted((call for call in done if call.f == "alter-config" and call.type != "fail"), key=_invoked)
    unsure: set[str] = set()
    for call in changes:
        topic, *settings = (call.asked[0].value or "").split(" ")
        for setting in settings:
            name, _, value = setting.partition("=")
            wanted[f"{topic} {name}"] = value, call
            unsure |= {f"{topic} {name}"} if call.type != "ok" else set()
    for name, (value, call) in wanted.items():
        if name not in unsure and values.get(name, "") != value:
            yield f"{name} is {values.get(name) or 'not set'} at the end, though {value} was confirmed at row {call.ended}"


CHECKER = Checker(
    name=NAME,
    claim="Each request of an administrator to the brokers is carried out: moves end where they were told, or back where they "
    "were after a cancellation; topics, partitions and settings are as they were confirmed.",
    assumes="The rows of coordination are complete.",
    blind="What happens on the way; requests of unknown outcome, but for the sets of replicas that they leave.",
    reports=(not_live("LIVE", "RES", unshown=HISTORIES),),
    group_by=WHOLE_RUN,
    operations=("admin-pending", *ADMIN_REQUESTS),
    events=(K.STATE_WRITTEN, K.ASSIGNED, K.TOPIC_DELETED, K.CONFIGURED, K.ZK_STATE),
    check=check,
    split=gathered(check),
)
