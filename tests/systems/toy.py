"""A toy log over HTTP as a system under test: the worked example of docs/your-own-system.md.

One broker keeps one log in one file. `toy:careful` writes each record before it acknowledges it. `toy:eager` has a planted
mistake: it acknowledges while the record is in a buffer, so a kill loses what was acknowledged last.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from highwater.backends.real.node.plain import PlainNode, Prepared
from highwater.backends.real.node.runner import Launch, Runner
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.limits import refusal
from highwater.backends.real.systems.port import Wiring
from highwater.backends.real.systems.uncoordinated import Uncoordinated, state_of, tree_of
from highwater.plans.plan import Plan, system_of
from highwater.rig.attempts import Reply
from highwater.rig.scene import Scene
from history.manifest import Source
from nemesis.faults import AnyFault, Crash, Pause
from reference.client.calls import Call, EarliestCall, LatestCall, PollCall, Polled, ProduceCall
from reference.coordination.memory import MemoryZooKeeper
from reference.types import Address, BrokerId, LeaderEpoch, Offset, TopicPartition, broker_address

ONLY = BrokerId(1)


class Toy:
    """The system: one broker, no coordination, nothing to observe but the clients."""

    name = "toy"
    files: Mapping[str, str] = {}
    observes: frozenset[Source] = frozenset()
    zookeeper = quorum = idempotence = False
    packing = None  # it runs as a process only

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.version = system_of(plan).version

    def refuse(self) -> str | None:
        if [topic.partitions for topic in self._plan.cluster.topics] != [1] or self._plan.cluster.brokers != 1:
            return "the toy has one broker with one topic of one partition"
        return refusal(self._plan, "the toy", self.lacks)

    def lacks(self, fault: AnyFault) -> str | None:
        return None if isinstance(fault, Crash | Pause) else "it is a toy"

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> PlainNode:
        host, port = next(iter(wiring.doors.values()))

        def launch(prepared: Prepared) -> Launch:
            arguments = (host, str(port), str(prepared.log_dirs[0] / "log"), self.version)
            return Launch(command=(sys.executable, "-m", __name__, *arguments))

        return PlainNode(folder, broker_address(wiring.broker), runner, launch)

    def cluster(self, zookeeper: str, brokers: Mapping[Address, HostPort]) -> "Cluster":
        return Cluster(next(iter(brokers.values())))

    def client(self, name: Address, brokers: Mapping[Address, HostPort]) -> "Client":
        return Client(next(iter(brokers.values())), self._plan.workload.request_timeout_ms / 1000)


@dataclass
class Cluster(Uncoordinated):
    """The one broker always leads."""

    where: HostPort

    async def gathered(self) -> bool:
        return "end" in await asyncio.to_thread(answer_of, self.where, "/0", 1.0)

    async def create_topics(self, scene: Scene) -> None:
        """The one log is there from the start."""

    async def seen(self, tps: tuple[TopicPartition, ...]) -> MemoryZooKeeper:
        return tree_of(ONLY, (state_of(tp, ONLY) for tp in tps))


@dataclass
class Client:
    """Performs one call at a time. An answer that did not come is an error of unknown outcome."""

    where: HostPort
    timeout_s: float

    async def close(self) -> None:
        """Nothing is open between calls."""

    async def call(self, call: Call) -> Reply:
        body = json.dumps(call.values) if isinstance(call, ProduceCall) else None
        first = call.offset if isinstance(call, PollCall) else 0
        said = await asyncio.to_thread(answer_of, self.where, f"/{first}", self.timeout_s, body)
        if "end" not in said:
            return Reply(id=call.id, attempts=1, error="_TIMED_OUT")
        match call:
            case ProduceCall(values=values):
                return Reply(id=call.id, attempts=1, offsets=tuple(range(said["end"] - len(values), said["end"])))
            case PollCall(offset=start):
                records = tuple(Polled(Offset(start + at), v, LeaderEpoch(0)) for at, v in enumerate(said["records"]))
                return Reply(id=call.id, attempts=1, records=records)
            case LatestCall() | EarliestCall():
                return Reply(id=call.id, attempts=1, offset=said["end"] if isinstance(call, LatestCall) else 0)


def answer_of(address: HostPort, path: str, timeout_s: float, body: str | None = None) -> dict[str, Any]:
    """The broker's answer as JSON; empty if there was none."""
    try:
        with closing(HTTPConnection(*address, timeout=timeout_s)) as connection:
            connection.request("GET" if body is None else "POST", path, body)
            return dict(json.loads(connection.getresponse().read()))
    except (OSError, HTTPException, ValueError):
        return {}


def serve(host: str, port: str, path: str, version: str) -> None:
    """The broker: GET /OFFSET returns records from there on, POST / appends a list of values."""
    records = Path(path).read_text().splitlines() if Path(path).exists() else []
    buffering = 1 if version == "careful" else 1 << 20  # each line at once, or when the buffer is full
    file, lock = Path(path).open("a", buffering), threading.Lock()  # noqa: SIM115 - until the process is killed

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with lock:
                self.answer({"end": len(records), "records": records[int(self.path[1:]) :][:500]})

        def do_POST(self) -> None:
            with lock:
                values = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                records.extend(values)
                file.writelines(f"{value}\n" for value in values)
                self.answer({"end": len(records)})

        def answer(self, said: object) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

    ThreadingHTTPServer((host, int(port)), Handler).serve_forever()


if __name__ == "__main__":
    serve(*sys.argv[1:])
