"""What the harness reads on the disks of Kafka brokers, which are not started here."""

import asyncio
from pathlib import Path

import pytest

from highwater.backends.real.processes.runner import ProcessRunner
from highwater.backends.real.systems.kafka import settings
from highwater.backends.real.systems.kafka.metadata_log import FOLDER
from highwater.backends.real.systems.kafka.node import KafkaNode
from highwater.backends.real.systems.kafka.system import Kafka
from highwater.backends.real.systems.port import Chronicle, Wiring
from highwater.plans.plan import on_system, parsed_system
from highwater.plans.text import load_plan
from highwater.rig.commits import NodeCreated
from reference.types import BrokerId, broker_address
from server.lab.power import Loss
from tests.highwater.backends.real.systems.test_metadata_log import LOGS, SEGMENT
from tests.highwater.backends.real.systems.test_power import A, B
from tests.highwater.backends.real.systems.test_segments import log
from tests.tidy.sources import ROOT

KIP966 = load_plan(ROOT / "corpus" / "real" / "kip966.yaml")


def broker(folder: Path, system: Kafka, number: int = 1) -> KafkaNode:
    wiring = Wiring(
        broker=BrokerId(number),
        peers=("127.0.0.1", 1),
        ways={},
        doors={},
        advertised={},
        zookeeper=(),
        metrics=("127.0.0.1", 3),
        quorum={broker_address(BrokerId(number)): ("127.0.0.1", 2)},
    )
    return system.node(folder, wiring, ProcessRunner(broker_address(wiring.broker)))


def test_coordination_of_kraft_is_read_from_the_brokers_disks(tmp_path: Path) -> None:
    system = Kafka(on_system(KIP966, parsed_system("kafka:4.1.0")))
    nodes = [broker(tmp_path, system, number) for number in (1, 2, 3)]
    for node in nodes:
        log(node.log_dirs[0] / FOLDER, at_0=(LOGS / "kip966-4.1.0.log").read_bytes())

    found = system.commits(nodes)

    assert isinstance(system, Chronicle)
    assert [commit.path for commit in found if isinstance(commit, NodeCreated) and commit.ephemeral][:3] == [
        "/brokers/ids/2",
        "/brokers/ids/1",
        "/brokers/ids/3",
    ]
    assert [image.logs for node in nodes for image in node.disks()] == [(), (), ()]  # the metadata log is no part of the workload


def test_lost_power_cuts_the_logs_of_the_broker_itself(tmp_path: Path) -> None:
    """The broker's processes kept a record; nothing of this log was flushed."""
    node = broker(tmp_path, Kafka(on_system(KIP966, parsed_system("kafka:3.9.1"))))
    log(node.log_dirs[0] / "t-0", at_0=bytes.fromhex(A + B))
    for name, kept in (("flushes", "B\n"), ("flushes.cut", "")):
        (tmp_path / "b1" / name).write_text(kept)

    (wound,) = asyncio.run(node.lose_unflushed((0,), Loss(seed=1, lose_all=True)))

    assert (wound.tp, wound.offset, node.logs(0)) == ("t-0", 0, ("t-0",))
    assert (node.log_dirs[0] / "t-0" / SEGMENT).read_bytes() == b""


def test_logs_of_kafkas_own_topics_are_not_the_workloads(tmp_path: Path) -> None:
    """A row of a fault that named such a topic made the run UNKNOWN: the promise does not list it."""
    node = broker(tmp_path, Kafka(on_system(KIP966, parsed_system("kafka:3.9.1"))))
    for name in ("t-0", "__consumer_offsets-0", "__cluster_metadata-0"):
        (node.log_dirs[0] / name).mkdir()

    assert node.logs(0) == ("t-0",)


@pytest.mark.parametrize("name", ["groups", "transactions", "share-groups"])
def test_state_of_sessions_is_kept_by_two_brokers(name: str) -> None:
    """docs/promise.md §8. The offsets topic has no setting of its own, and takes the broker's, which is 1 by default."""
    given = settings.of_sessions(load_plan(ROOT / "corpus" / "real" / f"{name}.yaml"))
    least = {key: value for key, value in given.items() if key.endswith(("min.isr", "min.insync.replicas"))}

    assert {"min.insync.replicas", "transaction.state.log.min.isr"} <= least.keys()
    assert {*least.values()} == {"2"}
