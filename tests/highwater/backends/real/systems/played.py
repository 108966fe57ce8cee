"""The faults of the catalogue, and how they are played on a system whose programs are stand-ins.

Real are the system's nodes, their processes, folders and log directories, the signals, the proxies and ZooKeeper, where there is
one. Stand-ins are the programs: `java` sleeps, the brokers of an external cluster answer ApiVersions alone, and the listeners of
brokers answer each frame with its correlation id. The rows of the probes are those of a run.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.real.faults import Faults
from highwater.backends.real.node.runner import Runner
from highwater.backends.real.processes.conversation import KINDS as MESSAGES
from highwater.backends.real.processes.site import ProcessSite, missing_for
from highwater.backends.real.site import HostPort, Site
from highwater.backends.real.systems.kafka.controller import ControllerNode
from highwater.backends.real.systems.kafka.node import KafkaNode
from highwater.backends.real.systems.kafka.system import Kafka
from highwater.backends.real.systems.port import ControllerWiring, System, Wiring
from highwater.backends.real.systems.registry import system_for
from highwater.plans.plan import ClusterShape, Plan, WorkloadSpec, shape_of
from history.event import EventKind
from history.promise import Promise
from history.recorder import Recorder
from history.seed import Rng
from nemesis.blows import Aim, Blow
from nemesis.capability import refusals
from nemesis.faults import AnyFault, Packets
from nemesis.kinds import KINDS
from nemesis.schedule import Window
from nemesis.targets import ClientPlace, Named
from reference.config import TopicSpec
from server.wire.framing import RequestHeader, encode_frame, encode_request_header

DRAWS = 60  # of each kind, after which all its variants have come
OPEN_MS = 200  # long enough for traffic to meet the fault
EACH_MS = 3000  # until the next window on the same broker, which has started again
# A busy machine may register or start a broker too late for a window: what had no effect is performed again, without the others.
ROUNDS = 3
TRAFFIC_S = 0.02
_TOPIC = TopicSpec(name="t", partitions=1, replication_factor=3, min_insync_replicas=3, flush="none")
PLAN = Plan(
    name="played",
    draws=1,
    cluster=ClusterShape(
        brokers=3, log_dirs=2, zookeeper=3, topics=(_TOPIC,), session_timeout_ms=400, replica_lag_time_max_ms=200
    ),
    workload=WorkloadSpec(places=2),
    promise=Promise(topics=(), session_timeout_ms=400, replica_lag_time_max_ms=200, request_timeout_ms=200),
    faults_ms=60_000,
    quiet_ms=60_000,
)


def catalogue(plan: Plan = PLAN) -> list[Window]:
    """A window for each fault that a kind of the catalogue draws; faults that differ in numbers other than 0 only are one."""
    aim = Aim(shape=shape_of(plan), topic=plan.cluster.topics[0].name, partition=0)
    windows: dict[object, Window] = {}
    for kind in KINDS:
        for seed in range(DRAWS):
            for blow in _with_others(kind.draw(Rng(seed), aim)):
                fields = msgspec.structs.asdict(blow.fault).items()
                words = {name: bool(value) if isinstance(value, int) else value for name, value in fields}
                target = blow.target if isinstance(blow.target, ClientPlace) else Named(brokers=(1,))
                window = Window(id=f"f{len(windows)}", kind=kind.name, at_ms=0, until_ms=1, fault=blow.fault, target=target)
                windows.setdefault((kind.name, type(blow.fault), str(words)), window)
    return list(windows.values())


def _with_others(blow: Blow) -> Iterator[Blow]:
    yield blow
    for other in blow.beside:
        yield from _with_others(other)


def accepted(system: System, windows: list[Window]) -> list[Window]:
    """Those of the windows that neither the process backend nor the system refuses."""
    return [window for window in windows if not refusals("process", (window,)) and system.lacks(window.fault) is None]


def performable(plan: Plan, *, open_ms: int = OPEN_MS) -> Plan:
    """The plan with windows for the faults that its system and this machine can perform."""
    taken_windows = accepted(system_for(plan), catalogue(plan))
    windows = [window for window in taken_windows if missing_for(replace(plan, schedule=(window,))) is None]
    return replace(plan, schedule=tuple(one_of_each(windows, open_ms=open_ms)))


def one_of_each(windows: list[Window], *, open_ms: int = OPEN_MS) -> list[Window]:
    """One window after another with the first fault of each kind and class; kinds with an equal fault share one.

    Packets are lost, and messages picked, often enough for the traffic of a test to meet it.
    """
    first = {(window.kind, type(window.fault)): window for window in reversed(windows)}
    shared: dict[tuple[AnyFault, bool], list[Window]] = {}
    for window in reversed(first.values()):
        shared.setdefault((_often(window.fault), isinstance(window.target, ClientPlace)), []).append(window)
    return [
        replace(same[0], fault=fault, kind=", ".join(one.kind for one in same), at_ms=at * open_ms, until_ms=(at + 1) * open_ms)
        for at, ((fault, _), same) in enumerate(shared.items())
    ]


def _often(fault: AnyFault) -> AnyFault:
    """The fault with every chance at 1."""
    if isinstance(fault, Packets):
        return replace(fault, drop_per_mille=1000)
    return replace(fault, chance_per_mille=1000) if getattr(fault, "chance_per_mille", UNSET) is not UNSET else fault


def sleeping_java(folder: Path, path: str) -> str:
    """A PATH on which the brokers of Kafka sleep, and which runs other programs of Java as before."""
    program = folder / "java"
    program.write_text(
        '#!/bin/sh\ncase "$*" in\n*kafka.tools.StorageTool*) exit 0;;\n'
        "*kafka.Kafka*) echo \"$*\" | sed 's/.*kafka_2...-\\([0-9.]*\\).jar.*/Kafka version: \\1/'; exec sleep 600;;\nesac\n"
        f'exec {shutil.which("java", path=path)} "$@"\n'
    )
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{path}"


class WiredKafka(Kafka):
    """Kafka that remembers the addresses which its nodes were given."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.wirings: list[Wiring] = []
        self.apart: list[ControllerWiring] = []

    def controller(self, folder: Path, wiring: ControllerWiring, runner: Runner) -> ControllerNode:
        self.apart.append(wiring)
        return super().controller(folder, wiring, runner)

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> KafkaNode:
        self.wirings.append(wiring)
        return super().node(folder, wiring, runner)


@asynccontextmanager
async def traffic(system: WiredKafka, clients: list[HostPort]) -> AsyncIterator[None]:
    """Stand-in listeners for the nodes, requests of all kinds between them, and connections of clients and to ZooKeeper."""
    loop = asyncio.get_running_loop()
    wirings = system.wirings
    listening = [where for wiring in wirings for where in (wiring.peers, *wiring.doors.values())]
    listening += [wiring.quorum[wiring.controller] for wiring in system.apart]
    servers = [await loop.create_server(_Echo, *where) for where in listening]
    over = asyncio.Event()
    ways = [*clients, *(way for wiring in wirings for way in wiring.ways.values())]
    ways += [way for wiring in system.apart for way in wiring.ways.values()]
    talking = [asyncio.create_task(_talk(where, MESSAGES, over)) for where in ways]
    talking += [asyncio.create_task(_talk(where, (), over)) for wiring in wirings for where in wiring.zookeeper]
    try:
        yield
    finally:
        over.set()
        await asyncio.gather(*talking)
        for server in servers:
            server.close()


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4 and len(self._buffer) >= (size := 4 + int.from_bytes(self._buffer[:4], "big")):
            frame, self._buffer = self._buffer[4:size], self._buffer[size:]
            self._transport.write(encode_frame(frame[4:8]))  # the correlation id follows key and version


async def _talk(address: HostPort, requests: Iterable[int], over: asyncio.Event) -> None:
    correlation = 0
    while not over.is_set():
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*address)
            try:
                while not (reader.at_eof() or over.is_set()):
                    for api in requests:
                        correlation += 1
                        header = RequestHeader(api_key=api, api_version=0, correlation=correlation, client_id="")
                        writer.write(encode_frame(encode_request_header(header)))
                    await asyncio.sleep(TRAFFIC_S)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1 << 16), TRAFFIC_S)
            finally:
                writer.close()
        await asyncio.sleep(TRAFFIC_S)


async def probes_of_plan(plan: Plan, site: Site, system: System) -> dict[str, list[str]]:
    """What probes found while the plan's windows were open, by kind; the end of each fault is probed too, or HarnessError."""
    recorder = Recorder(lambda: 0)
    cluster = system.cluster(site.zookeeper, site.harness)
    try:
        faults = Faults(plan, site, recorder, cluster)
        for node in site.nodes.values():
            await node.start()
        await faults.run()
        await faults.heal()
        await faults.settle()
    finally:
        cluster.close()
    kinds = {window.id: f"{window.kind}: {type(window.fault).__name__}" for window in plan.schedule}
    found: dict[str, list[str]] = {kind: [] for kind in kinds.values()}
    for row in recorder.events:
        if row.kind is EventKind.FAULT_PROBED:
            found[kinds[str(row.fault)]].append(str(row.detail))
    return found


def unseen(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The kinds of which no probe saw an effect."""
    return {kind: rows for kind, rows in found.items() if not any(row.startswith("acts: ") for row in rows)}


def unseen_on_kafka(
    plan: Plan, beside: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
) -> dict[str, list[str]]:
    """The kinds of which no probe saw an effect in `ROUNDS` rounds."""
    for _ in range(ROUNDS):
        found = unseen(asyncio.run(played_on_kafka(plan, beside)))
        late_windows = [window for window in plan.schedule if f"{window.kind}: {type(window.fault).__name__}" in found]
        if not late_windows:
            break
        plan = replace(plan, schedule=in_turn(late_windows, places=1, open_ms=2 * OPEN_MS))
    return found


def in_turn(windows: Sequence[Window], *, places: int, open_ms: int) -> tuple[Window, ...]:
    """The windows on each of the first brokers in turn, one every `EACH_MS` on each, after as long a time to register."""
    return tuple(
        replace(
            window,
            at_ms=(1 + at // places) * EACH_MS,
            until_ms=(1 + at // places) * EACH_MS + open_ms,
            target=Named(brokers=(at % places + 1,)) if places > 1 else window.target,
        )
        for at, window in enumerate(windows)
    )


async def played_on_kafka(
    plan: Plan, beside: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
) -> dict[str, list[str]]:
    """`played` on processes that stand in for Kafka's brokers, on the PATH of `sleeping_java`; `beside` is given ZooKeeper."""
    system = WiredKafka(plan)
    site = ProcessSite(plan, system)
    try:
        await site.open()
        clients = [where for place in site.clients.values() for where in place.values()]
        with beside(site.zookeeper):
            async with traffic(system, clients):
                return await probes_of_plan(plan, site, system)
    finally:
        await site.leave()
        site.close()
