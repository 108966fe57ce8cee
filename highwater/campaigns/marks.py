"""Marks of causes: which are known, and which a gate is to let pass for a while, with a reason.

A file of the repository that gates read (`FILE`, or `--causes`), a mark for each signature of a cause (docs/triage.md):

    - {signature: "lost-write/acked-loss/election", mark: known, reason: "KAFKA-12345"}
    - {signature: "not-live/progress/no leader", mark: ignored, reason: "slow build machine", until: 2026-12-31}

A known cause is red and is told with its reason. An ignored one is not red up to and with that day, its runs stay what they are
(INVALID, not live), and each output counts them; from the next day on it is red. Everything else is new.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs.summary import Summary
from nemesis.text import Document, TextError

FILE = Path("highwater-causes.yaml")


class Mark(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a team decided about one cause."""

    signature: Annotated[str, Meta(min_length=1)]
    mark: Literal["known", "ignored"]
    reason: Annotated[str, Meta(min_length=1)]
    until: date | None = None  # the last day on which it is ignored


class Marks(Struct, frozen=True, kw_only=True):
    """The marks by signature, as they hold today."""

    by_signature: Mapping[str, Mark] = {}
    today: date = date.min

    def ignores(self, signature: str) -> bool:
        """Whether runs of this cause do not make a gate red."""
        mark = self.by_signature.get(signature)
        return mark is not None and mark.until is not None and self.today <= mark.until

    def words(self, signature: str) -> str:
        """What the file says of this cause; empty if it says nothing."""
        mark = self.by_signature.get(signature)
        if mark is None:
            return ""
        over = ", which is over" if mark.until is not None and self.today > mark.until else ""
        return f"{mark.mark}{f' until {mark.until}{over}' if mark.until else ''}: {mark.reason}"

    def code_of(self, summary: Summary) -> ExitCode:
        """The exit code that a run asks for: VALID if its cause is ignored."""
        return ExitCode.VALID if self.ignores(summary.signature) else summary.exit_code

    def lines(self, summaries: Iterable[Summary]) -> list[str]:
        """A line for each ignored cause of these runs, with its number of runs."""
        runs_by_signature: dict[str, int] = {}
        for summary in summaries:
            if self.ignores(summary.signature):
                runs_by_signature[summary.signature] = runs_by_signature.get(summary.signature, 0) + 1
        return [f"{runs} x {signature}, {self.words(signature)}" for signature, runs in runs_by_signature.items()]


NONE = Marks()
ONLY_IGNORED = "only ignored causes"  # said where VALID would stand: nothing is red, and not every run kept the promise


def load(path: Path | None, *, today: date) -> Marks:
    """The marks of a file; of `FILE` if none is named, and none if that does not exist.

    UsageError with file and line if it cannot be read, marks a cause twice, or ignores one without an end.
    """
    if path is None and not FILE.exists():
        return NONE
    path = path or FILE
    try:
        document = Document(path.read_text(encoding="utf-8"), str(path))
        marks = document.convert(tuple[Mark, ...], document.value)
        by_signature: dict[str, Mark] = {}
        for number, mark in enumerate(marks):
            if mark.signature in by_signature:
                raise document.error((number,), f"{mark.signature} is marked twice")
            if (mark.until is None) == (mark.mark == "ignored"):
                raise document.error((number,), "an ignored cause needs the last day, as until: 2026-12-31; a known one has none")
            by_signature[mark.signature] = mark
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: it is not UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except TextError as error:
        raise UsageError(str(error)) from error
    return Marks(by_signature=by_signature, today=today)
