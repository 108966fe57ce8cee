"""How `explore machines` searches: strategy, workers, folder and limits; the searches that were stopped and can be resumed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from highwater.cli.output import status
from highwater.errors import HarnessError, UsageError
from highwater.explore.breadth_first import BreadthFirst, Checkpoint, Searched, read_checkpoint
from highwater.explore.depth_first import DepthFirst
from highwater.explore.machine_world import MachineWorld
from highwater.explore.state import Bounds
from highwater.explore.strategy import Budget, Progress, Result
from highwater.explore.walks import Scheduler, Walks
from highwater.plans.actions import AnyAction
from highwater.runs.memory import available_bytes
from highwater.runs.provenance import present_build
from history.errors import NOT_JSON
from reference.config import VARIANTS, Variant

StrategyName = Literal["breadth-first", "depth-first", "walk"]
PropertyName = Literal["committed", "weak-isr", "strong-isr", "isr-assigned"]
_STORE = Path("store/explore")
_NAMES_MAX = 10_000


class Question(Struct, frozen=True, kw_only=True):
    """What is searched: a protocol within bounds, a property, and the number of workers. Stored with a stopped search."""

    protocol: str = "safe"
    bounds: Bounds = Bounds()
    holds: PropertyName = "committed"
    unclean: bool = False
    workers: int = 1
    commit: str = ""

    @property
    def variant(self) -> Variant:
        """The protocol variant, without its unclean election unless that is wanted."""
        named_variant = VARIANTS[self.protocol]
        return named_variant if self.unclean else replace(named_variant, unclean_election=False)


class Manner(Struct, frozen=True, kw_only=True):
    """How `explore machines` searches."""

    strategy: Annotated[StrategyName, typer.Option(help="Order of the search; only breadth-first can be resumed.")] = (
        "breadth-first"
    )
    scheduler: Annotated[Scheduler, typer.Option(help="What random walks make likely (strategy walk).")] = "mixed"
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random walks.")] = 1
    folder: Annotated[Path | None, typer.Option(help="New folder for the search's files; it stays if the search is stopped.")] = (
        None
    )


def check_searchable(question: Question, manner: Manner) -> None:
    """Refuse moves without a second broker, workers where only one can search, and a folder in use. Raises UsageError."""
    if question.bounds.moves and question.bounds.brokers == 1:
        raise UsageError(f"--moves {question.bounds.moves} needs at least 2 brokers, not 1")
    if question.workers > 1 and manner.strategy != "breadth-first":
        raise UsageError(f"--workers {question.workers} works with strategy breadth-first only, not {manner.strategy}")
    folder = manner.folder
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"folder {folder} is not empty; --resume {folder} goes on with a stopped search")


def search(question: Question, manner: Manner, budget: Budget, *, quiet: bool) -> Result[AnyAction]:
    """Search the whole space, or a part of it by walks."""
    world = partial(MachineWorld, question.variant, question.bounds)
    if manner.strategy == "breadth-first":
        folder = _make_folder(manner.folder or _unused_folder(question.protocol))
        return _run_or_resume(_breadth_first(question, folder), None, budget, folder, quiet=quiet)
    names = ("committed", question.holds)
    with shown_progress(quiet=quiet) as progress:
        if manner.strategy == "depth-first":
            model = world()
            properties = tuple(property_ for property_ in model.properties if property_.name in names)
            return DepthFirst(model, properties, monotonic).run(budget, progress)
        return Walks(world, names, monotonic, scheduler=manner.scheduler, seed=manner.seed).run(budget, progress)


def read_stopped_search(folder: Path) -> tuple[Question, Checkpoint]:
    """What a stopped search in a folder searches, and where it was. UsageError if it is none, or one of another commit."""
    checkpoint = read_checkpoint(folder)
    try:
        question = msgspec.json.decode(checkpoint.searched, type=Question)
    except NOT_JSON as error:
        raise UsageError(f"{folder} holds a search that this command does not know: {error}") from None
    commit = present_build().commit
    if question.commit != commit:
        raise UsageError(f"the search in {folder} was begun at commit {question.commit or '?'}; this is {commit or '?'}")
    return question, checkpoint


def resume(question: Question, checkpoint: Checkpoint, folder: Path, budget: Budget, *, quiet: bool) -> Result[AnyAction]:
    """Go on with a stopped search."""
    return _run_or_resume(_breadth_first(question, folder), checkpoint, budget, folder, quiet=quiet)


def memory_limit_mib() -> int:
    """Four fifths of the memory that is available now to this process."""
    return available_bytes() * 4 // 5 >> 20


def _breadth_first(question: Question, folder: Path) -> BreadthFirst[tuple[int, ...], AnyAction]:
    """The search, with a name that tells whether a stopped one may be resumed."""
    searched = Searched(
        world=partial(MachineWorld, question.variant, question.bounds), properties=tuple(sorted({"committed", question.holds}))
    )
    name = msgspec.json.encode(replace(question, commit=present_build().commit)).decode()
    return BreadthFirst(searched, folder, monotonic, workers=question.workers, name=name)


def _run_or_resume(
    strategy: BreadthFirst[tuple[int, ...], AnyAction],
    checkpoint: Checkpoint | None,
    budget: Budget,
    folder: Path,
    *,
    quiet: bool,
) -> Result[AnyAction]:
    """Run or resume a search; its folder stays only if it was stopped."""
    with shown_progress(quiet=quiet) as progress:
        result = strategy.run(budget, progress) if checkpoint is None else strategy.resume(checkpoint, budget, progress)
    if not result.folder:
        rmtree(folder)
        with suppress(OSError):  # other searches are stored there
            _STORE.rmdir()
            _STORE.parent.rmdir()
    return result


def _make_folder(folder: Path) -> Path:
    """Make the folder if it is not there, and return it. Raises HarnessError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"cannot make folder {folder}: {error.strerror}") from error
    return folder


def _unused_folder(protocol: str) -> Path:
    return next(path for n in range(1, _NAMES_MAX) if not (path := _STORE / f"{protocol}-{n}").exists())


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Progress]:
    """Show states and depth on a terminal while a search runs."""
    with status(quiet=quiet) as tell:
        yield lambda states, depth: tell(f"{states} states, depth {depth}")
