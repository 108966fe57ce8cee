"""`highwater describe`: the topics of a simulated cluster at one moment of a plan, as `kafka-topics --describe` prints them.

The plan is performed up to that moment, and a broker is asked that is up and not fenced.
"""

from pathlib import Path
from typing import Annotated

import typer

from highwater.admin.describe import describe as lines_of
from highwater.backends.sim.world import World
from highwater.campaigns.campaign import Request
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.text import load_plan


def describe(
    what: Annotated[str, typer.Argument(metavar="PLAN|SEED", help="A plan file, or a seed.")],
    *,
    at: Annotated[
        int | None, typer.Option(min=0, help="Milliseconds from the start of the workload; its end if not given.")
    ] = None,
    protocol: options.Protocol = "safe",
    json: options.AsJson = False,
) -> int:
    """Show leaders, replicas, ISR and offline replicas of every partition at one moment of a simulated run (R-306)."""
    is_file = what.endswith((".yaml", ".yml"))
    plan = load_plan(Path(what)) if is_file else Request(protocol=protocol).plan(options.seed_of(what))
    if plan.path:
        raise UsageError(f"plan {plan.name} is a path of the explorer, whose world has no clients to be told of anything")
    world = World(plan)
    world.play_until(plan.faults_ms if at is None else min(at, plan.faults_ms))
    reply = world.metadata()
    if reply is None:
        raise UsageError(f"no broker is up at that moment of {plan.name}")
    if json:
        say_json(reply)
    else:
        say(lines_of(reply))
    return ExitCode.VALID
