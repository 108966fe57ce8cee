"""Porcupine as a program: builds it with Go, and hands it histories as lines of JSON.

A line is a list of calls: `f`, `key`, `argument`, `answer`, `start`, and `end`, which is null for a call of unknown outcome. Go
fetches the module once, by the version and the hash in `judge/go.mod` and `judge/go.sum`, and builds without network later.
"""

import os
import subprocess
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from shutil import which
from typing import Any

import msgspec
from msgspec import Struct

from checkers.engine.verdict import Validity
from history.foreign.step import UNKNOWN, Call

SOURCE = Path(__file__).parent / "judge"
SECONDS_MAX = 1  # of one history
_INSTALLED = Path("/usr/local/go/bin/go")  # where Go's own installer puts it
_WORDS = {"valid": Validity.VALID, "invalid": Validity.INVALID, "undecided": Validity.UNKNOWN}


class Opinion(Struct, frozen=True):
    """What Porcupine says of one history, and in how many seconds."""

    validity: Validity
    seconds: float


def go() -> str | None:
    """The path of the Go command; None if there is none on this machine."""
    return which("go") or (str(_INSTALLED) if os.access(_INSTALLED, os.X_OK) else None)


def version() -> str:
    """The version of Porcupine in go.mod."""
    (line,) = (line for line in (SOURCE / "go.mod").read_text(encoding="utf-8").splitlines() if "anishathalye/porcupine" in line)
    return line.split()[-1]


def build(command: str, folder: Path) -> Path:
    """Build the program into a folder. Raises CalledProcessError, with Go's words in its standard error, if that fails."""
    program = folder / "porcupine-judge"
    subprocess.run(
        [command, "build", "-o", str(program), "."], cwd=SOURCE, check=True, capture_output=True, text=True,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
    )  # fmt: skip
    return program


def judged(program: Path, model: str, histories: Iterable[Sequence[Call]]) -> list[Opinion]:
    """Judge histories of one model; one that takes longer than SECONDS_MAX is UNKNOWN."""
    lines = b"\n".join(map(line_of, histories))
    completed = subprocess.run([str(program), model, str(SECONDS_MAX)], input=lines, stdout=subprocess.PIPE, check=True)
    answers = (line.split() for line in completed.stdout.decode().splitlines())
    return [Opinion(_WORDS[verdict], int(nanoseconds) / 1e9) for verdict, nanoseconds in answers]


def line_of(calls: Sequence[Call]) -> bytes:
    """A history as the program reads it."""
    return msgspec.json.encode(
        [
            {
                "f": call.f, "key": call.key, "argument": _plain(call.argument), "answer": _plain(call.result),
                "start": call.start, "end": call.end,
            }
            for call in calls
        ]
    )  # fmt: skip


def _plain(value: Hashable) -> Any:
    if value is UNKNOWN:
        return None
    return sorted(value) if isinstance(value, frozenset) else value
