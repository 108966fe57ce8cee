"""Partition reassignments that were requested and not carried out (docs/promise.md LIVE-4).

For each partition the last request is judged, and only if nothing came between: no cancellation was or may have been in force
since, and the controller did not refuse the request. A partition without a leader cannot be moved; LIVE-4 does not judge it.

The protocol decides which request is last. KIP-236: a request in /admin/reassign_partitions_extra takes effect after the one in
/admin/reassign_partitions, which is rolled back first (R-243), whichever of the two was written first. While no controller reads
them, an administrator can write the extra znode and then the other one: the extra request is then the last. So is one that an
operator wrote into the extra znode by hand before.
A request of proposal B (R-245) and a legacy request are never both carried out for one partition: the controller refuses the one
that it reads second while the first is under way (R-251).

An operator who edits the znodes of moves by hand may undo any move that was requested before the edit ended: only later ones are
judged.

Requests for a partition that was removed since, or for a deleted topic, are not judged.

Each valid entry of a request that an operator wrote by hand is begun or refused, whatever stands beside it (KAFKA-2234). Requests
are not judged that another edit, or a cancellation, may have undone before the controller read them. A request that holds no list
of partitions is refused by name: nothing else tells the operator why it is gone.

A new controller goes on with every move that is under way, not with some of them (V3 §D step 7, KAFKA-6193): it reads them all
before it takes up the first.
"""

from ast import literal_eval
from bisect import bisect
from collections.abc import Iterable
from math import inf

import msgspec

from checkers.engine.rows import Call, ClusterRow, EventRow
from checkers.engine.tables import Events
from history.event import EventKind as K

REQUESTS = ("reassign", "reassign-extra", "reassign-request", "cancel-reassignments", "allow-reassignments")
EDIT = "edit-znode"
_STEPS = (K.REASSIGNMENT_BEGUN, K.REASSIGNMENT_ENDED, K.REASSIGNMENT_REFUSED)
ROWS = (K.CONTROLLER_ELECTED, K.ASSIGNED, K.TOPIC_DELETED, *_STEPS)
_REFUSED = "refused"
_PENDING = "/admin/reassign_partitions"
_EXTRA = "/admin/reassign_partitions_extra"
_BY_HAND = {_PENDING: "reassign", _EXTRA: "reassign-extra"}
_IN_FLIGHT = ("/admin/reassignments", "/admin/partitions_reassigned")  # an entry for each partition: proposal B, and V3's tree


def undone(calls: list[Call], rows: list[tuple[str, EventRow]]) -> list[str]:
    """Describe each partition reassignment that was requested and not carried out at the end of the run."""
    assigned: dict[str, tuple[str, ...]] = {}
    refused: dict[str, int] = {}
    ended: dict[str, int] = {}
    leader_written: dict[str, bool] = {}
    settled: dict[str, list[tuple[int, str]]] = {}
    for name, row in rows:
        if row.kind == K.ASSIGNED:
            assigned[name] = row.replicas
        elif row.kind == K.REASSIGNMENT_REFUSED:
            refused[name] = row.at
            settled.setdefault(name, []).append((row.at, _REFUSED))
        elif row.kind == K.REASSIGNMENT_BEGUN:
            settled.setdefault(name, []).append((row.at, row.detail or ""))
        elif row.kind == K.TOPIC_DELETED:
            ended[name] = row.at
        elif row.kind == K.STATE_WRITTEN:
            leader_written[name] = row.leader is not None
    edited = max((_end_of(call) for call in calls if call.f == EDIT and _is_of_moves(call)), default=-1)
    return [
        f"{name} was to be moved to {', '.join(replicas)} and is on {', '.join(assigned[name])} at the end"
        for name, (replicas, since) in _final_targets(calls, settled).items()
        if leader_written.get(name)
        and name in assigned
        and max(refused.get(name, -1), ended.get(name, -1), edited) < since
        and assigned[name] != replicas
    ]


def unheard(calls: list[Call], rows: list[tuple[str, EventRow]]) -> list[str]:
    """Describe each valid entry of a request written by hand that was neither begun nor refused until the end of the run."""
    requests = _requests(calls)
    return [
        f"{name} was to be moved to {', '.join(replicas)} by the request at row {call.invoked}, which nobody heard"
        for call in requests
        if call.f == EDIT and call.type == "ok" and _creates_request_at(call, _path(call)) and not _may_be_undone(call, requests)
        for name, replicas in _valid_entries(call).items()
        if _is_owed(name, replicas, call.invoked, [row for about, row in rows if about == name])
    ]


def unexplained(calls: list[Call], refused: Iterable[tuple[int, str]]) -> list[str]:
    """Describe each request written by hand that is none, and that the controller deleted without a word."""
    requests = _requests(calls)
    refusals = list(refused)
    return [
        f"the request at row {call.invoked} in {_path(call)} is none, and nobody refused it"
        for call in requests
        if call.f == EDIT and call.type == "ok" and _is_no_list(call) and not _may_be_undone(call, requests)
        if not any(at > call.invoked and words.startswith(f"{_path(call)}:") for at, words in refusals)
    ]


def misled(calls: list[Call], rows: list[tuple[str, EventRow]], elected: list[int]) -> list[str]:
    """Describe each rollback to other replicas than the partition had before the move (KIP-236, R-233).

    `elected`: the rows of controllers' elections. An operator who writes another target into the entry of a move that this
    controller has begun leaves these replicas as they are (R-232). After any other edit of moves a partition is not judged.
    """
    edits = [call for call in calls if call.f == EDIT and _is_of_moves(call)]
    before: dict[str, set[tuple[str, ...]]] = {}  # the replicas without the move that is under way
    assigned: dict[str, tuple[str, ...]] = {}
    targets: dict[str, tuple[str, ...]] = {}  # of the move under way, unless it has reached them
    begun: dict[str, tuple[int, int]] = {}  # the first move that the controller in office began: its term, and the row
    complaints = []
    for name, row in rows:
        if row.kind == K.TOPIC_DELETED:
            for facts_known in (before, assigned, targets, begun):
                facts_known.pop(name, None)
        elif row.kind == K.ASSIGNED:
            assigned[name] = row.replicas
            if targets.get(name, row.replicas) == row.replicas:
                targets.pop(name, None)
        elif row.kind == K.REASSIGNMENT_BEGUN and name in assigned:
            term = bisect(elected, row.at)
            if begun.get(name, (-1, -1))[0] != term:
                begun[name] = term, row.at
            earlier = [call for call in edits if call.invoked < row.at]
            if not all(_leaves_entry_without_origin(call, name) and call.invoked > begun[name][1] for call in earlier):
                continue
            way, to = way_and_target(row.detail or "")
            if name not in targets:  # a move begins, or the one before reached its target and is not over yet
                origins = before.get(name, set())
                if way == "forward" and (to == assigned[name] or earlier):
                    before[name] = {assigned[name], *origins}
                elif way == "forward" or to not in origins:
                    before[name] = {assigned[name]}
            if way == "back" and to not in before[name]:
                was = " or ".join(", ".join(replicas) for replicas in sorted(before[name]))
                complaints.append(f"{name} goes back to {', '.join(to)} at row {row.at}; it was on {was}")
            targets[name] = to
    return complaints


def _leaves_entry_without_origin(call: Call, name: str) -> bool:
    """Whether an edit certainly left an entry for the partition, without original replicas, in the znode of pending moves."""
    overwritten = (call.asked[0].value or "").startswith(f"{_PENDING} overwritten")
    return call.type == "ok" and overwritten and name in _valid_entries(call)


def dropped(calls: list[Call], events: Events) -> list[str]:
    """Describe each move under way with which a new controller did not go on when it went on with others.

    Not judged are moves that an operator edited by hand, that have reached their target, or of a partition that is removed.
    An edit counts also if it ended shortly before the row of the move: the controller may have read the request before the edit
    took it away, and its next round then finds no move (seed 90365 of `--faults all`). That read came after the controller's
    election, after its round before, whose rows are all of one instant, and after the first request to move the partition there.
    """
    edits = [call for call in calls if call.f == EDIT and _is_of_moves(call)]
    first = _first_asked(calls)
    assigned: dict[str, tuple[str, ...]] = {}
    begun: dict[str, tuple[ClusterRow, int]] = {}  # the moves under way, and a row before the reads of the round that began them
    removed: dict[str, str | None] = {}  # partition -> its topic id
    controller = ""
    taken_up_ns = -1
    moves_left = dict[str, ClusterRow]()
    before, round_ns, latest = -1, -1, -1  # of this controller: the row before its last round, when that was, its last row
    dropped_moves: list[
        tuple[str, dict[str, ClusterRow]]
    ] = []  # controllers, and the moves that they left when they took up others
    for row in events.of(*ROWS).as_rows(ClusterRow):
        name = f"{row.topic}-{row.partition}"
        if row.kind in _STEPS and row.node == controller:
            if row.time_ns != round_ns:
                before = latest
                round_ns = row.time_ns
            latest = row.at
        if row.kind == K.CONTROLLER_ELECTED:
            controller = row.node
            taken_up_ns = -1
            round_ns = -1
            latest = row.at
        elif row.kind == K.ASSIGNED:
            assigned[name] = row.replicas
            if removed.get(name) != row.topic_id:
                removed.pop(name, None)
        elif row.kind != K.REASSIGNMENT_BEGUN:  # over, refused or removed
            begun.pop(name, None)
            if row.kind == K.TOPIC_DELETED:
                removed[name] = row.topic_id
        elif row.node == controller and name not in removed:
            if taken_up_ns < 0:
                taken_up_ns = row.time_ns
                moves_left = {
                    about: was
                    for about, (was, since) in begun.items()
                    if assigned.get(about) != way_and_target(was.detail)[1] and not _is_edited(edits, since, row.at)
                }
                dropped_moves.append((controller, moves_left))
            if row.time_ns == taken_up_ns:
                moves_left.pop(name, None)
            way, to = way_and_target(row.detail)
            begun[name] = row, max(before, first.get((name, to), -1) if way == "forward" else -1)
    return [
        f"{node} did not go on with the move of {about}, which was begun at row {was.at}, when it took up others"
        for node, moves in dropped_moves
        for about, was in moves.items()
    ]


def given_up(calls: list[Call], topic: str, partition: int) -> list[tuple[int, float]]:
    """The rows between which an operator may have removed the entry of a move of this partition by hand.

    He deletes its znode or overwrites it: none can be created where an entry stands. What he writes instead may name the
    partition again and be refused.
    """
    paths = (_PENDING, *(f"{root}/{topic}/{partition}" for root in _IN_FLIGHT))
    edits = [call for call in calls if call.f == EDIT and call.type != "fail" and _path(call) in paths]
    return [(call.invoked, _end_of(call)) for call in edits if not _creates_request_at(call, _path(call))]


def _first_asked(calls: list[Call]) -> dict[tuple[str, tuple[str, ...]], int]:
    """The row of the first request to move a partition to these replicas, whatever became of it."""
    first: dict[tuple[str, tuple[str, ...]], int] = {}
    for call in sorted(_requests(calls), key=lambda call: call.invoked):
        name, numbers = call.request
        for about, replicas in (_valid_entries(call) if call.f == EDIT else {name: _partitions_named(numbers)}).items():
            first.setdefault((about, replicas), call.invoked)
    return first


def _is_edited(edits: list[Call], since: int, until: int) -> bool:
    return any(_end_of(edit) > since and edit.invoked < until for edit in edits)


def way_and_target(detail: str) -> tuple[str, tuple[str, ...]]:
    """What a row of a move says: `forward to 1,2` is ("forward", ("b1", "b2"))."""
    way, _, target = detail.partition(" to ")
    return way, _partitions_named(target)


def _partitions_named(numbers: str) -> tuple[str, ...]:
    return tuple(f"b{number}" for number in numbers.split(","))


def _requests(done: list[Call]) -> list[Call]:
    """The requests of moves, and the edits of their znodes, that may have been carried out."""
    return [call for call in done if (call.f in REQUESTS or (call.f == EDIT and _is_of_moves(call))) and call.type != "fail"]


def _path(call: Call) -> str:
    return (call.asked[0].value or "").partition(" ")[0]


def _is_no_list(call: Call) -> bool:
    """Whether the call wrote something into a znode of moves that holds no list of partitions."""
    written = (call.asked[0].value or "").startswith(f"{_path(call)} created with ")
    return written and _path(call) in _BY_HAND and _requested_partitions(call) is None


def _requested_partitions(call: Call) -> list[object] | None:
    """The partitions of a request that was written by hand, as they stand there; None if there is no list of them."""
    text = (call.asked[0].value or "").partition(" with ")[2]
    try:
        rows = msgspec.json.decode(literal_eval(text))["partitions"]
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, SyntaxError):
        return None
    return rows if isinstance(rows, list) else None


def _valid_entries(call: Call) -> dict[str, tuple[str, ...]]:
    """The valid entries of a request that was written by hand: the replicas of each partition, by the last entry for it."""
    entries_by_partition: dict[str, tuple[str, ...]] = {}
    for row in (_requested_partitions(call) or ()) if _path(call) in _BY_HAND else ():
        match row:
            case {"topic": str(topic), "partition": int(partition), "replicas": [int(), *_] as replicas, **rest} if not rest:
                valid = all(isinstance(b, int) and b >= 0 for b in replicas) and len(set(replicas)) == len(replicas)
                entries_by_partition[f"{topic}-{partition}"] = tuple(f"b{number}" for number in replicas) if valid else ()
    return {name: replicas for name, replicas in entries_by_partition.items() if replicas}


def _may_be_undone(call: Call, requests: list[Call]) -> bool:
    """Whether the request may have gone before the controller read it: a later one in its place shows that it was read."""
    later = [
        request.ended
        for request in requests
        if request.invoked > call.invoked and request.type == "ok" and _creates_request_at(request, _path(call))
    ]
    until = min(later, default=inf)
    cancelled = False
    for request in requests:
        undoes = _cancels(request) or request.f == "cancel-reassignments"
        by_hand = (
            request is not call
            and request.f == EDIT
            and not (_path(request) in _BY_HAND and _creates_request_at(request, _path(request)))
        )
        if request.f == "allow-reassignments" and request.type == "ok" and _end_of(request) < call.invoked:
            cancelled = False
        elif undoes and request.invoked < until:
            cancelled = True
        elif by_hand and _end_of(request) > call.invoked and request.invoked < until:
            return True
    return cancelled


def _creates_request_at(call: Call, path: str) -> bool:
    """Whether a call creates the request znode at this path, which fails where one is pending."""
    created = call.f == EDIT and (call.asked[0].value or "").startswith(f"{path} created")
    return created or call.f == _BY_HAND.get(path)


def _is_owed(name: str, replicas: tuple[str, ...], since: int, rows: list[EventRow]) -> bool:
    """Whether the controller owed an answer to the entry and did not give it."""
    assigned = next((row.replicas for row in reversed(rows) if row.kind == K.ASSIGNED and row.at < since), None)
    is_deleted = any(row.kind == K.TOPIC_DELETED and row.at > since for row in rows)
    leaders_written = [row.leader for row in rows if row.kind == K.STATE_WRITTEN]
    is_answered = any(row.kind in (K.REASSIGNMENT_BEGUN, K.REASSIGNMENT_REFUSED) and row.at > since for row in rows)
    return (
        assigned not in (None, replicas)
        and not is_deleted
        and bool(leaders_written)
        and None not in leaders_written
        and not is_answered
    )


def _is_of_moves(call: Call) -> bool:
    return (call.asked[0].value or "").startswith("/admin/reassign")


def _cancels(call: Call) -> bool:
    return call.f == EDIT and (call.asked[0].value or "").startswith("/admin/reassign_cancel created")


def _end_of(call: Call) -> float:
    return inf if call.type in ("info", "") else call.ended


def _final_targets(calls: list[Call], settled: dict[str, list[tuple[int, str]]]) -> dict[str, tuple[tuple[str, ...], int]]:
    """The replicas that each partition must have at the end of the run, with the request for them."""
    targets_by_partition: dict[str, tuple[tuple[str, ...], int]] = {}
    extras: dict[str, tuple[Call, tuple[str, ...]]] = {}  # the requests in the extra znode, with their replicas
    cancelled = False
    for call in sorted((call for call in calls if call.f in (*REQUESTS, EDIT)), key=lambda call: call.invoked):
        certain = call.type == "ok"
        if call.f == EDIT and not _cancels(call):
            if call.type != "fail" and _path(call) == _EXTRA:
                if certain:  # what stood there is gone
                    extras = {name: extra for name, extra in extras.items() if _end_of(extra[0]) > call.invoked}
                extras |= {name: (call, replicas) for name, replicas in _valid_entries(call).items()}
        elif call.f in ("cancel-reassignments", EDIT):
            cancelled = cancelled or call.type != "fail"
        elif call.f == "allow-reassignments":
            cancelled = cancelled and not certain
        elif call.type != "fail":
            name, numbers = call.request
            replicas = _partitions_named(numbers)
            if call.f == "reassign-extra":
                extras[name] = call, replicas
            elif certain and name in extras and _waits_in_extra(*extras[name], call, settled.get(name, [])):
                continue  # it will be rolled back: the extra request stays wanted, if it certainly succeeded
            targets_by_partition.pop(name, None)
            if certain and not cancelled:
                targets_by_partition[name] = replicas, call.invoked
        if cancelled:
            targets_by_partition.clear()
    return targets_by_partition


def _waits_in_extra(extra: Call, replicas: tuple[str, ...], later: Call, settled: list[tuple[int, str]]) -> bool:
    """True if the controller had not taken up the request in the extra znode when the later one was written.

    An extra request that is taken up is in the znode that the later one creates (R-242), which is free again only when it is
    done.
    """
    return not any(
        extra.invoked < at < later.ended and (how == _REFUSED or way_and_target(how) == ("forward", replicas))
        for at, how in settled
    )
