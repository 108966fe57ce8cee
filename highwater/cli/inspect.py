"""`highwater inspect`: what every process of a run or an explored path holds at one moment, or a prompt that walks through it.

The run is performed again up to there. The rows of a stored run are compared with those of this performance: if the code behaves
otherwise by now, the command refuses at the first row that differs.
"""

import sys
from cmd import Cmd
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from highwater.backends.sim.backend import SimBackend
from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.explore.backend import ExploreBackend
from highwater.explore.strategy import few_collections
from highwater.inspect.session import Session, row_words
from highwater.inspect.view import CLIENTS, INVARIANTS, ZOOKEEPER
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.rig.backend import REPEATABLE, Backend
from history import store
from history.history import History
from reference.types import BrokerId, broker_address

_NS_PER_S = 1_000_000_000
_ROWS_SHOWN = 10


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater inspect`."""

    what: Annotated[str, typer.Argument(metavar="RUN|PLAN|SEED", help="Folder of a stored run, a plan file, or a seed.")]
    at: Annotated[str | None, typer.Option(metavar="TIME", help="A moment of the run: 24.94s, or 24940ms.")] = None
    row: Annotated[int | None, typer.Option(min=0, help="After the action that recorded this row; --json: also before.")] = None
    until: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help="The first row, after --at if given, whose line has these words: 'b2 truncate orders-0'."
        ),
    ] = None
    node: Annotated[
        str,
        typer.Option(
            help=f"Show these processes only, separated by commas: b1, b2 … or {ZOOKEEPER}; of --row its own if not given."
        ),
    ] = ""
    partition: Annotated[str, typer.Option(help="Show this partition only, for example orders-0.")] = ""
    protocol: options.ProtocolIfAny = None
    json: options.AsJson = False


@takes(Options)
def inspect(arguments: Options) -> int:
    """Look at any moment of a simulated run or an explored path: logs, roles, requests, timers, messages, ZooKeeper."""
    if arguments.row is not None and (arguments.at is not None or arguments.until is not None):
        raise UsageError("--row names a moment by itself; leave out --at and --until")
    time_ns = None if arguments.at is None else _time_ns(arguments.at)
    plan, stored = _plan_of(arguments.what, arguments.protocol)
    names = options.names_of(arguments.node)
    _check_names(plan, names, arguments.partition)
    with few_collections(), closing(Session(plan, stored=stored, partition=arguments.partition)) as session:
        if time_ns is None and arguments.row is None and arguments.until is None:
            if arguments.json:
                raise UsageError("--json needs a moment: --at, --row or --until")
            _Prompt(session, names, plan).cmdloop()
            return ExitCode.VALID
        if time_ns is not None:
            session.to_time(time_ns)
        if arguments.row is not None:
            session.to_row(arguments.row)
        if arguments.until is not None:
            session.to_words(arguments.until.split())
        _tell(session, names, json=arguments.json)
    return ExitCode.VALID


def _tell(session: Session, names: Sequence[str], *, json: bool) -> None:
    partitions_there = session.moment.partitions
    if session.partition and session.partition not in partitions_there:
        at_s = session.moment.time_ns / _NS_PER_S
        raise UsageError(
            f"--partition {session.partition}: not there at {at_s:.6f} s; there are {', '.join(partitions_there) or 'none'}"
        )
    if session.row is not None and not names:
        names = session.own()
    if json:
        before = {} if session.row is None else {"before": _of(session.before.tree, names)}
        row = {} if session.row is None else {"row": session.row, "called": session.called}
        moment = {"time_ns": session.moment.time_ns, "rows": session.moment.rows}
        say_json({**moment, **row, **before, "state": _of(session.moment.tree, names)})
        return
    _say_all(session.where())
    _say_all(session.lines(names))
    if session.row is not None:
        say("changed by the action of this row:")
        _say_all(f"  {line}" for line in session.differences(names))
        if session.called:
            say(f"called by it: {', '.join(session.called)}")


def _of(tree: dict[str, object], names: Sequence[str]) -> dict[str, object]:
    return {name: part for name, part in tree.items() if not names or name in names}


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _time_ns(text: str) -> int:
    """A time in ns: "24.94s", "24.94" or "24940ms". UsageError for another text."""
    number, per_second = (text.removesuffix("ms"), 1_000) if text.endswith("ms") else (text.removesuffix("s"), 1)
    try:
        time_ns = int(float(number) * _NS_PER_S / per_second)
    except (ValueError, OverflowError):
        time_ns = -1
    if time_ns < 0:
        raise UsageError(f"{text} is no time of a run; give seconds or milliseconds, for example 24.94s or 24940ms")
    return time_ns


def _plan_of(what: str, protocol: str | None) -> tuple[Plan, History | None]:
    """The plan of a stored run, a plan file or a seed, and the stored history. UsageError if it cannot be performed again."""
    path = Path(what)
    if protocol is not None and path.exists():
        raise UsageError(f"--protocol needs a seed; {what} is a file or folder that names its own protocol")
    if not path.exists():
        from highwater.campaigns.campaign import Request  # a stored run is looked into sooner without it

        return Request(protocol=protocol or "safe").plan(options.seed_not_file(what, files="run folder or plan file")), None
    stored = store.load_run(path) if path.is_dir() else None
    if stored is not None and stored.manifest.backend not in REPEATABLE:
        raise UsageError(
            f"{what}: backend is {stored.manifest.backend}; only a simulated run or a path of the explorer can be performed again"
        )
    plan = load_plan(path / store.PLAN if path.is_dir() else path)
    backend: Backend = ExploreBackend() if plan.path else SimBackend()
    refusal = backend.refuse(plan)
    if refusal is not None:
        raise UsageError(f"{what}: {refusal}")
    return plan, stored


def _check_names(plan: Plan, names: Sequence[str], partition: str) -> None:
    """Refuse processes and partitions that the run does not have."""
    known = (
        *(str(broker_address(BrokerId(number))) for number in range(1, plan.cluster.brokers + 1)),
        ZOOKEEPER,
        CLIENTS,
        INVARIANTS,
    )
    for name in names:
        if name not in known:
            raise UsageError(f"--node {name}: no process of this run; known: {', '.join(known)}")
    topics = [topic.topic for topic in plan.promise.topics]
    topic, _, index = partition.rpartition("-")
    if partition and (topic not in topics or not index.isdecimal()):
        raise UsageError(f"--partition {partition}: no partition of this run; its topics are {', '.join(topics)}")


class _Prompt(Cmd):
    """The prompt of `highwater inspect`: each command goes to a moment of the run, or shows something of it."""

    intro = "A run before its first action. `help` lists the commands; `row 100`, `next`, `back`, `show`, `quit`."

    def __init__(self, session: Session, names: Sequence[str], plan: Plan) -> None:
        super().__init__()
        self.use_rawinput = sys.stdin.isatty()
        self.prompt = "> " if self.use_rawinput else ""
        self._session, self._names, self._plan = session, tuple(names), plan
        self._breaks: list[list[str]] = []

    def onecmd(self, line: str) -> bool:
        """Carry out one command; a complaint is printed and ends nothing."""
        try:
            return bool(super().onecmd(line))
        except UsageError as error:
            say(str(error))
            return False

    def emptyline(self) -> bool:
        """An empty line does nothing; Cmd would repeat the last command."""
        return False

    def default(self, line: str) -> None:
        """Complain of an unknown command."""
        say(f"unknown command {line.split()[0]}; `help` lists them")

    def _go(self, move: Callable[[], None]) -> None:
        move()
        _say_all(self._session.where())

    def do_at(self, line: str) -> None:
        """at TIME: go to a moment, 24.94s or 24940ms"""
        self._go(lambda: self._session.to_time(_time_ns(line)))

    def do_row(self, line: str) -> None:
        """row N: go to the action that recorded this row"""
        self._go(lambda: self._session.to_row(_number(line)))

    def do_next(self, line: str) -> None:
        """next [N]: go on to the next row, or by N rows"""
        self._go(lambda: self._session.to_row(self._session.moment.rows - 1 + _number(line or "1")))

    def do_back(self, line: str) -> None:
        """back [N]: go back to the row before, or by N rows; the run is performed again"""
        now = self._session.row.index if self._session.row is not None else self._session.moment.rows
        self._go(lambda: self._session.to_row(max(0, now - _number(line or "1"))))

    def do_step(self, line: str) -> None:
        """step: perform one action of the simulator: a message arrives, a timer fires"""
        self._go(self._session.step)

    def do_until(self, line: str) -> None:
        """until WORDS: go on to the next row whose line has these words"""
        self._go(lambda: self._session.to_words(line.split()))

    def do_break(self, line: str) -> None:
        """break [WORDS]: stop `go` at rows with these words; without words list where it stops"""
        if line:
            self._breaks.append(line.split())
        _say_all(f"break {' '.join(words)}" for words in self._breaks)

    def do_go(self, line: str) -> None:
        """go: go on to the next row that a `break` names"""
        if not self._breaks:
            raise UsageError("no `break` is set")
        self._go(lambda: self._session.to_any(self._breaks))

    def do_show(self, line: str) -> None:
        """show [NODES]: what the processes hold"""
        names = options.names_of(line) or self._names
        _check_names(self._plan, names, "")
        _say_all(self._session.lines(names))

    def do_diff(self, line: str) -> None:
        """diff [NODES]: what differs from the moment before"""
        names = options.names_of(line) or self._names
        _check_names(self._plan, names, "")
        _say_all(self._session.differences(names))

    def do_rows(self, line: str) -> None:
        """rows [N]: the last rows that were recorded"""
        _say_all(row_words(row) for row in self._session.rows(_number(line or str(_ROWS_SHOWN))))

    def do_node(self, line: str) -> None:
        """node [NODES]: show these processes only; without names all"""
        names = options.names_of(line)
        _check_names(self._plan, names, "")
        self._names = tuple(names)

    def do_partition(self, line: str) -> None:
        """partition [NAME]: show this partition only; without a name all"""
        _check_names(self._plan, (), line)
        self._session.look_at(line)

    def do_quit(self, line: str) -> bool:
        """quit: end"""
        return True

    def do_EOF(self, line: str) -> bool:  # noqa: N802 - the name that Cmd gives the end of the input
        """Ctrl-D: end"""
        return True


def _number(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{text or 'nothing'} is no number")
    return int(text)
