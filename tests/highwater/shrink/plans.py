"""Plans and runs for the tests of the shrinker."""

from msgspec.structs import replace

from highwater.plans.derive import derive
from highwater.plans.plan import Plan
from highwater.runs.summary import Summary
from highwater.shrink.trial import Question, RunFacts, Trial
from nemesis.faults import Crash
from nemesis.schedule import Window
from nemesis.targets import Named

LOST = "lost-write/acked-loss/elected-in-isr"


def window(number: int, *, at_ms: int = 0, until_ms: int = 0) -> Window:
    """A crash of b1 for a tenth of a second, if no other times are given."""
    at_ms = at_ms or 200 * number
    return Window(
        id=f"f{number}", kind="crash", at_ms=at_ms, until_ms=until_ms or at_ms + 100, fault=Crash(), target=Named(brokers=(1,))
    )


def plan_with(windows: int) -> Plan:
    """A valid plan with so many crashes."""
    return replace(
        derive(5, protocol="v3"), schedule=tuple(window(number) for number in range(1, windows + 1)), required_marks=()
    )


def replies(plan: Plan, *, signature: str = LOST, proof_ms: int | None = 900) -> RunFacts:
    """A run of a plan with this failure; empty for none."""
    summary = Summary(
        seed=None,
        protocol=plan.protocol,
        verdict="INVALID" if signature else "VALID",
        live=True,
        plan=plan.name,
        plan_digest="",
        backend="sim",
        outcome="completed",
        repeat="",
    )
    return RunFacts(summary=summary, signature=signature, checker="acked-loss", key="orders-0", proof_ms=proof_ms, operations=9)


def needs_two_windows(question: Question) -> Trial:
    """The failure needs the windows f2 and f5 and nothing else."""
    ids = {this_window.id for this_window in question.plan.schedule}
    fails = {"f2", "f5"} <= ids
    return Trial(fits=fails, cpu_seconds=0.5, seen=replies(question.plan, signature=LOST if fails else ""))
