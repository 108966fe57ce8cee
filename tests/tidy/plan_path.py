"""The way of a plan into the simulator: the functions that receive it, or a value made of it, until the first broker starts.

A value is made of the plan if it is a part of it, or what a function returned that received one; numbers and strings do not
count. A function counts where it is entered first. Functions that are entered one after the other in one module are one *place*;
a *return* is a place in a module that was left before. A *climb* is a place above the one before it, by the levels of the first
contract in pyproject.toml. `python -m tests.tidy.plan_path` prints the places of seed 1.
"""

import sys
import tomllib
from collections.abc import Iterable
from itertools import groupby, pairwise
from types import CodeType, FrameType
from typing import Any, NoReturn

from msgspec import Struct

from highwater.backends.sim.backend import SimBackend
from highwater.backends.sim.node import NodeHost
from highwater.cli.choosing import choose, perform
from highwater.runs.run import Keep
from tests.tidy.sources import ROOT

_CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LEVELS = {
    package: -level for level, row in enumerate(_CONTRACTS[0]["layers"]) for package in row.replace(" ", "").split("|")
}  # the higher, the more it may import


class Place(Struct, frozen=True):
    """A stay in a module: the functions that are entered there, in order."""

    module: str
    functions: tuple[str, ...]


class _Ended(BaseException):
    """The first broker starts."""


class _Way:
    """Notes which functions receive a value made of the plan; to be set as the profile of a run."""

    def __init__(self) -> None:
        self.functions: dict[CodeType, str] = {}  # with the module, in the order in which they are entered first
        self._values: dict[int, object] = {}  # kept alive, so that no other value gets their id
        self._inside: list[FrameType] = []  # calls that received one

    def note(self, frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in LEVELS:
            return
        if event == "call" and code is NodeHost.start.__code__:
            sys.setprofile(None)
        elif event == "call" and not code.co_name.startswith("<"):
            arguments = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
            if any(map(self._is_made, arguments)):
                self.functions.setdefault(code, module)
                self._inside.append(frame)
                if code.co_name == "__init__":
                    self._keep(arguments[0])
        elif event == "return" and self._inside and self._inside[-1] is frame:
            self._inside.pop()
            self._keep(result)

    def begin(self, plan: object) -> None:
        """Follow this plan from now on."""
        self._keep(plan)
        sys.setprofile(self.note)

    def _is_made(self, value: object) -> bool:
        """Whether a value is one of the plan's, or is built of one."""
        return id(value) in self._values or any(map(self._is_made, _parts(value)))

    def _keep(self, value: object) -> None:
        """Remember a value and its parts."""
        if type(value).__module__ == "builtins" and not isinstance(value, tuple | list | dict | set | frozenset):
            return
        if not value or id(value) in self._values:
            return
        self._values[id(value)] = value
        for part in _parts(value):
            self._keep(part)


def _parts(value: object) -> Iterable[object]:
    """The parts of a value that is made of others."""
    match value:
        case Struct():
            return [getattr(value, name) for name in value.__struct_fields__]
        case dict():
            return value.values()
        case tuple() | list():
            return value
        case _:
            return ()


def _boot(*_: object) -> NoReturn:
    raise _Ended


def way(seed: int = 1) -> tuple[Place, ...]:
    """The places of this seed's plan, from the command that performs it to the start of the first broker."""
    chosen, noted = choose(seed=str(seed)), _Way()
    noted.begin(chosen.plan)
    noted._keep(chosen)
    try:
        perform(chosen, Keep(), SimBackend(_boot))
    except _Ended:
        pass
    finally:
        sys.setprofile(None)
    groups = groupby(noted.functions.items(), key=lambda entered: entered[1])
    return tuple(Place(module, tuple(code.co_qualname for code, _ in entered)) for module, entered in groups)


def climbs(places: tuple[Place, ...]) -> list[tuple[Place, Place]]:
    """Each place above the one before it, with that one."""
    return [(lower, higher) for lower, higher in pairwise(places) if _level(higher) > _level(lower)]


def _level(place: Place) -> int:
    return LEVELS[place.module.split(".")[0]]


if __name__ == "__main__":
    walked = way()
    modules = {place.module for place in walked}
    lines = [f"{number:3} {place.module}: {', '.join(place.functions)}" for number, place in enumerate(walked, 1)]
    lines.append(
        f"{len(walked)} places in {len(modules)} modules, {len(walked) - len(modules)} returns, {len(climbs(walked))} climbs, "
        f"{sum(len(place.functions) for place in walked)} functions"
    )
    sys.stdout.write("\n".join(lines) + "\n")
