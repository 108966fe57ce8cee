"""The claims of the 0.8 high-availability article: which replicas are alive, when a record is committed, what ZooKeeper holds."""

import json

import pytest
from msgspec.structs import replace

from reference.config import ARTICLE, SAFE, V3, BrokerConfig, Variant, min_isr_of
from reference.coordination import paths
from reference.coordination.api import Data, GetData
from reference.effects import AnyEffect, Flush
from reference.errors import ErrorCode
from reference.events import Received, TimerFired
from reference.messages import Fetch, FetchReply, Produce, ProduceReply
from reference.replica.partition import Leader
from reference.types import Address, BrokerId, Millis, ProducerId
from tests.reference.lab import T0, Lab, carries
from tests.reference.v3 import cluster_in_sync, crash_and_expire


def acknowledged(lab: Lab) -> list[int]:
    return [
        reply.correlation for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE
    ]


# --- which replicas are alive ----------------------------------------------------------------------------------------------


def test_broker_leaves_the_isr_when_its_session_expires() -> None:
    """R-137: the first condition for being alive is a ZooKeeper session."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(3)  # it keeps fetching, and does not learn of the expiry
    lab.expire(3)
    lab.settle()

    assert lab.isr() == [1, 2]


@pytest.mark.parametrize("variant", [SAFE, ARTICLE], ids=["safe", "article"])
def test_follower_leaves_the_isr_when_it_stops_fetching(variant: object) -> None:
    """R-137, R-139: the second condition is a fetch within replica.lag.time.max.ms."""
    lab = Lab(2, variant=variant)  # type: ignore[arg-type]  # a Variant
    lab.wait(3000)
    assert lab.isr() == [1, 2]
    lab.is_held = carries(Fetch, sender="b2")
    lab.produce(1, "x")
    lab.wait(9000)
    assert lab.isr() == [1]
    lab = Lab(3, variant=variant)  # type: ignore[arg-type]
    lab.wait(3000)
    lab.is_held = carries(Fetch, sender="b3")  # it never fetches from the next leader
    crash_and_expire(lab, 1)
    assert (lab.leader(), lab.isr()) == (2, [2, 3])
    lab.produce(2, "x")
    lab.wait(9000)

    assert lab.isr() == [2]


def _lagging_behind(rule: str) -> Lab:
    """Two brokers with replica.lag.max.messages 3; b2 does not fetch what b1 appends."""
    lab = Lab(2, variant=replace(SAFE, lag_rule=rule))
    for i in lab.ids:
        lab.nodes[i].state.config = replace(lab.configs[i], lag_max_records=3)
    lab.wait(3000)
    lab.is_held = carries(Fetch, sender="b2")
    return lab


@pytest.mark.parametrize(("rule", "isr"), [("last_fetch", [1]), ("caught_up", [1, 2])])
def test_follower_that_stops_fetching_leaves_an_idle_partition(rule: str, isr: list[int]) -> None:
    """R-139: the article asks for fetches also where nothing is produced; `safe` asks only that nothing is missing."""
    lab = Lab(2, variant=replace(SAFE, lag_rule=rule))
    lab.wait(3000)
    lab.is_held = carries(Fetch, sender="b2")
    lab.wait(9000)

    assert lab.isr() == isr


def test_follower_stays_until_the_lag_time_is_over() -> None:
    """R-139: it leaves when its last fetch is longer ago than replica.lag.time.max.ms, not at that time."""
    lab = Lab(2, variant=replace(SAFE, lag_rule="last_fetch"))
    lab.wait(3000)
    lab.is_held = carries(Fetch, sender="b2")
    role = lab.partition(1).role
    assert isinstance(role, Leader)
    lab.now = role.followers[0].fetched_ms + lab.configs[1].replica_lag_time_max_ms
    lab.handle_event(1, TimerFired("isr"))
    lab.settle()
    at_the_limit = lab.isr()
    lab.now += 1
    lab.handle_event(1, TimerFired("isr"))
    lab.settle()

    assert (at_the_limit, lab.isr()) == ([1, 2], [1])


def test_new_leader_gives_its_followers_the_whole_lag_time() -> None:
    """R-139: the follower has not fetched from the new leader yet, but is not late."""
    lab = Lab(3, variant=replace(SAFE, lag_rule="last_fetch"))
    lab.wait(10_000)
    lab.is_held = carries(Fetch)
    crash_and_expire(lab, 1)
    leader = lab.leader()
    lab.handle_event(leader, TimerFired("isr"))
    lab.settle()
    at_first = lab.isr()
    lab.now += lab.configs[leader].replica_lag_time_max_ms
    lab.handle_event(leader, TimerFired("isr"))
    lab.settle()

    assert at_first == lab.isr() == [2, 3]


@pytest.mark.parametrize(("rule", "isr"), [("last_fetch", [1]), ("caught_up", [1, 2])])
def test_follower_leaves_the_isr_when_too_many_records_behind(rule: str, isr: list[int]) -> None:
    """R-138: replica.lag.max.messages. Kafka dropped it, because a burst of the producer removes all followers from the ISR."""
    lab = _lagging_behind(rule)
    lab.produce(1, *"abcdef")
    lab.fire(1, "isr")
    lab.settle()

    assert lab.isr() == isr


def test_follower_at_the_largest_lag_stays_in_the_isr() -> None:
    """R-138: a follower leaves when it is more than replica.lag.max.messages behind, not at that number."""
    lab = _lagging_behind("last_fetch")
    lab.produce(1, *"abc")
    lab.fire(1, "isr")
    lab.settle()
    at_the_limit = lab.isr()
    lab.produce(1, "d")
    lab.handle_event(1, TimerFired("isr"))
    lab.settle()

    assert (at_the_limit, lab.isr()) == ([1, 2], [1])


@pytest.mark.parametrize(("rule", "isr"), [("last_fetch", [1, 2]), ("caught_up", [1])])
def test_article_keeps_a_slow_fetching_follower_in_the_isr(rule: str, isr: list[int]) -> None:
    """R-139: the article only asks that a follower sends fetch requests, so one that is always a little behind stays."""
    lab = Lab(2, variant=replace(SAFE, lag_rule=rule))
    for i in lab.ids:
        lab.nodes[i].state.config = replace(lab.configs[i], fetch_max_records=1)
    lab.wait(3000)
    lab.is_held = carries(FetchReply)  # every reply is lost, every fetch request arrives
    lab.produce(1, *"abcdef")
    lab.wait(12_000)

    assert lab.isr() == isr


# --- when a record is committed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before_ack", [True, False])
def test_follower_fetch_acks_written_or_flushed_offset_by_config(before_ack: bool) -> None:
    """R-134, R-135, C-14, U-23: the article says both; flush=before_ack is the one, flush=none the other."""
    lab = Unflushed(2, before_ack=before_ack)
    lab.wait(3000)
    lab.flushing = False
    lab.produce(1, "x")
    lab.settle()
    at_once = acknowledged(lab)
    lab.wait(600)

    assert lab.values(2) == ["x"]
    assert at_once == acknowledged(lab) == ([] if before_ack else [1])


class Unflushed(Lab):
    """Disks on which no flush completes while `flushing` is false."""

    flushing = True

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        return super()._perform(i, effect) if self.flushing or not isinstance(effect, Flush) else None


@pytest.mark.parametrize(("acks", "answered"), [(1, [1]), (-1, []), (0, [])])
def test_acks_decide_which_replicas_a_produce_waits_for(acks: int, answered: list[int]) -> None:
    """R-140: acks=1 waits for the leader, acks=all (-1) for the whole ISR; with acks=0 there is no reply."""
    lab = cluster_in_sync()
    lab.is_held = carries(receiver="b3")
    lab.produce(1, "x", acks=acks)
    lab.settle()
    at_once = acknowledged(lab)
    lab.wait(1500)  # longer than the producer's timeout
    answers = [reply for reply in lab.client_replies if isinstance(reply, ProduceReply)]

    assert (at_once, len(answers)) == (answered, 0 if acks == 0 else 1)


def test_batch_sent_again_waits_for_the_isr_as_well() -> None:
    """R-140, B-66: the leader has it, and b3 not yet."""
    lab = cluster_in_sync()
    lab.is_held = carries(receiver="b3")
    for correlation in (1, 2):
        produce = Produce(correlation, T0, -1, ("x",), Millis(5000), producer_id=ProducerId(7), base_sequence=0)
        lab.handle_event(1, Received(Address("c1"), produce))
        lab.settle()
    at_once = acknowledged(lab)
    lab.is_held = lambda _: False
    lab.settle()
    lab.wait(1000)

    assert (at_once, acknowledged(lab), lab.values(1)) == ([], [1, 2], ["x"])


@pytest.mark.parametrize(("first", "second"), [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)])
def test_three_replicas_survive_any_two_failures(first: int, second: int) -> None:
    """R-141, R-143: f + 1 replicas tolerate f failures without losing an acknowledged record."""
    lab = cluster_in_sync()
    lab.produce(1, "x")
    lab.settle()
    assert acknowledged(lab) == [1]
    crash_and_expire(lab, first)
    crash_and_expire(lab, second)
    (left,) = {1, 2, 3} - {first, second}

    assert lab.leaders() == [left]
    assert lab.values(left) == ["x"]


@pytest.mark.parametrize(("unclean", "early"), [(False, []), (True, [2])], ids=["wait", "any"])
def test_dead_isr_is_waited_for_or_replaced_by_config(unclean: bool, early: list[int]) -> None:
    """R-145: b2 lives and is not in the ISR; b1, its last member, leads when it is back, unless b2 has replaced it."""
    lab = Lab(2, variant=replace(SAFE, unclean_election=unclean))
    crash_and_expire(lab, 2)
    lab.produce(1, "x")
    lab.is_held = carries(FetchReply)
    lab.start(2)
    lab.settle()
    crash_and_expire(lab, 1)
    leaders_before = lab.leaders()
    lab.start(1)
    lab.settle()

    assert (leaders_before, lab.leaders()) == (early, early or [1])


@pytest.mark.parametrize(("unclean", "leaders"), [(False, []), (True, [3])], ids=["wait", "any"])
def test_leaderless_partition_takes_a_replica_that_returns(unclean: bool, leaders: list[int]) -> None:
    """R-145: nobody leads, and the first replica that returns was not in the ISR."""
    lab = Lab(3, variant=replace(SAFE, unclean_election=unclean), replicas=(2, 3))
    for i in (3, 2):
        crash_and_expire(lab, i)
    assert (lab.state().leader, lab.isr()) == (None, [2])
    lab.start(3)
    lab.settle()

    assert lab.leaders() == leaders


def test_lagging_follower_fetches_many_batches_at_once() -> None:
    """R-157: one fetch reply holds many batches, up to fetch_max_records."""
    lab = Lab(2)
    crash_and_expire(lab, 2)
    for value in "abcdef":
        lab.produce(1, value, correlation=ord(value))
    seen: list[int] = []
    lab.is_held = lambda envelope: isinstance(envelope.message, FetchReply) and bool(envelope.message.batches)
    lab.start(2)
    lab.wait(1000)
    seen = [len(message.batches) for _, to, message in lab.in_flight if to == "b2" and isinstance(message, FetchReply)]

    assert seen[:1] == [6]


# --- what ZooKeeper holds --------------------------------------------------------------------------------------------------


def znode_at(lab: Lab, path: str) -> Data:
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(path),))
    assert isinstance(answer, Data)
    return answer


def test_znodes_have_the_keys_of_the_article() -> None:
    """R-001, R-002, R-003, R-150, R-151, R-152, R-153, R-154, C-01: other tools read these keys."""
    lab = cluster_in_sync()
    broker = json.loads(znode_at(lab, paths.broker_path(BrokerId(2))).data)
    topic = json.loads(znode_at(lab, paths.topic_path("t")).data)
    content = json.loads(znode_at(lab, paths.state_path(T0)).data)
    controller = json.loads(znode_at(lab, paths.CONTROLLER).data)

    assert {"version", "host", "port", "jmx_port"} <= set(broker)
    assert {"version", "partitions"} <= set(topic)
    assert topic["partitions"] == {"0": [1, 2, 3]}
    assert {"controller_epoch", "leader", "version", "leader_epoch", "isr"} <= set(content)
    assert (controller["version"], controller["brokerid"]) == (1, 1)
    assert znode_at(lab, paths.CONTROLLER_EPOCH).data == b"1"
    assert znode_at(lab, paths.CONTROLLER).owner == lab.sessions[1]  # ephemeral
    assert znode_at(lab, paths.broker_path(BrokerId(2))).owner == lab.sessions[2]


def test_failover_writes_the_whole_partition_state_conditionally() -> None:
    """R-012, R-155: leader, ISR, leader epoch, and the epoch of the controller that wrote it."""
    lab = cluster_in_sync()
    before = lab.state()
    crash_and_expire(lab, 1)  # b1 is also the controller; the next one writes under its own epoch
    after = lab.state()

    assert (after.leader, [member.broker for member in after.isr]) == (lab.leader(), [2, 3])
    assert (after.leader_epoch, after.controller_epoch) == (before.leader_epoch + 1, before.controller_epoch + 1)
    assert after.zk_version == before.zk_version + 1
    lab = Lab(2, replicas=(2,))
    crash_and_expire(lab, 2)
    offline = lab.state()
    lab.start(2)
    lab.settle()
    again = lab.state()

    assert (offline.leader, again.leader) == (None, 2)
    assert (again.leader_epoch, again.zk_version) == (offline.leader_epoch + 1, offline.zk_version + 1)


def test_failover_of_a_follower_names_its_controller() -> None:
    """R-155: the leader stays, and the epoch is that of the controller that takes the follower out of the ISR."""
    lab = Lab(4, replicas=(2, 3, 4), start=False)
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    before = lab.state()
    crash_and_expire(lab, 1)  # the controller
    lab.wait(3000)
    crash_and_expire(lab, next(i for i in lab.followers() if lab.nodes[i].state.controller.step != "active"))
    after = lab.state()

    assert (after.leader, len(after.isr)) == (before.leader, 2)
    assert after.controller_epoch == before.controller_epoch + 1


# --- configuration ---------------------------------------------------------------------------------------------------------


# Kafka 0.8.2's defaults (R-158), and the configuration field for each. A simulated cluster has shorter times, so that a run
# of a minute has many failovers. None: the reference lacks the feature, or the topic or the host decides it.
KAFKA_082_DEFAULTS: dict[str, tuple[int | bool, str | None]] = {
    "replica.lag.time.max.ms": (10_000, "replica_lag_time_max_ms"),
    "replica.lag.max.messages": (4000, "lag_max_records"),
    "replica.fetch.wait.max.ms": (500, "fetch_wait_max_ms"),
    "replica.fetch.min.bytes": (1, None),  # the leader answers a fetch as soon as it has a record
    "replica.high.watermark.checkpoint.interval.ms": (5000, "checkpoint_interval_ms"),
    "log.flush.offset.checkpoint.interval.ms": (60_000, None),  # the answer to each flush tells what is durable
    "min.insync.replicas": (1, "topics"),
    "unclean.leader.election.enable": (True, "variant.unclean_election"),
    "auto.leader.rebalance.enable": (True, None),  # preferred leaders are elected only on request
    "leader.imbalance.check.interval.seconds": (300, None),
    "controller.socket.timeout.ms": (30_000, "request_timeout_ms"),
    "controlled.shutdown.max.retries": (3, "controlled_shutdown_max_retries"),
    "controlled.shutdown.retry.backoff.ms": (5000, "controlled_shutdown_retry_backoff_ms"),
    "default.replication.factor": (1, "topics"),
}


def test_cluster_config_has_all_fields_named_as_kafka_defaults() -> None:
    """R-158: the table has Kafka 0.8.2's defaults, and for each the field of the configuration that stands for it, if any."""
    fields = set(BrokerConfig.__struct_fields__)

    assert [f for _, f in KAFKA_082_DEFAULTS.values() if f is not None and f.partition(".")[0] not in fields] == []
    assert len(KAFKA_082_DEFAULTS) == 14


# Shorter here, so that a run of a minute has many failovers.
SHORTER = {"replica.lag.time.max.ms": 4000, "controller.socket.timeout.ms": 2000}


@pytest.mark.parametrize(("variant", "unclean"), [(V3, True), (ARTICLE, True), (SAFE, False)], ids=["v3", "article", "safe"])
def test_configuration_defaults_are_those_of_kafka_082(variant: Variant, unclean: bool) -> None:
    """R-138, R-158, C-15: except for two times and, in `safe`, the unclean election."""
    config = BrokerConfig(broker=BrokerId(1), variant=variant, topics=())
    wanted = {key: value for key, (value, _) in KAFKA_082_DEFAULTS.items()} | SHORTER
    fields = {key: f for key, (_, f) in KAFKA_082_DEFAULTS.items() if f is not None and f in BrokerConfig.__struct_fields__}
    config_values = {key: getattr(config, field) for key, field in fields.items() if field != "topics"}

    assert config_values == {key: wanted[key] for key in config_values}
    assert len(config_values) == 7
    assert variant.unclean_election is unclean
    assert min_isr_of(config, "t") == 1
