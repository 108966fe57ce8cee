"""set-full: each element that was added is found by all later reads, at least from some time on (`jepsen.checker/set-full`).

`add v` and `read`, answered by all elements. An element is known once its addition succeeded or a read has shown it. Of the
reads, the one invoked last that shows it and the one invoked last that lacks it decide: if the lacking one is later, and began
after the element was known, the element is lost. If the showing one is later, it is stable. Without any stable element the set
was not tested. An element that was known, absent and present again is stale; that is noted, and an anomaly if linearizability is
asked for (`--consistency linearizable`).

broadcast is the same with `broadcast v` for `add v` (`maelstrom.workload.broadcast`): each node shows each message in the end.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from checkers.jepsen.found import Finding, Found, Model, Note, Object, Unchecked, listed, reads
from history.foreign.step import Call, short, shown


class _Read(NamedTuple):
    call: Call
    elements: frozenset[Hashable]


def findings(whole_set: Object) -> Iterator[Finding]:
    """Find lost, stale, doubled and unexpected elements of a set."""
    all_reads = [_Read(call, frozenset(listed(call, call.result, "the answer to a read"))) for call in reads(whole_set.calls)]
    yield from _doubled_elements(all_reads)
    adds: dict[Hashable, list[Call]] = {}
    for call in whole_set.calls:
        if call.f != "read":
            adds.setdefault(call.argument, []).append(call)
    yield from _unexpected_elements(all_reads, adds, {call.argument: call for call in whole_set.failed if call.f != "read"})
    sights = _sights_of_elements(all_reads, set(adds))
    outcomes = [_loss_of(element, adds_of_element, sights[element]) for element, adds_of_element in adds.items()]
    yield from (outcome for outcome in outcomes if outcome is not None and outcome.kind == "lost")
    stale = [outcome for outcome in outcomes if outcome is not None and outcome.kind == "stale"]
    if not any(sight.stable for sight in sights.values()):
        yield Unchecked("the last read shows no element that was added")
    if whole_set.strict:
        yield from stale
    elif stale:
        yield Note(f"stale: {len(stale)}, allowed unless linearizability is asked for; the first: {stale[0].words}")


@dataclass(slots=True)
class _Sight:
    """How the reads saw one element: the end of the first that shows it, the last invoked that shows it, that lacks it."""

    first: int | None = None
    present: Call | None = None
    absent: Call | None = None

    @property
    def stable(self) -> bool:
        """Whether the last reads show the element."""
        return self.present is not None and (self.absent is None or self.absent.start < self.present.start)


def _sights_of_elements(all_reads: list[_Read], elements: set[Hashable]) -> dict[Hashable, _Sight]:
    """When each element was seen first, and the last reads with it and without it."""
    sights = {element: _Sight() for element in elements}
    unseen = set(elements)
    for call, elements_read in sorted(all_reads, key=lambda read: read.call.end or 0):
        for element in unseen & elements_read:
            sights[element].first = call.end
        unseen -= elements_read
    without_present, without_absent = set(elements), set(elements)
    for call, elements_read in reversed(all_reads):
        for element in without_present & elements_read:
            sights[element].present = call
        without_present -= elements_read
        for element in without_absent - elements_read:
            sights[element].absent = call
        without_absent &= elements_read
    return sights


def _loss_of(element: Hashable, adds: list[Call], sight: _Sight) -> Found | None:
    """Whether the element is lost or stale; None if it is neither."""
    line, absent = adds[0].line, sight.absent
    known_from = min((end for end in (sight.first, *(call.end for call in adds)) if end is not None), default=None)
    if known_from is None or absent is None or absent.start < known_from:
        return None
    words = f"{short(element)} of line {line} was known and is absent in line {absent.line}"
    if not sight.stable or sight.present is None:
        return Found("lost", (line, absent.line), f"{words}, and in all reads that began later")
    return Found("stale", (line, absent.line, sight.present.line), f"{words}, before line {sight.present.line} shows it")


def _doubled_elements(all_reads: list[_Read]) -> Iterator[Found]:
    """Reads that hold an element more than once."""
    for call, elements in all_reads:
        values = listed(call, call.result, "the answer to a read")
        if len(values) > len(elements):
            again = next(value for at, value in enumerate(values) if value in values[:at])
            yield Found("duplicate", (call.line,), f"line {call.line} reads {short(again)} more than once")


def _unexpected_elements(
    all_reads: list[_Read], adds: dict[Hashable, list[Call]], failed: dict[Hashable, Call]
) -> Iterator[Found]:
    """Elements that were read and not added, or whose addition failed."""
    elements_before: set[Hashable] = set()
    for call, elements in all_reads:
        for element in sorted(elements - elements_before - set(adds), key=shown):
            if element in failed:
                words = f"line {call.line} reads {short(element)}, whose addition in line {failed[element].line} failed"
                yield Found("revived", (failed[element].line, call.line), words)
            else:
                yield Found("phantom-read", (call.line,), f"line {call.line} reads {short(element)}, which nobody added")
        elements_before |= elements


MODEL = Model(
    name="set-full",
    claim="each element that was added is in all reads from some time on",
    kinds=("lost", "stale", "duplicate", "revived", "phantom-read"),
    blind="Elements that no read began after; how long an element took to appear.",
    functions=("add", "read"),
    findings=findings,
)
BROADCAST = replace(
    MODEL,
    name="broadcast",
    claim="each message that was broadcast is in all reads from some time on",
    functions=("broadcast", "read"),
)
