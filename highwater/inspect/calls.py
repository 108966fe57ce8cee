"""Which functions of the reference an action calls: `replica/follower._truncate_by`, in the order of their first calls.

Only an action that is asked for is watched, in the thread that performs it, so nothing else becomes slower.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import reference

_ROOT = f"{Path(reference.__file__).parent}/"


class Calls:
    """The functions that were called while this watched."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Module below `reference` and function, each once."""
        return tuple(self._names)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread in the body."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Watch this thread from now on."""
        sys.setprofile(self._note)

    def end(self) -> None:
        """Watch this thread no more."""
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_ROOT) and not code.co_name.startswith(("<", "__")):
            module = code.co_filename.removeprefix(_ROOT).removesuffix(".py")
            if "/" in module:  # what all share, such as types and the turn of a machine, tells a reader nothing
                self._names.setdefault(f"{module}.{code.co_qualname.replace('.<locals>', '')}")
