"""The results of the explorer; its numbers are exact because the search is deterministic."""

from collections.abc import Callable
from functools import partial
from itertools import count
from multiprocessing import active_children
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from highwater.errors import HarnessError
from highwater.explore import shard
from highwater.explore.breadth_first import BreadthFirst, Searched, read_checkpoint
from highwater.explore.depth_first import DepthFirst
from highwater.explore.machine_world import MachineWorld
from highwater.explore.state import Bounds
from highwater.explore.strategy import Budget, Result
from highwater.explore.transition import Key
from highwater.explore.walks import Scheduler, Walks, _Turns
from highwater.plans.actions import AnyAction, Crash, Expire, Fire, words
from history.seed import Rng
from reference.config import VARIANTS

COMMITTED, WEAK_ISR, STRONG_ISR = "committed", "weak-isr", "strong-isr"
NO_BUDGET = Budget()


def clock() -> float:
    """A clock that stands still: no budget of seconds."""
    return 0.0


def world(protocol: str, bounds: Bounds, **switches: str) -> Callable[[], MachineWorld]:
    return partial(MachineWorld, replace(VARIANTS[protocol], unclean_election=False, **switches), bounds)


def search(
    protocol: str,
    bounds: Bounds,
    *,
    budget: Budget = NO_BUDGET,
    properties: tuple[str, ...] = (COMMITTED,),
    workers: int = 1,
    stop: bool = True,
    **switches: str,
) -> Result[AnyAction]:
    searched = Searched(world=world(protocol, bounds, **switches), properties=properties, stop=stop)
    with TemporaryDirectory() as folder:
        result = BreadthFirst(searched, Path(folder), clock, workers=workers).run(budget)
    return replace(result, folder="", memory_mib=0)


@pytest.mark.slow
def test_v3_loses_a_record_in_eight_steps_by_its_join_rule() -> None:
    """R-058, C-07: a follower that lacks the committed record passes V3's test for joining the ISR, and is then elected."""
    result = search("v3", Bounds(records=1, max_epochs=2))

    assert (result.end, result.depth, result.states) == ("violated", 8, 16509)
    assert result.wrong == "b2 leads epoch 1 without v1, which is committed at offset 0"


@pytest.mark.slow
def test_v3_loses_a_record_in_nine_steps_by_hw_truncation() -> None:
    """V3 §E step 3.3: without its rule for joining the ISR, a restarted follower truncates to its high watermark and leads."""
    result = search("v3", Bounds(records=1, max_epochs=2), isr_join="hw_only")

    assert (result.end, result.depth, result.states) == ("violated", 9, 17611)
    assert result.wrong == "b2 leads epoch 1 without v1, which is committed at offset 0"
    assert [words(action) for action in result.path] == [
        "a client produces to b1",
        "b2 gets FetchReply of b1",
        "b1 gets Fetch of b2",
        "b2 crashes",
        "ZooKeeper ends the session of b1",
        "ZooKeeper ends the session of b2",
        "b2 starts again",
        "b2 gets its own LeaderAndIsr",
        "b2 gets its own LeaderAndIsr",
    ]


@pytest.mark.slow
def test_hw_truncation_breaks_strong_isr_with_two_brokers() -> None:
    """docs/oracles.md §7.2: a committed record is missing in the log of an ISR member, two steps before it is lost."""
    result = search("v3", Bounds(records=1, max_epochs=2), properties=(COMMITTED, STRONG_ISR), isr_join="hw_only")

    assert (result.end, result.depth, result.states) == ("violated", 7, 4512)
    assert result.wrong == "what leader b1 holds below its HW 1 is not in the log of b2, of the ISR in ZooKeeper"


ISR_CHANGES = Bounds(records=2, max_epochs=1, crashes=0, expiries=0, zk_async=True)
ONE_EXPIRY = Bounds(records=1, max_epochs=3, crashes=0, expiries=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "bounds", "expected"),
    [
        # docs/oracles.md §7.2, the ISR-change protocol with a fixed leader: HW over the current, the proposed, the maximal ISR
        ("isr-current", ISR_CHANGES, ("violated", 8, 73)),
        ("isr-eager", ISR_CHANGES, ("violated", 3, 10)),
        ("safe", ISR_CHANGES, ("exhausted", 19, 180)),
        # the truncation repair with two brokers, and V3's literal expansion of the ISR
        ("truncate-to-hw", ONE_EXPIRY, ("violated", 6, 277)),
        ("isr-expand-v3", ONE_EXPIRY, ("violated", 5, 148)),
        ("kip320", ONE_EXPIRY, ("exhausted", 16, 1504)),
        ("safe", ONE_EXPIRY, ("exhausted", 16, 1504)),
    ],
)
def test_verdicts_equal_those_of_the_formal_models(protocol: str, bounds: Bounds, expected: tuple[str, int, int]) -> None:
    """StrongIsr: the records below a leader's HW are in the log of every member of the ISR in ZooKeeper."""
    result = search(protocol, bounds, properties=(COMMITTED, STRONG_ISR))

    assert (result.end, result.depth, result.states) == expected


@pytest.mark.slow
def test_protocol_safe_holds_in_all_states_with_one_crash() -> None:
    """Two brokers, one record, two epochs: no schedule loses the record or breaks the agreement of the ISR."""
    result = search("safe", Bounds(expiries=0), properties=(COMMITTED, WEAK_ISR, STRONG_ISR))

    assert (result.end, result.frontier) == ("exhausted", 0)
    assert (result.states, result.transitions, result.depth) == (5888, 14584, 20)
    assert result.goals == ("a record was committed", "the ISR shrank", "another leader was elected")


def test_explorer_out_of_budget_has_no_verdict() -> None:
    by_states = search("safe", Bounds(), budget=Budget(states=300))
    by_depth = search("safe", Bounds(), budget=Budget(depth=3))

    assert (by_states.end, by_states.stopped_by) == ("budget", "300 states")
    assert by_states.frontier > 0
    assert (by_depth.end, by_depth.stopped_by, by_depth.depth) == ("budget", "depth 3", 3)


def test_explorer_stops_at_its_budget_of_seconds(tmp_path: Path) -> None:
    ticks = count()
    searched = Searched(world=world("safe", Bounds()), properties=(COMMITTED,))

    result = BreadthFirst(searched, tmp_path, lambda: float(next(ticks))).run(Budget(seconds=4))

    assert (result.end, result.stopped_by) == ("budget", "4 seconds")


@pytest.mark.slow
def test_two_searches_of_one_model_give_equal_results() -> None:
    bounds = Bounds(losses=1)

    assert search("v3", bounds, budget=Budget(depth=5)) == search("v3", bounds, budget=Budget(depth=5))


def test_started_cluster_without_faults_has_nothing_to_explore() -> None:
    """No timer of a warm `safe` cluster changes the state."""
    model = MachineWorld(VARIANTS["safe"], Bounds(records=0, crashes=0, expiries=0))

    assert list(model.successors(model.initial())) == []


def test_explorer_limits_faults_but_not_recovery_steps() -> None:
    model = MachineWorld(VARIANTS["safe"], Bounds(records=0, crashes=1, expiries=0))
    state = model.after(model.initial(), Crash(node="b2"))

    actions = [action for action, _ in model.successors(state)]

    assert Crash(node="b1") not in actions
    assert Expire(node="b1") not in actions
    assert Expire(node="b2") in actions
    assert not any(isinstance(action, Fire) and action.node == "b2" for action in actions)


def test_interrupted_search_reports_its_progress(tmp_path: Path) -> None:
    def interrupt(states: int, depth: int) -> None:
        if states > 500:
            raise KeyboardInterrupt

    searched = Searched(world=world("safe", Bounds()), properties=(COMMITTED,))
    result = BreadthFirst(searched, tmp_path, clock).run(NO_BUDGET, interrupt)

    assert (result.end, result.stopped_by) == ("interrupted", "an interrupt")
    assert result.states > 500
    assert result.frontier > 0


@pytest.mark.slow
def test_protocol_safe_holds_with_a_crash_and_an_expiry() -> None:
    """Two brokers, one record, two epochs, one crash, one expired session: the whole space."""
    result = search("safe", Bounds(), properties=(COMMITTED, WEAK_ISR, STRONG_ISR))

    assert (result.end, result.states, result.transitions, result.depth) == ("exhausted", 175_230, 575_676, 25)
    assert result.collision_odds < 1e-27


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [Bounds(expiries=0), Bounds(brokers=3, crashes=0, expiries=0, records=2, max_epochs=1)])
def test_search_by_two_workers_counts_as_by_one(bounds: Bounds) -> None:
    by_one_worker, by_two_workers = (search("safe", bounds, workers=workers) for workers in (1, 2))

    assert replace(by_two_workers, goals=()) == replace(by_one_worker, goals=())
    assert sorted(by_two_workers.goals) == sorted(by_one_worker.goals)


@pytest.mark.slow
def test_search_by_two_workers_finds_a_shortest_violation() -> None:
    by_one_worker, by_two_workers = (search("v3", Bounds(), properties=(STRONG_ISR,), workers=workers) for workers in (1, 2))

    assert (by_two_workers.end, by_two_workers.depth) == (by_one_worker.end, by_one_worker.depth) == ("violated", 7)
    model = world("v3", Bounds())()
    state = model.initial()
    for action in by_two_workers.path:
        state = model.after(state, action)
    assert next(p for p in model.properties if p.name == STRONG_ISR).broken(state) == by_two_workers.wrong


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_search_resumed_again_and_again_counts_as_one(workers: int, tmp_path: Path) -> None:
    searched = Searched(world=world("safe", ONE_EXPIRY), properties=(COMMITTED, STRONG_ISR))

    def strategy() -> BreadthFirst[Key, AnyAction]:
        return BreadthFirst(searched, tmp_path, clock, workers=workers, name="a search")

    strategy().run(Budget(depth=4))
    for states in (300, 600):
        strategy().resume(read_checkpoint(tmp_path), Budget(states=states))
    result = strategy().resume(read_checkpoint(tmp_path), NO_BUDGET)

    assert read_checkpoint(tmp_path).searched == "a search"
    assert replace(result, memory_mib=0, goals=()) == replace(search("safe", ONE_EXPIRY), goals=())
    assert "a record was committed" in result.goals


@pytest.mark.slow
def test_search_with_a_killed_worker_can_be_resumed(tmp_path: Path) -> None:
    searched = Searched(world=world("safe", ONE_EXPIRY), properties=(COMMITTED,))
    BreadthFirst(searched, tmp_path, clock, workers=2).run(Budget(depth=4))

    def kill(states: int, depth: int) -> None:
        active_children()[0].kill()

    with pytest.raises(HarnessError, match="a worker of the search ended"):
        BreadthFirst(searched, tmp_path, clock, workers=2).resume(read_checkpoint(tmp_path), NO_BUDGET, kill)

    assert active_children() == []
    result = BreadthFirst(searched, tmp_path, clock, workers=2).resume(read_checkpoint(tmp_path), NO_BUDGET)
    assert (result.end, result.states, result.transitions) == ("exhausted", 1504, 3923)


@pytest.mark.slow
def test_search_that_forgets_parts_has_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that only the remembered steps of brokers need are dropped; states, paths and goals stay."""
    bounds = Bounds(expiries=0)
    properties = (COMMITTED, STRONG_ISR)
    complete = [search("safe", bounds, properties=properties), search("v3", Bounds(), properties=properties)]

    monkeypatch.setattr(shard, "PARTS_MAX", 50)

    assert [search("safe", bounds, properties=properties), search("v3", Bounds(), properties=properties)] == complete


@pytest.mark.slow
def test_protocol_safe_holds_with_kip343_and_one_epoch() -> None:
    """Heartbeats may be late at any time, and the leader changes the ISR through the controller."""
    result = search("safe", Bounds(crashes=0, expiries=0, max_epochs=1, kip343=True), properties=(COMMITTED, STRONG_ISR))

    assert (result.end, result.states, result.transitions, result.depth) == ("exhausted", 7036, 37_966, 24)
    assert result.goals == ("a record was committed", "the ISR shrank")


def test_search_in_a_damaged_folder_is_not_resumed(tmp_path: Path) -> None:
    searched = Searched(world=world("safe", ONE_EXPIRY), properties=(COMMITTED,))
    BreadthFirst(searched, tmp_path, clock).run(Budget(depth=4))
    (tmp_path / "0" / "states").write_bytes(b"")

    with pytest.raises(HarnessError, match="states has 0 bytes"):
        BreadthFirst(searched, tmp_path, clock).resume(read_checkpoint(tmp_path), NO_BUDGET)


@pytest.mark.slow
def test_search_without_stop_has_each_first_violation() -> None:
    result = search("truncate-to-hw", ONE_EXPIRY, properties=(COMMITTED, WEAK_ISR, STRONG_ISR), stop=False)

    assert result.end == "exhausted"
    assert {violation.name: len(violation.path) for violation in result.violations} == {WEAK_ISR: 5, STRONG_ISR: 6}


@pytest.mark.slow
def test_depth_first_search_counts_as_breadth_first() -> None:
    model = world("safe", ONE_EXPIRY)()

    deep, broad = DepthFirst(model, model.properties, clock).run(NO_BUDGET), search("safe", ONE_EXPIRY)

    assert (deep.end, deep.states, deep.transitions) == (broad.end, broad.states, broad.transitions)
    assert deep.depth > broad.depth


@pytest.mark.slow
def test_depth_first_search_visits_all_within_a_depth() -> None:
    """A state that is first reached at the limit is expanded when a shorter path reaches it."""
    model = world("safe", ONE_EXPIRY)()

    deep = DepthFirst(model, (), clock).run(Budget(depth=7))

    assert (deep.end, deep.stopped_by) == ("budget", "depth 7")
    assert deep.states == search("safe", ONE_EXPIRY, budget=Budget(depth=7)).states


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["uniform", "swarm", "pct", "delay", "mixed"])
def test_walks_find_what_truncation_to_the_hw_breaks(scheduler: Scheduler) -> None:
    build = world("truncate-to-hw", ONE_EXPIRY)

    first_walks, second_walks = (
        Walks(build, (STRONG_ISR,), clock, scheduler=scheduler, seed=7).run(Budget(walks=300)) for _ in range(2)
    )

    assert replace(first_walks, memory_mib=0) == replace(second_walks, memory_mib=0)
    assert first_walks.end == "violated"
    assert len(first_walks.path) >= 6  # the length of a shortest one


@pytest.mark.parametrize("seed", range(8))
def test_actor_that_is_passed_over_waits_for_all_others(seed: int) -> None:
    """It must not draw lots with the one that had the turn before."""
    turns = _Turns[str](Rng(seed), str, steps_max=1)
    turns._delays = {2}

    chosen = [("b1", "b2")[turns.choose(("b1", "b2"))] for _ in range(5)]

    assert chosen[0] == chosen[3] != chosen[1] == chosen[2]


def test_walks_report_the_goals_that_they_never_reached() -> None:
    build = world("safe", Bounds(crashes=0, expiries=0))

    result = Walks(build, (COMMITTED,), clock, scheduler="uniform", seed=7).run(Budget(walks=20))

    assert (result.end, result.stopped_by) == ("budget", "20 walks")
    assert {goal.name for goal in build().goals} - set(result.goals) == {
        "another leader was elected",
        "two brokers took themselves for the leader",
        "two logs held different records at one offset",
    }
