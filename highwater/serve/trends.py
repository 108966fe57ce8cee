"""Trends over the campaigns of a store: shares of runs that are INVALID or not live, and the faults that acted.

Like is compared with like. Two campaigns belong to one trend if the commands that repeat their runs differ in the seed alone:
protocol or system, backend, faults, workload, length, derivation. Campaigns that have not ended are left out, because runs that
fail soon end soon; so are runs of plans, which have no seed.
"""

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from highwater.serve.catalog import CampaignRow, Run, Snapshot
from reports.trends import Share

_SEED = re.compile(r" --seed (\S+)")


class Step(Struct, frozen=True, kw_only=True):
    """The runs of one campaign in a trend."""

    campaign: CampaignRow
    seeds: str  # "1 to 40"
    invalid: Share
    stuck: Share  # not live
    other: int  # UNKNOWN, or not performed
    acted: int  # kinds of faults that acted


class Trend(Struct, frozen=True, kw_only=True):
    """Campaigns that performed seeds with one command, in the order in which they began."""

    command: str  # without the seed
    steps: tuple[Step, ...]


class Trends(Struct, frozen=True, kw_only=True):
    """All trends of a store, and what belongs to none."""

    found: tuple[Trend, ...]
    single: int  # commands that a single campaign used
    left_out: int  # campaigns that have not ended, or share their name with another one


def trends_of(snapshot: Snapshot) -> Trends:
    """The trends of a store, those with most campaigns first."""
    names = Counter(entry.name for entry in snapshot.campaigns)
    ended = {entry.name: entry for entry in snapshot.campaigns if entry.begun_ns and not entry.running and names[entry.name] == 1}
    groups: dict[str, dict[str, list[Run]]] = {}
    for run in snapshot.runs:
        if run.campaign in ended and _SEED.search(run.repeat):
            groups.setdefault(_SEED.sub("", run.repeat), {}).setdefault(run.campaign, []).append(run)
    steps = [
        Trend(
            command=command,
            steps=tuple(_step(ended[name], of[name]) for name in sorted(of, key=lambda name: (ended[name].begun_ns, name))),
        )
        for command, of in groups.items()
        if len(of) > 1
    ]
    requested = sum(entry.begun_ns > 0 for entry in snapshot.campaigns)
    return Trends(
        found=tuple(sorted(steps, key=lambda trend: (-len(trend.steps), trend.command))),
        single=len(groups) - len(steps),
        left_out=requested - len(ended),
    )


def _step(campaign: CampaignRow, runs: Sequence[Run]) -> Step:
    """A campaign's point in the trends."""
    verdicts = Counter(run.verdict for run in runs)
    seeds = sorted({int(match[1], 0) for run in runs if (match := _SEED.search(run.repeat)) is not None})

    def share(count: int) -> Share:
        return Share(campaign=campaign.name, count=count, runs=len(runs))

    return Step(
        campaign=campaign,
        seeds=f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
        invalid=share(verdicts["INVALID"]),
        stuck=share(sum(run.live is False for run in runs)),
        other=len(runs) - verdicts["INVALID"] - verdicts["VALID"],
        acted=len({fault.kind for run in runs for fault in run.faults if fault.acted}),
    )
