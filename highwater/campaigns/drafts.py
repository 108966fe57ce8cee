"""What edits of plans work with: the parent, the draft that each edit changes, and the parts from which edits are made."""

from collections.abc import Callable, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from highwater.plans.plan import Plan, is_foreign, shape_of
from history.fault_kinds import FAMILIES
from history.seed import Rng
from nemesis.blows import Aim, Kind
from nemesis.capability import refusals
from nemesis.profiles import Profile, ProfileName, default_kinds, excess, usable
from nemesis.schedule import Shape, Window, broker_ids, validate
from nemesis.targets import Named
from reference.config import TopicSpec
from workloads.parameters import Step


class Notable(Struct, frozen=True, kw_only=True):
    """When the parent's run took a branch as few others did, at which broker (0: at none), and the greater weight the fewer."""

    at_ms: int
    broker: int
    branch: str
    weight: int


class Source(Struct, frozen=True, kw_only=True):
    """What edits work with. `others` are plans whose windows may be taken over."""

    parent: Plan
    notable: tuple[Notable, ...]
    others: tuple[Plan, ...]
    kinds: tuple[Kind, ...]  # that may strike


class Draft(Struct, frozen=True, kw_only=True):
    """What edits change: schedule, script and acks; and the last edit in words.

    `taken`: from when until when patterns have the cluster for themselves.
    """

    schedule: tuple[Window, ...]
    script: tuple[Step, ...]
    acks: tuple[int, ...]
    taken: tuple[tuple[int, int], ...] = ()
    words: str = ""


_DRAWS = 3  # of a kind, to see whether a system can suffer it

Edit = Callable[[Rng, Source, Draft], Draft | None]


def kinds_for(plan: Plan, faults: Sequence[str], profile: ProfileName) -> tuple[Kind, ...]:
    """The kinds of faults that may strike this plan's cluster: `faults` are kinds, those of the profile if empty.

    On another system those that it can suffer, and faults of single messages.
    """
    shape = shape_of(plan)
    if not is_foreign(plan):
        return usable(Profile(name=profile, kinds=tuple(faults) or default_kinds(profile, shape)), shape)
    names = tuple(faults) or (*default_kinds(profile, shape), *FAMILIES["message"])
    return tuple(kind for kind in usable(Profile(name=profile, kinds=names), shape) if _is_suffered(kind, plan, shape))


def _is_suffered(kind: Kind, plan: Plan, shape: Shape) -> bool:
    """Whether the plan's system can suffer one of some faults of this kind."""
    aim = Aim(shape=shape, topic=shape.topics[0].name, partition=0)
    blows = [kind.draw(Rng(draw), aim) for draw in range(_DRAWS)]
    windows = [Window(id="g0", kind=kind.name, at_ms=0, until_ms=1, fault=blow.fault, target=blow.target) for blow in blows]
    return any(_is_performable((window,), plan) for window in windows)


def _is_performable(schedule: tuple[Window, ...], plan: Plan) -> bool:
    """Whether the backend can perform a schedule, and the plan's system suffer it."""
    if not is_foreign(plan):
        return not refusals("sim", schedule)
    # A simulated campaign needs no real backend.
    from highwater.backends.real.systems.registry import bearable

    return not refusals("process", schedule) and bearable(plan, schedule) == schedule


def is_allowed(schedule: tuple[Window, ...], plan: Plan) -> bool:
    """Whether a schedule can be performed and healed, and stays within the profile of a plan."""
    shape = shape_of(plan)
    return (
        _is_performable(schedule, plan)
        and not validate(schedule, shape)
        and (plan.promise.profile == "beyond" or excess(schedule, shape) is None)
    )


def drawn_window(rng: Rng, source: Source, schedule: Sequence[Window], at_ms: int, *, broker: int) -> Window:
    """A window with a drawn kind. In two draws of three it strikes `broker`, unless that is 0.

    Where profile `within` lets a fault wound only few brokers, it strikes those that the schedule wounds already.
    """
    shape = shape_of(source.parent)
    topic = rng.pick(shape.topics)
    kind = rng.pick(source.kinds)
    blow = kind.draw(rng, Aim(shape=shape, topic=topic.name, partition=rng.below(topic.partitions)))
    target = Named(brokers=(broker,)) if broker and not kind.everyone and rng.ratio(2, 3) else blow.target
    until_ms = min(at_ms + blow.lasts_ms, source.parent.faults_ms)
    window = Window(id=fresh_id(schedule), kind=kind.name, at_ms=at_ms, until_ms=until_ms, fault=blow.fault, target=target)
    if source.parent.promise.profile == "within" and excess((*schedule, window), shape) is not None:
        hit = wounded(source, schedule)
        window = replace(window, target=rng.pick(hit) if hit else Named(brokers=(rng.pick(broker_ids(shape)),)))
    return window


def wounded(source: Source, schedule: Sequence[Window]) -> list[Named]:
    """Which brokers the windows of a schedule wound, where profile `within` counts them."""
    if source.parent.promise.profile != "within":
        return []
    shape = _fragile(shape_of(source.parent))
    return [window.target for window in schedule if isinstance(window.target, Named) and excess((window,), shape) is not None]


def _fragile(shape: Shape) -> Shape:
    """The cluster as if no topic could bear a wound."""
    return replace(shape, topics=tuple(replace(topic, min_insync_replicas=1) for topic in shape.topics))


def reassigned(rng: Rng, plan: Plan, topic: TopicSpec, partition: int, at_ms: int) -> Step:
    """A request to move one partition to drawn brokers."""
    replicas = tuple(rng.shuffled(broker_ids(shape_of(plan)))[: topic.replication_factor])
    return Step(at_ms=at_ms, do="reassign", topic=topic.name, partition=partition, replicas=(replicas,))


def in_time(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The requests of a script in the order of their times."""
    return tuple(sorted(steps, key=lambda step: step.at_ms))


def fresh_id(schedule: Sequence[Window]) -> str:
    """An id that no window has: draws of a run are named by it."""
    ids = {window.id for window in schedule}
    return next(name for number in count(1) if (name := f"g{number}") not in ids)
