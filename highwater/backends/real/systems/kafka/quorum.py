"""A Kafka cluster with KRaft as the harness sees it: no ZooKeeper, all answers come from the brokers' metadata.

The faults name their targets by ZooKeeper's tree (who leads, who is in the ISR, who is controller), so `seen` makes one from what
the brokers tell. The leader of the metadata quorum (DescribeQuorum) stands where the controller stood.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType

from msgspec import Struct

from highwater.backends.real.cluster_state import EndState
from highwater.backends.real.site import HostPort, Probe, Proof, looking_again
from highwater.backends.real.systems.kafka import settings
from highwater.backends.real.systems.metadata import BrokerMetadata, know_each_other, served_version, told_by, unwhole
from highwater.backends.real.systems.uncoordinated import Uncoordinated, tree_of
from highwater.backends.real.systems.zookeeper import topic_settings
from highwater.errors import HarnessError
from highwater.rig.scene import Scene
from reference.coordination.memory import MemoryZooKeeper
from reference.messages import PartitionState
from reference.types import Address, BrokerId, TopicPartition, broker_address
from server.runtime.health import ask
from server.wire.clients.apis import ApiKey
from server.wire.clients.topics import (
    CreatableAssignment,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    TopicResult,
)
from server.wire.framing import WireError

DESCRIBE_QUORUM = 55
_METADATA_LOG = "__cluster_metadata"
_CREATE_VERSION = 4
_CREATE_MS = 30_000
_DELETE_VERSION_MAX = 3
_DELETE_S = 30
LEVEL = "metadata.version"  # the feature that says which records a controller writes (KIP-778)
_FEATURES_VERSION = 3  # the first of ApiVersions with features
_UPDATE_FEATURES = 57
_EXISTS = 36  # TOPIC_ALREADY_EXISTS
_ADD_VOTER, _REMOVE_VOTER = 80, 81  # KIP-853
_UNREGISTER_BROKER = 64
_FORGOTTEN = ("error 0:", "error 102:")  # 102: BROKER_ID_NOT_REGISTERED, the answer to an earlier request was lost
_CHANGE_MS = 10_000  # until a request that changes the voters is answered
_CHANGE_S_MAX = 60.0  # until one was done: a quorum may have to be elected first


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


class _Voter(Struct, frozen=True, kw_only=True):
    replica_id: int


class _Partition(Struct, frozen=True, kw_only=True):
    partition_index: int = 0
    leader_id: int = -1
    leader_epoch: int = -1
    current_voters: tuple[_Voter, ...] = ()


class _Log(Struct, frozen=True, kw_only=True):
    topic_name: str = _METADATA_LOG
    partitions: tuple[_Partition, ...] = (_Partition(),)


class _Quorum(Struct, frozen=True, kw_only=True):
    topics: tuple[_Log, ...] = (_Log(),)


class _Listener(Struct, frozen=True, kw_only=True):
    name: str
    host: str
    port: int


class _AddVoter(Struct, frozen=True, kw_only=True):
    voter_id: int
    voter_directory_id: int
    listeners: tuple[_Listener, ...]
    cluster_id: str | None = None
    timeout_ms: int = _CHANGE_MS


class _RemoveVoter(Struct, frozen=True, kw_only=True):
    voter_id: int
    voter_directory_id: int
    cluster_id: str | None = None


class _Changed(Struct, frozen=True, kw_only=True):
    error_code: int
    error_message: str | None = None


class _Unregister(Struct, frozen=True, kw_only=True):
    broker_id: int


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
    """A running cluster with KRaft; `servers` are its controllers where they run apart from the brokers."""

    def __init__(self, brokers: Mapping[Address, HostPort], servers: Mapping[Address, HostPort] = MappingProxyType({})) -> None:
        self._brokers = brokers
        self._servers = servers
        self._seen = MemoryZooKeeper()

    async def gathered(self) -> bool:
        """Whether every broker that is not absent serves and lists all of these, and the quorum has a leader."""
        present = self._present()
        served = await asyncio.gather(*(asyncio.to_thread(served_version, w, ApiKey.METADATA) for w in present.values()))
        if None in served:
            return False
        return know_each_other(await self._told(partitions=False), present) and await self._has_controller()

    def _present(self) -> dict[Address, HostPort]:
        """The brokers that are in the cluster now."""
        return {node: where for node, where in self._brokers.items() if node not in self.absent}

    async def _has_controller(self) -> bool:
        return await self._leader() is not None

    async def create_topics(self, scene: Scene) -> None:
        """Create the topics of the scene by a request to the first broker, which hands it on to the controller."""
        for result in await asyncio.to_thread(create, next(iter(self._present().values())), self._new_topics(scene)):
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
        for answer in (await self._told(partitions=True, internal=True)).values():
            for state in () if answer is None else answer.partitions:
                before = newest.get(state.tp)
                if state.tp in tps and (before is None or state.leader_epoch > before.leader_epoch):
                    newest[state.tp] = state
        leader = await self._leader()
        # A controller apart from the brokers is no target that a broker's fault could name.
        controller = leader if leader is not None and broker_address(leader) in self._brokers else None
        nodes = tree_of(controller, newest.values()).nodes
        self._seen = MemoryZooKeeper(nodes={**self._seen.nodes, **nodes})
        return self._seen

    async def look(self) -> EndState:
        """Read each broker's metadata once; a broker that does not answer in time has no partitions."""
        told = await self._told(partitions=True)
        return EndState((), {}, {node: () if answer is None else answer.partitions for node, answer in told.items()})

    async def unready(self, topics: Collection[str]) -> str | None:
        """Why no run with these topics can begin on the cluster now, in a sentence; None if one can."""
        reason = unwhole(await self._told(partitions=True, internal=True), topics)
        return reason or (None if await self._has_controller() else "the quorum has no leader")

    async def raise_level(self) -> str | None:
        """Raise metadata.version to the highest that all brokers know; None while not all serve, or a controller refuses."""
        if not await self.gathered():
            return None
        present = self._present().values()
        known = await asyncio.gather(*(asyncio.to_thread(_features_of, address) for address in present))
        highest = [feature.max_version for features in known for feature in features.supported_features if feature.name == LEVEL]
        if len(highest) < len(present):
            return None
        level = min(highest)
        final = {
            feature.max_version_level for features in known for feature in features.finalized_features if feature.name == LEVEL
        }
        if final != {level} and not await asyncio.to_thread(_raise_level, next(iter(present)), level):
            return None
        return f"{LEVEL} is {level}, before {', '.join(map(str, sorted(final)))}"

    async def is_vacant(self, broker: BrokerId) -> bool:
        """Whether no broker tells of a partition with a replica on this one; False if nobody answers."""
        told = [answer for answer in (await self._told(partitions=True, internal=True)).values() if answer is not None]
        return bool(told) and not any(broker in state.replicas for answer in told for state in answer.partitions)

    async def forget(self, broker: BrokerId) -> Probe:
        """Ask for a broker that is down to be unregistered; the probe sees whether it is."""
        asked = _Unregister(broker_id=broker)

        async def look() -> Proof:
            answer = await self._error_of_change(_UNREGISTER_BROKER, asked)
            if answer.startswith(_FORGOTTEN):
                return Proof(True, "it is not registered")
            return Proof(False, f"it could not be unregistered; the last answer: {answer}")

        return looking_again(look, seconds=_CHANGE_S_MAX)

    async def leave(self, server: Address) -> Probe:
        """Ask for a controller to be removed from the voters (KIP-853); the probe sees whether it is."""
        voter = settings.node_id_of(server)
        asked = _RemoveVoter(voter_id=voter, voter_directory_id=int.from_bytes(settings.directory_of(server), "big"))
        return self._changing(_REMOVE_VOTER, asked, voter, votes=False)

    async def join(self, server: Address) -> Probe:
        """Ask for a controller to be added to the voters again; the probe sees whether it is."""
        voter = settings.node_id_of(server)
        listener = _Listener(name=settings.QUORUM, host=settings.name_of(server), port=self._servers[server][1])
        directory = int.from_bytes(settings.directory_of(server), "big")
        asked = _AddVoter(voter_id=voter, voter_directory_id=directory, listeners=(listener,))
        return self._changing(_ADD_VOTER, asked, voter, votes=True)

    def _changing(self, api: int, asked: Struct, voter: int, *, votes: bool) -> Probe:
        """A probe that sends a request to change the voters, again and again until the quorum's leader says that it was done.

        Without a quorum an answer takes long, and the faults that follow must not wait for it: so the probe sends the first.
        """

        async def look() -> Proof:
            last = await self._error_of_change(api, asked)
            quorum = await self._quorum()
            voters = [] if quorum is None else sorted(each.replica_id for each in quorum.current_voters)
            names = ", ".join(map(str, voters))
            if voters and (voter in voters) == votes:
                return Proof(True, f"the voters are {names}")
            return Proof(False, f"the voters are {names or 'unknown'}; the last answer: {last}")

        return looking_again(look, seconds=_CHANGE_S_MAX)

    async def _error_of_change(self, api: int, asked: Struct) -> str:
        """Ask a broker that answers, which hands it on to the controller, for a change; the error, in words."""
        serving = await self._described()
        if not serving:
            return "none: no broker describes the quorum"
        return await asyncio.to_thread(_error_of_change, next(iter(serving)), api, asked)

    async def _told(self, *, partitions: bool, internal: bool = False) -> dict[Address, BrokerMetadata | None]:
        answers = (
            asyncio.to_thread(told_by, where, partitions=partitions, internal=internal) for where in self._brokers.values()
        )
        return dict(zip(self._brokers, await asyncio.gather(*answers), strict=True))

    async def _leader(self) -> BrokerId | None:
        """The leader of the newest epoch of the metadata quorum that any broker names."""
        newest = await self._quorum()
        return None if newest is None or newest.leader_id < 0 else BrokerId(newest.leader_id)

    async def _quorum(self) -> _Partition | None:
        """The newest epoch of the metadata quorum that any broker describes."""
        return max((await self._described()).values(), key=lambda quorum: quorum.leader_epoch, default=None)

    async def _described(self) -> dict[HostPort, _Partition]:
        """The metadata quorum as each broker that answers describes it."""
        quorums = await asyncio.gather(*(asyncio.to_thread(_quorum_of, address) for address in self._brokers.values()))
        return {address: of for address, of in zip(self._brokers.values(), quorums, strict=True) if of is not None}


def create(address: HostPort, topics: tuple[NewTopic, ...]) -> tuple[TopicResult, ...]:
    """Ask the node at this address to create topics. HarnessError if it does not answer."""
    question = _CreateTopics(topics=topics)
    try:
        answer = ask(address, ApiKey.CREATE_TOPICS, _CREATE_VERSION, question, CreateTopicsResponse, timeout_s=_CREATE_MS / 1000)
    except (OSError, WireError) as error:
        raise HarnessError(f"creating the topics: {error}") from error
    return answer.topics


def delete(addresses: Iterable[HostPort], names: tuple[str, ...]) -> None:
    """Ask the nodes at these addresses, one after the other, to delete topics, until one does; else they stay."""
    question = DeleteTopicsRequest(topic_names=names, timeout_ms=_DELETE_S * 1000)
    for address in addresses if names else ():
        version = served_version(address, ApiKey.DELETE_TOPICS)
        if version is None:
            continue
        with suppress(OSError, WireError):
            at_most = min(version, _DELETE_VERSION_MAX)
            answer = ask(address, ApiKey.DELETE_TOPICS, at_most, question, DeleteTopicsResponse, timeout_s=float(_DELETE_S))
            if not any(answered_topic.error_code for answered_topic in answer.responses):
                return


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


def _error_of_change(address: HostPort, api: int, asked: Struct) -> str:
    """Ask this broker, which hands it on to the controller, for a change; the error that it answers, in words."""
    try:
        answer = ask(address, api, 0, asked, _Changed, timeout_s=_CHANGE_MS / 1000)
    except (OSError, WireError) as error:
        return f"none ({error})"
    return f"error {answer.error_code}: {answer.error_message}"


def _quorum_of(address: HostPort) -> _Partition | None:
    """The KRaft quorum as this broker describes it; None if it does not answer."""
    try:
        answer = ask(address, DESCRIBE_QUORUM, 0, _Quorum(), _Quorum)
    except (OSError, WireError):
        return None
    return next((partition for topic in answer.topics for partition in topic.partitions), None)
