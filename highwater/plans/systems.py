"""The system under test as a plan names it, and its words on the command line: kafka:3.9.1, kafka:2.8.2..3.9.1, external."""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from highwater.errors import UsageError
from history.manifest import SystemFacts
from reference.config import NEWEST, RELEASES

REFERENCE = "reference"  # the system of a plan that names none
_TO, _AND = "..", "_"  # in the words of a system, behind the versions that its brokers start as and between them
_APART = "-apart"  # before the number of controllers
CONTROLLERS_MAX = 9


class OwnJars(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A build of the user's own: a folder of jars, or a tarball of them. What is left empty is not compared.

    `version` is that of the broker and the name of the build: 4.1.0-patched. A build with another digest is refused.
    """

    path: str
    version: str = ""
    digest: str = ""


class SystemSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The system under test. `settings` are in the system's own words and override those that the harness gives each node.

    `starts`: the versions that the brokers run before a fault rolls them to `version`, one for all of them or one for each.
    `controllers`: how many run apart from the brokers (KRaft); unset, each broker is one.
    """

    name: str
    version: str = ""
    starts: tuple[str, ...] = ()
    settings: dict[str, str | int | bool] = {}
    jars: OwnJars | UnsetType = UNSET  # then `version` says how the build coordinates, or nothing
    controllers: int | UnsetType = UNSET


def parsed_system(text: str) -> SystemSpec:
    """A system from its words: "kafka:3.9.1", "external". Which names and versions there are, the real backends know.

    "kafka:2.8.2..3.9.1" is 3.9.1, whose brokers start as 2.8.2; "kafka:2.8.2_3.9.1_3.9.1..3.9.1" says so for each broker.
    "kafka:4.1.0-apart3" is 4.1.0 with three controllers apart from the brokers.
    """
    name, _, versions = text.partition(":")
    starts, dots, last = versions.rpartition(_TO)
    version, counted, count = last.rpartition(_APART)
    apart = counted and count.isdecimal() and 1 <= int(count) <= CONTROLLERS_MAX
    return SystemSpec(
        name=name,
        version=version if apart else last,
        starts=tuple(starts.split(_AND)) if dots else (),
        controllers=int(count) if apart else UNSET,
    )


def described_system(text: str, described: str, jars: OwnJars | None = None) -> SystemSpec:
    """The system of these words, with the file that describes a user's cluster ("" for no file), or a build of the user's own.

    UsageError for a file, a build or a version that the system does not take.
    """
    system = parsed_system(text)
    versions = unknown_versions(system)
    if versions is not None:
        raise UsageError(versions)
    if jars is not None:
        if system.name != "kafka":
            raise UsageError(f"--jars is a build of the system kafka, not of {system.name}")
        return replace(system, jars=jars)
    if not described:
        return system
    if system.name != "external":
        raise UsageError(f"--with describes the system external, not {system.name}")
    return replace(system, settings={"with": described})


def version_of(system: SystemSpec) -> str:
    """The version of a system; of a user's build with how it coordinates, where that was asked for: 3.9.1-patched-kraft.

    Behind the versions that its brokers start as: 2.8.2..3.9.1. Before the number of controllers apart from them: 4.1.0-apart3.
    """
    version = system.version
    if system.jars is not UNSET:
        version = "-".join(filter(None, (system.jars.version, system.version)))
    version += "" if system.controllers is UNSET else f"{_APART}{system.controllers}"
    return f"{_AND.join(system.starts)}{_TO}{version}" if system.starts else version


def words_of(system: SystemSpec | SystemFacts) -> str:
    """A system with its version, as the command line gives it unless it is a user's build: kafka:3.9.1."""
    version = version_of(system) if isinstance(system, SystemSpec) else system.version
    return f"{system.name}:{version}" if version else system.name


def unknown_versions(system: SystemSpec) -> str | None:
    """Why the reference cannot be of the versions that are named, in a sentence; None if it can, or for another system.

    Nor has it controllers that a version could put apart from its brokers.
    """
    if system.name != REFERENCE:
        return None
    if system.controllers is not UNSET:
        return f"each broker of the reference may be controller; none run apart, as in {words_of(system)}"
    unknown = next((v for v in (system.version or NEWEST, *system.starts) if v not in RELEASES), None)
    if unknown is None:
        return None
    return f"the versions of the reference are {', '.join(RELEASES)}, not {unknown}, as in {words_of(system)}"
