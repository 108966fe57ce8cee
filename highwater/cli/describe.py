"""`highwater describe`: the topics of a cluster as `kafka-topics --describe` prints them.

With --bootstrap a broker of a running cluster is asked. Otherwise a plan is performed in the simulator up to one moment; then a
broker that is up and not fenced answers.
"""

from pathlib import Path
from typing import Annotated

import typer

from highwater.admin.describe import Description, of_cluster, of_reply, text_of
from highwater.backends.sim.world import World
from highwater.campaigns.campaign import Request
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.text import load_plan
from highwater.rig.scene import scene_of

_PORT_MAX = 65535


def describe(
    what: Annotated[str | None, typer.Argument(metavar="[PLAN|SEED]", help="A plan file, or a seed.", show_default=False)] = None,
    *,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT[,…]", help="Ask these brokers of a running cluster, in turn, instead of simulating a run."
        ),
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(min=0, help="Milliseconds after the start of the workload; the end of the workload if not given."),
    ] = None,
    protocol: options.Protocol = "safe",
    json: options.AsJson = False,
) -> int:
    """Show leaders, replicas, ISR, offline replicas and leader epochs of a running cluster, or of a simulated run (R-306)."""
    if (what is None) == (bootstrap is None):
        raise UsageError("give a plan file or a seed, or --bootstrap with the brokers of a running cluster")
    if bootstrap is not None and (at is not None or protocol != "safe"):
        raise UsageError("--at and --protocol are for simulated runs; --bootstrap asks a cluster as it is now")
    rows = of_cluster(_addresses(bootstrap)) if what is None else _of_run(what, at, protocol)
    if json:
        say_json({"partitions": rows})
    else:
        say(text_of(rows))
    return ExitCode.VALID


def _addresses(text: str | None) -> tuple[tuple[str, int], ...]:
    """The brokers of --bootstrap. Raises UsageError."""
    addresses = []
    for name in options.names_of(text or ""):
        host, _, port = name.rpartition(":")
        if not host or not port.isdecimal() or not 1 <= int(port) <= _PORT_MAX:
            raise UsageError(f"--bootstrap must be HOST:PORT, or several separated by commas, not {text}")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise UsageError("--bootstrap must name at least one broker as HOST:PORT")
    return tuple(addresses)


def _of_run(what: str, at: int | None, protocol: str) -> tuple[Description, ...]:
    """The topics of a simulated run at a time, as one of its brokers answers."""
    is_file = what.endswith((".yaml", ".yml"))
    plan = load_plan(Path(what)) if is_file else Request(protocol=protocol).plan(options.seed_not_file(what, files="plan file"))
    if plan.path:
        raise UsageError(f"plan {plan.name} has an explorer path, which has no client to ask for metadata")
    if at is not None and at > plan.faults_ms:
        raise UsageError(f"--at must be at most {plan.faults_ms}, when the workload of plan {plan.name} ends, not {at}")
    world = World(scene_of(plan))
    world.play_until(plan.faults_ms if at is None else at)
    reply = world.metadata()
    if reply is None:
        raise UsageError(f"plan {plan.name}: no broker can answer a Metadata request at this time; give another --at")
    return of_reply(reply)
