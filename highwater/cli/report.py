"""`highwater report`: the page of a stored run, drawn anew."""

from pathlib import Path
from typing import Annotated

import typer

from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.cli.run import headline
from highwater.run import judge, write_page
from highwater.summary import VALIDITY_NAMES
from history import store


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a stored run.")],
    *,
    output: Annotated[Path | None, typer.Option(help="Where the page goes; into the run's folder if not given.")] = None,
    json: options.AsJson = False,
) -> int:
    """Judge a stored run with today's checkers and draw its page."""
    history = store.load_run(run)
    verdict = judge(history)
    page = output or run / store.REPORT
    write_page(page, history, verdict, plan=(run / store.PLAN).read_text(), repeat=f"highwater replay {run}")
    if json:
        say_json({"run": str(run), "report": str(page), "verdict": VALIDITY_NAMES[verdict.validity]})
    else:
        say(headline(history.manifest))
        say(f"{VALIDITY_NAMES[verdict.validity]}: {page}")
    return 0
