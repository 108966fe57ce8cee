"""`highwater explore --refines VARIANT`: whether the machines implement a variant of the abstract model (docs/model.md)."""

from time import monotonic
from typing import Literal

from msgspec import Struct

from highwater.cli.output import say, say_json
from highwater.cli.searching import shown_progress
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.explore.abstract.rules import VARIANTS
from highwater.explore.model import Model
from highwater.explore.refinement import Refined, Refinement
from highwater.explore.search import Budget
from highwater.explore.state import Bounds
from highwater.explore.story import tell


class AskedRefinement(Struct, frozen=True):
    """Which machines are compared with which variant of the model; `repeat` is the command without --refines."""

    protocol: str
    refines: str
    bounds: Bounds
    budget: Budget
    repeat: str


class ExploredRefinement(Struct, frozen=True, kw_only=True):
    """The JSON object that `explore --refines VARIANT --json` prints."""

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


def explore_refines(model: Model, asked: AskedRefinement, *, json: bool) -> int:
    """Check every step of the explored world and print the first one that the model does not explain."""
    if asked.refines not in VARIANTS:
        raise UsageError(f"unknown variant {asked.refines!r} of kafka-replication; known: {', '.join(VARIANTS)}")
    result = _search(Refinement(model, VARIANTS[asked.refines], monotonic), asked, quiet=json)
    explored = _explored(asked, result, tell(model, result.path))
    if json:
        say_json(explored)
    else:
        _show(explored)
    return ExitCode[explored.verdict]


def _search(search: Refinement, asked: AskedRefinement, *, quiet: bool) -> Refined:
    with shown_progress(quiet=quiet) as progress:
        return search.run(asked.budget, progress)


def _explored(asked: AskedRefinement, result: Refined, story: tuple[str, ...]) -> ExploredRefinement:
    verdict: Literal["VALID", "UNKNOWN"] = "VALID" if result.end == "exhausted" and result.explained else "UNKNOWN"
    return ExploredRefinement(
        protocol=asked.protocol,
        refines=asked.refines,
        bounds=asked.bounds,
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
        repeat=f"{asked.repeat} --refines {asked.refines}",
    )


def _show(explored: ExploredRefinement) -> None:
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
