"""`highwater report`: judge a stored run again and render its HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.cli.run import headline
from highwater.errors import UsageError
from highwater.runs.run import judge, write_page
from highwater.runs.summary import VALIDITY_NAMES
from history import store
from reports.trace import trace_json


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a stored run.")],
    *,
    output: Annotated[Path | None, typer.Option(help="File for the page; in the run's folder if not given.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the run in Perfetto's trace format to this file.")
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Judge a stored run with the current checkers and render its page."""
    history = store.load_run(run)
    plan = _text_of(run / store.PLAN)
    page = options.file_of(output or run / store.REPORT)
    verdict = judge(history)
    write_page(page, history, verdict, plan=plan, repeat=f"highwater replay {run}")
    if trace is not None:
        store.write_file(options.file_of(trace), trace_json(history, verdict))
    if json:
        say_json({"run": str(run), "report": str(page), "verdict": VALIDITY_NAMES[verdict.validity]})
    else:
        say(headline(history.manifest))
        say(f"{VALIDITY_NAMES[verdict.validity]}: {page}")
    return 0


def _text_of(plan: Path) -> str:
    """The plan's text, not parsed: a stored plan may be invalid today."""
    try:
        return plan.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {plan}: {reason}") from error
