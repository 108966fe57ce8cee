"""What each log checker is to find, written down as its definition says it: over all rows, over all pairs, from nothing.

Slow and plain. Each function takes the rows of one partition (no cuts, no wounds) and gives the kinds of anomalies there are.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import NamedTuple

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType

Operations = Sequence[Operation]
Events = Sequence[ClusterEvent]
Definition = Callable[[Operations, Events], set[str]]


class Call(NamedTuple):
    """An invocation and its answer; empty where none came."""

    asked: list[Operation]
    answer: list[Operation]

    @property
    def ok(self) -> bool:
        """Whether it certainly succeeded."""
        return bool(self.answer) and self.answer[0].type is OpType.OK

    @property
    def failed(self) -> bool:
        """Whether it certainly did not."""
        return bool(self.answer) and self.answer[0].type is OpType.FAIL


def calls(rows: Operations, f: str) -> list[Call]:
    """The calls of one function: the answer is the next rows of the process that are no invocation."""
    found = []
    for index in sorted({row.index for row in rows if row.type is OpType.INVOKE and row.f == f}):
        asked = [row for row in rows if row.index == index]
        later = [row for row in rows if row.process == asked[0].process and row.index > index]
        first = min((row.index for row in later), default=-1)
        found.append(Call(asked, [row for row in later if row.index == first and row.type is not OpType.INVOKE]))
    return found


Record = tuple[str | None, int | None]  # value and epoch


def records_at(events: Events, node: str, index: int) -> dict[int, Record]:
    """The log of a replica after the rows up to this one, from the first row on."""
    log: dict[int, Record] = {}
    for row in events:
        if row.index > index or row.node != node:
            continue
        if row.kind is K.APPEND or row.kind is K.TRUNCATE:
            assert row.offset is not None
            log = {offset: record for offset, record in log.items() if offset < row.offset}
        if row.kind is K.APPEND and row.offset is not None:
            log[row.offset] = (row.value, row.leader_epoch)
    return log


def log_at(events: Events, node: str, index: int) -> dict[int, str | None]:
    """The values alone."""
    return {offset: value for offset, (value, _) in records_at(events, node, index).items()}


def offset_agreement(operations: Operations, events: Events) -> set[str]:
    """O1: all who speak of an offset speak of one value."""
    said: list[tuple[int | None, str | None]] = []
    for call in calls(operations, "produce"):
        if call.ok and call.asked[0].acks == -1:
            said.extend((row.offset, row.value) for row in call.answer)
    for call in calls(operations, "poll"):
        if call.ok:
            said.extend((row.offset, row.value) for row in call.answer)
    for row in events:
        if row.kind is K.HW and row.node is not None and row.hw is not None:
            log = log_at(events, row.node, row.index)
            said.extend((offset, value) for offset, value in log.items() if offset < row.hw)
    known = [(offset, value) for offset, value in said if offset is not None and value is not None]
    return {"inconsistent-offsets" for one, two in combinations(known, 2) if one[0] == two[0] and one[1] != two[1]}


def order(operations: Operations, events: Events) -> set[str]:
    """O2 and O4, and that what is read was sent."""
    produced = calls(operations, "produce")
    acked = [call for call in produced if call.ok and call.asked[0].acks == -1]
    found: set[str] = set()
    for first, then in product(acked, acked):
        if first.answer[0].index < then.asked[0].index:
            pairs = product([row.offset for row in first.answer], [row.offset for row in then.answer])
            found |= {"offset-order" for a, b in pairs if a is not None and b is not None and a >= b}
    accused: set[str | None] = set()  # a value is accused once, by the first read of it that is wrong
    for poll in sorted((call for call in calls(operations, "poll") if call.ok), key=lambda call: call.answer[0].index):
        for row in poll.answer:
            senders = [call for call in produced if any(sent.value == row.value for sent in call.asked)]
            if row.value is None or row.value in accused:
                continue
            if not any(call.asked[0].index < row.index for call in senders):
                found.add("phantom-read")
                accused.add(row.value)
            elif all(call.failed for call in senders):
                found.add("failed-write-read")
                accused.add(row.value)
    return found


def duplicates(operations: Operations, events: Events) -> set[str]:
    """O3: a value stands once for each attempt, that of an idempotent producer once and in order."""
    read = [row for call in calls(operations, "poll") if call.ok for row in call.answer]
    places = {
        value: sorted({row.offset for row in read if row.value == value and row.offset is not None})
        for value in {row.value for row in read if row.value is not None}
    }
    found: set[str] = set()
    produced = calls(operations, "produce")
    for value, offsets in places.items():
        senders = [call for call in produced if any(row.value == value for row in call.asked)]
        attempts = [1 if c.asked[0].delivery == "once" else c.answer[0].attempts if c.answer else None for c in senders]
        known = [number for number in attempts if number is not None]
        if senders and len(known) == len(attempts) and len(offsets) > sum(known):
            found.add("duplicate")
    sent = [
        (call.asked[0].process, row.value or "") for call in produced if call.asked[0].delivery == "once" for row in call.asked
    ]
    for (process, first), (other, then) in combinations(sent, 2):
        if process == other and places.get(first) and places.get(then) and places[then][0] < places[first][0]:
            found.add("reordered")
    return found


def monotonic_hw(operations: Operations, events: Events) -> set[str]:
    """V1 and V2: of brokers and of what consumers are told."""
    marks = [row for row in events if row.kind is K.HW]
    found = {"hw-above-leo" for row in marks if row.leo is not None and row.hw is not None and row.hw > row.leo}
    for one, two in combinations(marks, 2):
        same = (one.node, one.life, one.leader_epoch, one.detail) == (two.node, two.life, two.leader_epoch, two.detail)
        found |= {"hw-regressed"} if same and one.hw is not None and two.hw is not None and two.hw < one.hw else set()
    for call in calls(operations, "poll"):
        if call.ok:
            records = [row for row in call.answer if row.offset is not None and row.value is not None]
            start = call.asked[0].offset
            found |= {
                "position-regressed" for row in records if start is not None and row.offset is not None and row.offset < start
            }
            found |= {
                "read-above-hw" for row in records if row.hw is not None and row.offset is not None and row.offset >= row.hw
            }
    return found | set(_hints(operations)) | set(_ends(operations))


def _hints(operations: Operations) -> Iterator[str]:
    """The high watermark field, within one epoch and process. What an older epoch than one that was seen says is stale."""
    for process in {row.process for row in operations}:
        said = [call.answer[0] for call in calls(operations, "poll") if call.ok and call.asked[0].process == process]
        told = [row for row in said if row.hw is not None and row.leader_epoch is not None]
        for at, two in enumerate(told):
            epoch = two.leader_epoch or 0
            if any((one.leader_epoch or 0) > epoch for one in told[:at]):
                continue
            if any(one.leader_epoch == epoch and (two.hw or 0) < (one.hw or 0) for one in told[:at]):
                yield "hw-regressed"


def _ends(operations: Operations) -> Iterator[str]:
    """The end offset: never below what the same process knew from an epoch that was not newer."""
    for process in {row.process for row in operations}:
        known: tuple[int, int] | None = None  # end and epoch
        mine = [c for f in ("poll", "latest") for c in calls(operations, f) if c.answer and c.asked[0].process == process]
        for call in sorted(mine, key=lambda c: c.answer[0].index):
            if call.failed and call.answer[0].error == "OFFSET_OUT_OF_RANGE":
                if known is not None and (call.asked[0].offset or 0) <= known[0]:
                    yield "out-of-range"
            elif not call.ok:
                continue
            elif call.asked[0].f == "latest":
                end, epoch = call.answer[0].offset, call.answer[0].leader_epoch
                if end is None or epoch is None or (known is not None and epoch < known[1]):
                    continue
                if known is not None and end < known[0]:
                    yield "latest-regressed"
                known = (end, epoch)
            else:
                records = [row for row in call.answer if row.offset is not None and row.value is not None]
                epochs = [row.leader_epoch for row in records if row.leader_epoch is not None]
                if epochs and records[-1].offset is not None and (known is None or records[-1].offset >= known[0]):
                    known = (records[-1].offset + 1, max([*epochs, known[1] if known else 0]))


def single_leader(operations: Operations, events: Events) -> set[str]:
    """In one epoch one node advances the high watermark: over what it had in that epoch before."""
    advanced: set[tuple[int | None, str | None]] = set()
    for at, row in enumerate(events):
        if row.kind is not K.HW or row.detail != "leader":
            continue
        before = [
            one.hw
            for one in events[:at]
            if one.node == row.node and one.leader_epoch == row.leader_epoch
            and (one.kind is K.BECAME_LEADER or (one.kind is K.HW and one.detail == "leader"))
        ]  # fmt: skip
        if before and (row.hw or 0) > (before[-1] or 0):
            advanced.add((row.leader_epoch, row.node))
    return {"two-leaders" for one, two in combinations(sorted(advanced, key=str), 2) if one[0] == two[0]}


def isr_agreement(operations: Operations, events: Events) -> set[str]:
    """WeakIsr and StrongIsr, looked at whenever an HW, an ISR or a leader changes, or a log gets shorter."""
    found: set[str] = set()
    for at, row in enumerate(events):
        shorter = row.kind in (K.APPEND, K.TRUNCATE) and len(log_at(events, str(row.node), row.index - 1)) > (row.offset or 0)
        if not shorter and row.kind not in (K.HW, K.BECAME_LEADER, K.STATE_WRITTEN):
            continue
        states = [one for one in events[: at + 1] if one.kind is K.STATE_WRITTEN]
        isr = states[-1].isr or () if states else ()
        for leader, hw, own in _leaders(events[: at + 1]):
            if row.kind in (K.HW, K.BECAME_LEADER) and leader != row.node:
                continue
            if shorter and leader == row.node:
                continue  # it is about the others: a leader that loses its own records promises them no more
            ours = log_at(events, leader, row.index)
            for member in {*own, *isr} - {leader}:
                theirs = log_at(events, member, row.index)
                if any(theirs.get(offset) != value for offset, value in ours.items() if offset < hw):
                    found |= {"weak-isr"} if member in own else set()
                    found |= {"strong-isr"} if member in isr else set()
    return found


def _leaders(events: Events) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Who believes to lead: with its high watermark and its ISR."""
    for node in sorted({str(row.node) for row in events if row.kind is K.BECAME_LEADER}):
        office = [row for row in events if row.kind is K.BECAME_LEADER and row.node == node][-1]
        said = [
            row.hw
            for row in events
            if row.kind is K.HW and row.node == node and row.detail == "leader"
            and row.leader_epoch == office.leader_epoch and row.index > office.index
        ]  # fmt: skip
        hw = said[-1] if said else office.hw
        yield node, hw or 0, office.isr or ()


def election(operations: Operations, events: Events) -> set[str]:
    """P7, without orders and wounds: the new leader stood in the ISR, or had left it while it was short (m = 2)."""
    states = [row for row in events if row.kind is K.STATE_WRITTEN]
    found: set[str] = set()
    for at, row in enumerate(states[1:], 1):
        if row.leader is None or row.leader_epoch == states[at - 1].leader_epoch:
            continue
        eligible = set(states[at - 1].isr or ())
        # Back to the last state whose ISR had two: all who stood in an ISR since then.
        for back in range(at - 1, -1, -1):
            eligible |= set(states[back].isr or ())
            if len(states[back].isr or ()) >= 2:
                break
        found |= set() if row.leader in eligible else {"unclean-election"}
    return found


def acked_loss(operations: Operations, events: Events) -> set[str]:
    """P1 as far as clients see it: what was promised before a poll was asked for is not passed over by it."""
    promised: list[tuple[int, int]] = []  # offset, and when
    for call in (*calls(operations, "produce"), *calls(operations, "poll")):
        if call.ok and (call.asked[0].f == "poll" or call.asked[0].acks == -1):
            promised.extend((row.offset, row.index) for row in call.answer if row.offset is not None and row.value is not None)
    for call in calls(operations, "poll"):
        offsets = [row.offset for row in call.answer if call.ok and row.offset is not None and row.value is not None]
        start = call.asked[0].offset
        if not offsets or start is None:
            continue
        for offset, index in promised:
            if start <= offset < max(offsets) and offset not in offsets and index < call.asked[0].index:
                return {"lost-write"}
    return set()


def single_controller(operations: Operations, events: Events) -> set[str]:
    """One node for each controller epoch."""
    elected = [(row.controller_epoch, row.node) for row in events if row.controller_epoch is not None]
    return {"two-controllers" for one, two in combinations(elected, 2) if one[0] == two[0] and one[1] != two[1]}


def topic_identity(operations: Operations, events: Events) -> set[str]:
    """P8: seen under an id under which no leader appended it, though one did under another."""
    named = [row for row in events if row.topic_id is not None]
    if len({row.topic_id for row in named}) < 2:
        return set()
    led = {(row.value, row.topic_id) for row in named if row.detail == "leader"}
    seen = [(row.value, row.topic_id) for row in named]
    seen.extend((row.value, row.topic_id) for row in operations if row.type is OpType.OK and row.topic_id is not None)
    return {"other-topic" for one in seen if one not in led and any(one[0] == value for value, _ in led)}


def log_matching(operations: Operations, events: Events) -> set[str]:
    """One offset and epoch hold one value; what a leader's HW covered is cut off by nobody who has it."""
    appends = [row for row in events if row.kind is K.APPEND]
    found = {
        "log-mismatch"
        for one, two in combinations(appends, 2)
        if (one.offset, one.leader_epoch) == (two.offset, two.leader_epoch) and one.value != two.value
    }
    for row in events:
        if row.kind is K.APPEND or row.kind is K.TRUNCATE:
            before = records_at(events, str(row.node), row.index - 1)
            gone = {offset: record for offset, record in before.items() if offset >= (row.offset or 0)}
            found |= {"truncated-committed" for at, record in gone.items() if record == _committed(events, at, row.index)}
        if row.kind is K.HW:
            covered = {at: one for at, one in records_at(events, str(row.node), row.index).items() if at < (row.hw or 0)}
            committed = {at: _committed(events, at, row.index) for at in covered}
            found |= {"uncommitted-below-hw" for at, one in covered.items() if committed[at] not in (None, one)}
    return found


def polls(operations: Operations, events: Events) -> set[str]:
    """The records of a call rise; between its position and its last record nothing is left out that anybody was given."""
    found: set[str] = set()
    answered = [call for call in calls(operations, "poll") if call.ok]
    has = {row.offset for call in answered for row in call.answer if row.value is not None}
    for call in [*answered, *(call for call in calls(operations, "produce") if call.ok and call.asked[0].acks == -1)]:
        what = "poll" if call in answered else "send"
        offsets = [row.offset for row in call.answer if row.offset is not None and row.value is not None]
        if any(then <= first for first, then in pairwise(offsets)):
            found.add(f"int-nonmonotonic-{what}")
        elif what == "poll" and offsets:
            start = call.asked[0].offset
            begin = offsets[0] if start is None else start
            missing = [at for at in range(begin, offsets[-1]) if at in has and at not in offsets]
            found |= {"poll-skip" if missing[0] < offsets[0] else "int-poll-skip"} if missing else set()
    return found


def _committed(events: Events, offset: int, before: int) -> tuple[str | None, int | None] | None:
    """The record that was first covered by the high watermark of a leader that had it."""
    for row in events:
        if row.index < before and row.kind is K.HW and row.detail == "leader" and (row.hw or 0) > offset:
            records = records_at(events, str(row.node), row.index)
            if offset in records:
                return records[offset]
    return None


def state_writes(operations: Operations, events: Events) -> set[str]:
    """What a state may hold after the one before, and who may write it."""
    found: set[str] = set()
    states = [row for row in events if row.kind is K.STATE_WRITTEN]
    for at, row in enumerate(states):
        assigned = [one.replicas for one in events if one.kind is K.ASSIGNED and one.index < row.index]
        found |= {"isr-outside-replicas"} if assigned and set(row.isr or ()) - set(assigned[-1] or ()) else set()
        found |= {"leader-outside-isr"} if row.leader is not None and row.leader not in (row.isr or ()) else set()
        same = [one for one in states[:at] if one.leader_epoch == row.leader_epoch]
        found |= {"two-elected"} if any(one.leader != row.leader for one in same) else set()
        if at == 0:
            continue
        last = states[at - 1]
        found |= {"epoch-regressed"} if (row.leader_epoch or 0) < (last.leader_epoch or 0) else set()
        elected = [one.node for one in events if one.kind is K.CONTROLLER_ELECTED and one.index < row.index]
        leaves_it = (row.leader, row.leader_epoch) == (last.leader, last.leader_epoch)
        if elected and row.node != elected[-1] and not (row.node == last.leader and leaves_it):
            found.add("deposed-controller" if row.node in elected else "unentitled-write")
    return found


def fencing(operations: Operations, events: Events) -> set[str]:
    """What a broker must not do between its word that it is fenced and its word that it is not."""
    found: set[str] = set()
    for at, row in enumerate(events):
        if row.detail != "leader" or not _is_fenced(events, row.node, row.index, row.index):
            continue
        same = [one for one in events[:at] if (one.kind, one.node, one.leader_epoch) == (K.HW, row.node, row.leader_epoch)]
        before = [one.hw or 0 for one in same if one.detail == "leader"]
        found |= {"fenced-append"} if row.kind is K.APPEND else set()
        if row.kind is K.HW and before and (row.hw or 0) > before[-1] and not _finishes_a_change(events[:at], row.node):
            found.add("fenced-commit")
    for f in ("produce", "poll", "latest"):
        for call in calls(operations, f):
            if call.ok and _is_fenced(events, call.answer[0].node, call.asked[0].index, call.answer[0].index):
                found.add("fenced-answer")
    return found


def _finishes_a_change(events: Events, node: str | None) -> bool:
    """Of all that it said so far: did the ISR change that ended last begin before the fence, and end behind it?"""
    mine = [row for row in events if row.node == node]
    lifted = max((row.index for row in mine if row.kind is K.UNFENCED), default=-1)
    fence = min(row.index for row in mine if row.kind is K.FENCED and row.index > lifted)
    changes = [row for row in mine if row.kind in (K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)]
    whole = [(a, b) for a, b in pairwise(changes) if a.kind is K.ISR_CHANGE_SENT and b.kind is K.ISR_CHANGE_ENDED]
    return bool(whole) and whole[-1][0].index < fence < whole[-1][1].index


def _is_fenced(events: Events, node: str | None, first: int, last: int) -> bool:
    said = [row for row in events if row.node == node and row.kind in (K.FENCED, K.UNFENCED)]
    before = [row for row in said if row.index < first]
    return bool(before) and before[-1].kind is K.FENCED and not any(
        row.kind is K.UNFENCED and first < row.index < last for row in said
    )  # fmt: skip


# Of what histories each is told: operations with a few events, events, elections of controllers, or topics of one name.
DEFINITIONS: dict[str, dict[str, Definition]] = {
    "operations": {
        "acked-loss": acked_loss, "offset-agreement": offset_agreement, "order": order, "duplicates": duplicates,
        "monotonic-hw": monotonic_hw, "fencing": fencing, "polls": polls,
    },
    "events": {
        "offset-agreement": offset_agreement, "monotonic-hw": monotonic_hw, "single-leader": single_leader,
        "isr-agreement": isr_agreement, "election": election, "log-matching": log_matching, "state-writes": state_writes,
        "fencing": fencing,
    },
    "controllers": {"single-controller": single_controller},
    "topics": {"topic-identity": topic_identity},
}  # fmt: skip
