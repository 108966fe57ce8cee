"""Definitions of the judges of groups (docs/promise.md SES-2, SES-5 and SES-6): what members are given, and where they go on."""

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import NamedTuple

from proof.log_rows import Call, Case, Operations, calls
from proof.session_rows import (
    NEVER,
    UNJUDGED,
    Place,
    acknowledged_records,
    answered_at,
    asked_at,
    is_excused,
    is_final,
    process_of,
    said,
    subsets,
    told_by,
)  # fmt: skip

_DELIVERIES_MAX = 3  # of which clients were told: the broker may have given up a record that was delivered more often


def share_groups(case: Case) -> set[str]:
    """Definition of SES-5: a record is given until it is accepted or rejected, and not again after that was confirmed."""
    polls = calls(case.operations, "share-poll")
    acknowledgements = calls(case.operations, "share-acknowledge")
    drained = _drained(case)
    if not polls:
        return set()
    if is_excused(case):
        return {UNJUDGED}
    kinds: set[str] = set()
    for acknowledgement in acknowledgements:
        for place in _places(acknowledgement, ("accept", "reject"), confirmed=True):
            kinds |= {"redelivered-record"} if _is_fetched_after(case, polls, acknowledgement, place) else set()
    is_vacuous = not any(_places(call, ("accept", "reject"), confirmed=True) for call in acknowledgements)
    if drained is None:
        return kinds | {UNJUDGED}
    asked = {place for call in acknowledgements for place in _places(call, ("accept", "reject"), confirmed=False)}
    for call in acknowledgements:
        if not call.answer or not call.answer[0].value:
            # Nobody knows what it asked for: any of the records that its member was given.
            own = [poll for poll in polls if process_of(poll) == process_of(call) and asked_at(poll) < asked_at(call)]
            asked |= {place for poll in own for place in _given(poll)}
            if any(not (poll.ok or poll.failed) for poll in own):
                return kinds | {UNJUDGED}  # a poll without an answer may have given it any record
    for record, acked in acknowledged_records(case.operations).items():
        told = max((_given(poll).get(record[:2], 0) for poll in polls), default=0)
        if acked < drained and record[:2] not in asked and told <= _DELIVERIES_MAX:
            kinds.add("undelivered-record")
    return kinds | ({UNJUDGED} if is_vacuous else set())


def _places(call: Call, what: tuple[str, ...], *, confirmed: bool) -> set[Place]:
    """The records for which a member asked for one of these; with `confirmed`, and was told that it is done."""
    told = told_by(call)
    return {
        (key, offset)
        for key, placed in told.get("acknowledged", {}).items()
        for offset, asked in placed
        if asked in what and (not confirmed or key in told.get("confirmed", ()))
    }


def _given(call: Call) -> dict[Place, int]:
    """The records that a poll was given, with the number of deliveries."""
    if not call.ok:
        return {}
    return {(key, offset): count for key, placed in told_by(call).get("records", {}).items() for offset, _, count in placed}


def _is_fetched_after(case: Case, polls: list[Call], acknowledgement: Call, place: Place) -> bool:
    """Whether a member was given the record, and had taken all that it fetched before the confirmation by an earlier poll."""
    wait_ns = (case.client_timeout_ms or 0) * 1_000_000
    for poll in polls:
        earlier = [
            one
            for one in polls
            if one.ok and process_of(one) == process_of(poll) and answered_at(one) < asked_at(poll)
            and asked_at(one) > answered_at(acknowledgement)
            and one.asked[0].time_ns >= acknowledgement.answer[0].time_ns + wait_ns
        ]  # fmt: skip
        if earlier and place in _given(poll):
            return True
    return False


def _drained(case: Case) -> int | None:
    """The row from which on the last member polled alone, for at least twice the lock, and was given nothing.

    The others have left. One that abandoned the group did not tell the broker, which may wait for it.
    """
    polls = calls(case.operations, "share-poll")
    steps = [
        call for f in ("share-poll", "share-acknowledge", "share-leave", "share-abandon") for call in calls(case.operations, f)
    ]
    locks = [told_by(call)["lock_ms"] for call in polls if told_by(call).get("lock_ms")]
    if not polls or not locks:
        return None
    last = max(polls, key=asked_at)
    for process in {process_of(call) for call in steps} - {process_of(last)}:
        did = max((call for call in steps if process_of(call) == process), key=asked_at)
        if did.asked[0].f != "share-leave" or not did.ok:
            return None
    for first in sorted(polls, key=asked_at):
        vain = [poll for poll in polls if asked_at(poll) >= asked_at(first)]
        if is_final(case, first) and all(poll.ok and not _given(poll) and process_of(poll) == process_of(last) for poll in vain):
            lasted = last.answer[0].time_ns - first.asked[0].time_ns
            return asked_at(first) if lasted >= 2 * max(locks) * 1_000_000 else None
    return None


class _Commit(NamedTuple):
    """A commit of a group that took effect, or may have; `done` is NEVER if its outcome is unknown."""

    position: int
    process: int
    asked: int
    done: int


def group_delivery(case: Case) -> set[str]:
    """Definition of SES-2: a group is given each acknowledged record below what it committed, and goes on where it committed."""
    polls = [call for call in calls(case.operations, "group-poll") if call.ok]
    if not calls(case.operations, "group-poll"):
        return set()
    if is_excused(case):
        return {UNJUDGED}
    rows = [call.asked[0] for call in calls(case.operations, "commit") if not call.failed]
    groups = {told_by(poll)["group"] for poll in polls} | {row.value or "" for row in rows}
    acknowledged = acknowledged_records(case.operations)
    kinds: set[str] = set()
    is_unread = False
    for group in sorted(groups):
        mine = [poll for poll in polls if told_by(poll)["group"] == group]
        seen = {(key, offset) for poll in mine for key, of in told_by(poll)["records"].items() for offset, _ in of}
        keys = {key for poll in mine for key in {*told_by(poll)["records"], *told_by(poll).get("assigned", ())}}
        committed = {row.topic for row in rows if row.value == group}
        topics = committed | {key.rpartition("-")[0] for key in keys}
        is_unread |= any(record.key.rpartition("-")[0] in topics and record[:2] not in seen for record in acknowledged)
        for key in sorted({record.key for record in acknowledged} | {f"{row.topic}-{row.partition}" for row in rows}):
            commits = _commits(case.operations, group, key)
            offsets = [record.offset for record in acknowledged if record.key == key]
            kinds |= _skipped(commits, mine, key, offsets) | _fallen(commits, mine, key) | _resumed(commits, mine, key)
    return kinds | ({UNJUDGED} if is_unread and not kinds else set())


def _commits(operations: Operations, group: str, key: str) -> list[_Commit]:
    return [
        _Commit(call.asked[0].offset or 0, process_of(call), asked_at(call), answered_at(call) if call.ok else NEVER)
        for call in calls(operations, "commit")
        if not call.failed and call.asked[0].value == group and f"{call.asked[0].topic}-{call.asked[0].partition}" == key
    ]


def _offsets(poll: Call, key: str) -> list[int]:
    return [offset for offset, _ in told_by(poll)["records"].get(key, ())]


def _skipped(commits: list[_Commit], polls: list[Call], key: str, acknowledged: list[int]) -> set[str]:
    """A commit that took effect claims every record below it: members had been given the acknowledged ones."""
    for commit in (one for one in commits if one.done != NEVER):
        given = {offset for poll in polls if answered_at(poll) < commit.asked for offset in _offsets(poll, key)}
        if any(offset < commit.position and offset not in given for offset in acknowledged):
            return {"skipped-record"}
    return set()


def _fallen(commits: list[_Commit], polls: list[Call], key: str) -> set[str]:
    """While a member keeps the partition, what it commits does not fall."""
    sure = [commit for commit in commits if commit.done != NEVER]
    for first, then in permutations(sure, 2):
        if first.process != then.process or first.asked > then.asked or then.position >= first.position:
            continue
        told = [poll for poll in polls if process_of(poll) == then.process and first.asked < answered_at(poll) < then.asked]
        if not any(key in told_by(poll).get("assigned", ()) for poll in told):
            return {"commit-regressed"}
    return set()


def _resumed(commits: list[_Commit], polls: list[Call], key: str) -> set[str]:
    """The first record that a new owner is given is not before each position that may have been in force."""
    for start in (poll for poll in polls if key in told_by(poll).get("assigned", ())):
        own = [poll for poll in polls if process_of(poll) == process_of(start) and asked_at(poll) >= asked_at(start)]
        given = [poll for poll in sorted(own, key=asked_at) if _offsets(poll, key)]
        if not given:
            continue
        settled = [one for one in commits if one.done < asked_at(start)]
        open_ones = [one for one in commits if one not in settled and one.asked < answered_at(given[0])]
        positions = {
            order[-1].position
            for chosen in subsets(range(len(open_ones)))
            for order in permutations([*settled, *(open_ones[at] for at in chosen)])
            if order and not any(then.done < first.asked for first, then in combinations(order, 2))
        }
        if settled and _offsets(given[0], key)[0] < min(positions):
            return {"resumed-behind"}
    return set()


def auto_commit(case: Case) -> set[str]:
    """Definition of SES-6: what a group commits automatically, members were given before, and were done with."""
    names = ("group-poll", "group-leave", "group-abandon", "group-positions")
    steps = sorted((call for f in names for call in calls(case.operations, f)), key=asked_at)
    steps = [call for call in steps if said(call.asked[0]).get("commits")]
    if not steps:
        return set()
    if is_excused(case):
        return {UNJUDGED}
    kinds: set[str] = set()
    answers = [call for call in steps if call.asked[0].f == "group-positions" and call.ok]
    told = [(key, at, call) for call in answers for key, at in told_by(call)["committed"].items()]
    for group in sorted({said(call.asked[0])["group"] for call in steps}):
        mine = [call for call in steps if said(call.asked[0])["group"] == group]
        polls = [call for call in mine if call.asked[0].f == "group-poll"]
        unseen = [asked_at(poll) for poll in polls if not (poll.ok or poll.failed)]
        at_once = said(mine[0].asked[0])["commits"] == "delivery"
        positions = [one for one in told if one[2] in mine]
        for key in sorted({record.key for record in acknowledged_records(case.operations)} | {one[0] for one in positions}):
            known = [(answered_at(call), at, call) for of, at, call in positions if of == key and at is not None]
            begun = list(_begun(mine, key))
            claims = [(at, row) for row, at, _ in known] + [(at, answered_at(first)) for _, first, at in begun]
            claims = [(at, row) for at, row in claims if all(row < one for one in unseen)]
            for record in acknowledged_records(case.operations):
                if record.key == key:
                    kinds |= _too_early(mine, key, (record.offset, record.value), claims, at_once=at_once)
            if any(at < was and row < asked_at(start) for start, _, at in begun for row, was, _ in known):
                kinds.add("resumed-behind")
            if _is_gone(case, [one for one in positions if one[0] == key]):
                kinds.add("commit-lost")
            kinds |= _given_again(mine, key)
            if not known and any(_records(poll, key) for poll in polls):
                kinds.add(UNJUDGED)
        if unseen:
            kinds.add(UNJUDGED)
    is_vacuous = all(at is None for _, at, _ in told)
    return kinds | ({UNJUDGED} if is_vacuous and not kinds else set())


def _records(call: Call, key: str) -> list[int]:
    return [offset for offset, _ in told_by(call).get("records", {}).get(key, ())] if call.asked[0].f == "group-poll" else []


def _begun(steps: list[Call], key: str) -> Iterator[tuple[Call, Call, int]]:
    """The last poll that assigned the partition to a member, the next one that gave it a record, and that record's offset."""
    for first in (call for call in steps if _records(call, key)):
        own = [call for call in steps if process_of(call) == process_of(first) and asked_at(call) <= asked_at(first)]
        since = max((asked_at(call) for call in own if call is not first and _records(call, key)), default=-1)
        starts = [call for call in own if asked_at(call) > since and key in told_by(call).get("assigned", ())]
        if starts:
            yield starts[-1], first, _records(first, key)[0]


def _too_early(steps: list[Call], key: str, record: tuple[int, str], claims: list[tuple[int, int]], *, at_once: bool) -> set[str]:
    """Each position above the record came after a poll that gave it had begun, and after a member was done with it."""
    polls = [call for call in steps if call.asked[0].f == "group-poll"]
    gave = [call for call in polls if record in map(tuple, told_by(call).get("records", {}).get(key, ()))]
    rows = [row for position, row in claims if position > record[0]]
    if any(all(asked_at(call) > row for call in gave) for row in rows):
        return {"skipped-record"}
    done = [NEVER]
    for call in gave:
        after = [one for one in steps if process_of(one) == process_of(call) and asked_at(one) > asked_at(call)]
        acts = [one for one in after if one.asked[0].f != "group-positions"]
        if acts and acts[0].asked[0].f != "group-abandon":
            done.append(asked_at(acts[0]))
    return {"early-commit"} if not at_once and any(row < min(done) for row in rows) else set()


def _is_gone(case: Case, told: list[tuple[str, int | None, Call]]) -> bool:
    """Whether the last answers know less than one that came before they were asked for."""
    finals = [(at, asked_at(call)) for _, at, call in told if is_final(case, call)]
    before = [(at, answered_at(call)) for _, at, call in told if at is not None]
    return any(row < asked and (at is None or at < was) for at, asked in finals for was, row in before)


def _given_again(steps: list[Call], key: str) -> set[str]:
    """While nothing moves the partition, each record that a member is given is behind those before."""
    for call in steps:
        if _moves(call, key):
            continue
        offsets = _records(call, key)
        own = [one for one in steps if process_of(one) == process_of(call) and asked_at(one) < asked_at(call)]
        for earlier in own:
            between = [one for one in own if asked_at(one) > asked_at(earlier)]
            if any(_moves(one, key) for one in between) or key in told_by(earlier).get("revoked", ()):
                continue
            given = _records(earlier, key)
            kept = given[-1:] if _moves(earlier, key) else given
            if any(offset <= before for offset in offsets for before in kept):
                return {"repeated-record"}
        if any(then <= first for first, then in combinations(offsets, 2)):
            return {"repeated-record"}
    return set()


def _moves(call: Call, key: str) -> bool:
    told = told_by(call)
    is_over = call.asked[0].f in ("group-leave", "group-abandon")
    return is_over or key in told.get("assigned", ()) or key in told.get("revoked", ())
