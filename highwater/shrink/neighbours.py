"""The nearest neighbours of a shrunk plan that pass: what each fault and each request that is left has to do with the failure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan
from highwater.shrink.passes import mended, with_length
from highwater.shrink.search import Judges
from nemesis.schedule import Window

_EIGHTHS = (7, 6, 4, 2, 1)  # of the length of a window; the nearest first


class Neighbour(Struct, frozen=True, kw_only=True):
    """One change of the plan and the verdict that follows. `words` says both."""

    what: str
    verdict: str  # as the harness says it: "VALID, live"
    passes: bool

    @property
    def words(self) -> str:
        """The change and its verdict, for example `without f3 (pause): VALID, live`."""
        return f"{self.what}: {self.verdict}"


class Tried(NamedTuple):
    """A neighbour and its plan."""

    neighbour: Neighbour
    plan: Plan


def nearest(neighbours_tried: Sequence[Tried]) -> Tried | None:
    """The neighbour that passes with the smallest change: a shorter fault before one that is missing."""
    passing = [tried for tried in neighbours_tried if tried.neighbour.passes]
    return min(passing, key=lambda tried: tried.neighbour.what.startswith("without"), default=None)


def neighbours(plan: Plan, judges: Judges) -> tuple[Tried, ...]:
    """For each fault window and each script step of a plan, its nearest neighbour that passes, or its neighbour without it.

    The protocol is the plan's own: VALID and live here means that the failure needs this fault. Raises SpentError.
    """
    found = [_neighbour_of_window(plan, window, judges) for window in plan.schedule]
    for number, step in enumerate(plan.script):
        without = replace(plan, script=plan.script[:number] + plan.script[number + 1 :])
        found.append(_tried_neighbour(f"without the request {step.do} at {step.at_ms} ms", without, judges))
    return tuple(tried for tried in found if tried is not None)


def _neighbour_of_window(plan: Plan, window: Window, judges: Judges) -> Tried | None:
    """The plan without the window, or else with the shortest window that still passes."""
    without = replace(plan, schedule=tuple(other_window for other_window in plan.schedule if other_window.id != window.id))
    name = f"{window.id} ({window.kind})"
    bare = _tried_neighbour(f"without {name}", without, judges)
    if bare is None or not bare.neighbour.passes:
        return bare
    for shorter, length_ms in _shorter(plan, window):
        words = f"with {name} for {length_ms} ms instead of {window.until_ms - window.at_ms} ms"
        nearer = _tried_neighbour(words, shorter, judges)
        if nearer is not None and nearer.neighbour.passes:
            return nearer
    return bare


def _shorter(plan: Plan, window: Window) -> Iterator[tuple[Plan, int]]:
    """The plan with a shorter window, and its length, each length once."""
    lengths = set()
    for eighths in _EIGHTHS:
        shorter = with_length(plan, window.id, eighths)
        length_ms = next(
            window_shortened.until_ms - window_shortened.at_ms
            for window_shortened in shorter.schedule
            if window_shortened.id == window.id
        )
        if shorter != plan and length_ms not in lengths:
            lengths.add(length_ms)
            yield shorter, length_ms


def _tried_neighbour(words: str, plan: Plan, judges: Judges) -> Tried | None:
    """The whole run of a neighbour; None if nobody could perform it."""
    fitting = mended(plan)
    if fitting is None:
        return None
    judges.check_budget()
    summary = judges.whole_run(fitting).summary
    if summary.verdict == "UNKNOWN" and summary.live is True and not fitting.schedule:
        # Where no fault is left, the run is not VALID for this reason alone.
        verdict = f"nothing wrong, live ({'; '.join(summary.unchecked)})"
        return Tried(Neighbour(what=words, verdict=verdict, passes=True), fitting)
    return Tried(Neighbour(what=words, verdict=summary.words, passes=summary.exit_code is ExitCode.VALID), fitting)
