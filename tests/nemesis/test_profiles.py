"""Which kinds a profile allows on which cluster (docs/promise.md DUR-4, DUR-5, VAC-2)."""

from typing import Literal

from msgspec.structs import replace

from history.fault_kinds import KIND_NAMES
from history.seed import Rng
from nemesis.faults import DirFailure, DiskSwap, PowerLoss
from nemesis.kinds import KINDS
from nemesis.profiles import Profile, default_kinds, usable, victims, victims_order
from nemesis.schedule import Shape, TopicFacts


def _shape(*topics: tuple[int, Literal["none", "before_ack"]]) -> Shape:
    """Four brokers with one topic for each pair of min.insync.replicas and flush setting."""
    return Shape(
        brokers=4,
        log_dirs=1,
        topics=tuple(
            TopicFacts(name=f"t{number}", partitions=1, min_insync_replicas=m, flush=flush)
            for number, (m, flush) in enumerate(topics)
        ),
        session_timeout_ms=3000,
        replica_lag_time_max_ms=2000,
        end_ms=30_000,
    )


def test_power_loss_is_a_default_only_with_flush_before_ack() -> None:
    assert "power-loss" in default_kinds("within", _shape((1, "before_ack")))
    assert "power-loss" not in default_kinds("within", _shape((2, "before_ack"), (2, "none")))


def test_profile_within_empties_no_log_dirs_by_default() -> None:
    kinds = default_kinds("within", _shape((3, "before_ack")))

    assert {"disk-swap", "dir-drop"} & set(kinds) == set()
    shape = replace(_shape((1, "none")), zookeeper=3, places=2)
    assert set(default_kinds("beyond", shape)) == {kind.name for kind in KINDS if not kind.named_only}


def test_profile_within_destroys_no_data_with_min_insync_one() -> None:
    names = {kind.name for kind in usable(Profile(name="within", kinds=KIND_NAMES), _shape((1, "none"), (3, "none")))}

    assert {"power-loss", "power-loss-everyone", "dir-drop", "disk-swap"} & names == set()
    shape = replace(_shape((1, "none")), zookeeper=3, places=2)
    assert {kind.name for kind in usable(Profile(name="beyond", kinds=KIND_NAMES), shape)} == set(KIND_NAMES)


def test_faults_between_servers_or_places_need_several() -> None:
    """One ZooKeeper server lags behind nobody, and clients that are all cut off have nobody to compare with."""
    shape = _shape((2, "none"))
    needing = {kind.name for kind in KINDS if kind.servers_min > 1 or kind.places_min > 1}

    assert set(KIND_NAMES) - {kind.name for kind in usable(Profile(name="beyond", kinds=KIND_NAMES), shape)} == needing
    assert {"zookeeper-lag", "place-cut"} <= needing


def test_flushed_topics_allow_power_loss_but_no_disk_swap() -> None:
    names = {kind.name for kind in usable(Profile(name="within", kinds=KIND_NAMES), _shape((1, "before_ack")))}

    assert {"power-loss", "power-loss-everyone", "dir-drop"} <= names
    assert "disk-swap" not in names


def test_nemesis_destroys_data_on_fewer_brokers_than_min_insync() -> None:
    """Two faults of one run may wound a different number of brokers, but prefixes of the same order."""
    shape = _shape((2, "before_ack"), (4, "none"))
    order = victims_order(Rng(7), shape)

    assert sorted(order) == [1, 2, 3, 4]
    assert victims(PowerLoss(), shape, order) == order[:3]
    assert victims(DiskSwap(), shape, order) == order[:1]
    assert victims(DirFailure(), shape, order) == order
