"""Laws of generated schedules: they heal, they depend on the seed alone, and `within` wounds too few replicas for a loss."""

import pytest
from hypothesis import given

from history.fault_kinds import KIND_NAMES
from history.seed import Rng
from nemesis.faults import wounds
from nemesis.generate import FOR_LONG, generate
from nemesis.profiles import Profile, default_kinds, usable
from nemesis.schedule import Shape, TopicFacts, Window, validate
from nemesis.targets import LeaderOf, Named
from tests.nemesis.strategies import profiles, seeds, shapes

SHAPE = Shape(
    brokers=5,
    log_dirs=2,
    topics=(TopicFacts(name="orders", partitions=3, min_insync_replicas=2, flush="before_ack"),),
    session_timeout_ms=4000,
    replica_lag_time_max_ms=2000,
    end_ms=40_000,
    zookeeper=3,
    places=3,
)
ANY_CATALOGUE = pytest.mark.usefixtures("catalogue")


def _many(count: int, *kinds: str) -> list[tuple[Window, ...]]:
    profile = Profile(name="within", kinds=kinds or default_kinds("within", SHAPE))
    return [generate(Rng(seed), profile, SHAPE) for seed in range(count)]


@given(seeds, profiles(), shapes())
def test_any_nemesis_schedule_heals_all_faults(seed: int, profile: Profile, shape: Shape) -> None:
    """Every window closes before the end, names existing parts of the cluster, and undoes nothing of another window."""
    assert validate(generate(Rng(seed), profile, shape), shape) == ()


@given(seeds, profiles(), shapes())
def test_same_seed_gives_the_same_fault_schedule(seed: int, profile: Profile, shape: Shape) -> None:
    """Also where other numbers were drawn from the same generator before."""
    used = Rng(seed)
    used.bits()

    assert generate(used, profile, shape) == generate(Rng(seed), profile, shape)


@given(seeds, profiles(), shapes())
def test_profile_within_destroys_fewer_copies_than_min_insync(seed: int, profile: Profile, shape: Shape) -> None:
    """docs/promise.md VAC-2, counted over the whole run: a broker wounded once may stay wounded until the end."""
    within = Profile(name="within", kinds=profile.kinds, swarm=profile.swarm)
    windows = generate(Rng(seed), within, shape)

    for topic in shape.topics:
        targets = [window.target for window in windows if wounds(window.fault, topic.flush)]
        assert all(isinstance(target, Named) for target in targets)
        wounded = {broker for target in targets if isinstance(target, Named) for broker in target.brokers}
        assert len(wounded) < topic.min_insync_replicas


@given(seeds, profiles(), shapes())
def test_schedule_uses_only_kinds_of_the_profile(seed: int, profile: Profile, shape: Shape) -> None:
    kinds = {window.kind for window in generate(Rng(seed), profile, shape)}

    assert kinds <= {kind.name for kind in usable(profile, shape)}


@ANY_CATALOGUE
def test_fault_windows_are_sorted_by_begin_and_numbered() -> None:
    for windows in _many(50):
        assert [window.id for window in windows] == [f"f{number}" for number in range(1, len(windows) + 1)]
        assert [window.at_ms for window in windows] == sorted(window.at_ms for window in windows)


@ANY_CATALOGUE
def test_run_of_default_length_always_has_faults() -> None:
    assert min(len(windows) for windows in _many(300)) >= 1


@ANY_CATALOGUE
def test_one_schedule_lacks_fault_kinds_but_hundreds_lack_none() -> None:
    """Swarm testing: a run with all kinds never reaches states that need one kind to be absent."""
    kinds = [{window.kind for window in windows} for windows in _many(200)]

    assert set().union(*kinds) == set(default_kinds("within", SHAPE))
    assert max(len(some) for some in kinds) < len(set().union(*kinds))
    assert sum(len(some) <= 4 for some in kinds) >= 10


@ANY_CATALOGUE
def test_fault_rounds_overlap_faults_and_have_calms_between() -> None:
    """Pairs of faults find bugs that single faults do not; in calms the ISR becomes complete again."""
    shape = SHAPE.session_timeout_ms + SHAPE.replica_lag_time_max_ms
    overlaps = calms = 0
    for windows in _many(100):
        open_until = windows[0].until_ms
        for window in windows[1:]:
            overlaps += window.at_ms < open_until
            calms += window.at_ms > open_until + shape
            open_until = max(open_until, window.until_ms)

    assert overlaps > 300
    assert calms > 50


def test_pauses_are_shorter_and_longer_than_the_session_timeout() -> None:
    for windows in _many(100, "pause-short", "pause-long"):
        for window in windows:
            assert (window.until_ms - window.at_ms > SHAPE.session_timeout_ms) == (window.kind == "pause-long")


@ANY_CATALOGUE
def test_every_second_schedule_begins_with_a_broker_alone() -> None:
    """docs/promise.md LIVE-6, LIVE-7: nothing else is in force until it has been replaced."""
    for_long = [windows for windows in _many(200) if windows[0].kind in FOR_LONG]
    alone = [first for first, *later in for_long if all(window.at_ms >= first.until_ms for window in later)]

    assert 60 < len(alone) < 140


@ANY_CATALOGUE
def test_some_schedules_begin_one_fault_on_brokers_in_turn() -> None:
    swizzled = [windows for windows in _many(60) if sum(isinstance(window.target, Named) for window in windows) >= 3]

    assert swizzled != []


def test_some_fault_schedules_depose_one_leader_repeatedly() -> None:
    """Truncation goes wrong where several epochs pass before followers have fetched (KIP-279)."""
    chases = 0
    for windows in _many(60, "expire-session", "crash-leader"):
        times = [window.at_ms for window in windows if window.target == LeaderOf(topic="orders", partition=0)]
        chases += any(last - first < 2500 for first, last in zip(times, times[3:], strict=False))

    assert chases > 5


def test_fault_schedule_without_fault_kinds_is_empty() -> None:
    assert generate(Rng(1), Profile(name="within", kinds=()), SHAPE) == ()


def test_each_fault_kind_alone_gives_a_schedule_with_faults() -> None:
    """`--faults dir-drop` must give faults where the cluster may lose one copy."""
    shape = Shape(
        brokers=3,
        log_dirs=1,
        topics=(TopicFacts(name="orders", partitions=1, min_insync_replicas=2, flush="before_ack"),),
        session_timeout_ms=6000,
        replica_lag_time_max_ms=4000,
        end_ms=20_000,
        zookeeper=3,
        places=2,
    )
    for name in KIND_NAMES:
        for seed in range(20):
            windows = generate(Rng(seed), Profile(name="within", kinds=(name,)), shape)
            assert {window.kind for window in windows} == {name}, (name, seed)
