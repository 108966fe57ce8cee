"""Witnesses for verdicts on objects: an order of all calls, or the fewest calls that no order explains.

Calls are left out as long as the verifier still finds no order of the others; so what is written is what it accepts, and no call
of it can be spared. The search begins with the call that fits nowhere and those invoked just before it, and takes in more, twice
as many each time.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from checkers.linearizability.model import Model
from checkers.linearizability.prefix import cut
from checkers.linearizability.search import Placed, Search, Stuck
from history.foreign.step import UNKNOWN, Call
from verifier.certificate import Linearization, NoLinearization, Refused
from verifier.objects import Object, has_order, objects

STEPS_MAX = 2_000_000  # of the search for an order of one object
_Part = Sequence[tuple[int, Call]]


def order_of(thing: Object, model: Model, calls: Sequence[Call]) -> Linearization | None:
    """Find an order of the calls on each object; None if the search ends at its budget."""
    order: list[int] = []
    for part in objects(thing, calls).values():
        found = _order_found(model, [call for _, call in part])
        if found is None:
            return None
        order += found
    return Linearization(order=tuple(order))


def _order_found(model: Model, calls: Sequence[Call]) -> tuple[int, ...] | None:
    """A legal order of the calls, by their indices; None if the search finds none."""
    if model.name == "partition-log":
        calls = _calls_with_offsets(calls)
    outcome = Search(model, calls).run(STEPS_MAX)
    return outcome.order if isinstance(outcome, Placed) else None


def _calls_with_offsets(calls: Sequence[Call]) -> list[Call]:
    """The calls on a log, each append at an offset: the one that reads show, or one behind all others."""
    taken = {call.result for call in calls if call.f == "append" and isinstance(call.result, int)}
    reads = sorted(
        (call.argument, call.result)
        for call in calls
        if call.f == "read" and isinstance(call.argument, int) and call.result not in (None, UNKNOWN)
    )
    end = 1 + max((number for call in calls for number in (call.argument, call.result) if isinstance(number, int)), default=0)
    placed: list[Call] = []
    for call in calls:
        if call.f == "append" and not isinstance(call.result, int):
            at = next((at for at, value in reads if value == call.argument and at not in taken), None)
            if at is None and call.end is None:
                continue  # nobody saw it: it had no effect
            at, end = (end, end + 1) if at is None else (at, end)
            taken.add(at)
            call = replace(call, result=at)
        placed.append(call)
    return placed


def core_of(thing: Object, model: Model, calls: Sequence[Call], stuck: Stuck) -> NoLinearization | None:
    """Find the fewest calls without an order, given the proof of the judge; None if the verifier's budget is too small."""
    part = next(part for part in objects(thing, calls).values() if any(at == stuck.call for at, _ in part))
    last = calls[stuck.call]
    assert last.end is not None
    # Calls invoked later come last: a value that was read before its write is of one of them.
    near = sorted((at for at, _ in reversed(part) if at != stuck.call), key=lambda at: calls[at].start > (last.end or 0))
    size = 1
    while True:
        kept = [stuck.call, *near[:size]]
        if _is_impossible(thing, part, kept):
            break
        if size > len(near):
            return None
        size *= 2
    kept = _fewest_impossible_calls(thing, part, kept)
    last_kept = stuck.call if stuck.call in kept else max(kept, key=lambda at: calls[at].end or 0)
    before = _order_found(model, cut([call for _, call in part], (calls[last_kept].end or 0) - 1))
    return NoLinearization(kept=tuple(sorted(kept)), last=last_kept, before=before or ())


def _is_impossible(thing: Object, part: _Part, kept: Sequence[int]) -> bool:
    """Whether the verifier agrees that these calls alone have no order; False if it cannot tell."""
    try:
        return not has_order(thing, part, {*kept})
    except Refused:
        return False


def _fewest_impossible_calls(thing: Object, part: _Part, kept: list[int]) -> list[int]:
    """The calls that are still impossible when halves, quarters … and at last single calls are left out, as far as possible."""
    size = max(1, len(kept) // 2)
    while True:
        at, before = 0, len(kept)
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if fewer and _is_impossible(thing, part, fewer):
                kept = fewer
            else:
                at += size
        if size == 1 and len(kept) == before:
            return kept
        size = max(1, size // 2)
