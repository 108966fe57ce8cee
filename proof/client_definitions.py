"""Definitions that the checkers of client operations are compared with: docs/promise.md §3 and §4 over all pairs of calls."""

from collections.abc import Iterator
from itertools import combinations, pairwise, product

from history.event import EventKind as K
from proof.log_rows import Call, Events, Operations, calls, log_at


def offset_agreement(operations: Operations, events: Events) -> set[str]:
    """Definition of ORD-1: all observations of an offset show one value."""
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
    """Definition of ORD-2 and ORD-4: acknowledgements follow offsets, and each read record was sent before."""
    produced = calls(operations, "produce")
    acked = [call for call in produced if call.ok and call.asked[0].acks == -1]
    found: set[str] = set()
    for first, then in product(acked, acked):
        if first.answer[0].index < then.asked[0].index:
            pairs = product([row.offset for row in first.answer], [row.offset for row in then.answer])
            found |= {"offset-order" for a, b in pairs if a is not None and b is not None and a >= b}
    accused: set[str | None] = set()  # a value is reported once, at its first wrong read
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
    """Definition of ORD-3: a value is in the log at most once for each send; an idempotent producer's once and in order."""
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
    """Definition of VIS-1 and VIS-2: HWs and end offsets do not fall; no read is above the HW or below its position."""
    marks = [row for row in events if row.kind is K.HW]
    found = {"hw-above-leo" for row in marks if row.leo is not None and row.hw is not None and row.hw > row.leo}
    shorter = [row for row in events if row.kind in (K.TRUNCATE, K.WOUND, K.REPLICA_DELETED, K.RESIGNED)]
    for one, two in combinations(marks, 2):
        kept = (one.node, one.life) == (two.node, two.life) and not any(
            row.node == one.node and one.index < row.index < two.index for row in shorter
        )
        same = kept or (one.node, one.life, one.leader_epoch, one.detail) == (two.node, two.life, two.leader_epoch, two.detail)
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
    """The high watermark field within one epoch and process. Answers of an older epoch than one already seen are stale."""
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
    """VIS-2: an end offset is never below one that the same client knew from the same or an older epoch."""
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
                # A fall at the start of an epoch is reported once; within an epoch the known end does not fall.
                known = (max(end, known[0]) if known is not None and epoch == known[1] else end, epoch)
            else:
                records = [row for row in call.answer if row.offset is not None and row.value is not None]
                epochs = [row.leader_epoch for row in records if row.leader_epoch is not None]
                if epochs and records[-1].offset is not None and (known is None or records[-1].offset >= known[0]):
                    known = (records[-1].offset + 1, max([*epochs, known[1] if known else 0]))


def polls(operations: Operations, events: Events) -> set[str]:
    """Definition: offsets in an answer rise, and it leaves out no offset up to its last record that another poll returned."""
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


def passed_over(operations: Operations, events: Events) -> set[str]:
    """Definition of DUR-1 as clients see it: a poll leaves out no record that was promised before its invocation."""
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


def committed_offsets(operations: Operations, events: Events) -> set[str]:
    """Definition: a group is told an offset that it committed before, and that no later commit certainly replaced.

    A process commits only positions that it knows of: by records, an end offset, or a committed position of the group.
    """
    found: set[str] = set()
    commits = [call for call in calls(operations, "commit") if not call.failed and call.asked[0].offset is not None]
    for question in (call for call in calls(operations, "committed") if call.ok):
        answer, mine = question.answer[0], [one for one in commits if one.asked[0].value == question.asked[0].value]
        begun = [one for one in mine if one.asked[0].index < answer.index]
        sure = [one for one in mine if one.ok and one.answer[0].index < question.asked[0].index]
        if answer.offset is None:
            found |= {"commit-lost"} if sure else set()
            continue
        source = [one for one in begun if one.asked[0].offset == answer.offset]
        replaced = [
            one for one in source if one.ok and any(one.answer[0].index < then.asked[0].index for then in sure if then is not one)
        ]
        found |= {"phantom-commit"} if not source else {"commit-lost"} if len(replaced) == len(source) else set()
    for commit in calls(operations, "commit"):
        known = _known_end(operations, commit)
        found |= {"commit-ahead"} if known is not None and (commit.asked[0].offset or 0) > known else set()
    return found


def _known_end(operations: Operations, commit: Call) -> int | None:
    """The highest offset that a client knew of from polls and end offsets; None if it had neither."""
    told = [call for f in ("poll", "latest", "committed") for call in calls(operations, f) if call.ok]
    mine = [call for call in told if call.asked[0].process == commit.asked[0].process]
    before = [call for call in mine if call.answer[0].index < commit.asked[0].index]
    ends = [row.offset + (call.asked[0].f == "poll") for call in before for row in call.answer if row.offset is not None]
    ends.extend(call.asked[0].offset or 0 for call in before if call.asked[0].f == "poll")
    return max(ends, default=0) if any(call.asked[0].f != "committed" for call in before) else None
