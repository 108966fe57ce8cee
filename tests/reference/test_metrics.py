"""The metrics of a broker process (KIP-112, R-312, KIP-343, and what Kafka's operators look at)."""

from checkers.liveness.metrics import short_name
from reference import metrics
from reference.config import VARIANTS
from reference.metrics import METRICS
from reference.types import BrokerState
from tests.reference.lab import Lab, carries
from tests.reference.v3 import cluster_in_sync, crash_and_expire


def metrics_of(lab: Lab, broker: int, *names: str) -> list[int]:
    """Some metrics of a broker, by their short names."""
    values = {short_name(name): value for name, value in metrics.read(lab.nodes[broker]).items()}
    return [values[name] for name in names]


def test_metrics_have_distinct_short_names() -> None:
    assert len({short_name(metric.name) for metric in METRICS}) == len(METRICS)


def test_one_broker_counts_as_controller() -> None:
    lab = cluster_in_sync()

    assert [metrics_of(lab, broker, "ActiveControllerCount") for broker in lab.ids] == [[1], [0], [0]]


def test_leader_alone_counts_its_under_replicated_partition() -> None:
    """A follower that counted it too would make the sum over all brokers wrong."""
    lab = cluster_in_sync()
    assert metrics_of(lab, 1, "LeaderCount", "UnderReplicatedPartitions") == [1, 0]
    crash_and_expire(lab, 3)

    assert metrics_of(lab, 1, "LeaderCount", "UnderReplicatedPartitions") == [1, 1]
    assert metrics_of(lab, 2, "LeaderCount", "UnderReplicatedPartitions") == [0, 0]


def test_leader_counts_partitions_under_min_isr() -> None:
    lab = Lab(3, min_isr=3)
    lab.wait(3000)
    assert metrics_of(lab, 1, "UnderMinIsrPartitionCount") == [0]
    crash_and_expire(lab, 3)

    assert metrics_of(lab, 1, "UnderMinIsrPartitionCount") == [1]


def test_controller_counts_partitions_without_a_leader() -> None:
    lab = Lab(3, replicas=(2,))
    lab.wait(3000)
    assert metrics_of(lab, 1, "OfflinePartitionsCount") == [0]
    crash_and_expire(lab, 2)

    assert metrics_of(lab, 1, "OfflinePartitionsCount") == [1]
    assert metrics_of(lab, 3, "OfflinePartitionsCount") == [0]


def test_silent_broker_is_fenced_in_both_metrics() -> None:
    """KIP-343: the controller holds it for inactive, and the broker fences itself."""
    lab = cluster_in_sync()
    lab.is_held = lambda envelope: "b3" in (envelope.sender, envelope.receiver)
    lab.wait(10_000)

    assert metrics_of(lab, 1, "FencedBrokerCount", "BrokerState") == [1, BrokerState.ACTIVE]
    assert metrics_of(lab, 3, "FencedBrokerCount", "BrokerState") == [0, BrokerState.INACTIVE]


def test_controller_counts_an_election_and_its_time() -> None:
    lab = Lab(3, replicas=(2, 3))
    lab.wait(3000)
    (before,) = metrics_of(lab, 1, "LeaderElectionRateAndTimeMs")
    crash_and_expire(lab, lab.leader())

    assert metrics_of(lab, 1, "LeaderElectionRateAndTimeMs", "UncleanLeaderElectionsPerSec") == [before + 1, 0]
    assert metrics_of(lab, 1, "LastLeaderElectionTimeMs") == [lab.now]


def test_election_outside_the_isr_counts_as_unclean() -> None:
    """R-022: v3 elects any live replica when nobody of the ISR is left."""
    lab = Lab(3, variant=VARIANTS["unclean-election"], replicas=(2, 3))
    lab.wait(3000)
    crash_and_expire(lab, 3)
    before = metrics_of(lab, 1, "UncleanLeaderElectionsPerSec")
    crash_and_expire(lab, 2)
    lab.start(3)
    lab.settle()

    assert (before, lab.leader()) == ([0], 3)
    assert metrics_of(lab, 1, "UncleanLeaderElectionsPerSec") == [1]


def test_leader_counts_how_its_isr_shrinks_and_grows() -> None:
    lab = cluster_in_sync()
    shrinks, expands = metrics_of(lab, 1, "IsrShrinksPerSec", "IsrExpandsPerSec")
    lab.is_held = carries(sender="b3", receiver="b1")
    lab.produce(1, "x")
    lab.wait(5500)
    shrunk = metrics_of(lab, 1, "IsrShrinksPerSec")[0]
    lab.is_held = lambda _: False
    lab.wait(5000)

    assert (lab.isr(), shrunk - shrinks) == ([1, 2, 3], 1)
    assert metrics_of(lab, 1, "IsrExpandsPerSec")[0] > expands


def test_copy_of_a_process_counts_anew() -> None:
    """The counters are no part of the state, so that the explorer takes equal processes for equal."""
    lab = cluster_in_sync()
    copy = lab.nodes[1].clone()

    assert (copy.fingerprint(), copy.tally.leader_elections) == (lab.nodes[1].fingerprint(), 0)
