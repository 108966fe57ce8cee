"""Nothing is sent to an address that the file of a user's cluster does not name, and its cluster is left as it was."""

import asyncio
from pathlib import Path

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from highwater.backends.real.clients import settings
from highwater.backends.real.systems.external import cluster
from highwater.backends.real.systems.external.cluster import ExternalCluster
from highwater.backends.real.systems.external.file import Description, Entry, Hooks, harness_addresses_of, load
from highwater.backends.real.systems.external.site import ExternalSite
from highwater.backends.real.systems.kafka import quorum
from highwater.backends.real.systems.kafka.quorum import NewTopic
from highwater.backends.real.systems.metadata import BrokerMetadata
from highwater.backends.real.systems.uncoordinated import state_of
from highwater.backends.real.zookeeper.admin import states_of
from highwater.errors import HarnessError
from highwater.plans.plan import Membership
from highwater.plans.text import load_plan
from highwater.rig.attempts import Reply
from highwater.rig.scene import scene_of
from reference.client.calls import LatestCall
from reference.config import TopicSpec
from reference.coordination import paths
from reference.messages import IsrMember, PartitionState
from reference.types import NO_INCARNATION, Address, BrokerId, topic_partition
from server.lab.power import Loss
from server.wire.clients.apis import ApiKey
from server.wire.clients.topics import DeleteTopicsRequest, DeleteTopicsResponse, TopicResult
from tests.tidy.sources import ROOT

B1, WHERE = Address("b1"), ("127.0.0.1", 1)
FILE = """\
nodes:
- {id: 1, address: "127.0.0.1:1"}
hooks:
  kill: [sh, -c, "echo kill {node} >> done"]
  start: [sh, -c, "echo start {node} >> done"]
  pause: [sh, -c, "echo pause {node} >> done"]
  resume: [sh, -c, "echo resume {node} >> done"]
  lose: [sh, -c, "echo lose {node} >> done"]
  cut: [sh, -c, "echo cut {node} {peer} >> done"]
  heal: [sh, -c, "echo heal {node} {peer} >> done"]
"""


B2, WHERE_2 = Address("b2"), ("127.0.0.1", 2)
MINE = Path("my.yaml")
NODES = Description(nodes=(Entry(id=7, address="127.0.0.1:2"), Entry(id=0, address="127.0.0.1:1")))
TOPIC = TopicSpec(name="t", partitions=1, replication_factor=2, min_insync_replicas=1, flush="none")
PLAN = replace(load_plan(ROOT / "corpus" / "real" / "kip101.yaml"), schedule=())
PLAN = replace(PLAN, cluster=replace(PLAN.cluster, brokers=2, topics=(TOPIC,)))
SCENE = scene_of(PLAN)


def state(topic: str, leader: int, replicas: tuple[int, ...]) -> PartitionState:
    """The state of partition 0 of a topic, as a node tells it."""
    members = tuple(IsrMember(BrokerId(broker), NO_INCARNATION) for broker in replicas)
    state = state_of(topic_partition(topic, 0), BrokerId(leader))
    return replace(state, isr=members, replicas=tuple(map(BrokerId, replicas)))


class Nodes:
    """Stands for the nodes 0 and 7 of a cluster without KRaft: what each tells, and what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told = BrokerMetadata(
            brokers={0: WHERE, 7: WHERE_2}, controller=7, partitions=(state("t", 7, (0, 7)), state("other", 9, (9,)))
        )
        self.versions: dict[int, int] = {ApiKey.METADATA: 12, ApiKey.CREATE_TOPICS: 7, ApiKey.DELETE_TOPICS: 6}
        self.asked: list[tuple[tuple[str, int], tuple[NewTopic, ...]]] = []
        self.controller = WHERE_2
        self.end = 0
        self.deleted: list[tuple[str, ...]] = []
        monkeypatch.setattr(quorum, "told_by", lambda where, *, partitions, internal: self.told)
        monkeypatch.setattr(quorum, "_quorum_of", lambda where: None)
        monkeypatch.setattr(cluster, "create", self.create)
        monkeypatch.setattr(cluster, "KafkaClient", lambda name, brokers, **_: self)
        monkeypatch.setattr(quorum, "ask", self.delete)
        for module in (quorum, cluster):
            monkeypatch.setattr(module, "served_version", lambda where, api: self.versions.get(api))
        monkeypatch.setattr(cluster, "served_versions", lambda where: self.versions)

    def create(self, where: tuple[str, int], topics: tuple[NewTopic, ...]) -> list[TopicResult]:
        self.asked.append((where, topics))
        code = 0 if where == self.controller else 41
        return [TopicResult(name=topic.name, error_code=code, error_message="") for topic in topics]

    def delete(
        self, where: object, api: int, version: int, question: DeleteTopicsRequest, kind: type, timeout_s: float
    ) -> object:
        self.deleted.append(question.topic_names)
        return DeleteTopicsResponse(responses=())

    async def call(self, call: LatestCall) -> Reply:
        return Reply(id=call.id, offset=self.end)

    async def close(self) -> None:
        pass

    def seen(self, **changed: object) -> ExternalCluster:
        """The cluster, whose nodes tell something else than usual."""
        self.told = replace(self.told, **changed)
        return ExternalCluster({B1: WHERE, B2: WHERE_2}, NODES, MINE, PLAN)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    return Nodes(monkeypatch)


def test_nodes_have_the_names_of_plans_whatever_their_ids(nodes: Nodes) -> None:
    """Node 0 is b1 and node 7 is b2, also as leader and as replica; node 7 is the controller."""
    cluster = nodes.seen()

    assert asyncio.run(cluster.gathered())
    tp = topic_partition("t", 0)
    tree = asyncio.run(cluster.seen((tp,)))
    assert states_of(tree, (tp,))[tp] == replace(state("t", 2, (1, 2)), replicas=())  # a state's znode has no replicas
    assert tree.nodes[paths.CONTROLLER].data == paths.controller_payload(BrokerId(2))


def test_other_topics_of_the_cluster_are_not_looked_at(nodes: Nodes) -> None:
    """One of them may have replicas anywhere, and changes while the run lasts."""
    partitions_by_broker = asyncio.run(nodes.seen().look()).told

    assert partitions_by_broker == {B1: (state("t", 2, (1, 2)),), B2: (state("t", 2, (1, 2)),)}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"brokers": {0: ("192.0.2.1", 9092)}}, r"b1 \(node 0\) advertises 192\.0\.2\.1:9092, which my\.yaml does not name$"),
        ({"brokers": {0: WHERE, 2: WHERE_2}}, r"the node at 127\.0\.0\.1:2 has the id 2 in the cluster; my\.yaml says 7$"),
        ({"partitions": (state("t", 7, (7, 8)),)}, r"t-0 has a replica on node 8, which my\.yaml does not name$"),
    ],
)
def test_cluster_other_than_the_file_says_ends_the_run(nodes: Nodes, changed: dict[str, object], message: str) -> None:
    """A client would connect to what the broker advertises."""
    with pytest.raises(HarnessError, match=message):
        asyncio.run(nodes.seen(**changed).seen((topic_partition("t", 0),)))


def test_old_cluster_is_refused_with_the_version_that_is_needed(nodes: Nodes) -> None:
    nodes.versions[ApiKey.METADATA] = 5

    with pytest.raises(HarnessError, match=r"b1 \(node 0\) serves Metadata up to version 5; 8 is needed"):
        asyncio.run(nodes.seen().gathered())


SECURE = Description(
    nodes=(
        Entry(id=0, address="localhost:91", harness="127.0.0.1:1"),
        Entry(id=7, address="localhost:92", harness="127.0.0.1:2"),
    ),
    clients={"security.protocol": "SASL_SSL"},
)


def test_clients_have_addresses_and_settings_of_their_own(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness asks without encryption, and clients are told other addresses with it."""
    clients_made: list[object] = []
    address_by_broker = {0: ("localhost", 91), 7: ("localhost", 92)}

    def advertised(brokers: object, settings: object, *, timeout_s: float) -> dict[int, tuple[str, int]]:
        clients_made.append((brokers, settings))
        return address_by_broker

    monkeypatch.setattr(cluster, "advertised", advertised)
    mine = ExternalCluster(harness_addresses_of(SECURE), SECURE, MINE, PLAN)

    assert asyncio.run(mine.gathered())
    assert clients_made == [({B1: ("localhost", 91), B2: ("localhost", 92)}, {"security.protocol": "SASL_SSL"})]
    address_by_broker[7] = ("192.0.2.1", 92)
    with pytest.raises(HarnessError, match=r"node 7 advertises 192\.0\.2\.1:92 to clients, which my\.yaml does not name$"):
        asyncio.run(mine.gathered())


def test_node_with_one_listener_tells_its_door_the_other_address(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness asks at the door, where such a node tells everybody the address at which the proxy stands."""
    entries = (Entry(id=0, address="localhost:91", door="127.0.0.1:1"), Entry(id=7, address="localhost:92", door="127.0.0.1:2"))
    doors = Description(nodes=entries)
    for_clients = {0: ("localhost", 91), 7: ("localhost", 92)}
    monkeypatch.setattr(cluster, "advertised", lambda *_, timeout_s: for_clients)
    nodes.told = replace(nodes.told, brokers=for_clients)

    assert asyncio.run(ExternalCluster(harness_addresses_of(doors), doors, MINE, PLAN).gathered())


@pytest.mark.slow
def test_cluster_that_clients_do_not_reach_is_named_with_why() -> None:
    with pytest.raises(HarnessError, match=r"^clients get no answer at 127\.0\.0\.1:1: .*refused"):
        settings.advertised({B1: WHERE}, {}, timeout_s=1.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"acks": 1}, "the harness sets acks itself"),
        ({"compresion.type": "lz4"}, 'No such configuration property: "compresion.type"'),
        ({"security.protocol": "TLS"}, 'Invalid value "TLS" for configuration property "security.protocol"'),
        ({"compression.type": "lz4", "client.rack": "a"}, None),
    ],
)
def test_settings_of_clients_are_checked_before_a_run(wrong: dict[str, str | int | bool], words: str | None) -> None:
    assert settings.refused(wrong) == words


def test_node_that_the_cluster_lacks_is_named(nodes: Nodes) -> None:
    lacking = asyncio.run(nodes.seen(brokers={7: WHERE_2}).lacking())

    assert lacking == "b1 (node 0) lists the nodes 7, and my.yaml has 0, too"


def test_topics_are_created_by_the_controller_with_its_ids(nodes: Nodes) -> None:
    """Without KRaft every other node answers error 41."""
    cluster = nodes.seen(partitions=())

    asyncio.run(cluster.create_topics(SCENE))
    cluster.close()

    ((where, (topic,)),) = nodes.asked
    assert (where, [tuple(assigned.broker_ids) for assigned in topic.assignments]) == (WHERE_2, [(0, 7)])
    assert nodes.deleted == [("t",)]


def test_topics_of_a_single_node_are_created_by_numbers(nodes: Nodes) -> None:
    """tansu 0.6 makes three partitions, its default, if a request names the replicas of each."""
    nodes.told = BrokerMetadata(brokers={7: WHERE_2}, controller=7, partitions=())
    alone = Description(nodes=NODES.nodes[:1])
    plan = replace(PLAN, cluster=replace(PLAN.cluster, brokers=1, topics=(replace(TOPIC, partitions=4, replication_factor=1),)))

    asyncio.run(ExternalCluster({B1: WHERE_2}, alone, MINE, plan).create_topics(scene_of(plan)))

    ((_, (topic,)),) = nodes.asked
    assert (topic.num_partitions, topic.replication_factor, topic.assignments) == (4, 1, ())


def test_topic_that_came_out_otherwise_ends_the_run(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the run would wait for a leader of a partition that nobody made."""
    monkeypatch.setattr(cluster, "_BETWEEN_ROUNDS_S", 0)
    mine = nodes.seen(partitions=())
    made = tuple(replace(state("t", 7, (0, 7)), tp=topic_partition("t", number)) for number in (0, 1))
    create = nodes.create

    def create_two(where: tuple[str, int], topics: tuple[NewTopic, ...]) -> list[TopicResult]:
        nodes.told = replace(nodes.told, partitions=made)
        return create(where, topics)

    monkeypatch.setattr(cluster, "create", create_two)

    with pytest.raises(HarnessError, match=r"the cluster made topic t with 2 partitions; the plan needs 1$"):
        asyncio.run(mine.create_topics(SCENE))


def test_other_nodes_are_asked_when_the_controller_has_changed(nodes: Nodes) -> None:
    nodes.controller = WHERE

    asyncio.run(nodes.seen(partitions=()).create_topics(SCENE))

    assert [where for where, _ in nodes.asked] == [WHERE_2, WHERE]


def test_empty_topic_of_the_cluster_is_used_and_left_there(nodes: Nodes) -> None:
    cluster = nodes.seen()

    asyncio.run(cluster.create_topics(SCENE))
    cluster.close()

    assert (nodes.asked, nodes.deleted) == ([], [])


def test_topic_with_records_or_another_shape_is_refused(nodes: Nodes) -> None:
    nodes.end = 5
    with pytest.raises(HarnessError, match=r"topic t exists and had records \(t-0 ends at 5\): delete it$"):
        asyncio.run(nodes.seen().create_topics(SCENE))
    with pytest.raises(HarnessError, match=r"topic t exists with 1 partitions of 1 replicas; the plan needs 1 of 2$"):
        asyncio.run(nodes.seen(partitions=(state("t", 0, (0,)),)).create_topics(SCENE))


@pytest.mark.parametrize(
    ("workload", "membership", "served", "request_name"),
    [
        ("transactions", UNSET, (10, 24, 26), "InitProducerId"),
        ("transactions", UNSET, (10, 22, 24), "EndTxn"),
        ("groups", UNSET, (10,), "JoinGroup"),
        ("groups", "consumer", (10,), "ConsumerGroupHeartbeat"),
        ("read-process-write", UNSET, (9, 10, 11, 12, 14, 22, 24, 25, 26), "TxnOffsetCommit"),
    ],
)
def test_cluster_without_a_request_of_the_workload_is_refused(
    nodes: Nodes, workload: str, membership: Membership | UnsetType, served: tuple[int, ...], request_name: str
) -> None:
    """Else calls of the run would fail, or what they began would never end."""
    plan = replace(PLAN, workload=replace(PLAN.workload, name=workload, membership=membership))
    nodes.versions |= dict.fromkeys(served, 0)

    with pytest.raises(HarnessError, match=f"does not serve {request_name}, which the workload {workload} needs$"):
        asyncio.run(nodes.seen().create_topics(scene_of(plan)))


def test_cluster_without_create_topics_must_bring_them(nodes: Nodes) -> None:
    del nodes.versions[ApiKey.CREATE_TOPICS]

    with pytest.raises(
        HarnessError, match=r"does not serve CreateTopics: create these topics first: t \(1 partitions, 2 replicas"
    ):
        asyncio.run(nodes.seen(partitions=()).create_topics(SCENE))
    asyncio.run(nodes.seen(partitions=(state("t", 7, (0, 7)),)).create_topics(SCENE))


def test_cluster_without_create_topics_needs_no_controller(nodes: Nodes) -> None:
    """Mock brokers of librdkafka name the controller 0, which is none of them; nothing asks for one there."""
    unnamed = nodes.seen(controller=9)
    assert not asyncio.run(unnamed.gathered())
    assert asyncio.run(unnamed.lacking()) == "the nodes name no controller that is in my.yaml"

    del nodes.versions[ApiKey.CREATE_TOPICS]

    assert asyncio.run(unnamed.gathered())


@pytest.fixture
def site(tmp_path: Path) -> ExternalSite:
    path = tmp_path / "my.yaml"
    path.write_text(FILE)
    return ExternalSite({B1: WHERE}, Hooks(load(path), tmp_path))


def test_second_run_on_a_cluster_is_refused_until_the_first_ends(
    site: ExternalSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would read the other's records, and its verdict would be wrong (docs/found.md)."""
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("highwater.backends.real.systems.external.site.served_version", lambda where, api: 1)
    another = ExternalSite({B1: WHERE_2, B2: WHERE}, Hooks(load(tmp_path / "my.yaml"), tmp_path))
    asyncio.run(site.open())

    with pytest.raises(HarnessError, match=r"^b2 at 127\.0\.0\.1:1: process \d+ on .* has a run on it; wait for its end$"):
        asyncio.run(another.open())
    another.close()
    site.close()
    asyncio.run(another.open())
    another.close()


def test_node_that_a_fault_left_down_is_started_at_the_end(site: ExternalSite, tmp_path: Path) -> None:
    asyncio.run(site.nodes[BrokerId(1)].kill())

    site.stop()
    site.close()

    assert (tmp_path / "done").read_text().splitlines() == ["kill 1", "start 1"]


def test_node_that_loses_power_is_down_meanwhile(site: ExternalSite, tmp_path: Path) -> None:
    node = site.nodes[BrokerId(1)]

    asyncio.run(node.kill())
    wounds = asyncio.run(node.lose_unflushed((0,), Loss(seed=1)))
    asyncio.run(node.start())

    assert (tmp_path / "done").read_text().splitlines() == ["kill 1", "lose 1", "start 1"]
    assert wounds == ()  # nobody tells which logs lost something


def test_node_that_a_fault_left_paused_is_resumed_at_the_end(site: ExternalSite, tmp_path: Path) -> None:
    asyncio.run(site.nodes[BrokerId(1)].pause())

    site.stop()

    assert (tmp_path / "done").read_text().splitlines() == ["pause 1", "resume 1"]


def test_hooks_are_given_the_ids_of_the_cluster(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(FILE.replace("- {id: 1,", '- {id: 7, address: "127.0.0.1:2"}\n- {id: 0,'))
    hooks = Hooks(load(path), tmp_path)

    hooks.run("kill", B2)
    hooks.run("cut", B1, B2)

    assert (tmp_path / "done").read_text().splitlines() == ["kill 7", "cut 0 7"]


def test_first_start_of_a_run_leaves_the_users_node_alone(site: ExternalSite, tmp_path: Path) -> None:
    """The user's cluster runs already."""
    asyncio.run(site.nodes[BrokerId(1)].start())

    assert not (tmp_path / "done").exists()
