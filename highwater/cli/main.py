"""The command line `highwater`: registers the commands, runs one, and prints its errors.

A command returns its exit code or raises an error of `errors.py`, `history.errors` or `pipeline.errors`. Bad input is one line on
stderr and exit 2; nothing is written before all input has been read. `python -O` is refused because it switches off the
assertions of the system under test, and failed assertions are part of the verdict.
"""

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer

from highwater import __version__
from highwater.cli.commands import COMMANDS, GROUPS, Command, renamed_search_hint
from highwater.cli.declaration import CommandWithSections
from highwater.cli.extras import missing_extra
from highwater.cli.imports import failed_import
from highwater.cli.output import complain, say, say_json
from highwater.errors import HighwaterError
from highwater.exit_codes import ExitCode, for_bisect
from history.errors import HistoryError, Mistakes
from pipeline.errors import PipelineError

_COMPLETING = "_HIGHWATER_COMPLETE"  # set by the completion of a shell
_AS_JSON = "--json"
_TYPER_INTERRUPTED = 130  # Typer returns it on KeyboardInterrupt; no command returns it


def build(command_named: str | None) -> typer.Typer:
    """Make the Typer application of `highwater`; of the command that is asked for it knows the options, of others the name."""
    app = typer.Typer(
        name="highwater",
        help="Test an ISR-replicated log (Kafka's replication protocol) under faults, and judge the recorded history.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for command in COMMANDS:
        _add(app, command, whole=command.name == command_named)
    for group in GROUPS:
        below = typer.Typer(rich_markup_mode=None)
        for command in group.members:
            _add(below, command, whole=group.name == command_named)
        app.add_typer(below, name=group.name, help=group.line)
    return app


def _add(app: typer.Typer, command: Command, *, whole: bool) -> None:
    app.command(command.name, cls=CommandWithSections, short_help=command.line)(command.load() if whole else _not_loaded)


def _not_loaded() -> int:
    raise AssertionError("this command was not asked for")


def _command_named(arguments: Sequence[str]) -> str | None:
    """The name of the command in these arguments; while a shell completes a line, in that line."""
    completed = os.environ.get("COMP_WORDS", "").split()[1:] if _COMPLETING in os.environ else []
    return next(iter([*completed, *arguments]), None)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        say(f"highwater {__version__}")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `highwater` itself."""


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors are printed as one line, without a traceback.

    With --json an error is an object on stdout as well, {"error": …, "exit": …}.
    """
    code = _exit_code(arguments)
    return for_bisect(ExitCode(code)) if "--bisect" in arguments else code


def _exit_code(arguments: Sequence[str]) -> int:
    """Run the command; each error becomes a line on stderr and its exit code."""
    if sys.flags.optimize:
        return _say_failure(
            arguments,
            ExitCode.USAGE,
            "python -O is not allowed: it switches off assertions, which are part of the verdict",
        )
    if now := renamed_search_hint(list(arguments)):
        return _say_failure(arguments, ExitCode.USAGE, now)
    try:
        words = list(arguments) or ([] if _COMPLETING in os.environ else ["--help"])
        result = build(_command_named(arguments))(args=words, prog_name="highwater", standalone_mode=False)
    except typer.TyperException as error:
        sentence = f"{error.format_message()}{_refused_value(error, arguments)} ({_command_of(error)} --help)"
        return _say_failure(arguments, ExitCode.USAGE, sentence)
    except (typer.Abort, KeyboardInterrupt):
        return interrupted()
    except Mistakes as error:
        return _say_failure(arguments, ExitCode.USAGE, *error.lines)
    except (HistoryError, PipelineError) as error:  # PipelineError: Spark without Java is a usage error
        return _say_failure(arguments, ExitCode.USAGE, str(error))
    except HighwaterError as error:
        return _say_failure(arguments, error.exit_code, str(error))
    except ModuleNotFoundError as error:
        found = missing_extra(error, " ".join(["highwater", *arguments[:1]])) or failed_import(error)
        if found is None:
            raise
        return _say_failure(arguments, ExitCode.USAGE, found)
    except OSError as error:
        return _say_failure(
            arguments, ExitCode.LABORATORY_FAILED, f"{error.filename or 'system error'}: {error.strerror or error}"
        )
    except Exception as error:
        found = failed_import(error)  # a definition that does not work raises anything
        if found is None:
            raise
        return _say_failure(arguments, ExitCode.USAGE, found)
    return interrupted() if result == _TYPER_INTERRUPTED else int(result or 0)


def _say_failure(arguments: Sequence[str], code: ExitCode, *lines: str) -> ExitCode:
    """Print an error: its lines on stderr, and with --json an object on stdout."""
    for line in lines:
        complain(line)
    if _AS_JSON in arguments:
        say_json({"error": "; ".join(lines), "exit": code})
    return code


def _refused_value(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """The value of the option that an error is about; Typer's sentences about numbers lack it."""
    names = getattr(getattr(error, "param", None), "opts", ())
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--") else [word])]
    value = next((value for name, value in pairwise(words) if name in names), None)
    return "" if value is None or repr(value) in error.format_message() else f"; given: {value}"


def _command_of(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return "highwater" if context is None else str(context.command_path)


def interrupted() -> ExitCode:
    """Print one line for a Ctrl-C that the command itself did not handle; returns the exit code."""
    complain("interrupted")
    return ExitCode.UNKNOWN
