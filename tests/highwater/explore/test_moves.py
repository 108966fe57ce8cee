"""The explored world with two partitions, and with partitions that are moved to other brokers."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from highwater.cli.main import run_command_line
from highwater.cli.searching import PropertyName
from highwater.exit_codes import ExitCode
from highwater.explore.backend import ExploreBackend
from highwater.explore.breadth_first import BreadthFirst, Searched
from highwater.explore.machine_world import Impossible, MachineWorld
from highwater.explore.path import bounds_of, plan_of
from highwater.explore.state import Bounds
from highwater.explore.strategy import Budget, Result
from highwater.plans.actions import AnyAction, Deliver, Move, Produce
from highwater.rig.backend import Provenance
from highwater.runs.run import judge
from reference.config import VARIANTS, Variant

EVERY: tuple[PropertyName, ...] = ("committed", "weak-isr", "strong-isr", "isr-assigned")
MOVED = "a partition was moved"
ONE_MOVE = Bounds(max_epochs=5, crashes=0, expiries=1, moves=1)


def variant(protocol: str) -> Variant:
    return replace(VARIANTS[protocol], unclean_election=False)


def search(protocol: str, bounds: Bounds) -> Result[AnyAction]:
    searched = Searched(world=lambda: MachineWorld(variant(protocol), bounds), properties=EVERY)
    with TemporaryDirectory() as folder:
        return BreadthFirst(searched, Path(folder), lambda: 0.0).run(Budget())


def test_safe_holds_while_a_partition_is_moved() -> None:
    """Every schedule of one move; the ISR stays within the assignment, and no record is lost."""
    result = search("safe", replace(ONE_MOVE, expiries=0))

    assert (result.end, result.states, result.transitions, result.depth) == ("exhausted", 221, 451, 13)
    assert MOVED in result.goals


@pytest.mark.slow
def test_safe_holds_when_the_controller_changes_during_a_move() -> None:
    """Every schedule of one move and one expiry of a running broker's session."""
    result = search("safe", ONE_MOVE)

    assert (result.end, result.states, result.transitions, result.depth) == ("exhausted", 8442, 22113, 21)
    assert MOVED in result.goals


def test_move_without_widening_breaks_the_assignment() -> None:
    """A replica joins the ISR before ZooKeeper says that it is assigned."""
    result = search("reassign-without-widening", ONE_MOVE)

    assert (result.end, result.depth, result.states) == ("violated", 9, 781)
    assert result.wrong == "b2 is in the ISR of partition 0, which is assigned to b1"


def test_counterexample_with_a_move_replays_as_invalid() -> None:
    """The checkers find on the history alone what the explorer found."""
    path = search("reassign-without-widening", ONE_MOVE).path
    plan = plan_of(
        name="moved",
        story=(),
        protocol="reassign-without-widening",
        variant=variant("reassign-without-widening"),
        bounds=ONE_MOVE,
        path=path,
    )

    verdict = judge(ExploreBackend().perform(plan, Provenance(run_id="explored", plan_digest="0" * 32)).history)

    assert (bounds_of(plan).replicas, bounds_of(plan).moves) == (1, 1)
    assert "isr-outside-replicas" in {anomaly.kind for anomaly in verdict.anomalies}


def test_two_partitions_have_logs_and_leaders_of_their_own() -> None:
    result = search("safe", Bounds(partitions=2, crashes=0, expiries=0))

    assert (result.end, result.states, result.transitions, result.depth) == ("exhausted", 250, 516, 10)
    model = MachineWorld(variant("safe"), Bounds(partitions=2, records=2))
    state = model.after(model.initial(), Produce(node="b1", partition=1))
    state = model.after(state, Deliver(message="FetchReply", source="b1", to="b2"))
    assert [host.values for host in model.hosts(state)] == [((), ("v1",)), ((), ("v1",))]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("machines", "--moves", "1", "--brokers", "1"), "--moves 1 needs at least 2 brokers, not 1"),
        (("refine", "kip320", "--moves", "1"), "No such option: --moves"),
        (("realise", "kip101", "--partitions", "2"), "No such option: --partitions"),
    ],
)
def test_explore_refuses_moves_that_a_world_cannot_have(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["explore", *options]) == ExitCode.USAGE

    assert words in capsys.readouterr().err


def test_second_move_is_refused_while_one_is_under_way() -> None:
    model = MachineWorld(variant("safe"), replace(ONE_MOVE, moves=2))
    move = Move(partition=0, replicas=(2,))
    state = model.after(model.initial(), move)

    with pytest.raises(Impossible, match="a move is under way"):
        model.after(state, move)
