"""The network between containers: agents apply faults to it, and probe datagrams measure whether the faults act.

Every broker and ZooKeeper server has a network namespace with an agent (`agent`). The agent at the receiving end applies the
faults of a link. A link to the clients is an exception: its faults are applied at the sending end, because clients run in the
harness, on this machine, which a container sees as its gateway. The harness reaches containers over another network that no rule
names.
"""

import asyncio
import itertools
import random
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from highwater.backends.real.containers.agent import PROBE_PORT, Probes
from highwater.backends.real.processes.link import Link
from highwater.backends.real.processes.proxy import Conversation, Proxy
from highwater.backends.real.site import CLIENTS, HostPort, LinkCondition, Pair, Picked, Probe, Proof
from highwater.errors import HarnessError
from reference.types import Address

COUNT_S = 0.1  # between two queries of the agents' counters, while any fault holds
PROBES = 20  # datagrams over a link without loss
LOST_ONCE_IN = 7000  # with loss: datagrams times loss_per_mille, so that all of them pass only once in e^7 times
HEARD_MS = 500.0  # a datagram that has not come by then counts as held or lost
JOINED_MS = 5000.0  # for a link where all should come: an agent that waits for the processor reads them one by one
OPEN_S_MAX = 20.0
ASK_S_MAX = 20.0
_LINE_BYTES_MAX = 1 << 20


class AgentClient:
    """Sends requests to one container's network agent over a Unix socket, one at a time."""

    def __init__(self, socket: Path, place: Address) -> None:
        self._socket = socket
        self._place = place
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> None:
        """Connect to the agent's Unix socket, waiting up to OPEN_S_MAX for it. HarnessError if it does not appear."""
        try:
            async with asyncio.timeout(OPEN_S_MAX):
                while self._streams is None:
                    try:
                        self._streams = await asyncio.open_unix_connection(str(self._socket), limit=_LINE_BYTES_MAX)
                    except (FileNotFoundError, ConnectionRefusedError):
                        await asyncio.sleep(0.02)
        except TimeoutError:
            raise HarnessError(f"the agent of {self._place} did not open {self._socket} within {OPEN_S_MAX:.0f} s") from None

    async def ask(self, **request: Any) -> Any:
        """Send the network agent a request; returns the answer. HarnessError if it fails or does not answer."""
        try:
            async with self._turn, asyncio.timeout(ASK_S_MAX):
                answer = msgspec.json.decode(await self._line(msgspec.json.encode(request) + b"\n"))
        except (OSError, TimeoutError, msgspec.DecodeError) as error:
            raise HarnessError(
                f"the agent of {self._place} does not answer {request.get('do')!r}: {str(error) or 'timeout'}"
            ) from error
        if "error" in answer:
            raise HarnessError(f"the agent of {self._place}: {answer['error']}")
        return answer["ok"]

    async def _line(self, request: bytes) -> bytes:
        """One request and answer. After an error the connection is dropped, for its next line would answer the old request."""
        if self._streams is None:
            await self.open()
        assert self._streams is not None
        reader, writer = self._streams
        try:
            writer.write(request)
            return await reader.readline()
        except BaseException:
            self._streams = None
            writer.close()
            raise

    async def tcp_socket(self, listening_at: HostPort | None = None) -> socket.socket:
        """A TCP socket of the container's network: one that listens at this address, or one that is not connected yet."""
        return await asyncio.to_thread(self._socket_of_agent, listening_at)

    def _socket_of_agent(self, address: HostPort | None) -> socket.socket:
        """A socket that the agent made within the container's network, connected to `address` if it is given."""
        try:
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(ASK_S_MAX)
                asking.connect(f"{self._socket}.sockets")
                asking.sendall(msgspec.json.encode(address) + b"\n")
                _, handed, _, _ = socket.recv_fds(asking, 1, 1)
        except OSError as error:
            raise HarnessError(f"the agent of {self._place} hands over no socket: {error}") from error
        if not handed:
            raise HarnessError(f"the agent of {self._place} cannot make a socket for {address}")
        handed_socket = socket.socket(fileno=handed[0])
        handed_socket.setblocking(False)
        return handed_socket

    async def close(self) -> None:
        """Close the connection to the network agent."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            with suppress(OSError):
                await streams[1].wait_closed()


class ContainerLinks:
    """The network between all brokers, ZooKeeper servers and clients of a run in containers."""

    def __init__(self) -> None:
        self._agents: dict[Address, AgentClient] = {}
        self._addresses: dict[Address, str] = {}
        self._place_at: dict[str, Address] = {}
        self._me = time.monotonic_ns()  # tells our probe tokens from earlier ones: agents may outlive a ContainerLinks
        self._tokens = itertools.count(1)
        self._clients = Probes()
        self._socket: asyncio.DatagramTransport | None = None
        self._port = 0
        self._counts: dict[Pair, int] = {}
        self._at_work: dict[Pair, LinkCondition] = {}
        self._counting: asyncio.Task[None] | None = None
        self._proxied: dict[Pair, Link] = {}
        self._proxies: list[Proxy] = []

    async def open(self, addresses: Mapping[Address, str], agents: Mapping[Address, AgentClient]) -> None:
        """Connect to the network agents of all containers, given their addresses in the run's network."""
        self._addresses = dict(addresses)
        self._place_at = {address: place for place, address in addresses.items()}
        self._agents = dict(agents)
        loop = asyncio.get_running_loop()
        self._socket, _ = await loop.create_datagram_endpoint(lambda: self._clients, (addresses[CLIENTS], 0))
        self._port = self._socket.get_extra_info("sockname")[1]

    async def wire(
        self, opener: Address, listener: Address, target: HostPort, *, at: HostPort, conversation: Conversation | None = None
    ) -> None:
        """Create a proxy in the opener's network, which can tell the messages of a conversation apart and hold some kinds back.

        It listens `at` this address and connects to `target` from the opener's own address, so that all other faults act on its
        packets as they would without a proxy.
        """
        for pair in ((opener, listener), (listener, opener)):
            self._proxied.setdefault(pair, Link(pair, random.Random()))
        outward, back = self._proxied[opener, listener], self._proxied[listener, opener]
        agent = self._agents[opener]
        proxy = Proxy(outward, back, target, conversation=conversation, sockets=agent.tcp_socket)
        await proxy.listen_on(await agent.tcp_socket(at))
        self._proxies.append(proxy)

    async def close(self) -> None:
        """Close all proxies and the connections to all network agents."""
        for proxy in self._proxies:
            await proxy.close()
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)  # `set` and `reset` report errors of the agents
        if self._socket is not None:
            self._socket.close()
        for agent in self._agents.values():
            await agent.close()

    async def set(self, conditions: Mapping[Pair, LinkCondition]) -> Probe:
        """Apply these network faults to their links; other links keep theirs."""
        by_agent: dict[Address, list[dict[str, Any]]] = {}
        for pair, condition in conditions.items():
            if condition.held_kinds and pair not in self._proxied:
                raise HarnessError(f"no proxy tells messages from {pair[0]} to {pair[1]} apart")
            if pair in self._proxied:
                self._proxied[pair].set(LinkCondition(held_kinds=condition.held_kinds))
        conditions = {pair: replace(condition, held_kinds=()) for pair, condition in conditions.items()}
        for (source, target), condition in conditions.items():
            ruler, direction, peer = (source, "out", target) if target == CLIENTS else (target, "in", source)
            rule = {"direction": direction, "peer": self._addresses[peer], **_rule(condition)}
            by_agent.setdefault(ruler, []).append(rule)
        await asyncio.gather(*(self._agents[ruler].ask(do="set", links=links) for ruler, links in by_agent.items()))
        # Counters are not queried while no fault holds. Query them now, or past hits would later count as hits of this fault.
        await asyncio.gather(*(self._take_counts(ruler) for ruler in by_agent))
        for pair, condition in conditions.items():
            self._at_work.pop(pair, None)
            if condition != LinkCondition():
                self._at_work[pair] = condition
        if self._at_work and (self._counting is None or self._counting.done()):
            self._counting = asyncio.get_running_loop().create_task(self._count())
        return lambda: self._look(dict(conditions))

    async def reset(self, pairs: Iterable[Pair]) -> int:
        """Reset the TCP connections over these links, whichever end opened them; returns their number."""
        # One end is enough: of each pair the smaller name, which is a broker's ("b1" < "c" < "z1").
        pairs_to_reset = dict.fromkeys((min(pair), max(pair)) for pair in pairs)
        resets = (self._agents[ruler].ask(do="reset", peers=[self._addresses[peer]]) for ruler, peer in pairs_to_reset)
        closed: list[int] = await asyncio.gather(*resets)
        return sum(closed)

    def counts(self) -> Mapping[Pair, int]:
        """How many packets a fault hit on each link, as of the last query of the agents, and how many messages were held."""
        hits = {pair: link.hits for pair, link in self._proxied.items()}
        return {pair: self._counts.get(pair, 0) + hits.get(pair, 0) for pair in {**self._counts, **hits}}

    def picked(self, window: str) -> Picked:
        """Nothing: faults that pick messages are refused before the run."""
        return Picked()

    # --- evidence ----------------------------------------------------------------------------------------------------------

    async def _count(self) -> None:
        while self._at_work:
            await asyncio.sleep(COUNT_S)
            for place in sorted({target if target != CLIENTS else source for source, target in self._at_work}):
                await self._take_counts(place)

    async def _take_counts(self, place: Address) -> None:
        for direction, peer, hits in await self._agents[place].ask(do="counts"):
            other = self._place_at[peer]
            self._counts[(other, place) if direction == "in" else (place, other)] = hits

    async def _look(self, conditions: Mapping[Pair, LinkCondition]) -> Proof:
        """Measure each link; one that does not behave is shown before the others."""
        proofs = await asyncio.gather(*(self._look_at(pair, condition) for pair, condition in conditions.items()))
        wrong = [proof for proof in proofs if not proof.holds]
        examples = wrong or proofs[:1]
        others = len(proofs) - 1 if not wrong else len(wrong) - 1
        text = "; ".join(proof.detail for proof in examples[:1]) + (f" (and {others} other links alike)" if others else "")
        return Proof(not wrong, text)

    async def _look_at(self, pair: Pair, condition: LinkCondition) -> Proof:
        """Send probe datagrams from one end of a link, and ask the other end which of them came."""
        source, target = pair
        token = f"{self._me}-{next(self._tokens)}"
        lost = condition.loss_per_mille and not condition.held
        sent = max(PROBES, LOST_ONCE_IN // condition.loss_per_mille) if lost else PROBES
        await self._send(source, target, token, sent)
        patience_ms = condition.delay_ms + (HEARD_MS if condition.held or lost else JOINED_MS)
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_ms / 1000
        while True:
            reply = await self._heard(target, token)
            if loop.time() > end or (reply["count"] == sent and not condition.held and not lost):
                break
            await asyncio.sleep(0.02)
        return _proof_of(f"{source}>{target}", condition, sent, reply["count"], reply["ms_max"])

    async def _send(self, source: Address, target: Address, token: str, count: int) -> None:
        """Send probe datagrams from one node to another, by the agent or from the harness."""
        if source == CLIENTS:
            await self._clients.send((self._addresses[target], PROBE_PORT), token, count)
            return
        port = PROBE_PORT
        if target == CLIENTS:
            # A firewall of this machine may admit only answers, so send a datagram to the source first.
            await self._clients.send((self._addresses[source], PROBE_PORT), f"{token}-hello", 1)
            port = self._port
        await self._agents[source].ask(do="send", to=self._addresses[target], port=port, token=token, count=count)

    async def _heard(self, target: Address, token: str) -> dict[str, Any]:
        if target == CLIENTS:
            return self._clients.heard(token)
        reply: dict[str, Any] = await self._agents[target].ask(do="heard", token=token)
        return reply


def _rule(condition: LinkCondition) -> dict[str, Any]:
    """A condition as an agent takes it, which refuses fields that it does not know: all but what a proxy does."""
    return {name: value for name, value in msgspec.structs.asdict(condition).items() if name not in ("held_kinds", "picks")}


def _proof_of(link: str, condition: LinkCondition, sent: int, arrived: int, ms_max: float) -> Proof:
    """Whether the datagrams that came prove the link's condition."""
    slowest = f", the slowest in {ms_max:.1f} ms" if arrived else ""
    detail = f"{link}: {arrived} of {sent} datagrams came{slowest}"
    if condition.held:
        return Proof(arrived == 0, detail)
    if condition.loss_per_mille:
        return Proof(arrived < sent, detail)
    if condition.delay_ms:
        # All PROBES draws between 0 and the delay fall into the lowest quarter less than once in 10^12 times.
        return Proof(arrived > 0 and ms_max >= condition.delay_ms / 4, detail)
    return Proof(arrived == sent, detail)
