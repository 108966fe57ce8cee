"""The systems that can be put on the stage, by the name that plans and `--system` give."""

from collections.abc import Callable, Collection, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from highwater.backends.real.systems.external.system import NAME as EXTERNAL
from highwater.backends.real.systems.external.system import External
from highwater.backends.real.systems.kafka.releases import neighbours, release_named
from highwater.backends.real.systems.kafka.system import NAME as KAFKA
from highwater.backends.real.systems.kafka.system import Kafka, release_and_build
from highwater.backends.real.systems.limits import too_many_wounds
from highwater.backends.real.systems.port import System
from highwater.backends.real.systems.reference import Reference
from highwater.errors import UsageError
from highwater.plans.plan import Plan, checked, is_foreign, on_system, system_of
from highwater.plans.scaled import beyond_in, prefixed, scaled
from highwater.plans.systems import REFERENCE, SystemSpec, parsed_system, words_of
from history.errors import unknown
from nemesis.faults import PowerLoss
from nemesis.schedule import Window
from nemesis.targets import ClientPlace, Controller

# Written out, so that the list can be read.
SYSTEMS: dict[str, Callable[[Plan], System]] = {REFERENCE: Reference, KAFKA: Kafka, EXTERNAL: External}


def system_for(plan: Plan) -> System:
    """The system that a plan names, made for this plan. UsageError for an unknown name or version."""
    name = system_of(plan).name
    if name not in SYSTEMS:
        raise UsageError(unknown("system", name, SYSTEMS))
    return SYSTEMS[name](plan)


class Akin(Struct, frozen=True, kw_only=True):
    """Those of other systems, in words, that tell how one behaves: the same one, or the next older and newer one."""

    same: str | None = None
    older: str | None = None
    newer: str | None = None


def akin(system: SystemSpec, others: Collection[str]) -> Akin:
    """What the other systems have that tells how this one behaves: the same one, or any of its name.

    Of a release of Kafka that is not among them, or a user's build: the next older and the next newer one in the same mode, with
    its controllers apart from the brokers, or not, as here.
    """
    same = [words for words in (words_of(system), system.name) if words in others]
    if same or system.name != KAFKA:
        return Akin(same=next(iter(same), None))
    apart = system.controllers is not UNSET
    specs = [spec for spec in map(parsed_system, others) if spec.name == KAFKA and (spec.controllers is not UNSET) == apart]
    words = {release_named(spec.version): words_of(spec) for spec in specs}
    older, newer = neighbours(release_and_build(system)[0], words)
    named = [None if release is None else words[release] for release in (older, newer)]
    return Akin(same=named[0]) if older is newer else Akin(older=named[0], newer=named[1])


def put_on(plan: Plan, system: SystemSpec) -> Plan:
    """The plan with another system; on a user's cluster with as many brokers as that has, and its prefix before its topics.

    PlanError if that makes it invalid.
    """
    plan = checked(on_system(plan, system))
    if system.name != EXTERNAL:
        return plan
    described = External.described(system)
    return checked(prefixed(scaled(plan, len(described.nodes)), described.prefix))


def size_of(system: SystemSpec) -> int | None:
    """The number of brokers that a system has; None if it has as many as a plan wants."""
    return len(External.described(system).nodes) if system.name == EXTERNAL else None


def fitted(plan: Plan) -> Plan:
    """A plan that was derived for the reference, without what another system cannot do: audits, scripts, legacy brokers.

    On a user's cluster all clients are at one place.
    """
    if not is_foreign(plan):
        return plan
    cluster = replace(plan.cluster, legacy_brokers=())
    idempotent = plan.workload.idempotent if system_for(plan).idempotence else 0
    places = 1 if system_of(plan).name == EXTERNAL else plan.workload.places
    workload = replace(plan.workload, idempotent=idempotent, places=places)
    return replace(plan, cluster=cluster, workload=workload, audit_ms=0, script=())


def _is_nowhere(window: Window, plan: Plan) -> bool:
    """Whether a window hits clients at a place that the plan does not have, or a broker that is controller where none is."""
    if isinstance(window.target, Controller):
        return system_of(plan).controllers is not UNSET
    return isinstance(window.target, ClientPlace) and window.target.place > plan.workload.places


def bearable(plan: Plan, windows: Sequence[Window]) -> tuple[Window, ...]:
    """Those of the windows whose faults the plan's system can suffer; no power loss, if they hit too many brokers."""
    system = system_for(plan)
    brokers = plan.cluster.brokers
    able = tuple(window for window in windows if system.lacks(window.fault) is None and not _is_nowhere(window, plan))
    if size_of(system_of(plan)) is not None:
        able = tuple(window for window in able if beyond_in(window, plan, brokers) is None)
    if not is_foreign(plan) or too_many_wounds(plan, able) is None:
        return able
    return tuple(window for window in able if not isinstance(window.fault, PowerLoss))
