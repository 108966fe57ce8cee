"""The third result of the gate: which plans behave otherwise than the snapshot says, beside the verdicts of the judges."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.behaviour import snapshot
from highwater.behaviour.difference import Behaviour, Difference, differences, groups, summary
from highwater.behaviour.snapshot import Recorded, recorded
from highwater.campaigns.chaos import Check, Part, Phase
from highwater.campaigns.first_calls import call_in_plan
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs.revisions import Revision

BEHAVING: tuple[Phase, ...] = ("corpus", "plans")  # phases whose behaviour is kept
BEHAVIOUR = "behaviour"  # name of the part
CHANGED = "changed"


def compared(before: Mapping[str, Recorded], now: Mapping[str, Behaviour], *, all_plans: bool) -> dict[str, Difference]:
    """The plans of the gate that behave otherwise than recorded. With `all_plans` all were performed."""
    return differences(before, now, all_plans=all_plans)


def part_of(difference_by_plan: Mapping[str, Difference], now: Mapping[str, Behaviour]) -> Part:
    """The result as a part of the gate: one check for each way in which plans differ; it has no runs of its own."""
    checks = []
    for group in groups(difference_by_plan):
        first = now.get(group.plans[0])
        checks.append(
            Check(
                name=f"{CHANGED} {group.words}",
                met=False,
                code=ExitCode.INVALID,
                complaint=f"{CHANGED}: {group.words}, in {len(group.plans)} of {len(now)} plans, first {group.plans[0]}",
                plan="" if first is None else first.file,
                repeat="" if first is None else first.repeat,
            )
        )
    code = ExitCode.INVALID if checks else ExitCode.VALID
    return Part(name=BEHAVIOUR, checks=tuple(checks) or (Check(name="as the snapshot says"),), code=code)


def next_steps(found: Mapping[str, Difference], now: Mapping[str, Behaviour], earlier: Revision | None) -> list[str]:
    """How to look into the first difference, in lines: the run of its plan, and the first call that answers otherwise there."""
    firsts = (now.get(group.plans[0]) for group in groups(found) if group.first.sort != "plan")
    first = next(filter(None, firsts), None)
    if first is None:
        return []
    lines = [f"again   {first.repeat}"]
    if earlier is None or first.plan is None:
        return lines
    try:
        lines.append(f"call    {call_in_plan(first.plan, earlier)}")
    except UsageError as error:
        lines.append(f"call    not known: {error}")
    return [*lines, f"beside  highwater report RUN --beside {earlier.name}  shows where the stored run parts from it"]


def accept(path: Path, now: Mapping[str, Behaviour]) -> Sequence[str]:
    """Write the snapshot of these plans; returns the summary of what differs from the one before, which is written into it."""
    try:
        before = snapshot.load(path)
    except UsageError:  # missing or damaged: this writes it anew
        before = {}
    lines = (
        summary(compared(before, now, all_plans=True), len(now))
        if before
        else [f"{len(now)} plans; there was no snapshot before"]
    )
    snapshot.save(path, {name: recorded(behaviour.plan_digest, behaviour.rows) for name, behaviour in now.items()}, lines)
    return lines
