"""What the searches of `highwater explore` share: the options of their world, the headline, and the command that repeats them."""

from typing import Annotated, Literal

import typer
from msgspec import Struct
from msgspec.structs import asdict

from highwater.cli.searching import PropertyName, Question
from highwater.errors import UsageError
from highwater.explore.state import Bounds
from highwater.plans.plan import unknown_protocol
from reference.config import VARIANTS

DEFAULTS = Bounds()
_BROKERS = typer.Option(min=1, max=4, help="Number of brokers.")
_RECORDS = typer.Option(min=1, help="Number of records that the client produces.")
_MAX_EPOCHS = typer.Option(min=1, help="Number of leader epochs; states with more are not expanded.")
_CRASHES = typer.Option(min=0, help="Maximum of crashes in one schedule.")
_EXPIRIES = typer.Option(min=0, help="Maximum of session expiries of running brokers in one schedule.")
_LOSSES = typer.Option(min=0, help="Maximum of lost messages in one schedule.")
_DOUBLES = typer.Option(min=0, help="Maximum of messages in one schedule that may arrive twice.")

Unclean = Annotated[bool, typer.Option(help="Allow the protocol's unclean election; by default it is switched off.")]
PROPERTY = typer.Option(help="Property to check, besides that no committed record is lost.")
Seconds = Annotated[int, typer.Option(min=1, help="Maximum of wall seconds for the search.")]
MaxDepth = Annotated[int | None, typer.Option(min=1, help="Maximum of actions in one schedule.")]
MemoryMib = Annotated[int | None, typer.Option(min=1, help="Maximum of memory; by default four fifths of what is available.")]


class World(Struct, frozen=True, kw_only=True):
    """The world of one partition: its size, and the faults in one schedule."""

    brokers: Annotated[int, _BROKERS] = DEFAULTS.brokers
    records: Annotated[int, _RECORDS] = DEFAULTS.records
    max_epochs: Annotated[int, _MAX_EPOCHS] = DEFAULTS.max_epochs
    crashes: Annotated[int, _CRASHES] = DEFAULTS.crashes
    expiries: Annotated[int, _EXPIRIES] = DEFAULTS.expiries
    losses: Annotated[int, _LOSSES] = DEFAULTS.losses
    doubles: Annotated[int, _DOUBLES] = DEFAULTS.doubles


class WorldIfAny(Struct, frozen=True, kw_only=True):
    """The same, where another world has what is not given."""

    brokers: Annotated[int | None, _BROKERS] = None
    records: Annotated[int | None, _RECORDS] = None
    max_epochs: Annotated[int | None, _MAX_EPOCHS] = None
    crashes: Annotated[int | None, _CRASHES] = None
    expiries: Annotated[int | None, _EXPIRIES] = None
    losses: Annotated[int | None, _LOSSES] = None
    doubles: Annotated[int | None, _DOUBLES] = None


class Moving(Struct, frozen=True, kw_only=True):
    """Several partitions, and moves of them."""

    partitions: Annotated[
        int, typer.Option(min=1, max=3, help="Partitions of the topic; the records are produced to any of them.")
    ] = DEFAULTS.partitions
    moves: Annotated[
        int,
        typer.Option(
            min=0, help="Maximum of moves of a partition in one schedule; the last broker then begins without replicas."
        ),
    ] = DEFAULTS.moves


class Coordination(Struct, frozen=True, kw_only=True):
    """How brokers, controller and ZooKeeper talk."""

    zk: Annotated[
        Literal["atomic", "async"],
        typer.Option(help="atomic: a ZooKeeper request and its reply are one action; async: each is an action."),
    ] = "atomic"
    kip343: Annotated[
        bool, typer.Option("--kip343", help="Brokers send heartbeats, and leaders ask the controller for ISR changes.")
    ] = False


def bounds_of(world: World, coordination: Coordination, moving: Moving | None = None) -> Bounds:
    """The bounds that the options mean."""
    moved = {} if moving is None else asdict(moving)
    return Bounds(**asdict(world), **moved, zk_async=coordination.zk == "async", kip343=coordination.kip343)


def check_protocol(name: str) -> None:
    """Refuse an unknown protocol. Raises UsageError."""
    if name not in VARIANTS:
        raise UsageError(unknown_protocol(name))


def headline(question: Question) -> str:
    """The line that says what is searched."""
    bounds = question.bounds
    doubles = f", {_count(bounds.doubles, 'doubled message')}" if bounds.doubles else ""
    moves = f", {_count(bounds.moves, 'move')}" if bounds.moves else ""
    partitions = f"{_count(bounds.partitions, 'partition')}, " if bounds.partitions > 1 else ""
    clean = " without its unclean election" if VARIANTS[question.protocol] != question.variant else ""
    return (
        f"explore {question.protocol}{clean}: {_count(bounds.brokers, 'broker')}, {partitions}"
        f"{_count(bounds.records, 'record')}, "
        f"{_count(bounds.max_epochs, 'leader epoch')}; at most {_count(bounds.crashes, 'crash')}, "
        f"{_count(bounds.expiries, 'expired session')}, {_count(bounds.losses, 'lost message')}{doubles}{moves}; "
        f"ZooKeeper {'asynchronous' if bounds.zk_async else 'in one step'}{'; KIP-343' if bounds.kip343 else ''}"
    )


def _count(number: int, noun: str) -> str:
    ending = "" if number == 1 else "es" if noun.endswith("sh") else "s"
    return f"{number} {noun}{ending}"


def repeat(search: str, question: Question, defaults: Bounds = DEFAULTS, holds: PropertyName | None = "committed") -> str:
    """The command that repeats the search, without options at their default; `holds` None: that option has no default."""
    parts = [f"highwater explore {search}"]
    for name, number in asdict(question.bounds).items():
        if not isinstance(number, bool) and number != getattr(defaults, name):
            parts.append(f"--{name.replace('_', '-')} {number}")
    parts += ["--zk async"] if question.bounds.zk_async else []
    parts += ["--kip343"] if question.bounds.kip343 else []
    parts += [f"--holds {question.holds}"] if question.holds != holds else []
    parts += ["--unclean"] if question.unclean else []
    return " ".join(parts)
