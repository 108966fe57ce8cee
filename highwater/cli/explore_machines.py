"""`highwater explore machines`: search all schedules of a small cluster up to a bound on epochs and faults.

Exit 10: a counterexample was found, by breadth-first search the shortest one. Exit 0: the whole space was searched and the
property holds. Exit 11: the budget, the memory or Ctrl-C ended the search early; unexplored states are unproven, and the last
line says how to go on.
"""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.explore_outcome import PlanFile, check_plan, explored, show_outcome
from highwater.cli.explore_worlds import (
    PROPERTY,
    Coordination,
    MaxDepth,
    MemoryMib,
    Moving,
    Seconds,
    Unclean,
    World,
    bounds_of,
    check_protocol,
    headline,
    repeat,
)
from highwater.cli.output import say
from highwater.cli.searching import (
    Manner,
    PropertyName,
    Question,
    check_searchable,
    memory_limit_mib,
    read_stopped_search,
    resume,
    search,
)
from highwater.errors import UsageError
from highwater.explore.strategy import Budget


class Limits(Struct, frozen=True, kw_only=True):
    """Where the search gives up."""

    budget_seconds: Seconds = 120
    max_depth: MaxDepth = None
    walks: Annotated[int | None, typer.Option(min=1, help="Maximum of random walks.")] = None
    memory_mib: MemoryMib = None


class Going(Struct, frozen=True, kw_only=True):
    """With how many processes, or which stopped search goes on."""

    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that search (breadth-first).")] = 1
    resume_from: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FOLDER", help="Go on with a stopped search; what it searches is in FOLDER."),
    ] = None


class Options(Struct, frozen=True, kw_only=True):
    """The options of `explore machines`."""

    protocol: options.Protocol = "safe"
    unclean: Unclean = False
    holds: Annotated[PropertyName, PROPERTY] = "committed"
    world: Annotated[World, "World"] = World()
    moving: Annotated[Moving, "World"] = Moving()
    coordination: Annotated[Coordination, "World"] = Coordination()
    manner: Annotated[Manner, "Search"] = Manner()
    going: Annotated[Going, "Search"] = Going()
    limits: Annotated[Limits, "Limits"] = Limits()
    plan: PlanFile = None
    json: options.AsJson = False


@takes(Options)
def machines(arguments: Options) -> int:
    """Search all schedules of a small cluster, shortest first; print a counterexample step by step."""
    check_protocol(arguments.protocol)
    check_plan(arguments.plan)
    question = Question(
        protocol=arguments.protocol,
        bounds=bounds_of(arguments.world, arguments.coordination, arguments.moving),
        holds=arguments.holds,
        unclean=arguments.unclean,
        workers=arguments.going.workers,
    )
    limits = arguments.limits
    checkpoint = None
    folder = arguments.going.resume_from
    budget = Budget(
        seconds=limits.budget_seconds,
        depth=limits.max_depth,
        walks=limits.walks,
        memory_mib=limits.memory_mib or memory_limit_mib(),
    )
    check_searchable(question, arguments.manner)
    if folder is not None:
        if (question, arguments.manner) != (Question(), Manner()):
            raise UsageError(f"--resume {folder} goes on with what is in the folder; it allows only limits, --plan and --json")
        question, checkpoint = read_stopped_search(folder)
    if not arguments.json:
        say(headline(question))
    if folder is not None and checkpoint is not None:
        result = resume(question, checkpoint, folder, budget, quiet=arguments.json)
    else:
        result = search(question, arguments.manner, budget, quiet=arguments.json)
    again = repeat(f"machines --protocol {question.protocol}", question)
    return show_outcome(explored(result, question, repeat=again), arguments.plan, json=arguments.json)
