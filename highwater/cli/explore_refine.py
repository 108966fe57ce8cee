"""`highwater explore refine VARIANT`: whether the machines implement a variant of the abstract model (docs/model.md)."""

from time import monotonic
from typing import Annotated, Literal

import typer
from msgspec import Struct

from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.explore_worlds import (
    Coordination,
    MaxDepth,
    MemoryMib,
    Seconds,
    Unclean,
    World,
    bounds_of,
    check_protocol,
    headline,
    repeat,
)
from highwater.cli.output import say, say_json
from highwater.cli.searching import Question, memory_limit_mib, shown_progress
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.explore.abstract.rules import VARIANTS
from highwater.explore.machine_world import MachineWorld
from highwater.explore.refinement import Refined, Refinement
from highwater.explore.sentences import tell
from highwater.explore.state import Bounds
from highwater.explore.strategy import Budget


class Options(Struct, frozen=True, kw_only=True):
    """The options of `explore refine`: the model has one partition, without moves."""

    variant: Annotated[str, typer.Argument(metavar="VARIANT", help="The variant of kafka-replication (docs/model.md).")]
    protocol: options.Protocol = "safe"
    unclean: Unclean = False
    world: Annotated[World, "World"] = World()
    coordination: Annotated[Coordination, "World"] = Coordination()
    budget_seconds: Annotated[Seconds, "Limits"] = 120
    max_depth: Annotated[MaxDepth, "Limits"] = None
    memory_mib: Annotated[MemoryMib, "Limits"] = None
    json: options.AsJson = False


class ExploredRefinement(Struct, frozen=True, kw_only=True):
    """The JSON object that `explore refine VARIANT --json` prints."""

    protocol: str
    refines: str
    bounds: Bounds
    verdict: Literal["VALID", "UNKNOWN", "INVALID"]
    wrong: str
    story: tuple[str, ...]  # its last step is no step of the model
    explained: dict[str, int]  # by action: distinct steps that it explains
    stopped_by: str
    states: int
    pictures: int
    transitions: int
    depth: int
    wall_seconds: float
    repeat: str


@takes(Options)
def refine(arguments: Options) -> int:
    """Check that every step of the explored machines is a step of a variant of the model; print the first one that is none."""
    check_protocol(arguments.protocol)
    if arguments.variant not in VARIANTS:
        raise UsageError(f"unknown variant {arguments.variant!r} of kafka-replication; known: {', '.join(VARIANTS)}")
    question = Question(
        protocol=arguments.protocol, bounds=bounds_of(arguments.world, arguments.coordination), unclean=arguments.unclean
    )
    budget = Budget(
        seconds=arguments.budget_seconds, depth=arguments.max_depth, memory_mib=arguments.memory_mib or memory_limit_mib()
    )
    if not arguments.json:
        say(headline(question))
    model = MachineWorld(question.variant, question.bounds)
    with shown_progress(quiet=arguments.json) as progress:
        result = Refinement(model, VARIANTS[arguments.variant], monotonic).run(budget, progress)
    explored = _json_object(arguments.variant, question, result, tell(model, result.path))
    if arguments.json:
        say_json(explored)
    else:
        _say_outcome(explored)
    return ExitCode[explored.verdict]


def _json_object(variant: str, question: Question, result: Refined, story: tuple[str, ...]) -> ExploredRefinement:
    """The JSON object of the comparison."""
    verdict: Literal["VALID", "UNKNOWN"] = "VALID" if result.end == "exhausted" and result.explained else "UNKNOWN"
    return ExploredRefinement(
        protocol=question.protocol,
        refines=variant,
        bounds=question.bounds,
        verdict="INVALID" if result.end == "left" else verdict,
        wrong=result.wrong,
        story=story,
        explained=result.explained,
        stopped_by=result.stopped_by,
        states=result.states,
        pictures=result.pictures,
        transitions=result.transitions,
        depth=result.depth,
        wall_seconds=round(result.seconds, 1),
        repeat=repeat(f"refine {variant} --protocol {question.protocol}", question),
    )


def _say_outcome(explored: ExploredRefinement) -> None:
    """Print the verdict with the step that is none of the model's, and the numbers."""
    match explored.verdict:
        case "INVALID":
            say(f"INVALID: step {len(explored.story)} is no step of {explored.refines}: {explored.wrong}")
            for number, sentence in enumerate(explored.story, 1):
                say(f"{number:3}. {sentence}")
        case "VALID":
            say(f"VALID: every step is one of {explored.refines}, several or none")
        case "UNKNOWN":
            say(f"UNKNOWN: every step so far is one of {explored.refines}, stopped at {explored.stopped_by}: no proof")
    say(
        f"{explored.states} states, {explored.transitions} transitions, depth {explored.depth}; "
        f"{explored.pictures} states of the model"
    )
    say(f"explained by: {', '.join(f'{action} {count}' for action, count in explored.explained.items()) or 'nothing'}")
    say(f"repeat  {explored.repeat}")
