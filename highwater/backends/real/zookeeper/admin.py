"""The laboratory's own access to ZooKeeper: makes the topics before a run, and sees who has which role during it."""

import asyncio
import itertools

from highwater.backends.real.zookeeper.sessions import SilenceError, end_session
from highwater.errors import HarnessError
from reference.coordination import paths
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    Change,
    Create,
    Created,
    Data,
    GetData,
    NodeExists,
    SessionExpired,
    SessionState,
    Unknown,
)
from reference.coordination.memory import MemoryZooKeeper, Znode
from reference.messages import PartitionState
from reference.types import BrokerId, TopicPartition
from server.kazoo_client import KazooCoordination

# kazoo asks a silent server after a third of this whether it is there, leaves it after another third, and waits as long again
# divided by their number for the next one: well before ANSWER_TIMEOUT_S, where one of three servers stands still.
SESSION_TIMEOUT_MS = 6000
ANSWER_TIMEOUT_S = 10.0
AGAIN_S = 0.1


class Admin:
    """Asks and waits for the answer. Belongs to one asyncio loop. Its session holds nothing, so that a lost one is replaced.

    `patience_s` is how long an answer may take. Whoever silences ZooKeeper on purpose makes it short, and remembers.
    """

    def __init__(self, zookeeper: str) -> None:
        self._ids = itertools.count(1)
        self._hosts = zookeeper
        self.patience_s = ANSWER_TIMEOUT_S
        self._open: dict[int, asyncio.Future[tuple[AnyAnswer, ...]]] = {}
        loop = asyncio.get_running_loop()
        self._zookeeper = KazooCoordination(zookeeper, SESSION_TIMEOUT_MS, self, loop.call_soon_threadsafe)
        self._zookeeper.connect()

    def close(self) -> None:
        """End the session."""
        self._zookeeper.close()

    async def ask(self, *ops: AnyOp, atomic: bool = False) -> tuple[AnyAnswer, ...]:
        """One answer for each operation, done one by one or as one multi. SilenceError where ZooKeeper does not answer."""
        try:
            return await asyncio.wait_for(self._ask(ops, atomic=atomic), self.patience_s)
        except TimeoutError:
            raise self._silence() from None

    async def ask_until_answered(self, *ops: AnyOp) -> tuple[AnyAnswer, ...]:
        """The same for what may be done twice: asked again where the connection broke before all was answered."""
        try:
            async with asyncio.timeout(self.patience_s):
                while True:
                    answers = await self._ask(ops, atomic=False)
                    if not any(isinstance(answer, Unknown | SessionExpired) for answer in answers):
                        return answers
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            raise self._silence() from None

    async def _ask(self, ops: tuple[AnyOp, ...], *, atomic: bool) -> tuple[AnyAnswer, ...]:
        request = next(self._ids)
        future: asyncio.Future[tuple[AnyAnswer, ...]] = asyncio.get_running_loop().create_future()
        self._open[request] = future
        self._zookeeper.request(request, ops, atomic=atomic)
        try:
            return await future
        finally:
            del self._open[request]

    def _silence(self) -> SilenceError:
        return SilenceError(f"ZooKeeper did not answer the laboratory within {self.patience_s:.0f} s")

    async def make_topics(self, assignments: dict[str, tuple[tuple[BrokerId, ...], ...]]) -> None:
        """The parents and the topic znodes; brokers discover them. `assignments`: replicas by topic and partition."""
        creates = [Create(path, b"") for path in paths.PERSISTENT]
        creates += [Create(paths.topic_path(topic), paths.topic_payload(of)) for topic, of in assignments.items()]
        for answer in await self.ask_until_answered(*creates):
            if not isinstance(answer, Created | NodeExists):
                raise HarnessError(f"the topics could not be made in ZooKeeper: {answer}")

    async def seen(self, tps: tuple[TopicPartition, ...]) -> MemoryZooKeeper:
        """What ZooKeeper holds now of these partitions' states and of the controller, as a tree to look at."""
        wanted = [paths.CONTROLLER, *(paths.state_path(tp) for tp in tps)]
        answers = await self.ask_until_answered(*(GetData(path) for path in wanted))
        nodes = {
            path: Znode(answer.data, answer.czxid, 0, 0, answer.owner, answer.version)
            for path, answer in zip(wanted, answers, strict=True)
            if isinstance(answer, Data)
        }
        return MemoryZooKeeper(nodes=nodes)

    async def session_of(self, broker: BrokerId) -> int | None:
        """The session by which a broker is registered."""
        (answer,) = await self.ask_until_answered(GetData(paths.broker_path(broker)))
        return answer.owner if isinstance(answer, Data) else None

    async def expire(self, session: int) -> None:
        """End somebody's session. SilenceError where ZooKeeper does not answer, OverError where it is over already."""
        await asyncio.to_thread(end_session, self._hosts, session)

    # --- told by ZooKeeper -------------------------------------------------------------------------------------------------

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """To `ask`."""
        future = self._open.get(request_id)
        if future is not None and not future.done():
            future.set_result(answers)

    def watch_fired(self, path: str, change: Change) -> None:
        """The laboratory leaves no watches."""

    def state_changed(self, state: SessionState, session: int) -> None:
        """A lost connection shows in answers; a session that is over is followed by another."""
        if state == "expired":
            self._zookeeper.connect()


def states_of(seen: MemoryZooKeeper, tps: tuple[TopicPartition, ...]) -> dict[TopicPartition, PartitionState]:
    """The state of each of these partitions that has one; without its replicas."""
    nodes = {tp: seen.nodes.get(paths.state_path(tp)) for tp in tps}
    return {
        tp: paths.decode_state(tp, (), Data(node.data, node.version, node.czxid))
        for tp, node in nodes.items()
        if node is not None
    }
