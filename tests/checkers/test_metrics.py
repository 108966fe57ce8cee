"""What the metrics of brokers told (docs/promise.md LIVE-14). In these histories the truth must have stood for 4 s."""

import pytest

from checkers.sketches import sketch

SERVER, CONTROLLER = "kafka.server:name={},type=ReplicaManager", "kafka.controller:name={},type=KafkaController"
OF_CONTROLLER = ("ActiveControllerCount", "OfflinePartitionsCount", "FencedBrokerCount")
LIVES = (
    "node-started node=b1 life=1",
    "node-started node=b2 life=1",
    "registered node=b1 incarnation=1",
    "registered node=b2 incarnation=2",
    "controller-elected node=b1",
    "broker-state node=b1 broker=b1 incarnation=1 detail=active",
    "broker-state node=b1 broker=b2 incarnation=2 detail=active",
    "assigned replicas=b1,b2",
    "state-written node=b1 leader=b2 isr=b1,b2",
)
SHRUNK = "state-written node=b1 leader=b2 isr=b2"
LATE = 60_000_000_000


def gauge(node: str, name: str, value: int, time_ns: int = LATE) -> str:
    domain = CONTROLLER if name in OF_CONTROLLER else SERVER
    return f"gauge node={node} life=1 detail={domain.format(name)} gauge={value} time_ns={time_ns}"


@pytest.mark.parametrize(
    ("node", "name", "value", "right"),
    [
        ("b1", "ActiveControllerCount", 0, 1),
        ("b2", "ActiveControllerCount", 1, 0),
        ("b2", "LeaderCount", 0, 1),
        ("b1", "LeaderCount", 1, 0),
        ("b2", "UnderReplicatedPartitions", 1, 0),
        ("b2", "UnderMinIsrPartitionCount", 1, 0),
        ("b1", "OfflinePartitionsCount", 1, 0),
        ("b2", "OfflinePartitionsCount", 1, 0),
        ("b1", "FencedBrokerCount", 1, 0),
        ("b2", "BrokerState", 1, 2),
    ],
)
def test_gauge_must_agree_with_zookeeper_and_controller(node: str, name: str, value: int, right: int) -> None:
    assert sketch("metrics", *LIVES, gauge(node, name, right)) == []
    assert sketch("metrics", *LIVES, gauge(node, name, value)) == [f"{node} reports {name} {value} at row 9, {right} is right"]


@pytest.mark.parametrize(
    ("before", "node", "name"),
    [
        (SHRUNK, "b2", "UnderReplicatedPartitions"),
        ("state-written node=b1 isr=b2", "b1", "OfflinePartitionsCount"),
        ("broker-state node=b1 broker=b2 incarnation=2 detail=inactive", "b1", "FencedBrokerCount"),
        ("dir-failed node=b2 dir=1", "b2", "OfflineLogDirectoryCount"),
    ],
)
def test_gauge_that_missed_a_change_is_wrong(before: str, node: str, name: str) -> None:
    assert sketch("metrics", *LIVES, before, gauge(node, name, 1)) == []
    assert sketch("metrics", *LIVES, before, gauge(node, name, 0)) == [f"{node} reports {name} 0 at row 10, 1 is right"]


def test_value_that_stands_is_judged_when_the_next_fault_begins() -> None:
    """A gauge that is stuck has no further rows."""
    gauge_row = gauge("b2", "UnderReplicatedPartitions", 0, 1_000_000)
    fault = f"fault-begun fault=f node=b1 detail=crash time_ns={LATE}"

    assert sketch("metrics", *LIVES, gauge_row, SHRUNK, fault) == [
        "b2 reports UnderReplicatedPartitions 0 at row 9, still at row 11, 1 is right"
    ]


@pytest.mark.parametrize(
    "hindered",
    [
        (SHRUNK + " time_ns=59000000000",),
        ("fault-begun fault=f node=b2 detail=pause-short",),
        ("fault-begun fault=f node=b1 detail=pause-short",),
        ("fault-begun fault=f node=b3 detail=cut-peers",),
        ("session-ended node=b2 incarnation=2",),
    ],
    ids=["just changed", "paused", "controller paused", "links cut", "not registered"],
)
def test_gauge_that_may_not_be_known_is_not_judged(hindered: tuple[str, ...]) -> None:
    assert sketch("metrics", *LIVES, *hindered, gauge("b2", "UnderReplicatedPartitions", 7)) == []


def test_fault_of_another_broker_is_no_excuse() -> None:
    fault = "fault-begun fault=f node=b3 detail=crash-random"

    assert len(sketch("metrics", *LIVES, fault, gauge("b2", "UnderReplicatedPartitions", 7))) == 1


def test_values_of_an_ended_process_are_forgotten() -> None:
    gauge_row = gauge("b2", "UnderReplicatedPartitions", 0, 1_000_000)
    fault = f"fault-begun fault=f node=b1 detail=crash time_ns={LATE}"

    assert sketch("metrics", *LIVES, gauge_row, "node-stopped node=b2 detail=crash", SHRUNK, fault) == []


ELECTIONS = "kafka.controller:name=LeaderElectionRateAndTimeMs,type=ControllerStats"
UNCLEAN = "kafka.controller:name=UncleanLeaderElectionsPerSec,type=ControllerStats"


@pytest.mark.parametrize(
    ("before", "value", "right"),
    [
        ((), 1, None),
        ((), 2, "at most 1"),
        ((), 0, "at least 1"),
        (("state-written node=b1 leader=b1 isr=b1 leader_epoch=2",), 1, "at least 2"),
        (("fault-begun fault=f node=b1 detail=crash",), 0, None),
        (("fault-begun fault=f node=b2 detail=crash",), 0, "at least 1"),
    ],
)
def test_elections_are_those_that_zookeeper_shows(before: tuple[str, ...], value: int, right: str | None) -> None:
    """A controller that a fault hit may not know how a write ended."""
    gauge_row = f"gauge node=b1 life=1 detail={ELECTIONS} gauge={value} time_ns={LATE}"
    findings = sketch("metrics", *LIVES, *before, gauge_row)

    row = 9 + len(before)
    assert findings == ([f"b1 reports LeaderElectionRateAndTimeMs {value} at row {row}, {right} is right"] if right else [])


@pytest.mark.parametrize(("isr", "unclean"), [("b1,b2", 0), ("b2", 1)])
def test_election_outside_the_isr_must_count_as_unclean(isr: str, unclean: int) -> None:
    rows = (f"state-written node=b1 leader=b2 isr={isr}", "state-written node=b1 leader=b1 isr=b1 leader_epoch=2")
    gauge_rows = [f"gauge node=b1 life=1 detail={UNCLEAN} gauge={value} time_ns={LATE}" for value in (unclean, 1 - unclean)]

    assert sketch("metrics", *LIVES, *rows, gauge_rows[0]) == []
    assert len(sketch("metrics", *LIVES, *rows, gauge_rows[1])) == 1


def test_isr_changes_that_the_leader_noted_are_counted() -> None:
    noted = ("became-leader node=b2 isr=b1,b2 hw=0 leo=0", SHRUNK, "isr-change-ended node=b2 isr=b2 detail=applied zk_version=1")

    assert sketch("metrics", *LIVES, *noted, gauge("b2", "IsrShrinksPerSec", 1)) == []
    assert sketch("metrics", *LIVES, *noted, gauge("b2", "IsrShrinksPerSec", 0)) == [
        "b2 reports IsrShrinksPerSec 0 at row 12, at least 1 is right"
    ]
    assert sketch("metrics", *LIVES, *noted, gauge("b2", "IsrExpandsPerSec", 1)) == [
        "b2 reports IsrExpandsPerSec 1 at row 12, at most 0 is right"
    ]


def test_counter_that_falls_is_told() -> None:
    noted = ("became-leader node=b2 isr=b1,b2 hw=0 leo=0", SHRUNK, "isr-change-ended node=b2 isr=b2 detail=applied zk_version=1")
    gauge_rows = (gauge("b2", "IsrShrinksPerSec", 1, 1_000_000), gauge("b2", "IsrShrinksPerSec", 0, 2_000_000))

    assert sketch("metrics", *LIVES, *noted, *gauge_rows) == ["b2 reports IsrShrinksPerSec 0 at row 13, after 1"]


def test_one_failed_directory_is_not_two() -> None:
    gauge_row = gauge("b2", "OfflineLogDirectoryCount", 2)

    assert sketch("metrics", *LIVES, "dir-failed node=b2 dir=1", "dir-failed node=b2 dir=1", gauge_row) == [
        "b2 reports OfflineLogDirectoryCount 2 at row 11, 1 is right"
    ]
