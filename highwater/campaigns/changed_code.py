"""Whether the runs of the chaos job come to the changed code of the protocol: of code that no run reaches, green says nothing."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import reference
from highwater.coverage.changed import Changed, changed_functions, sources_under, unreached
from highwater.runs.revisions import ROOT, Revision, sources_at

_SHOWN = 8  # lines
_TITLE = "changed code"


class ReachOfChanges:
    """What was changed since an earlier commit, and which of its branches the runs on `safe` have taken so far."""

    def __init__(self, changed: Sequence[Changed] = (), since: str = "") -> None:
        self._changed = changed
        self.since = since
        self._taken: set[str] = set()
        self.watched = frozenset(function.name for function in changed)

    def take(self, branches: Iterable[str]) -> None:
        """Add the branches that a run took, by their names."""
        self._taken.update(branches)

    def unreached(self) -> tuple[str, ...]:
        """What no run came to, in lines."""
        return unreached(self._changed, self._taken)

    def lines(self) -> Iterator[str]:
        """What the terminal shows; nothing if no function was changed."""
        if not self._changed:
            return
        missed = self.unreached()
        count = f"{len(self._changed)} function{'s' if len(self._changed) != 1 else ''} since {self.since}"
        yield f"{_TITLE:<22} {count}; {'no run on safe came to, and so none judges:' if missed else 'runs came to all of it'}"
        yield from (f"    {line}" for line in missed[:_SHOWN])
        if len(missed) > _SHOWN:
            yield f"    and {len(missed) - _SHOWN} more; --json lists all"


def reach_of_changes(earlier: Revision) -> ReachOfChanges:
    """What was changed since the earlier commit; nothing where this process has the protocol of another tree."""
    if Path(reference.__file__).parents[1] != ROOT:
        return ReachOfChanges()
    changed = changed_functions(sources_under(ROOT), sources_at(earlier.name, option="commit"))
    return ReachOfChanges(changed, earlier.words)
