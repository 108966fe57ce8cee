"""`highwater explore`: search all schedules of a small cluster up to a bound on epochs and faults.

Exit 10: a counterexample was found, by breadth-first search the shortest one. Exit 0: the whole space was searched and the
property holds. Exit 11: the budget, the memory or Ctrl-C ended the search early; unexplored states are unproven, and the last
line says how to go on.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from highwater.cli import options
from highwater.cli.explore_ablate import ablate as ablate_safe
from highwater.cli.explore_model import Asked, explore_model
from highwater.cli.explore_realise import Toward, check_name, show_toward
from highwater.cli.explore_realise import realise as realise_published
from highwater.cli.explore_refines import AskedRefinement, explore_refines
from highwater.cli.output import say, say_json
from highwater.cli.searching import Manner, PropertyName, Question, StrategyName, check, memory_limit_mib, resume, search, stopped
from highwater.errors import HarnessError, UsageError
from highwater.exit_codes import ExitCode
from highwater.explore.model import Model
from highwater.explore.path import plan_of
from highwater.explore.published import PUBLISHED
from highwater.explore.search import Budget, Result
from highwater.explore.state import Bounds
from highwater.explore.story import tell
from highwater.explore.walks import Scheduler
from highwater.plans.actions import AnyAction
from highwater.plans.plan import Plan, unknown_protocol
from highwater.plans.text import plan_to_yaml
from reference.config import VARIANTS

_DEFAULTS = Bounds()
_MANNER = Manner()
_VACUOUS = "a record was committed"  # the goal without which no property means anything


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
    memory_mib: int
    collision_odds: float
    goals: tuple[str, ...]
    goals_missed: tuple[str, ...]
    resume: str = ""  # the command that goes on
    toward: Toward | None = None  # of --realise


# Options that say which machines are searched, and those that say which abstract model.
_OF_MACHINES = (
    "protocol",
    "brokers",
    "records",
    "max_epochs",
    "crashes",
    "expiries",
    "losses",
    "doubles",
    "partitions",
    "moves",
    "zk",
    "holds",
    "unclean",
    "kip343",
    "plan",
    "refines",
    "realise",
    "ablate",
    "strategy",
    "scheduler",
    "seed",
    "walks",
    "workers",
    "memory_mib",
    "folder",
    "resume_from",
)
_OF_BOUNDS = ("brokers", "records", "max_epochs", "crashes", "expiries", "losses", "doubles")
_OF_WORLDS = (*_OF_BOUNDS, "partitions", "moves")
_OF_ABLATIONS = (*_OF_WORLDS, "zk", "kip343", "memory_mib")
_OF_REALISED = (*_OF_BOUNDS, "protocol", "holds", "unclean", "memory_mib", "plan")
_SPELT = {"resume_from": "resume"}
_OF_MODELS = ("variant", "without", "replicas", "log_size", "max_records", "max_epoch", "max_offset", "max_version")
_Brokers = Annotated[int, typer.Option(min=1, max=4, help="Number of brokers.")]
_Records = Annotated[int, typer.Option(min=1, help="Number of records that the client produces.")]
_MaxEpochs = Annotated[int, typer.Option(min=1, help="Number of leader epochs; states with more are not expanded.")]
_Crashes = Annotated[int, typer.Option(min=0, help="Maximum of crashes in one schedule.")]
_Expiries = Annotated[int, typer.Option(min=0, help="Maximum of session expiries of running brokers in one schedule.")]
_Losses = Annotated[int, typer.Option(min=0, help="Maximum of lost messages in one schedule.")]
_Doubles = Annotated[int, typer.Option(min=0, help="Maximum of messages in one schedule that may arrive twice.")]
_Partitions = Annotated[int, typer.Option(min=1, max=3, help="Partitions of the topic; the records are produced to any of them.")]
_Moves = Annotated[
    int,
    typer.Option(min=0, help="Maximum of moves of a partition in one schedule; the last broker then begins without replicas."),
]
_Zk = Annotated[
    Literal["atomic", "async"],
    typer.Option(help="atomic: a ZooKeeper request and its reply are one action; async: each is an action."),
]
_Holds = Annotated[PropertyName, typer.Option(help="Property to check, besides that no committed record is lost.")]
_Kip343 = Annotated[
    bool, typer.Option("--kip343", help="Brokers send heartbeats, and leaders ask the controller for ISR changes.")
]
_Unclean = Annotated[bool, typer.Option(help="Allow the protocol's unclean election; by default it is switched off.")]
_BudgetSeconds = Annotated[int, typer.Option(min=1, help="Maximum of wall seconds for the search.")]
_MaxDepth = Annotated[int | None, typer.Option(min=1, help="Maximum of actions in one schedule.")]
_Strategy = Annotated[StrategyName, typer.Option(help="Order of the search; only breadth-first can be resumed.")]
_SchedulerOption = Annotated[Scheduler, typer.Option(help="What random walks make likely (strategy walk).")]
_Seed = Annotated[int, typer.Option(min=0, help="Seed of the random walks.")]
_Walks = Annotated[int | None, typer.Option(min=1, help="Maximum of random walks.")]
_Workers = Annotated[int, typer.Option(min=1, max=64, help="Processes that search (breadth-first).")]
_MemoryMib = Annotated[int | None, typer.Option(min=1, help="Maximum of memory; by default four fifths of what is available.")]
_Folder = Annotated[Path | None, typer.Option(help="New folder for the search's files; it stays if the search is stopped.")]
_ResumeFrom = Annotated[
    Path | None,
    typer.Option("--resume", metavar="FOLDER", help="Go on with a stopped search; what it searches is in FOLDER."),
]
_PlanOption = Annotated[Path | None, typer.Option(help="File for the plan of a counterexample; printed if not given.")]
_Refines = Annotated[
    str | None, typer.Option(metavar="VARIANT", help="Check that each step is one of this variant of kafka-replication.")
]
_Realise = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Search best-first for this published counterexample, by default in its own world."),
]
_Ablate = Annotated[
    str | None,
    typer.Option(
        metavar="PROTOCOL", help="Take each switch out of safe and search; the budget is CPU seconds for each strategy."
    ),
]
_ModelOption = Annotated[
    str | None, typer.Option(help="Search this abstract model instead of the machines: kafka-replication or async-isr.")
]
_Variant = Annotated[str | None, typer.Option(help="Variant of the model (docs/model.md).")]
_Without = Annotated[str | None, typer.Option(metavar="GUARD", help="Take this guard out of the variant kip320.")]
_Replicas = Annotated[int | None, typer.Option(min=1, help="Replicas of the model.")]
_LogSize = Annotated[int | None, typer.Option(min=1, help="Records that a log of the model can hold.")]
_MaxRecords = Annotated[int | None, typer.Option(min=1, help="Records that clients of the model write.")]
_MaxEpoch = Annotated[int | None, typer.Option(min=0, help="Last leader epoch of the model; the first one is 0.")]
_MaxOffset = Annotated[int | None, typer.Option(min=1, help="Last offset in async-isr.")]
_MaxVersion = Annotated[int | None, typer.Option(min=1, help="Last version of the ISR in async-isr.")]


def explore(
    context: typer.Context,
    *,
    protocol: options.Protocol = "safe",
    brokers: _Brokers = 2,
    records: _Records = 1,
    max_epochs: _MaxEpochs = 2,
    crashes: _Crashes = 1,
    expiries: _Expiries = 1,
    losses: _Losses = 0,
    doubles: _Doubles = 0,
    partitions: _Partitions = 1,
    moves: _Moves = 0,
    zk: _Zk = "atomic",
    holds: _Holds = "committed",
    kip343: _Kip343 = False,
    unclean: _Unclean = False,
    budget_seconds: _BudgetSeconds = 120,
    max_depth: _MaxDepth = None,
    strategy: _Strategy = _MANNER.strategy,
    scheduler: _SchedulerOption = _MANNER.scheduler,
    seed: _Seed = _MANNER.seed,
    walks: _Walks = None,
    workers: _Workers = 1,
    memory_mib: _MemoryMib = None,
    folder: _Folder = None,
    resume_from: _ResumeFrom = None,
    plan: _PlanOption = None,
    refines: _Refines = None,
    realise: _Realise = None,
    ablate: _Ablate = None,
    model: _ModelOption = None,
    variant: _Variant = None,
    without: _Without = None,
    replicas: _Replicas = None,
    log_size: _LogSize = None,
    max_records: _MaxRecords = None,
    max_epoch: _MaxEpoch = None,
    max_offset: _MaxOffset = None,
    max_version: _MaxVersion = None,
    json: options.AsJson = False,
) -> int:
    """Search all schedules of a small cluster, or of a model, shortest first; print a counterexample step by step."""
    wrong = _refused(context, _OF_MODELS if model is None else _OF_MACHINES)
    if wrong:
        raise UsageError(f"{wrong} needs --model" if model is None else f"{wrong} does not apply to --model {model}")
    if model is not None:
        asked = Asked(model=model, **{name: context.params[name] for name in _OF_MODELS})
        return explore_model(asked, seconds=budget_seconds, max_depth=max_depth, json=json)
    _check_names(protocol, plan)
    question = Question(
        protocol=protocol,
        bounds=Bounds(**{name: context.params[name] for name in _OF_WORLDS}, zk_async=zk == "async", kip343=kip343),
        holds=holds,
        unclean=unclean,
        workers=workers,
    )
    budget = Budget(seconds=budget_seconds, depth=max_depth, walks=walks, memory_mib=memory_mib or memory_limit_mib())
    manner = Manner(strategy=strategy, scheduler=scheduler, seed=seed, folder=folder)
    check(question, manner)
    if ablate is not None:
        _allow(context, "ablate", _OF_ABLATIONS)
        return ablate_safe(ablate, question.bounds, budget, repeat=_repeat_ablation(question, budget_seconds), json=json)
    if realise is not None:
        _allow(context, "realise", _OF_REALISED)
        return _realised(_in_its_world(context, realise, question), realise, budget, plan=plan, json=json)
    if refines is not None:
        return _refined(question, manner, refines, budget, json=json)
    return _answer(question, manner, budget, resume_from=resume_from, plan=plan, json=json)


def _check_names(protocol: str, plan: Path | None) -> None:
    """Refuse an unknown protocol, and a plan in a folder that does not exist. Raises UsageError."""
    if protocol not in VARIANTS:
        raise UsageError(unknown_protocol(protocol))
    if plan is not None and not options.file_of(plan).parent.is_dir():
        raise UsageError(f"{plan}: folder {plan.parent} does not exist")


def _answer(
    question: Question, manner: Manner, budget: Budget, *, resume_from: Path | None, plan: Path | None, json: bool
) -> int:
    """Search, print what was found, and write the plan of a counterexample."""
    checkpoint = None
    if resume_from is not None:
        if (question, manner) != (Question(), Manner()):
            raise UsageError(
                f"--resume {resume_from} goes on with what is in the folder; it allows only limits, --plan and --json"
            )
        question, checkpoint = stopped(resume_from)
    if not json:
        say(_headline(question))
    if resume_from is not None and checkpoint is not None:
        result = resume(question, checkpoint, resume_from, budget, quiet=json)
    else:
        result = search(question, manner, budget, quiet=json)
    return _told(_explored(result, question), plan, json=json)


def _told(explored: Explored, plan: Path | None, *, json: bool) -> int:
    """Print what was found, and write the plan of a counterexample."""
    if plan is not None and explored.plan:
        try:
            plan.write_text(explored.plan, encoding="utf-8")
        except OSError as error:
            raise HarnessError(f"cannot write the plan to {plan}: {error.strerror}") from error
    if json:
        say_json(explored)
    else:
        _show(explored, plan)
    return ExitCode[explored.verdict]


def _refused(context: typer.Context, names: tuple[str, ...]) -> str:
    """The first of these options that was given; empty if none was."""
    given = (name for name in names if _is_given(context, name))
    return next((f"--{_SPELT.get(name, name.replace('_', '-'))}" for name in given), "")


def _allow(context: typer.Context, search: str, names: tuple[str, ...]) -> None:
    """Refuse options of other searches. Raises UsageError."""
    refused = _refused(context, tuple(name for name in (*_OF_MACHINES, "max_depth") if name not in (*names, search)))
    if refused:
        raise UsageError(f"{refused} does not apply to --{search} {context.params[search]}")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refined(question: Question, manner: Manner, variant: str, budget: Budget, *, json: bool) -> int:
    """Compare each step with the model."""
    if question.bounds.partitions > 1 or question.bounds.moves:
        raise UsageError("--refines needs a world with one partition and without moves, as the model is")
    if manner != Manner() or question.workers > 1:
        raise UsageError("--refines searches breadth-first with one worker and keeps no files")
    if not json:
        say(_headline(question))
    asked = AskedRefinement(question.protocol, variant, question.bounds, budget, _repeat(question))
    return explore_refines(Model(question.variant, question.bounds), asked, json=json)


def _in_its_world(context: typer.Context, name: str, question: Question) -> Question:
    """The question with the protocol, bounds and property of a published counterexample where no option says otherwise."""
    check_name(name)
    published = PUBLISHED[name]
    given = {name: value for name, value in msgspec.structs.asdict(question.bounds).items() if _is_given(context, name)}
    return replace(
        question,
        protocol=question.protocol if _is_given(context, "protocol") else published.protocol,
        holds=question.holds if _is_given(context, "holds") else published.holds,
        bounds=replace(published.bounds, **given),
    )


def _realised(question: Question, name: str, budget: Budget, *, plan: Path | None, json: bool) -> int:
    """Look for a published counterexample on the machines."""
    if not json:
        say(_headline(question))
    result, toward = realise_published(name, question, budget, quiet=json)
    repeat = f"{_repeat(question, PUBLISHED[name].bounds, holds=None)} --realise {name}"
    return _told(replace(_explored(result, question), toward=toward, repeat=repeat), plan, json=json)


def _headline(question: Question) -> str:
    bounds = question.bounds
    doubles = f", {_count(bounds.doubles, 'doubled message')}" if bounds.doubles else ""
    moves = f", {_count(bounds.moves, 'move')}" if bounds.moves else ""
    partitions = f"{_count(bounds.partitions, 'partition')}, " if bounds.partitions > 1 else ""
    clean = " without its unclean election" if VARIANTS[question.protocol] != question.variant else ""
    return (
        f"explore {question.protocol}{clean}: {_count(bounds.brokers, 'broker')}, {partitions}"
        f"{_count(bounds.records, 'record')}, "
        f"{_count(bounds.max_epochs, 'leader epoch')}; at most {_count(bounds.crashes, 'crash')}, "
        f"{_count(bounds.expiries, 'expired session')}, {_count(bounds.losses, 'lost message')}{doubles}{moves}; "
        f"ZooKeeper {'asynchronous' if bounds.zk_async else 'in one step'}{'; KIP-343' if bounds.kip343 else ''}"
    )


def _count(number: int, noun: str) -> str:
    ending = "" if number == 1 else "es" if noun.endswith("sh") else "s"
    return f"{number} {noun}{ending}"


def _repeat(question: Question, defaults: Bounds = _DEFAULTS, holds: PropertyName | None = "committed") -> str:
    """The command that repeats the search, without options at their default; `holds` None: that option has no default."""
    bounds = question.bounds
    parts = [f"highwater explore --protocol {question.protocol}"]
    for name, number in msgspec.structs.asdict(bounds).items():
        if not isinstance(number, bool) and number != getattr(defaults, name):
            parts.append(f"--{name.replace('_', '-')} {number}")
    parts += ["--zk async"] if bounds.zk_async else []
    parts += ["--kip343"] if bounds.kip343 else []
    parts += [f"--holds {question.holds}"] if question.holds != holds else []
    parts += ["--unclean"] if question.unclean else []
    return " ".join(parts)


def _repeat_ablation(question: Question, seconds: int) -> str:
    return _repeat(question).replace("--protocol safe", "--ablate safe") + f" --budget-seconds {seconds}"


def _plan(result: Result[AnyAction], story: tuple[str, ...], question: Question) -> Plan:
    return plan_of(
        name=f"explored-{question.protocol}-{question.bounds.brokers}-{len(result.path)}",
        story=story,
        protocol=question.protocol,
        variant=question.variant,
        bounds=question.bounds,
        path=result.path,
    )


def _explored(result: Result[AnyAction], question: Question) -> Explored:
    model = Model(question.variant, question.bounds)
    story = tell(model, result.path)
    missed = tuple(goal.name for goal in model.goals if goal.name not in result.goals)
    verdict: Literal["VALID", "UNKNOWN", "INVALID"] = "UNKNOWN"
    if result.violations:
        verdict = "INVALID"
    elif result.end == "exhausted" and _VACUOUS not in missed:
        verdict = "VALID"
    return Explored(
        protocol=question.protocol,
        bounds=question.bounds,
        holds=question.holds,
        verdict=verdict,
        wrong=result.wrong,
        story=story,
        plan=plan_to_yaml(_plan(result, story, question)) if result.violations else "",
        repeat=_repeat(question),
        stopped_by=result.stopped_by,
        states=result.states,
        transitions=result.transitions,
        depth=result.depth,
        frontier=result.frontier,
        beyond_max_epochs=result.beyond,
        states_per_second=int(result.states / max(result.seconds, 1e-3)),
        wall_seconds=round(result.seconds, 1),
        memory_mib=result.memory_mib,
        collision_odds=result.collision_odds,
        goals=result.goals,
        goals_missed=missed,
        resume=f"highwater explore --resume {result.folder}" if result.folder else "",
    )


def _show(explored: Explored, plan: Path | None) -> None:
    numbers = (
        f"{explored.states} states, {explored.transitions} transitions, depth {explored.depth}, "
        f"{explored.states_per_second} states a second, {explored.beyond_max_epochs} not expanded (leader epoch beyond the bound)"
    )
    odds = f"{explored.memory_mib} MiB; odds that two states had one fingerprint: {explored.collision_odds:.0e}"
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
        left = f"{explored.frontier} states not expanded: " if explored.frontier else ""
        say(f"UNKNOWN: nothing found, stopped at {explored.stopped_by}; {left}no proof")
    else:
        say("UNKNOWN: no violation in the whole space, but no record was ever committed in it")
    say(numbers)
    say(odds)
    say(f"seen: {', '.join(explored.goals) or 'nothing'}")
    if explored.goals_missed:
        say(f"never: {', '.join(explored.goals_missed)}")
    if explored.toward is not None:
        show_toward(explored.toward)
    if explored.resume:
        say(f"go on  {explored.resume}")
