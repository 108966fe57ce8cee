"""Breadth-first search, level by level: the first violation found has the fewest actions.

One shard works in this process; several (`workers`) work in processes of their own, each on the states whose fingerprints fall to
it, in rounds: all shards expand some states of the level, then exchange what they found for each other. Counts are equal for any
number of workers, except after a violation, which ends the search within a round.

A search can be stopped and resumed: its folder holds the shards and a checkpoint (`search.json`) of the end of a level or of the
end of the search. What was done after the last checkpoint is done again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from threading import current_thread, main_thread
from typing import Generic, Protocol, cast

import msgspec
from msgspec import Struct

from highwater.errors import HarnessError, UsageError
from highwater.explore.shard import ROOT, SHARDS_MAX, Found, Mark, Report, Shard
from highwater.explore.strategy import Budget, End, Progress, Result, Violation, collision_odds, few_collections, limit_reached
from highwater.explore.world import Action, State, World

_ROUND = 256  # expanded by a single worker between two looks at the budget
_SHARED_ROUND = 2048  # expanded by each of several workers between two exchanges
_CHECKPOINT_SECONDS = 60.0
_CHECKPOINT = "search.json"
_JOIN_SECONDS = 10


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A search on disk: what it searches, in words of the caller, and where it was."""

    searched: str
    marks: tuple[Mark, ...]
    depth: int
    seconds: float
    goals: tuple[str, ...]
    found: tuple[Found, ...]


class Searched(Struct, Generic[State, Action], frozen=True, kw_only=True):
    """A world and what to look for in it. `world` builds it, in each process of the search."""

    world: Callable[[], World[State, Action]]
    properties: tuple[str, ...]  # names; `committed` for example
    stop: bool = True  # at the first violation; otherwise the search goes on and reports the first one of each property


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint of a stopped search. UsageError if the folder has none."""
    try:
        return msgspec.json.decode((folder / _CHECKPOINT).read_bytes(), type=Checkpoint)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{folder} holds no stopped search") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder / _CHECKPOINT} is no checkpoint of a search: {error}") from None


class BreadthFirst(Generic[State, Action]):
    """One breadth-first search in a folder. `clock` gives seconds, for the budget and the result only."""

    def __init__(
        self, searched: Searched[State, Action], folder: Path, clock: Callable[[], float], *, workers: int = 1, name: str = ""
    ) -> None:
        """`name`: what is searched, for the checkpoint."""
        assert 1 <= workers <= SHARDS_MAX
        self._searched = searched
        self._world = searched.world()
        self._folder = folder
        self._clock = clock
        self._workers = workers
        self._name = name
        self._crew: _Crew = _Alone(searched, folder) if workers == 1 else _Processes(searched, folder, workers)
        self._reports: list[Report] = []
        self._depth = 0
        self._found: list[Found] = []
        self._earlier = 0.0  # seconds before it was resumed
        self._start = self._saved = clock()

    def run(self, budget: Budget, progress: Progress = lambda states, depth: None) -> Result[Action]:
        """Search from the initial state. HarnessError if the folder cannot be written or a worker fails."""
        return self._search_guarded(self._crew.begin, budget, progress)

    def resume(self, checkpoint: Checkpoint, budget: Budget, progress: Progress = lambda states, depth: None) -> Result[Action]:
        """Go on from a checkpoint that as many workers wrote; the budget counts from now. HarnessError for bad files."""
        assert len(checkpoint.marks) == self._workers
        self._depth, self._earlier, self._found = checkpoint.depth, checkpoint.seconds, list(checkpoint.found)
        return self._search_guarded(lambda: self._crew.resume(checkpoint), budget, progress)

    def _search_guarded(self, begin: Callable[[], list[Report]], budget: Budget, progress: Progress) -> Result[Action]:
        """Begin and search; a failed worker or disk is a HarnessError, and the workers are ended in any case."""
        try:
            with few_collections(), _interrupts_collected() as interrupts:
                self._take_reports(begin())
                return self._search(budget, progress, interrupts)
        except (EOFError, ConnectionError):
            raise HarnessError(f"a worker of the search ended; the last checkpoint is in {self._folder}") from None
        except OSError as error:
            raise HarnessError(f"cannot search in {self._folder}: {error.strerror or error}") from error
        except ValueError as error:  # from `Shard.resume`
            raise HarnessError(f"cannot resume the search in {self._folder}: {error}") from error
        finally:
            self._crew.close()

    def _search(self, budget: Budget, progress: Progress, interrupts: list[int]) -> Result[Action]:
        """Expand states level by level until a violation, the end of the world, a limit or an interrupt."""
        end: End = "exhausted"
        stop = ""
        try:
            while not stop and not (self._found and self._searched.stop) and self._has_states_to_expand():
                if budget.depth is not None and self._depth >= budget.depth:
                    return self._result("budget", f"depth {self._depth}")
                self._take_reports(self._crew.work(_ROUND if self._workers == 1 else _SHARED_ROUND, self._inboxes()))
                progress(self._states, self._depth)
                stop = self._limit_reached(budget)
                if stop:
                    end = "budget"
                elif interrupts:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            end, stop = "interrupted", "an interrupt"
        return self._result(end, stop)

    def _has_states_to_expand(self) -> bool:
        """Whether there is something to expand; begins the next level when the present one is done."""
        if any(report.left for report in self._reports) or any(map(any, self._inboxes())):
            return True
        if not any(report.following for report in self._reports):
            return False
        if self._clock() - self._saved >= _CHECKPOINT_SECONDS:
            self._save_checkpoint()
        self._take_reports(self._crew.advance())
        self._depth += 1
        return True

    def _take_reports(self, reports: list[Report]) -> None:
        """Take in what the shards report; of each violated property the first state counts."""
        self._reports = reports
        broken_names = {finding.name for finding in self._found}
        for report in reports:
            for finding in report.found:
                if finding.name not in broken_names:
                    broken_names.add(finding.name)
                    self._found.append(finding)

    def _inboxes(self) -> list[list[bytes]]:
        """For each shard, what the others have for it."""
        return [list(boxes) for boxes in zip(*(report.outboxes for report in self._reports), strict=True)]

    def _limit_reached(self, budget: Budget) -> str:
        memory = sum(report.memory_mib for report in self._reports)
        return limit_reached(budget, states=self._states, seconds=self._clock() - self._start, memory_mib=memory)

    @property
    def _states(self) -> int:
        return sum(report.states for report in self._reports)

    @property
    def _goals(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for report in self._reports for name in report.reached))

    # --- the end ----------------------------------------------------------------------------------------------------------------

    def _result(self, end: End, stop: str) -> Result[Action]:
        """Save the checkpoint if the search was stopped, and give its result."""
        if stop:
            self._save_checkpoint()
        violations = tuple(Violation(finding.name, finding.wrong, self._path_to(finding.number)) for finding in self._found)
        reports = self._reports
        return Result(
            end="violated" if violations and self._searched.stop else end,
            stopped_by=stop,
            violations=violations,
            states=self._states,
            transitions=sum(report.transitions for report in reports),
            depth=max([self._depth, *(len(violation.path) for violation in violations)]),
            frontier=sum(report.left + report.following for report in reports),
            beyond=sum(report.beyond for report in reports),
            seconds=self._seconds(),
            goals=self._goals,
            memory_mib=sum(report.memory_mib for report in reports),
            collision_odds=collision_odds(self._world, self._states),
            folder=str(self._folder) if stop else "",
        )

    def _seconds(self) -> float:
        return self._earlier + self._clock() - self._start

    def _save_checkpoint(self) -> None:
        """Write a checkpoint; until then the last one stands."""
        self._take_reports(self._crew.work(0, self._inboxes()))
        checkpoint = Checkpoint(
            searched=self._name,
            marks=self._crew.checkpoint(),
            depth=self._depth,
            seconds=self._seconds(),
            goals=self._goals,
            found=tuple(self._found),
        )
        fresh = self._folder / f"{_CHECKPOINT}.new"
        fresh.write_bytes(msgspec.json.encode(checkpoint))
        fresh.replace(self._folder / _CHECKPOINT)
        self._saved = self._clock()

    def _path_to(self, number: int) -> tuple[Action, ...]:
        """The actions on the way to a state, performed again: the origins hold only which successor was taken."""
        choices = []
        number, nth = self._crew.origin(number)
        while number != ROOT:
            choices.append(nth)
            number, nth = self._crew.origin(number)
        state = self._world.initial()
        actions = []
        for nth in reversed(choices):
            action, state = next(islice(self._world.successors(state), nth, None))
            actions.append(action)
        return tuple(actions)


# --- who works ------------------------------------------------------------------------------------------------------------------


class _Crew(Protocol):
    # All shards of a search; each method is performed by all of them, `origin` by the one that has the state.

    def begin(self) -> list[Report]: ...
    def resume(self, checkpoint: Checkpoint) -> list[Report]: ...
    def work(self, count: int, inboxes: list[list[bytes]]) -> list[Report]: ...
    def advance(self) -> list[Report]: ...
    def origin(self, number: int) -> tuple[int, int]: ...
    def checkpoint(self) -> tuple[Mark, ...]: ...
    def close(self) -> None: ...


class _Alone:
    # One shard in this process.

    def __init__(self, searched: Searched[State, Action], folder: Path) -> None:
        self._shard = _shard(searched, folder, place=0, shards=1)

    def begin(self) -> list[Report]:
        return [self._shard.begin()]

    def resume(self, checkpoint: Checkpoint) -> list[Report]:
        return [self._shard.resume(checkpoint.marks[0], checkpoint.goals, _names_of_found(checkpoint))]

    def work(self, count: int, inboxes: list[list[bytes]]) -> list[Report]:
        return [self._shard.work(count, [])]

    def advance(self) -> list[Report]:
        return [self._shard.advance()]

    def origin(self, number: int) -> tuple[int, int]:
        return self._shard.origin(number)

    def checkpoint(self) -> tuple[Mark, ...]:
        return (self._shard.checkpoint(),)

    def close(self) -> None:
        self._shard.close()


class _Processes:
    # Each shard in a process of its own.

    def __init__(self, searched: Searched[State, Action], folder: Path, workers: int) -> None:
        context = get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for place in range(workers):
            parent_pipe, child_pipe = context.Pipe()
            process = context.Process(target=_serve_shard, args=(child_pipe, searched, folder, place, workers), daemon=True)
            process.start()
            child_pipe.close()
            self._pipes.append(parent_pipe)
            self._processes.append(process)

    def begin(self) -> list[Report]:
        return self._reports("begin", [()] * len(self._pipes))

    def resume(self, checkpoint: Checkpoint) -> list[Report]:
        return self._reports("resume", [(mark, checkpoint.goals, _names_of_found(checkpoint)) for mark in checkpoint.marks])

    def work(self, count: int, inboxes: list[list[bytes]]) -> list[Report]:
        return self._reports("work", [(count, inbox) for inbox in inboxes])

    def advance(self) -> list[Report]:
        return self._reports("advance", [()] * len(self._pipes))

    def origin(self, number: int) -> tuple[int, int]:
        pipe = self._pipes[number % SHARDS_MAX]
        pipe.send(("origin", (number,)))
        parent, nth = cast("tuple[int, int]", _reply_from_worker(pipe))
        return parent, nth

    def checkpoint(self) -> tuple[Mark, ...]:
        marks = self._replies_from_all("checkpoint", [()] * len(self._pipes))
        return tuple(mark for mark in marks if isinstance(mark, Mark))

    def _reports(self, method: str, arguments: Sequence[tuple[object, ...]]) -> list[Report]:
        return [report for report in self._replies_from_all(method, arguments) if isinstance(report, Report)]

    def _replies_from_all(self, method: str, arguments: Sequence[tuple[object, ...]]) -> list[object]:
        for pipe, argument in zip(self._pipes, arguments, strict=True):
            pipe.send((method, argument))
        return [_reply_from_worker(pipe) for pipe in self._pipes]

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()  # ends the loop of `_serve_shard`
        for process in self._processes:
            process.join(_JOIN_SECONDS)
            if process.is_alive():
                process.kill()


def _reply_from_worker(pipe: Connection) -> object:
    """What a worker returned. Raises what the worker raised."""
    answer: object = pipe.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _serve_shard(pipe: Connection, searched: Searched[State, Action], folder: Path, place: int, shards: int) -> None:
    """The loop of a worker: perform methods of its shard until the pipe is closed."""
    signal(SIGINT, SIG_IGN)  # Ctrl-C reaches all processes of the terminal; the first one decides
    with few_collections():
        shard = _shard(searched, folder, place=place, shards=shards)
        while True:
            try:
                method, arguments = pipe.recv()
                pipe.send(_result_or_error(shard, method, arguments))
            except (EOFError, ConnectionError):
                break
        shard.close()


def _result_or_error(shard: Shard[State, Action], method: str, arguments: tuple[object, ...]) -> object:
    """What a method of the shard returns, or the exception that it raises: both can be sent."""
    try:
        return getattr(shard, method)(*arguments)
    except Exception as error:  # noqa: BLE001 - raised again in the first process
        return error


def _shard(searched: Searched[State, Action], folder: Path, *, place: int, shards: int) -> Shard[State, Action]:
    return Shard(searched.world, searched.properties, folder / str(place), place=place, shards=shards, stop=searched.stop)


def _names_of_found(checkpoint: Checkpoint) -> tuple[str, ...]:
    return tuple(finding.name for finding in checkpoint.found)


@contextmanager
def _interrupts_collected() -> Iterator[list[int]]:
    """A context that collects Ctrl-C in the list it yields, so that it ends a search between two states; in the main thread."""
    signals: list[int] = []
    if current_thread() is not main_thread():
        yield signals
        return
    before = signal(SIGINT, lambda number, frame: signals.append(number))
    try:
        yield signals
    finally:
        signal(SIGINT, before)
