"""In which rows of a simulated run a function of the protocol decided: `python -m mutation.decisions ORDER.json`.

A simulated run is a sequence of steps: one action of the scheduler, in which one process or ZooKeeper handles one event, sends
writes and sets timers, and in which rows are recorded. A step that handles what another one sent or set has that one as parent.
Many steps record no row, such as those of a controller that asks ZooKeeper. A row tells of a decision of the function if

    here       the function was called in the step that recorded the row
    asked      it was called in the parent of that step, or in an ancestor behind steps without rows: ZooKeeper records what a
               broker wrote, a broker what a controller commanded
    answered   that step is the parent of a step that called it, or an ancestor behind steps without rows: the function handled
               what the row tells, and perhaps did nothing

Rows that the harness records outside of all steps (what brokers tell, the state at the end) tell of no decision. Watching draws
nothing and sends nothing, so the history is that of the run without it.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from highwater.backends.sim.backend import SimBackend
from highwater.backends.sim.network import Network
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.scheduler import Action, Scheduler
from highwater.backends.sim.timers import Timers
from highwater.backends.sim.world import World
from highwater.errors import CrashError
from highwater.plans.plan import Plan
from highwater.runs.provenance import Build
from highwater.runs.run import attempting, perform
from history import jsonl
from mutation.trees import ROOT

HISTORY = "history.jsonl"
TOLD = "steps.msgpack"
Relation = Literal["here", "asked", "answered"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)
_CAUSED = (Network, Timers, NodeHost)  # whose actions a step causes: an arrival, a timer, the end of a flush
_OUTSIDE = 0  # the step of all that happens outside of the scheduler's actions
_BUILD = Build(commit="", dirty=False, versions={})


class Order(Struct, frozen=True, kw_only=True):
    """A run to perform, and the function to watch: `file` and `scope` as in `mutation.aims.aim.Aim`.

    `names`: what an edit outside of functions gives; each function that reads one of them is watched instead.
    """

    plan: Plan
    file: str
    scope: str
    names: tuple[str, ...] = ()
    folder: str  # where history and steps are written


class Watched(Struct, frozen=True, kw_only=True):
    """The steps of a run, numbered from 1; 0 stands for what happens outside of them. `crash`: the run has no history."""

    parents: tuple[int, ...] = (_OUTSIDE,)  # by step
    steps: tuple[int, ...] = ()  # by index of a row: the step that recorded it
    called: tuple[int, ...] = ()  # the steps that called the function
    failure: str = ""  # why the run ended early
    crash: str = ""


class Decisions(Struct, frozen=True, kw_only=True):
    """The rows that tell of a decision of the function, by relation; an index may be in several."""

    here: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    answered: frozenset[int] = frozenset()

    def relation(self, row: int) -> Relation | None:
        """The nearest relation of a row to a decision."""
        return next((name for name in RELATIONS if row in getattr(self, name)), None)


def decisions(of: Watched) -> Decisions:
    """The rows of a run that tell of a decision."""
    called, steps_with_rows = {*of.called}, {*of.steps}

    def ancestor(step: int) -> int:
        """The last step before this one, on its way, that called the function or recorded a row; 0 if there is none."""
        step = of.parents[step]
        while step not in steps_with_rows and step not in called and step != _OUTSIDE:
            step = of.parents[step]
        return step

    def teller(step: int) -> int:
        """The last step before this one, on its way, that recorded a row; 0 if there is none."""
        step = of.parents[step]
        while step not in steps_with_rows and step != _OUTSIDE:
            step = of.parents[step]
        return step

    asking = {step for step in steps_with_rows if ancestor(step) in called}
    answering = {teller(step) for step in called} - {_OUTSIDE}
    rows = list(enumerate(of.steps))
    return Decisions(
        here=frozenset(row for row, step in rows if step in called),
        asked=frozenset(row for row, step in rows if step in asking),
        answered=frozenset(row for row, step in rows if step in answering),
    )


class Steps:
    """The steps of one run: the parent of each, those that called the function, and the step that recorded each row."""

    def __init__(self) -> None:
        self.parents = [_OUTSIDE]
        self.called: set[int] = set()
        self.rows: dict[int, int] = {}
        self._present = _OUTSIDE
        self._recorded: Callable[[], Iterator[int]] = lambda: iter(())

    def watch(self, world: World) -> None:
        """Number the steps of a run that is about to begin."""
        recorder = world.sim.recorder
        seen = [0, 0]  # rows of each table

        def recorded() -> Iterator[int]:
            events, operations = recorder.events[seen[0] :], recorder.operations[seen[1] :]
            seen[:] = len(recorder.events), len(recorder.operations)
            yield from (row.index for row in events)
            yield from (row.index for row in operations)

        self._recorded = recorded
        world.sim.scheduler.__class__ = self._scheduler()  # the parts of the world hold this scheduler already

    def _scheduler(self) -> type[Scheduler]:
        steps = self

        class Numbered(Scheduler):
            """Performs each action as a step."""

            __slots__ = ()

            def at(self, time_ns: int, action: Action, *arguments: object) -> None:
                super().at(time_ns, steps.perform, steps._present, action, arguments)

            def after(self, delay_ns: int, action: Action, *arguments: object) -> None:
                super().after(delay_ns, steps.perform, steps._present, action, arguments)

        return Numbered

    def perform(self, parent: int, action: Action, arguments: tuple[object, ...]) -> None:
        """Perform an action as a step; it has this parent if it handles what a step sent, or set in its own process."""
        self._keep(_OUTSIDE)
        self._present = step = len(self.parents)
        self.parents.append(parent if isinstance(getattr(action, "__self__", None), _CAUSED) else _OUTSIDE)
        action(*arguments)
        self._keep(step)
        self._present = _OUTSIDE

    def _keep(self, step: int) -> None:
        self.rows.update((row, step) for row in self._recorded())

    def call(self) -> None:
        """Note a call of the function in the present step."""
        self.called.add(self._present)

    def watched(self, failure: str) -> Watched:
        """What was seen."""
        self._keep(_OUTSIDE)
        called = tuple(sorted(self.called - {_OUTSIDE}))
        steps = tuple(self.rows[row] for row in range(len(self.rows)))
        return Watched(parents=tuple(self.parents), steps=steps, called=called, failure=failure)


def names_given(old: str) -> tuple[str, ...]:
    """The names that the old text of an edit outside of functions gives: constants of a module, fields of a class."""
    nodes = (node for node in ast.walk(ast.parse(old)) if isinstance(node, ast.Assign | ast.AnnAssign))
    targets = [target for node in nodes for target in (node.targets if isinstance(node, ast.Assign) else [node.target])]
    return tuple(target.id for target in targets if isinstance(target, ast.Name))


@contextmanager
def _calls_of(order: Order, call: Callable[[], None]) -> Iterator[None]:
    """Call `call` at each call of the ordered function, or of the functions that read an ordered name."""
    file, folder = str(ROOT / order.file), str(ROOT / "reference")
    cached: dict[CodeType, bool] = {}

    def is_wanted(code: CodeType) -> bool:
        if order.names:
            return code.co_filename.startswith(folder) and bool({*order.names} & {*code.co_names})
        return code.co_filename == file and code.co_qualname == order.scope

    def trace(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        found = cached.get(code)
        if found is None:
            found = cached[code] = is_wanted(code)
        if found:
            call()

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def carry_out(order: Order) -> Watched:
    """Perform the run and write its history and its steps."""
    folder = Path(order.folder)
    steps = Steps()
    try:
        with attempting("performing", ""), _calls_of(order, steps.call):
            done = perform(order.plan, SimBackend(watch=steps.watch), _BUILD)
    except CrashError as error:
        found = Watched(crash=error.where)
    else:
        found = steps.watched(done.failure or "")
        (folder / HISTORY).write_bytes(jsonl.encode(done.history))
    (folder / TOLD).write_bytes(msgspec.msgpack.encode(found))
    return found


def main(arguments: Sequence[str]) -> int:
    """Carry out the order in the named file."""
    carry_out(msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Order))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
