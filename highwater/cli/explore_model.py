"""`highwater explore model MODEL`: search an abstract model instead of the machines (docs/model.md)."""

from time import monotonic
from typing import Annotated, Literal

import typer
from msgspec import Struct
from msgspec.structs import asdict

from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.explore_worlds import MaxDepth, Seconds
from highwater.cli.output import say, say_json
from highwater.cli.searching import shown_progress
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.explore.abstract.async_isr import ISR_VARIANTS, AsyncIsr, IsrSizes
from highwater.explore.abstract.kafka_replication import KafkaReplication
from highwater.explore.abstract.levels import Finding, LevelSearch, Limits, Model, Result, WorldTooLarge, states_in
from highwater.explore.abstract.rules import GUARDS, VARIANTS, Sizes
from highwater.runs.memory import available_bytes

KAFKA_REPLICATION, ASYNC_ISR = "kafka-replication", "async-isr"
_OPTIONS = {
    KAFKA_REPLICATION: {"replicas": 2, "log_size": 2, "max_records": 2, "max_epoch": 1},
    ASYNC_ISR: {"replicas": 2, "max_offset": 2, "max_version": 3},
}
_DEFAULT_VARIANT = {KAFKA_REPLICATION: "kip320", ASYNC_ISR: "maximal-isr"}


def _models_like(incomplete: str) -> list[str]:
    """What a shell offers for a model."""
    return [name for name in _OPTIONS if name.startswith(incomplete)]


class WorldOfModel(Struct, frozen=True, kw_only=True):
    """The sizes of a model's world; None where the command line names none."""

    replicas: Annotated[int | None, typer.Option(min=1, help="Replicas.")] = None
    log_size: Annotated[int | None, typer.Option(min=1, help="Records that a log can hold (kafka-replication).")] = None
    max_records: Annotated[int | None, typer.Option(min=1, help="Records that clients write (kafka-replication).")] = None
    max_epoch: Annotated[int | None, typer.Option(min=0, help="Last leader epoch; the first one is 0 (kafka-replication).")] = (
        None
    )
    max_offset: Annotated[int | None, typer.Option(min=1, help="Last offset (async-isr).")] = None
    max_version: Annotated[int | None, typer.Option(min=1, help="Last version of the ISR (async-isr).")] = None


class Options(Struct, frozen=True, kw_only=True):
    """The options of `explore model`."""

    model: Annotated[
        str, typer.Argument(metavar="MODEL", help=f"The model: {' or '.join(_OPTIONS)}.", autocompletion=_models_like)
    ]
    variant: Annotated[str | None, typer.Option(help="Variant of the model (docs/model.md).")] = None
    without: Annotated[str | None, typer.Option(metavar="GUARD", help="Take this guard out of the variant kip320.")] = None
    world: Annotated[WorldOfModel, "World"] = WorldOfModel()
    budget_seconds: Seconds = 120
    max_depth: MaxDepth = None
    json: options.AsJson = False


class ModelVerdict(Struct, frozen=True, kw_only=True):
    """The search on one invariant; `length` counts the states of a shortest counterexample; `trace` lists its actions."""

    holds: bool | None  # None: no violation found, but not all states were explored
    length: int | None = None
    trace: tuple[str, ...] = ()


class ExploredModel(Struct, frozen=True, kw_only=True):
    """The JSON object that `explore model MODEL --json` prints."""

    model: str
    variant: str
    without: str | None
    sizes: dict[str, int]
    verdict: Literal["VALID", "UNKNOWN", "INVALID"]
    verdicts: dict[str, ModelVerdict]
    generated: int
    distinct: int
    depth: int
    frontier: int
    stopped_by: str
    states_per_second: int
    wall_seconds: float
    repeat: str


@takes(Options)
def model(arguments: Options) -> int:
    """Search the whole space of an abstract model; print its counts and a shortest counterexample to each invariant."""
    sizes = _sizes_of_world(arguments)
    variant = arguments.variant or _DEFAULT_VARIANT[arguments.model]
    searched = _build_model(arguments, variant, sizes)
    if not arguments.json:
        say(f"explore {arguments.model}, {_named(variant, arguments.without)}: {_words(sizes)}")
    depth = None if arguments.max_depth is None else arguments.max_depth + 1
    limits = Limits(seconds=arguments.budget_seconds, states=states_in(available_bytes()), depth=depth)
    with shown_progress(quiet=arguments.json) as progress:
        result = LevelSearch(searched, limits, monotonic).run(progress)
    if result.end == "too-large" and not result.findings:
        raise WorldTooLarge(result.stopped_by)
    explored = _outcome(arguments, variant, sizes, searched.invariants, result)
    if arguments.json:
        say_json(explored)
    else:
        _say(explored)
    return ExitCode[explored.verdict]


def _sizes_of_world(arguments: Options) -> dict[str, int]:
    """The sizes of the model's world; options of another model are refused."""
    if arguments.model not in _OPTIONS:
        raise UsageError(f"unknown model {arguments.model!r}; known: {', '.join(_OPTIONS)}")
    defaults = _OPTIONS[arguments.model]
    named = asdict(arguments.world)
    for sizes_of_model in _OPTIONS.values():
        for name in sizes_of_model:
            if name not in defaults and named[name] is not None:
                raise UsageError(f"{_option(name)} does not apply to the model {arguments.model}")
    return {name: default if named[name] is None else named[name] for name, default in defaults.items()}


def _build_model(arguments: Options, variant: str, sizes: dict[str, int]) -> Model:
    """The model with its rules and sizes. Raises UsageError."""
    variants = VARIANTS if arguments.model == KAFKA_REPLICATION else ISR_VARIANTS
    if variant not in variants:
        raise UsageError(f"unknown variant {variant!r} of {arguments.model}; known: {', '.join(variants)}")
    if arguments.without is not None and variant != "kip320":
        raise UsageError(f"--without takes a guard out of kip320, not out of {variant}")
    if arguments.without is not None and arguments.without not in GUARDS:
        raise UsageError(f"unknown guard {arguments.without!r}; known: {', '.join(GUARDS)}")
    if arguments.model == ASYNC_ISR:
        return AsyncIsr(ISR_VARIANTS[variant], IsrSizes(**sizes))
    rules = VARIANTS[variant] if arguments.without is None else GUARDS[arguments.without]
    return KafkaReplication(rules, Sizes(**sizes))


def _outcome(
    arguments: Options, variant: str, sizes: dict[str, int], invariants: tuple[str, ...], result: Result
) -> ExploredModel:
    """The JSON object of the search."""
    findings = {finding.invariant: finding for finding in result.findings}
    verdicts = {name: _verdict(findings.get(name), exhausted=result.end == "exhausted") for name in invariants}
    verdict: Literal["VALID", "UNKNOWN"] = "VALID" if result.end == "exhausted" else "UNKNOWN"
    options = {"variant": variant, **({"without": arguments.without} if arguments.without else {}), **sizes}
    return ExploredModel(
        model=arguments.model,
        variant=variant,
        without=arguments.without,
        sizes=sizes,
        verdict="INVALID" if findings else verdict,
        verdicts=verdicts,
        generated=result.generated,
        distinct=result.distinct,
        depth=result.depth,
        frontier=result.frontier,
        stopped_by=result.stopped_by,
        states_per_second=int(result.distinct / max(result.seconds, 1e-3)),
        wall_seconds=round(result.seconds, 1),
        repeat=" ".join([f"highwater explore model {arguments.model}", *(f"{_option(k)} {v}" for k, v in options.items())]),
    )


def _verdict(finding: Finding | None, *, exhausted: bool) -> ModelVerdict:
    if finding is None:
        return ModelVerdict(holds=True if exhausted else None)
    return ModelVerdict(holds=False, length=len(finding.steps), trace=tuple(step.action for step in finding.steps[1:]))


def _say(explored: ExploredModel) -> None:
    """Print the verdict of each invariant, with its counterexample, and the numbers."""
    for name, verdict in explored.verdicts.items():
        if verdict.holds is False:
            say(f"INVALID: {name} is violated after {len(verdict.trace)} actions ({verdict.length} states)")
            for number, action in enumerate(verdict.trace, 1):
                say(f"{number:3}. {action}")
        elif verdict.holds:
            say(f"VALID: {name} holds in the whole space")
        else:
            say(f"UNKNOWN: no violation of {name} found, stopped at {explored.stopped_by}: no proof")
    unexpanded = f", {explored.frontier} states not expanded" if explored.frontier else ""
    say(
        f"{explored.generated} generated, {explored.distinct} distinct, depth {explored.depth}{unexpanded}; "
        f"{explored.states_per_second} states a second"
    )
    say(f"repeat  {explored.repeat}")


def _named(variant: str, without: str | None) -> str:
    return variant if without is None else f"{variant} without its {without}"


def _words(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in sizes.items())


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
