"""`highwater describe`: the topics of a cluster as `kafka-topics --describe` prints them.

With --bootstrap a broker of a running cluster is asked. Otherwise a plan is performed in the simulator up to one moment; then a
broker that is up and not fenced answers. With --metrics each broker that runs tells its metrics, and with --scrape those of a
running cluster of the reference do.
"""

from pathlib import Path
from typing import Annotated

import typer

from highwater.admin.describe import Description, metrics_text, of_cluster, of_reply, text_of
from highwater.backends.sim.world import World
from highwater.campaigns.campaign import Request
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.text import load_plan
from highwater.rig.scene import scene_of
from reference.types import Address

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
    metrics: Annotated[bool, typer.Option("--metrics", help="Show the metrics of each broker instead of topics.")] = False,
    scrape: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT[,…]", help="Show the metrics of these brokers, from their setting `metrics`, instead of topics."
        ),
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Show leaders, replicas, ISR, offline replicas and leader epochs of a running cluster, or of a simulated run (R-306)."""
    if [what, bootstrap, scrape].count(None) != 2:
        raise UsageError("give a plan file or a seed, or --bootstrap or --scrape with the brokers of a running cluster")
    if metrics and what is None:
        raise UsageError("--metrics is for simulated runs; ask running brokers with --scrape")
    if what is None and (at is not None or protocol != "safe"):
        raise UsageError("--at and --protocol are for simulated runs; running brokers are asked as they are now")
    if metrics or scrape is not None:
        shown_metrics = _scrape_metrics(scrape or "") if what is None else _metrics_of(what, at, protocol)
        say_json({"metrics": shown_metrics}) if json else say(metrics_text(shown_metrics))
        return ExitCode.VALID
    rows = of_cluster(_parse_addresses("--bootstrap", bootstrap or "")) if what is None else _topics_of(what, at, protocol)
    if json:
        say_json({"partitions": rows})
    else:
        say(text_of(rows))
    return ExitCode.VALID


def _parse_addresses(option: str, text: str) -> tuple[tuple[str, int], ...]:
    """The brokers of an option. Raises UsageError."""
    addresses = []
    for name in options.names_of(text):
        host, _, port = name.rpartition(":")
        if not host or not port.isdecimal() or not 1 <= int(port) <= _PORT_MAX:
            raise UsageError(f"{option} must be HOST:PORT, or several separated by commas, not {text}")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise UsageError(f"{option} must name at least one broker as HOST:PORT")
    return tuple(addresses)


def _scrape_metrics(text: str) -> dict[Address, dict[str, int]]:
    """The metrics of running brokers, by address. UsageError if one does not tell them."""
    from server.runtime.scrape import ScrapeError, scrape  # a simulated run needs no HTTP

    try:
        return {Address(f"{host}:{port}"): scrape((host, port)) for host, port in _parse_addresses("--scrape", text)}
    except ScrapeError as error:
        raise UsageError(str(error)) from None


def _metrics_of(what: str, at: int | None, protocol: str) -> dict[Address, dict[str, int]]:
    """The metrics of a simulated run at a time, by broker."""
    world = _play_until(what, at, protocol)
    metrics = world.metrics()
    if not metrics:
        raise UsageError(f"plan {world.plan.name}: no broker is up at this time; give another --at")
    return metrics


def _topics_of(what: str, at: int | None, protocol: str) -> tuple[Description, ...]:
    """The topics of a simulated run at a time, as one of its brokers answers."""
    world = _play_until(what, at, protocol)
    reply = world.metadata()
    if reply is None:
        raise UsageError(f"plan {world.plan.name}: no broker can answer a Metadata request at this time; give another --at")
    return of_reply(reply)


def _play_until(what: str, at: int | None, protocol: str) -> World:
    """Simulate the run of a plan file or seed up to this ms of its workload, by default to the end. Raises UsageError."""
    is_file = what.endswith((".yaml", ".yml"))
    plan = load_plan(Path(what)) if is_file else Request(protocol=protocol).plan(options.seed_not_file(what, files="plan file"))
    if plan.path:
        raise UsageError(f"plan {plan.name} has an explorer path, which has no client to ask for metadata")
    if at is not None and at > plan.faults_ms:
        raise UsageError(f"--at must be at most {plan.faults_ms}, when the workload of plan {plan.name} ends, not {at}")
    world = World(scene_of(plan))
    world.play_until(plan.faults_ms if at is None else at)
    return world
