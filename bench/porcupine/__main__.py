"""Compares the judges of linearizability with Porcupine, and counts the histories on which they disagree.

`make porcupine` draws 100,000 histories of each kind of object (`bench.porcupine.histories`), judges each by
`checkers.linearizability` and by Porcupine (`bench.porcupine.judging`), which share no code and no language, and replaces the
table of docs/evidence.md. A history on which they disagree is saved as a file that `highwater check` reads. Without Go nothing is
compared, and the command says so.
"""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from bench.porcupine.comparison import HEAD, STEPS_MAX, compare, row_of, save
from bench.porcupine.histories import KINDS, options_of
from bench.porcupine.judging import SECONDS_MAX, build, go, version

NO_GO = "skipped: no Go here, so Porcupine cannot be built; install Go 1.21 or later (https://go.dev/dl)"
_BEGIN, _END = "<!-- porcupine -->", "<!-- end of porcupine -->"


def main(
    histories: Annotated[int, typer.Option(min=1, help="How many histories of each kind of object.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the random histories.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Kinds of objects; all if not given.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many kinds at a time.")] = 1,
    write: Annotated[Path | None, typer.Option(help="Page whose table is replaced.")] = None,
    save_to: Annotated[Path, typer.Option(help="Folder for histories on which the two disagree.")] = Path("store/porcupine"),
) -> None:
    """Print a table; exit with 1 if the two disagree on a history."""
    names = [kind.name for kind in KINDS]
    unknown_names = [name for name in only or () if name not in names]
    if unknown_names:
        raise typer.BadParameter(f"{unknown_names[0]} is none of {', '.join(names)}", param_hint="--only")
    command = go()
    if command is None:
        sys.stdout.write(f"{NO_GO}\n")
        return
    kinds = [kind for kind in KINDS if not only or kind.name in only]
    with TemporaryDirectory() as folder:
        try:
            program = build(command, Path(folder))
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"porcupine: `go build` failed: {error.stderr.strip()}\n")
            raise typer.Exit(2) from None
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            tallies = []
            sys.stdout.write(HEAD)
            for tally in pool.map(partial(compare, program=program, count=histories, seed=seed), kinds):
                tallies.append(tally)
                sys.stdout.write(row_of(tally))
                sys.stdout.flush()
    for kind, tally in zip(kinds, tallies, strict=True):
        for number, calls in enumerate(tally.disagreements):
            path = save_to / f"{kind.name}-{seed}-{number}.jsonl"
            save(calls, path)
            sys.stdout.write(f"they disagree: highwater check {path} {options_of(kind)}\n")
    if write is not None:
        _replace(write, HEAD + "".join(map(row_of, tallies)), seed)
    raise typer.Exit(1 if any(tally.disagreements for tally in tallies) else 0)


def _replace(page: Path, table: str, seed: int) -> None:
    measured = (
        f"Porcupine {version()}, seed {seed}, {datetime.now(UTC):%Y-%m-%d}; "
        f"a history is undecided after {SECONDS_MAX} s there and {STEPS_MAX:,} steps here."
    )
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    page.write_text(f"{before}{_BEGIN}\n\n{table}\n{measured}\n\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
