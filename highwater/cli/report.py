"""`highwater report`: judge a stored run again and render its HTML page."""

import re
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from checkers.engine.verdict import Verdict
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.cli.run import headline
from highwater.errors import UsageError
from highwater.plans.plan import checked
from highwater.rig.backend import REPEATABLE
from highwater.runs.beside import links_of, put_beside, stored_run
from highwater.runs.findings import VALIDITY_NAMES
from highwater.runs.page import write_page
from highwater.runs.provenance import present_build
from highwater.runs.run import Keep, backend_named, carry_out, judge
from history import store
from history.history import History
from reference.config import VARIANTS
from reports.svg import NS_PER_S
from reports.trace import trace_json


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a stored run.")],
    *,
    output: Annotated[Path | None, typer.Option(help="File for the page; in the run's folder if not given.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the run in Perfetto's trace format to this file.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="Seconds of the run that pictures and event log show; of a long run its cause."),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER",
            help="Also write a page of the run beside another one: the folder of a stored run, or a protocol on which "
            "the plan of this run is performed and stored.",
        ),
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Judge a stored run with the current checkers and render its page."""
    history = store.load_run(run)
    plan = _text_of(run / store.PLAN)
    page = options.file_of(output or run / store.REPORT)
    span_shown = None if window is None else _window(window)
    verdict = judge(history)
    compared = None if beside is None else _beside(run, history, verdict, beside)
    repeat = f"highwater replay {run}"
    write_page(page, history, verdict, plan=plan, repeat=repeat, links=links_of(run) if output is None else (), window=span_shown)
    if trace is not None:
        store.write_file(options.file_of(trace), trace_json(history, verdict))
    if json:
        arguments = {} if compared is None else {"beside": str(compared)}
        say_json({"run": str(run), "report": str(page), "verdict": VALIDITY_NAMES[verdict.validity], **arguments})
    else:
        say(headline(history.manifest))
        say(f"{VALIDITY_NAMES[verdict.validity]}: {page}")
        if compared is not None:
            say(f"beside  {compared}")
    return 0


def _window(text: str) -> tuple[int, int]:
    """A window in seconds, "190..250.5", in ns."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\.\.(\d{1,9}(?:\.\d+)?)", text)
    if match is None or float(match[1]) >= float(match[2]):
        raise UsageError(f"--window {text}: give the first and the last second, for example 190..250")
    return int(float(match[1]) * NS_PER_S), int(float(match[2]) * NS_PER_S)


def _beside(run: Path, history: History, verdict: Verdict, other: str) -> Path:
    """Write the page of a run beside another one; returns it."""
    mine = stored_run(run, verdict)
    repeat = f"highwater report {run} --beside {other}"
    if Path(other).is_dir():
        return put_beside(mine, stored_run(Path(other)), repeat=repeat)
    if other not in VARIANTS:
        raise UsageError(
            f"--beside {other}: neither the folder of a stored run nor a protocol; `highwater protocols` lists these"
        )
    if history.manifest.backend not in REPEATABLE or mine.plan is None:
        raise UsageError(f"--beside {other} performs the plan in the simulator; {run} is of backend {history.manifest.backend}")
    changed = checked(replace(mine.plan, protocol=other, variant=None))
    folder = options.folder_of(run.resolve().parent.parent)
    keep = Keep(store=folder)
    again = f"highwater run --plan {run / store.PLAN} --protocol {other}"
    summary = carry_out(changed, backend_named("sim"), build=present_build(), repeat=again, keep=keep).summary
    assert summary.store is not None
    return put_beside(mine, stored_run(folder / summary.store), repeat=repeat, words=other)


def _text_of(plan: Path) -> str:
    """The plan's text, not parsed: a stored plan may be invalid today."""
    try:
        return plan.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {plan}: {reason}") from error
