"""Pairs each invocation of a history with its completion. Contradictory steps are refused: a verdict on them means nothing.

Refused are: an invocation while the process has a call open; a completion without an open call, hence also a second one; a
completion of another function; an `ok` that answers other micro-operations than were invoked; indices that do not grow; a
completion before the time of its call; times that go back by more than racing threads explain. A call without a completion has an
unknown outcome: the run may have ended there.

Where every step has an index, the indices are the order. A completion whose time goes back makes it `unsure`. An invocation whose
time goes back is noted only: Jepsen took its time, waited for a connection, and wrote it before anything was sent. If the time is
right and not the order, the call began earlier, which forbids fewer answers: what is VALID in this order is VALID in that one.

A history of transactions may have completions only, as Elle's examples do. When they were invoked is unknown then: each may have
begun at any time since the one before it of its process, and those of no stated process are of processes of their own.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from history.errors import HistoryError
from history.foreign.step import UNKNOWN, Call, Step, short
from history.op import OpType

MICRO = frozenset({"append", "r", "w", "read", "write", "send", "poll"})  # the functions of micro-operations
_ANY_TIME = -2  # before every step
_READS, _RECORDS = frozenset({"r", "read"}), frozenset({"send", "poll"})
WITHOUT_INVOCATIONS = "no transaction has an invocation: when each began is unknown, but for the order of each process"
_TIME_TOLERANCE_NS = 1_000_000_000  # threads read their clocks before they wait to write the step


class Paired(Struct, frozen=True, kw_only=True):
    """The calls of a history in the order of invocation, and apart from them those that certainly did not happen.

    `unsure` holds a line for each step whose time contradicts the order of indices; `notes` what else a reader should know. If it
    is `untimed`, calls of different processes have no order in time, whatever their `start` and `end` are.
    """

    calls: tuple[Call, ...]
    failed: tuple[Call, ...]
    steps: int
    unsure: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    untimed: bool = False


def pair(steps: Iterable[Step], *, refuse: Callable[[int, str], NoReturn] | None = None) -> Paired:
    """Pair every invocation with its completion. `refuse` gets the line and the reason of a bad step; by default it raises."""
    deny = refuse or _refuse
    open_steps: dict[Hashable, tuple[int, Step]] = {}
    started: list[tuple[int, Step, int | None, Step | None]] = []
    unsure: list[str] = []
    count = 0
    bare: Step | None = None  # the first step, if it completes a transaction that was never invoked
    ended: dict[Hashable, int] = {}  # where the last step of each process is then
    late_lines: list[str] = []
    for position, step in enumerate(_check_order(steps, deny, unsure, late_lines)):
        count = position + 1
        before = open_steps.pop(step.process, None)
        if (bare is not None or position == 0) and _is_bare(step):
            bare = bare or step
            process = ("step", position) if step.process is None else step.process
            started.append((1 + ended.get(process, _ANY_TIME), replace(step, process=process), 2 * position, step))
            ended[process] = 2 * position
            continue
        if bare is not None:
            deny(bare.line, _without_call(bare))
        if step.type is OpType.INVOKE:
            if before is not None:
                deny(
                    step.line,
                    f"{_process_in_words(step)} invokes {step.f} while its call of line {before[1].line} is open{_unnamed(step)}",
                )
            open_steps[step.process] = (len(started), step)
            started.append((position, step, None, None))
            continue
        if before is None:
            deny(step.line, _without_call(step))
        slot, invocation = before
        if invocation.f != step.f:
            deny(
                step.line,
                f"{_process_in_words(step)} completes {step.f}, but its call of line {invocation.line} is {invocation.f}",
            )
        if step.type is OpType.OK:
            reason = _contradiction(invocation.value, step.value)
            if reason:
                deny(step.line, f"{_process_in_words(step)} answers {reason} of its call of line {invocation.line}")
        if step.time is not None and invocation.time is not None and step.time < invocation.time:
            deny(
                step.line,
                f"{_process_in_words(step)} completes {step.f} before the time of its call in line {invocation.line}",
            )
        started[slot] = (started[slot][0], invocation, position, step)
    calls: list[Call] = []
    failed: list[Call] = []
    for start, invocation, end, completion in started:
        into = failed if completion is not None and completion.type is OpType.FAIL else calls
        into.append(_call_of_steps(len(into), start, invocation, end, completion))
    notes = [] if bare is None else [WITHOUT_INVOCATIONS]
    if late_lines:
        calls_, more = ("call was", "") if len(late_lines) == 1 else ("calls were", ", the first of them")
        written_late = f"{len(late_lines)} {calls_} written long after the time of invocation{more} in {late_lines[0]}"
        notes.append(f"{written_late}: the file's order counts")
    return Paired(calls=tuple(calls), failed=tuple(failed), steps=count, unsure=tuple(unsure), notes=tuple(notes))


def _is_bare(step: Step) -> bool:
    """Whether a step may be one of a history without invocations: it completes a transaction of appends, writes and reads."""
    if step.type is OpType.INVOKE or step.f != "txn" or not isinstance(step.value, tuple):
        return False
    return all(type(micro) is tuple and micro and micro[0] in MICRO - _RECORDS for micro in step.value)


def _without_call(step: Step) -> str:
    return f"{_process_in_words(step)} completes {step.f}, but it has no call open"


def _contradiction(invoked: Hashable, answered: Hashable) -> str:
    """What is wrong with the answer to a transaction, compared with its invocation; "" if nothing, or if one is not recorded."""
    if invoked is None or answered is None or not (_is_transaction(invoked) or _is_transaction(answered)):
        return ""
    if not isinstance(invoked, tuple):
        return "a transaction instead of the value"
    if not isinstance(answered, tuple) or len(invoked) != len(answered):
        return f"{len(answered) if isinstance(answered, tuple) else 'no list of'} micro-operations instead of the {len(invoked)}"
    for before, after in zip(invoked, answered, strict=True):
        if before != after and not _is_answered_by(before, after):
            return f"{short(after)} instead of {short(before)}"
    return ""


def _is_transaction(value: Hashable) -> bool:
    return type(value) is tuple and value != () and all(type(micro) is tuple and micro and micro[0] in MICRO for micro in value)


def _is_answered_by(invoked: Hashable, answered: Hashable) -> bool:
    """A read is answered by any value, a poll by any records, a send by [offset value]; anything else by itself."""
    if not (isinstance(invoked, tuple) and isinstance(answered, tuple) and invoked and answered) or invoked[0] != answered[0]:
        return False
    if invoked[0] == "poll":
        return True
    if len(invoked) != 3 or len(answered) != 3 or invoked[1] != answered[1]:
        return False
    value = answered[2]
    return invoked[0] in _READS or (
        invoked[0] == "send" and isinstance(value, tuple) and len(value) == 2 and value[1] == invoked[2]
    )


def _call_of_steps(index: int, start: int, invocation: Step, end: int | None, completion: Step | None) -> Call:
    """The call of an invocation; without an acknowledgement its result is UNKNOWN and it never ends."""
    is_ok = completion is not None and completion.type is OpType.OK
    return Call(
        index=index,
        line=invocation.line,
        process=invocation.process,
        f=invocation.f,
        key=invocation.key,
        argument=invocation.value,
        result=completion.value if is_ok and completion is not None else UNKNOWN,
        start=start,
        end=end if is_ok else None,
    )


def _check_order(
    steps: Iterable[Step], deny: Callable[[int, str], NoReturn], unsure: list[str], late_lines: list[str]
) -> Iterator[Step]:
    """The steps, checked for the order of their indices and times; `deny` raises.

    Doubts about times go into `unsure`; `late_lines` gets the lines of invocations that were written long after their time.
    """
    last_index: int | None = None
    latest: tuple[int, int] | None = None  # time and line
    for step in steps:
        if step.index is not None:
            if last_index is not None and step.index <= last_index:
                deny(
                    step.line,
                    f"index {step.index} after {last_index}: the steps are out of order; sort them, "
                    "or leave the indices out if their order in the file is right",
                )
            last_index = step.index
        if step.time is not None:
            if latest is not None and step.time < latest[0] - _TIME_TOLERANCE_NS:
                reason = f"time {step.time} after {latest[0]} in line {latest[1]}: the steps are out of order"
                if step.index is None:
                    deny(step.line, reason)
                if step.type is OpType.INVOKE:
                    late_lines.append(f"line {step.line}")
                else:
                    unsure.append(f"line {step.line}: {reason}, though their indices are not")
            if latest is None or step.time > latest[0]:
                latest = (step.time, step.line)
        yield step


def _process_in_words(step: Step) -> str:
    return f"process {short(step.process)}"


def _unnamed(step: Step) -> str:
    return "" if step.process is not None else ": steps without :process are taken for one client's, so give each client a number"


def _refuse(line: int, why: str) -> NoReturn:
    raise HistoryError(f"line {line}: {why}")
