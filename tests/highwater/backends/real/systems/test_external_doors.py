"""Proxies of the harness before the doors of a user's nodes: faults of the links of clients, without hooks."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.site import CLIENTS, JOINED, HostPort, LinkCondition
from highwater.backends.real.systems.external.file import addresses_of, doors_of, harness_addresses_of, load
from highwater.backends.real.systems.external.site import ExternalSite
from highwater.backends.real.systems.external.system import External
from highwater.backends.real.zookeeper.local import free_port
from highwater.errors import HarnessError, UsageError
from highwater.plans.plan import Plan, on_system
from highwater.plans.systems import SystemSpec
from nemesis import faults
from nemesis.faults import AnyFault
from reference.types import Address
from tests.highwater.backends.real.systems.played import PLAN
from tests.highwater.backends.real.test_picking import END_TXN, PRODUCE, SIZE, frame, pick

B1 = Address("b1")
THERE = (CLIENTS, B1)
FILE = """\
nodes:
- {id: 7, address: "127.0.0.1:1", door: "127.0.0.1:2"}
- {id: 8, address: "127.0.0.1:3", door: "127.0.0.1:4"}
"""


def described(folder: Path, text: str) -> Plan:
    (folder / "my-system.yaml").write_text(text)
    spec = SystemSpec(name="external", settings={"with": str(folder / "my-system.yaml")})
    return on_system(replace(PLAN, workload=replace(PLAN.workload, places=1)), spec)


def test_node_behind_a_door_is_asked_there(tmp_path: Path) -> None:
    """The harness's own questions must pass no proxy: a fault would hold them, too."""
    described(tmp_path, FILE)
    description = load(tmp_path / "my-system.yaml")

    assert addresses_of(description) == {"b1": ("127.0.0.1", 1), "b2": ("127.0.0.1", 3)}
    assert doors_of(description) == harness_addresses_of(description) == {"b1": ("127.0.0.1", 2), "b2": ("127.0.0.1", 4)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('- {id: 9, address: "127.0.0.1:5"}', "all nodes must have a door, or none: only 7, 8 have one"),
        ('- {id: 9, address: "127.0.0.1:5", door: "127.0.0.1:4"}', "nodes 8 and 9 have the same address 127.0.0.1:4"),
        ('- {id: 9, address: "127.0.0.1:5", door: here}', "the address of node 9 must be"),
    ],
)
def test_wrong_door_is_refused(line: str, message: str, tmp_path: Path) -> None:
    plan = described(tmp_path, f"{FILE}{line}\n")

    with pytest.raises(UsageError, match=message):
        External(plan)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (faults.Slow(extra_ms=9, links=("clients",)), None),
        (faults.Slow(extra_ms=9, links=("clients",), kinds=("end-txn",)), None),
        (faults.Reset(links=("clients",), kinds=("end-txn-reply",)), None),
        (faults.Reset(links=("clients",), kinds=("vote",)), "its clients do not send vote"),
        (faults.Slow(extra_ms=9, links=("peers",)), "no hook can inject it"),
    ],
)
def test_doors_allow_faults_of_the_links_of_clients(fault: AnyFault, message: str | None, tmp_path: Path) -> None:
    assert External(described(tmp_path, FILE)).lacks(fault) == message


def test_requests_that_clients_encrypt_cannot_be_picked(tmp_path: Path) -> None:
    system = External(described(tmp_path, f"{FILE}clients: {{security.protocol: SASL_SSL}}\n"))

    assert system.lacks(faults.Slow(extra_ms=9, links=("clients",))) is None
    slow = faults.Slow(extra_ms=9, links=("clients",), kinds=("end-txn",))
    assert system.lacks(slow) == "a proxy cannot tell apart what clients encrypt"


def test_node_without_a_door_has_no_faults_of_clients(tmp_path: Path) -> None:
    system = External(described(tmp_path, 'nodes: [{id: 7, address: "127.0.0.1:1"}]'))

    assert str(system.lacks(faults.Slow(extra_ms=9, links=("clients",)))).endswith(
        "my-system.yaml names no doors of its nodes, before which proxies for clients could stand"
    )


def play(scene: Callable[[ExternalSite, HostPort], Awaitable[None]]) -> None:
    """A scene with a node that echoes each frame, and the address at which clients reach it."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            writer.write(data)
        writer.close()

    async def run() -> None:
        node = await asyncio.start_server(echo, "127.0.0.1", 0)
        at = ("127.0.0.1", free_port())
        door = node.sockets[0].getsockname()
        site = ExternalSite({B1: at}, hooks=None, harness={B1: door}, doors={B1: door})  # type: ignore[arg-type]  # no hook is called
        try:
            with pytest.raises(HarnessError, match="b1 does not answer"):  # it is no broker; the proxies stand nevertheless
                await site.open()
            await asyncio.wait_for(scene(site, at), 20)
        finally:
            await site.leave()
            node.close()

    asyncio.run(run())


def test_late_request_to_a_door_reaches_the_node() -> None:
    async def scene(site: ExternalSite, at: HostPort) -> None:
        reader, writer = await asyncio.open_connection(*at)
        await site.links.set({THERE: pick(held=True)})
        writer.write(frame(PRODUCE, b"A") + frame(END_TXN, b"B"))
        assert await reader.readexactly(SIZE) == frame(PRODUCE, b"A")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 0.1)
        assert site.links.picked("w").messages == 1

        await site.links.set({THERE: JOINED})

        assert await reader.readexactly(SIZE) == frame(END_TXN, b"B")
        writer.close()

    play(scene)


def test_door_that_is_held_and_reset_is_proven() -> None:
    async def scene(site: ExternalSite, at: HostPort) -> None:
        reader, writer = await asyncio.open_connection(*at)
        writer.write(b"\0\0\0\1a")
        assert await reader.readexactly(5) == b"\0\0\0\1a"

        assert (await (await site.links.set({THERE: LinkCondition(held=True)}))()).holds
        assert (await (await site.links.set({THERE: JOINED}))()).holds
        assert await site.links.reset([THERE]) == 1
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        writer.transport.abort()

    play(scene)
