"""Definitions that the checkers of client operations are compared with: docs/promise.md §3 and §4 over all pairs of calls."""

from collections.abc import Iterator
from itertools import combinations, pairwise, product

from history.event import EventKind as K
from proof.log_rows import Call, Events, Operations, calls, log_at


def offset_agreement(operations: Operations, events: Events) -> set[str]:
    """Definition of ORD-1: all observations of an offset show one value."""
    pairs_told: list[tuple[int | None, str | None]] = []
    for call in calls(operations, "produce"):
        if call.ok and call.asked[0].acks == -1:
            pairs_told.extend((row.offset, row.value) for row in call.answer)
    for call in calls(operations, "poll"):
        if call.ok:
            pairs_told.extend((row.offset, row.value) for row in call.answer)
    for row in events:
        if row.kind is K.HW and row.node is not None and row.hw is not None:
            log = log_at(events, row.node, row.index)
            pairs_told.extend((offset, value) for offset, value in log.items() if offset < row.hw)
    pairs_known = [(offset, value) for offset, value in pairs_told if offset is not None and value is not None]
    return {
        "inconsistent-offsets"
        for first, second in combinations(pairs_known, 2)
        if first[0] == second[0] and first[1] != second[1]
    }


def order(operations: Operations, events: Events) -> set[str]:
    """Definition of ORD-2 and ORD-4: acknowledgements follow offsets, and each read record was sent before."""
    produced = calls(operations, "produce")
    acked = [call for call in produced if call.ok and call.asked[0].acks == -1]
    kinds: set[str] = set()
    for first, then in product(acked, acked):
        if first.answer[0].index < then.asked[0].index:
            pairs = product([row.offset for row in first.answer], [row.offset for row in then.answer])
            kinds |= {"offset-order" for a, b in pairs if a is not None and b is not None and a >= b}
    accused: set[str | None] = set()  # a value is reported once, at its first wrong read
    for poll in sorted((call for call in calls(operations, "poll") if call.ok), key=lambda call: call.answer[0].index):
        for row in poll.answer:
            senders = [call for call in produced if any(sent.value == row.value for sent in call.asked)]
            if row.value is None or row.value in accused:
                continue
            if not any(call.asked[0].index < row.index for call in senders):
                kinds.add("phantom-read")
                accused.add(row.value)
            elif all(call.failed for call in senders):
                kinds.add("failed-write-read")
                accused.add(row.value)
    return kinds


def duplicates(operations: Operations, events: Events) -> set[str]:
    """Definition of ORD-3: a value is in the log at most once for each send; an idempotent producer's once and in order."""
    read = [row for call in calls(operations, "poll") if call.ok for row in call.answer]
    places = {
        value: sorted({row.offset for row in read if row.value == value and row.offset is not None})
        for value in {row.value for row in read if row.value is not None}
    }
    kinds: set[str] = set()
    produced = calls(operations, "produce")
    for value, offsets in places.items():
        senders = [call for call in produced if any(row.value == value for row in call.asked)]
        attempts = [1 if c.asked[0].delivery == "once" else c.answer[0].attempts if c.answer else None for c in senders]
        numbers = [number for number in attempts if number is not None]
        if senders and len(numbers) == len(attempts) and len(offsets) > sum(numbers):
            kinds.add("duplicate")
    sent = [
        (call.asked[0].process, row.value or "") for call in produced if call.asked[0].delivery == "once" for row in call.asked
    ]
    for (process, first), (other_process, then) in combinations(sent, 2):
        if process == other_process and places.get(first) and places.get(then) and places[then][0] < places[first][0]:
            kinds.add("reordered")
    return kinds


def monotonic_hw(operations: Operations, events: Events) -> set[str]:
    """Definition of VIS-1 and VIS-2: HWs and end offsets do not fall; no read is above the HW or below its position."""
    marks = [row for row in events if row.kind is K.HW]
    kinds = {"hw-above-leo" for row in marks if row.leo is not None and row.hw is not None and row.hw > row.leo}
    shorter = [row for row in events if row.kind in (K.TRUNCATE, K.WOUND, K.REPLICA_DELETED, K.RESIGNED)]
    for earlier, later in combinations(marks, 2):
        is_one_life = (earlier.node, earlier.life) == (later.node, later.life) and not any(
            row.node == earlier.node and earlier.index < row.index < later.index for row in shorter
        )
        same = is_one_life or (earlier.node, earlier.life, earlier.leader_epoch, earlier.detail) == (
            later.node,
            later.life,
            later.leader_epoch,
            later.detail,
        )
        kinds |= {"hw-regressed"} if same and earlier.hw is not None and later.hw is not None and later.hw < earlier.hw else set()
    for call in calls(operations, "poll"):
        if call.ok:
            records = [row for row in call.answer if row.offset is not None and row.value is not None]
            start = call.asked[0].offset
            kinds |= {
                "position-regressed" for row in records if start is not None and row.offset is not None and row.offset < start
            }
            kinds |= {
                "read-above-hw" for row in records if row.hw is not None and row.offset is not None and row.offset >= row.hw
            }
    return kinds | set(_falling_hints(operations)) | set(_falling_ends(operations))


def _falling_hints(operations: Operations) -> Iterator[str]:
    """The high watermark field within one epoch and process. Answers of an older epoch than one already seen are stale."""
    for process in {row.process for row in operations}:
        answers = [call.answer[0] for call in calls(operations, "poll") if call.ok and call.asked[0].process == process]
        hints = [row for row in answers if row.hw is not None and row.leader_epoch is not None]
        for at, later in enumerate(hints):
            epoch = later.leader_epoch or 0
            if any((earlier.leader_epoch or 0) > epoch for earlier in hints[:at]):
                continue
            if any(earlier.leader_epoch == epoch and (later.hw or 0) < (earlier.hw or 0) for earlier in hints[:at]):
                yield "hw-regressed"


def _falling_ends(operations: Operations) -> Iterator[str]:
    """VIS-2: an end offset is never below one that the same client knew from the same or an older epoch."""
    for process in {row.process for row in operations}:
        end_seen: tuple[int, int] | None = None  # end and epoch
        calls_of_process = [
            c for f in ("poll", "latest") for c in calls(operations, f) if c.answer and c.asked[0].process == process
        ]
        for call in sorted(calls_of_process, key=lambda c: c.answer[0].index):
            if call.failed and call.answer[0].error == "OFFSET_OUT_OF_RANGE":
                if end_seen is not None and (call.asked[0].offset or 0) <= end_seen[0]:
                    yield "out-of-range"
            elif not call.ok:
                continue
            elif call.asked[0].f == "latest":
                end, epoch = call.answer[0].offset, call.answer[0].leader_epoch
                if end is None or epoch is None or (end_seen is not None and epoch < end_seen[1]):
                    continue
                if end_seen is not None and end < end_seen[0]:
                    yield "latest-regressed"
                # A fall at the start of an epoch is reported once; within an epoch the known end does not fall.
                end_seen = (max(end, end_seen[0]) if end_seen is not None and epoch == end_seen[1] else end, epoch)
            else:
                records = [row for row in call.answer if row.offset is not None and row.value is not None]
                epochs = [row.leader_epoch for row in records if row.leader_epoch is not None]
                if epochs and records[-1].offset is not None and (end_seen is None or records[-1].offset >= end_seen[0]):
                    end_seen = (records[-1].offset + 1, max([*epochs, end_seen[1] if end_seen else 0]))


def polls(operations: Operations, events: Events) -> set[str]:
    """Definition: offsets in an answer rise, and it leaves out no offset up to its last record that another poll returned."""
    kinds: set[str] = set()
    answered = [call for call in calls(operations, "poll") if call.ok]
    has = {row.offset for call in answered for row in call.answer if row.value is not None}
    for call in [*answered, *(call for call in calls(operations, "produce") if call.ok and call.asked[0].acks == -1)]:
        what = "poll" if call in answered else "send"
        offsets = [row.offset for row in call.answer if row.offset is not None and row.value is not None]
        if any(then <= first for first, then in pairwise(offsets)):
            kinds.add(f"int-nonmonotonic-{what}")
        elif what == "poll" and offsets:
            start = call.asked[0].offset
            begin = offsets[0] if start is None else start
            missing = [at for at in range(begin, offsets[-1]) if at in has and at not in offsets]
            kinds |= {"poll-skip" if missing[0] < offsets[0] else "int-poll-skip"} if missing else set()
    return kinds


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
    kinds: set[str] = set()
    commits = [call for call in calls(operations, "commit") if not call.failed and call.asked[0].offset is not None]
    for question in (call for call in calls(operations, "committed") if call.ok):
        answer = question.answer[0]
        calls_of_member = [commit_call for commit_call in commits if commit_call.asked[0].value == question.asked[0].value]
        begun = [commit_call for commit_call in calls_of_member if commit_call.asked[0].index < answer.index]
        sure = [
            commit_call
            for commit_call in calls_of_member
            if commit_call.ok and commit_call.answer[0].index < question.asked[0].index
        ]
        if answer.offset is None:
            kinds |= {"commit-lost"} if sure else set()
            continue
        source = [commit_call for commit_call in begun if commit_call.asked[0].offset == answer.offset]
        replaced = [
            commit_call
            for commit_call in source
            if commit_call.ok
            and any(commit_call.answer[0].index < then.asked[0].index for then in sure if then is not commit_call)
        ]
        kinds |= {"phantom-commit"} if not source else {"commit-lost"} if len(replaced) == len(source) else set()
    for commit in calls(operations, "commit"):
        known_end = _known_end(operations, commit)
        kinds |= {"commit-ahead"} if known_end is not None and (commit.asked[0].offset or 0) > known_end else set()
    return kinds


def _known_end(operations: Operations, commit: Call) -> int | None:
    """The highest offset that a client knew of from polls and end offsets; None if it had neither."""
    answered = [call for f in ("poll", "latest", "committed") for call in calls(operations, f) if call.ok]
    calls_of_process = [call for call in answered if call.asked[0].process == commit.asked[0].process]
    before = [call for call in calls_of_process if call.answer[0].index < commit.asked[0].index]
    ends_known = [row.offset + (call.asked[0].f == "poll") for call in before for row in call.answer if row.offset is not None]
    ends_known.extend(call.asked[0].offset or 0 for call in before if call.asked[0].f == "poll")
    return max(ends_known, default=0) if any(call.asked[0].f != "committed" for call in before) else None
