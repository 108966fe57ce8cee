"""The harness's own access to ZooKeeper: creates the topics before a run and reads leaders and controller during it."""

import asyncio
import itertools
from contextlib import suppress

from highwater.backends.real.site import Probe, Proof, looking_again
from highwater.backends.real.zookeeper.expiry import SilenceError, end_session
from highwater.errors import HarnessError
from highwater.rig.topics import brokers_named
from reference.coordination import paths
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    Change,
    Children,
    Create,
    Created,
    Data,
    GetChildren,
    GetData,
    NodeExists,
    SessionExpired,
    SessionState,
    Unknown,
)
from reference.coordination.memory import MemoryZooKeeper, Znode
from reference.messages import PartitionState
from reference.types import Address, BrokerId, TopicPartition
from server.kazoo_client import KazooCoordination

# kazoo pings a silent server after a third of this, drops it after another third, and then waits a third divided by the number of
# servers for the next one. With one of three servers paused that is well below ANSWER_TIMEOUT_S.
SESSION_TIMEOUT_MS = 6000
ANSWER_TIMEOUT_S = 10.0
AGAIN_S = 0.1
FORGET_S_MAX = 60.0  # until a broker that left is no longer registered


class Admin:
    """The harness's own ZooKeeper session: sends requests and waits for the answers. Belongs to one asyncio loop.

    Its session owns no ephemeral znodes, so an expired session is simply replaced. `patience_s` is how long an answer may take; a
    fault that stops ZooKeeper shortens it for the time of the fault.
    """

    absent: frozenset[Address] = frozenset()

    def __init__(self, zookeeper: str) -> None:
        self._ids = itertools.count(1)
        self._hosts = zookeeper
        self.patience_s = ANSWER_TIMEOUT_S
        self._open_requests: dict[int, asyncio.Future[tuple[AnyAnswer, ...]]] = {}
        loop = asyncio.get_running_loop()
        self._zookeeper = KazooCoordination(zookeeper, SESSION_TIMEOUT_MS, self, loop.call_soon_threadsafe)
        self._zookeeper.connect()

    def close(self) -> None:
        """Close the harness's ZooKeeper session; requests without an answer stay unanswered."""
        self._zookeeper.close()

    async def ask(self, *ops: AnyOp, atomic: bool = False) -> tuple[AnyAnswer, ...]:
        """Perform ZooKeeper operations one by one or, if `atomic`, as one multi; returns an answer for each.

        Raises SilenceError if ZooKeeper does not answer within `patience_s`.
        """
        try:
            return await asyncio.wait_for(self._send_and_wait(ops, atomic=atomic), self.patience_s)
        except TimeoutError:
            raise self._silence() from None

    async def ask_until_answered(self, *ops: AnyOp) -> tuple[AnyAnswer, ...]:
        """Like `ask` for operations that may be repeated: asks again if the connection broke before all answers came."""
        try:
            async with asyncio.timeout(self.patience_s):
                while True:
                    answers = await self._send_and_wait(ops, atomic=False)
                    if not any(isinstance(answer, Unknown | SessionExpired) for answer in answers):
                        return answers
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            raise self._silence() from None

    async def _send_and_wait(self, ops: tuple[AnyOp, ...], *, atomic: bool) -> tuple[AnyAnswer, ...]:
        """Send the operations and wait for their answers."""
        request = next(self._ids)
        future: asyncio.Future[tuple[AnyAnswer, ...]] = asyncio.get_running_loop().create_future()
        self._open_requests[request] = future
        self._zookeeper.request(request, ops, atomic=atomic)
        try:
            return await future
        finally:
            del self._open_requests[request]

    def _silence(self) -> SilenceError:
        return SilenceError(f"ZooKeeper at {self._hosts} did not answer the harness within {self.patience_s:g} s")

    async def make_topics(self, assignments: dict[str, tuple[tuple[BrokerId, ...], ...]]) -> None:
        """Create the znodes of the run's topics, which brokers then discover.

        `assignments`: for each topic, the replicas of each partition. Raises HarnessError if a znode cannot be created.
        """
        creates = [Create(path, b"") for path in paths.PERSISTENT]
        creates += [Create(paths.topic_path(topic), paths.topic_payload(of)) for topic, of in assignments.items()]
        for answer in await self.ask_until_answered(*creates):
            if not isinstance(answer, Created | NodeExists):
                raise HarnessError(f"creating the topics in ZooKeeper: {answer}")

    async def seen(self, tps: tuple[TopicPartition, ...]) -> MemoryZooKeeper:
        """Read the znodes of the controller and of these partitions' states, as an in-memory tree."""
        read_paths = [paths.CONTROLLER, *(paths.state_path(tp) for tp in tps)]
        answers = await self.ask_until_answered(*(GetData(path) for path in read_paths))
        nodes = {
            path: Znode(answer.data, answer.czxid, 0, 0, answer.owner, answer.version)
            for path, answer in zip(read_paths, answers, strict=True)
            if isinstance(answer, Data)
        }
        return MemoryZooKeeper(nodes=nodes)

    async def session_of(self, broker: BrokerId) -> int | None:
        """The session that owns a broker's registration; None if the broker is not registered."""
        (answer,) = await self.ask_until_answered(GetData(paths.broker_path(broker)))
        return answer.owner if isinstance(answer, Data) else None

    async def topics(self) -> tuple[tuple[str, Data], ...]:
        """The names and znodes of all topics, of internal ones too. SilenceError if ZooKeeper does not answer."""
        (listed,) = await self.ask_until_answered(GetChildren(paths.TOPICS))
        names = listed.names if isinstance(listed, Children) else ()
        answers = await self.ask_until_answered(*(GetData(paths.topic_path(topic)) for topic in names)) if names else ()
        return tuple((topic, znode) for topic, znode in zip(names, answers, strict=True) if isinstance(znode, Data))

    async def is_vacant(self, broker: BrokerId) -> bool:
        """Whether no topic, of internal ones neither, names this broker. SilenceError if ZooKeeper does not answer."""
        return broker not in brokers_named((topic, znode.data) for topic, znode in await self.topics())

    async def forget(self, broker: BrokerId) -> Probe:
        """Nothing: a broker's registration ends with its session; the probe sees whether it has."""

        async def look() -> Proof:
            with suppress(SilenceError):
                if await self.session_of(broker) is None:
                    return Proof(True, "it is not registered")
            return Proof(False, "it is registered")

        return looking_again(look, seconds=FORGET_S_MAX)

    async def expire(self, session: int) -> None:
        """End a session of another client. Raises SilenceError if ZooKeeper does not answer, OverError if it has ended."""
        await asyncio.to_thread(end_session, self._hosts, session)

    # --- told by ZooKeeper -------------------------------------------------------------------------------------------------

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """Hand ZooKeeper's answers to the request that waits for them."""
        future = self._open_requests.get(request_id)
        if future is not None and not future.done():
            future.set_result(answers)

    def watch_fired(self, path: str, change: Change) -> None:
        """Never called: the harness sets no ZooKeeper watches."""

    def state_changed(self, state: SessionState, session: int) -> None:
        """Open a new ZooKeeper session after an expiry; a lost connection shows in the answers."""
        if state == "expired":
            self._zookeeper.connect()


def states_of(tree: MemoryZooKeeper, tps: tuple[TopicPartition, ...]) -> dict[TopicPartition, PartitionState]:
    """Decode the state znodes of those partitions that have one; replica lists are empty."""
    nodes = {tp: tree.nodes.get(paths.state_path(tp)) for tp in tps}
    return {
        tp: paths.decode_state(tp, (), Data(node.data, node.version, node.czxid))
        for tp, node in nodes.items()
        if node is not None
    }
