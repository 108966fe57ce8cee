"""The network between broker processes: all connections go through proxies, and probes measure each link.

A wire is an ordered pair of places: the first opens connections to the second. Each wire has one more proxy over the same two
links, for a standing connection of the harness. A probe sends a few bytes through it in one direction and measures when they
arrive at the other end: never on a held link, late on a slow one. This measures each direction separately and does not depend on
the nodes.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping

from highwater.backends.real.processes.link import Link
from highwater.backends.real.processes.proxy import Conversation, Proxy
from highwater.backends.real.site import JOINED, HostPort, LinkCondition, Pair, Picked, Probe, Proof
from highwater.errors import HarnessError
from reference.types import Address

SILENT_S = 0.15  # a link counts as held if nothing arrives for so long
ARRIVES_S_MAX = 5.0  # over a joined link, on a busy machine
LATE_MS_MIN = 2  # a proxy may need this long without a fault
BEATS = 5
_WORD_BYTES = 8


class ProxyLinks:
    """The network between the processes of a run; its proxies listen at `host`. Belongs to one asyncio loop."""

    def __init__(self, host: str, chance: random.Random) -> None:
        self._host = host
        self._chance = chance
        self._links: dict[Pair, Link] = {}
        self._ones: dict[frozenset[Address], dict[str, object]] = {}  # by the two places of a link
        self._proxies: dict[Pair, list[Proxy]] = {}  # by wire
        self._beats: dict[Pair, _Beat] = {}
        self._divided: set[Pair] = set()  # links whose messages can be told apart
        self._recorder: asyncio.Server | None = None

    async def wire(
        self,
        opener: Address,
        listener: Address,
        target: HostPort,
        *,
        conversation: Conversation | None = None,
        at: HostPort | None = None,
    ) -> HostPort:
        """Create a proxy to `listener` at address `target`; returns the address that `opener` has to use instead.

        It listens `at` this address, or at a free port of the run's own. HarnessError if the port is taken.
        """
        outward, back = (opener, listener), (listener, opener)
        proxy = Proxy(self._link_of(outward), self._link_of(back), target, conversation=conversation)
        self._divided.update((outward, back) if conversation is not None else ())
        host, port_wanted = at or (self._host, 0)
        try:
            port = await proxy.listen(host, port_wanted)
        except OSError as error:
            raise HarnessError(
                f"the proxy from {opener} to {listener} cannot listen at {host}:{port_wanted}: {error.strerror}"
            ) from error
        self._proxies.setdefault((opener, listener), []).append(proxy)
        if (opener, listener) not in self._beats:
            await self._add_beat(opener, listener)
        return host, port

    async def set(self, conditions: Mapping[Pair, LinkCondition]) -> Probe:
        """Apply these network faults to their links; other links keep theirs. HarnessError for a link without a proxy."""
        self._proxied(conditions)
        for pair, condition in conditions.items():
            if (condition.held_kinds or condition.picks) and pair not in self._divided:
                raise HarnessError(f"no proxy tells messages from {pair[0]} to {pair[1]} apart")
        for pair, condition in conditions.items():
            self._link_of(pair).set(condition)

        async def probe() -> Proof:
            proofs = await asyncio.gather(*(self._prove_condition(pair, condition) for pair, condition in conditions.items()))
            wrong = [proof.detail for proof in proofs if not proof.holds]
            return Proof(not wrong, "; ".join(wrong or _few([proof.detail for proof in proofs])))

        return probe

    async def reset(self, pairs: Iterable[Pair]) -> int:
        """Reset the TCP connections over these links; returns their number. HarnessError for a link without a proxy."""
        total = 0
        wires = {wire: None for source, target in self._proxied(pairs) for wire in ((source, target), (target, source))}
        for wire in wires:
            total += sum(proxy.reset() for proxy in self._proxies.get(wire, ()))
        return total

    def counts(self) -> Mapping[Pair, int]:
        """How many reads or messages were held or delayed on each link."""
        return {pair: link.hits for pair, link in self._links.items()}

    def picked(self, window: str) -> Picked:
        """What an open window has picked so far, on all links."""
        pickers = [link.pickers[window] for link in self._links.values() if window in link.pickers]
        return Picked(sum(picker.hits for picker in pickers), sum(picker.orphans for picker in pickers))

    def faulty(self) -> Pair | None:
        """The first link that still has a fault; None if there is none."""
        return next((pair for pair, link in self._links.items() if link.condition != JOINED), None)

    def begin_run(self) -> None:
        """Forget which connections the windows of an earlier run have chosen: windows of the next one may have their names."""
        for ones in self._ones.values():
            ones.clear()

    async def close(self) -> None:
        """Close all proxies and the connections through them."""
        for proxies in self._proxies.values():
            for proxy in proxies:
                await proxy.close()
        if self._recorder is not None:
            self._recorder.close()
        for beat in self._beats.values():
            await beat.close()

    def _proxied(self, pairs: Iterable[Pair]) -> list[Pair]:
        """The same links, checked. HarnessError if no proxy carries one of them: a fault would do nothing to it."""
        unproven = list(pairs)
        for pair in unproven:
            if pair not in self._links:
                raise HarnessError(f"no proxy carries the link from {pair[0]} to {pair[1]}")
        return unproven

    def _link_of(self, pair: Pair) -> Link:
        """One direction of a link, made on first use; both directions share the connections that windows have chosen."""
        if pair not in self._links:
            ones = self._ones.setdefault(frozenset(pair), {})
            self._links[pair] = Link(pair, random.Random(self._chance.getrandbits(64)), ones)
        return self._links[pair]

    # --- probes ------------------------------------------------------------------------------------------------------------

    async def _add_beat(self, opener: Address, listener: Address) -> None:
        """Open a connection over the proxies of this pair, on which probes are sent."""
        if self._recorder is None:
            self._recorder = await asyncio.get_running_loop().create_server(lambda: _Far(self._introduced), self._host, 0)
        recorder: HostPort = self._recorder.sockets[0].getsockname()[:2]
        proxy = Proxy(self._link_of((opener, listener)), self._link_of((listener, opener)), recorder, counted=False)
        port = await proxy.listen(self._host)
        self._beats[opener, listener] = beat = _Beat(len(self._beats), proxy, (self._host, port))
        await beat.stand(ARRIVES_S_MAX)

    def _introduced(self, number: int, far: "_Far") -> None:
        for beat in self._beats.values():
            if beat.number == number:
                beat.far_end(far)

    async def _prove_condition(self, pair: Pair, condition: LinkCondition) -> Proof:
        """Send probes over the link and compare what arrives with the condition."""
        source, target = pair
        name = f"{source}>{target}"
        beat = self._beats.get(pair)
        forward = beat is not None
        beat = beat or self._beats[target, source]
        if condition.held:
            back_ms = await beat.send(not forward, SILENT_S) if self._link_of((target, source)).condition == JOINED else None
            took_ms = await beat.send(forward, SILENT_S)
            backward = "" if back_ms is None else f", while {target}>{source} delivers in {back_ms} ms"
            if took_ms is None:
                return Proof(True, f"{name}: nothing arrived in {SILENT_S * 1000:.0f} ms{backward}")
            return Proof(False, f"{name}: a packet arrived after {took_ms} ms")
        if condition.delay_ms:
            took = [await beat.send(forward, condition.delay_ms / 1000 / BEATS + SILENT_S) for _ in range(BEATS)]
            slowest = max((ms for ms in took if ms is not None), default=condition.delay_ms)
            slowest = condition.delay_ms if None in took else slowest
            return Proof(slowest > LATE_MS_MIN, f"{name}: the slowest of {BEATS} packets took {slowest} ms or more")
        took_ms = await beat.send(forward, ARRIVES_S_MAX)
        if took_ms is None:
            return Proof(False, f"{name}: nothing arrived in {ARRIVES_S_MAX:.0f} s")
        return Proof(True, f"{name}: a packet arrived after {took_ms} ms")


def _few(details: list[str]) -> list[str]:
    return details if len(details) <= 2 else [*details[:2], f"{len(details) - 2} more links alike"]


class _End(asyncio.Protocol):
    """One end of the TCP connection over which probes of a link send words of 8 bytes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.awaited: dict[int, asyncio.Future[None]] = {}
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _WORD_BYTES:
            word, self._buffer = self._buffer[:_WORD_BYTES], self._buffer[_WORD_BYTES:]
            self.word(int.from_bytes(word, "big"))

    def word(self, word: int) -> None:
        """Take 8 bytes that the other end of a probe connection sent."""
        future = self.awaited.pop(word, None)
        if future is not None and not future.done():
            future.set_result(None)

    def send(self, word: int) -> None:
        """Send 8 bytes if the probe connection is open."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(word.to_bytes(_WORD_BYTES, "big"))

    @property
    def stands(self) -> bool:
        """Whether the probe connection is open."""
        return self.transport is not None and not self.transport.is_closing()


class _Far(_End):
    # The end at the harness's listener; the first word is the number of its wire.

    def __init__(self, introduced: Callable[[int, "_Far"], None]) -> None:
        super().__init__()
        self._introduced: Callable[[int, _Far], None] | None = introduced

    def word(self, word: int) -> None:
        """Take 8 bytes over a probe connection; the first tell which proxy the connection goes through."""
        if self._introduced is not None:
            introduced, self._introduced = self._introduced, None
            introduced(word, self)
        else:
            super().word(word)


class _Beat:
    """The TCP connection that stays open over one link, so that probes can measure the link's delay."""

    def __init__(self, number: int, proxy: Proxy, address: HostPort) -> None:
        self.number = number
        self._proxy = proxy
        self._where = address
        self._near = _End()
        self._far: _Far | None = None
        self._there = asyncio.Event()
        self._words = 0

    def far_end(self, far: _Far) -> None:
        """Called when the far end has accepted the probe connection."""
        self._far = far
        self._there.set()

    async def stand(self, timeout_s: float) -> bool:
        """Reopen the probe connection if it broke; returns whether it is open within `timeout_s`."""
        if not self._near.stands or self._far is None or not self._far.stands:
            self._there.clear()
            if self._near.transport is not None:
                self._near.transport.abort()
            self._near = _End()
            await asyncio.get_running_loop().create_connection(lambda: self._near, *self._where)
            self._near.send(self.number)
        try:
            await asyncio.wait_for(self._there.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def send(self, forward: bool, timeout_s: float) -> int | None:
        """Send 8 bytes through the proxy; returns the milliseconds until they arrived, None if not in time."""
        loop = asyncio.get_running_loop()
        if not await self.stand(timeout_s):
            return None
        assert self._far is not None
        self._words += 1
        word = self._words
        giver, taker = (self._near, self._far) if forward else (self._far, self._near)
        future = taker.awaited[word] = loop.create_future()
        began_s = loop.time()
        giver.send(word)
        try:
            await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            return None
        finally:
            taker.awaited.pop(word, None)
        return round((loop.time() - began_s) * 1000)

    async def close(self) -> None:
        """Abort the probe connection and close its proxy."""
        await self._proxy.close()
        for end in (self._near, self._far):
            if end is not None and end.transport is not None:
                end.transport.abort()
