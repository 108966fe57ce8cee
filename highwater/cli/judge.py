"""`highwater judge`: judge stored runs with the current checkers, here or on Spark; write each verdict beside its run."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from checkers.verdict import Validity, Verdict
from highwater.cli import options
from highwater.cli.check import explained
from highwater.cli.output import progress, say, say_json
from highwater.exit_codes import WORDS, of_verdict, worst
from highwater.runs.run import encode_verdict, honest
from highwater.runs.run import judge as judge_history
from highwater.runs.summary import VALIDITY_NAMES
from history import store


class Row(Struct, frozen=True, kw_only=True):
    """The path and the new verdict of one judged run."""

    run: str
    verdict: str
    live: bool | None
    anomalies: int
    excused: int


def judge(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Stored runs, or folders that contain them.")],
    *,
    spark: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Judge on Spark with this master, for example 'local[*]'.")
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Judge stored runs with the current checkers; write each verdict beside its run."""
    runs = tuple(dict.fromkeys(run for path in paths for run in store.find_runs(path)))
    verdicts = _here(runs, quiet=json) if spark is None else _on_spark(runs, spark)
    rows = []
    for run, verdict in zip(runs, verdicts, strict=True):
        store.write_file(run / store.VERDICT, encode_verdict(verdict))
        rows.append(_row(run, verdict))
        if not json:
            say(f"{rows[-1].verdict:<8} {run}")
            for line in explained(verdict):
                say(f"  {line}")
            if verdict.validity is not Validity.VALID:
                say(f"  again: highwater check {run}")
    code = worst(of_verdict(v.validity, live=v.live) for v in verdicts)
    say_json({"exit": code, "runs": rows}) if json else say(f"{len(rows)} runs: {WORDS[code]}")
    return code


def _row(run: Path, verdict: Verdict) -> Row:
    return Row(
        run=str(run),
        verdict=VALIDITY_NAMES[verdict.validity],
        live=verdict.live,
        anomalies=len(verdict.anomalies),
        excused=len(verdict.excused),
    )


def _here(runs: tuple[Path, ...], *, quiet: bool) -> list[Verdict]:
    found = []
    with progress(len(runs), quiet=quiet) as ticker:
        for run in runs:
            found.append(judge_history(store.load_run(run)))
            ticker.tick(run.name)
    return found


def _on_spark(runs: tuple[Path, ...], master: str) -> list[Verdict]:
    # Imported here because Spark is slow to import and Java may be missing.
    from pipeline.jobs import judge as judge_on_spark

    verdicts = judge_on_spark(runs, master=master)
    return [honest(verdict, store.load_manifest(run).outcome) for run, verdict in zip(runs, verdicts, strict=True)]
