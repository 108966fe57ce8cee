"""Output of the commands: lines of text, one JSON object with --json, one line on stderr for errors.

Only this module and the commands write to the terminal. Lines are not wrapped, so that grep works; rich draws only the progress
bar.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_LINES_SHOWN = 10
_FOLLOW_S = 0.3
_SILENT_S = 1.0  # before work that says nothing by itself shows a line


def say(line: str = "") -> None:
    """Print one line of text on stdout."""
    sys.stdout.write(_printable(line) + "\n")
    sys.stdout.flush()


def say_json(value: object) -> None:
    """Print one JSON document on one line of stdout."""
    sys.stdout.buffer.write(encoded(value) + b"\n")
    sys.stdout.flush()


def encoded(value: object) -> bytes:
    """The JSON document that --json prints of a value."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def complain(line: str) -> None:
    """Print one line on stderr, prefixed with `highwater: `; line breaks become spaces."""
    sys.stderr.write("highwater: " + " ".join(_printable(line).split()) + "\n")


def _printable(line: str) -> str:
    """Escape lone surrogates, which file names and keys of histories may contain and UTF-8 cannot encode."""
    return line.encode(errors="backslashreplace").decode()


def first_of(lines: Sequence[str]) -> list[str]:
    """Shorten a list for the terminal: its first 10 lines, then the number of omitted lines."""
    lines_shown = list(lines[:_LINES_SHOWN])
    return [*lines_shown, f"and {len(lines) - _LINES_SHOWN} more"] if len(lines) > _LINES_SHOWN else lines_shown


class Ticker:
    """The progress bar of a long command."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total) if progress else None

    def tick(self, words: str = "", count: int = 1) -> None:
        """Advance the progress bar; `words` is shown beside it."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=count, description=words)


@contextmanager
def progress(total: int, *, quiet: bool = False) -> Iterator[Ticker]:
    """Show a progress bar on stderr if it is a terminal and not `quiet`; else show nothing."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Ticker(None, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield Ticker(bar, total)


@contextmanager
def status(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show one line that changes, on stderr if it is a terminal and not `quiet`. What is yielded sets the line."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda words: None
        return
    with console.status("begins") as line_shown:
        yield line_shown.update


@contextmanager
def show_while_working(words: Callable[[], str], *, quiet: bool = False) -> Iterator[None]:
    """As `status`, for work that says nothing by itself: after a second another thread shows `words()`, again and again."""
    ended = Event()

    def follow() -> None:
        if ended.wait(_SILENT_S):
            return
        with status(quiet=quiet) as tell:
            while not ended.wait(_FOLLOW_S):
                tell(words())

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
