"""What clients are told of a broker's log directories (KIP-113's DescribeLogDirs under KIP-343's fence)."""

from reference.errors import ErrorCode
from reference.types import TopicPartition
from server.runtime.process import directories_told
from server.wire.clients.tasks import Directory, Dirs
from tests.reference.v3 import cluster_in_sync

DIRECTORIES = (Directory("/a", online=True, sizes=((TopicPartition("t-0"), 120),)), Directory("/b", online=False))


def test_broker_in_service_tells_the_sizes_of_its_logs() -> None:
    assert directories_told(cluster_in_sync().nodes[3], 7, DIRECTORIES) == Dirs(7, DIRECTORIES)


def test_fenced_broker_names_its_directories_and_no_logs() -> None:
    """R-186: new requests are not accepted; its logs may be out of date, and it cannot know."""
    lab = cluster_in_sync()
    lab.is_held = lambda envelope: "b3" in (envelope.sender, envelope.receiver)
    lab.wait(10_000)

    reply = directories_told(lab.nodes[3], 7, DIRECTORIES)
    named = (Directory("/a", online=True), Directory("/b", online=False))
    assert reply == Dirs(7, named, ErrorCode.BROKER_NOT_AVAILABLE)
