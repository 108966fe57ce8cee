"""Ending what a run has made: every part is tried, and what went wrong first is told afterwards."""

from collections.abc import Callable, Iterable

from highwater.errors import HarnessError


def end_all(ends: Iterable[Callable[[], object]]) -> None:
    """Do each, whatever becomes of those before it. HarnessError with what the first one failed by, once all were tried."""
    failures: list[HarnessError | OSError] = []
    for end in ends:
        try:
            end()
        except (HarnessError, OSError) as error:
            failures.append(error)
    if failures:
        raise HarnessError(str(failures[0])) from failures[0]
