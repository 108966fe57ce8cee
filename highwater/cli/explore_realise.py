"""`highwater explore --realise NAME`: look for a published counterexample of the model on the machines (docs/model.md)."""

from time import monotonic

from msgspec import Struct

from highwater.cli.output import say
from highwater.cli.searching import Question, shown_progress
from highwater.errors import UsageError
from highwater.explore.directed import Directed, with_shorter_path
from highwater.explore.model import Model
from highwater.explore.published import PUBLISHED, guide_of
from highwater.explore.search import Budget, Result
from highwater.explore.story import tell
from highwater.plans.actions import AnyAction

_IN_THE_WAY = {
    "failover": "the controller replaces a leader only when its session is over, and then removes it from the ISR",
    "alone": "a leader that is alone in its ISR raises its HW at once",
    "leader_answers": "only a replica that takes itself for the leader says where an epoch ended",
    "epoch_start": "a leader knows where its epoch began before it writes (record_epoch_start)",
    "diverging_waits": "a follower that must truncate when it fetches is not counted (leo_of_diverging)",
    "epoch_floor": "a replica refuses epochs below the last one in its log (startup_epoch_floor)",
}


class Toward(Struct, frozen=True, kw_only=True):
    """Where a directed search ended, if it found nothing.

    `distance`: actions of the model from the nearest state to a violation; None if the model has no way from the start. `story`
    leads to that state, `wanted` are the actions of which the machines performed none there, `in_the_way` is what keeps the
    machines off if the model has no way: without any one of these it has one.
    """

    name: str
    cut: int  # steps that left every path of the model to a violation
    distance: int | None = None
    wanted: tuple[str, ...] = ()
    story: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()


def realise(name: str, question: Question, budget: Budget, *, quiet: bool) -> tuple[Result[AnyAction], Toward]:
    """Search best-first toward a violation in the model; a path that is found is made shorter."""
    published = PUBLISHED[name]
    model = Model(question.variant, question.bounds)
    guide = guide_of(published, question.variant, question.bounds, question.holds, monotonic)
    properties = tuple(property_ for property_ in model.properties if property_.name in ("committed", question.holds))
    search = Directed(model, guide, properties, monotonic)
    with shown_progress(quiet=quiet) as progress:
        result = search.run(budget, progress)
    if result.violations:
        return with_shorter_path(model, result), Toward(name=name, cut=search.cut)
    nearest = search.nearest()
    if nearest is None:
        blocked = tuple(_IN_THE_WAY[guard] for guard in guide.in_the_way(search.start))
        return result, Toward(name=name, cut=search.cut, in_the_way=blocked)
    story = tell(model, nearest.path)
    return result, Toward(name=name, cut=search.cut, distance=nearest.distance, wanted=nearest.wanted, story=story)


def check_name(name: str) -> None:
    """UsageError if there is no published counterexample of this name."""
    if name not in PUBLISHED:
        raise UsageError(f"no published counterexample {name!r}; known: {', '.join(PUBLISHED)}")


def show_toward(toward: Toward) -> None:
    """Print how near the search came."""
    say(f"{toward.cut} steps cut, because they left every path of the model of {toward.name} to a violation")
    if toward.distance is None:
        say("the model, with what the machines do otherwise, has no way from the start to a violation in a world of this size")
        for words in toward.in_the_way:
            say(f"in the way: {words}")
        return
    say(f"nearest: {toward.distance} actions of the model from a violation, after {len(toward.story)} steps")
    for number, sentence in enumerate(toward.story, 1):
        say(f"{number:3}. {sentence}")
    say(f"not performed after that: {' or '.join(toward.wanted)}")
