"""`highwater explore ablate`: which switch of `safe` matters in a small world, and what falls without it."""

from collections import Counter
from time import process_time
from typing import Annotated

import typer
from msgspec import Struct

from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.explore_worlds import Coordination, MemoryMib, Moving, World, bounds_of, repeat
from highwater.cli.output import say, say_json
from highwater.cli.searching import Manner, Question, check_searchable, memory_limit_mib
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.explore.ablation import Ablation, Ablations, switches
from highwater.explore.state import Bounds

_SAFE = "safe"


class Options(Struct, frozen=True, kw_only=True):
    """The options of `explore ablate`."""

    world: Annotated[World, "World"] = World()
    moving: Annotated[Moving, "World"] = Moving()
    coordination: Annotated[Coordination, "World"] = Coordination()
    budget_seconds: Annotated[int, typer.Option(min=1, help="CPU seconds for each of the searches on each switch.")] = 120
    memory_mib: MemoryMib = None
    json: options.AsJson = False


class AblatedSwitch(Struct, frozen=True, kw_only=True):
    """One line of the JSON object: what fell without this switch, or that nothing did."""

    switch: str
    value: str
    fell: str
    strategy: str | None
    toward: str
    depth: int
    makes_no_difference: bool
    stuck: str
    states: int
    seconds: float


class Ablated(Struct, frozen=True, kw_only=True):
    """The JSON object that `explore ablate --json` prints."""

    bounds: Bounds
    states_of_safe: int
    switches: tuple[AblatedSwitch, ...]
    stopped_by: str
    repeat: str


@takes(Options)
def ablate(arguments: Options) -> int:
    """Take each switch out of `safe`, alone, and search; print each switch when its searches are over."""
    question = Question(bounds=bounds_of(arguments.world, arguments.coordination, arguments.moving))
    bounds = question.bounds
    check_searchable(question, Manner())
    done: list[AblatedSwitch] = []
    stopped = ""
    safe = 0
    try:
        ablations = Ablations(bounds, arguments.budget_seconds, arguments.memory_mib or memory_limit_mib(), process_time)
        safe = ablations.safe.states
        if ablations.safe.violations:
            raise UsageError(f"{_SAFE} itself loses {ablations.safe.violations[0].name} in this world")
        whole = "all" if ablations.safe.end == "exhausted" else f"stopped at {ablations.safe.stopped_by}"
        if not arguments.json:
            say(f"safe: {safe} states ({whole}), {ablations.safe.transitions} transitions, nothing falls")
        for ablation in ablations.run():
            done.append(_json_row(ablation))
            if not arguments.json:
                say(_line_of_ablation(ablation))
    except KeyboardInterrupt:
        stopped = "an interrupt"
    again = repeat("ablate", question) + f" --budget-seconds {arguments.budget_seconds}"
    ablated = Ablated(bounds=bounds, states_of_safe=safe, switches=tuple(done), stopped_by=stopped, repeat=again)
    if arguments.json:
        say_json(ablated)
    else:
        _say_totals(ablated)
    return ExitCode.UNKNOWN if stopped else ExitCode.VALID


def _json_row(ablation: Ablation) -> AblatedSwitch:
    """An ablation as the JSON object shows it."""
    return AblatedSwitch(
        switch=ablation.switch,
        value=ablation.value,
        fell=ablation.fell,
        strategy=ablation.strategy,
        toward=ablation.toward,
        depth=ablation.depth,
        makes_no_difference=ablation.same and not ablation.fell,
        stuck=ablation.stuck,
        states=ablation.states,
        seconds=round(ablation.seconds, 1),
    )


def _line_of_ablation(ablation: Ablation) -> str:
    """An ablation as a line."""
    head = f"{ablation.switch}={ablation.value}:"
    if ablation.fell:
        led = f" toward {ablation.toward}" if ablation.toward else ""
        return f"{head} {ablation.fell} falls after {ablation.depth} actions, found {ablation.strategy}{led}"
    if ablation.stuck:
        return f"{head} the cluster does not start with it alone: {ablation.stuck}"
    if ablation.same:
        return f"{head} makes no difference in this world"
    return f"{head} nothing falls; {ablation.states} states{'' if ablation.whole else ', not the whole world'}"


def _kind_of_ending(row: AblatedSwitch) -> str:
    """How taking the switch out ended."""
    if row.fell:
        return "fell"
    if row.stuck:
        return "stuck"
    return "same" if row.makes_no_difference else "held"


def _say_totals(ablated: Ablated) -> None:
    """Print how many switches ended in each way."""
    counts = Counter(map(_kind_of_ending, ablated.switches))
    untried = sum(1 for _ in switches()) - len(ablated.switches)
    say(
        f"{counts['fell']} switches are needed, {counts['same']} make no difference in this world, "
        f"without {counts['held']} nothing fell within the budget, {counts['stuck']} cannot be taken out alone"
    )
    if ablated.stopped_by:
        say(f"stopped at {ablated.stopped_by}: {untried} switches not tried")
    say(f"repeat  {ablated.repeat}")
