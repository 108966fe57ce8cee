"""Writing steps as Jepsen's EDN: one map after another, as Jepsen stores them and Knossos and Elle read them.

* A process is not used again after a call that ended in `info`: its next call has a new process number, as in Jepsen.
* A compare-and-set answered with "false" becomes a `fail`, as in Jepsen. The fact that it saw another value is lost.
* Names (`:read`, `:append`) become keywords, also in the micro-operations of JSON histories, where they were strings.
* Indices are assigned anew, from 0.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from fractions import Fraction

from msgspec.structs import replace

from history.errors import HistoryError
from history.foreign.pairing import MICRO
from history.foreign.step import Named, Pairs, Step
from history.op import OpType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.+*!?<>=-]*")
_WORDS = frozenset({"true", "false"})
_REFUSED = "false"
_HALF = re.compile("[\ud800-\udfff]")  # half of a surrogate pair: JSON can hold it, UTF-8 cannot
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"})


def renewed(steps: Callable[[], Iterable[Step]]) -> Iterator[Step]:
    """Give a history's process a new number after each operation of unknown outcome, as Jepsen does. Calls `steps` twice."""
    fresh = 1 + max((step.process for step in steps() if isinstance(step.process, int)), default=-1)
    names: dict[Hashable, Hashable] = {}
    for step in steps():
        yield replace(step, process=names.get(step.process, step.process))
        if step.type is OpType.INFO:
            names[step.process] = fresh
            fresh += 1


def lines(steps: Callable[[], Iterable[Step]]) -> Iterator[str]:
    """Yield a history as EDN, one line for each step. Calls `steps` twice."""
    asked: dict[Hashable, Step] = {}
    for index, step in enumerate(renewed(steps)):
        if step.type is OpType.INVOKE:
            asked[step.process] = step
        yield _line(index, step, asked.get(step.process, step))


def _line(index: int, step: Step, asked: Step) -> str:
    kind, value = step.type, step.value
    if step.f == "cas" and kind is OpType.OK and value == _REFUSED:
        kind, value = OpType.FAIL, asked.value
    parts = [f":index {index}"]
    if step.time is not None:
        parts.append(f":time {step.time}")
    if step.process is not None:
        parts.append(f":process {edn(step.process)}")
    if not _NAME.fullmatch(step.f):
        raise HistoryError(f"line {step.line}: {step.f!r} is not a function name that EDN can hold")
    parts += [f":type :{kind}", f":f :{step.f}"]
    if step.key is not None:
        parts.append(f":key {edn(step.key)}")
    parts.append(f":value {_value(value)}")
    if step.rebalanced:
        parts.append(f":rebalance-log [{{:keys {edn(step.rebalanced)}}}]")
    if step.rewinds:
        parts.append(":seek-to-beginning? true")
    return "{" + ", ".join(parts) + "}\n"


def _value(value: Hashable) -> str:
    """The EDN of one operation's value. In a transaction the names of its micro-operations become keywords."""
    if type(value) is tuple and value and all(type(one) is tuple and one and one[0] in MICRO for one in value):
        return edn(tuple((Named(str(one[0])), *one[1:]) for one in value if isinstance(one, tuple)))
    return edn(value)


def edn(value: Hashable) -> str:
    """Format a value as EDN text."""
    match value:
        case None:
            return "nil"
        case Named():
            return value[:] if value in _WORDS or value.startswith("##") else f":{value}"
        case str():
            return f'"{_HALF.sub(_escaped, value.translate(_ESCAPES))}"'
        case float() if not math.isfinite(value):
            return "##NaN" if math.isnan(value) else "##Inf" if value > 0 else "##-Inf"
        case Pairs():
            return "{" + ", ".join(f"{edn(key)} {edn(inner)}" for key, inner in value) + "}"
        case tuple():
            return "[" + " ".join(map(edn, value)) + "]"
        case frozenset():
            return "#{" + " ".join(sorted(map(edn, value))) + "}"
        case Fraction():
            return str(value)
        case int() | float():
            return repr(value)
        case _:
            raise AssertionError(f"not a value of a history: {value!r}")


def _escaped(half: re.Match[str]) -> str:
    return f"\\u{ord(half.group()):04x}"
