"""`highwater bisect`: the first bad one of a folder of Kafka builds, found by performing one plan on some of them.

STORE/bisect/<plan>-<digest>/ledger   one row for each run; the digest is of the plan and of all builds in their order
STORE/<plan>/                         the runs with their pages
"""

import re
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from highwater.backends.real.systems.kafka.builds import ARCHIVES, named
from highwater.campaigns.bisection import Bisection, Found, Looked
from highwater.campaigns.campaign import Request
from highwater.cli import options
from highwater.cli.campaign import cleaned_up
from highwater.cli.declaration import takes
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan, checked, on_system, plan_digest
from highwater.plans.systems import OwnJars
from highwater.plans.text import load_plan
from highwater.rig.backend import BackendName
from highwater.runs.provenance import present_build
from highwater.runs.run import Keep, backend_named
from highwater.runs.summary import Summary
from highwater.runs.workers import Task, perform
from pipeline.ledger import Ledger
from pipeline.owner import owned
from pipeline.stamp import present_stamp
from pipeline.storage import storage_at

_STATE = "bisect"


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater bisect`."""

    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of builds, each a folder of jars or a tarball.")]
    plan: Annotated[Path, typer.Option(help="Plan file (YAML) that is performed on the builds.")]
    system: Annotated[str, typer.Option(metavar="NAME[:MODE]", help="kafka, kafka:zookeeper or kafka:kraft.")] = "kafka"
    order: Annotated[
        Path | None, typer.Option(help="File with the names of the builds, oldest first, one a line; by name if not given.")
    ] = None
    runs: Annotated[int, typer.Option(min=1, help="Runs of a build that must be VALID and live before it counts as good.")] = 1
    backend: options.BackendOption = None
    store: options.Store = Path("store")
    json: options.AsJson = False


@takes(Options)
def bisect(arguments: Options) -> int:
    """Find the first bad one of a folder of Kafka builds with a plan; a run that shows nothing is repeated, never called good."""
    if arguments.backend == "sim":
        raise UsageError("builds of Kafka are run with --backend process or docker, not sim")
    backend: BackendName = arguments.backend or "process"
    paths = builds_in(arguments.folder, arguments.order)
    builds = [(path.name, named(path)) for path in paths]
    plan = load_plan(arguments.plan)
    work = _Work(arguments, plan, backend)
    for _, jars in builds:
        work.refuse(jars)
    folder = options.writable_folder(arguments.store) / _STATE / f"{plan.name}-{_identity_of_runs(work, builds)}"
    if not arguments.json:
        say(f"plan {plan.name}  {len(builds)} builds in {arguments.folder}  a good build needs {arguments.runs} good runs")
    with owned(storage_at(str(folder))), cleaned_up(backend):
        ledger = Ledger(storage_at(str(folder / "ledger")))
        ledger.mend(present_stamp().code)
        tell = partial(_tell, show=not arguments.json)
        bisection = Bisection(builds, work.perform, ledger, wanted=arguments.runs, tell=tell).find()
    say_json(bisection) if arguments.json else say(_conclusion_line(bisection))
    return bisection.exit


def builds_in(folder: Path, order: Path | None) -> list[Path]:
    """The builds of a folder, oldest first: as the file says, else by name numbers by value. UsageError for fewer than two."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder of builds")
    if order is None:
        entries = [path for path in folder.iterdir() if not path.name.startswith(".")]
        paths = [path for path in entries if path.is_dir() or path.name.endswith(ARCHIVES)]
        paths.sort(key=lambda path: _natural(path.name))
    else:
        paths = [folder / line.strip() for line in _lines_of_file(order) if line.strip()]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise UsageError(f"{order} names {twice.name} twice")
    if len(paths) < 2:
        raise UsageError(f"{folder} has {len(paths)} builds (folders and {', '.join(ARCHIVES)}); a bisection needs two at least")
    return paths


def _natural(name: str) -> list[tuple[str, int]]:
    """The texts of a name, each with the number behind it: build-9 comes before build-10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def _lines_of_file(file: Path) -> list[str]:
    """The lines of a text file. UsageError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no text in UTF-8") from None


class _Work:
    """Performs the plan on a build."""

    def __init__(self, arguments: Options, plan: Plan, backend: BackendName) -> None:
        self.plan = plan
        self.backend = backend
        self.system = arguments.system
        self._arguments = arguments
        self._keep = Keep(store=arguments.store)
        self._build = present_build()

    def request(self, jars: OwnJars) -> Request:
        """The options that put this build on the stage."""
        return Request(system=self.system, jars=jars, backend=self.backend)

    def plan_on(self, jars: OwnJars) -> Plan:
        """The plan with this build as its system."""
        return checked(on_system(self.plan, self.request(jars).spec))

    def refuse(self, jars: OwnJars) -> None:
        """UsageError if the plan cannot be performed on this build."""
        reason = backend_named(self.backend).refuse(self.plan_on(jars))
        if reason is not None:
            raise UsageError(f"{jars.path}: {reason}")

    def perform(self, jars: OwnJars) -> Summary:
        """Perform the plan once on this build, and judge the run."""
        request = self.request(jars)
        repeat = f"highwater run --plan {self._arguments.plan}{request.words}"
        repeat += f" --backend {self.backend}" if self.backend != "process" else ""
        return perform(Task(plan=self.plan_on(jars), repeat=repeat, build=self._build, keep=self._keep, backend=self.backend))


def _identity_of_runs(work: _Work, builds: Sequence[tuple[str, OwnJars]]) -> str:
    """12 hex digits over what the runs depend on: the plan, how it is performed, and the builds in their order."""
    named_builds = [(name, jars.digest) for name, jars in builds]
    content = msgspec.json.encode((plan_digest(work.plan), work.system, work.backend, named_builds))
    return blake2b(content, digest_size=6).hexdigest()


def _tell(looked: Looked, *, show: bool) -> None:
    """Print what a build turned out to be."""
    if show:
        say(f"{looked.standing:<9}  {looked.name} ({looked.jars.version}), {len(looked.runs)} runs: {looked.words}")


def _conclusion_line(bisection: Found) -> str:
    """The line with the result."""
    by_name = {build.name: build for build in bisection.builds}
    undecided = ", ".join(build.name for build in bisection.builds if build.standing == "undecided")
    beside = f"; undecided: {undecided}" if undecided else ""
    if bisection.exit is ExitCode.VALID:
        return f"no bad build: the newest, {bisection.last_good}, is good"
    if bisection.first_bad is None:
        return f"unknown: the newest build is undecided ({undecided})"
    bad = by_name[bisection.first_bad]
    if bisection.exit is ExitCode.INVALID:
        before = f", after {bisection.last_good}" if bisection.last_good else ", the oldest build"
        return f"first bad: {bad.name} ({bad.jars.version}){before}: {bad.words}{beside}"
    after = f"after {bisection.last_good} and " if bisection.last_good else ""
    return f"unknown: the first bad build comes {after}not later than {bad.name}{beside}"
