"""Runs in the tests of another project: perform a plan or a seed, and say in one text how it failed (docs/pytest.md).

`perform` keeps plan, history and page of a run that does not go as expected. `complaint` builds the text that a red test shows;
`highwater chaos` says the same of its red runs. The plugin of pytest (`highwater.pytest_plugin`) is made of these two.
"""

from collections.abc import Collection
from pathlib import Path

from highwater.campaigns.corpus import Case, Expectation
from highwater.campaigns.corpus import complaint as _sentence
from highwater.campaigns.red import lines_of, red_of
from highwater.cli.choosing import Chosen, choose
from highwater.cli.choosing import perform as _perform
from highwater.runs.run import Judged, Keep

__all__ = ["Chosen", "Judged", "choose", "complaint", "perform"]


def perform(chosen: Chosen, *, folder: Path = Path("store")) -> Judged:
    """Perform a plan and judge its history; a run that is not VALID and live is stored with its page under `folder`.

    Raises UsageError if the backend cannot perform the plan, HarnessError if the harness failed, CrashError if the protocol did.
    """
    return _perform(chosen, Keep(store=folder, only_failures=True))


def complaint(
    judged_run: Judged, *, kinds: Collection[str] = (), folder: Path = Path("store"), plan: Path | None = None
) -> str | None:
    """Say how a run differs from what is expected, with anomalies, plan, page and the command to repeat it; None if it does not.

    Expected is VALID and live; with `kinds`, INVALID with an anomaly of each of these kinds. `folder` is the one that the run is
    stored in, `plan` the file of its plan.
    """
    summary = judged_run.summary
    expected = Expectation(
        protocol=summary.played,
        verdict="INVALID" if kinds else "VALID",
        kinds=tuple(kinds),
        live=None if kinds else True,
    )
    sentence = _sentence(
        Case(entry=judged_run.plan.name, expectation=expected, plan=judged_run.plan, repeat=summary.repeat), summary
    )
    if sentence is None:
        return None
    red = red_of(summary, folder, sentence=sentence, plan=str(plan or ""))
    return "\n".join(lines_of([red]))
