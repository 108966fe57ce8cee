"""Laws of generated schedules: they heal, they are functions of the seed, and `within` wounds too few to lose anything."""

from hypothesis import given

from history.seed import Rng
from nemesis.faults import wounds
from nemesis.generate import generate
from nemesis.kinds import KIND_NAMES
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
)
DEFAULT = Profile(name="within", kinds=default_kinds("within", SHAPE))


def _many(count: int, profile: Profile = DEFAULT) -> list[tuple[Window, ...]]:
    return [generate(Rng(seed), profile, SHAPE) for seed in range(count)]


@given(seeds, profiles(), shapes())
def test_any_schedule_heals(seed: int, profile: Profile, shape: Shape) -> None:
    """Every window closes before the end, names what exists, and undoes nothing that another still wants."""
    assert validate(generate(Rng(seed), profile, shape), shape) == ()


@given(seeds, profiles(), shapes())
def test_a_schedule_is_a_function_of_the_seed(seed: int, profile: Profile, shape: Shape) -> None:
    """Whatever else was drawn from the same generator before."""
    used = Rng(seed)
    used.bits()

    assert generate(used, profile, shape) == generate(Rng(seed), profile, shape)


@given(seeds, profiles(), shapes())
def test_within_never_wounds_as_many_replicas_as_must_be_in_sync(seed: int, profile: Profile, shape: Shape) -> None:
    """docs/promise.md VAC-2, counted over the whole run: whoever is wounded once may be wounded until the end."""
    within = Profile(name="within", kinds=profile.kinds, swarm=profile.swarm)
    windows = generate(Rng(seed), within, shape)

    for topic in shape.topics:
        targets = [window.target for window in windows if wounds(window.fault, topic.flush)]
        assert all(isinstance(target, Named) for target in targets)
        wounded = {broker for target in targets if isinstance(target, Named) for broker in target.brokers}
        assert len(wounded) < topic.min_insync_replicas


@given(seeds, profiles(), shapes())
def test_a_schedule_uses_only_what_the_profile_allows(seed: int, profile: Profile, shape: Shape) -> None:
    kinds = {window.kind for window in generate(Rng(seed), profile, shape)}

    assert kinds <= {kind.name for kind in usable(profile, shape)}


def test_windows_are_in_order_and_numbered() -> None:
    for windows in _many(50):
        assert [window.id for window in windows] == [f"f{number}" for number in range(1, len(windows) + 1)]
        assert [window.at_ms for window in windows] == sorted(window.at_ms for window in windows)


def test_a_run_of_ordinary_length_is_never_without_faults() -> None:
    assert min(len(windows) for windows in _many(300)) >= 1


def test_a_run_lacks_some_kinds_and_hundreds_of_runs_lack_none() -> None:
    """Swarm testing: a run that has everything never reaches the states that need something to be missing."""
    kinds = [{window.kind for window in windows} for windows in _many(200)]

    assert set().union(*kinds) == set(DEFAULT.kinds)
    assert max(len(some) for some in kinds) < len(DEFAULT.kinds)
    assert sum(len(some) <= 3 for some in kinds) >= 10


def test_blows_overlap_and_calms_part_them() -> None:
    """Pairs of faults find what single ones do not; calms let the ISR be whole before it is hurt in another way."""
    whole = SHAPE.session_timeout_ms + SHAPE.replica_lag_time_max_ms
    overlaps = calms = 0
    for windows in _many(100):
        open_until = windows[0].until_ms
        for window in windows[1:]:
            overlaps += window.at_ms < open_until
            calms += window.at_ms > open_until + whole
            open_until = max(open_until, window.until_ms)

    assert overlaps > 300
    assert calms > 50


def test_pauses_end_on_either_side_of_the_session_timeout() -> None:
    for windows in _many(100, Profile(name="within", kinds=("pause-short", "pause-long"))):
        for window in windows:
            assert (window.until_ms - window.at_ms > SHAPE.session_timeout_ms) == (window.kind == "pause-long")


def test_some_schedules_lay_one_fault_on_several_brokers_and_lift_it_in_another_order() -> None:
    swizzled = [windows for windows in _many(60) if sum(isinstance(window.target, Named) for window in windows) >= 3]

    assert swizzled != []


def test_some_schedules_depose_the_leader_of_one_partition_again_and_again() -> None:
    """Epochs that follow each other before followers have fetched are where truncation goes wrong (KIP-279)."""
    chases = 0
    for windows in _many(60, Profile(name="within", kinds=("expire-session", "crash-leader"))):
        times = [window.at_ms for window in windows if window.target == LeaderOf(topic="orders", partition=0)]
        chases += any(last - first < 2500 for first, last in zip(times, times[3:], strict=False))

    assert chases > 5


def test_no_kinds_make_no_schedule() -> None:
    assert generate(Rng(1), Profile(name="within", kinds=()), SHAPE) == ()


def test_every_kind_can_be_asked_for_alone() -> None:
    """`--faults dir-drop` must not yield a run without faults where the cluster has a copy to spare."""
    shape = Shape(
        brokers=3,
        log_dirs=1,
        topics=(TopicFacts(name="orders", partitions=1, min_insync_replicas=2, flush="before_ack"),),
        session_timeout_ms=6000,
        replica_lag_time_max_ms=4000,
        end_ms=20_000,
    )
    for name in KIND_NAMES:
        for seed in range(20):
            windows = generate(Rng(seed), Profile(name="within", kinds=(name,)), shape)
            assert {window.kind for window in windows} == {name}, (name, seed)
