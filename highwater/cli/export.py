"""`highwater export`: write any readable history as EDN for Jepsen's checkers: Elle, Knossos, its Kafka checker."""

from pathlib import Path
from typing import Annotated

import typer

from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.foreign.files import exported
from history import store


def export(
    file: Annotated[Path, typer.Argument(help="A run (folder, .parquet, .jsonl), Jepsen EDN or JSON, a Porcupine log.")],
    out: Annotated[Path, typer.Argument(help="File to write; an existing one is replaced.")],
    *,
    json: options.AsJson = False,
) -> int:
    """Write a history as EDN, for Elle, Knossos and Jepsen's Kafka checker."""
    try:
        count = store.write_lines(out, exported(file))
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    if json:
        say_json({"file": str(out), "lines": count})
    else:
        say(f"{out}: {count} lines")
    return ExitCode.VALID
