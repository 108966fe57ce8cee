"""Positions of consumer groups, on stores that keep them and on stores that do not (docs/properties.md)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.clients import committed_offsets
from checkers.judge import judge
from history.history import History
from history.op import OpType
from history.seed import Rng
from tests.checkers.story import HistoryBuilder


class Store:
    """Keeps the last position of one group; an operation takes effect at a drawn moment between its two rows."""

    def __init__(self, rng: Rng, *, forgets: bool = False, invents: bool = False) -> None:
        self._rng, self._forgets, self._invents = rng, forgets, invents
        self._positions: list[int | None] = [None]

    def commit(self, position: int) -> None:
        """The last one wins."""
        self._positions.append(position)

    def committed(self) -> int | None:
        """The last one, or what a broken store takes for it."""
        if self._invents and self._rng.ratio(1, 3):
            return 1_000_000
        if self._forgets and self._rng.ratio(1, 3):
            return self._positions[max(0, len(self._positions) - 2)]
        return self._positions[-1]


def run_of(store: Store, rng: Rng, steps: int) -> History:
    """Three processes at a time; positions are written once. Some commits get no answer."""
    builder = HistoryBuilder()
    waiting: dict[int, tuple[str, int]] = {}
    numbers = [0, 1, 2]
    for step in range(steps):
        slot = rng.below(3)
        process = numbers[slot]
        if slot not in waiting:
            f, position = ("commit", step) if rng.ratio(1, 2) else ("committed", -1)
            builder.op(process, OpType.INVOKE, f, ({"value": "g", **({"offset": step} if f == "commit" else {})},))
            waiting[slot] = (f, position)
            continue
        f, position = waiting.pop(slot)
        if f == "committed":
            builder.op(process, OpType.OK, f, ({"offset": store.committed()},))
        elif rng.ratio(1, 5):
            if rng.ratio(1, 2):
                store.commit(position)
            builder.op(process, OpType.INFO, f, ({"error": "timeout"},))
            numbers[slot] += 3
        else:
            store.commit(position)
            builder.op(process, OpType.OK, f)
    return builder.history()


def kinds(history: History) -> set[str]:
    return {anomaly.kind for anomaly in judge(history, (committed_offsets.CHECKER,)).anomalies}


@given(seed=st.integers(0, 2**32))
def test_correct_committed_offset_store_is_never_accused(seed: int) -> None:
    rng = Rng(seed)

    assert kinds(run_of(Store(rng.fork("store")), rng, 60)) == set()


@pytest.mark.parametrize(("broken", "found"), [("forgets", "commit-lost"), ("invents", "phantom-commit")])
def test_offset_store_that_loses_or_invents_commits_is_caught(broken: str, found: str) -> None:
    rng = Rng(7)
    store = Store(rng.fork("store"), forgets=broken == "forgets", invents=broken == "invents")

    assert kinds(run_of(store, rng, 300)) == {found}


def test_consumer_may_commit_the_position_it_fetched_again() -> None:
    """A restarted consumer fetches its position, is told a lower end offset, and commits its position again."""
    builder = HistoryBuilder()
    builder.op(1, OpType.INVOKE, "commit", ({"value": "g", "offset": 5},))
    builder.op(1, OpType.OK, "commit")
    builder.op(2, OpType.INVOKE, "committed", ({"value": "g"},))
    builder.op(2, OpType.OK, "committed", ({"offset": 5},))
    builder.latest(2, 3)
    builder.op(2, OpType.INVOKE, "commit", ({"value": "g", "offset": 5},))
    builder.op(2, OpType.OK, "commit")

    assert kinds(builder.history()) == set()
