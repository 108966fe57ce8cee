"""`highwater report`: judge a stored run again and render its HTML page."""

import os
import re
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.verdict import Verdict
from highwater.cli import options
from highwater.cli.output import complain, say, say_json
from highwater.cli.run import headline
from highwater.errors import UsageError
from highwater.exit_codes import of_verdict
from highwater.plans.plan import Plan, checked
from highwater.rig.backend import REPEATABLE
from highwater.runs.beside import Stored, links_of, put_beside, stored_run
from highwater.runs.findings import VALIDITY_NAMES
from highwater.runs.first_call import keep_first_call, kept_first_call
from highwater.runs.page import write_page
from highwater.runs.provenance import present_build
from highwater.runs.repeating import repeat_of
from highwater.runs.revisions import commit_of, highwater_on, protocol_of
from highwater.runs.run import Keep, backend_named, carry_out, judge
from history import store
from history.history import History
from reference.config import VARIANTS
from reports.first_call import FirstCall
from reports.svg import NS_PER_S
from reports.trace import trace_json


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a stored run.")],
    *,
    output: Annotated[Path | None, typer.Option(help="File for the page; in the run's folder if not given.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the run in Perfetto's trace format to this file.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="Seconds of the run that pictures and event log show; of a long run its cause."),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER",
            help="Also write a page of the run beside another one: the folder of a stored run, or a protocol or a commit of "
            "highwater on which the plan of this run is performed and stored.",
        ),
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Judge a stored run with the current checkers and render its page."""
    history = store.load_run(run)
    plan = _plan_text(run / store.PLAN)
    page = options.writable_file(output or run / store.REPORT)
    span_shown = None if window is None else _parse_window(window)
    verdict = judge(history)
    compared = None if beside is None else _write_beside(run, history, verdict, beside)
    repeat = repeat_of(run, history.manifest.backend)
    links = links_of(run) if output is None else ()
    first_call = kept_first_call(run)
    write_page(page, history, verdict, plan=plan, repeat=repeat, links=links, window=span_shown, first_call=first_call)
    if trace is not None:
        store.write_file(options.writable_file(trace), trace_json(history, verdict))
    if json:
        arguments = {} if compared is None else compared.as_json
        say_json({"run": str(run), "report": str(page), "verdict": VALIDITY_NAMES[verdict.validity], **arguments})
    else:
        say(headline(history.manifest))
        say(f"{VALIDITY_NAMES[verdict.validity]}: {page}")
        if compared is not None:
            say(f"beside  {compared.verdict}: {compared.page}")
            say(f"parts   {compared.parting}")
            if compared.first_call is not None:
                say(f"call    {compared.first_call.sentence}")
    if compared is not None and compared.warning:
        complain(compared.warning)
    return of_verdict(verdict.validity, live=verdict.live)


def _parse_window(text: str) -> tuple[int, int]:
    """A window in seconds, "190..250.5", in ns."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\.\.(\d{1,9}(?:\.\d+)?)", text)
    if match is None or float(match[1]) >= float(match[2]):
        raise UsageError(f"--window {text}: give the first and the last second, for example 190..250")
    return int(float(match[1]) * NS_PER_S), int(float(match[2]) * NS_PER_S)


class _Beside(Struct, frozen=True, kw_only=True):
    """The page of a run beside another one. `warning`: why it may say less than the reader expects."""

    page: Path
    verdict: str  # of the other run
    parting: str  # where the two part
    warning: str = ""
    first_call: FirstCall | None = None  # that answers otherwise, where the other one is a commit

    @property
    def as_json(self) -> dict[str, object]:
        """Its part of the object that `--json` prints."""
        return {
            "beside": str(self.page),
            "beside_verdict": self.verdict,
            "parting": self.parting,
            "warning": self.warning,
            "first_call": self.first_call,
        }


def _write_beside(run: Path, history: History, verdict: Verdict, beside: str) -> _Beside:
    """Write the page of a run beside another one."""
    this_run = stored_run(run, verdict)
    name = os.path.relpath(beside, run) if Path(beside).is_dir() else beside
    repeat = f"highwater report . --beside {name}"
    if Path(beside).is_dir():
        words = ""
        name = ""
        run_beside = stored_run(Path(beside))
        found = None
    else:
        if history.manifest.backend not in REPEATABLE or this_run.plan is None:
            raise UsageError(
                f"--beside {beside} performs the plan in the simulator; {run} is of backend {history.manifest.backend}"
            )
        words, (name, run_beside, found) = beside, _run_beside(run, this_run.plan, beside)
    written = put_beside(this_run, run_beside, repeat=repeat, words=words, name=name, first_call=found)
    same = this_run.plan == run_beside.plan and this_run.history.digest == run_beside.history.digest
    warning = f"--beside {beside}: the run beside this one is the same, row by row" if same else ""
    return _Beside(page=written.page, verdict=written.verdict, parting=written.parting, warning=warning, first_call=found)


_Neighbour = tuple[str, Stored, FirstCall | None]


def _run_beside(run: Path, plan: Plan, beside: str) -> _Neighbour:
    """Perform the plan on another protocol, or on that of a commit.

    The stored run, after the name of the page if it has one, before the first call that answers otherwise than by that commit.
    """
    if beside not in VARIANTS:
        return _run_on_commit(run, beside)
    changed = checked(replace(plan, protocol=beside, variant=None))
    folder = options.writable_folder(run.resolve().parent.parent)
    again = f"highwater run --plan {run / store.PLAN} --protocol {beside}"
    summary = carry_out(changed, backend_named("sim"), build=present_build(), repeat=again, keep=Keep(store=folder)).summary
    assert summary.store is not None
    return "", stored_run(folder / summary.store), None


def _run_on_commit(run: Path, revision: str) -> _Neighbour:
    """The same plan on the protocol of another commit, stored below this run."""
    option = "--beside"
    try:
        name = f"commit-{commit_of(revision, option=option)[:12]}"
    except UsageError as error:
        raise UsageError(
            f"--beside {revision}: neither the folder of a stored run, nor a protocol (`highwater protocols` lists these), "
            f"nor a commit of highwater: {str(error).removeprefix(f'{option} {revision}: ')}"
        ) from None
    folder = run / name
    with protocol_of(revision, option=option) as protocol:
        plan = ("--plan", str(run / store.PLAN), "--store", str(folder))
        highwater_on(protocol, "run", *plan, what=f"{option} {revision}")
        first_call = keep_first_call(run, protocol, revision)
    stored = [path.parent for path in folder.glob(f"*/*/{store.MANIFEST}")]
    if len(stored) != 1:
        raise UsageError(f"{option} {revision}: its protocol performed no run of this plan")
    return name, stored_run(stored[0]), first_call


def _plan_text(plan: Path) -> str:
    """The plan's text, not parsed: a stored plan may be invalid today."""
    try:
        return plan.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {plan}: {reason}") from error
