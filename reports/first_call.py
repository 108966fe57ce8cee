"""The first call of the protocol that answers otherwise than in another tree, as a page shows it."""

from textwrap import shorten

from msgspec import Struct

_NS_PER_MS = 1_000_000
_VALUE_MAX = 60  # letters of a value in the sentence
_BEFORE = 20  # letters before the first different one, where values begin with the same words


class Otherwise(Struct, frozen=True, kw_only=True):
    """A value of the call that differs: what it is, in this tree, in the other one."""

    what: str
    here: str
    there: str


class FirstCall(Struct, frozen=True, kw_only=True):
    """The first call that answers otherwise. `missing` says why there is none to show; the other fields are empty then.

    A function is named by its module below `reference`: `replica/isr.on_result`.
    """

    there: str  # the other tree, in words
    missing: str = ""
    function: str = ""
    is_new: bool = False  # the other tree has no such function
    inside: tuple[str, ...] = ()  # the functions that called it, the outermost first
    who: str = ""  # the process, or ZooKeeper, that acted
    time_ns: int = 0
    row: int = 0  # the next row that the run records
    calls: str = ""  # what it calls otherwise, in words
    given: str = ""  # its arguments
    otherwise: tuple[Otherwise, ...] = ()
    left_out: int = 0  # differences that are not listed

    @property
    def sentence(self) -> str:
        """The finding in one sentence."""
        if self.missing:
            return f"No call answers otherwise than at {self.there}: {self.missing}."
        by = f" of {self.who}" if self.who else ""
        new = " It is not there." if self.is_new else ""
        return (
            f"The first call that answers otherwise than at {self.there} is {self.function}{by}, "
            f"at {self.time_ns // _NS_PER_MS / 1000:.3f} s, before row {self.row}{self._difference}.{new}"
        )

    @property
    def _difference(self) -> str:
        """The first value that differs, or what it calls otherwise."""
        if not self.otherwise:
            return f": here it calls {self.calls}" if self.calls else ""
        first = self.otherwise[0]
        here, there = _shortened(first.here, first.there)
        return f": {first.what} is {here} here, {there} at {self.there}"


def _shortened(here: str, there: str) -> tuple[str, str]:
    """Two different values, each cut to what a sentence has room for, so that they still differ."""
    short = [shorten(value, _VALUE_MAX, placeholder=" …") for value in (here, there)]
    if short[0] == short[1]:
        same = next((place for place, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), len(short[0]))
        start = max(0, same - _BEFORE)
        short = [f"… {shorten(value[start:], _VALUE_MAX, placeholder=' …')}" for value in (here, there)]
    return short[0], short[1]
