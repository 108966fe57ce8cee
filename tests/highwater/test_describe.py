"""`highwater describe`: a simulated run, and a cluster that is asked over the wire (KIP-112, R-306)."""

import asyncio
import socket
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from reference.errors import ErrorCode
from reference.messages import MetadataReply, PartitionState, Request
from reference.types import Address, BrokerId, TopicPartition
from server.runtime.gateway import Limits
from tests.server.runtime.test_gateway import GatewayNode
from tests.server.wire.talking import FACING, ME, OTHER, THIRD, state

PLANS = Path(__file__).parents[2] / "corpus" / "plans" / "log-dirs"
STATES = (
    state(TopicPartition("orders-10"), offline=(OTHER,)),
    state(TopicPartition("orders-9"), None, offline=(ME, OTHER)),
    state(TopicPartition("events-0"), THIRD),
)
TEXT = [
    "Topic: events\tPartitionCount: 1\tReplicationFactor: 2",
    "\tTopic: events\tPartition: 0\tLeader: 3\tReplicas: 1,2\tIsr: 1,2\tOffline: \tLeaderEpoch: 4",
    "Topic: orders\tPartitionCount: 2\tReplicationFactor: 2",
    "\tTopic: orders\tPartition: 9\tLeader: none\tReplicas: 1,2\tIsr: \tOffline: 1,2\tLeaderEpoch: 4",
    "\tTopic: orders\tPartition: 10\tLeader: 1\tReplicas: 1,2\tIsr: 1\tOffline: 2\tLeaderEpoch: 4",
]


class Described(GatewayNode):
    """A broker whose metadata lists these brokers and partitions; with no brokers it is fenced."""

    def __init__(self, brokers: tuple[BrokerId, ...], states: tuple[PartitionState, ...] = ()) -> None:
        super().__init__(Limits())
        self.brokers, self.states = brokers, states

    def answer(self, source: Address, message: Request) -> None:
        error = ErrorCode.NONE if self.brokers else ErrorCode.BROKER_NOT_AVAILABLE
        self.gateway.send(source, MetadataReply(message.correlation, self.brokers, self.states, error, ME))


def exit_code_of_describe(nodes: tuple[Described, ...], *arguments: str) -> int:
    """The exit code of `highwater describe`, which asks these brokers in turn."""

    async def main() -> int:
        ports = [await node.gateway.listen("127.0.0.1", 0, FACING) for node in nodes]
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        code = await asyncio.to_thread(run_command_line, ["describe", "--bootstrap", bootstrap, *arguments])
        for node in nodes:
            await node.gateway.close()
        return code

    return asyncio.run(main())


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_describe_asks_a_cluster_by_a_metadata_request(capsys: pytest.CaptureFixture[str]) -> None:
    """R-306: topics by name, partitions by number; the leader is `none` if no live broker leads."""
    assert exit_code_of_describe((Described((ME, OTHER, THIRD), STATES),)) == 0
    assert capsys.readouterr().out.splitlines() == TEXT


def test_describe_shows_all_replicas_of_a_dead_broker_as_offline(capsys: pytest.CaptureFixture[str]) -> None:
    """R-306: "replicas on dead brokers" too, and a dead leader is none."""
    assert exit_code_of_describe((Described((ME, OTHER), STATES[2:]),), "--json") == 0
    (row,) = msgspec.json.decode(capsys.readouterr().out)["partitions"]

    assert (row["leader"], row["offline"]) == (None, [])
    assert exit_code_of_describe((Described((OTHER, THIRD), STATES[2:]),), "--json") == 0
    (row,) = msgspec.json.decode(capsys.readouterr().out)["partitions"]
    assert (row["leader"], row["offline"]) == (3, [1])


def test_describe_asks_the_next_broker_if_one_is_fenced(capsys: pytest.CaptureFixture[str]) -> None:
    """R-306: a fenced broker names no brokers."""
    assert exit_code_of_describe((Described(()), Described((ME, OTHER, THIRD), STATES))) == 0
    assert capsys.readouterr().out.splitlines() == TEXT


@pytest.mark.parametrize("fenced", [True, False])
def test_describe_of_an_unreachable_cluster_is_one_line(fenced: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """R-306: an answer without brokers is no answer."""
    nobody = f"127.0.0.1:{unused_port()}"
    code = exit_code_of_describe((Described(()),)) if fenced else run_command_line(["describe", "--bootstrap", nobody])
    captured = capsys.readouterr()

    assert (code, captured.out, captured.err.count("\n")) == (ExitCode.USAGE, "", 1)
    assert captured.err.startswith("highwater: no broker answered a Metadata request (127.0.0.1:")


def test_describe_understands_a_broker_that_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """librdkafka's mock cluster: brokers of another implementation, which create the topic when a client names it."""
    producer = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock:1", "log_level": 0})
    brokers = producer.list_topics("orders", timeout=10).brokers.values()
    assert run_command_line(["describe", "--bootstrap", ",".join(f"{b.host}:{b.port}" for b in brokers)]) == 0
    first, *partitions = capsys.readouterr().out.splitlines()

    assert first == "Topic: orders\tPartitionCount: 4\tReplicationFactor: 3"
    assert [line.split("\t")[2] for line in partitions] == [f"Partition: {n}" for n in range(4)]
    assert all(line.endswith("\tReplicas: 1,2,3\tIsr: 1,2,3\tOffline: \tLeaderEpoch: 0") for line in partitions)


def test_describe_prints_the_topics_of_a_simulated_run(capsys: pytest.CaptureFixture[str]) -> None:
    """R-306."""
    assert run_command_line(["describe", str(PLANS / "leader.yaml"), "--at", "9000"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 3",
        "\tTopic: t\tPartition: 0\tLeader: 2\tReplicas: 1,2,3\tIsr: 2,3\tOffline: 1\tLeaderEpoch: 1",
    ]


LEADER = str(PLANS / "leader.yaml")
BAD_INPUT = [
    ([], "give a plan file or a seed, or --bootstrap"),
    (["1", "--bootstrap", "a:1"], "give a plan file or a seed, or --bootstrap"),
    (["--bootstrap", "a:1", "--at", "5"], "--at and --protocol are for simulated runs"),
    (["--bootstrap", "a:1", "--protocol", "v3"], "--at and --protocol are for simulated runs"),
    (["--bootstrap", "localhost"], "--bootstrap must be HOST:PORT"),
    (["--bootstrap", "a:0"], "--bootstrap must be HOST:PORT"),
    (["--bootstrap", ","], "--bootstrap must name at least one broker"),
    (["--bootstrap", "a..b:1"], "no broker answered a Metadata request"),
    ([LEADER, "--at", "30000"], "--at must be at most"),
]


@pytest.mark.parametrize(("arguments", "complaint"), BAD_INPUT, ids=lambda value: value if isinstance(value, str) else None)
def test_describe_refuses_bad_input_in_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """R-306."""
    code = run_command_line(["describe", *arguments])
    captured = capsys.readouterr()

    assert (code, captured.out, captured.err.count("\n")) == (ExitCode.USAGE, "", 1)
    assert captured.err.startswith(f"highwater: {complaint}")
