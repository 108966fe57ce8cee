"""Store the run of a shrunk plan with its neighbours that pass, and a page of it beside each (docs/run-page.md)."""

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.runs.beside import Stored, put_beside, rewrite_page
from highwater.runs.provenance import present_build
from highwater.runs.run import Keep, backend_named, carry_out
from highwater.shrink.folder import NEAREST, Shrunk
from history.store import REPORT


class Recorded(Struct, frozen=True, kw_only=True):
    """The page of the shrunk run, and its pages beside its neighbours, the nearest first: words and file."""

    page: Path
    beside: tuple[tuple[str, Path], ...] = ()


def record(shrunk: Shrunk, store: Path) -> Recorded:
    """Perform a shrunk plan and its neighbours in the simulator, and store them with their pages.

    The neighbours are the nearest plan that passes, and the plan on the protocol that it was compared with.
    """
    file = Path(shrunk.plan)
    plan = load_plan(file)
    run = _stored(plan, f"highwater run --plan {file}", store)
    near = file.with_name(NEAREST)
    others = [(shrunk.nearest, load_plan(near), f"highwater run --plan {near}")] if shrunk.nearest else []
    if shrunk.against:
        plan_against = replace(plan, protocol=shrunk.against, variant=None)
        others.append((shrunk.against, plan_against, f"highwater run --plan {file} --protocol {shrunk.against}"))
    pages = []
    for words, plan_beside, repeat in others:
        beside = _stored(plan_beside, repeat, store)
        again = f"highwater report . --beside {os.path.relpath(beside.folder, run.folder)}"
        page = put_beside(run, beside, repeat=again, words=words).page
        pages.append((words, page))
    if pages:
        rewrite_page(run, repeat=f"highwater run --plan {file}")
    return Recorded(page=run.folder / REPORT, beside=tuple(pages))


def _stored(plan: Plan, repeat: str, store: Path) -> Stored:
    judged = carry_out(plan, backend_named("sim"), build=present_build(), repeat=repeat, keep=Keep(store=store))
    assert judged.summary.store is not None
    return Stored(folder=store / judged.summary.store, history=judged.history, verdict=judged.verdict, plan=plan)
