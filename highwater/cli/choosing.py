"""From the options of `highwater run` to a plan, a backend and the command that repeats the run; tests of users use them, too."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Literal, TypedDict, Unpack

import typer
from msgspec import Struct
from msgspec.structs import asdict, replace

from highwater.campaigns.campaign import Request
from highwater.cli import options
from highwater.cli.declaration import filled
from highwater.errors import UsageError
from highwater.plans.plan import Plan, checked
from highwater.plans.text import load_plan
from highwater.rig.backend import Backend, BackendName
from highwater.runs.provenance import present_build
from highwater.runs.run import Judged, Keep, backend_named, carry_out
from nemesis.profiles import ProfileName


class Chosen(Struct, frozen=True, kw_only=True):
    """A plan with the backend that performs it and the command that repeats its run."""

    plan: Plan
    backend: BackendName
    repeat: str

    def __repr__(self) -> str:
        return self.repeat  # Hypothesis prints it as the failing example


class Choice(Struct, frozen=True, kw_only=True):
    """The options of `highwater run` that choose a plan and its backend."""

    seed: Annotated[str | None, typer.Option(help="Seed: decimal, 0x…, or 16 hex digits.")] = None
    derivation: options.Derivation = None
    plan: Annotated[Path | None, typer.Option(help="Plan file (YAML) instead of a seed.")] = None
    protocol: options.ProtocolIfAny = None
    faults: options.Faults = ""
    load: options.Load = options.Load()
    backend: options.BackendOption = None
    under: options.UnderTest = options.UnderTest()


class Options(TypedDict, total=False):
    """Options of `highwater run` beside the seed and the plan, by the names and with the values that the command line has."""

    protocol: str | None
    faults: str
    profile: ProfileName
    seconds: int | None
    workload: str
    backend: BackendName | None
    system: str | None
    described: Path | None
    jars: Path | None
    client: str | None
    settings: Literal["drawn", "document"]
    metrics: int | None


def choose(
    *, seed: str | None = None, derivation: int | None = None, plan: Path | None = None, **arguments: Unpack[Options]
) -> Chosen:
    """The plan that these options of `highwater run` mean. UsageError or PlanError if they mean none."""
    return chosen(filled(Choice, {"seed": seed, "derivation": derivation, "plan": plan, **arguments}))


def chosen(arguments: Choice) -> Chosen:
    """The plan that the options mean. UsageError or PlanError if they mean none."""
    loaded = None if arguments.plan is None else load_plan(arguments.plan)
    backend = options.backend_for(arguments.backend, loaded, arguments.under.system)
    request = Request(
        protocol=arguments.protocol or "safe",
        faults=options.names_of(arguments.faults),
        backend=backend,
        **asdict(arguments.load),
        system=arguments.under.name,
        described=arguments.under.file,
        jars=arguments.under.build,
        client=arguments.under.library,
    )
    if arguments.derivation is not None and arguments.seed is None:
        raise UsageError("--derivation needs --seed")
    options.check_seeds(arguments.derivation, foreign=request.foreign)
    plan, repeat = _plan_and_repeat(arguments.seed, arguments.plan, loaded, arguments.protocol, request)
    return Chosen(plan=plan, backend=backend, repeat=repeat)


def perform(chosen: Chosen, keep: Keep, performer: Backend | None = None) -> Judged:
    """Perform and judge a plan on its backend, or on `performer`; the errors of `runs.run.carry_out`."""
    return carry_out(
        chosen.plan, performer or backend_named(chosen.backend), build=present_build(), repeat=chosen.repeat, keep=keep
    )


def _plan_and_repeat(
    seed: str | None, path: Path | None, plan: Plan | None, protocol: str | None, request: Request
) -> tuple[Plan, str]:
    """The plan of a seed or a file, and the command that repeats its run."""
    if (seed is None) == (path is None):
        raise UsageError(f"give either --seed S or --plan FILE; given: {'neither' if seed is None else 'both'}")
    if seed is not None:
        number = options.seed_of(seed)
        return request.plan(number), request.command(number)
    assert path is not None
    assert plan is not None
    kept = Request(
        protocol=request.protocol,
        backend=request.backend,
        system=request.system,
        described=request.described,
        jars=request.jars,
        client=request.client,
        metrics=request.metrics,
    )
    if request != kept:
        raise UsageError(
            "only --protocol, --backend, --system, --client and --metrics may be combined with --plan; remove the other options"
        )
    if plan.path and request.backend != "sim":
        raise UsageError(f"{path}: a plan with an explorer path runs on backend sim only, not {request.backend}")
    repeat = f"highwater run --plan {quote(str(path))}"
    if protocol is not None:
        plan = checked(replace(plan, protocol=protocol, variant=None))
        repeat += f" --protocol {protocol}"
    plan = request.adapted(plan)
    if request.client:
        repeat += f" --client {quote(request.client)}"
    if request.metrics is not None:
        repeat += f" --metrics {request.metrics}"
    if request.words:
        from highwater.backends.real.systems.registry import put_on  # a simulated run needs no real backend

        plan = put_on(plan, request.spec)
        repeat += request.words
    implied = options.backend_for(None, plan, None)
    return plan, repeat + (f" --backend {request.backend}" if request.backend != implied else "")
