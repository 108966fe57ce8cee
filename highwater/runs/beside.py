"""Put a stored run beside its neighbour: a page of both, and a link to it on the page of the run.

    RUN/beside-<run id of the neighbour>.html   the page of both runs
    RUN/beside.json                             the pages that the run's own page links to

A neighbour is nearly the same run, and passes: the same plan on another protocol or by another commit, or a plan with one fault
less.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from checkers.engine.verdict import Verdict
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.runs.first_call import kept_first_call
from highwater.runs.page import write_page
from highwater.runs.repeating import repeat_of
from highwater.runs.run import judge
from history import store
from history.errors import NOT_JSON
from history.history import History
from nemesis.schedule import Window
from reports.beside import Given, PlanChange, beside_of
from reports.first_call import FirstCall
from reports.render import Link, render_beside

LINKS = store.BESIDE
_NOT_COMPARED = frozenset({"name", "story", "seed", "derivation", "schedule", "script", "path", "draws"})


class Stored(Struct, frozen=True, kw_only=True):
    """A stored run with its verdict and its plan (None: it cannot be read today)."""

    folder: Path
    history: History
    verdict: Verdict
    plan: Plan | None


class Beside(Struct, frozen=True, kw_only=True):
    """The page of two runs: the verdict of the neighbour and where they part, in words."""

    page: Path
    verdict: str
    parting: str


def stored_run(folder: Path, verdict: Verdict | None = None) -> Stored:
    """Read a stored run, and judge it if no verdict is given."""
    history = store.load_run(folder)
    try:
        plan = load_plan(folder / store.PLAN)
    except UsageError:
        plan = None
    return Stored(folder=folder, history=history, verdict=verdict or judge(history), plan=plan)


def put_beside(
    run: Stored,
    beside: Stored,
    *,
    repeat: str,
    words: str = "",
    name: str = "",
    output: Path | None = None,
    first_call: FirstCall | None = None,
) -> Beside:
    """Write the page of both runs into the folder of the first one, and link to it.

    `repeat` compares them again, in the folder of the first one. `words` names the neighbour on that link, `name` in the name of
    the page; its run id if not given.
    """
    page = output or run.folder / f"beside-{name or beside.history.manifest.run_id}.html"
    plans = [PlanChange(what="the plan", left="", right="one of the plans cannot be read")]
    if run.plan is not None and beside.plan is not None:
        plans = list(plan_changes(run.plan, beside.plan))
    sides = _side_given(run, page), _side_given(beside, page)
    view = beside_of(*sides, plans=plans, repeat=repeat, first_call=first_call)
    store.write_file(page, render_beside(view))
    if output is None:
        link_to(run.folder, Link(words=words or beside.history.manifest.run_id, page=page.name))
    return Beside(page=page, verdict=f"{view.right.banner.verdict}, {view.right.banner.live}", parting=view.parting)


def _side_given(run: Stored, page: Path) -> Given:
    own = run.folder / store.REPORT
    link = Path(os.path.relpath(own.absolute(), page.absolute().parent)).as_posix() if own.exists() else ""
    return Given(history=run.history, verdict=run.verdict, repeat=repeat_of(run.folder, run.history.manifest.backend), link=link)


def link_to(folder: Path, link: Link) -> None:
    """Remember a page that the page of a run links to; the page has to be written again after it."""
    links = [*(earlier for earlier in links_of(folder) if earlier.page != link.page), link]
    store.write_file(folder / LINKS, msgspec.json.format(msgspec.json.encode(links), indent=2) + b"\n")


def links_of(folder: Path) -> tuple[Link, ...]:
    """The pages beside others that the page of a run links to."""
    try:
        return tuple(msgspec.json.decode((folder / LINKS).read_bytes(), type=list[Link]))
    except (OSError, *NOT_JSON):
        return ()


# --- plans ----------------------------------------------------------------------------------------------------------------------


def plan_changes(plan: Plan, plan_beside: Plan) -> Iterator[PlanChange]:
    """In what two plans differ: faults and requests one by one, then settings."""
    yield from _changes_in_list("fault", _windows(plan), _windows(plan_beside))
    yield from _changes_in_list("request", _steps_by_number(plan.script), _steps_by_number(plan_beside.script))
    our_settings, their_settings = _settings_by_path(plan), _settings_by_path(plan_beside)
    for name in dict.fromkeys((*our_settings, *their_settings)):
        if our_settings.get(name) != their_settings.get(name):
            yield PlanChange(
                what=name, left=_value_in_words(our_settings.get(name)), right=_value_in_words(their_settings.get(name))
            )
    if plan.path != plan_beside.path:
        yield PlanChange(what="path", left=f"{len(plan.path)} actions", right=f"{len(plan_beside.path)} actions")


def _changes_in_list(what: str, ours: dict[str, str], theirs: dict[str, str]) -> Iterator[PlanChange]:
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name):
            yield PlanChange(what=f"{what} {name}", left=ours.get(name, ""), right=theirs.get(name, ""))


def _windows(plan: Plan) -> dict[str, str]:
    """The windows of a plan in words, by id."""
    return {window.id: _window_in_words(window) for window in plan.schedule}


def _window_in_words(window: Window) -> str:
    target, fault = (_value_in_words(msgspec.to_builtins(part)) for part in (window.target, window.fault))
    return f"{window.kind} from {window.at_ms} to {window.until_ms} ms, on {target}: {fault}"


def _steps_by_number(steps: Sequence[Struct]) -> dict[str, str]:
    return {str(number): _value_in_words(msgspec.to_builtins(step)) for number, step in enumerate(steps, 1)}


def _settings_by_path(plan: Plan) -> dict[str, Any]:
    """The other fields of a plan by their path, for example cluster.brokers."""
    settings: dict[str, Any] = {}
    for name, value in structs.asdict(plan).items():
        if name in _NOT_COMPARED:
            continue
        built = msgspec.to_builtins(value) if not isinstance(value, msgspec.UnsetType) else None
        settings.update(_flat(name, built))
    return {**settings, "draws": plan.draws}


def _flat(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in _flat(f"{name}.{key}", inner)]
    return [(name, value)]


def _value_in_words(value: Any) -> str:
    """A value of a plan in words."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value_in_words(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value_in_words, value)) + "]"
    return "" if value is None else str(value)


def rewrite_page(run: Stored, *, repeat: str) -> None:
    """Write the page of a run again, with its links to pages beside others."""
    text = (run.folder / store.PLAN).read_text(encoding="utf-8", errors="replace")
    links, first_call = links_of(run.folder), kept_first_call(run.folder)
    write_page(run.folder / store.REPORT, run.history, run.verdict, plan=text, repeat=repeat, links=links, first_call=first_call)
