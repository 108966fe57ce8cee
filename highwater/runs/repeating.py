"""Which command repeats a run from its page, also where the page is read without the folder of the run.

A command that names a seed, or a plan of this repository, holds wherever highwater is. One that names a stored run or another
file holds only here, and a temporary folder is gone when the page is read. The page of such a run has its plan; a page of two
runs asks for the folder of each.
"""

import shlex
from itertools import pairwise
from pathlib import Path
from posixpath import normpath

import msgspec
from msgspec import Struct

from highwater.rig.backend import REPEATABLE
from highwater.runs.run import SUMMARY
from history.errors import NOT_JSON

WITH_PLAN = "highwater run --plan plan.yaml"
IN_FOLDER = "highwater replay ."
_REPOSITORY = "corpus/"
_OF_FILES = ("--plan", "--with", "--jars")


class _Summary(Struct):
    """The part of a stored summary that is read here."""

    repeat: str = ""


def holds_elsewhere(command: str) -> bool:
    """Whether a command repeats its run on another machine: every file that it names is one of this repository."""
    try:
        typed = shlex.split(command)
    except ValueError:  # written by hand, or by an older highwater
        return False
    words = [part for word in typed for part in (word.split("=", 1) if word.startswith("--") else [word])]
    files = [value for name, value in pairwise(words) if name in _OF_FILES]
    files += [value for value in words[2:3] if words[1] == "replay" and not value.isdigit()]
    return bool(command) and all(normpath(file).startswith(_REPOSITORY) for file in files)


def repeat_of(folder: Path, backend: str) -> str:
    """The command that repeats a stored run: the one that made it if that holds elsewhere, else one to be given in its folder.

    A run on real brokers is not repeated by its folder: it is the one that made it, or empty.
    """
    try:
        repeat = msgspec.json.decode((folder / SUMMARY).read_bytes(), type=_Summary).repeat
    except (OSError, *NOT_JSON):
        repeat = ""
    return IN_FOLDER if backend in REPEATABLE and not holds_elsewhere(repeat) else repeat
