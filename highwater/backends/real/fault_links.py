"""Network faults on real brokers: the faults active on each link are combined into one setting for it.

A link is held where one window holds it; delays are added; the highest loss counts. Faults of single messages act one by one.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.real.site import JOINED, LinkCondition, Links, Pair, Pick, Probe, Proof
from highwater.rig.cuts import Geography
from history.seed import Draws
from nemesis.faults import Clog, LinkFault, Packets, Partition, Reset, Slow, kinds_of, picks_messages
from nemesis.schedule import Window
from reference.types import Address, BrokerId

LOOK_S = 0.02
HELD = LinkCondition(held=True)
REFUSED = "the backend must refuse a plan with this fault before the run"


class LinkFaults:
    """Applies network faults to the links of a cluster; `servers` are ZooKeeper's servers, `places` those of clients.

    `changing` is called with links right before they change, so that findings of probes that look at them are dropped.
    """

    def __init__(
        self,
        links: Links,
        brokers: tuple[BrokerId, ...],
        servers: tuple[Address, ...],
        places: tuple[Address, ...],
        draws: Draws,
        *,
        changing: Callable[..., None],
    ) -> None:
        self._links = links
        self._changing = changing
        self._draws = draws
        self._places = places
        self._geography = Geography(brokers, places, servers=servers, places={place: (place,) for place in places})
        self._links_of_window: dict[str, tuple[Pair, ...]] = {}  # links of the open windows
        self._conditions_of_link: dict[Pair, dict[str, LinkCondition]] = {}  # by link and window
        self._resetting: dict[str, asyncio.Task[None]] = {}
        self._broken: dict[str, int] = {}  # connections that a window has reset
        self._watched: set[str] = set()  # open windows whose effect only traffic shows

    async def do(self, window: Window, fault: LinkFault, hit: tuple[Address, ...]) -> tuple[Probe, tuple[Pair, ...]]:
        """Apply a network fault to the links of these brokers or of this client place; returns the probe of it, and the links."""
        pairs = self._links_of_window[window.id] = self._touched_links(self._links_hit(window, fault, hit))
        if not pairs:
            return _no_link, pairs
        picks = picks_messages(fault)
        if isinstance(fault, Reset) and not picks:
            self._broken[window.id] = 0
            resetting = self._reset_again(window.id, pairs, fault.period_ms)
            self._resetting[window.id] = asyncio.get_running_loop().create_task(resetting)
            return self._probe_of_count(window.id, lambda: self._broken[window.id], "connections broken"), pairs
        condition = self._condition_that_picks(window.id, fault) if picks else _condition_of(fault)
        for pair in pairs:
            self._conditions_of_link.setdefault(pair, {})[window.id] = condition
        probe_of_links = await self._apply_conditions(pairs)
        if picks:
            return self._probe_of_picks(
                window.id, " or ".join(kinds_of(fault)) or "messages"
            ), ()  # counted apart from other windows
        if isinstance(fault, Packets):
            return self._probe_of_hits(window.id, pairs, "packets repeated"), pairs
        if isinstance(fault, Clog) and fault.kinds:
            return self._probe_of_hits(window.id, pairs, f"messages held ({', '.join(fault.kinds)})"), pairs
        return probe_of_links, pairs

    async def hold(self, window_id: str, pairs: Iterable[Pair], condition: LinkCondition = HELD) -> Probe:
        """Stop all traffic of these links, or do to it what `condition` says, until `undo` is called for the fault."""
        self._links_of_window[window_id] = tuple(pairs)
        for pair in self._links_of_window[window_id]:
            self._conditions_of_link.setdefault(pair, {})[window_id] = condition
        return await self._apply_conditions(self._links_of_window[window_id])

    def closing(self, window_id: str) -> None:
        """End the probes of a fault that still wait for traffic to show its effect, because the fault ends."""
        self._watched.discard(window_id)

    async def undo(self, window_id: str) -> tuple[Probe, tuple[Pair, ...]]:
        """End a network fault. Returns the probe that its effect is over, and the links."""
        resetting = self._resetting.pop(window_id, None)
        if resetting is not None:
            resetting.cancel()
            with suppress(asyncio.CancelledError):
                await resetting
        pairs = self._links_of_window.pop(window_id)
        for pair in pairs:
            self._conditions_of_link.get(pair, {}).pop(window_id, None)
        return await self._apply_conditions(pairs), pairs

    def _probe_of_hits(self, window_id: str, pairs: tuple[Pair, ...], what: str) -> Probe:
        """A probe that sees whether a fault hit messages; it counts only links that no other open window affects."""
        alone = tuple(pair for pair in pairs if len(self._conditions_of_link[pair]) == 1)
        if not alone:
            return _not_told_apart
        before = self._count_hits(alone)
        return self._probe_of_count(window_id, lambda: self._count_hits(alone) - before, what)

    def _probe_of_count(self, window_id: str, count: Callable[[], int], what: str) -> Probe:
        """A probe that looks until something is counted, or until the window closes: the effect depends on traffic."""
        self._watched.add(window_id)

        async def probe() -> Proof:
            while not count() and window_id in self._watched:
                await asyncio.sleep(LOOK_S)
            return Proof(count() > 0, f"{count()} {what}")

        return probe

    def _probe_of_picks(self, window_id: str, what: str) -> Probe:
        """A probe that waits for the end of the window, and tells how many messages it picked."""
        self._watched.add(window_id)

        async def probe() -> Proof:
            while window_id in self._watched:
                await asyncio.sleep(LOOK_S)
            picked = self._links.picked(window_id)
            detail = f"{picked.messages} times {what}, {picked.orphans} of them over a connection that the sender had given up"
            return Proof(picked.messages > 0, detail, picked.messages, picked.orphans)

        return probe

    def _condition_that_picks(self, window_id: str, fault: LinkFault) -> LinkCondition:
        """The condition of a link on which this fault picks messages."""
        one_connection = isinstance(fault, Packets | Slow | Clog | Reset) and fault.connection == "one"
        seed = self._draws.bits(f"pick {window_id}")
        pick = Pick(window=window_id, seed=seed, kinds=kinds_of(fault), one_connection=one_connection)
        match fault:
            case Packets(drop_per_mille=drop):
                pick = replace(pick, per_mille=drop, lost=True)
            case Slow(chance_per_mille=chance, extra_ms=extra_ms):
                pick = replace(pick, per_mille=1000 if chance is UNSET else chance, delay_ms=extra_ms)
            case Clog(chance_per_mille=chance):
                pick = replace(pick, per_mille=1000 if chance is UNSET else chance, held=True)
            case Reset(chance_per_mille=chance):
                pick = replace(pick, per_mille=1000 if chance is UNSET else chance, cut=True)
            case _:
                raise AssertionError(REFUSED)
        return LinkCondition(picks=(pick,))

    def _count_hits(self, pairs: Iterable[Pair]) -> int:
        counts = self._links.counts()
        return sum(counts.get(pair, 0) for pair in pairs)

    async def _reset_again(self, window_id: str, pairs: tuple[Pair, ...], period_ms: int) -> None:
        # Runs until the window's end cancels it.
        while True:
            self._broken[window_id] += await self._links.reset(pairs)
            await asyncio.sleep(period_ms / 1000)

    async def _apply_conditions(self, pairs: tuple[Pair, ...]) -> Probe:
        # Every link gets the sum of what all open windows do to it.
        self._changing(*subjects(pairs))
        return await self._links.set({pair: _joint_condition(self._conditions_of_link.get(pair, {}).values()) for pair in pairs})

    def _links_hit(self, window: Window, fault: LinkFault, hit: tuple[Address, ...]) -> list[Pair]:
        """The directed links that the fault hits."""
        links_of = self._geography.links_of
        match fault:
            case Partition():
                return self._geography.cut_by(fault, hit, self._draws, purpose=f"cut {window.id}")
            case Packets(peer=peer, direction=direction):
                return [pair for node in hit for pair in links_of(node, ("peers",), direction, peer)]
            case Clog() | Slow() | Reset():
                return [pair for node in hit for pair in links_of(node, fault.links, fault.direction, fault.peer)]
            case _:
                assert_never(fault)

    def _touched_links(self, pairs: Iterable[Pair]) -> tuple[Pair, ...]:
        """Leave out the links between clients and ZooKeeper, which no fault touches."""
        servers, places = self._geography.servers, self._places
        return tuple(dict.fromkeys(pair for pair in pairs if not ({*pair} & {*servers} and {*pair} & {*places})))


async def _no_link() -> Proof:
    return Proof(False, "this cluster has no link of these kinds")


async def _not_told_apart() -> Proof:
    return Proof(None, "other windows do something to the same links")


def subjects(pairs: Iterable[Pair]) -> tuple[str, ...]:
    """The names of links under which it is recorded that they were changed or probed."""
    return tuple(f"{source}>{target}" for source, target in pairs)


def _condition_of(fault: LinkFault) -> LinkCondition:
    """What the fault does to each of its links."""
    match fault:
        case Clog(kinds=kinds) if kinds:
            return LinkCondition(held_kinds=kinds)
        case Partition() | Clog():
            return LinkCondition(held=True)
        case Packets(drop_per_mille=drop, duplicate_per_mille=0, reorder_per_mille=0, kinds=()):
            return LinkCondition(loss_per_mille=drop)
        case Packets() | Reset():
            raise AssertionError(REFUSED)
        case Slow(extra_ms=extra_ms):
            return LinkCondition(delay_ms=extra_ms)
        case _:
            assert_never(fault)


def _joint_condition(done: Iterable[LinkCondition]) -> LinkCondition:
    """The condition of a link on which all of these act at once."""
    total = JOINED
    for condition in done:
        total = LinkCondition(
            held=total.held or condition.held,
            delay_ms=total.delay_ms + condition.delay_ms,
            loss_per_mille=max(total.loss_per_mille, condition.loss_per_mille),
            held_kinds=tuple(sorted({*total.held_kinds, *condition.held_kinds})),
            picks=(*total.picks, *condition.picks),
        )
    return total
