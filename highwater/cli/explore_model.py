"""`highwater explore --model NAME`: search an abstract model instead of the machines (docs/model.md)."""

from time import monotonic
from typing import Literal

import msgspec
from msgspec import Struct

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


class Asked(Struct, frozen=True, kw_only=True):
    """What the command line asks for; None where it does not name an option."""

    model: str
    variant: str | None = None
    without: str | None = None
    replicas: int | None = None
    log_size: int | None = None
    max_records: int | None = None
    max_epoch: int | None = None
    max_offset: int | None = None
    max_version: int | None = None


class ModelVerdict(Struct, frozen=True, kw_only=True):
    """The search on one invariant; `length` counts the states of a shortest counterexample; `trace` lists its actions."""

    holds: bool | None  # None: no violation found, but not all states were explored
    length: int | None = None
    trace: tuple[str, ...] = ()


class ExploredModel(Struct, frozen=True, kw_only=True):
    """The JSON object that `explore --model NAME --json` prints."""

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


def explore_model(asked: Asked, *, seconds: int, max_depth: int | None, json: bool) -> int:
    """Search the model's whole space; print its counts and a shortest counterexample to each invariant."""
    sizes = _sizes(asked)
    variant = asked.variant or _DEFAULT_VARIANT[asked.model]
    model = _model(asked, variant, sizes)
    if not json:
        say(f"explore {asked.model}, {_named(variant, asked.without)}: {_words(sizes)}")
    depth = None if max_depth is None else max_depth + 1
    limits = Limits(seconds=seconds, states=states_in(available_bytes()), depth=depth)
    result = _search(LevelSearch(model, limits, monotonic), quiet=json)
    if result.end == "too-large" and not result.findings:
        raise WorldTooLarge(result.stopped_by)
    explored = _explored(asked, variant, sizes, model.invariants, result)
    if json:
        say_json(explored)
    else:
        _show(explored)
    return ExitCode[explored.verdict]


def _sizes(asked: Asked) -> dict[str, int]:
    if asked.model not in _OPTIONS:
        raise UsageError(f"unknown model {asked.model!r}; known: {', '.join(_OPTIONS)}")
    defaults = _OPTIONS[asked.model]
    given = msgspec.structs.asdict(asked)
    for other in _OPTIONS.values():
        for name in other:
            if name not in defaults and given[name] is not None:
                raise UsageError(f"{_option(name)} does not apply to the model {asked.model}")
    return {name: default if given[name] is None else given[name] for name, default in defaults.items()}


def _model(asked: Asked, variant: str, sizes: dict[str, int]) -> Model:
    variants = VARIANTS if asked.model == KAFKA_REPLICATION else ISR_VARIANTS
    if variant not in variants:
        raise UsageError(f"unknown variant {variant!r} of {asked.model}; known: {', '.join(variants)}")
    if asked.without is not None and variant != "kip320":
        raise UsageError(f"--without takes a guard out of kip320, not out of {variant}")
    if asked.without is not None and asked.without not in GUARDS:
        raise UsageError(f"unknown guard {asked.without!r}; known: {', '.join(GUARDS)}")
    if asked.model == ASYNC_ISR:
        return AsyncIsr(ISR_VARIANTS[variant], IsrSizes(**sizes))
    rules = VARIANTS[variant] if asked.without is None else GUARDS[asked.without]
    return KafkaReplication(rules, Sizes(**sizes))


def _search(search: LevelSearch, *, quiet: bool) -> Result:
    with shown_progress(quiet=quiet) as progress:
        return search.run(progress)


def _explored(asked: Asked, variant: str, sizes: dict[str, int], invariants: tuple[str, ...], result: Result) -> ExploredModel:
    findings = {finding.invariant: finding for finding in result.findings}
    verdicts = {name: _verdict(findings.get(name), exhausted=result.end == "exhausted") for name in invariants}
    verdict: Literal["VALID", "UNKNOWN"] = "VALID" if result.end == "exhausted" else "UNKNOWN"
    options = {"variant": variant, **({"without": asked.without} if asked.without else {}), **sizes}
    return ExploredModel(
        model=asked.model,
        variant=variant,
        without=asked.without,
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
        repeat=" ".join([f"highwater explore --model {asked.model}", *(f"{_option(k)} {v}" for k, v in options.items())]),
    )


def _verdict(finding: Finding | None, *, exhausted: bool) -> ModelVerdict:
    if finding is None:
        return ModelVerdict(holds=True if exhausted else None)
    return ModelVerdict(holds=False, length=len(finding.steps), trace=tuple(step.action for step in finding.steps[1:]))


def _show(explored: ExploredModel) -> None:
    for name, verdict in explored.verdicts.items():
        if verdict.holds is False:
            say(f"INVALID: {name} is violated after {len(verdict.trace)} actions ({verdict.length} states)")
            for number, action in enumerate(verdict.trace, 1):
                say(f"{number:3}. {action}")
        elif verdict.holds:
            say(f"VALID: {name} holds in the whole space")
        else:
            say(f"UNKNOWN: no violation of {name} found, stopped at {explored.stopped_by}: no proof")
    left = f", {explored.frontier} states not expanded" if explored.frontier else ""
    say(
        f"{explored.generated} generated, {explored.distinct} distinct, depth {explored.depth}{left}; "
        f"{explored.states_per_second} states a second"
    )
    say(f"repeat  {explored.repeat}")


def _named(variant: str, without: str | None) -> str:
    return variant if without is None else f"{variant} without its {without}"


def _words(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in sizes.items())


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
