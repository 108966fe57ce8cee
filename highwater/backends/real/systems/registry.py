"""The systems that can be put on the stage, by the name that plans and `--system` give."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from highwater.backends.real.systems.external.system import NAME as EXTERNAL
from highwater.backends.real.systems.external.system import External
from highwater.backends.real.systems.kafka.system import NAME as KAFKA
from highwater.backends.real.systems.kafka.system import Kafka
from highwater.backends.real.systems.limits import too_many_wounds
from highwater.backends.real.systems.port import System
from highwater.backends.real.systems.reference import Reference
from highwater.errors import UsageError
from highwater.plans.plan import REFERENCE, Plan, is_foreign, system_of
from history.errors import unknown
from nemesis.faults import PowerLoss
from nemesis.schedule import Window

# Written out, so that the list can be read.
SYSTEMS: dict[str, Callable[[Plan], System]] = {REFERENCE: Reference, KAFKA: Kafka, EXTERNAL: External}


def system_for(plan: Plan) -> System:
    """The system that a plan names, made for this plan. UsageError for an unknown name or version."""
    name = system_of(plan).name
    if name not in SYSTEMS:
        raise UsageError(unknown("system", name, SYSTEMS))
    return SYSTEMS[name](plan)


def fitted(plan: Plan) -> Plan:
    """A plan that was derived for the reference, without what another system cannot do: audits, scripts, legacy brokers."""
    if not is_foreign(plan):
        return plan
    cluster = replace(plan.cluster, legacy_brokers=())
    idempotent = plan.workload.idempotent if system_for(plan).idempotence else 0
    workload = replace(plan.workload, idempotent=idempotent)
    return replace(plan, cluster=cluster, workload=workload, audit_ms=0, script=())


def bearable(plan: Plan, windows: Sequence[Window]) -> tuple[Window, ...]:
    """Those of the windows whose faults the plan's system can suffer; no power loss, if they hit too many brokers."""
    system = system_for(plan)
    able = tuple(window for window in windows if system.lacks(window.fault) is None)
    if not is_foreign(plan) or too_many_wounds(plan, able) is None:
        return able
    return tuple(window for window in able if not isinstance(window.fault, PowerLoss))
