"""What a search of the machines found: the JSON object, the lines, and the plan of a counterexample."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec import Struct

from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.cli.searching import Question
from highwater.errors import HarnessError, UsageError
from highwater.exit_codes import ExitCode
from highwater.explore.machine_world import MachineWorld
from highwater.explore.path import plan_of
from highwater.explore.sentences import tell
from highwater.explore.state import Bounds
from highwater.explore.strategy import Result
from highwater.plans.actions import AnyAction
from highwater.plans.plan import Plan
from highwater.plans.text import plan_to_yaml

PlanFile = Annotated[Path | None, typer.Option(help="File for the plan of a counterexample; printed if not given.")]
_VACUOUS = "a record was committed"  # the goal without which no property means anything


class Toward(Struct, frozen=True, kw_only=True):
    """Where a directed search ended, if it found nothing.

    `distance`: actions of the model from the nearest state to a violation; None if the model has no way from the start. `story`
    leads to that state, `wanted` are the actions of which the machines performed none there, `in_the_way` is what keeps the
    machines off if the model has no way: without any one of these it has one.
    """

    name: str
    cut: int  # steps that left every path of the model to a violation
    distance: int | None = None
    wanted: tuple[str, ...] = ()
    story: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()


class Explored(Struct, frozen=True, kw_only=True):
    """The JSON object that `explore machines --json` and `explore realise --json` print."""

    protocol: str
    bounds: Bounds
    holds: str = "committed"  # name of the property
    verdict: Literal["VALID", "UNKNOWN", "INVALID"]
    wrong: str
    story: tuple[str, ...]
    plan: str  # YAML
    repeat: str = ""
    stopped_by: str
    states: int
    transitions: int
    depth: int
    frontier: int
    beyond_max_epochs: int
    states_per_second: int
    wall_seconds: float
    memory_mib: int
    collision_odds: float
    goals: tuple[str, ...]
    goals_missed: tuple[str, ...]
    resume: str = ""  # the command that goes on
    toward: Toward | None = None  # of `explore realise`


def explored(result: Result[AnyAction], question: Question, *, repeat: str, toward: Toward | None = None) -> Explored:
    """The outcome of a search."""
    model = MachineWorld(question.variant, question.bounds)
    story = tell(model, result.path)
    missed = tuple(goal.name for goal in model.goals if goal.name not in result.goals)
    verdict: Literal["VALID", "UNKNOWN", "INVALID"] = "UNKNOWN"
    if result.violations:
        verdict = "INVALID"
    elif result.end == "exhausted" and _VACUOUS not in missed:
        verdict = "VALID"
    return Explored(
        protocol=question.protocol,
        bounds=question.bounds,
        holds=question.holds,
        verdict=verdict,
        wrong=result.wrong,
        story=story,
        plan=plan_to_yaml(_plan_of_counterexample(result, story, question)) if result.violations else "",
        repeat=repeat,
        stopped_by=result.stopped_by,
        states=result.states,
        transitions=result.transitions,
        depth=result.depth,
        frontier=result.frontier,
        beyond_max_epochs=result.beyond,
        states_per_second=int(result.states / max(result.seconds, 1e-3)),
        wall_seconds=round(result.seconds, 1),
        memory_mib=result.memory_mib,
        collision_odds=result.collision_odds,
        goals=result.goals,
        goals_missed=missed,
        resume=f"highwater explore machines --resume {result.folder}" if result.folder else "",
        toward=toward,
    )


def _plan_of_counterexample(result: Result[AnyAction], story: tuple[str, ...], question: Question) -> Plan:
    """The plan of a counterexample."""
    return plan_of(
        name=f"explored-{question.protocol}-{question.bounds.brokers}-{len(result.path)}",
        story=story,
        protocol=question.protocol,
        variant=question.variant,
        bounds=question.bounds,
        path=result.path,
    )


def check_plan(plan: Path | None) -> None:
    """Refuse a plan in a folder that does not exist. Raises UsageError."""
    if plan is not None and not options.writable_file(plan).parent.is_dir():
        raise UsageError(f"{plan}: folder {plan.parent} does not exist")


def show_outcome(outcome: Explored, plan: Path | None, *, json: bool) -> int:
    """Print what was found, and write the plan of a counterexample."""
    if plan is not None and outcome.plan:
        try:
            plan.write_text(outcome.plan, encoding="utf-8")
        except OSError as error:
            raise HarnessError(f"cannot write the plan to {plan}: {error.strerror}") from error
    if json:
        say_json(outcome)
    else:
        _say_outcome(outcome, plan)
    return ExitCode[outcome.verdict]


def _say_outcome(outcome: Explored, plan: Path | None) -> None:
    """Print the verdict with the counterexample or what limits it, and the numbers."""
    numbers = (
        f"{outcome.states} states, {outcome.transitions} transitions, depth {outcome.depth}, "
        f"{outcome.states_per_second} states a second, {outcome.beyond_max_epochs} not expanded (leader epoch beyond the bound)"
    )
    odds = f"{outcome.memory_mib} MiB; odds that two states had one fingerprint: {outcome.collision_odds:.0e}"
    if outcome.verdict == "INVALID":
        say(f"INVALID in {len(outcome.story)} steps: {outcome.wrong}")
        for number, sentence in enumerate(outcome.story, 1):
            say(f"{number:3}. {sentence}")
        say(numbers)
        say(f"repeat  {outcome.repeat if plan is None else f'highwater replay {plan}'}")
        if plan is None:
            say()
            say(outcome.plan)
        return
    if outcome.verdict == "VALID":
        say(f"VALID: {outcome.holds} holds in the whole space")
    elif outcome.stopped_by:
        unexpanded = f"{outcome.frontier} states not expanded: " if outcome.frontier else ""
        say(f"UNKNOWN: nothing found, stopped at {outcome.stopped_by}; {unexpanded}no proof")
    else:
        say("UNKNOWN: no violation in the whole space, but no record was ever committed in it")
    say(numbers)
    say(odds)
    say(f"seen: {', '.join(outcome.goals) or 'nothing'}")
    if outcome.goals_missed:
        say(f"never: {', '.join(outcome.goals_missed)}")
    if outcome.toward is not None:
        _say_toward(outcome.toward)
    if outcome.resume:
        say(f"go on  {outcome.resume}")


def _say_toward(toward: Toward) -> None:
    """Print how near a directed search came to the violation."""
    say(f"{toward.cut} steps cut, because they left every path of the model of {toward.name} to a violation")
    if toward.distance is None:
        say("the model, with what the machines do otherwise, has no way from the start to a violation in a world of this size")
        for words in toward.in_the_way:
            say(f"in the way: {words}")
        return
    say(f"nearest: {toward.distance} actions of the model from a violation, after {len(toward.story)} steps")
    for number, sentence in enumerate(toward.story, 1):
        say(f"{number:3}. {sentence}")
    say(f"not performed after that: {' or '.join(toward.wanted)}")
