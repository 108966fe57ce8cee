"""`make bench-explore`: states a second and bytes a state of the explorer on worlds of the machines.

Every round is a search in a new process with one worker. Seconds are processor seconds; the median of the rounds counts. Bytes a
state are those that the process grew by during the search, divided by the states. They contain all that is remembered about
brokers, so they fall as a world grows.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from msgspec import Struct
from msgspec.structs import replace

from highwater.cli.output import say
from highwater.explore.breadth_first import BreadthFirst, Searched
from highwater.explore.machine_world import MachineWorld
from highwater.explore.state import Bounds
from highwater.explore.strategy import Budget, resident_mib
from reference.config import VARIANTS, Variant

_PROPERTIES = ("committed", "strong-isr")


class World(Struct, frozen=True, kw_only=True):
    """A world of the machines, searched whole or up to a number of states."""

    name: str
    bounds: Bounds
    states: int | None = None


class Round(Struct, frozen=True, kw_only=True):
    """The result of one search."""

    end: str
    states: int
    transitions: int
    depth: int
    seconds: float
    grown_mib: int


WORLDS = (
    World(name="safe, 2 brokers, 1 record, 2 epochs, 1 crash, 1 expiry", bounds=Bounds()),
    World(name="safe, 3 brokers, 2 records, 2 epochs, 1 crash, 1 expiry", bounds=Bounds(brokers=3, records=2), states=200_000),
)


def search(world: World) -> Round:
    """Search a world once, in this process."""
    before = resident_mib()
    with TemporaryDirectory() as folder:
        searched = Searched(world=partial(MachineWorld, _variant(), world.bounds), properties=_PROPERTIES)
        start = process_time()
        result = BreadthFirst(searched, Path(folder), process_time).run(Budget(states=world.states))
        seconds = process_time() - start
    return Round(
        end=result.end,
        states=result.states,
        transitions=result.transitions,
        depth=result.depth,
        seconds=seconds,
        grown_mib=result.memory_mib - before,
    )


def _variant() -> Variant:
    return replace(VARIANTS["safe"], unclean_election=False)


def _alone(work: Callable[[World], Round], world: World) -> Round:
    """The work's result from a process of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, world).result()


def main() -> None:
    """Print one line for each world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--states", type=int, help="stop each search at this number of states")
    arguments = parser.parse_args()
    for world in WORLDS:
        chosen = world if arguments.states is None else replace(world, states=arguments.states)
        _show(chosen, [_alone(search, chosen) for _ in range(arguments.rounds)])


def _show(world: World, rounds: list[Round]) -> None:
    rates = [round_.states / round_.seconds for round_ in rounds]
    first = rounds[0]
    grown = median(round_.grown_mib for round_ in rounds)
    say(world.name)
    say(f"  {first.states} states, {first.transitions} transitions, depth {first.depth}, {first.end}")
    say(f"  {median(rates):.0f} states a second (from {min(rates):.0f} to {max(rates):.0f} in {len(rounds)} rounds)")
    say(f"  {grown:.0f} MiB, {grown * 1024 * 1024 / first.states:.0f} bytes a state")


if __name__ == "__main__":
    main()
