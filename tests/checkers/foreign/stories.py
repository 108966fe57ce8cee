"""Small foreign histories: of each anomaly of `checkers.elle` one that has it, one that nearly has, one that nobody can tell.

And of each model of `checkers.linearizability` the same. `python -m tests.checkers.foreign.stories` writes the files of
corpus/histories/elle and corpus/histories/linearizability; a test compares them. What is good shows what a lawful database
would have shown; what is undecided is the bad one with all outcomes unknown, or without the fact that decides.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.checkers.foreign.objects import OBJECTS

ROOT = Path(__file__).parents[3] / "corpus" / "histories"
STRICT = "strict-serializable"


class T(NamedTuple):
    """A transaction: "x:1" appends or writes 1 to x, "x=1,2" reads that; when it was invoked and returned; by which process."""

    micros: str
    start: int = 0
    end: int = 99
    process: int = -1  # -1: one of its own
    type: str = "ok"


class Story(NamedTuple):
    """Lines of EDN; the model and the promise that it is judged by; `kind` is in the bad one."""

    judge: str
    model: str
    consistency: str
    kind: str
    lines: tuple[str, ...]


class Both(NamedTuple):
    """The bad one, the good one, and what forbids the anomaly."""

    bad: tuple[T, ...]
    good: tuple[T, ...]
    consistency: str = "serializable"


def _fork(cut: tuple[T, T], *, stale: bool, empty: str) -> tuple[T, ...]:
    """T1 misses what T2 wrote of x and reads z of T4; T3, after T2, misses what T4 wrote of y."""
    return (*cut, T(f"x={empty if stale else 1} z=1"), T("y:1 z:1"))


def _cycles(empty: str, *, lists: bool) -> dict[str, Both]:
    """What lists and registers have in common. `empty`: how a read shows that nobody has written."""
    found = {
        "G1c": Both((T("x:1 y=1"), T("y:1 x=1")), (T(f"x:1 y={empty}"), T("y:1 x=1")), "read-committed"),
        "G-single": Both((T("x:1 y:1"), T(f"x=1 y={empty}")), (T("x:1 y:1"), T("x=1 y=1"))),
        "G2-item": Both((T(f"x:1 y={empty}"), T(f"y:1 x={empty}")), (T(f"x:1 y={empty}"), T("y:1 x=1"))),
        "G-nonadjacent": Both(
            (T("x:1"), T("y:1"), T(f"x=1 y={empty}"), T(f"x={empty} y=1")),
            (T("x:1"), T("y:1"), T(f"x=1 y={empty}"), T("x=1 y=1")),
            "snapshot-isolation",
        ),
    }
    for time, process in (("process", 7), ("realtime", -1)):
        level = "strong-session-serializable" if time == "process" else STRICT
        first, then = partial(T, start=0, end=3, process=process), partial(T, start=4, end=9, process=process)
        found[f"G1c-{time}"] = Both((first("x=1"), then("x:1")), (first(f"x={empty}"), then("x:1")), level)
        found[f"G-single-{time}"] = Both((first("x:1"), then(f"x={empty}")), (first("x:1"), then("x=1")), level)
        found[f"G-nonadjacent-{time}"] = Both(
            _fork((first("x:1"), then(f"y={empty}")), stale=True, empty=empty),
            _fork((first("x:1"), then(f"y={empty}")), stale=False, empty=empty),
            level,
        )
        found[f"G2-item-{time}"] = Both(
            (first("y:1"), then(f"x={empty}"), T(f"x:1 y={empty}")), (first("y:1"), then(f"x={empty}"), T("x:1 y=1")), level
        )
        # Two writes in time, and one to whom they came the other way round; of registers by way of a second key.
        if lists:
            found[f"G0-{time}"] = Both((first("x:1"), then("x:2"), T("x=2,1")), (first("x:1"), then("x:2"), T("x=1,2")), level)
        else:
            bad = (first("y=1 y:2"), then("x:1"), T("x=1 x:2 y:1"))
            found[f"G0-{time}"] = Both(bad, (first("x:1"), then("y:1"), T("x=1 x:2 y=1 y:2")), level)
    return found


LISTS: dict[str, Both] = {
    **_cycles("", lists=True),
    "G0": Both(
        (T("x:1 y:1"), T("x:2 y:2"), T("x=1,2 y=2,1")), (T("x:1 y:1"), T("x:2 y:2"), T("x=1,2 y=1,2")), "read-uncommitted"
    ),
    "G1a": Both((T("x:1", type="fail"), T("x=1")), (T("x:1", type="fail"), T("x=")), "read-committed"),
    "G1b": Both((T("x:1 x:2"), T("x=1")), (T("x:1 x:2"), T("x=1,2")), "read-committed"),
    "internal": Both((T("x:1 x="),), (T("x:1 x=1"),), "read-atomic"),
    "future-read": Both((T("x=1 x:1"),), (T("x= x:1"),), "read-committed"),
    "fractured-read": Both((T("x:1 y:1"), T("x=1 y=")), (T("x:1 y:1"), T("x= y=")), "read-atomic"),
    "lost-update": Both((T("x= x:1"), T("x= x:2")), (T("x= x:1"), T("x=1 x:2")), "parallel-snapshot-isolation"),
    "dirty-update": Both(
        (T("x:1", type="fail"), T("x:2"), T("x=1,2")), (T("x:1", type="fail"), T("x:2"), T("x=2")), "read-committed"
    ),
    "duplicate-elements": Both((T("x:1"), T("x=1,1")), (T("x:1"), T("x=1")), "read-uncommitted"),
    "incompatible-order": Both(
        (T("x:1"), T("x:2"), T("x=1,2"), T("x=2")), (T("x:1"), T("x:2"), T("x=1,2"), T("x=1")), "read-committed"
    ),
}  # fmt: skip
REGISTERS: dict[str, Both] = {
    **_cycles("nil", lists=False),
    "G0": Both((T("x:1 y=1 y:2"), T("y:1 x=1 x:2")), (T("x:1 y:1"), T("x=1 x:2 y=1 y:2")), "read-committed"),
    "G1a": Both((T("x:1", type="fail"), T("x=1")), (T("x:1", type="fail"), T("x=nil")), "read-committed"),
    "G1b": Both((T("x:1 x:2"), T("x=1")), (T("x:1 x:2"), T("x=2")), "read-committed"),
    "internal": Both((T("x:1 x=2"),), (T("x:1 x=1"),), "read-atomic"),
    "future-read": Both((T("x=1 x:1"),), (T("x=nil x:1"),), "read-committed"),
    "fractured-read": Both((T("x:1 y:1"), T("x=1 y=nil")), (T("x:1 y:1"), T("x=nil y=nil")), "read-atomic"),
    "lost-update": Both((T("x=nil x:1"), T("x=nil x:2")), (T("x=nil x:1"), T("x=1 x:2")), "parallel-snapshot-isolation"),
    "cyclic-versions": Both((T("x=2 x:1"), T("x=1 x:2")), (T("x=nil x:1"), T("x=1 x:2")), "read-committed"),
}


def _edn(micro: str, writes: str, *, answered: bool) -> str:
    key, mark, value = micro[0], micro[1], micro[2:]
    if mark == ":":
        return f"[:{writes} :{key} {value}]"
    if not answered:
        return f"[:r :{key} nil]"
    shown = f"[{value.replace(',', ' ')}]" if writes == "append" else value
    return f"[:r :{key} {shown}]"


def told(transactions: tuple[T, ...], writes: str) -> tuple[str, ...]:
    """The lines of these transactions, in the order of time."""
    steps: list[tuple[int, int, str]] = []
    for number, one in enumerate(transactions):
        process = number if one.process < 0 else one.process * 10
        for at, type_ in ((one.start, "invoke"), (one.end, one.type)):
            value = " ".join(_edn(micro, writes, answered=type_ == "ok") for micro in one.micros.split())
            steps.append((at, number, f"{{:process {process}, :type :{type_}, :f :txn, :value [{value}]}}"))
    return tuple(line for _, _, line in sorted(steps))


def _of_elle() -> Iterator[tuple[str, Story]]:
    for model, writes, stories in (("list-append", "append", LISTS), ("rw-register", "w", REGISTERS)):
        for kind, both in stories.items():
            unknown = tuple(one._replace(type="info") for one in both.bad)
            for side, transactions in (("bad", both.bad), ("ok", both.good), ("undecided", unknown)):
                yield f"elle/{side}/{model}-{kind}", Story("elle", model, both.consistency, kind, told(transactions, writes))


def _of_objects() -> Iterator[tuple[str, Story]]:
    for model, sides in OBJECTS.items():
        for side, lines in sides.items():
            yield f"linearizability/{side}/{model}", Story("linearizability", model, "linearizable", "nonlinearizable", lines)


STORIES: dict[str, Story] = dict([*_of_elle(), *_of_objects()])


def text(story: Story) -> str:
    """The file."""
    return "\n".join(story.lines) + "\n"


if __name__ == "__main__":
    for name, story in STORIES.items():
        path = ROOT / f"{name}.edn"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(story), encoding="utf-8")
