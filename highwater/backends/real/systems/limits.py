"""What no system but the reference can do yet: the parts of plans that need requests through the reference's znodes."""

from collections.abc import Callable

from highwater.backends.real.systems.metadata import INTERNAL
from highwater.plans.plan import Plan
from nemesis.faults import AnyFault

WORKLOAD = "produce-consume"


def refusal(plan: Plan, system: str, lacks: Callable[[AnyFault], str | None]) -> str | None:
    """Why this system cannot perform the plan, in a sentence; None if it can. `lacks` says why it cannot suffer a fault."""
    if plan.workload.name != WORKLOAD:
        return f"{system} performs the workload {WORKLOAD!r} only, not {plan.workload.name!r}"
    if plan.script or plan.audit_ms:
        asks = "a script" if plan.script else "an audit"
        return f"{system} cannot perform {asks}: its administrators' requests go through the reference's znodes"
    if plan.cluster.legacy_brokers:
        return f"{system} has no legacy brokers; the plan has {len(plan.cluster.legacy_brokers)}"
    for topic in plan.cluster.topics:
        if topic.name.startswith(INTERNAL):
            return f"topic {topic.name}: names that begin with {INTERNAL} belong to the system itself"
    for window in plan.schedule:
        why = lacks(window.fault)
        if why is not None:
            return f"window {window.id} ({window.kind}): {system} cannot suffer it: {why}"
    return None
