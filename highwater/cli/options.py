"""Options that several commands share, and the parsers of their values."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Literal

import typer
from msgspec import Struct

from highwater.errors import UsageError
from highwater.plans.derive import MIXED, check_derivation
from highwater.plans.plan import DRAWS_END, METRICS_MS_MAX, METRICS_MS_MIN, Plan, system_of
from highwater.plans.systems import REFERENCE, OwnJars, parsed_system
from highwater.rig.backend import BackendName
from history.fault_kinds import FAMILIES, KIND_NAMES
from nemesis.kinds import MIXES
from nemesis.profiles import ProfileName
from pipeline.session import full_master, parse_conf, watched
from reference.config import VARIANTS
from workloads.registry import WORKLOADS

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
All = Annotated[bool, typer.Option("--all", help="Print every finding, not only the worst one.")]
Derivation = Annotated[
    int | None,
    typer.Option(min=1, help="Version of the derivation that the seeds are of, as repeat lines name it; another one is refused."),
]


def lowered(value: str | list[str] | None) -> str | list[str] | None:
    """Names in lower case, as all are: V3 is v3."""
    return [text.lower() for text in value] if isinstance(value, list) else value and value.lower()


def protocols_like(incomplete: str) -> list[str]:
    """What a shell offers for a protocol."""
    return _completions(incomplete, VARIANTS)


def faults_like(incomplete: str) -> list[str]:
    """What a shell offers for a fault kind, family or mix."""
    return _completions(incomplete, (*MIXES, *FAMILIES, *KIND_NAMES))


def workloads_like(incomplete: str) -> list[str]:
    """What a shell offers for a workload."""
    return _completions(incomplete, (MIXED, *WORKLOADS))


def systems_like(incomplete: str) -> list[str]:
    """What a shell offers for a system under test: those that the project tests."""
    from highwater.backends.real.systems.kafka.releases import TESTED  # only while a shell completes a line

    return _completions(incomplete, (REFERENCE, *(f"kafka:{release.version}" for release in TESTED), "external"))


def models_like(incomplete: str) -> list[str]:
    """What a shell offers for a model of a history."""
    from highwater.foreign.files import MODELS  # as above

    return _completions(incomplete, MODELS)


def _completions(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, begun = incomplete.rpartition(",")  # several names have commas between them
    return [before + comma + name for name in names if name.startswith(begun)]


Protocol = Annotated[
    str,
    typer.Option(
        help="Protocol variant: safe, v3 or another of `highwater protocols`.", callback=lowered, autocompletion=protocols_like
    ),
]
ProtocolIfAny = Annotated[
    str | None,
    typer.Option(
        help="Protocol variant: safe, v3 or another of `highwater protocols`; the plan's, or safe for a seed.",
        callback=lowered,
        autocompletion=protocols_like,
    ),
]
Faults = Annotated[
    str,
    typer.Option(
        help=f"Mixes ({', '.join(MIXES)}), families ({', '.join(FAMILIES)}) or kinds of `highwater faults`, separated by commas; "
        "the profile's default kinds if empty.",
        callback=lowered,
        autocompletion=faults_like,
    ),
]
ProfileOption = Annotated[ProfileName, typer.Option(help="Whether faults stay within what the promise allows or go beyond it.")]
Seconds = Annotated[
    int | None, typer.Option(min=1, max=86_400, help="Seconds of workload and faults; drawn from the seed if not given.")
]
Workload = Annotated[
    str,
    typer.Option(
        help=f"Workload of the clients: {', '.join(WORKLOADS)}; with `{MIXED}` the seed chooses one (simulator only).",
        callback=lowered,
        autocompletion=workloads_like,
    ),
]
Settings = Annotated[
    Literal["drawn", "document", "alike"],
    typer.Option(
        help="Settings of brokers: drawn from the seed, those that the document of v3 or article states (10,000 ms, 4,000 "
        "messages, 30 s) where it states any, or short timeouts that are alike for all seeds, so that a campaign keeps the "
        "brokers of another system."
    ),
]
Metrics = Annotated[
    int | None,
    typer.Option(
        min=METRICS_MS_MIN,
        max=METRICS_MS_MAX,
        metavar="MS",
        help="Read the metrics of each broker so often, record what changes, judge it, and draw it in the run's page.",
    ),
]
BackendOption = Annotated[
    BackendName | None,
    typer.Option(help="Backend that performs the plan; `sim` if not given, `process` for another system than the reference."),
]
System = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:VERSION]",
        help="System under test, see `highwater systems`; the plan's, or the reference.",
        autocompletion=systems_like,
    ),
]
Store = Annotated[Path, typer.Option(help="Folder in which runs are stored.")]
SparkEvents = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Show Spark's web pages while it works, and write its event log to this folder or URI."),
]
Spark = Annotated[str | None, typer.Option(metavar="MASTER", help="Work on Spark with this master, for example 'local[*]'.")]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="KEY=VALUE", help="A setting of Spark (docs/campaigns.md); may be repeated."),
]
Bisect = Annotated[
    bool, typer.Option("--bisect", help="Exit as `git bisect run` wants it: 0 good, 1 bad, 125 not to be judged at this commit.")
]
Shrink = Annotated[
    float,
    typer.Option(
        min=0, metavar="SECONDS", help="CPU seconds to spend on shrinking the first failure of each signature; 0: none."
    ),
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Number of worker processes; one per core if not given.")]
With = Annotated[
    Path | None, typer.Option("--with", metavar="FILE", help="File that describes the cluster, for --system external.")
]


JarsOption = Annotated[
    Path | None,
    typer.Option(
        "--jars",
        metavar="FOLDER|TARBALL",
        help="A build of Kafka of your own, for --system kafka (or kafka:kraft, kafka:zookeeper).",
    ),
]


Client = Annotated[
    str | None,
    typer.Option("--client", metavar="NAME:VERSION", help="Library of clients, not librdkafka: java:4.1.0, franz-go:1.22.3."),
]


class Load(Struct, frozen=True, kw_only=True):
    """How the plan of a seed loads the cluster: the fields of `highwater.campaigns.load.Load`, with their help."""

    profile: ProfileOption = "within"
    seconds: Seconds = None
    workload: Workload = MIXED
    settings: Annotated[Settings, "Brokers"] = "drawn"
    metrics: Annotated[Metrics, "Brokers"] = None


class UnderTest(Struct, frozen=True, kw_only=True):
    """What is tested in place of the reference."""

    system: System = None
    described: With = None
    jars: JarsOption = None
    client: Client = None

    @property
    def library(self) -> str:
        """The clients' library; empty: librdkafka, or the reference's own clients. UsageError for an option without a name."""
        if self.client == "":
            raise UsageError("--client needs a library and its version, such as java:4.1.0")
        return self.client or ""

    @property
    def name(self) -> str:
        """The system; empty: the reference."""
        return self.system or ""

    @property
    def file(self) -> str:
        """The file that describes the cluster; empty without one."""
        return str(self.described or "")

    @property
    def build(self) -> OwnJars | None:
        """The user's build as it is now; None if there is none. UsageError if it cannot run."""
        if self.jars is None:
            return None
        from highwater.backends.real.systems.kafka.builds import named  # most commands need no system but the reference

        return named(self.jars)


class OnSpark(Struct, frozen=True, kw_only=True):
    """The Spark that works."""

    spark: Spark = None
    spark_conf: SparkConf = None
    spark_events: SparkEvents = None

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark. UsageError or PipelineError for invalid ones, or for an invalid master."""
        if self.spark_events is None:
            return spark_settings(self.spark, self.spark_conf)
        if self.spark is None:
            raise UsageError("--spark-events needs --spark MASTER")
        return watched(self.spark_events) | spark_settings(self.spark, self.spark_conf)


def backend_for(backend: BackendName | None, plan: Plan | None, system: str | None) -> BackendName:
    """The backend that was asked for, else the one that fits the system of the command line or of the plan."""
    if backend is not None:
        return backend
    system_name = parsed_system(system).name if system is not None else REFERENCE if plan is None else system_of(plan).name
    return "sim" if system_name == REFERENCE else "process"


def spark_settings(master: str | None, texts: list[str] | None) -> dict[str, str]:
    """The settings of Spark. UsageError or PipelineError for invalid ones, or for an invalid master."""
    if master is None:
        if texts:
            raise UsageError("--spark-conf needs --spark MASTER")
        return {}
    full_master(master)
    return parse_conf(texts or ())


def seed_of(text: str) -> int:
    """Parse a seed: decimal, 0x…, or the 16 hex digits that every output starts with."""
    try:
        seed = int(text, 16) if re.fullmatch(r"[0-9a-fA-F]{16}|0x[0-9a-fA-F]+", text) else int(text)
    except ValueError:
        raise UsageError(f"seed must be a number from 0 to 2^64-1 or 16 hex digits, not {text!r}") from None
    if not 0 <= seed < DRAWS_END:
        raise UsageError(f"seed must be from 0 to 2^64-1, not {text}")
    return seed


def check_seeds(derivation: int | None, *, foreign: bool) -> None:
    """Refuse seeds of another version of the derivation; None means the present one. PlanError says how to repeat them.

    With `foreign` they are seeds of a system other than the reference.
    """
    if derivation is not None:
        check_derivation(derivation, foreign=foreign)


def seed_not_file(text: str, *, files: str) -> int:
    """Parse a seed that was given in place of one of these files, which does not exist."""
    try:
        return seed_of(text)
    except UsageError:
        if "/" not in text and "." not in text:
            raise
        raise UsageError(f"{text}: no such {files}, and not a seed") from None


def seeds_of(text: str) -> range:
    """Parse `0..499` (both ends included) or one seed."""
    first, dots, last = text.partition("..")
    low = seed_of(first)
    high = seed_of(last) if dots else low
    if high < low:
        raise UsageError(f"seeds {text}: the first must not exceed the last")
    return range(low, high + 1)


def names_of(text: str) -> tuple[str, ...]:
    """Split `a,b` into names; empty parts are dropped."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def writable_folder(store: Path) -> Path:
    """Check that this folder is writable, or that it can be created; UsageError otherwise."""
    nearest = next(path for path in (store, *store.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise UsageError(f"{store}: {'' if nearest == store else f'{nearest} is '}not a folder")
    try:
        # Permission bits are not enough (root, read-only file systems), so create an unnamed file.
        TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise UsageError(f"cannot write to {store}: {error.strerror}") from error
    return store


def writable_file(path: Path) -> Path:
    """Check that a file can be written here, existing or not; UsageError otherwise."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file")
    writable_folder(path.parent)
    return path
