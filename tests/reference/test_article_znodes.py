"""The znodes of the 0.8 article, byte by byte where its schemas say so, with its examples where they can be read."""

from msgspec.structs import replace

from reference.client.commands import DeleteTopic, ElectPreferred, script
from reference.config import ARTICLE
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import Create, Data, Exists, Unknown
from reference.effects import AnyEffect, ZkRequest
from reference.events import ZkReplied
from reference.messages import IsrMember, PartitionState
from reference.types import (
    NO_INCARNATION,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    ZkVersion,
    topic_partition,
)
from tests.reference.lab import T0, Lab
from tests.reference.moving import broker_ids, write
from tests.reference.recorded import restart_leader, settled_cluster, shrink
from tests.reference.test_article import znode_at
from tests.reference.v3 import cluster_in_sync, crash_and_expire

TOPIC1, TOPIC2 = topic_partition("topic1", 8), topic_partition("topic2", 16)
STATE = PartitionState(
    T0,
    BrokerId(2),
    NO_INCARNATION,
    LeaderEpoch(7),
    isr=(),
    controller_epoch=ControllerEpoch(3),
    zk_version=ZkVersion(5),
    replicas=(),
)
OWN = b',"leader_incarnation":-1,"incarnations":[-1],"elr":[],"elr_incarnations":[]}'


def test_preferred_election_znode_is_that_of_the_article() -> None:
    """R-147: its example: partition 8 of topic1 and partition 16 of topic2."""
    example = b'{"version":1,"partitions":[{"topic":"topic1","partition":8},{"topic":"topic2","partition":16}]}'

    assert paths.PREFERRED_ELECTION == "/admin/preferred_replica_election"
    assert script(ElectPreferred(id=1, tps=(TOPIC1, TOPIC2))).path == "/admin/preferred_replica_election"
    assert paths.preferred_payload((TOPIC1, TOPIC2)) == example
    assert paths.preferred_payload((T0,)) == b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    assert paths.decode_preferred(example) == (TOPIC1, TOPIC2)


def test_preferred_replicas_of_all_listed_partitions_lead() -> None:
    """R-147: b1 was away, and b2 leads all three partitions."""
    lab = Lab(3)
    write(lab, Create("/admin", b""), Create(paths.topic_path("u"), paths.topic_payload((broker_ids(1, 2, 3),) * 2)))
    crash_and_expire(lab, 1)
    lab.start(1)
    lab.wait(3000)
    tps = (T0, topic_partition("u", 0), topic_partition("u", 1))
    write(lab, Create(paths.PREFERRED_ELECTION, paths.preferred_payload(tps)))
    states = lab.nodes[2].state.controller.states

    assert [states[tp].leader for tp in tps] == [1, 1, 1]


def test_preferred_election_request_stays_until_the_election() -> None:
    """R-147: "it will be deleted at the end of the operation", and the state is not written yet."""
    lab = settled_cluster("safe")
    assert restart_leader(lab) != 2
    lab.delays_write = lambda i, _: i == 1
    write(lab, Create("/admin", b""), Create(paths.PREFERRED_ELECTION, paths.preferred_payload((T0,))))
    lab.wait(200)
    early = exists(lab, paths.PREFERRED_ELECTION)
    lab.release_writes()
    lab.settle()

    assert (early, exists(lab, paths.PREFERRED_ELECTION)) == (True, False)
    assert lab.leaders() == [2]


def exists(lab: Lab, path: str) -> bool:
    (answer,), _ = lab.zk.submit(lab.admin, (Exists(path),))
    return isinstance(answer, Data)


def test_reassignment_znode_is_that_of_the_article() -> None:
    """R-148: its example: partition 1 of topic3 goes to brokers 1, 2 and 3."""
    example = b'{"version":1,"partitions":[{"topic":"topic3","partition":1,"replicas":[1,2,3]}]}'
    moves = {topic_partition("topic3", 1): Reassignment(broker_ids(1, 2, 3))}

    assert admin_paths.REASSIGN == "/admin/reassign_partitions"
    assert admin_paths.reassignments_payload(moves) == example
    assert admin_paths.reassignments_payload({T0: Reassignment(broker_ids(1))}) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}'
    )
    assert admin_paths.decode_reassignments(example) == (moves, 0)


def test_topic_deletion_znode_is_that_of_the_article() -> None:
    """R-149: its example: topic4 and topic5."""
    example = b'{"version":1,"topics":["topic4","topic5"]}'

    assert paths.DELETE_TOPICS == "/admin/delete_topics"
    assert script(DeleteTopic(id=1, topic="topic4")).path == "/admin/delete_topics"
    assert paths.delete_topics_payload(("topic4", "topic5")) == example
    assert paths.decode_delete_topics(example) == ("topic4", "topic5")


def test_registration_znode_is_that_of_the_article() -> None:
    """R-150: its example: broker node1, port 9092, without JMX; the version is KIP-343's."""
    example = b'{"version":4,"host":"node1","port":9092,"jmx_port":-1}'

    assert paths.broker_path(BrokerId(7)) == "/brokers/ids/7"
    assert paths.broker_payload(heartbeats=False, host="node1", port=9092) == example


def test_broker_registers_its_own_host_and_port() -> None:
    """R-150: whoever reads the znode may connect there."""
    lab = Lab(1, start=False)
    lab.configs[1] = replace(lab.configs[1], host="node1", port=9093)
    lab.start(1)

    assert znode_at(lab, "/brokers/ids/1").data == b'{"version":5,"host":"node1","port":9093,"jmx_port":-1}'


def test_topic_znode_is_that_of_the_article() -> None:
    """R-151: partition id -> replicas in the order of preference; a gap stays where a partition was removed."""
    assert paths.topic_path("topic1") == "/brokers/topics/topic1"
    assert paths.topic_path("Topic1") == "/brokers/topics/Topic1"
    assert paths.topic_payload((broker_ids(2, 1), broker_ids(3))) == b'{"version":1,"partitions":{"0":[2,1],"1":[3]}}'
    assert paths.partitions_payload({TOPIC1: broker_ids(6, 2)}) == b'{"version":1,"partitions":{"8":[6,2]}}'
    assert paths.decode_topic("topic1", b'{"version":1,"partitions":{"8":[6,2]}}') == ((TOPIC1, (6, 2)),)


def test_state_znode_is_that_of_the_article() -> None:
    """R-152: the article's keys, then those that are this project's own; leader -1 if there is none."""
    state = replace(STATE, isr=(IsrMember(BrokerId(2), NO_INCARNATION),))
    keys = b'{"controller_epoch":3,"leader":%d,"version":1,"leader_epoch":7,"isr":[2]'

    assert paths.state_path(T0) == "/brokers/topics/t/partitions/0/state"
    assert paths.state_payload(state) == keys % 2 + OWN
    assert paths.state_payload(replace(state, leader=None)) == keys % -1 + OWN
    assert paths.decode_state(T0, (), Data(keys % -1 + b"}", 5, 0)) == replace(state, leader=None)
    lab = settled_cluster("isr-via-zookeeper")
    before = znode_at(lab, "/brokers/topics/t/partitions/0/state").data
    shrink(lab, 4)
    assert znode_at(lab, "/brokers/topics/t/partitions/0/state").data != before  # the leader writes there, too


def test_controller_znode_is_that_of_the_article() -> None:
    """R-153: its example: broker 8."""
    assert paths.CONTROLLER == "/controller"
    assert paths.controller_payload(BrokerId(8)) == b'{"version":1,"brokerid":8}'
    assert paths.decode_controller(b'{"version":1,"brokerid":8}') == 8


def test_each_controller_raises_the_bare_controller_epoch() -> None:
    """R-154: the znode holds the epoch as an integer, not as JSON."""
    lab = cluster_in_sync()
    first = znode_at(lab, "/controller_epoch").data
    crash_and_expire(lab, 1)

    assert (first, znode_at(lab, "/controller_epoch").data) == (b"1", b"2")
    lab = Lab(1, variant=ARTICLE, start=False)
    do = lab._do

    def lose_the_answer(i: int, effect: AnyEffect) -> None:
        if not isinstance(effect, ZkRequest) or all(op.path != paths.CONTROLLER or isinstance(op, Exists) for op in effect.ops):
            do(i, effect)
            return
        lab._do = do  # type: ignore[method-assign]  # only the first one
        lab.zk.submit(lab.sessions[i], effect.ops, atomic=effect.atomic)
        lab.handle_event(i, ZkReplied(effect.id, (Unknown(),)))

    lab._do = lose_the_answer  # type: ignore[method-assign]
    lab.start(1)
    lab.wait(2000)

    assert znode_at(lab, "/controller_epoch").data == b"1"
