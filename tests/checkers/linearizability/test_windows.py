"""A window of a history: it refutes no history that has an order, and it refutes the hard ones."""

import pytest

from bench.histories import busy_calls
from checkers.engine.verdict import Validity
from checkers.linearizability.judge import judge
from checkers.linearizability.registers import CasRegister, KeyValue
from checkers.linearizability.search import Placed, Search, Stuck, Undecided
from checkers.linearizability.windows import Window, has_order_within, refuted
from history.foreign.step import UNKNOWN
from history.seed import Rng
from tests.checkers.linearizability.histories import Intent, call, overlapping_calls

_STEPS = 100_000


def _cas(rng: Rng, index: int) -> Intent:
    old, new = rng.below(3), rng.below(3)
    return rng.pick((("write", old, None), ("read", None, old), ("cas", (old, new), True), ("cas", (old, new), "false")))


def test_window_of_a_history_with_an_order_has_one() -> None:
    """Every window of those that have one; of the others many a window has none. `proof` does this for 100,000 histories."""
    possible = refutations = 0
    for seed in range(150):
        calls = overlapping_calls(Rng(seed), 5, _cas)
        times = sorted(time for call in calls for time in (call.start, call.end) if time is not None)
        windows = [Window(begin, end) for at, begin in enumerate(times) for end in times[at + 1 :]]
        found = [has_order_within(CasRegister(0), calls, window, _STEPS) for window in windows]
        if isinstance(Search(CasRegister(0), calls).run(_STEPS), Placed):
            possible += 1
            assert all(found), calls
        else:
            refutations += not all(found)

    assert possible > 20
    assert refutations > 40


def test_call_under_way_may_act_before_the_window_or_in_it() -> None:
    write = call(0, "write", argument=1, result=None, start=0, end=5)
    before = [
        write,
        call(1, "read", argument=None, result=1, start=3, end=4),
        call(2, "read", argument=None, result=1, start=6, end=7),
    ]
    after = [
        call(0, "write", argument=2, result=None, start=0, end=5),
        call(1, "read", argument=None, result=1, start=3, end=4),
        call(2, "read", argument=None, result=2, start=6, end=7),
    ]

    assert has_order_within(CasRegister(1), before, Window(2, 7), _STEPS)
    assert has_order_within(CasRegister(1), after, Window(2, 7), _STEPS)


def test_call_under_way_does_not_act_after_its_return() -> None:
    late = [
        call(0, "write", argument=1, result=None, start=0, end=3),
        call(1, "read", argument=None, result=2, start=4, end=5),
        call(2, "read", argument=None, result=1, start=6, end=7),
    ]

    assert has_order_within(CasRegister(2), late, Window(2, 7), _STEPS) is False


def test_answer_that_fits_waits_for_a_call_under_way() -> None:
    """The refused cas fits at once, but it is invoked after the write has returned: placed first, it would forbid the write."""
    calls = [
        *(
            call(0, "write", argument=2, result=None, start=0, end=3),
            call(1, "read", argument=None, result=0, start=1, end=2),
            call(2, "cas", (2, 2), "false", start=4, end=8),
        ),
        *(call(3, "cas", (2, 1), UNKNOWN, start=5, end=None), call(4, "cas", (2, 0), result=True, start=6, end=9)),
    ]

    assert isinstance(Search(CasRegister(0), calls).run(_STEPS), Placed)
    assert has_order_within(CasRegister(0), calls, Window(1, 9), _STEPS)


def test_equal_calls_differ_beside_a_call_under_way() -> None:
    """Of the two equal cas the one that returns first is invoked after the first cas has returned: it would forbid that one."""
    calls = [
        *(
            call(0, "cas", (2, 1), result=True, start=0, end=5),
            call(1, "write", argument=1, result=None, start=1, end=3),
            call(2, "read", argument=None, result=2, start=2, end=9),
        ),
        *(call(3, "cas", (1, 2), result=True, start=4, end=8), call(4, "cas", (1, 2), result=True, start=6, end=7)),
    ]

    assert isinstance(Search(CasRegister(0), calls).run(_STEPS), Placed)
    assert has_order_within(CasRegister(0), calls, Window(1, 8), _STEPS)


def test_call_of_unknown_outcome_may_act_after_any_window() -> None:
    calls = [
        call(0, "write", argument=1, result=UNKNOWN, start=0, end=None),
        call(1, "read", argument=None, result=2, start=4, end=5),
        call(2, "read", argument=None, result=1, start=6, end=7),
    ]

    assert has_order_within(CasRegister(2), calls, Window(2, 7), _STEPS)


def test_equal_calls_change_places() -> None:
    """b returns before a is invoked a second time: of the two equal writes either may be the one that was read."""
    calls = [
        *(
            call(0, "write", argument=1, result=None, start=0, end=9),
            call(1, "write", argument=1, result=None, start=1, end=3),
            call(2, "write", argument=2, result=None, start=4, end=5),
        ),
        *(call(3, "read", argument=None, result=2, start=6, end=7), call(4, "read", argument=None, result=1, start=8, end=11)),
    ]

    assert isinstance(Search(CasRegister(0), calls).run(_STEPS), Placed)
    assert isinstance(
        Search(CasRegister(0), [*calls[1:4], call(4, "read", argument=None, result=1, start=8, end=11)]).run(_STEPS), Stuck
    )


@pytest.mark.parametrize(("clients", "seed"), [(20, 2), (30, 5)])
def test_window_decides_what_the_search_alone_does_not(clients: int, seed: int) -> None:
    """A value that nobody wrote is read among busy clients."""
    calls = busy_calls(clients, 300, seed=seed, impossible=True)
    alone = Search(CasRegister(), calls).run(10_000)
    judgement = judge(CasRegister(), calls, steps_max=10_000)

    assert isinstance(alone, Undecided)
    assert judgement.validity is Validity.INVALID
    assert judgement.anomalies[0].words.endswith("no call wrote 10")
    assert judge(CasRegister(), busy_calls(clients, 300, seed=seed)).validity is Validity.VALID


def test_object_whose_state_is_no_given_value_has_no_windows() -> None:
    calls = [call(0, "put", "a", result=None, start=0, end=1), call(1, "get", argument=None, result="b", start=2, end=3)]

    assert refuted(KeyValue(), calls, around=3, steps=_STEPS) is None
