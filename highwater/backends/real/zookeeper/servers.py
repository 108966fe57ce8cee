"""ZooKeeper servers as processes of this machine, and the changes that the ensemble committed."""

import asyncio
import signal
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from highwater.backends.real.os_process import RUNNING, STOPPED, gone, in_state
from highwater.backends.real.site import Probe, Proof
from highwater.backends.real.zookeeper.local import Server
from highwater.backends.real.zookeeper.transaction_log import LogError, read_log
from highwater.errors import HarnessError
from highwater.rig.commits import AnyCommit
from reference.types import Address

# From a start to a quorum. Three servers took 3 to 6 s on two cores at a load of 15; four such ensembles at once took 26 s.
SERVES_S_MAX = 60.0


class ServerProcess:
    """One ZooKeeper server as a process of this machine."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.address = server.address

    async def start(self) -> Probe:
        """Start the ZooKeeper server on its previous process's data."""
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
        """Send the ZooKeeper server SIGKILL and wait for the end. The probe fails if no process ran."""
        process = None if self._server.pid is None else self._server.process
        self._server.kill()
        return partial(gone, process)

    async def pause(self) -> Probe:
        """Send the ZooKeeper server SIGSTOP."""
        self._server.signal(signal.SIGSTOP)
        return lambda: in_state(self._server.process, STOPPED)

    async def resume(self) -> Probe:
        """Send the ZooKeeper server SIGCONT."""
        self._server.signal(signal.SIGCONT)
        return lambda: in_state(self._server.process, RUNNING)

    async def is_running(self) -> bool:
        """Whether the ZooKeeper server's process exists, paused or not."""
        return self._server.pid is not None

    def last_words(self) -> str:
        """The last line that the ZooKeeper server printed."""
        return self._server.last_words()


class Logged(Protocol):
    """A ZooKeeper server whose transaction log can be read."""

    @property
    def address(self) -> Address:
        """The name of the ZooKeeper server, such as "z1"."""

    @property
    def data_dir(self) -> Path:
        """The folder of the ZooKeeper server's transaction log."""


def commits(servers: Sequence[Logged]) -> Iterable[AnyCommit]:
    """The changes that ZooKeeper committed, in commit order: the union of all servers' logs by zxid.

    A single log may have gaps, because a server that was down may have received a snapshot instead. A deposed leader truncates
    its unreplicated writes when it rejoins. No zxid is used twice, because it begins with the epoch of ZooKeeper's leader. Raises
    HarnessError if a log cannot be read.
    """
    commits_of_zxid: dict[int, list[AnyCommit]] = {}
    for server in servers:
        try:
            of_server: dict[int, list[AnyCommit]] = {}
            for commit in read_log(server.data_dir):
                of_server.setdefault(commit.zxid, []).append(commit)
        except (LogError, OSError) as error:
            raise HarnessError(f"reading the transaction log of {server.address}: {error}") from error
        commits_of_zxid.update(of_server)
    return [commit for zxid in sorted(commits_of_zxid) for commit in commits_of_zxid[zxid]]
