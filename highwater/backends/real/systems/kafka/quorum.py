"""A Kafka cluster with KRaft as the harness sees it: no ZooKeeper, all answers come from the brokers' metadata.

The faults name their targets by ZooKeeper's tree (who leads, who is in the ISR, who is controller), so `seen` makes one from what
the brokers tell. The leader of the metadata quorum (DescribeQuorum) stands where the controller stood.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from highwater.backends.real.cluster_state import EndState
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.metadata import BrokerMetadata, served_version, told_by
from highwater.backends.real.systems.uncoordinated import Uncoordinated, tree_of
from highwater.backends.real.systems.zookeeper import topic_settings
from highwater.errors import HarnessError
from highwater.rig.scene import Scene
from reference.coordination.memory import MemoryZooKeeper
from reference.messages import PartitionState
from reference.types import Address, BrokerId, TopicPartition
from server.runtime.health import ask
from server.wire.clients.apis import ApiKey
from server.wire.clients.topics import CreatableAssignment, CreateTopicsResponse, TopicResult
from server.wire.framing import WireError

DESCRIBE_QUORUM = 55
_METADATA_LOG = "__cluster_metadata"
_CREATE_VERSION = 4
_CREATE_MS = 30_000
LEVEL = "metadata.version"  # the feature that says which records a controller writes (KIP-778)
_FEATURES_VERSION = 3  # the first of ApiVersions with features
_UPDATE_FEATURES = 57
_EXISTS = 36  # TOPIC_ALREADY_EXISTS


class _Config(Struct, frozen=True, kw_only=True):
    name: str
    value: str


class NewTopic(Struct, frozen=True, kw_only=True):
    """A topic that a CreateTopics request asks for, with the replicas of each partition."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[CreatableAssignment, ...]
    configs: tuple[_Config, ...]


class _CreateTopics(Struct, frozen=True, kw_only=True):
    topics: tuple[NewTopic, ...]
    timeout_ms: int = _CREATE_MS
    validate_only: bool = False


class _Partition(Struct, frozen=True, kw_only=True):
    partition_index: int = 0
    leader_id: int = -1
    leader_epoch: int = -1


class _Log(Struct, frozen=True, kw_only=True):
    topic_name: str = _METADATA_LOG
    partitions: tuple[_Partition, ...] = (_Partition(),)


class _Quorum(Struct, frozen=True, kw_only=True):
    topics: tuple[_Log, ...] = (_Log(),)


class _AskedFeatures(Struct, frozen=True, kw_only=True):
    client_software_name: str = "highwater"
    client_software_version: str = "1"


class _Supported(Struct, frozen=True, kw_only=True):
    name: str
    max_version: int


class _Finalized(Struct, frozen=True, kw_only=True):
    name: str
    max_version_level: int


class _Features(Struct, frozen=True, kw_only=True):
    supported_features: tuple[_Supported, ...] = ()
    finalized_features: tuple[_Finalized, ...] = ()


class _Update(Struct, frozen=True, kw_only=True):
    feature: str
    max_version_level: int


class _UpdateFeatures(Struct, frozen=True, kw_only=True):
    feature_updates: tuple[_Update, ...]


class _Result(Struct, frozen=True, kw_only=True):
    error_code: int


class _Updated(Struct, frozen=True, kw_only=True):
    error_code: int
    results: tuple[_Result, ...]


class QuorumCluster(Uncoordinated):
    """A running cluster with KRaft."""

    def __init__(self, brokers: Mapping[Address, HostPort]) -> None:
        self._brokers = brokers
        self._seen = MemoryZooKeeper()

    async def gathered(self) -> bool:
        """Whether every broker serves and lists all brokers, and the quorum has a leader."""
        served = await asyncio.gather(*(asyncio.to_thread(served_version, w, ApiKey.METADATA) for w in self._brokers.values()))
        if None in served:
            return False
        metadata_of_broker = await self._told(partitions=False)
        everybody = {int(node.removeprefix("b")) for node in self._brokers}
        listed = all(answer is not None and {*answer.brokers} == everybody for answer in metadata_of_broker.values())
        return listed and await self._has_controller()

    async def _has_controller(self) -> bool:
        return await self._leader() is not None

    async def create_topics(self, scene: Scene) -> None:
        """Create the topics of the scene by a request to the first broker, which hands it on to the controller."""
        for result in await asyncio.to_thread(create, next(iter(self._brokers.values())), self._new_topics(scene)):
            if result.error_code not in (0, _EXISTS):  # an answer may have been lost, and the cluster is new
                raise HarnessError(f"creating topic {result.name}: error {result.error_code}: {result.error_message}")

    def _new_topics(self, scene: Scene) -> tuple[NewTopic, ...]:
        """The topics of the scene with their assignments and settings."""
        return tuple(
            NewTopic(
                name=topic.name,
                assignments=tuple(
                    CreatableAssignment(index, tuple(map(self._node_id, of)))
                    for index, of in enumerate(scene.assignment[topic.name])
                ),
                configs=tuple(_Config(name=name, value=value) for name, value in topic_settings(topic).items()),
            )
            for topic in scene.plan.cluster.topics
        )

    def _node_id(self, broker: BrokerId) -> int:
        """The id of a broker in the cluster."""
        return broker

    async def seen(self, tps: tuple[TopicPartition, ...]) -> MemoryZooKeeper:
        """The quorum's leader and these partitions' states, as znodes; the last known ones where nobody answers."""
        newest: dict[TopicPartition, PartitionState] = {}
        for answer in (await self._told(partitions=True)).values():
            for state in () if answer is None else answer.partitions:
                before = newest.get(state.tp)
                if state.tp in tps and (before is None or state.leader_epoch > before.leader_epoch):
                    newest[state.tp] = state
        nodes = tree_of(await self._leader(), newest.values()).nodes
        self._seen = MemoryZooKeeper(nodes={**self._seen.nodes, **nodes})
        return self._seen

    async def look(self) -> EndState:
        """Read each broker's metadata once; a broker that does not answer in time has no partitions."""
        told = await self._told(partitions=True)
        return EndState((), {}, {node: () if answer is None else answer.partitions for node, answer in told.items()})

    async def raise_level(self) -> str | None:
        """Raise metadata.version to the highest that all brokers know; None while not all serve, or a controller refuses."""
        if not await self.gathered():
            return None
        known = await asyncio.gather(*(asyncio.to_thread(_features_of, address) for address in self._brokers.values()))
        highest = [feature.max_version for features in known for feature in features.supported_features if feature.name == LEVEL]
        if len(highest) < len(self._brokers):
            return None
        level = min(highest)
        final = {
            feature.max_version_level for features in known for feature in features.finalized_features if feature.name == LEVEL
        }
        if final != {level} and not await asyncio.to_thread(_raise_level, next(iter(self._brokers.values())), level):
            return None
        return f"{LEVEL} is {level}, before {', '.join(map(str, sorted(final)))}"

    async def _told(self, *, partitions: bool) -> dict[Address, BrokerMetadata | None]:
        answers = (asyncio.to_thread(told_by, where, partitions=partitions) for where in self._brokers.values())
        return dict(zip(self._brokers, await asyncio.gather(*answers), strict=True))

    async def _leader(self) -> BrokerId | None:
        """The leader of the newest epoch of the metadata quorum that any broker names."""
        quorums = await asyncio.gather(*(asyncio.to_thread(_quorum_of, address) for address in self._brokers.values()))
        newest = max((quorum for quorum in quorums if quorum is not None), key=lambda quorum: quorum.leader_epoch, default=None)
        return None if newest is None or newest.leader_id < 0 else BrokerId(newest.leader_id)


def create(address: HostPort, topics: tuple[NewTopic, ...]) -> tuple[TopicResult, ...]:
    """Ask the node at this address to create topics. HarnessError if it does not answer."""
    question = _CreateTopics(topics=topics)
    try:
        answer = ask(address, ApiKey.CREATE_TOPICS, _CREATE_VERSION, question, CreateTopicsResponse, timeout_s=_CREATE_MS / 1000)
    except (OSError, WireError) as error:
        raise HarnessError(f"creating the topics: {error}") from error
    return answer.topics


def _features_of(address: HostPort) -> _Features:
    """The features that this broker knows, and those of its cluster; none if it does not answer."""
    try:
        return ask(address, ApiKey.API_VERSIONS, _FEATURES_VERSION, _AskedFeatures(), _Features)
    except (OSError, WireError):
        return _Features()


def _raise_level(address: HostPort, level: int) -> bool:
    """Ask this broker, which hands it on to the controller, to raise metadata.version; whether that was done."""
    question = _UpdateFeatures(feature_updates=(_Update(feature=LEVEL, max_version_level=level),))
    try:
        answer = ask(address, _UPDATE_FEATURES, 1, question, _Updated, timeout_s=_CREATE_MS / 1000)
    except (OSError, WireError):
        return False
    return not answer.error_code and not any(result.error_code for result in answer.results)


def _quorum_of(address: HostPort) -> _Partition | None:
    """The KRaft quorum as this broker describes it; None if it does not answer."""
    try:
        answer = ask(address, DESCRIBE_QUORUM, 0, _Quorum(), _Quorum)
    except (OSError, WireError):
        return None
    return next((partition for topic in answer.topics for partition in topic.partitions), None)
