"""The errors of reading a stored history.

    HistoryError     the file or folder is missing, truncated, of another schema, or no highwater history
    └── Mistakes     a recorded history (history.foreign.recorded) with mistakes; the command line prints each on a line

The message is one line that names the file, and the line or column where there is one. The readers of this package raise nothing
else for bad input. A wrong call by our own code fails an assertion.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

_LISTED = 16  # names that are known, in an error

# What decoding JSON raises where the bytes are none, or nested deeper than Python calls.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class HistoryError(Exception):
    """A history that cannot be read. The message is one line for the user."""


class Mistakes(HistoryError):  # noqa: N818 - several errors
    """A recorded history with mistakes: one line for each, of which at most `shown` are printed."""

    def __init__(self, path: Path, mistakes: Sequence[str], *, shown: int) -> None:
        more = [f"and {len(mistakes) - shown} more mistakes"] if len(mistakes) > shown else []
        self.lines = tuple(f"{path}: {mistake}" for mistake in (*mistakes[:shown], *more))
        super().__init__("; ".join(self.lines))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The error message for a name that does not exist, with the name that was probably meant."""
    names = tuple(known)
    return f"unknown {what} {name!r}; {question_of_meant(name, names) or f'known: {_listed(names)}'}"


def question_of_meant(name: str, known: Iterable[str]) -> str:
    """Ask whether a known name was meant that is nearly this one; empty if none is."""
    close = get_close_matches(name, tuple(known), n=1, cutoff=0.75)
    return f"did you mean {close[0]!r}?" if close else ""


def _listed(names: Sequence[str]) -> str:
    """Names in a line, the first ones where there are many."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
