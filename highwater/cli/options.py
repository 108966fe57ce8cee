"""Options that several commands share, and how their texts are read."""

import os
import re
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer

from highwater.errors import UsageError
from highwater.plans.plan import DRAWS_END
from highwater.runs.run import BackendName
from nemesis.profiles import ProfileName

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout and nothing else.")]
Protocol = Annotated[str, typer.Option(help="A name of `highwater protocols`.")]
Faults = Annotated[
    str, typer.Option(help="Kinds, families or mixes of `highwater faults`, with commas; all harmless ones if empty.")
]
ProfileOption = Annotated[ProfileName, typer.Option(help="How far faults may go against the promise.")]
Seconds = Annotated[
    int | None, typer.Option(min=1, max=86_400, help="Simulated seconds of faults; drawn from the seed if not given.")
]
Workload = Annotated[str, typer.Option(help="What clients do; `mixed` is drawn from the seed, in the simulator.")]
BackendOption = Annotated[BackendName, typer.Option(help="Where the plan is performed.")]
Store = Annotated[Path, typer.Option(help="The folder under which runs are kept.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Worker processes; all cores if not given.")]


def seed_of(text: str) -> int:
    """A seed as people write it: decimal, 0x…, or the 16 hex digits that every output starts with."""
    try:
        seed = int(text, 16) if re.fullmatch(r"[0-9a-fA-F]{16}|0x[0-9a-fA-F]+", text) else int(text)
    except ValueError:
        raise UsageError(f"seed {text!r} is no number; a seed is 0 to 2^64-1, or 16 hex digits") from None
    if not 0 <= seed < DRAWS_END:
        raise UsageError(f"seed {text} is out of range; a seed is 0 to 2^64-1")
    return seed


def seeds_of(text: str) -> range:
    """`0..499` (both ends), or one seed."""
    first, dots, last = text.partition("..")
    low = seed_of(first)
    high = seed_of(last) if dots else low
    if high < low:
        raise UsageError(f"seeds {text}: the last comes before the first")
    return range(low, high + 1)


def names_of(text: str) -> tuple[str, ...]:
    """`a,b` as names; empty parts are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def folder_of(store: Path) -> Path:
    """A place for files: a folder that can be written to, or one that can be made."""
    nearest = next(path for path in (store, *store.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise UsageError(f"{store}: {'' if nearest == store else f'{nearest} is '}not a folder")
    try:
        # Tried, since permissions do not tell it all (root, read-only file systems); the file has no name.
        TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise UsageError(f"{store}: cannot be written to: {error.strerror}") from error
    return store


def file_of(path: Path) -> Path:
    """A place for one file, whether it is there yet or not."""
    if path.is_dir():
        raise UsageError(f"{path}: a folder; the name of a file is wanted")
    folder_of(path.parent)
    return path
