"""The results of the explorer; its numbers are exact because the search is deterministic."""

from itertools import count

import pytest
from msgspec.structs import replace

from highwater.explore.model import Model
from highwater.explore.properties import COMMITTED, GOALS, PROPERTIES, Property
from highwater.explore.search import Budget, Result, Search
from highwater.explore.state import Bounds
from highwater.plans.actions import Crash, Expire, Fire, words
from reference.config import VARIANTS

WEAK_ISR = next(p for p in PROPERTIES if p.name == "weak-isr")
STRONG_ISR = next(p for p in PROPERTIES if p.name == "strong-isr")


def clock() -> float:
    """A clock that stands still: no budget of seconds."""
    return 0.0


NO_BUDGET = Budget()


def search(
    protocol: str, bounds: Bounds, *, budget: Budget = NO_BUDGET, properties: tuple[Property, ...] = (COMMITTED,), **switches: str
) -> Result:
    variant = replace(VARIANTS[protocol], unclean_election=False, **switches)
    return Search(Model(variant, bounds), properties, GOALS, clock).run(budget)


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


def test_explorer_stops_at_its_budget_of_seconds() -> None:
    ticks = count()
    variant = VARIANTS["safe"]

    result = Search(Model(variant, Bounds()), (COMMITTED,), GOALS, lambda: float(next(ticks))).run(Budget(seconds=50))

    assert (result.end, result.stopped_by) == ("budget", "50 seconds")


@pytest.mark.slow
def test_two_searches_of_one_model_give_equal_results() -> None:
    bounds = Bounds(losses=1)

    assert search("v3", bounds, budget=Budget(depth=5)) == search("v3", bounds, budget=Budget(depth=5))


def test_started_cluster_without_faults_has_nothing_to_explore() -> None:
    """No timer of a warm `safe` cluster changes the state."""
    model = Model(VARIANTS["safe"], Bounds(records=0, crashes=0, expiries=0))

    assert list(model.successors(model.initial())) == []


def test_explorer_limits_faults_but_not_recovery_steps() -> None:
    model = Model(VARIANTS["safe"], Bounds(records=0, crashes=1, expiries=0))
    state = model.after(model.initial(), Crash(node="b2"))

    actions = [action for action, _ in model.successors(state)]

    assert Crash(node="b1") not in actions
    assert Expire(node="b1") not in actions
    assert Expire(node="b2") in actions
    assert not any(isinstance(action, Fire) and action.node == "b2" for action in actions)


def test_interrupted_search_reports_its_progress() -> None:
    def interrupt(states: int, depth: int) -> None:
        if states > 500:
            raise KeyboardInterrupt

    model = Model(VARIANTS["safe"], Bounds(records=1, max_epochs=2))
    result = Search(model, (COMMITTED,), GOALS, clock).run(NO_BUDGET, interrupt)

    assert (result.end, result.stopped_by) == ("interrupted", "an interrupt")
    assert result.states > 500
    assert result.frontier > 0
