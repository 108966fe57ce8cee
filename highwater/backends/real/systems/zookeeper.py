"""A cluster whose coordination is in ZooKeeper: the reference, and Apache Kafka up to 3.9. Both use the same znodes."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from highwater.backends.real.cluster_state import EndState
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.metadata import (
    VERSION_MAX,
    BrokerMetadata,
    know_each_other,
    served_version,
    told_by,
    unwhole,
)
from highwater.backends.real.zookeeper.admin import Admin
from highwater.errors import HarnessError
from highwater.rig.scene import Scene
from highwater.rig.settings import TOPICS, settings_path, settings_payload
from nemesis.targets import INTERNAL
from reference.config import TopicSpec
from reference.coordination import paths
from reference.coordination.api import Create, Created, Data, GetData, NodeExists
from reference.types import Address
from server.wire.clients.apis import ApiKey

_CONFIGS: Final = ("/config", TOPICS)


class ZooKeeperCluster(Admin):
    """A running cluster that coordinates through ZooKeeper, over the harness's own ZooKeeper session.

    `negotiated`: ask each broker for its API versions, since it may be older than Metadata 8. `configured`: write the settings
    of topics to Kafka's znodes; the reference has them in its nodes' settings.
    """

    def __init__(
        self, zookeeper: str, brokers: Mapping[Address, HostPort], *, negotiated: bool = False, configured: bool = False
    ) -> None:
        super().__init__(zookeeper)
        self._brokers = brokers
        self._configured = configured
        self._versions: dict[Address, int] = {} if negotiated else dict.fromkeys(brokers, VERSION_MAX)

    async def gathered(self) -> bool:
        """Whether every broker that is not absent serves and lists all of these.

        If topics were created earlier, the broker that registers first would lead all of them (KIP-343).
        """
        return know_each_other(await self._told(partitions=False), self._brokers.keys() - self.absent)

    async def create_topics(self, scene: Scene) -> None:
        """Create the znodes of the scene's topics, which brokers then discover."""
        if self._configured:
            creates = [Create(path, b"") for path in _CONFIGS]
            own = {topic.name: topic_settings(topic) for topic in scene.plan.cluster.topics}
            creates += [Create(settings_path(name), settings_payload(settings)) for name, settings in own.items()]
            for answer in await self.ask_until_answered(*creates):
                if not isinstance(answer, Created | NodeExists):
                    raise HarnessError(f"writing the topics' settings to ZooKeeper: {answer}")
        await self.make_topics(scene.assignment)

    async def look(self) -> EndState:
        """Read ZooKeeper and each broker's metadata once; a broker that does not answer in time has no partitions."""
        topics, states = await self._read_znodes()
        metadata_of_broker = await self._told(partitions=True)
        return EndState(
            topics, states, {node: () if answer is None else answer.partitions for node, answer in metadata_of_broker.items()}
        )

    async def unready(self, topics: Collection[str]) -> str | None:
        """Why no run with these topics can begin on the cluster now, in a sentence; None if one can."""
        return unwhole(await self._told(partitions=True, internal=True), topics)

    async def _read_znodes(self) -> tuple[tuple[tuple[str, Data], ...], dict[str, Data]]:
        """The znodes of all topics but internal ones, and those of their partition states."""
        topics = tuple((topic, znode) for topic, znode in await self.topics() if not topic.startswith(INTERNAL))
        state_paths = [paths.state_path(tp) for topic, znode in topics for tp, _ in paths.decode_topic(topic, znode.data)]
        states = await self.ask_until_answered(*map(GetData, state_paths)) if state_paths else ()
        return topics, {path: state for path, state in zip(state_paths, states, strict=True) if isinstance(state, Data)}

    async def _told(self, *, partitions: bool, internal: bool = False) -> dict[Address, BrokerMetadata | None]:
        told = await asyncio.gather(
            *(self._metadata_told_by(node, partitions=partitions, internal=internal) for node in self._brokers)
        )
        return dict(zip(self._brokers, told, strict=True))

    async def _metadata_told_by(self, node: Address, *, partitions: bool, internal: bool) -> BrokerMetadata | None:
        """What one broker tells clients; None if it does not answer."""
        where = self._brokers[node]
        if node not in self._versions:
            served = await asyncio.to_thread(served_version, where, ApiKey.METADATA)
            if served is None:
                return None
            self._versions[node] = min(served, VERSION_MAX)
        return await asyncio.to_thread(told_by, where, self._versions[node], partitions=partitions, internal=internal)


def topic_settings(topic: TopicSpec) -> dict[str, str]:
    """The settings of one topic in Kafka's words."""
    flushed = {"flush.messages": "1"} if topic.flush == "before_ack" else {}
    return {"min.insync.replicas": str(topic.min_insync_replicas), **flushed}
