"""Servers of ZooKeeper as processes of a site."""

import asyncio
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from highwater.backends.real.os_process import RUNNING, STOPPED, gone, in_state
from highwater.backends.real.site import Probe, Proof
from highwater.backends.real.zookeeper import Server
from highwater.backends.real.zookeeper_log import LogError, read_log
from highwater.errors import HarnessError
from highwater.rig.commits import AnyCommit
from reference.types import Address

# After a start, with a quorum to be found: that of three took 3 to 6 s on two cores at a load of 15, four at once took 26 s.
SERVES_S_MAX = 60.0


class ServerProcess:
    """`highwater.backends.real.site.Life` of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.address = server.address

    async def start(self) -> Probe:
        """A process on what an earlier one left."""
        self._server.start()

        async def probe() -> Proof:
            began_s = time.monotonic()
            while time.monotonic() - began_s < SERVES_S_MAX:
                if await asyncio.to_thread(self._server.answers):
                    return Proof(True, f"{self.address} serves {time.monotonic() - began_s:.1f} s after its start")
                await asyncio.sleep(0.1)
            return Proof(False, f"{self.address} does not serve {SERVES_S_MAX:.0f} s after its start")

        return probe

    async def kill(self) -> Probe:
        """SIGKILL."""
        self._server.kill()
        return lambda: gone(self._server.process)

    async def pause(self) -> Probe:
        """SIGSTOP."""
        self._server.signal(signal.SIGSTOP)
        return lambda: in_state(self._server.process, STOPPED)

    async def resume(self) -> Probe:
        """SIGCONT."""
        self._server.signal(signal.SIGCONT)
        return lambda: in_state(self._server.process, RUNNING)

    async def is_running(self) -> bool:
        """Is there a process, perhaps a paused one?"""
        return self._server.pid is not None


class Logged(Protocol):
    """A server of which the transaction log can be read."""

    @property
    def address(self) -> Address:
        """Its place."""

    @property
    def data_dir(self) -> Path:
        """Where the log lies."""


def commits(servers: Sequence[Logged]) -> Iterable[AnyCommit]:
    """What the ensemble has committed, in its order.

    No server needs to have all of it: one that was away may have been given a snapshot instead. What a deposed leader wrote and
    nobody else had, it cuts off when it joins again. A zxid is never given twice, for it begins with the epoch of its leader.
    """
    found: dict[int, list[AnyCommit]] = {}
    for server in servers:
        try:
            of_server: dict[int, list[AnyCommit]] = {}
            for commit in read_log(server.data_dir):
                of_server.setdefault(commit.zxid, []).append(commit)
        except (LogError, OSError) as error:
            raise HarnessError(f"reading what {server.address} committed: {error}") from error
        found.update(of_server)
    return [commit for zxid in sorted(found) for commit in found[zxid]]
