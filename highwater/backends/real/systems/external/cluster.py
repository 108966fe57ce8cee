"""A user's running cluster as the harness sees it: told by its nodes' metadata, in the names that plans give to brokers.

The cluster's own ids (from 0 on, with gaps) are translated here and nowhere else. Other topics of the cluster are not looked at.
What the file says wrongly is found by `gathered`, before a topic is created or a client connects.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from highwater.backends.real.clients.kafka import KafkaClient
from highwater.backends.real.clients.settings import advertised
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.external.file import Description, addresses_of, ids_of
from highwater.backends.real.systems.kafka.quorum import NewTopic, QuorumCluster, create, delete
from highwater.backends.real.systems.metadata import VERSION_MAX, BrokerMetadata, served_version, served_versions
from highwater.errors import HarnessError
from highwater.plans.plan import Plan
from highwater.rig.scene import Scene
from nemesis.messages import KINDS
from reference.client.calls import LatestCall
from reference.config import TopicSpec
from reference.messages import IsrMember, PartitionState
from reference.types import Address, BrokerId, TopicPartition, broker_address, topic_of
from server.wire.clients.apis import ApiKey
from workloads.registry import READ_PROCESS_WRITE, SHARE_GROUPS, ZOMBIES

_LOOK_MS = 5000
_NOT_CONTROLLER = 41  # the error of a node that is not the controller and does not hand the request on
_ROUNDS = 10  # of asking every node to create the topics, while controllers change
_BETWEEN_ROUNDS_S = 0.5
# The requests without any of which nothing of a workload works. A cluster that serves InitProducerId and no EndTxn lets
# transactions begin that nobody ends.
_TRANSACTION = ("find-coordinator", "init-producer-id", "add-partitions-to-txn", "end-txn")
_GROUP = ("find-coordinator", "join-group", "sync-group", "heartbeat", "offset-fetch")
_NEEDED = {
    "transactions": _TRANSACTION,
    "groups": (*_GROUP, "offset-commit"),
    READ_PROCESS_WRITE: (*_TRANSACTION, *_GROUP, "add-offsets-to-txn", "txn-offset-commit"),
    ZOMBIES: _TRANSACTION,
    SHARE_GROUPS: ("find-coordinator", "share-group-heartbeat", "share-fetch", "share-acknowledge"),
}
_OF_KIP_848 = ("find-coordinator", "consumer-group-heartbeat", "offset-fetch", "offset-commit")
_NUMBERS = {name: number for number, name in KINDS.items()}


class ExternalCluster(QuorumCluster):
    """A user's running cluster. Topics of the plan that it does not have are created, and deleted at the end."""

    def __init__(
        self, brokers: Mapping[Address, HostPort], description: Description, file: Path, plan: Plan | None = None
    ) -> None:
        """`brokers` are where the harness asks; without a plan no topic is looked at."""
        super().__init__(brokers)
        self._description = description
        self._ids = ids_of(description)
        self._names = {id: BrokerId(int(name.removeprefix("b"))) for name, id in self._ids.items()}
        self._file = file
        self._topics = frozenset(() if plan is None else (topic.name for topic in plan.cluster.topics))
        self._topics_made: tuple[str, ...] = ()
        self._any = next(iter(brokers.values()))  # for questions that every node answers alike

    async def gathered(self) -> bool:
        """Whether every node serves and lists all nodes. HarnessError for what waiting does not change."""
        for name, where in self._brokers.items():
            version = await asyncio.to_thread(served_version, where, ApiKey.METADATA)
            if version is not None and version < VERSION_MAX:
                needed = f"{VERSION_MAX} is needed (Apache Kafka 2.3 or later)"
                raise HarnessError(f"{self._node_in_words(name)} serves Metadata up to version {version}; {needed}")
        return await super().gathered() and await self._greets_clients()

    async def _has_controller(self) -> bool:
        """Whether there is one, or none is needed: nobody but CreateTopics asks for it."""
        return await super()._has_controller() or await asyncio.to_thread(served_version, self._any, ApiKey.CREATE_TOPICS) is None

    async def _greets_clients(self) -> bool:
        """Whether clients are told the addresses of the file, if they have others than the harness, or settings."""
        addresses = addresses_of(self._description)
        settings = self._description.clients
        if addresses == self._brokers and not settings:
            return True
        broker_addresses = await asyncio.to_thread(advertised, addresses, settings, timeout_s=_LOOK_MS / 1000)
        named = {self._ids[name]: where for name, where in addresses.items()}
        for id, where in broker_addresses.items():
            if named.get(id) != where:
                raise HarnessError(f"node {id} advertises {where[0]}:{where[1]} to clients, which {self._file} does not name")
        return {*broker_addresses} == {*named}

    async def lacking(self) -> str | None:
        """What keeps the cluster from being complete, in a sentence; None if nothing does."""
        metadata_of_broker = await self._told(partitions=False)
        for name, answer in metadata_of_broker.items():
            if answer is None:
                return f"{self._node_in_words(name)} does not answer"
            lists = [str(self._ids[broker_address(BrokerId(broker))]) for broker in sorted(answer.brokers)]
            missing = [str(id) for id in self._ids.values() if str(id) not in lists]
            if missing:
                words = f"{self._node_in_words(name)} lists the nodes {', '.join(lists)}"
                return f"{words}, and {self._file} has {', '.join(missing)}, too"
        return None if await self._has_controller() else f"the nodes name no controller that is in {self._file}"

    async def create_topics(self, scene: Scene) -> None:
        """Create the topics that the cluster does not have. HarnessError if one that it has does not fit, or none can be made."""
        plan = scene.plan
        served = await asyncio.to_thread(served_versions, self._any)
        for request in _OF_KIP_848 if plan.workload.membership == "consumer" else _NEEDED.get(plan.workload.name, ()):
            if _NUMBERS[request] not in served:
                name = "".join(word.capitalize() for word in request.split("-"))
                raise HarnessError(f"the cluster does not serve {name}, which the workload {plan.workload.name} needs")
        states_by_topic: dict[str, list[PartitionState]] = {}
        for state in next((answer.partitions for answer in (await self._told(partitions=True)).values() if answer), ()):
            states_by_topic.setdefault(topic_of(state.tp), []).append(state)
        for spec in plan.cluster.topics:
            if spec.name in states_by_topic:
                await self._check_usable(spec, states_by_topic[spec.name])
        new = [topic for topic in self._new_topics(scene) if topic.name not in states_by_topic]
        if not new:
            return
        if ApiKey.CREATE_TOPICS not in served:
            needed = ", ".join(
                f"{spec.name} ({spec.partitions} partitions, {spec.replication_factor} replicas)" for spec in plan.cluster.topics
            )
            raise HarnessError(f"the cluster does not serve CreateTopics: create these topics first: {needed}")
        self._topics_made = tuple(topic.name for topic in new)
        await self._create_by_controller(tuple(new))
        await self._check_made(scene)

    async def _create_by_controller(self, new: tuple[NewTopic, ...]) -> None:
        """Ask the controller first, and the other nodes if it is another one by now."""
        for _ in range(_ROUNDS):
            controller = await self._leader()
            first = None if controller is None else broker_address(controller)
            for name in sorted(self._brokers, key=lambda name: name != first):
                results = await asyncio.to_thread(create, self._brokers[name], new)
                if all(result.error_code != _NOT_CONTROLLER for result in results):
                    for result in results:
                        if result.error_code:
                            raise HarnessError(f"creating topic {result.name}: error {result.error_code}: {result.error_message}")
                    return
            await asyncio.sleep(_BETWEEN_ROUNDS_S)
        raise HarnessError(f"creating the topics: no node says that it is the controller (error {_NOT_CONTROLLER})")

    def _new_topics(self, scene: Scene) -> tuple[NewTopic, ...]:
        """As of any cluster. One node leaves no choice of replicas, and not every broker heeds a choice."""
        topics = super()._new_topics(scene)
        if len(self._brokers) > 1:
            return topics
        return tuple(replace(one, num_partitions=len(one.assignments), replication_factor=1, assignments=()) for one in topics)

    async def _check_made(self, scene: Scene) -> None:
        """HarnessError if a topic that was created has another number of partitions, and keeps it."""
        wanted = {spec.name: spec.partitions for spec in scene.plan.cluster.topics if spec.name in self._topics_made}
        for _ in range(_ROUNDS):
            answers = [answer for answer in (await self._told(partitions=True)).values() if answer]
            numbers = Counter(topic_of(state.tp) for state in (answers[0].partitions if answers else ()))
            wrong = [name for name in wanted if numbers[name] not in (0, wanted[name])]
            if not wrong:
                return
            await asyncio.sleep(_BETWEEN_ROUNDS_S)
        made = f"the cluster made topic {wrong[0]} with {numbers[wrong[0]]} partitions"
        raise HarnessError(f"{made}; the plan needs {wanted[wrong[0]]}")

    async def _check_usable(self, spec: TopicSpec, states: list[PartitionState]) -> None:
        """HarnessError unless a topic of the cluster has the shape that the plan wants, and nothing was ever written to it."""
        has, wanted = (len(states), len(states[0].replicas)), (spec.partitions, spec.replication_factor)
        if has != wanted:
            needs = f"the plan needs {wanted[0]} of {wanted[1]}"
            raise HarnessError(f"topic {spec.name} exists with {has[0]} partitions of {has[1]} replicas; {needs}")
        addresses = addresses_of(self._description)
        settings = self._description.clients
        client = KafkaClient(Address("look"), addresses, request_timeout_ms=_LOOK_MS, settings=settings)
        try:
            for state in states:
                reply = await client.call(LatestCall(id=0, tp=state.tp))
                if reply.offset is None:
                    raise HarnessError(f"topic {spec.name} exists, and {state.tp} does not tell its end: {reply.error}")
                if reply.offset:
                    raise HarnessError(f"topic {spec.name} exists and had records ({state.tp} ends at {reply.offset}): delete it")
        finally:
            await client.close()

    def _node_id(self, broker: BrokerId) -> int:
        """The id of a broker in the cluster."""
        return self._ids[broker_address(broker)]

    async def _leader(self) -> BrokerId | None:
        """The leader of the metadata quorum, if it is one of the nodes; else the controller that a node's metadata names."""
        leader = await super()._leader()
        if leader is not None and leader in self._names:
            return self._names[leader]
        metadata_of_broker = await self._told(partitions=False)
        return next(
            (BrokerId(answer.controller) for answer in metadata_of_broker.values() if answer and answer.controller is not None),
            None,
        )

    async def _told(self, *, partitions: bool, internal: bool = False) -> dict[Address, BrokerMetadata | None]:
        told = await super()._told(partitions=partitions, internal=internal)
        return {name: None if answer is None else self._in_names_of_plan(name, answer) for name, answer in told.items()}

    def _in_names_of_plan(self, name: Address, answer: BrokerMetadata) -> BrokerMetadata:
        """What a node tells, with the brokers' names in plans. HarnessError if it tells of nodes that the file does not name."""
        # A node with one listener tells the harness, which asks at its door, the address for clients.
        named = {where: node for node, where in (*addresses_of(self._description).items(), *self._brokers.items())}
        for id, where in answer.brokers.items():
            if where not in named:
                raise HarnessError(
                    f"{self._node_in_words(name)} advertises {where[0]}:{where[1]}, which {self._file} does not name"
                )
            id_in_file = self._ids[named[where]]
            if id_in_file != id:
                raise HarnessError(
                    f"the node at {where[0]}:{where[1]} has the id {id} in the cluster; {self._file} says {id_in_file}"
                )
        controller = self._names.get(-1 if answer.controller is None else answer.controller)
        states_of_plan = (state for state in answer.partitions if topic_of(state.tp) in self._topics)
        brokers = {int(self._names[id]): where for id, where in answer.brokers.items()}
        return BrokerMetadata(
            brokers=brokers, controller=controller, partitions=tuple(map(self._state_in_names_of_plan, states_of_plan))
        )

    def _state_in_names_of_plan(self, state: PartitionState) -> PartitionState:
        """The state of a partition with the brokers' names in plans."""
        return replace(
            state,
            leader=None if state.leader is None else self._name_of(state.tp, state.leader),
            isr=tuple(IsrMember(self._name_of(state.tp, member.broker), member.incarnation) for member in state.isr),
            replicas=tuple(self._name_of(state.tp, broker) for broker in state.replicas),
        )

    def _name_of(self, tp: TopicPartition, id: int) -> BrokerId:
        if id not in self._names:
            raise HarnessError(f"{tp} has a replica on node {id}, which {self._file} does not name")
        return self._names[id]

    def words(self) -> str:
        """The nodes with their names in plans: b1 is node 0 …"""
        return ", ".join(f"{name} is node {id}" for name, id in self._ids.items())

    def _node_in_words(self, name: Address) -> str:
        """A node as messages name it: with its id, where plans have another number for it."""
        id = self._ids[name]
        return name if name == broker_address(BrokerId(id)) else f"{name} (node {id})"

    def close(self) -> None:
        """Delete the topics that were created; a cluster that does not answer keeps them."""
        delete(self._brokers.values(), self._topics_made)
