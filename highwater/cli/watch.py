"""`highwater watch`: follow a campaign in the terminal, from its ledger alone."""

from time import sleep
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from highwater.campaigns.progress import CampaignProgress, Status
from highwater.cli import options
from highwater.cli.output import say, say_json

_BAR = 40  # characters


def watch(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Folder or URI of a campaign: STORE/campaigns/NAME.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Print the status once and exit.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks at the ledger.")] = 2.0,
    json: options.AsJson = False,
) -> int:
    """Show how far a campaign is: verdicts, rate, time left, latest failures; ends when all runs are finished."""
    progress = CampaignProgress(campaign)
    if json:
        say_json(progress.status())
    elif once or not Console().is_terminal:
        say("\n".join(status_lines(progress.status())))
    else:
        _show_until_complete(progress, every)
    return 0


def _show_until_complete(progress: CampaignProgress, every: float) -> None:
    """Show the state again and again until the campaign is complete."""
    with Live(Text(), auto_refresh=False) as live:
        while True:
            status = progress.status()
            live.update(Text("\n".join(status_lines(status)), no_wrap=True, overflow="ellipsis"), refresh=True)
            if status.is_complete:
                return
            sleep(every)


def status_lines(status: Status) -> list[str]:
    """A status as lines of text."""
    filled = _BAR * status.finished // max(status.wanted, 1)
    percent = 100 * status.finished // max(status.wanted, 1)
    lines = [f"{'█' * filled}{'░' * (_BAR - filled)} {status.finished} of {status.wanted} runs, {percent} %"]
    counts = [f"{count} {verdict}" for verdict, count in status.verdicts.items()]
    counts += [f"{status.not_live} not live", f"{status.lost} without a run"]
    lines.append("verdicts  " + ", ".join(counts))
    if status.is_complete:
        lines.append("complete")
    elif status.idle_s is None:
        lines.append("no run is finished yet")
    else:
        rate = "rate not known yet" if status.runs_per_minute is None else f"{status.runs_per_minute} runs a minute"
        time_left = "" if status.eta_s is None else f", {_time_in_words(status.eta_s)} left"
        lines.append(f"rate      {rate}{time_left}; the last run finished {_time_in_words(status.idle_s)} ago")
    for failure in status.failures:
        lines.append(f"  {failure.key}: {failure.words}")
        if failure.repeat:
            lines.append(f"    repeat: {failure.repeat}")
    return lines


def _time_in_words(seconds: float) -> str:
    """ "45 s", "12 min 5 s", "3 h 20 min"."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
