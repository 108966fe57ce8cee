"""The network agent: applies faults inside one container's network; the only process there with CAP_NET_ADMIN.

    python3 -I agent.py SOCKET

It uses the standard library alone. Each line on the Unix socket is a request in JSON, each answer a line: {"ok": …} or
{"error": "…"}.

    set       set the state of links, each given by a direction ("in", "out") and the peer's address:
              held      drop every packet (iptables)
              loss_per_mille   drop so many of a thousand packets at random (iptables)
              delay_ms  queue packets to this process (NFQUEUE) and release them in order, each up to so much later
    counts    how many packets the faults of each link have hit since the start
    reset     close the connections with these peers (ss -K); answers their number
    send, heard   send probe datagrams to another place's agent; how many of a token came here, and how late
    cannot    the features that the kernel refuses, each with the reason

On the socket SOCKET.sockets each connection asks for one TCP socket of this network, which is handed over: with [HOST, PORT] one
that listens there, with null one that is not connected yet. The harness runs proxies on them.

A packet that is to be both delayed and dropped is delayed first: the queues are in the table mangle, which precedes filter.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import struct
import sys
import time
from collections import deque
from typing import Any

_NETLINK_NETFILTER = 12
_QUEUE_SUBSYSTEM = 3 << 8
_PACKET, _VERDICT, _CONFIG = (_QUEUE_SUBSYSTEM | number for number in range(3))
_REQUEST, _ACKNOWLEDGED = 1, 4
_BIND, _UNBIND = 1, 2
_ACCEPT = 1
_COPY_META = 1
_QUEUED_PACKETS_MAX = 65_536  # the kernel drops more than these
_ANSWER_BYTES = 1 << 16
PROBE_PORT = 7007
_PROBE_GAP_S = 0.002
_HEARD_MAX = 100  # probe tokens that are remembered; then the oldest is dropped
_RULE = {"direction", "peer", "held", "loss_per_mille", "delay_ms"}
_NOBODY = "192.0.2.1"  # reserved for documentation (RFC 5737), so no peer has it


class Refused(Exception):  # noqa: N818 - named for the reader of `except Refused`
    """A request to the network agent failed; the text says why."""


async def run(*command: str, stdin: str = "") -> str:
    """Run a command in the container; returns its output. Raises Refused if it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, complaint = await process.communicate(stdin.encode())
    if process.returncode:
        raise Refused(f"{' '.join(command)}: {complaint.decode(errors='replace').strip()}")
    return output.decode(errors="replace")


class Queue:
    """One NFQUEUE: the kernel hands packets over, the agent delays them and releases each. Packets keep their order."""

    def __init__(self, number: int, delay_ms: int) -> None:
        self.number = number
        self.packets = 0
        self.delay_ms = delay_ms
        self._loop = asyncio.get_running_loop()
        self._packets_waiting: deque[tuple[float, int]] = deque()  # release time, packet id
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._socket.bind((0, 0))
        try:
            self._configure(1, struct.pack(">BBH", _BIND, 0, socket.AF_INET))
            self._configure(2, struct.pack(">IB", 0, _COPY_META))
            self._configure(3, struct.pack(">I", _QUEUED_PACKETS_MAX))
        except BaseException:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._take_packets)

    def close(self) -> None:
        """Release all waiting packets in order and close the NFQUEUE."""
        self._loop.remove_reader(self._socket.fileno())
        self._take_packets()
        if self._timer is not None:
            self._timer.cancel()
        for _, packet in self._packets_waiting:
            self._let_go(packet)
        self._packets_waiting.clear()
        self._socket.close()

    def _configure(self, attribute: int, value: bytes) -> None:
        """Send one setting of the queue to the kernel. Raises Refused with its error."""
        self._send(_CONFIG, attribute, value, _REQUEST | _ACKNOWLEDGED)
        answer = self._socket.recv(_ANSWER_BYTES)
        (code,) = struct.unpack_from("=i", answer, 16)
        if code:
            raise Refused(f"the kernel refuses a packet queue (nfnetlink_queue): {os.strerror(-code)}")

    def _send(self, kind: int, attribute: int, value: bytes, flags: int) -> None:
        padded = value + bytes(-len(value) % 4)
        body = struct.pack(">BBH", socket.AF_UNSPEC, 0, self.number) + struct.pack("=HH", 4 + len(value), attribute) + padded
        self._socket.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body)

    def _let_go(self, packet: int) -> None:
        with contextlib.suppress(OSError):  # the packet may be gone, as after the reset of its connection
            self._send(_VERDICT, 2, struct.pack(">II", _ACCEPT, packet), _REQUEST)

    def _take_packets(self) -> None:
        """Take every packet that the kernel has queued."""
        while True:
            try:
                data = self._socket.recv(_ANSWER_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # ENOBUFS: the kernel dropped some packets
            at = 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _PACKET:
                    self._take_packet(data[at + 20 : at + length])
                at += (length + 3) & ~3

    def _take_packet(self, attributes: bytes) -> None:
        """Find the packet's id among the attributes of the message, and keep the packet for the delay."""
        at = 0
        while at + 4 <= len(attributes):
            length, kind = struct.unpack_from("=HH", attributes, at)
            if kind & 0x7FFF == 1:
                (packet,) = struct.unpack_from(">I", attributes, at + 4)
                self.packets += 1
                self._keep(packet)
            at += (max(length, 4) + 3) & ~3

    def _keep(self, packet: int) -> None:
        self._last = max(self._last, self._loop.time() + random.uniform(0, self.delay_ms) / 1000)
        self._packets_waiting.append((self._last, packet))
        if self._timer is None:
            self._timer = self._loop.call_at(self._last, self._let_go_due)

    def _let_go_due(self) -> None:
        """Let the packets go whose delay is over, and wait for the next."""
        self._timer = None
        while self._packets_waiting and self._packets_waiting[0][0] <= self._loop.time() + 0.0005:
            self._let_go(self._packets_waiting.popleft()[1])
        if self._packets_waiting:
            self._timer = self._loop.call_at(self._packets_waiting[0][0], self._let_go_due)


class Link:
    """The traffic from one peer to this container ("in") or from this container to one peer ("out")."""

    def __init__(self) -> None:
        self.held = False
        self.loss_per_mille = 0
        self.queue: Queue | None = None
        self.hit = 0  # packets hit by earlier rules and queues

    def rules(self, chain: str, match: str) -> list[str]:
        """The iptables rules (table filter) that the link's fault needs."""
        if self.held:
            return [f"-A {chain} {match} -j DROP"]
        if self.loss_per_mille:
            return [f"-A {chain} {match} -m statistic --mode random --probability {self.loss_per_mille / 1000} -j DROP"]
        return []


class Agent:
    """The links of one container's network, and the requests of the harness about them."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], Link] = {}
        self._queues = 0
        self._at_work = asyncio.Lock()
        self._probes = Probes()

    async def open(self) -> None:
        """Create the iptables chains of the agent, and its socket for probe datagrams."""
        await self._write()
        for table in ("filter", "mangle"):
            lines = [f"*{table}", "-I INPUT -j links-in", "-I OUTPUT -j links-out", "COMMIT", ""]
            await run("iptables-restore", "--noflush", stdin="\n".join(lines))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self._probes, ("0.0.0.0", PROBE_PORT))

    async def handle(self, request: dict[str, Any]) -> Any:
        """Perform a request of the harness; returns the answer. Raises Refused if it fails or is unknown."""
        match request:
            case {"do": "set", "links": list(links)}:
                async with self._at_work:
                    return await self._set(links)
            case {"do": "counts"}:
                async with self._at_work:
                    await self._count()
                return [[*key, self._hits(link)] for key, link in self._links.items()]
            case {"do": "reset", "peers": list(peers)}:
                return await _reset(peers)
            case {"do": "send", "to": str(host), "port": int(port), "token": str(token), "count": int(count)}:
                return await self._probes.send((host, port), token, count)
            case {"do": "heard", "token": str(token)}:
                return self._probes.heard(token)
            case {"do": "cannot"}:
                return await self._refused_features()
            case _:
                raise Refused(f"no such request: {request}")

    def _hits(self, link: Link) -> int:
        return link.hit + (0 if link.queue is None else link.queue.packets)

    async def _set(self, links: list[dict[str, Any]]) -> None:
        """Set what each link does: hold packets, lose a part of them, delay them."""
        await self._count()
        done: list[Queue] = []
        for rule in links:
            if rule.keys() != _RULE:
                raise Refused(f"a link is set by {', '.join(sorted(_RULE))}, not by {', '.join(sorted(rule))}")
        for rule in links:
            link = self._links.setdefault((rule["direction"], rule["peer"]), Link())
            link.held = bool(rule["held"])
            link.loss_per_mille = int(rule["loss_per_mille"])
            delay_ms = int(rule["delay_ms"])
            if link.queue is not None and delay_ms:
                link.queue.delay_ms = delay_ms
            elif link.queue is not None:
                done.append(link.queue)
                link.hit += link.queue.packets
                link.queue = None
            elif delay_ms:
                self._queues += 1
                link.queue = Queue(self._queues, delay_ms)
        await self._write()
        for queue in done:  # closed last, once no rule refers to it
            queue.close()

    async def _write(self) -> None:
        """Replace all iptables rules that the faults need, each table in one transaction."""
        for table in ("filter", "mangle"):
            lines = [f"*{table}", ":links-in - [0:0]", ":links-out - [0:0]"]
            for (direction, peer), link in self._links.items():
                chain, match = f"links-{direction}", f"{'-s' if direction == 'in' else '-d'} {peer}"
                if table == "filter":
                    lines += link.rules(chain, match)
                elif link.queue is not None:
                    lines.append(f"-A {chain} {match} -j NFQUEUE --queue-num {link.queue.number}")
            await run("iptables-restore", "--noflush", stdin="\n".join([*lines, "COMMIT", ""]))

    async def _count(self) -> None:
        """Add the counters of the drop rules to the links' hits and set them to 0."""
        if not any(link.held or link.loss_per_mille for link in self._links.values()):
            return
        for direction, column in (("in", 7), ("out", 8)):
            # One command lists the counters and zeroes them; a packet that comes in between is not counted.
            for line in (await run("iptables", "-nvxL", f"links-{direction}", "-Z")).splitlines():
                words = line.split()
                if len(words) > column and words[0].isdecimal():
                    self._links[direction, words[column]].hit += int(words[0])

    async def _refused_features(self) -> dict[str, str]:
        """Try each feature on an address without a host; returns the refused ones with the reasons."""
        reasons = {}
        nothing = {"direction": "in", "peer": _NOBODY, "held": False, "loss_per_mille": 0, "delay_ms": 0}
        for name, value in (("held", True), ("loss_per_mille", 1), ("delay_ms", 1)):
            try:
                await self._set([nothing | {name: value}])
                await self._set([nothing])
            except Refused as error:
                reasons[name] = str(error)
                self._links.clear()
        self._links.pop(("in", _NOBODY), None)
        try:
            await _reset_of_oneself()
        except Refused as error:
            reasons["reset"] = str(error)
        return reasons


class Probes(asyncio.DatagramProtocol):
    """Sends probe datagrams to other containers, and records which came and how late, to prove network faults."""

    def __init__(self) -> None:
        self._transport: asyncio.DatagramTransport | None = None
        self._delays_heard: dict[str, list[float]] = {}  # ms, by token

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: keep the transport of the socket for probe datagrams."""
        self._transport = transport  # type: ignore[assignment] # asyncio's own is no subclass of DatagramTransport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Record a probe datagram that came; its text is "token sent_ns"."""
        token, _, sent_ns = data.decode(errors="replace").partition(" ")
        if not sent_ns.isdecimal():
            return
        if token not in self._delays_heard and len(self._delays_heard) == _HEARD_MAX:
            del self._delays_heard[next(iter(self._delays_heard))]
        # All containers of one machine have one monotonic clock.
        self._delays_heard.setdefault(token, []).append((time.monotonic_ns() - int(sent_ns)) / 1e6)

    def error_received(self, exc: Exception) -> None:
        """Ignored: a probe datagram that cannot be sent does not arrive."""

    async def send(self, to: tuple[str, int], token: str, count: int) -> None:
        """Send `count` probe datagrams, one every _PROBE_GAP_S."""
        assert self._transport is not None
        for _ in range(count):
            self._transport.sendto(f"{token} {time.monotonic_ns()}".encode(), to)
            await asyncio.sleep(_PROBE_GAP_S)

    def heard(self, token: str) -> dict[str, Any]:
        """How many probe datagrams with this token came, and the slowest one's milliseconds."""
        times = self._delays_heard.get(token, [])
        return {"count": len(times), "ms_max": round(max(times, default=0.0), 3)}


async def _reset(peers: list[str]) -> int:
    """Close the TCP connections with these peers; returns their number."""
    closed = 0
    for peer in peers:
        listed = await run("ss", "-KHtn", "state", "connected", "dst", peer)
        closed += len(listed.splitlines())
    return closed


async def _reset_of_oneself() -> None:
    """Try `ss -K` on a connection of our own, as ss also lists connections that it cannot close. Raises Refused if it stays."""
    server = await asyncio.start_server(lambda _, writer: None, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await run("ss", "-KHtn", "dst", "127.0.0.1")
        try:
            await asyncio.wait_for(reader.read(1), 0.5)
        except TimeoutError:
            raise Refused("ss -K closes no connections: the kernel needs CONFIG_INET_DIAG_DESTROY") from None
        except OSError:
            return
        finally:
            writer.close()


async def hand_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Make the socket that a line asks for and pass it to the peer; close the connection without one if it cannot be made."""
    with contextlib.suppress(OSError), socket.socket() as inherited:
        where = json.loads(await reader.readline())
        if where is not None:
            inherited.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            inherited.bind(tuple(where))
            inherited.listen()
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as socket_copy:
            socket.send_fds(socket_copy, [b"."], [inherited.fileno()])
    writer.close()


async def serve(path: str) -> None:
    """Answer requests of the harness until the agent's process is killed."""
    agent = Agent()
    await agent.open()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            try:
                answer = {"ok": await agent.handle(json.loads(line))}
            except (Refused, KeyError, ValueError, TypeError, OSError) as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        writer.close()

    servers = []
    for name, callback in ((f"{path}.sockets", hand_over), (path, connected)):  # whoever finds the second can use the first
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        servers.append(await asyncio.start_unix_server(callback, name))
        os.chmod(name, 0o666)  # the harness need not be root
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
