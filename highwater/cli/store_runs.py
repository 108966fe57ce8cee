"""`highwater store prune|pack`: remove old runs of a store; put one run into a zip file."""

from pathlib import Path
from typing import Annotated

import typer

from highwater.cli import options
from highwater.cli.output import first_of, say, say_json
from highwater.exit_codes import ExitCode
from highwater.runs.housekeeping import old_runs, remove, write_zip

_MB = 1_000_000


def prune(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder with stored runs.")] = Path("store"),
    *,
    keep: Annotated[int, typer.Option(min=0, help="Number of runs to keep, the newest ones.")],
    failures: Annotated[bool, typer.Option("--failures", help="Remove failed runs, too; without it they all stay.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove; without it only say what would be removed.")] = False,
    json: options.AsJson = False,
) -> int:
    """Remove the oldest runs of a store; failed ones and unfinished ones stay."""
    runs = old_runs(store, keep=keep, failures=failures)
    for run in runs if yes else ():
        remove(run.folder)
    freed = sum(run.bytes for run in runs)
    if json:
        say_json({"runs": [str(run.folder) for run in runs], "bytes": freed, "removed": yes})
        return ExitCode.VALID
    for line in first_of([f"{run.folder}  {run.bytes / _MB:.1f} MB" for run in runs]):
        say(line)
    done = "removed" if yes else "would be removed; --yes removes them"
    say(f"{len(runs)} runs, {freed / _MB:.1f} MB {done}" if runs else "nothing to remove")
    return ExitCode.VALID


def pack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a stored run.")],
    output: Annotated[Path, typer.Argument(metavar="FILE", help="Zip file to write.")],
    *,
    json: options.AsJson = False,
) -> int:
    """Put a stored run into a zip file: plan, history, verdict and pages, to send or to attach."""
    files = write_zip(run, options.writable_file(output))
    size = output.stat().st_size
    if json:
        say_json({"run": str(run), "file": str(output), "files": files, "bytes": size})
    else:
        say(f"{output}: {files} files, {size / _MB:.1f} MB; unpacked, the folder is a run for every command")
    return ExitCode.VALID
