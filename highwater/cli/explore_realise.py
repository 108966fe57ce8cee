"""`highwater explore realise NAME`: look for a published counterexample of the model on the machines (docs/model.md)."""

from time import monotonic
from typing import Annotated, Literal

import typer
from msgspec import Struct
from msgspec.structs import asdict, replace

from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.explore_outcome import PlanFile, Toward, check_plan, explored, show_outcome
from highwater.cli.explore_worlds import PROPERTY, MemoryMib, Seconds, Unclean, WorldIfAny, check_protocol, headline, repeat
from highwater.cli.output import say
from highwater.cli.searching import Question, memory_limit_mib, shown_progress
from highwater.errors import UsageError
from highwater.explore.directed import Directed, with_shorter_path
from highwater.explore.machine_world import MachineWorld
from highwater.explore.published import PUBLISHED, guide_of
from highwater.explore.sentences import tell
from highwater.explore.strategy import Budget, Result
from highwater.plans.actions import AnyAction

_IN_THE_WAY = {
    "failover": "the controller replaces a leader only when its session is over, and then removes it from the ISR",
    "alone": "a leader that is alone in its ISR raises its HW at once",
    "leader_answers": "only a replica that takes itself for the leader says where an epoch ended",
    "epoch_start": "a leader knows where its epoch began before it writes (record_epoch_start)",
    "diverging_waits": "a follower that must truncate when it fetches is not counted (leo_of_diverging)",
    "epoch_floor": "a replica refuses epochs below the last one in its log (startup_epoch_floor)",
}


class Options(Struct, frozen=True, kw_only=True):
    """The options of `explore realise`; what is not given is that of the counterexample."""

    name: Annotated[str, typer.Argument(metavar="NAME", help=f"The counterexample: {', '.join(PUBLISHED)}.")]
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Protocol variant; the counterexample's if not given.",
            callback=options.lowered,
            autocompletion=options.protocols_like,
        ),
    ] = None
    unclean: Unclean = False
    holds: Annotated[Literal["committed", "weak-isr", "strong-isr"] | None, PROPERTY] = None
    world: Annotated[WorldIfAny, "World, each by default as of the counterexample"] = WorldIfAny()
    budget_seconds: Seconds = 120
    memory_mib: MemoryMib = None
    plan: PlanFile = None
    json: options.AsJson = False


@takes(Options)
def realise(arguments: Options) -> int:
    """Search best-first for a published counterexample to the model on the machines, by default in its own world."""
    if arguments.protocol is not None:
        check_protocol(arguments.protocol)
    check_plan(arguments.plan)
    if arguments.name not in PUBLISHED:
        raise UsageError(f"no published counterexample {arguments.name!r}; known: {', '.join(PUBLISHED)}")
    published = PUBLISHED[arguments.name]
    bounds = {name: number for name, number in asdict(arguments.world).items() if number is not None}
    question = Question(
        protocol=arguments.protocol or published.protocol,
        bounds=replace(published.bounds, **bounds),
        holds=arguments.holds or published.holds,
        unclean=arguments.unclean,
    )
    if not arguments.json:
        say(headline(question))
    budget = Budget(seconds=arguments.budget_seconds, memory_mib=arguments.memory_mib or memory_limit_mib())
    result, toward = _directed_search(arguments.name, question, budget, quiet=arguments.json)
    again = repeat(f"realise {arguments.name} --protocol {question.protocol}", question, published.bounds, holds=None)
    return show_outcome(explored(result, question, repeat=again, toward=toward), arguments.plan, json=arguments.json)


def _directed_search(name: str, question: Question, budget: Budget, *, quiet: bool) -> tuple[Result[AnyAction], Toward]:
    """Search best-first toward a violation in the model; a path that is found is made shorter."""
    published = PUBLISHED[name]
    model = MachineWorld(question.variant, question.bounds)
    guide = guide_of(published, question.variant, question.bounds, question.holds, monotonic)
    properties = tuple(property_ for property_ in model.properties if property_.name in ("committed", question.holds))
    search = Directed(model, guide, properties, monotonic)
    with shown_progress(quiet=quiet) as progress:
        result = search.run(budget, progress)
    if result.violations:
        return with_shorter_path(model, result), Toward(name=name, cut=search.cut)
    nearest = search.nearest_miss()
    if nearest is None:
        blocked = tuple(_IN_THE_WAY[guard] for guard in guide.obstacles(search.start))
        return result, Toward(name=name, cut=search.cut, in_the_way=blocked)
    story = tell(model, nearest.path)
    return result, Toward(name=name, cut=search.cut, distance=nearest.distance, wanted=nearest.wanted, story=story)
