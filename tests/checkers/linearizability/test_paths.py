"""The orders up to where a history fails: each is one that the object allows, and none goes on."""

import pytest
from msgspec.structs import replace

from checkers.linearizability import paths
from checkers.linearizability.judge import judge
from checkers.linearizability.model import Illegal, Model
from checkers.linearizability.paths import Account, Path, account
from checkers.linearizability.prefix import cut
from checkers.linearizability.registers import CasRegister, Register
from history.foreign.read import history_of
from history.foreign.step import Call
from history.seed import Rng, Seed
from tests.checkers.linearizability.histories import Intent, overlapping_calls

# The writes of 1 and 2 are concurrent; 3 was never written.
READS_3 = """
{:process 0 :type :invoke :f :write :value 1} {:process 1 :type :invoke :f :write :value 2}
{:process 0 :type :ok :f :write :value 1} {:process 1 :type :ok :f :write :value 2}
{:process 2 :type :invoke :f :read :value nil} {:process 3 :type :invoke :f :write :value 4}
{:process 2 :type :ok :f :read :value 3} {:process 3 :type :ok :f :write :value 4}
"""


def _account_of(text: str) -> tuple[Account, list[Call]]:
    calls = list(history_of(text).calls)
    judgement = judge(Register(0), calls)
    return account(Register(0), calls, judgement.longest[0]), calls


def test_paths_place_the_concurrent_calls_in_every_way() -> None:
    """Only the write of 4 is concurrent with the read: it is placed, and then 3 cannot be read."""
    account_told, calls = _account_of(READS_3)

    assert [[(calls[place.call].argument, place.state) for place in path.places] for path in account_told.paths] == [[(4, 4)]]
    assert [[calls[index].f for index in path.blocked] for path in account_told.paths] == [["read"]]
    assert (len(account_told.base), account_told.whole) == (2, True)


def test_paths_of_a_read_of_nothing_begin_with_the_initial_state() -> None:
    read = "{:process 0 :type :invoke :f :read :value nil} {:process 0 :type :ok :f :read :value 7}"
    account_told, _ = _account_of(read)

    assert (account_told.initial, account_told.base, [path.places for path in account_told.paths]) == (0, (), [()])


@pytest.mark.slow
def test_many_calls_of_unknown_outcome_end_the_paths_early() -> None:
    writes = " ".join(f"{{:process {n} :type :invoke :f :write :value {n}}}" for n in range(1, 1201))
    read = "{:process 0 :type :invoke :f :read :value nil} {:process 0 :type :ok :f :read :value 7000}"
    account_told, _ = _account_of(f"{writes} {read}")

    assert (account_told.paths, account_told.whole) == ((), False)


def test_history_without_an_order_of_its_prefix_has_no_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for one has a budget, and so many calls cannot be placed by walking through their orders."""
    monkeypatch.setattr(paths, "_STEPS_MAX", 1)
    calls = list(history_of(READS_3).calls)
    stuck = replace(judge(Register(0), calls).longest[0], order=())

    assert account(Register(0), calls, stuck) == Account(initial=0, base=(), paths=(), whole=False)


def _cas(rng: Rng, index: int) -> Intent:
    pair = (rng.below(3), rng.below(3))
    answers = [("write", pair[0], None), ("read", None, pair[0]), ("cas", pair, pair), ("cas", pair, "false")]
    return answers[rng.below(4)]


def test_any_path_is_an_order_and_ends_where_nothing_goes_on() -> None:
    """A path that real time or the object forbids would explain nothing."""
    model = CasRegister(0)
    explained = 0
    for number in range(60):
        calls = overlapping_calls(Rng(Seed(number)), 7, _cas)
        judgement = judge(model, calls)
        if not judgement.longest:
            continue
        explained += 1
        account_told = account(model, calls, judgement.longest[0])
        known_calls = {call.index: call for call in cut(calls, calls[judgement.longest[0].call].end or 0)}
        assert account_told.paths
        for path in account_told.paths:
            _assert_path_is_legal(model, known_calls, account_told, path)

    assert explained > 20


def _assert_path_is_legal(model: Model, known_calls: dict[int, Call], account_told: Account, path: Path) -> None:
    """Assert that the states of a path follow from its calls, in real time, and that no blocked call can come next."""
    state = account_told.initial
    placed = list[Call]()
    for place in (*account_told.base, *path.places):
        call = known_calls[place.call]
        assert model.step(state, call) == place.state
        assert all(call.end is None or call.end > before.start for before in placed)
        state = place.state
        placed.append(call)
    assert path.blocked
    assert all(isinstance(model.step(state, known_calls[index]), Illegal) for index in path.blocked)
