"""Performs a plan on the `reference` of this process, for `highwater.runs.first_call`, which asks two such processes the same.

    python -m highwater.inspect.answering      orders and answers are msgpack, each behind its length, on stdin and stdout

The harness asks the machines of the protocol (brokers, clients, ZooKeeper) some ten thousand things in a run, by `handle` or by
another method. Each question has a number. A run is a function of its plan: performed again, it has the same questions.
"""

import dis
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

import reference
from highwater.backends.sim.world import World
from highwater.inspect.values import LeftOut, Numbers, Tree, fields_of, tree_of
from highwater.plans.text import plan_from_yaml
from highwater.rig.scene import scene_of
from monitors.watch import no_watch
from reference.client.admin import Admin
from reference.client.client import Client
from reference.coordination.memory import MemoryZooKeeper
from reference.node import Node
from reference.types import broker_address

BLOCK = 48  # questions after which the states of the machines are compared: each costs as much as some hundred answers
_ROOT = f"{Path(reference.__file__).parent}/"
_HARNESS = f"{Path(__file__).parents[1]}/"
_MASK = (1 << 64) - 1
_ENDS = frozenset(dis.opmap.get(name, -1) for name in ("RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE"))
_LENGTH_BYTES = 8
_QUESTIONS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (Node, ("handle",)),
    (Client, ("handle", "start")),
    (Admin, ("handle", "start")),
    (MemoryZooKeeper, ("connect", "touch", "expire", "forget_watches", "watch_again", "submit")),
)
_PLAIN = (int, str, float, bytes, tuple, frozenset, dict, list, set)
T = TypeVar("T")


class Shape(Struct, frozen=True, kw_only=True):
    """What a tree has: its functions, and the fields of its classes. The first message of a process."""

    functions: frozenset[str]
    fields: dict[str, tuple[str, ...]]


class Begin(Struct, frozen=True, tag=True):
    """The first order: the plan, and the fields that are left out of all comparisons."""

    plan: str  # as YAML
    left_out: dict[str, tuple[str, ...]]


class Compare(Struct, frozen=True, tag=True):
    """Perform the plan; send a `Block`, go on if a true value comes back, and so on."""


class Trace(Struct, frozen=True, tag=True):
    """Perform the plan; send the calls from one question to another one, each before those that it makes."""

    first: int
    last: int


class Tell(Struct, frozen=True, tag=True):
    """Perform the plan; send one of the calls of `Trace` in words: the one of this number."""

    first: int
    last: int
    call: int


Order = Begin | Compare | Trace | Tell


class Block(Struct, frozen=True):
    """Numbers of what came of some questions, and last of the states after them. `ended`: the run has no more questions."""

    numbers: tuple[int, ...]
    ended: bool


class Called(Struct, array_like=True):
    """A call of a function: of the protocol, or of the harness by the protocol. `given` and `came` are numbers of values.

    What came of a call is its result and what its arguments are after it. Of the harness it does not count.
    """

    depth: int
    name: str
    is_harness: bool
    given: int
    came: int = 0


class Told(Struct, frozen=True, kw_only=True):
    """A call in words. `who` was asked something by the harness; `row`: of the next row that the run records."""

    who: str
    time_ns: int
    row: int
    given: Tree
    after: Tree  # the arguments, after the call
    result: Tree
    reads: Tree  # the plain values of its module that the function names


class _Stop(BaseException):
    """Ends a performance that is not needed any further."""


class _Open(NamedTuple):
    """A call that has not ended: its frame, its number, and what it was given, by name."""

    frame: FrameType
    number: int
    given: dict[str, Any]


class Performer:
    """Performs a plan as often as wanted."""

    def __init__(self, begin: Begin) -> None:
        self._plan = plan_from_yaml(begin.plan)
        self.left_out: LeftOut = begin.left_out
        self.world: World

    def perform(self, before: Callable[[int, object], None], after: Callable[[object, object], None]) -> bool:
        """Perform the plan; False if it was stopped.

        `before` is called with number and machine before each question, `after` with the machine and what came of it.
        """
        number = -1

        def asking(method: Callable[..., Any]) -> Callable[..., Any]:
            def ask(machine: object, *arguments: object, **named: object) -> object:
                nonlocal number
                number += 1
                before(number, machine)
                came: object = "raised"
                try:
                    came = method(machine, *arguments, **named)
                finally:
                    if sys.exc_info()[0] is not _Stop:
                        after(machine, came)
                return came

            return ask

        self.world = World(scene_of(self._plan), watch=no_watch)
        with _replaced(asking):
            try:
                self.world.play()
            except _Stop:
                return False
            except Exception:  # noqa: BLE001 - a run ends for whatever reason; the other one has to end so, too
                pass
        return True


@contextmanager
def _replaced(asking: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Let all questions go through functions that `asking` makes."""
    methods = [(kind, name, getattr(kind, name)) for kind, names in _QUESTIONS for name in names if hasattr(kind, name)]
    for kind, name, method in methods:
        setattr(kind, name, asking(method))
    try:
        yield
    finally:
        for kind, name, method in methods:
            setattr(kind, name, method)


def compare(performer: Performer, go_on: Callable[[Block], bool]) -> None:
    """Perform the plan and give block after block to `go_on`, until that wants no more."""
    number_of = Numbers(performer.left_out).of
    came: list[int] = []
    touched: dict[int, object] = {}

    def block(*, ended: bool) -> bool:
        came_and_touched = Block((*came, number_of(list(touched.values()))), ended)
        came.clear()
        touched.clear()
        return go_on(came_and_touched)

    def after(machine: object, result: object) -> None:
        touched[id(machine)] = machine
        came.append(number_of(result))
        if len(came) == BLOCK and not block(ended=False):
            raise _Stop

    if performer.perform(lambda number, machine: None, after):
        block(ended=True)


class Tracer:
    """Watches the calls from one question to another one. `wanted`: the number of the one that is told in words."""

    def __init__(self, performer: Performer, first: int, last: int, *, wanted: int | None = None) -> None:
        self.calls: list[Called] = []
        self.told: Told | None = None
        self._performer = performer
        self._first, self._last, self._wanted = first, last, wanted
        self._number = Numbers(performer.left_out).of
        self._names: dict[CodeType, tuple[str, bool] | None] = {}
        self._open: list[_Open] = []
        self._who = ""
        self._given: tuple[int, int, Tree] = 0, 0, {}  # of the wanted call, when it began

    def watch(self) -> None:
        """Perform the plan up to the last question, and watch."""
        try:
            self._performer.perform(self._before, lambda machine, came: None)
        finally:
            sys.setprofile(None)

    def _before(self, number: int, machine: object) -> None:
        if number > self._last:
            raise _Stop
        self._who = _who(machine)
        if number == self._first:
            sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "return" and self._open and self._open[-1].frame is frame:
            self._leave(self._open.pop(), argument)
        elif event == "call":
            code = frame.f_code
            if code not in self._names:
                self._names[code] = _named(code)
            named = self._names[code]
            if named is not None and (not named[1] or (self._open and self._open[-1].frame is frame.f_back)):
                self._enter(frame, *named)

    def _enter(self, frame: FrameType, name: str, is_harness: bool) -> None:
        # an iterator that must not be used up
        local_values = {key: value for key, value in frame.f_locals.items() if key != ".0"}
        opened = _Open(frame, len(self.calls), local_values)
        self.calls.append(Called(len(self._open), name, is_harness, self._number(list(local_values.values())) & _MASK))
        self._open.append(opened)
        if opened.number == self._wanted:
            sim = self._performer.world.sim
            self._given = sim.scheduler.now, sim.recorder.next_index, self._tree(local_values)

    def _leave(self, left: _Open, result: object) -> None:
        raised = left.frame.f_code.co_code[left.frame.f_lasti] not in _ENDS
        call = self.calls[left.number]
        if not call.is_harness:
            call.came = self._number([raised, result, *left.given.values()]) & _MASK
        if left.number == self._wanted:
            time_ns, row, given = self._given
            self.told = Told(
                who=self._who,
                time_ns=time_ns,
                row=row,
                given=given,
                after=self._tree(left.given),
                result="an exception" if raised else tree_of(result, self._performer.left_out),
                reads=self._reads(left.frame),
            )
            raise _Stop

    def _tree(self, values: dict[str, Any]) -> Tree:
        return {name: tree_of(value, self._performer.left_out) for name, value in values.items()}

    def _reads(self, frame: FrameType) -> Tree:
        held = frame.f_globals
        return self._tree({name: held[name] for name in frame.f_code.co_names if isinstance(held.get(name), _PLAIN)})


def _who(machine: object) -> str:
    """What the machine that is asked is called in a history."""
    if isinstance(machine, Node):
        return str(broker_address(machine.state.config.broker))
    return str(machine.address) if isinstance(machine, Client) else "ZooKeeper" if isinstance(machine, MemoryZooKeeper) else ""


def _named(code: CodeType) -> tuple[str, bool] | None:
    """The name of a function of the protocol or of the harness, and whether it is of the latter; None for others."""
    if code.co_filename.startswith(_ROOT):
        return f"{code.co_filename.removeprefix(_ROOT).removesuffix('.py')}.{code.co_qualname}", False
    return (code.co_qualname, True) if code.co_filename.startswith(_HARNESS) else None


def shape() -> Shape:
    """What the protocol of this process has."""
    functions: set[str] = set()
    fields: dict[str, tuple[str, ...]] = {}
    for found in pkgutil.walk_packages(reference.__path__, "reference."):
        module = found.name.removeprefix("reference.").replace(".", "/")
        for value in vars(import_module(found.name)).values():
            if getattr(value, "__module__", "") != found.name:
                continue
            if isinstance(value, type):
                fields[f"{value.__module__}.{value.__qualname__}"] = fields_of(value) or ()
                functions |= {f"{module}.{value.__qualname__}.{name}" for name, inner in vars(value).items() if callable(inner)}
            elif callable(value):
                functions.add(f"{module}.{value.__qualname__}")
    return Shape(functions=frozenset(functions), fields=fields)


def send(to: IO[bytes], message: object) -> None:
    """Write a message behind its length. BrokenPipeError if nobody reads any more."""
    data = msgspec.msgpack.encode(message)
    to.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    to.flush()


def receive(source: IO[bytes], kind: type[T]) -> T:
    """Read a message. EOFError if none comes any more."""
    head = source.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        raise EOFError
    return msgspec.msgpack.decode(source.read(int.from_bytes(head, "big")), type=kind)


def serve(source: IO[bytes], to: IO[bytes]) -> None:
    """Carry out orders until there are no more."""
    send(to, shape())
    performer = Performer(receive(source, Begin))
    while True:
        order: Order = receive(source, Order)  # type: ignore[arg-type]
        if isinstance(order, Compare):

            def go_on(block: Block) -> bool:
                send(to, block)
                return receive(source, bool)

            compare(performer, go_on)
        elif isinstance(order, Trace | Tell):
            wanted = order.call if isinstance(order, Tell) else None
            tracer = Tracer(performer, order.first, order.last, wanted=wanted)
            tracer.watch()
            send(to, tracer.calls if wanted is None else tracer.told)


if __name__ == "__main__":
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        sys.exit(0)  # the one that asks has what it wants
