"""The harness's side of links between containers; `tests/docker` tests what agents do to a network."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from highwater.backends.real.containers.agent import hand_over
from highwater.backends.real.containers.links import AgentClient, ContainerLinks
from highwater.backends.real.site import CLIENTS, JOINED, LinkCondition
from highwater.errors import HarnessError
from reference.types import Address

B1, B2 = Address("b1"), Address("b2")
THERE = (B1, B2)
HERE, B1_AT, B2_AT = "127.0.0.1", "10.0.0.1", "10.0.0.2"


class Agent(AgentClient):
    """The agent of b2; a test sets its hits on the link from b1."""

    hits = 0

    async def ask(self, **request: Any) -> Any:
        return [["in", B1_AT, self.hits]] if request["do"] == "counts" else None


def test_packets_hit_by_an_earlier_fault_do_not_prove_the_next() -> None:
    """Counters are not queried while no fault holds: the last packets of a cut would prove a packet loss ten seconds later."""

    async def scene() -> int:
        links, agent = ContainerLinks(), Agent(Path("/nowhere"), B2)
        await links.open({B1: B1_AT, B2: B2_AT, CLIENTS: HERE}, {B2: agent})
        await links.set({THERE: LinkCondition(held=True)})
        agent.hits = 7
        await links.set({THERE: JOINED})
        await links.set({THERE: LinkCondition(loss_per_mille=1)})
        before = links.counts().get(THERE, 0)
        await asyncio.sleep(0.15)  # the counters are queried meanwhile
        found = links.counts().get(THERE, 0) - before
        await links.close()
        return found

    assert asyncio.run(scene()) == 0


def test_agent_hands_over_sockets_that_listen_and_connect(tmp_path: Path) -> None:
    """The harness runs its proxies on sockets of another network, without rights of its own there."""

    async def scene() -> tuple[bytes, str]:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_unix_server(hand_over, tmp_path / "b2.sockets")
        agent = AgentClient(tmp_path / "b2", B2)
        with await agent.tcp_socket((HERE, 0)) as listening, await agent.tcp_socket() as opened:
            where = listening.getsockname()
            await loop.sock_connect(opened, where)
            accepted, _ = await loop.sock_accept(listening)
            with accepted:
                await loop.sock_sendall(accepted, b"hello")
                heard = await loop.sock_recv(opened, 100)
            with pytest.raises(HarnessError) as taken:
                await agent.tcp_socket(where)
        server.close()
        return heard, str(taken.value)

    heard, taken = asyncio.run(scene())

    assert heard == b"hello"
    assert taken.startswith("the agent of b2 cannot make a socket for")
