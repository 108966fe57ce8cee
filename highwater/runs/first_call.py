"""The first call of the protocol that answers otherwise than in another tree, on the same plan.

Two processes perform the plan, each with the `reference` of its tree. As long as each call with the same arguments comes to the
same, both runs are the same. So the first one that does not is of a function whose code differs, or which reads a value that
does. If one of the calls that it makes is such a call, too, that one is meant: the innermost. It may lie long before the rows for
which the run is blamed. Of a change in several functions it shows the one that acts first.

    1. The processes perform the plan side by side, and compare what comes of each question to a machine, and states now and then.
    2. Both perform it again up to there, and trace the calls of the last few questions.
    3. Both perform it once more up to the call that was found, and tell it in words.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TypeVar

import msgspec

from highwater.errors import HighwaterError, UsageError
from highwater.inspect.answering import BLOCK, Begin, Block, Called, Compare, Shape, Tell, Told, Trace, receive, send
from highwater.inspect.values import Tree, differences, text
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan, plan_to_yaml
from highwater.runs.revisions import environment
from history import store
from history.errors import NOT_JSON
from reports.first_call import FirstCall, Otherwise

DEADLINE_S = 120.0
_LISTED = 8
_ARGUMENT_MAX = 90  # letters
_HARNESS = "the harness hands it another value, such as a constant that the harness reads"
_Found = tuple[int, int, str]  # the number of a call in both trees, and what it calls otherwise
_NONE: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()
T = TypeVar("T")


class _Tree:
    """A process that performs plans on the protocol of one tree; `folder` holds its `reference`, None: the present one."""

    def __init__(self, folder: Path | None) -> None:
        command = [sys.executable, "-P", "-m", "highwater.inspect.answering"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment(folder), "PYTHONHASHSEED": "0"},
        )

    def order(self, message: object) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        send(self._process.stdin, message)

    def answer(self, kind: type[T]) -> T:
        """Wait for an answer."""
        assert self._process.stdout is not None
        return receive(self._process.stdout, kind)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def close(self) -> None:
        """End the process and wait for its end."""
        self._process.kill()
        self._process.communicate()


def _kill(trees: Sequence[_Tree]) -> None:
    for tree in trees:
        tree.kill()


@contextmanager
def _trees(folders: Sequence[Path | None]) -> Iterator[list[_Tree]]:
    """The processes, for a while. UsageError if one of them ends before, or if they need too long."""
    trees: list[_Tree] = []
    timer = Timer(DEADLINE_S, _kill, (trees,))
    timer.start()
    try:
        for folder in folders:
            trees.append(_Tree(folder))
        yield trees
    except (EOFError, BrokenPipeError, msgspec.MsgspecError):
        words = f"{DEADLINE_S:g} s were not enough" if timer.finished.is_set() else "a process that performs it has ended"
        raise UsageError(words) from None
    finally:
        timer.cancel()
        for tree in trees:
            tree.close()


def first_call(plan: Plan, theirs_path: Path, words: str, *, ours_path: Path | None = None) -> FirstCall:
    """The first call that answers otherwise here than there, in folders with a `reference`; None: the present tree.

    `words` names the other tree.
    """
    if plan.path:
        return FirstCall(there=words, missing="the run is a path of the explorer")
    try:
        with _trees((ours_path, theirs_path)) as trees:
            return _first_call(plan, trees, words)
    except UsageError as error:
        return FirstCall(there=words, missing=str(error))


def _first_call(plan: Plan, trees: Sequence[_Tree], words: str) -> FirstCall:
    shapes = [tree.answer(Shape) for tree in trees]
    for tree, own, other_shape in zip(trees, shapes, reversed(shapes), strict=True):
        tree.order(Begin(plan_to_yaml(plan), _only(own, other_shape)))
    questions = _parting(trees)
    if questions is None:
        return FirstCall(there=words, missing="both trees give the same answers to the end of the run")
    for tree in trees:
        tree.order(Trace(*questions))
    calls = [tree.answer(list[Called]) for tree in trees]
    only = tuple(own.functions - other_shape.functions for own, other_shape in zip(shapes, reversed(shapes), strict=True))
    found = innermost(calls[0], calls[1], only)
    if found is None:
        return FirstCall(there=words, missing=_HARNESS)
    our_number, their_number, what = found
    for tree, number in zip(trees, (our_number, their_number), strict=True):
        tree.order(Tell(*questions, number))
    answers = [tree.answer(Told) for tree in trees]
    named = _callers(calls[0], our_number)
    return _told(answers[0], answers[1], FirstCall(there=words, calls=what, function=named[-1], inside=named[:-1]), shapes[1])


def _only(own: Shape, other_shape: Shape) -> dict[str, tuple[str, ...]]:
    """The fields that classes of both trees have in one of them alone: a new field is no difference until it is used."""
    both = own.fields.keys() & other_shape.fields.keys()
    left_out = {name: tuple(field for field in own.fields[name] if field not in other_shape.fields[name]) for name in both}
    return {name: fields for name, fields in left_out.items() if fields}


def _parting(trees: Sequence[_Tree]) -> tuple[int, int] | None:
    """Questions between which the first call lies; at the first one both trees are still the same. None: they are to the end."""
    for tree in trees:
        tree.order(Compare())
    first = 0
    while True:
        our_block, their_block = (tree.answer(Block) for tree in trees)
        for tree in trees:
            tree.order(our_block == their_block)
        if our_block != their_block:
            pairs = enumerate(zip(our_block.numbers, their_block.numbers, strict=False))
            differing = next((number for number, (a, b) in pairs if a != b), BLOCK)
            return max(0, first - 1), first + min(differing + 1, BLOCK)
        if our_block.ended:
            return None
        first += BLOCK


def innermost(our_calls: Sequence[Called], their_calls: Sequence[Called], only: Sequence[Set[str]] = _NONE) -> _Found | None:
    """The first call with the same arguments that comes to something else, the innermost one; None if there is none.

    `only`: the functions that one tree alone has. Two of them at the same place are one that has another name or module.
    """
    return _within(our_calls, their_calls, -1, -1, only)


def _within(
    our_calls: Sequence[Called], their_calls: Sequence[Called], a: int, b: int, only: Sequence[Set[str]]
) -> _Found | None:
    """The first such call among two corresponding ones and those that they make; -1: the harness."""
    calls_made, other_calls = _made_by(our_calls, a), _made_by(their_calls, b)
    for x, y in zip(calls_made, other_calls, strict=False):
        our_call, its = our_calls[x], their_calls[y]
        is_renamed = _short(our_call.name) in only[0] and _short(its.name) in only[1]
        if our_call.given != its.given or not (our_call.name == its.name or is_renamed):
            return None if a < 0 else (a, b, _otherwise(our_calls[a].name, our_call.name, its.name))
        found = _within(our_calls, their_calls, x, y, only)
        if found is not None:
            return found
    if a < 0:
        return None
    if len(calls_made) != len(other_calls):
        more = calls_made[len(other_calls) :]
        here, there = (our_calls[more[0]].name, "") if more else ("", their_calls[other_calls[len(calls_made)]].name)
        return a, b, _otherwise(our_calls[a].name, here, there)
    return (a, b, "") if our_calls[a].came != their_calls[b].came else None


def _made_by(calls: Sequence[Called], number: int) -> list[int]:
    """The numbers of the calls that a call makes itself."""
    depth = -1 if number < 0 else calls[number].depth
    calls_made = []
    for n in range(number + 1, len(calls)):
        if calls[n].depth <= depth:
            break
        if calls[n].depth == depth + 1:
            calls_made.append(n)
    return calls_made


def _otherwise(caller: str, here: str, there: str) -> str:
    """What a function calls here and there, in words; empty if both are parts of itself, such as a comprehension."""
    own = _short(caller)
    here, there = (name if name != own else "" for name in map(_short, (here, there)))
    if here == there:
        return f"{here} with other values" if here else ""
    if not there:
        return f"{here}, which it does not there"
    return f"{here or 'nothing more'} where it calls {there} there"


def _short(name: str) -> str:
    """The function as a reader knows it: a comprehension or lambda is a part of the function that it stands in."""
    return name.partition(".<locals>.<")[0].replace(".<locals>", "")


def _callers(calls: Sequence[Called], number: int) -> tuple[str, ...]:
    """The functions of the protocol in which a call is, the outermost first, and its own."""
    names: list[str] = []
    depth = calls[number].depth
    for n in range(number, -1, -1):
        if calls[n].depth == depth:
            names += [] if calls[n].is_harness else [_short(calls[n].name)]
            depth -= 1
    return tuple(dict.fromkeys(reversed(names)))


def _told(our_answer: Told, their_answer: Told, first_call: FirstCall, there: Shape) -> FirstCall:
    """The finding with the words of the call in both trees."""
    parts = [
        *differences(our_answer.result, their_answer.result, "its result"),
        *differences(our_answer.reads, their_answer.reads),
        *differences(our_answer.after, their_answer.after),
    ]
    return msgspec.structs.replace(
        first_call,
        is_new=first_call.function not in there.functions,
        who=our_answer.who,
        time_ns=our_answer.time_ns,
        row=our_answer.row,
        given=_arguments(our_answer.given),
        otherwise=tuple(Otherwise(what=what, here=here, there=other_value) for what, here, other_value in parts[:_LISTED]),
        left_out=max(0, len(parts) - _LISTED),
    )


def _arguments(given: Tree) -> str:
    """The arguments of a call without long ones, such as a whole machine and its turn."""
    words = {name: text(value) for name, value in given.items()}
    return ", ".join(f"{name} {value}" for name, value in words.items() if len(value) <= _ARGUMENT_MAX)


# --- in the folder of a run -----------------------------------------------------------------------------------------------------


def keep_first_call(run: Path, other_tree: Path, words: str) -> FirstCall | None:
    """Find the first call of a stored run that answers otherwise and keep it in its folder; None if its plan cannot be read."""
    try:
        found = first_call(load_plan(run / store.PLAN), other_tree, words)
    except HighwaterError:
        return None
    store.write_file(run / store.FIRST_CALL, msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    return found


def kept_first_call(run: Path) -> FirstCall | None:
    """What was kept in the folder of a run; None if there is nothing."""
    try:
        return msgspec.json.decode((run / store.FIRST_CALL).read_bytes(), type=FirstCall)
    except (OSError, *NOT_JSON):
        return None
