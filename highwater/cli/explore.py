"""`highwater explore`: search all schedules of a small cluster up to a bound on epochs and faults.

Exit 10: a counterexample was found, the shortest one. Exit 0: the whole space was searched and the property holds. Exit 11: the
budget or Ctrl-C ended the search early; unexplored states are unproven.
"""

from pathlib import Path
from time import monotonic
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from highwater.cli import options
from highwater.cli.explore_model import Asked, explore_model
from highwater.cli.explore_refines import AskedRefinement, explore_refines
from highwater.cli.output import say, say_json
from highwater.errors import HarnessError, UsageError
from highwater.exit_codes import ExitCode
from highwater.explore.model import Model
from highwater.explore.path import plan_of
from highwater.explore.properties import GOALS, PROPERTIES
from highwater.explore.search import Budget, Result, Search
from highwater.explore.state import Bounds
from highwater.explore.story import tell
from highwater.plans.plan import Plan, unknown_protocol
from highwater.plans.text import plan_to_yaml
from reference.config import VARIANTS, Variant

_DEFAULTS = Bounds()
PropertyName = Literal["committed", "weak-isr", "strong-isr"]


class Explored(Struct, frozen=True, kw_only=True):
    """The JSON object that `explore --json` prints."""

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
    goals: tuple[str, ...]
    goals_missed: tuple[str, ...]


# Options that say which machines are searched, and those that say which abstract model.
_OF_MACHINES = (
    "protocol",
    "brokers",
    "records",
    "max_epochs",
    "crashes",
    "expiries",
    "losses",
    "zk",
    "holds",
    "unclean",
    "plan",
    "refines",
)
_BOUNDS = ("brokers", "records", "max_epochs", "crashes", "expiries", "losses")
_OF_MODELS = ("variant", "without", "replicas", "log_size", "max_records", "max_epoch", "max_offset", "max_version")


def explore(
    context: typer.Context,
    *,
    protocol: options.Protocol = "safe",
    brokers: Annotated[int, typer.Option(min=1, max=4, help="Number of brokers.")] = 2,
    records: Annotated[int, typer.Option(min=1, help="Number of records that the client produces.")] = 1,
    max_epochs: Annotated[int, typer.Option(min=1, help="Number of leader epochs; states with more are not expanded.")] = 2,
    crashes: Annotated[int, typer.Option(min=0, help="Maximum of crashes in one schedule.")] = 1,
    expiries: Annotated[int, typer.Option(min=0, help="Maximum of session expiries of running brokers in one schedule.")] = 1,
    losses: Annotated[int, typer.Option(min=0, help="Maximum of lost messages in one schedule.")] = 0,
    zk: Annotated[
        Literal["atomic", "async"],
        typer.Option(help="atomic: a ZooKeeper request and its reply are one action; async: each is an action."),
    ] = "atomic",
    holds: Annotated[
        PropertyName, typer.Option(help="Property to check, besides that no committed record is lost.")
    ] = "committed",
    unclean: Annotated[bool, typer.Option(help="Allow the protocol's unclean election; by default it is switched off.")] = False,
    budget_seconds: Annotated[int, typer.Option(min=1, help="Maximum of wall seconds for the search.")] = 120,
    max_depth: Annotated[int | None, typer.Option(min=1, help="Maximum of actions in one schedule.")] = None,
    plan: Annotated[Path | None, typer.Option(help="File for the plan of a counterexample; printed if not given.")] = None,
    refines: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Check that each step is one of this variant of kafka-replication.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Search this abstract model instead of the machines: kafka-replication or async-isr.")
    ] = None,
    variant: Annotated[str | None, typer.Option(help="Variant of the model (docs/model.md).")] = None,
    without: Annotated[str | None, typer.Option(metavar="GUARD", help="Take this guard out of the variant kip320.")] = None,
    replicas: Annotated[int | None, typer.Option(min=1, help="Replicas of the model.")] = None,
    log_size: Annotated[int | None, typer.Option(min=1, help="Records that a log of the model can hold.")] = None,
    max_records: Annotated[int | None, typer.Option(min=1, help="Records that clients of the model write.")] = None,
    max_epoch: Annotated[int | None, typer.Option(min=0, help="Last leader epoch of the model; the first one is 0.")] = None,
    max_offset: Annotated[int | None, typer.Option(min=1, help="Last offset in async-isr.")] = None,
    max_version: Annotated[int | None, typer.Option(min=1, help="Last version of the ISR in async-isr.")] = None,
    json: options.AsJson = False,
) -> int:
    """Search all schedules of a small cluster, or of a model, shortest first; print a counterexample step by step."""
    _refuse_options_of_the_other_kind(context, model)
    if model is not None:
        asked = Asked(model=model, **{name: context.params[name] for name in _OF_MODELS})
        return explore_model(asked, seconds=budget_seconds, max_depth=max_depth, json=json)
    if protocol not in VARIANTS:
        raise UsageError(unknown_protocol(protocol))
    if plan is not None and not options.file_of(plan).parent.is_dir():
        raise UsageError(f"{plan}: folder {plan.parent} does not exist")
    rules = VARIANTS[protocol] if unclean else replace(VARIANTS[protocol], unclean_election=False)
    bounds = Bounds(zk_async=zk == "async", **{name: context.params[name] for name in _BOUNDS})
    repeat = _repeat(protocol, bounds, holds=holds, unclean=unclean)
    if not json:
        say(_headline(protocol, rules, bounds))
    machines = Model(rules, bounds)
    if refines is not None:
        limits = Budget(seconds=budget_seconds, depth=max_depth)
        return explore_refines(machines, AskedRefinement(protocol, refines, bounds, limits, repeat), json=json)
    properties = tuple(p for p in PROPERTIES if p.name in ("committed", holds))
    result = _search(Search(machines, properties, GOALS, monotonic), Budget(seconds=budget_seconds, depth=max_depth), quiet=json)
    story = tell(machines, result.path)
    found = _plan(result, story, protocol, rules, bounds) if result.wrong else None
    explored = replace(_explored(result, found, story, protocol=protocol, bounds=bounds), holds=holds, repeat=repeat)
    if plan is not None and found is not None:
        _write(plan, explored.plan)
    if json:
        say_json(explored)
    else:
        _show(explored, plan)
    return {"VALID": ExitCode.VALID, "UNKNOWN": ExitCode.UNKNOWN, "INVALID": ExitCode.INVALID}[explored.verdict]


def _refuse_options_of_the_other_kind(context: typer.Context, model: str | None) -> None:
    for name in _OF_MODELS if model is None else _OF_MACHINES:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} needs --model" if model is None else f"{option} does not apply to --model {model}")


def _write(plan: Path, text: str) -> None:
    try:
        plan.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"cannot write the plan to {plan}: {error.strerror}") from error


def _headline(protocol: str, variant: Variant, bounds: Bounds) -> str:
    clean = " without its unclean election" if VARIANTS[protocol].unclean_election and not variant.unclean_election else ""
    return (
        f"explore {protocol}{clean}: {_count(bounds.brokers, 'broker')}, {_count(bounds.records, 'record')}, "
        f"{_count(bounds.max_epochs, 'leader epoch')}; at most {_count(bounds.crashes, 'crash')}, "
        f"{_count(bounds.expiries, 'expired session')}, {_count(bounds.losses, 'lost message')}; "
        f"ZooKeeper {'asynchronous' if bounds.zk_async else 'in one step'}"
    )


def _count(number: int, noun: str) -> str:
    ending = "" if number == 1 else "es" if noun.endswith("sh") else "s"
    return f"{number} {noun}{ending}"


def _repeat(protocol: str, bounds: Bounds, *, holds: str, unclean: bool) -> str:
    """The command that repeats the search, without options at their default."""
    parts = [f"highwater explore --protocol {protocol}"]
    for name, number in msgspec.structs.asdict(bounds).items():
        if name != "zk_async" and number != getattr(_DEFAULTS, name):
            parts.append(f"--{name.replace('_', '-')} {number}")
    parts += ["--zk async"] if bounds.zk_async else []
    parts += [f"--holds {holds}"] if holds != "committed" else []
    parts += ["--unclean"] if unclean else []
    return " ".join(parts)


def _search(search: Search, budget: Budget, *, quiet: bool) -> Result:
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return search.run(budget)
    with console.status("searching") as status:
        return search.run(budget, lambda states, depth: status.update(f"{states} states, depth {depth}"))


def _plan(result: Result, story: tuple[str, ...], protocol: str, variant: Variant, bounds: Bounds) -> Plan:
    return plan_of(
        name=f"explored-{protocol}-{bounds.brokers}-{len(result.path)}",
        story=story,
        protocol=protocol,
        variant=variant,
        brokers=bounds.brokers,
        path=result.path,
    )


def _explored(result: Result, plan: Plan | None, story: tuple[str, ...], *, protocol: str, bounds: Bounds) -> Explored:
    missed = tuple(goal.name for goal in GOALS if goal.name not in result.goals)
    vacuous = GOALS[0].name in missed
    verdict: Literal["VALID", "UNKNOWN", "INVALID"] = "VALID" if result.end == "exhausted" and not vacuous else "UNKNOWN"
    return Explored(
        protocol=protocol,
        bounds=bounds,
        verdict="INVALID" if result.end == "violated" else verdict,
        wrong=result.wrong,
        story=story,
        plan="" if plan is None else plan_to_yaml(plan),
        stopped_by=result.stopped_by,
        states=result.states,
        transitions=result.transitions,
        depth=result.depth,
        frontier=result.frontier,
        beyond_max_epochs=result.beyond,
        states_per_second=int(result.states / max(result.seconds, 1e-3)),
        wall_seconds=round(result.seconds, 1),
        goals=result.goals,
        goals_missed=missed,
    )


def _show(explored: Explored, plan: Path | None) -> None:
    numbers = (
        f"{explored.states} states, {explored.transitions} transitions, depth {explored.depth}, "
        f"{explored.states_per_second} states a second, {explored.beyond_max_epochs} not expanded (leader epoch beyond the bound)"
    )
    if explored.verdict == "INVALID":
        say(f"INVALID in {len(explored.story)} steps: {explored.wrong}")
        for number, sentence in enumerate(explored.story, 1):
            say(f"{number:3}. {sentence}")
        say(numbers)
        say(f"repeat  {explored.repeat if plan is None else f'highwater replay {plan}'}")
        if plan is None:
            say()
            say(explored.plan)
        return
    if explored.verdict == "VALID":
        say(f"VALID: {explored.holds} holds in the whole space")
    elif explored.stopped_by:
        say(f"UNKNOWN: nothing found, stopped at {explored.stopped_by}; {explored.frontier} states not expanded: no proof")
    else:
        say("UNKNOWN: no violation in the whole space, but no record was ever committed in it")
    say(numbers)
    say(f"seen: {', '.join(explored.goals) or 'nothing'}")
    if explored.goals_missed:
        say(f"never: {', '.join(explored.goals_missed)}")
