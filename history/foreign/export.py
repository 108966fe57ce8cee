"""Writing steps as Jepsen's EDN: one map after another, as Jepsen stores them and Knossos and Elle read them.

* A process is not used again after a call that ended in `info`: its next call has a new process number, as in Jepsen.
* A compare-and-set answered with "false" becomes a `fail`, as in Jepsen. The fact that it saw another value is lost.
* Text of a JSON history becomes a string, except the names of micro-operations (`:read`, `:append`). A number of JSON is written
  without a fraction that is 0, because EDN tells 1 from 1.0 and JSON does not.
* Indices are assigned anew, from 0.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator

from msgspec.structs import replace

from history.errors import HistoryError
from history.foreign.pairing import MICRO
from history.foreign.step import FALSE, Atom, Pairs, Step
from history.op import OpType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.+*!?<>=-]*")
_REFUSED = (FALSE, "false")


def renewed(steps: Callable[[], Iterable[Step]]) -> Iterator[Step]:
    """Give a history's process a new number after each operation of unknown outcome, as Jepsen does. Calls `steps` twice."""
    fresh = 1 + max((step.process for step in steps() if isinstance(step.process, int)), default=-1)
    names: dict[Hashable, Hashable] = {}
    for step in steps():
        yield replace(step, process=names.get(step.process, step.process))
        if step.type is OpType.INFO:
            names[step.process] = fresh
            fresh += 1


def lines(steps: Callable[[], Iterable[Step]], *, names: bool = False) -> Iterator[str]:
    """Yield a history as EDN, one line for each step. Calls `steps` twice. `names`: text stands for names, as it does in EDN."""
    invocations: dict[Hashable, Step] = {}
    for index, step in enumerate(renewed(steps)):
        if step.type is OpType.INVOKE:
            invocations[step.process] = step
        yield _line_of_step(index, step, invocations.get(step.process, step), names=names)


def _line_of_step(index: int, step: Step, invocation: Step, *, names: bool) -> str:
    """A step as a line of EDN; a refused cas is a failure, as Knossos expects."""
    kind, value = step.type, step.value
    if step.f == "cas" and kind is OpType.OK and value in _REFUSED:
        kind, value = OpType.FAIL, invocation.value
    parts = [f":index {index}"]
    if step.time is not None:
        parts.append(f":time {step.time}")
    if step.process is not None:
        parts.append(f":process {edn(step.process, names=names)}")
    if not _NAME.fullmatch(step.f):
        raise HistoryError(f"line {step.line}: {step.f!r} is not a function name that EDN can hold")
    parts += [f":type :{kind}", f":f :{step.f}"]
    if step.key is not None:
        parts.append(f":key {edn(step.key, names=names)}")
    parts.append(f":value {_edn_of_value(value, names=names)}")
    if step.rebalanced:
        parts.append(f":rebalance-log [{{:keys {edn(step.rebalanced, names=names)}}}]")
    if step.rewinds:
        parts.append(":seek-to-beginning? true")
    return "{" + ", ".join(parts) + "}\n"


def _edn_of_value(value: Hashable, *, names: bool) -> str:
    """The EDN of one operation's value. In a transaction the names of its micro-operations become keywords."""
    if (
        not names
        and type(value) is tuple
        and value
        and all(type(micro) is tuple and micro and micro[0] in MICRO for micro in value)
    ):
        return "[" + " ".join(_micro(micro) for micro in value if isinstance(micro, tuple)) + "]"
    return edn(value, names=names)


def _micro(micro: tuple[Hashable, ...]) -> str:
    return "[" + " ".join([f":{micro[0]}", *(edn(part) for part in micro[1:])]) + "]"


def edn(value: Hashable, *, names: bool = False) -> str:
    """Format a value as EDN text. `names`: text stands for names and becomes keywords; otherwise it becomes strings."""
    match value:
        case None:
            return "nil"
        case str():
            return f":{value}" if names else repr(Atom("string", value))
        case float() if value.is_integer():
            return str(int(value))
        case Pairs():
            return "{" + ", ".join(f"{edn(key, names=names)} {edn(inner, names=names)}" for key, inner in value) + "}"
        case tuple():
            return "[" + " ".join(edn(item, names=names) for item in value) + "]"
        case frozenset():
            return "#{" + " ".join(sorted(edn(item, names=names) for item in value)) + "}"
        case Atom() | int() | float():
            return repr(value)
        case _:
            raise AssertionError(f"not a value of a history: {value!r}")
