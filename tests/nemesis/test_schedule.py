"""A schedule that cannot be performed is refused with a sentence that names its window."""

import pytest
from msgspec.structs import replace

from nemesis.faults import AnyFault, ClockDrift, Clog, Crash, CrashAt, DiskFull, Packets, Partition, Pause, Reset
from nemesis.schedule import MAX_WINDOWS, Shape, TopicFacts, Window, clash, validate
from nemesis.targets import AnyTarget, Everyone, IsrMember, LeaderOf, Named, Random

SHAPE = Shape(
    brokers=3,
    log_dirs=1,
    topics=(TopicFacts(name="orders", partitions=2, min_insync_replicas=2, flush="none"),),
    session_timeout_ms=6000,
    replica_lag_time_max_ms=4000,
    end_ms=10_000,
)

CRASH = Crash()
EVERYONE = Everyone()


def _window(
    at_ms: int, until_ms: int, fault: AnyFault | None = None, target: AnyTarget | None = None, name: str = "f1"
) -> Window:
    return Window(id=name, kind="k", at_ms=at_ms, until_ms=until_ms, fault=fault or Crash(), target=target or Everyone())


def _sentences(*windows: Window) -> list[str]:
    return [complaint.sentence for complaint in validate(windows, SHAPE)]


def test_a_schedule_that_can_be_performed_has_no_complaints() -> None:
    assert _sentences(_window(0, 10_000), _window(100, 200, Pause(), LeaderOf(topic="orders", partition=1), "f2")) == []


def test_a_window_that_outlasts_the_faults_cannot_heal() -> None:
    assert _sentences(_window(0, 10_001)) == [
        "window f1 (k): a plan that cannot heal: it is open until 10001 ms and the faults end at 10000 ms"
    ]


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (_window(-1, 5), "before the start"),
        (_window(5, 5), "not after its begin"),
        (_window(0, 5, DiskFull(dir=1)), "no log directory 1"),
        (_window(0, 5, Packets(drop_per_mille=1001)), "from 0 to 1000"),
        (_window(0, 5, Packets(peer=4)), "no broker 4"),
        (_window(0, 5, Packets(copy_late_ms_max=0)), "copy_late_ms_max must be above 0"),
        (_window(0, 5, CrashAt(nth=0)), "effects are counted from 1"),
        (_window(0, 5, Reset(period_ms=0)), "above 0"),
        (_window(0, 5, ClockDrift(ppm=-1_000_000)), "may add up to -1000000 ppm"),
        (_window(0, 5, ClockDrift(ppm=1_000_000)), "not be above 900000"),
        (_window(0, 5, Clog(links=())), "no links"),
        (_window(0, 5, Partition(links=())), "no links"),
        (_window(0, 5, target=Named(brokers=(0,))), "no broker 0"),
        (_window(0, 5, target=Named(brokers=())), "no broker is named"),
        (_window(0, 5, target=LeaderOf(topic="order", partition=0)), "no topic 'order', only orders"),
        (_window(0, 5, target=IsrMember(topic="orders", partition=2)), "no partition 2, only 0 to 1"),
        (_window(0, 5, target=Random(count=4)), "4 brokers cannot be drawn from 3"),
    ],
)
def test_what_the_cluster_does_not_have_is_named(window: Window, words: str) -> None:
    (sentence,) = _sentences(window)

    assert words in sentence
    assert sentence.startswith("window f1 (k): ")


def test_two_windows_do_not_share_an_id() -> None:
    """Draws are keyed by it: removing one of the two would re-roll the other."""
    (complaint,) = validate((_window(0, 5), _window(6, 7)), SHAPE)

    assert complaint.index == 1
    assert "id is taken" in complaint.sentence


def test_windows_of_one_fault_on_one_broker_nest_or_part() -> None:
    """Where they half overlap, the end of the first would start a broker that the second wants down."""
    first = _window(0, 10, target=Named(brokers=(1, 2)))
    half = _window(5, 15, target=Named(brokers=(2,)), name="f2")

    assert "overlaps with window f1" in _sentences(first, half)[0]
    assert clash(half, first)
    assert not clash(first, replace(half, until_ms=8))
    assert not clash(first, replace(half, at_ms=10))
    assert not clash(first, replace(half, target=Named(brokers=(3,))))
    assert not clash(first, replace(half, fault=Pause()))
    assert not clash(first, replace(half, target=Random()))
    assert clash(first, replace(half, target=Everyone()))


def test_drifts_add_up_and_no_clock_stands_still() -> None:
    slow = ClockDrift(ppm=-500_000)

    assert "may add up to -1000000 ppm" in _sentences(_window(0, 9, slow), _window(1, 5, slow, name="f2"))[0]
    assert _sentences(_window(0, 9, slow), _window(9, 12, slow, name="f2")) == []


def test_a_schedule_has_a_bound() -> None:
    windows = [_window(n, n + 1, name=f"f{n}") for n in range(MAX_WINDOWS + 1)]

    assert f"at most {MAX_WINDOWS} windows" in _sentences(*windows)[0]
