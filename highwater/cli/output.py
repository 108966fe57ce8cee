"""What commands print: lines for people, one JSON object for programs, one line on stderr for errors.

The only place, with the commands themselves, that writes to the terminal. Lines go out unwrapped, so that they can be grepped;
rich is used for progress alone.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from checkers.verdict import Anomaly
from highwater.runs.summary import FoundAnomaly

_LINES_SHOWN = 10


def say(line: str = "") -> None:
    """One line for people on stdout."""
    sys.stdout.write(_printable(line) + "\n")
    sys.stdout.flush()


def say_json(value: object) -> None:
    """One JSON document on one line of stdout, and nothing else."""
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.flush()


def complain(line: str) -> None:
    """One line on stderr."""
    sys.stderr.write("highwater: " + " ".join(_printable(line).split()) + "\n")


def _printable(line: str) -> str:
    """Names of files and keys of histories may hold half characters, which no terminal is given."""
    return line.encode(errors="backslashreplace").decode()


def by_kind(anomalies: Sequence[Anomaly | FoundAnomaly]) -> list[str]:
    """One line for each kind of anomaly: the first of it, and how many more there are."""
    kinds: dict[str, list[Anomaly | FoundAnomaly]] = {}
    for anomaly in anomalies:
        kinds.setdefault(anomaly.kind, []).append(anomaly)
    return [
        f"{f'{kind} {found[0].key}'.rstrip()}: {found[0].words}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
        for kind, found in sorted(kinds.items())
    ]


def first_of(lines: Sequence[str]) -> list[str]:
    """The first lines of a list that may be long, and how many are left out."""
    shown = list(lines[:_LINES_SHOWN])
    return [*shown, f"and {len(lines) - _LINES_SHOWN} more"] if len(lines) > _LINES_SHOWN else shown


class Ticker:
    """Counts finished pieces of long work."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total) if progress else None

    def tick(self, words: str) -> None:
        """One more is done; `words` is shown beside the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=1, description=words)


@contextmanager
def progress(total: int, *, quiet: bool = False) -> Iterator[Ticker]:
    """A bar on stderr where that is a terminal; silence elsewhere, where a moving bar is only noise in a log."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Ticker(None, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield Ticker(bar, total)
