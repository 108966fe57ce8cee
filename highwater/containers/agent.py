"""Faults of the network, done inside of one container's network by a process that has CAP_NET_ADMIN there and nothing else.

    python3 -I agent.py SOCKET

It runs on the standard library of the image alone. Each line on the Unix socket is a request as JSON, each answer a line:
{"ok": …} or {"error": "…"}. A fault has an id, and `clear` undoes it and says how many packets it hit:

    drop, lose     iptables; `lose` drops so many of 1000 packets
    delay, hold    packets are queued to this process (NFQUEUE) and let go in their order: late, or when the fault is cleared
    reset          connections with these peers are closed (ss -K), again and again
    rate           everything that leaves, by a token bucket (tc tbf)

`in` and `out` name the peers whose packets are meant, by address. Drops stand before delays: what one fault drops another does
not let through. Of several delays that meet one packet the one that began first counts; a hold goes before them.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import struct
import sys
from collections import deque
from typing import Any

_NETLINK_NETFILTER = 12
_QUEUE_SUBSYSTEM = 3 << 8
_PACKET, _VERDICT, _CONFIG = (_QUEUE_SUBSYSTEM | number for number in range(3))
_REQUEST, _ACKNOWLEDGED = 1, 4
_BIND, _UNBIND = 1, 2
_ACCEPT = 1
_COPY_META = 1
_QUEUED_PACKETS_MAX = 65_536  # beyond that the kernel drops, as a full buffer does
_DEVICE = "eth0"
_ANSWER_BYTES = 1 << 16


class Refused(Exception):  # noqa: N818 - what the caller reads
    """It could not be done; the text says why."""


async def run(*command: str, given: str = "") -> str:
    """What a command prints; Refused where it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, complaint = await process.communicate(given.encode())
    if process.returncode:
        raise Refused(f"{' '.join(command)}: {complaint.decode(errors='replace').strip()}")
    return output.decode(errors="replace")


class Queue:
    """Packets that the kernel hands over under one number, and lets go when it is told to. Their order stays."""

    def __init__(self, number: int, extra_ms: int | None) -> None:
        """`extra_ms`: let each go so much later at most, drawn; None keeps all until the end."""
        self.packets = 0
        self._number = number
        self._extra_ms = extra_ms
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, int]] = deque()  # when to let go, id
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
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def close(self) -> None:
        """Let everything go, in order, and take no more."""
        self._loop.remove_reader(self._socket.fileno())
        self._readable()
        if self._timer is not None:
            self._timer.cancel()
        for _, packet in self._waiting:
            self._let_go(packet)
        self._waiting.clear()
        self._socket.close()

    def _configure(self, attribute: int, value: bytes) -> None:
        self._send(_CONFIG, attribute, value, _REQUEST | _ACKNOWLEDGED)
        answer = self._socket.recv(_ANSWER_BYTES)
        (code,) = struct.unpack_from("=i", answer, 16)
        if code:
            raise Refused(f"the kernel takes no queue of packets: {os.strerror(-code)}")

    def _send(self, kind: int, attribute: int, value: bytes, flags: int) -> None:
        padded = value + bytes(-len(value) % 4)
        body = struct.pack(">BBH", socket.AF_UNSPEC, 0, self._number) + struct.pack("=HH", 4 + len(value), attribute) + padded
        self._socket.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body)

    def _let_go(self, packet: int) -> None:
        with contextlib.suppress(OSError):  # a connection that was reset took it along
            self._send(_VERDICT, 2, struct.pack(">II", _ACCEPT, packet), _REQUEST)

    def _readable(self) -> None:
        while True:
            try:
                data = self._socket.recv(_ANSWER_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # ENOBUFS: the kernel dropped some
            at = 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _PACKET:
                    self._queued(data[at + 20 : at + length])
                at += (length + 3) & ~3

    def _queued(self, attributes: bytes) -> None:
        at = 0
        while at + 4 <= len(attributes):
            length, kind = struct.unpack_from("=HH", attributes, at)
            if kind & 0x7FFF == 1:
                (packet,) = struct.unpack_from(">I", attributes, at + 4)
                self.packets += 1
                self._keep(packet)
            at += (max(length, 4) + 3) & ~3

    def _keep(self, packet: int) -> None:
        if self._extra_ms is None:
            self._waiting.append((0.0, packet))
            return
        self._last = max(self._last, self._loop.time() + random.uniform(0, self._extra_ms) / 1000)
        self._waiting.append((self._last, packet))
        if self._timer is None:
            self._timer = self._loop.call_at(self._last, self._due)

    def _due(self) -> None:
        self._timer = None
        while self._waiting and self._waiting[0][0] <= self._loop.time() + 0.0005:
            self._let_go(self._waiting.popleft()[1])
        if self._waiting:
            self._timer = self._loop.call_at(self._waiting[0][0], self._due)


class Fault:
    """One that is in effect: the chains it has, its queue, its repeated resets."""

    def __init__(self, number: int, table: str) -> None:
        self.table = table
        self.chains = {"INPUT": f"fault{number}-in", "OUTPUT": f"fault{number}-out"}
        self.queue: Queue | None = None
        self.resets: asyncio.Task[None] | None = None
        self.closed = 0  # connections


class Agent:
    """All faults of one network."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}
        self._number = 0

    async def handle(self, request: dict[str, Any]) -> Any:
        """One request. Refused where it cannot be done, or is none."""
        match request:
            case {"do": "drop", "id": str(fault)}:
                return await self._rules(fault, request, "filter", ["-j", "DROP"])
            case {"do": "lose", "id": str(fault), "per_mille": int(share)}:
                chance = ["-m", "statistic", "--mode", "random", "--probability", f"{share / 1000}"]
                return await self._rules(fault, request, "filter", [*chance, "-j", "DROP"])
            case {"do": "delay", "id": str(fault), "extra_ms": int(extra_ms)}:
                return await self._queue(fault, request, extra_ms)
            case {"do": "hold", "id": str(fault)}:
                return await self._queue(fault, request, None)
            case {"do": "reset", "id": str(fault), "peers": list(peers), "period_ms": int(period_ms)}:
                return self._resets(fault, peers, period_ms)
            case {"do": "clear", "id": str(fault)}:
                return await self._clear(fault)
            case {"do": "packets", "id": str(fault)}:
                return await self._packets(self._faults[fault]) if fault in self._faults else 0
            case {"do": "rate", "kbit": int(kbit)}:
                return await _rate(kbit)
            case {"do": "probe", "host": str(host), "port": int(port), "timeout_ms": int(timeout_ms)}:
                return await _probe(host, port, timeout_ms)
            case {"do": "cannot"}:
                return await self._cannot()
            case _:
                raise Refused(f"no such request: {request}")

    async def _rules(self, fault: str, request: dict[str, Any], table: str, action: list[str]) -> None:
        if fault in self._faults:
            raise Refused(f"there is a fault {fault} already")
        self._number += 1
        made = Fault(self._number, table)
        into, out = made.chains["INPUT"], made.chains["OUTPUT"]
        # A chain before those that are there, so that a hold goes before delays; a delay goes behind them.
        place = "-A" if "extra_ms" in request else "-I"
        lines = [f"*{table}", f":{into} - [0:0]", f":{out} - [0:0]"]
        lines += [" ".join(["-A", into, "-s", peer, *action]) for peer in request.get("in", ())]
        lines += [" ".join(["-A", out, "-d", peer, *action]) for peer in request.get("out", ())]
        lines += [f"{place} {builtin} -j {chain}" for builtin, chain in made.chains.items()]
        await run("iptables-restore", "--noflush", given="\n".join([*lines, "COMMIT", ""]))
        self._faults[fault] = made

    async def _queue(self, fault: str, request: dict[str, Any], extra_ms: int | None) -> None:
        queue = Queue(self._number + 1, extra_ms)
        try:
            await self._rules(fault, request, "mangle", ["-j", "NFQUEUE", "--queue-num", str(self._number + 1)])
        except BaseException:
            queue.close()
            raise
        self._faults[fault].queue = queue

    def _resets(self, fault: str, peers: list[str], period_ms: int) -> None:
        if fault in self._faults:
            raise Refused(f"there is a fault {fault} already")
        self._number += 1
        made = self._faults[fault] = Fault(self._number, "")

        async def again_and_again() -> None:
            while True:
                made.closed += await _reset(peers)
                await asyncio.sleep(period_ms / 1000)

        made.resets = asyncio.create_task(again_and_again())

    async def _clear(self, fault: str) -> int:
        made = self._faults.pop(fault, None)
        if made is None:
            return 0
        if made.resets is not None:
            made.resets.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await made.resets
            return made.closed
        hit = await self._packets(made)
        lines = [f"*{made.table}", *(f"-D {builtin} -j {chain}" for builtin, chain in made.chains.items())]
        lines += [f"-F {chain}" for chain in made.chains.values()] + [f"-X {chain}" for chain in made.chains.values()]
        await run("iptables-restore", "--noflush", given="\n".join([*lines, "COMMIT", ""]))
        if made.queue is not None:
            made.queue.close()
        return hit

    async def _packets(self, fault: Fault) -> int:
        """How many it has hit so far; of resets, how many connections."""
        if fault.resets is not None:
            return fault.closed
        if fault.queue is not None:
            return fault.queue.packets
        listed = [await run("iptables", "-t", fault.table, "-nvxL", chain) for chain in fault.chains.values()]
        return sum(int(line.split()[0]) for text in listed for line in text.splitlines()[2:] if line.strip())

    async def _cannot(self) -> dict[str, str]:
        """What the kernel does not let us do here, with the reason: each is tried on an address of nobody."""
        nobody = {"in": ["192.0.2.1"], "out": ["192.0.2.1"], "id": "try"}
        tries: tuple[dict[str, Any], ...] = (
            {"do": "drop", **nobody},
            {"do": "lose", "per_mille": 1, **nobody},
            {"do": "delay", "extra_ms": 1, **nobody},
            {"do": "hold", **nobody},
        )
        found = {}
        for request in tries:
            try:
                await self.handle(request)
                await self._clear("try")
            except Refused as error:
                found[str(request["do"])] = str(error)
        try:
            await _reset_of_oneself()
        except Refused as error:
            found["reset"] = str(error)
        try:
            await _rate(1_000_000)
            await _rate(0)
        except Refused as error:
            found["rate"] = str(error)
        return found


async def _reset(peers: list[str]) -> int:
    """Close the TCP connections with these peers; how many there were."""
    found = 0
    for peer in peers:
        listed = await run("ss", "-KHtn", "state", "connected", "dst", peer)
        found += len(listed.splitlines())
    return found


async def _reset_of_oneself() -> None:
    """ss prints what it could not close as well: see whether a connection of our own is closed."""
    server = await asyncio.start_server(lambda _, writer: None, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await run("ss", "-KHtn", "dst", "127.0.0.1")
        try:
            await asyncio.wait_for(reader.read(1), 0.5)
        except TimeoutError:
            raise Refused("the kernel closes no connections for ss -K (INET_DIAG_DESTROY)") from None
        except OSError:
            return
        finally:
            writer.close()


async def _rate(kbit: int) -> None:
    """At most so much leaves; 0 lifts it."""
    if kbit:
        await run("tc", "qdisc", "replace", "dev", _DEVICE, "root", "tbf", *f"rate {kbit}kbit burst 16kb latency 400ms".split())
    else:
        with contextlib.suppress(Refused):  # there is none
            await run("tc", "qdisc", "del", "dev", _DEVICE, "root")


async def _probe(host: str, port: int, timeout_ms: int) -> dict[str, Any]:
    """Connect: in how many ms, or why not."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), timeout_ms / 1000)
    except TimeoutError:
        return {"failed": "timed out"}
    except OSError as error:
        return {"failed": os.strerror(error.errno) if error.errno else str(error)}
    writer.close()
    return {"ms": round((loop.time() - began) * 1000, 3)}


async def serve(path: str) -> None:
    """Answer requests until the process is killed."""
    agent = Agent()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            try:
                answer = {"ok": await agent.handle(json.loads(line))}
            except (Refused, ValueError, TypeError, OSError) as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        writer.close()

    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    server = await asyncio.start_unix_server(connected, path)
    os.chmod(path, 0o666)  # the harness need not be root
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
