"""The command line: one file for each verb, one printer for errors.

A command returns its exit code or raises one of the trees of `errors.py`. Bad input is one line on stderr and exit 2, and
nothing is written before all input has been read. `python -O` is refused: it would switch the assertions of the system under
test off, and those are among the things that are judged.
"""

import sys
from collections.abc import Callable, Sequence

import typer

from highwater.cli.campaign import campaign
from highwater.cli.catalogue import faults, protocol, protocols
from highwater.cli.chaos import chaos
from highwater.cli.check import check
from highwater.cli.clean import clean
from highwater.cli.describe import describe
from highwater.cli.explore import explore
from highwater.cli.export import export
from highwater.cli.judge import judge
from highwater.cli.output import complain
from highwater.cli.reassign import reassign
from highwater.cli.replay import replay
from highwater.cli.report import report
from highwater.cli.run import run
from highwater.errors import HighwaterError
from highwater.exit_codes import ExitCode
from history.errors import HistoryError
from pipeline.errors import PipelineError

_TYPER_INTERRUPTED = 130  # what Typer makes of a KeyboardInterrupt; no command of ours returns it

# In the order of a user's day.
COMMANDS: tuple[Callable[..., int], ...] = (
    run,
    replay,
    campaign,
    chaos,
    explore,
    describe,
    check,
    export,
    judge,
    report,
    protocols,
    protocol,
    faults,
    clean,
)
# Below `highwater admin`.
ADMIN_COMMANDS: tuple[Callable[..., int], ...] = (reassign,)


def build() -> typer.Typer:
    """The application."""
    app = typer.Typer(
        name="highwater",
        help="Break an ISR-replicated log in a simulator, and judge what it kept.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in COMMANDS:
        app.command()(command)
    admin = typer.Typer(rich_markup_mode=None)
    for command in ADMIN_COMMANDS:
        admin.command()(command)
    app.add_typer(admin, name="admin", help="What an administrator asks of a cluster, through ZooKeeper.")
    return app


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command; the exit code. Never a traceback for bad input."""
    if sys.flags.optimize:
        complain("python -O switches assertions off, and they are part of what is judged; run without it")
        return ExitCode.USAGE
    try:
        result = build()(args=list(arguments), prog_name="highwater", standalone_mode=False)
    except typer.TyperException as error:
        complain(f"{error.format_message()} (highwater --help)")
        return ExitCode.USAGE
    except (typer.Abort, KeyboardInterrupt):
        return interrupted()
    except (HistoryError, PipelineError) as error:  # Spark without Java, as real processes without it, cannot be asked for
        complain(str(error))
        return ExitCode.USAGE
    except HighwaterError as error:
        complain(str(error))
        return error.exit_code
    except OSError as error:
        complain(f"{error.filename or 'the system'}: {error.strerror or error}")
        return ExitCode.LABORATORY_FAILED
    return interrupted() if result == _TYPER_INTERRUPTED else int(result or 0)


def interrupted() -> ExitCode:
    """Of a command that had nothing yet to tell when it was interrupted."""
    complain("interrupted")
    return ExitCode.UNKNOWN
