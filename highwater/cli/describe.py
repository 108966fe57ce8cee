"""`highwater describe`: the topics of a simulated cluster at one moment of a plan, as `kafka-topics --describe` prints them.

The plan is performed up to that moment; then a broker that is up and not fenced answers a Metadata request.
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
        int | None,
        typer.Option(min=0, help="Milliseconds after the start of the workload; the end of the workload if not given."),
    ] = None,
    protocol: options.Protocol = "safe",
    json: options.AsJson = False,
) -> int:
    """Show leaders, replicas, ISR and offline replicas of every partition at one moment of a simulated run (R-306)."""
    is_file = what.endswith((".yaml", ".yml"))
    plan = load_plan(Path(what)) if is_file else Request(protocol=protocol).plan(options.seed_not_file(what, files="plan file"))
    if plan.path:
        raise UsageError(f"plan {plan.name} has an explorer path, which has no client to ask for metadata")
    world = World(plan)
    world.play_until(plan.faults_ms if at is None else min(at, plan.faults_ms))
    reply = world.metadata()
    if reply is None:
        raise UsageError(f"plan {plan.name}: no broker can answer a Metadata request at this time; give another --at")
    if json:
        say_json(reply)
    else:
        say(lines_of(reply))
    return ExitCode.VALID
