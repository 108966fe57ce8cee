"""The site of a user's cluster: its nodes are where the file says, and only the file's commands touch them.

Nothing is started or removed by the harness. What a fault did to a node is undone at the end of the run, however it ends.
"""

import asyncio
import random
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack

from highwater.backends.real.processes.conversation import of_kafka
from highwater.backends.real.processes.links import ProxyLinks
from highwater.backends.real.site import (
    CLIENTS,
    JOINED,
    ClockCondition,
    DirCondition,
    HostPort,
    LinkCondition,
    Pair,
    Picked,
    Probe,
    Proof,
    end_all,
)
from highwater.backends.real.systems.external.file import LOSE, Hook, Hooks
from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.metadata import served_version
from highwater.errors import HarnessError
from highwater.rig.commits import AnyCommit
from nemesis.faults import Roll
from pipeline.errors import OwnedError
from pipeline.owner import locked
from reference.events import DirImage
from reference.types import Address, BrokerId, TopicPartition
from server.lab.notes import NoteLine
from server.lab.power import Loss, Wound
from server.wire.clients.apis import ApiKey

SERVES_S_MAX = 60.0
LOOK_S = 0.2
CONNECT_S = 1.0
LOOPBACK = "127.0.0.1"  # of the probes' own connections


class ExternalNode:
    """A node of a user's cluster, handled by hooks. `life` counts the starts that the harness asked for."""

    def __init__(self, address: Address, where: HostPort, hooks: Hooks) -> None:
        self.address = address
        self.life = 0
        self.dirs = 1
        self._address = where
        self._hooks = hooks
        self._down = self._paused = False

    async def start(self) -> Probe:
        """Start the node, unless it is there already: the first start of a run finds the user's cluster running."""
        self.life += 1
        if self._down:
            await self._run("start")
            self._down = False
        return self._probe_until(self._serves, "serves clients", SERVES_S_MAX)

    async def kill(self) -> Probe:
        """Kill the node by its hook; a node that is down already is left alone, and the probe fails."""
        return await self._end_by_hook("kill")

    async def terminate(self) -> Probe:
        """End the node orderly by its hook; a node that is down already is left alone, and the probe fails."""
        return await self._end_by_hook("terminate")

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Undo what the node, which is down, did not flush, by its hook; what that was nobody tells. HarnessError if it fails."""
        assert self._down, "a power loss kills the node first"
        await self._run(LOSE)
        return ()

    def change(self, roll: Roll) -> None:
        """Never called: no hook changes the version of a node."""
        raise AssertionError(f"{self.address} has the version that its user gave it")

    async def pause(self) -> Probe:
        """Freeze the node by its hook; of a node that is down the probe fails."""
        if self._down:
            return _is_down
        if not self._paused:
            self._paused = True
            await self._run("pause")
        return self._probe_until(lambda: not self._serves(), "does not answer", SERVES_S_MAX)

    async def resume(self) -> Probe:
        """Continue the node by its hook, if it is paused."""
        if self._paused:
            await self._run("resume")
            self._paused = False
        return self._probe_until(self._serves, "answers", SERVES_S_MAX)

    async def is_running(self) -> bool:
        """Whether the harness has left the node running; what the user does meanwhile is not known."""
        return not self._down

    def restore(self) -> None:
        """Undo what is left of faults; for callers outside of the asyncio loop."""
        if self._paused:
            self._hooks.run("resume", self.address)
            self._paused = False
        if self._down:
            self._hooks.run("start", self.address)
            self._down = False

    async def _end_by_hook(self, hook: Hook) -> Probe:
        """End the node by a hook; the probe sees that its port listens no more."""
        if self._down:
            return _is_down
        self._down, self._paused = True, False
        await self._run(hook)
        return self._probe_until(lambda: not self._listens(), "does not listen", SERVES_S_MAX)

    async def _run(self, hook: Hook) -> None:
        await asyncio.to_thread(self._hooks.run, hook, self.address)

    def _probe_until(self, holds: Callable[[], bool], words: str, limit_s: float) -> Probe:
        """A probe that waits until the condition holds, at most `limit_s`."""

        async def probe() -> Proof:
            began_s = time.monotonic()
            while time.monotonic() - began_s < limit_s:
                if await asyncio.to_thread(holds):
                    return Proof(True, f"{self.address} {words} after {time.monotonic() - began_s:.1f} s")
                await asyncio.sleep(LOOK_S)
            return Proof(False, f"not so within {limit_s:.0f} s: {self.address} {words}")

        return probe

    def _serves(self) -> bool:
        return served_version(self._address, ApiKey.METADATA) is not None

    def _listens(self) -> bool:
        """Whether the node's port takes a connection."""
        try:
            socket.create_connection(self._address, CONNECT_S).close()
        except OSError:
            return False
        return True

    # --- what nobody knows of a user's node --------------------------------------------------------------------------------

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Raises HarnessError: refused before the run."""
        raise HarnessError(f"no hook sets the clock of {self.address}")

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """Raises HarnessError: refused before the run."""
        raise HarnessError(f"no hook breaks a directory of {self.address}")

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """Raises HarnessError: refused before the run."""
        raise HarnessError(f"no hook swaps a directory of {self.address}")

    def notes(self) -> list[NoteLine]:
        """Nothing."""
        return []

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """Nothing."""
        return ()

    def disks(self) -> tuple[DirImage, ...]:
        """Nothing."""
        return ()

    def stopped_itself(self) -> str | None:
        """Never known."""
        return None

    def last_words(self) -> str:
        """Nothing."""
        return ""


async def _is_down() -> Proof:
    return Proof(False, "the node was down already")


class ExternalLinks:
    """The network of a user's cluster: the hooks `cut` and `heal` for each direction of a link between nodes, and proxies for the
    links of clients, if there are any.
    """

    def __init__(self, nodes: Collection[Address], hooks: Hooks, proxies: ProxyLinks | None = None) -> None:
        self._nodes = nodes
        self._hooks = hooks
        self._proxies = proxies
        self._cut: dict[Pair, None] = {}

    async def set(self, conditions: Mapping[Pair, LinkCondition]) -> Probe:
        """Do to the links what the conditions say, by proxies or hooks. HarnessError for a fault that neither can inject."""
        if self._proxies is not None and all(CLIENTS in pair for pair in conditions):
            return await self._proxies.set(conditions)
        for pair, condition in conditions.items():
            if condition not in (JOINED, LinkCondition(held=True)) or not {*pair} <= {*self._nodes}:
                raise HarnessError(f"no hook does this to the link from {pair[0]} to {pair[1]}: {condition}")
        for pair, condition in conditions.items():
            if condition.held and pair not in self._cut:
                self._cut[pair] = None
                await asyncio.to_thread(self._hooks.run, "cut", *pair)
            elif not condition.held and pair in self._cut:
                await asyncio.to_thread(self._hooks.run, "heal", *pair)
                del self._cut[pair]

        async def probe() -> Proof:
            return Proof(None, f"the hooks for {len(conditions)} links ended well; their effect is not measured")

        return probe

    async def reset(self, pairs: Iterable[Pair]) -> int:
        """Reset connections of clients by their proxies. HarnessError without proxies."""
        if self._proxies is None:
            raise HarnessError("no hook resets connections")
        return await self._proxies.reset(pairs)

    def counts(self) -> Mapping[Pair, int]:
        """What the proxies count; nothing without them."""
        return {} if self._proxies is None else self._proxies.counts()

    def picked(self, window: str) -> Picked:
        """What the proxies count; nothing without them."""
        return Picked() if self._proxies is None else self._proxies.picked(window)

    def restore(self) -> None:
        """Heal every link that is still cut."""
        for pair in list(self._cut):
            self._hooks.run("heal", *pair)
            del self._cut[pair]


class ExternalSite:
    """A user's cluster as the site of one run."""

    servers: tuple[()] = ()
    zookeeper = ""

    def __init__(
        self,
        addresses: Mapping[Address, HostPort],
        hooks: Hooks,
        harness: Mapping[Address, HostPort] | None = None,
        doors: Mapping[Address, HostPort] | None = None,
    ) -> None:
        """`addresses` are those for clients, `harness` those at which the harness asks, if they are others.

        With `doors`, where the nodes listen for clients, proxies of the harness listen at the addresses for clients.
        """
        self.harness = dict(harness or addresses)
        self.metrics: dict[Address, HostPort] = {}
        self.clients = {CLIENTS: dict(addresses)}
        self._doors = dict(doors or {})
        self._proxies = ProxyLinks(LOOPBACK, random.Random()) if doors else None
        self._locks = ExitStack()
        self.links = ExternalLinks(addresses, hooks, self._proxies)
        self.nodes = {
            BrokerId(int(address.removeprefix("b"))): ExternalNode(address, where, hooks)
            for address, where in self.harness.items()
        }

    async def open(self) -> None:
        """Lock the nodes, open the proxies, and ask each node whether it serves.

        HarnessError if one does not, or if another run of this user is on it: each would read the other's records.
        """
        for address, (host, port) in self.harness.items():
            lock = jars.cache_folder() / "clusters" / f"{host}_{port}"
            try:
                self._locks.enter_context(locked(lock, place=f"{address} at {host}:{port}", does="has a run on it"))
            except OwnedError as error:
                raise HarnessError(str(error)) from error
        if self._proxies is not None:
            for node, door in self._doors.items():
                at = self.clients[CLIENTS][node]
                await self._proxies.wire(CLIENTS, node, door, conversation=of_kafka, at=at)
        for address, where in self.harness.items():
            if await asyncio.to_thread(served_version, where, ApiKey.METADATA) is None:
                raise HarnessError(f"{address} does not answer at {where[0]}:{where[1]}: is the cluster running?")

    async def leave(self) -> None:
        """Close the proxies."""
        if self._proxies is not None:
            await self._proxies.close()

    def stop(self) -> None:
        """Undo what is left of faults, so that the user's cluster is as it was."""
        end_all([self.links.restore, *(node.restore for node in self.nodes.values())])

    def commits(self) -> Iterable[AnyCommit]:
        """Nothing: the coordination of a user's cluster is its own."""
        return ()

    def close(self) -> None:
        """Undo what is left of faults, and let other runs have the nodes; may be called again."""
        with self._locks:
            self.stop()
