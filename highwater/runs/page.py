"""The HTML report of one run, with what it says of the plan's hazard."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import UNSET

from checkers.engine.verdict import Validity, Verdict
from highwater.coverage.sources import SOURCES
from highwater.errors import UsageError
from highwater.exit_codes import WORDS as EXIT_WORDS
from highwater.exit_codes import of_verdict
from highwater.inspect.rows import inside
from highwater.plans.text import plan_from_yaml
from highwater.rig.backend import REPEATABLE
from highwater.runs.hazards import WORDS as HAZARDS
from highwater.runs.hazards import hazard_of
from highwater.runs.repeating import WITH_PLAN, holds_elsewhere
from history import store
from history.history import History
from reports.first_call import FirstCall
from reports.render import Link, render_run
from reports.run_page import Hazard, page_of


def write_page(
    path: Path,
    history: History,
    verdict: Verdict,
    *,
    plan: str,
    repeat: str,
    links: Sequence[Link] = (),
    window: tuple[int, int] | None = None,
    first_call: FirstCall | None = None,
) -> None:
    """Write the HTML report of a run; `plan` is its plan as YAML text or empty, `links` are pages of the run beside others.

    `repeat` is shown if it holds elsewhere, else how to repeat the run with the plan on the page. `window` is the time in ns that
    the pictures show, `first_call` the one that answers otherwise than in another tree. A run
    with a cause is performed again up to the rows that the cause tells of, for the states around them.
    """
    hazard = _hazard_on_page(plan, history, verdict)
    from_plan = bool(plan) and history.manifest.backend in REPEATABLE and not holds_elsewhere(repeat)
    repeat = WITH_PLAN if from_plan else repeat
    page = page_of(history, verdict, plan=plan, repeat=repeat, hazard=hazard, window=window)
    page = replace(page, first_call=first_call, from_plan=from_plan)
    if page.cause_lines:
        page = replace(page, inside=inside(plan, history, [line.index for line in page.cause_lines]))
    store.write_file(path, render_run(page, sources=SOURCES, links=links))


def _hazard_on_page(text: str, history: History, verdict: Verdict) -> Hazard | None:
    """What the page says of the plan's hazard; None for a plan without one, or one that is not readable any more."""
    try:
        plan = plan_from_yaml(text)
    except UsageError:
        return None
    hazard = hazard_of(plan, history, accused=bool(verdict.anomalies))
    if plan.hazard is UNSET or hazard is UNSET:
        return None
    vacuous = verdict.validity is Validity.VALID and hazard == "not shown"
    failed = history.manifest.outcome == "harness-fault"
    code = of_verdict(Validity.UNKNOWN if vacuous else verdict.validity, live=verdict.live, laboratory_failed=failed)
    return Hazard(name=plan.hazard, words=HAZARDS[plan.hazard], met=hazard, exit_code=f"{code.value}: {EXIT_WORDS[code]}")
