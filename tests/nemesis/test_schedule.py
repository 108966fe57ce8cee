"""`validate` refuses a schedule that cannot be performed, with a sentence that names the window."""

import pytest
from msgspec.structs import replace

from nemesis.faults import (
    AnyFault,
    ClockDrift,
    Clog,
    Crash,
    CrashAt,
    Decommission,
    DirFailure,
    DiskFull,
    Join,
    Packets,
    Partition,
    Pause,
    Reset,
    Slow,
    ZooKeeperLinks,
)
from nemesis.schedule import MAX_WINDOWS, Shape, TopicFacts, Window, clash, validate
from nemesis.targets import AnyTarget, ClientPlace, Everyone, IsrMember, LeaderOf, Named, Random

SHAPE = Shape(
    brokers=3,
    log_dirs=1,
    topics=(TopicFacts(name="orders", partitions=2, min_insync_replicas=2, flush="none"),),
    session_timeout_ms=6000,
    replica_lag_time_max_ms=4000,
    end_ms=10_000,
    places=2,
)

CRASH = Crash()


def _window(
    at_ms: int, until_ms: int, fault: AnyFault | None = None, target: AnyTarget | None = None, name: str = "f1"
) -> Window:
    return Window(id=name, kind="k", at_ms=at_ms, until_ms=until_ms, fault=fault or Crash(), target=target or Everyone())


def _sentences(*windows: Window) -> list[str]:
    return [complaint.sentence for complaint in validate(windows, SHAPE)]


def test_fault_schedule_that_can_be_performed_is_accepted() -> None:
    assert _sentences(_window(0, 10_000), _window(100, 200, Pause(), LeaderOf(topic="orders", partition=1), "f2")) == []


def test_partitions_of_an_internal_topic_are_not_counted() -> None:
    """How many there are, the plan does not say: the system does."""
    assert _sentences(_window(0, 200, target=LeaderOf(topic="__transaction_state", partition=49))) == []


def test_fault_that_ends_after_the_fault_phase_is_refused() -> None:
    assert _sentences(_window(0, 10_001)) == [
        "window f1 (k): a plan that cannot heal: it is open until 10001 ms and the faults end at 10000 ms"
    ]


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (_window(-1, 5), "at_ms must be at least 0, not -1"),
        (_window(5, 5), "until_ms must be greater than at_ms (5 <= 5)"),
        (_window(0, 5, DiskFull(dir=1)), "no log directory 1"),
        (_window(0, 5, Packets(drop_per_mille=1001)), "from 0 to 1000, not 1001"),
        (_window(0, 5, Packets(peer=4)), "no broker 4"),
        (_window(0, 5, Packets(copy_late_ms_max=0)), "copy_late_ms_max must be at least 1, not 0"),
        (_window(0, 5, CrashAt(nth=0)), "nth must be at least 1, not 0"),
        (_window(0, 5, DirFailure(append="produce", nth=0)), "nth must be at least 1, not 0"),
        (_window(0, 5, DirFailure(nth=2)), "nth counts appends: it needs append, which is produce or fetch"),
        (_window(0, 5, Reset(period_ms=0)), "period_ms must be at least 1, not 0"),
        (_window(0, 5, ClockDrift(ppm=-1_000_000)), "may add up to -1000000 ppm"),
        (_window(0, 5, ClockDrift(ppm=1_000_000)), "ppm must be at most 900000, not 1000000"),
        (_window(0, 5, Clog(links=())), "links must name at least one"),
        (_window(0, 5, Partition(links=())), "links must name at least one"),
        (_window(0, 5, target=Named(brokers=(0,))), "no broker 0"),
        (_window(0, 5, target=Named(brokers=())), "brokers must name at least one broker"),
        (_window(0, 5, target=LeaderOf(topic="order", partition=0)), "no topic 'order', only orders"),
        (_window(0, 5, target=IsrMember(topic="orders", partition=2)), "no partition 2, only 0 to 1"),
        (_window(0, 5, target=IsrMember(topic="__consumer_offsets", partition=-1)), "has no partition -1"),
        (_window(0, 5, target=Random(count=4)), "count must be from 1 to 3, not 4"),
        (_window(0, 5, Partition(shape="bridge", peer=1)), "peer restricts the shape isolate alone, not bridge"),
        (_window(0, 5, ZooKeeperLinks()), "there are no links between ZooKeeper servers"),
        (_window(0, 5, Partition(), ClientPlace(place=3)), "there is no client place 3, only 1 to 2"),
        (_window(0, 5, Crash(), ClientPlace(place=1)), "only faults of links can hit a client place"),
        (_window(0, 5, Partition(shape="halves"), ClientPlace(place=1)), "by the shape isolate alone, not halves"),
        (_window(0, 5, Slow(extra_ms=1, links=("peers",)), ClientPlace(place=1)), "has links of the kind clients alone"),
        (_window(0, 5, Packets(reorder_per_mille=1), ClientPlace(place=1)), "can only be dropped (drop_per_mille)"),
        (_window(0, 5, Slow(extra_ms=1, chance_per_mille=0)), "chance_per_mille must be from 1 to 1000, not 0"),
        (_window(0, 5, Clog(chance_per_mille=1001)), "chance_per_mille must be from 1 to 1000, not 1001"),
        (_window(0, 5, Reset(chance_per_mille=5)), "a reset at messages must name their kinds"),
        (_window(0, 5, Reset(kinds=("end-txn",), period_ms=5)), "period_ms must be 0, not 5"),
        (_window(0, 5, Reset(period_ms=5, direction="inbound")), "only one at messages (kinds) has a direction"),
    ],
)
def test_invalid_fault_error_names_parameter_and_limit(window: Window, words: str) -> None:
    (sentence,) = _sentences(window)

    assert words in sentence
    assert sentence.startswith("window f1 (k): ")


def test_schedule_with_two_windows_of_one_id_is_refused() -> None:
    """Draws are named by the id: removing one of the two windows would change the draws of the other."""
    (complaint,) = validate((_window(0, 5), _window(6, 7)), SHAPE)

    assert complaint.index == 1
    assert "an earlier window has the same id" in complaint.sentence


def test_partly_overlapping_windows_of_a_fault_are_refused() -> None:
    """The end of the first window would start a broker that the second window keeps down."""
    first = _window(0, 10, target=Named(brokers=(1, 2)))
    half = _window(5, 15, target=Named(brokers=(2,)), name="f2")

    assert "partly overlaps window f1" in _sentences(first, half)[0]
    assert clash(half, first)
    assert not clash(first, replace(half, until_ms=8))
    assert not clash(first, replace(half, at_ms=10))
    assert not clash(first, replace(half, target=Named(brokers=(3,))))
    assert not clash(first, replace(half, fault=Pause()))
    assert not clash(first, replace(half, target=Random()))
    assert clash(first, replace(half, target=Everyone()))


def test_clock_drifts_that_add_up_to_too_slow_are_refused() -> None:
    slow = ClockDrift(ppm=-500_000)

    assert "may add up to -1000000 ppm" in _sentences(_window(0, 9, slow), _window(1, 5, slow, name="f2"))[0]
    assert _sentences(_window(0, 9, slow), _window(9, 12, slow, name="f2")) == []


def test_schedule_with_too_many_fault_windows_is_refused() -> None:
    windows = [_window(n, n + 1, name=f"f{n}") for n in range(MAX_WINDOWS + 1)]

    assert f"at most {MAX_WINDOWS} windows" in _sentences(*windows)[0]


def test_broker_that_joins_or_leaves_is_named() -> None:
    sentence = "a broker that joins or leaves is named: its target is {target: named, brokers: [...]}"

    assert _sentences(_window(0, 200, Join())) == [f"window f1 (k): {sentence}"]
    assert _sentences(_window(0, 200, Decommission(), Random())) == [f"window f1 (k): {sentence}"]
    assert (
        _sentences(_window(0, 200, Join(), Named(brokers=(3,))), _window(300, 900, Decommission(), Named(brokers=(3,)), "f2"))
        == []
    )


def test_broker_that_joins_is_absent_from_the_beginning_on() -> None:
    assert _sentences(_window(100, 200, Join(), Named(brokers=(3,)))) == [
        "window f1 (k): a broker that joins is not there from the beginning on: at_ms must be 0, not 100"
    ]
