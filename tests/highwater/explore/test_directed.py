"""`highwater explore realise` and `explore ablate`: the guide's distances, the search they lead, the plans that it found."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import fields, replace

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.explore import ablation
from highwater.explore.ablation import Ablation, Ablations
from highwater.explore.abstract import guide
from highwater.explore.abstract.guide import Guide
from highwater.explore.abstract.rules import PUBLISHED as AS_PUBLISHED
from highwater.explore.abstract.rules import VARIANTS as RULES
from highwater.explore.abstract.rules import Machines, Sizes
from highwater.explore.breadth_first import BreadthFirst
from highwater.explore.directed import Directed, shorten_path
from highwater.explore.machine_world import MachineWorld
from highwater.explore.published import PUBLISHED, guide_of
from highwater.explore.state import Bounds
from highwater.explore.strategy import Budget, Result
from highwater.plans.actions import AnyAction, Crash, Expire, Fire, Restart
from highwater.plans.text import load_plan
from reference.config import SAFE, VARIANTS, Variant

SMALL = Sizes(replicas=2, log_size=2, max_records=2, max_epoch=2)
EXPLORED = Path(__file__).parents[3] / "corpus" / "explored"


def model_of(protocol: str, bounds: Bounds) -> MachineWorld:
    return MachineWorld(replace(VARIANTS[protocol], unclean_election=False), bounds)


def searched(name: str, protocol: str, bounds: Bounds) -> tuple[Directed, Result[AnyAction]]:
    model = model_of(protocol, bounds)
    leading = guide_of(PUBLISHED[name], VARIANTS[protocol], bounds, "strong-isr", lambda: 0.0)
    search = Directed(model, leading, tuple(p for p in model.properties if p.name == "strong-isr"), lambda: 0.0)
    return search, search.run(Budget(states=5000))


@pytest.mark.parametrize(("variant", "invariant", "length"), [("kip101", "WeakIsr", 12), ("truncate-to-hw", "StrongIsr", 10)])
def test_first_distance_is_the_shortest_counterexample(variant: str, invariant: str, length: int) -> None:
    """The lengths are those of TLC, in states, on the published models."""
    leading = Guide(RULES[variant], SMALL, invariant, AS_PUBLISHED, lambda: 0.0)

    assert leading.of(leading.model.situation(leading.model.initial())) == length - 1


def test_distances_fall_by_one_along_the_wanted_actions() -> None:
    leading = Guide(RULES["truncate-to-hw"], SMALL, "StrongIsr", AS_PUBLISHED, lambda: 0.0)
    keys = [leading.model.initial()]
    while leading.of(leading.model.situation(keys[-1])):
        wanted = leading.actions_toward(leading.model.situation(keys[-1]))
        batch = next(batch for batch in leading.model.successors(np.array([keys[-1]])) if batch.action == wanted[0])
        keys.append(int(batch.keys[0]))

    distances = [leading.of(leading.model.situation(key)) for key in keys]
    assert distances == list(range(9, -1, -1))
    assert all(leading.model.key(leading.model.situation(key)) == key for key in keys)


def test_state_that_the_model_never_met_has_no_distance() -> None:
    leading = Guide(RULES["truncate-to-hw"], SMALL, "StrongIsr", AS_PUBLISHED, lambda: 0.0)
    first = leading.model.situation(leading.model.initial())

    assert leading.of(replace(first, isr=frozenset({1}))) is None
    assert leading.actions_toward(replace(first, isr=frozenset({1}))) == ()


@pytest.mark.slow
def test_guide_names_what_keeps_the_machines_off() -> None:
    """With two replicas KIP-101 fails only if a leader is replaced and stays in the ISR, which the machines never do."""
    leading = Guide(RULES["kip101"], SMALL, "WeakIsr", Machines(), lambda: 0.0)
    first = leading.model.situation(leading.model.initial())

    assert leading.of(first) is None
    assert "failover" in leading.obstacles(first)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counterexample_is_realised_on_the_machines(name: str) -> None:
    _, result = searched(name, PUBLISHED[name].protocol, PUBLISHED[name].bounds)
    kept_plan = load_plan(EXPLORED / f"{'kip320' if name == 'expansion-in-epoch' else name}.yaml")

    assert result.end == "violated"
    assert len(kept_plan.path) <= len(result.path) <= len(kept_plan.path) + 1


def test_directed_search_on_safe_ends_without_a_counterexample() -> None:
    search, result = searched("truncate-to-hw", "safe", replace(PUBLISHED["truncate-to-hw"].bounds, brokers=2))
    nearest = search.nearest_miss()

    assert (result.end, result.stopped_by) == ("budget", "the end of all paths toward a violation")
    assert nearest is not None
    assert nearest.distance > 0
    assert nearest.wanted
    assert search.cut > 0


def test_shortened_path_lacks_what_the_violation_does_not_need() -> None:
    plan = load_plan(EXPLORED / "truncate-to-hw.yaml")
    model = model_of("truncate-to-hw", Bounds(brokers=3))
    (strong,) = (property_ for property_ in model.properties if property_.name == "strong-isr")
    longer = (plan.path[0], Expire(node="b3"), *plan.path[1:])

    assert shorten_path(model, longer, strong) == plan.path
    assert (
        shorten_path(model, (*plan.path, Fire(node="b1", timer="isr"), Crash(node="b1"), Restart(node="b1")), strong) == plan.path
    )


@pytest.mark.slow
def test_realised_counterexample_is_a_plan_that_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "found.yaml"

    assert run_command_line(["explore", "realise", "truncate-to-hw", "--plan", str(plan)]) == ExitCode.INVALID
    assert "INVALID in 8 steps: what leader b1 holds below its HW 1 is not in the log of b3" in capsys.readouterr().out
    assert run_command_line(["replay", str(plan)]) == ExitCode.INVALID


def test_realise_says_how_near_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explore", "realise", "truncate-to-hw", "--protocol", "safe", "--brokers", "2", "--json"]

    assert run_command_line(command) == ExitCode.UNKNOWN

    result = msgspec.json.decode(capsys.readouterr().out)
    assert result["stopped_by"] == "the end of all paths toward a violation"
    assert result["toward"]["distance"] > 0
    assert result["toward"]["story"]
    assert result["repeat"] == "highwater explore realise truncate-to-hw --protocol safe --brokers 2 --holds strong-isr"


def test_realise_repeats_the_property_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explore", "realise", "truncate-to-hw", "--protocol", "safe", "--brokers", "2", "--holds", "committed", "--json"]
    run_command_line(command)

    assert (
        "realise truncate-to-hw --protocol safe --brokers 2 --holds committed"
        in msgspec.json.decode(capsys.readouterr().out)["repeat"]
    )


@pytest.mark.slow
def test_realise_names_the_guard_that_is_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    """KIP-320's first try on the machines refuses epochs below the last one in the log, and then its mistake does no harm."""
    command = ["explore", "realise", "kip320-first-try", "--protocol", "kip320-first-try"]

    assert run_command_line(command) == ExitCode.UNKNOWN

    printed = capsys.readouterr().out
    assert "no way from the start to a violation" in printed
    assert "in the way: a replica refuses epochs below the last one in its log (startup_epoch_floor)" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["realise", "kip1"], "no published counterexample 'kip1'; known: truncate-to-hw, kip101, "),
        (["realise", "kip101", "--strategy", "walk"], "No such option: --strategy"),
        (["realise", "kip101", "--max-depth", "3"], "No such option: --max-depth"),
        (["realise", "kip101", "--kip343"], "No such option: --kip343"),
        (["realise", "kip101", "--holds", "isr-assigned"], "'isr-assigned' is not one of 'committed', "),
        (["realise", "kip101", "--protocol", "kip1"], "unknown protocol 'kip1'"),
        (["realise"], "Missing argument 'NAME'"),
    ],
)
def test_bad_input_to_realise_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", *arguments]) == ExitCode.USAGE

    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_world_too_large_to_lead_through_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(guide, "STATES_MAX", 500)

    assert run_command_line(["explore", "realise", "truncate-to-hw"]) == ExitCode.USAGE

    assert "the world is too large: its model has more than 500 states" in capsys.readouterr().err


@pytest.mark.slow
def test_ablation_tells_what_each_switch_is_needed_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two switches that are needed, one that this world never asks for, and one without which no cluster starts."""
    named = (("truncation", "kip101"), ("isr_join", "v3_literal"), ("topic_id", False), ("controller_epoch", False))
    chosen = [(name, variant) for name, variant in ablation.switches() if (name, getattr(variant, name)) in named]
    monkeypatch.setattr(ablation, "switches", lambda: iter(chosen))

    assert run_command_line(["explore", "ablate", "--crashes", "0", "--budget-seconds", "5"]) == ExitCode.VALID

    printed = capsys.readouterr().out
    assert "safe: 1352 states (all), 3613 transitions, nothing falls" in printed
    assert "truncation=kip101: weak-isr falls after 13 actions, found directed toward kip101" in printed
    assert "isr_join=v3_literal: weak-isr falls after 5 actions, found breadth-first" in printed
    assert "topic_id=False: makes no difference in this world" in printed
    assert "controller_epoch=False: the cluster does not start with it alone: " in printed
    assert "repeat  highwater explore ablate --crashes 0 --budget-seconds 5" in printed


def test_interrupted_ablation_lists_what_it_has(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Ablations, "run", _interrupted)

    assert run_command_line(["explore", "ablate", "--crashes", "0", "--expiries", "0"]) == ExitCode.UNKNOWN

    assert re.search(r"stopped at an interrupt: \d+ switches not tried", capsys.readouterr().out)


def test_interrupt_of_one_search_ends_the_ablation(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A search that is interrupted returns what it has: the next one must not begin."""
    real: Any = BreadthFirst.run
    begun: list[BreadthFirst[Any, Any]] = []

    def run(search: BreadthFirst[Any, Any], budget: Budget) -> Result[Any]:
        begun.append(search)
        result: Result[Any] = real(search, budget)
        return result if len(begun) < 3 else replace(result, end="interrupted")

    monkeypatch.setattr(BreadthFirst, "run", run)

    command = ["explore", "ablate", "--crashes", "0", "--expiries", "0", "--budget-seconds", "1", "--json"]
    assert run_command_line(command) == ExitCode.UNKNOWN
    assert (len(begun), len(msgspec.json.decode(capsys.readouterr().out)["switches"])) == (3, 1)


def _interrupted(ablations: Ablations) -> Iterator[Ablation]:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ablate", "v3"], "unexpected extra argument(s) (v3)"),
        (["ablate", "--max-depth", "3"], "No such option: --max-depth"),
        (["ablate", "--protocol", "v3"], "No such option: --protocol"),
        (["ablate", "--moves", "1", "--brokers", "1"], "--moves 1 needs at least 2 brokers, not 1"),
        (["ablate", "--budget-seconds", "0"], "Invalid value for '--budget-seconds'"),
    ],
)
def test_bad_input_to_ablate_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", *arguments]) == ExitCode.USAGE

    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_each_switch_of_safe_is_taken_out_alone() -> None:
    taken = list(ablation.switches())

    assert {name for name, _ in taken} == {field.name for field in fields(Variant)}
    assert all(sum(getattr(variant, f.name) != getattr(SAFE, f.name) for f in fields(Variant)) == 1 for _, variant in taken)
