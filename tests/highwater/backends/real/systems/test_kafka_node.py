"""What the harness reads on the disks of Kafka brokers, which are not started here."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.processes.runner import ProcessRunner
from highwater.backends.real.site import HostPort, Proof
from highwater.backends.real.systems.kafka import quorum, settings
from highwater.backends.real.systems.kafka.metadata_log import FOLDER
from highwater.backends.real.systems.kafka.node import KafkaNode
from highwater.backends.real.systems.kafka.system import Kafka
from highwater.backends.real.systems.port import Chronicle, ControllerWiring, Wiring
from highwater.plans.plan import Plan, on_system
from highwater.plans.systems import parsed_system
from highwater.plans.text import load_plan
from highwater.rig.commits import NodeCreated
from nemesis.faults import ZooKeeperDown
from nemesis.schedule import Window
from nemesis.targets import Everyone
from reference.types import Address, BrokerId, broker_address
from server.lab.power import Loss
from tests.highwater.backends.real.systems.test_metadata_log import LOGS, SEGMENT
from tests.highwater.backends.real.systems.test_power import A, B
from tests.highwater.backends.real.systems.test_segments import log
from tests.tidy.sources import ROOT

KIP966 = load_plan(ROOT / "corpus" / "real" / "kip966.yaml")


def wiring_of(number: int, quorum: Mapping[Address, HostPort]) -> Wiring:
    """The addresses of a broker without peers and clients."""
    return Wiring(
        broker=BrokerId(number),
        peers=("127.0.0.1", 1),
        ways={},
        doors={},
        advertised={},
        zookeeper=(),
        metrics=("127.0.0.1", 3),
        quorum=quorum,
    )


def broker(folder: Path, system: Kafka, number: int = 1) -> KafkaNode:
    wiring = wiring_of(number, {broker_address(BrokerId(number)): ("127.0.0.1", 2)})
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


LISTENERS = {Address("z1"): ("127.0.0.51", 9001), Address("z2"): ("127.0.0.52", 9002)}


def apart_from(plan: Plan) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of broker b1 and of controller z2, apart from each other."""
    wiring = wiring_of(1, LISTENERS)
    of_broker = settings.properties(plan, wiring, ("logs",)) | settings.with_quorum(plan, wiring)
    controller = ControllerWiring(controller=Address("z2"), ways={}, quorum=LISTENERS)
    return of_broker, settings.of_controller(plan, controller, "log")


def test_controllers_apart_are_the_voters_and_brokers_are_none() -> None:
    of_broker, of_controller = apart_from(KIP966)

    assert (of_broker["process.roles"], of_controller["process.roles"]) == ("broker", "controller")
    assert (of_broker["node.id"], of_controller["node.id"]) == ("1", "102")
    voters = "101@z1.peers:9001,102@z2.peers:9002"
    assert (of_broker["controller.quorum.voters"], of_controller["controller.quorum.voters"]) == (voters, voters)
    assert of_controller["listeners"] == "QUORUM://127.0.0.52:9002"
    assert "QUORUM://" not in of_broker["listeners"]
    assert "advertised.listeners" not in of_controller


def test_voters_that_change_are_named_by_the_metadata_log_alone() -> None:
    """KIP-853: with controller.quorum.voters a node refuses to change them."""
    leaves = Window(id="f", kind="leaves", at_ms=1, until_ms=2, fault=ZooKeeperDown(how="leave"), target=Everyone())

    of_broker, of_controller = apart_from(replace(KIP966, schedule=(leaves,)))

    assert "controller.quorum.voters" not in of_broker | of_controller
    servers = "z1.peers:9001,z2.peers:9002"
    assert [of["controller.quorum.bootstrap.servers"] for of in (of_broker, of_controller)] == [servers, servers]
    first, second = settings.first_voters(LISTENERS).split(",")
    assert first == "101@z1.peers:9001:aGlnaHdhdGVyLWN0cmwtMQ"
    assert second.startswith("102@z2.peers:9002:")


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


def test_topics_are_compacted_in_small_segments() -> None:
    """docs/promise.md DUR-9. A cleaner leaves the active segment alone, so segments must be rolled while the run lasts."""
    given = settings.of_compaction(load_plan(ROOT / "corpus" / "real" / "compacted.yaml"))

    assert (given["log.cleanup.policy"], given["log.cleaner.enable"], given["log.roll.ms"]) == ("compact", "true", "1000")
    assert settings.of_compaction(load_plan(ROOT / "corpus" / "real" / "groups.yaml")) == {}


def _cluster_of_three(monkeypatch: pytest.MonkeyPatch, voters: list[int]) -> tuple[quorum.QuorumCluster, list[HostPort]]:
    """Brokers of which the first does not answer, and those that were asked to change the voters: the last one goes."""
    asked: list[HostPort] = []

    def described(address: HostPort) -> quorum._Partition | None:
        return None if address[1] == 1 else quorum._Partition(current_voters=tuple(map(_voter, voters)))

    def change(address: HostPort, *_: object) -> str:
        asked.append(address)
        voters.pop() if len(asked) > 1 else None
        return "error 7: timed out"

    monkeypatch.setattr(quorum, "_quorum_of", described)
    monkeypatch.setattr(quorum, "_error_of_change", change)
    return quorum.QuorumCluster({broker_address(BrokerId(n)): ("127.0.0.1", n) for n in (1, 2, 3)}), asked


def _voter(replica: int) -> quorum._Voter:
    return quorum._Voter(replica_id=replica)


def test_controller_leaves_though_the_first_broker_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first broker may be the leader that another fault has paused: to wait for it would hold up the whole schedule."""
    cluster, asked = _cluster_of_three(monkeypatch, [101, 102, 103])

    async def leave() -> Proof:
        probe = await cluster.leave(Address("z3"))
        assert asked == [], "other faults would wait for the answer"
        return await probe()

    assert asyncio.run(leave()) == Proof(True, "the voters are 101, 102")
    assert asked == [("127.0.0.1", 2)] * 2


def test_controller_that_never_leaves_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a quorum no voter changes, and the faults that come after it must not wait for hours."""
    cluster, _ = _cluster_of_three(monkeypatch, [101, 102, 103, 104])
    monkeypatch.setattr(quorum, "_CHANGE_S_MAX", -1.0)

    async def leave() -> Proof:
        return await (await cluster.leave(Address("z1")))()

    assert asyncio.run(leave()) == Proof(False, "the voters are 101, 102, 103, 104; the last answer: error 7: timed out")
