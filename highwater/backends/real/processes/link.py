"""One direction between two processes of a run: its network fault, and which data of a connection over it that concerns."""

import asyncio
import random
from contextlib import suppress
from typing import Protocol

from highwater.backends.real.processes.picking import Picker, repeats_s
from highwater.backends.real.site import JOINED, LinkCondition, Pair


class Pumped(Protocol):
    """What holds data back for a link, and looks at it again when the link's fault changes."""

    def pump(self) -> None:
        """Send the data that the fault no longer holds."""


class Link:
    """One direction between two processes: its network fault, how often it acted, and the connections over it."""

    def __init__(self, pair: Pair, chance: random.Random, ones: dict[str, object] | None = None) -> None:
        """`ones`: for each window of one connection, which it is; both directions between two places share it."""
        self.pair = pair
        self.pickers: dict[str, Picker] = {}  # by window
        self._ones = {} if ones is None else ones
        self.condition = JOINED
        self.hits = 0  # pieces (reads, or messages of a divided flow) that were held or delayed
        self.flows: dict[Pumped, None] = {}
        self._chance = chance
        self._joined = asyncio.Event()
        self._joined.set()
        self._healed = asyncio.Event()  # set while the link has no fault
        self._healed.set()

    def set(self, condition: LinkCondition) -> None:
        """Set the network fault of the link, and send waiting data that the fault no longer holds.

        Without a fault nothing is late any more: else bytes that a lossy link once delayed would be late for 12 s after it.
        """
        self.condition = condition
        self.pickers = {
            pick.window: self.pickers.get(pick.window) or Picker(pick, self.pair, self._ones) for pick in condition.picks
        }
        (self._healed.set if condition == JOINED else self._healed.clear)()
        if condition.held:
            self._joined.clear()
        else:
            self._joined.set()
        for flow in list(self.flows):
            flow.pump()

    async def joined(self) -> None:
        """Wait until no fault stops the link."""
        await self._joined.wait()

    async def cross(self) -> None:
        """Wait as long as a piece of data is late, or until the link has no fault."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._healed.wait(), self.late_s())

    def late_s(self) -> float:
        """Draw how late the next piece of data is, in seconds: `delay_ms`, and a retransmission timeout for each lost copy."""
        condition = self.condition
        if condition == JOINED:
            return 0.0
        late_s = self._chance.uniform(0, condition.delay_ms) / 1000
        return late_s + repeats_s(self._chance.randrange, condition.loss_per_mille)

    def pickers_of(self, kind: str, connection: object) -> tuple[Picker, ...]:
        """Those that pick a message of this kind on this connection."""
        return tuple(picker for picker in self.pickers.values() if picker.picks(kind, connection))

    def holds(self, kind: str) -> bool:
        """Whether the link's fault holds messages of this kind, or all."""
        return self.condition.held or kind in self.condition.held_kinds

    def is_stopped_by(self, pickers: tuple[Picker, ...]) -> bool:
        """Whether one of these, which picked a message, still holds it."""
        return any(picker.pick.held and picker in self.pickers.values() for picker in pickers)
