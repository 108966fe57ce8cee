"""Which messages a fault picks on one direction of a link, and how late each is.

Draws come from the plan, by window and link: the n-th message that is asked about gets the n-th draw, so equal traffic is picked
alike in each run.
"""

from collections.abc import Callable

from highwater.backends.real.site import Pair, Pick
from history.seed import Rng

REPEAT_S = 0.2  # Linux's minimal retransmission timeout of TCP
REPEATS_MAX = 6
_MICRO = 1_000_000


class Picker:
    """The messages that one window picks on one direction of a link.

    `ones` has the connection of each window that acts on one connection alone. `orphans` counts picked messages that were
    delivered after their sender had given up the connection.
    """

    def __init__(self, pick: Pick, pair: Pair, ones: dict[str, object]) -> None:
        self.pick = pick
        self.hits = self.orphans = 0
        self._ones = ones
        self._rng = Rng(pick.seed).fork(f"{pair[0]}>{pair[1]}")

    def picks(self, kind: str, connection: object) -> bool:
        """Whether the fault picks this message, which is counted then."""
        pick = self.pick
        if pick.kinds and kind not in pick.kinds:
            return False
        if pick.one_connection and self._ones.get(pick.window, connection) is not connection:
            return False
        if not self._rng.ratio(pick.per_mille, 1000):
            return False
        if pick.one_connection:
            self._ones[pick.window] = connection
        self.hits += 1
        return True

    def late_s(self) -> float:
        """Draw how late a picked message is, in seconds. A repeated copy of a lost one is lost with the same chance."""
        late_s = self._rng.below(self.pick.delay_ms * 1000 + 1) / _MICRO
        return late_s + (repeats_s(self._rng.below, self.pick.per_mille, lost=1) if self.pick.lost else 0.0)


def repeats_s(below: Callable[[int], int], loss_per_mille: int, *, lost: int = 0) -> float:
    """Draw how late TCP delivers data, in seconds: the first `lost` copies are lost, and each later one with this chance."""
    copies = lost
    while copies < REPEATS_MAX and below(1000) < loss_per_mille:
        copies += 1
    return REPEAT_S * ((1 << copies) - 1)
