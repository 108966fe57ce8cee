"""Runs send the layouts of V3, KIP-112 and KIP-343: their bytes, read here by the documents and by nothing else.

Each is performed in the simulator, and as processes, whose bytes are taken from the proxies between them.
"""

import struct
from functools import cache
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from highwater.backends.sim.world import World
from highwater.plans.plan import Plan, checked, on_system
from highwater.plans.systems import SystemSpec
from highwater.plans.text import load_plan
from highwater.rig.scene import scene_of
from history.promise import TopicPromise
from nemesis.faults import Shutdown
from nemesis.schedule import Window
from nemesis.targets import Controller
from reference.config import TopicSpec
from reference.errors import ErrorCode
from reference.messages import (
    IsrChange,
    IsrChangeReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    Message,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
)
from tests.server.wire.overheard import Heard, overheard
from tests.tidy.sources import ROOT

Shape = list[tuple[str, Any]]
Sent = list[tuple[dict[str, Any], Any]]  # what a document reads in the bytes, and what the broker read

_WIDTHS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q"}
_PARTITION: Shape = [("topic", "string"), ("partition", "int32")]
_STATE: Shape = [
    *_PARTITION,
    *(("controller_epoch", "int32"), ("leader", "int32"), ("leader_epoch", "int32"), ("isr", ["int32"])),
    *(("zk_version", "int32"), ("replicas", ["int32"])),
]
V3_COMMAND: Shape = [("client_id", "int32"), ("ack_timeout", "int32")]
V3_STATE: Shape = [*_PARTITION, ("leader", "int32"), ("leader_epoch", "int32"), ("isr", ["int32"]), ("zk_version", "int64")]
LEADER_AND_ISR_V3: Shape = [*V3_COMMAND, ("is_init", "int8"), ("map", [V3_STATE])]
STOP_REPLICA_V3: Shape = [*V3_COMMAND, ("set", [_PARTITION])]
RESPONSE_V3: Shape = [("version_id", "int16"), ("map", [[*_PARTITION, ("code", "int16")]])]
LEADER_AND_ISR_KIP_112: Shape = [
    *(("controller_id", "int32"), ("controller_epoch", "int32")),
    ("partition_states", [[*_STATE, ("is_new_replica", "int8")]]),
    ("live_leaders", [[("id", "int32"), ("host", "string"), ("port", "int32")]]),
]
_END_POINT: Shape = [("port", "int32"), ("host", "string"), ("listener_name", "string"), ("security_protocol", "int16")]
UPDATE_METADATA_KIP_112: Shape = [
    *(("controller_id", "int32"), ("controller_epoch", "int32")),
    ("partition_states", [[*_STATE, ("offline_replicas", ["int32"])]]),
    ("live_brokers", [[("id", "int32"), ("end_points", [_END_POINT]), ("rack", "string")]]),
]
_PROPOSED: Shape = [("leader_epoch", "int32"), ("partition_index", "int32"), ("isr_nodes", ["int32"])]
ISR_CHANGE_KIP_343: Shape = [
    *(("broker_id", "int32"), ("incarnation_id", "int64")),
    ("topics", [[("topic_name", "string"), ("partitions", [_PROPOSED])]]),
]
ISR_CHANGE_RESPONSE_KIP_343: Shape = [
    *(("top_level_error_code", "int16"), ("top_level_error_message", "string")),
    ("results", [[("error_code", "int16"), ("error_message", "string")]]),
]
Where = Literal["simulator", "processes"]

_TOGETHER = (pytest.mark.zookeeper, pytest.mark.xdist_group("layouts of processes"))  # one run serves several tests
pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("where", ["simulator", pytest.param("processes", marks=_TOGETHER)]),
]

BROKERS = {1, 2, 3}
FAULTS_MS = 9000
SCRATCH = TopicSpec(name="scratch", partitions=2, replication_factor=3, min_insync_replicas=2, flush="none")


def read(shape: Any, body: bytes, at: int = 0) -> tuple[Any, int]:
    """Read a value in old-style lengths; returns the position behind it, too."""
    if isinstance(shape, str) and shape in _WIDTHS:
        (number,) = struct.unpack_from(_WIDTHS[shape], body, at)
        return number, at + struct.calcsize(_WIDTHS[shape])
    if shape == "string":
        length, at = read("int16", body, at)
        return (None, at) if length < 0 else (body[at : at + length].decode(), at + length)
    if len(shape) == 1 and not isinstance(shape[0], tuple):
        count, at = read("int32", body, at)
        values = []
        for _ in range(count):
            value, at = read(shape[0], body, at)
            values.append(value)
        return values, at
    fields = {}
    for name, kind in shape:
        fields[name], at = read(kind, body, at)
    return fields, at


@cache
def bodies(version: str, place: Where) -> tuple[Heard, ...]:
    """All that a run in this version of the inter-broker protocol sends in the layouts of documents."""
    if place == "processes":
        return overheard(plan_of(version))
    return simulated(plan_of(version))


@cache
def simulated_refusals() -> tuple[Heard, ...]:
    """What a run sends in KIP-343's layouts in which a change of an ISR comes after a move has raised the epoch."""
    plan = load_plan(ROOT / "corpus" / "plans" / "steps" / "broker-named-twice.yaml")
    return simulated(checked(on_system(plan, SystemSpec(name="reference", version="kip343_v0", starts=("kip343_v0",)))))


def simulated(plan: Plan) -> tuple[Heard, ...]:
    """All that a simulated run sends in the layouts of documents."""
    seen: list[Heard] = []
    world = World(scene_of(plan))
    assert world.sim.transport.layouts is not None
    world.sim.transport.layouts.tap = lambda *sent: seen.append(sent)
    world.play_until(plan.faults_ms)
    return tuple(seen)


def plan_of(version: str) -> Plan:
    """Three brokers of which the controller ends and starts again, so another one fails over; those of V3 also delete topics."""
    plan = load_plan(ROOT / "corpus" / "plans" / "steps" / "rolled-twice.yaml")
    shutdown_window = Window(
        id="controller-ends", kind="shutdown", at_ms=1000, until_ms=4000, fault=Shutdown(), target=Controller()
    )
    plan = replace(plan, schedule=(shutdown_window,), faults_ms=FAULTS_MS)
    if version == "v3":
        promised = TopicPromise(topic=SCRATCH.name, min_insync_replicas=2, flush="none")
        plan = replace(
            plan,
            protocol="v3",
            workload=replace(plan.workload, name="create-delete", scratch=SCRATCH),
            promise=replace(plan.promise, topics=(*plan.promise.topics, promised)),
        )
    return checked(on_system(plan, SystemSpec(name="reference", version=version, starts=(version,))))


def sent(version: str, place: Where, kind: type[Message], shape: Shape, number: int) -> Sent:
    """The messages of a kind in this version of its layout. Every byte of each must be of a field."""
    return read_in(bodies(version, place), kind, shape, number)


def read_in(heard: tuple[Heard, ...], kind: type[Message], shape: Shape, number: int) -> Sent:
    """The same, of these bytes."""
    found = []
    for which, body, message in heard:
        if isinstance(message, kind) and which == number:
            fields, end = read(shape, body)
            assert end == len(body)
            found.append((fields, message))
    assert found
    return found


def each_has_an_address(brokers_listed: list[dict[str, Any]], place: Where) -> None:
    """Assert that no broker is told of without an address; as processes each of the others has one of its own for it."""
    assert {each["id"] for each in brokers_listed} <= BROKERS
    end_points = [(each["id"], end["host"], end["port"]) for each in brokers_listed for end in each.get("end_points", [each])]
    assert {id_ for id_, _, _ in end_points} == {each["id"] for each in brokers_listed}
    addresses = {(host, port): id_ for id_, host, port in end_points}
    if place == "simulator":
        assert {*addresses} == {("localhost", 9092)}
    else:
        assert all(host.startswith("127.") and addresses[host, port] == id_ for id_, host, port in end_points)


def test_v3_run_sends_leader_and_isr_of_v3(where: Where) -> None:
    """R-011, R-012: in another order or width a controller would be taken for another one, or an epoch for a leader."""
    requests = sent("v3", where, LeaderAndIsr, LEADER_AND_ISR_V3, 0)
    states = [(state, read_) for fields, message in requests for state, read_ in zip(fields["map"], message.states, strict=True)]

    timeout = plan_of("v3").cluster.request_timeout_ms
    assert {fields["ack_timeout"] for fields, _ in requests} == {timeout}
    assert all(fields["client_id"] == message.controller for fields, message in requests)
    assert {fields["client_id"] for fields, _ in requests} <= {*range(1, plan_of("v3").cluster.brokers + 1)}
    assert {fields["is_init"] for fields, _ in requests} == {0, 1}
    assert all(message.init == bool(fields["is_init"]) for fields, message in requests)
    for state, read_ in states:
        assert f"{state['topic']}-{state['partition']}" == read_.tp
        assert (state["leader"], state["leader_epoch"]) == (-1 if read_.leader is None else read_.leader, read_.leader_epoch)
        assert state["leader"] == -1 or state["leader"] in state["isr"]
        assert (state["isr"], state["zk_version"]) == ([member.broker for member in read_.isr], read_.zk_version)
    assert 0 in {state["leader_epoch"] for state, _ in states}


def test_v3_run_sends_stop_replica_of_v3(where: Where) -> None:
    """R-014: a partition is listed without an epoch, so whatever its epoch it is stopped."""
    requests = sent("v3", where, StopReplica, STOP_REPLICA_V3, 0)

    assert {fields["ack_timeout"] for fields, _ in requests} == {plan_of("v3").cluster.request_timeout_ms}
    for fields, message in requests:
        assert fields["client_id"] == message.controller
        assert [f"{each['topic']}-{each['partition']}" for each in fields["set"]] == [stop.tp for stop in message.partitions]
        assert all(stop.delete and stop.leader_epoch == -2 for stop in message.partitions)


@pytest.mark.parametrize("kind", [LeaderAndIsrReply, StopReplicaReply])
def test_v3_run_answers_with_codes_by_partition(kind: type[Message], where: Where) -> None:
    """R-013, R-015: version_id and a map of error codes, and nothing else."""
    for fields, message in sent("v3", where, kind, RESPONSE_V3, 0):
        assert fields["version_id"] == 0
        assert [each["code"] for each in fields["map"]] == [error for _, error in message.errors]


def test_old_run_sends_leader_and_isr_of_kip_112(where: Where) -> None:
    """R-310: is_new_replica is the last field of a state, the live leaders of the request."""
    requests = sent("kip112", where, LeaderAndIsr, LEADER_AND_ISR_KIP_112, 1)
    new = [state["is_new_replica"] for fields, _ in requests for state in fields["partition_states"]]

    assert {*new} == {0, 1}
    each_has_an_address([leader for fields, _ in requests for leader in fields["live_leaders"]], where)
    for fields, message in requests:
        assert (fields["controller_id"], fields["controller_epoch"]) == (message.controller, message.controller_epoch)
        leaders = {state["leader"] for state in fields["partition_states"]} - {-1}
        assert {leader["id"] for leader in fields["live_leaders"]} == leaders
        new_partitions = {f"{s['topic']}-{s['partition']}" for s in fields["partition_states"] if s["is_new_replica"]}
        assert new_partitions == {*message.new}
        for state, read_ in zip(fields["partition_states"], message.states, strict=True):
            assert state["leader"] in BROKERS
            assert {*state["replicas"]} == BROKERS >= {*state["isr"]}
            assert (state["controller_epoch"], state["zk_version"]) == (read_.controller_epoch, read_.zk_version)
            assert (state["leader_epoch"], tuple(state["replicas"])) == (read_.leader_epoch, read_.replicas)


def test_old_run_sends_update_metadata_of_kip_112(where: Where) -> None:
    """R-311: with the offline replicas of each partition and the addresses of the live brokers."""
    requests = sent("kip112", where, UpdateMetadata, UPDATE_METADATA_KIP_112, 0)
    offline = [state["offline_replicas"] for fields, _ in requests for state in fields["partition_states"]]

    assert {broker["id"] for fields, _ in requests for broker in fields["live_brokers"]} == BROKERS
    each_has_an_address([broker for fields, _ in requests for broker in fields["live_brokers"]], where)
    assert [] in offline
    assert any(offline)
    for fields, message in requests:
        assert (fields["controller_id"], fields["controller_epoch"]) == (message.controller, message.controller_epoch)
        assert tuple(broker["id"] for broker in fields["live_brokers"]) == message.live_brokers
        for state, read_ in zip(fields["partition_states"], message.states, strict=True):
            assert (tuple(state["offline_replicas"]), tuple(state["replicas"])) == (read_.offline, read_.replicas)
            assert (state["leader_epoch"], state["zk_version"]) == (read_.leader_epoch, read_.zk_version)


def test_run_of_kip_343_sends_its_isr_changes(where: Where) -> None:
    """R-197: one request has the topics with their partitions, and the brokers that should be in the ISR."""
    for fields, message in sent("kip343_v0", where, IsrChange, ISR_CHANGE_KIP_343, 0):
        assert (fields["broker_id"], fields["incarnation_id"]) == (message.broker, message.incarnation)
        assert fields["broker_id"] in BROKERS
        assert {topic["topic_name"] for topic in fields["topics"]} == {"t"}
        proposed = [
            (f"{topic['topic_name']}-{each['partition_index']}", each["leader_epoch"], each["isr_nodes"])
            for topic in fields["topics"]
            for each in topic["partitions"]
        ]
        assert proposed == [(c.tp, c.leader_epoch, [member.broker for member in c.isr]) for c in message.changes]
        assert all(set() < {*nodes} <= BROKERS for _, _, nodes in proposed)


def test_run_of_kip_343_answers_isr_changes(where: Where) -> None:
    """R-198: the top-level error and message come before the results, each of which is a code and a message."""
    answers = sent("kip343_v0", where, IsrChangeReply, ISR_CHANGE_RESPONSE_KIP_343, 0)
    if where == "simulator":  # a refusal needs a fault at a named step, which processes do not have
        refusals = read_in(simulated_refusals(), IsrChangeReply, ISR_CHANGE_RESPONSE_KIP_343, 0)
        messages = {each["error_code"]: each["error_message"] for fields, _ in refusals for each in fields["results"]}
        assert messages == {ErrorCode.NONE: None, ErrorCode.FENCED_LEADER_EPOCH: "fenced leader epoch"}
        answers += refusals

    assert any(fields["results"] for fields, _ in answers)
    for fields, message in answers:
        assert (fields["top_level_error_code"], fields["top_level_error_message"]) == (message.error, message.message)
        results = [(each["error_code"], each["error_message"]) for each in fields["results"]]
        assert results == [(result.error, result.message) for result in message.results]
