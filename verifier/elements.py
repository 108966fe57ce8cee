"""Rules about elements that are put in and shown: sets, broadcast, comments, total-queue, long-fork, unique-ids, adya-g2."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from history.foreign.step import UNKNOWN, Call
from verifier.asked import Asked, answer, is_done

# --- sets, broadcast, comments -----------------------------------------------------------------------------------------------


def phantom(asked: Asked, read: Call) -> bool:
    """A read shows a value that nobody put in."""
    known = asked.values("add", "broadcast", "write") | {call.argument for call in asked.failed}
    return any(value not in known for value in answer(read))


def revived(asked: Asked, failed: Call, read: Call) -> bool:
    """A read shows the value of a call that certainly failed."""
    known = asked.values("add", "broadcast", "write")
    return failed in asked.failed and failed.argument in answer(read) and failed.argument not in known


def twice(_: Asked, read: Call) -> bool:
    """A read shows a value more than once."""
    return len({*answer(read)}) < len(answer(read))


def _known_from(asked: Asked, element: Hashable) -> int:
    """Where an element is known at the latest: an addition of it has returned, or a read that shows it."""
    adds = [call for call in asked.done("add", "broadcast") if call.argument == element]
    return min(call.end for call in (*adds, *asked.done("read")) if call in adds or element in answer(call))  # type: ignore[type-var,return-value]


def _is_absent(asked: Asked, add: Call, read: Call) -> bool:
    missing = add.f in ("add", "broadcast") and add in asked.calls and add.argument not in answer(read)
    return missing and read.start >= _known_from(asked, add.argument)


def lost(asked: Asked, add: Call, read: Call) -> bool:
    """A read lacks an element that was known, and so does each read that began later."""
    later = [call for call in asked.done("read") if call.start > read.start]
    return _is_absent(asked, add, read) and not any(add.argument in answer(call) for call in later)


def stale(asked: Asked, add: Call, read: Call, later: Call) -> bool:
    """A read lacks an element that was known, and a later one shows it, where linearizability is asked for."""
    return asked.strict and _is_absent(asked, add, read) and later.start > read.start and add.argument in answer(later)


def hides(question: Asked, missing: Call, latest: Call, read: Call) -> bool:
    """A read shows the latest write and lacks one that had returned before it was invoked."""
    ordered = is_done(missing, "write") and latest.f == "write" and missing.end < latest.start  # type: ignore[operator]
    shown = latest.argument in answer(read) and missing.argument not in answer(read)
    return ordered and shown and {latest, missing} <= {*question.calls}


def where_written_once(rule: Callable[..., bool]) -> Callable[..., bool]:
    """The rule, where no value is written twice; else its writes cannot be told apart."""

    def stricter(asked: Asked, *said: Call) -> bool:
        writes = [call.argument for call in asked.calls if call.f == "write"]
        return len(writes) == len({*writes}) and rule(asked, *said)

    return stricter


# --- total-queue -------------------------------------------------------------------------------------------------------------


def _taken(take: Call) -> tuple[Any, ...]:
    values = answer(take, "drain") if take.f == "drain" else (take.result,) if is_done(take, "dequeue") else ()
    return tuple(value for value in values if value is not None)


def _values_never_put(asked: Asked, take: Call) -> Iterator[Any]:
    """The values that a call took and that nobody had begun to put in."""
    put = {call.argument for call in asked.calls if call.f == "enqueue" and call.start < take.end}  # type: ignore[operator]
    return (value for value in _taken(take) if value not in put)


def taken_unput(asked: Asked, take: Call) -> bool:
    """A call took a value that nobody had begun to put in."""
    only_failed = {call.argument for call in asked.failed if call.f == "enqueue"} - asked.values("enqueue")
    return any(value not in only_failed for value in _values_never_put(asked, take))


def taken_failed(asked: Asked, failed: Call, take: Call) -> bool:
    """A call took the value of an enqueue that certainly failed."""
    unput = failed.argument in _values_never_put(asked, take)
    return failed in asked.failed and failed.f == "enqueue" and unput and failed.argument not in asked.values("enqueue")


def never_taken(question: Asked, put: Call) -> bool:
    """The value is among those of which too few came out, and these are more than calls of unknown outcome can have taken."""
    drained = max((call.start for call in question.done("drain")), default=-1)
    open_takes = [call for call in question.calls if call.end is None and call.f != "enqueue"]
    end_times: defaultdict[Any, list[int]] = defaultdict(list)
    for call in question.done("dequeue", "drain"):
        for value in _taken(call):
            end_times[value].append(call.end or 0)
    starts: defaultdict[Any, list[int]] = defaultdict(list)
    for call in question.done("enqueue"):
        if call.end < drained:  # type: ignore[operator]
            starts[call.argument].append(call.start)
    missing = {value: _missing(begun, end_times[value]) for value, begun in starts.items()}
    undecided = any(call.f == "drain" for call in open_takes) or len(open_takes) >= sum(missing.values())
    judged = is_done(put, "enqueue") and put in question.calls and put.end < drained  # type: ignore[operator]
    return judged and missing[put.argument] > 0 and not undecided


def _missing(starts: Sequence[int], ends: Sequence[int]) -> int:
    """How many of one value did not come out: of those put in from some moment on, what did not come out after it."""
    return max(0, *(sum(other >= start for other in starts) - sum(end > start for end in ends) for start in starts))


# --- long-fork, unique-ids, adya-g2 ------------------------------------------------------------------------------------------


def _written(calls: Sequence[Call]) -> list[tuple[Any, Any]]:
    told: list[Any] = [call.argument if call.result is UNKNOWN else call.result for call in calls if call.f == "write"]
    return [(key, value) for ((_, key, value),) in told]


def read_of_none(asked: Asked, read: Call) -> bool:
    """A read shows a version that nobody wrote."""
    known = {*_written(asked.calls), *_written(asked.failed)}
    return any(value is not None and (key, value) not in known for _, key, value in answer(read))


def read_of_failed(asked: Asked, failed: Call, read: Call) -> bool:
    """A read shows the version of a write that certainly failed."""
    ((version,), known) = _written([failed]), {*_written(asked.calls)}
    return failed in asked.failed and version not in known and version in {(key, value) for _, key, value in answer(read)}


def forks(question: Asked, first: Call, second: Call) -> bool:
    """Each of two reads of the same keys has seen a write that the other has not."""
    often = Counter(key for key, _ in (*_written(question.calls), *_written(question.failed)))
    seen, seen_too = ({key for _, key, value in answer(read) if value is not None} for read in (first, second))
    group, group_too = ({key for _, key, _ in answer(read)} for read in (first, second))
    return group == group_too and max((often[key] for key in group), default=0) == 1 and bool(seen - seen_too and seen_too - seen)


def same_id(asked: Asked, first: Call, again: Call) -> bool:
    """Two calls were answered the same id."""
    both = first in asked.calls and again in asked.calls and is_done(first, "generate") and is_done(again, "generate")
    return both and first != again and first.result is not None and first.result == again.result


def _key_of_insert(call: Call) -> Any:
    """The key of an insert. TypeError if it is none."""
    key: Any = call.key
    rows: Any = call.argument
    if len(rows) == 2 and isinstance(rows[1], tuple):
        key, rows = (rows[0] if key is None else (key, rows[0])), rows[1]
    if not is_done(call, "insert") or len(rows) != 2 or rows.count(None) != 1:
        raise TypeError
    return key


def both_inserted(asked: Asked, first: Call, second: Call) -> bool:
    """Two inserts of a key committed, though each must have found no row of it."""
    return first != second and {first, second} <= {*asked.calls} and _key_of_insert(first) == _key_of_insert(second)
