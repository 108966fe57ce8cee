"""The releases of Apache Kafka that can be put on the stage: how each coordinates, and the pinned jars of each.

A release on the list `TESTED` has its pins in `pins.json`: the Maven artifacts, and the SHA-256 of every jar that they bring with
them. Any other one that Maven has is pinned when it is fetched first: its pins lie beside its jars, and every later run compares.
What it needs beside its broker follows from its version.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from highwater.errors import HarnessError, UsageError
from highwater.plans.systems import CONTROLLERS_MAX

Mode = Literal["zookeeper", "kraft"]
KRAFT = "-kraft"  # ends the version of a release that can also run with ZooKeeper
PINNED_BESIDE = "pins.json"  # in the folder of a release that is not on the list
# With listeners that have names (KIP-103); with KRaft for production (KIP-833); without ZooKeeper.
_OLDEST, _QUORUM, _ONLY_QUORUM = (0, 10, 2), (3, 3), (4,)
_VERSION = re.compile(r"(\d+\.\d+\.\d+(?:\.\d+)?)(-kraft)?")


class Release(Struct, frozen=True, kw_only=True):
    """One release in one mode. `jars` is its version without the mode; `log4j` the major version of its logging library."""

    version: str
    jars: str
    mode: Mode
    heap_mb: int = 256
    log4j: Literal[1, 2] = 1
    idempotence: bool = True  # since 0.11
    administrators: bool = True  # since 2.4: requests move partitions, elect leaders, change settings (KIP-455, KIP-460, KIP-339)
    sessions: bool = False  # whether the workloads of transactions and groups are performed: from 2.8 on
    coordinator_assigns: bool = False  # whether groups may have their coordinator assign (KIP-848): from 4.0 on
    shares: bool = False  # whether share groups are ready for production (KIP-932): from 4.2 on
    voters_change: bool = False  # whether controllers leave a quorum and join it (KIP-853): from 3.9 on


class Pins(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pinned files of a release: Maven artifacts ("group:artifact:version"), and the SHA-256 of each jar by its name."""

    artifacts: tuple[str, ...]
    jars: dict[str, str]


def _release(version: str) -> Release:
    """A release with what follows from its version."""
    jars = version.removesuffix(KRAFT)
    return release_of(version, jars, "kraft" if _number(jars) >= _ONLY_QUORUM or jars != version else "zookeeper")


def release_of(version: str, number_text: str, mode: Mode) -> Release:
    """The release of this number, such as 3.9.1, in one mode; `version` is what it is called."""
    number = _number(number_text)
    return Release(
        version=version,
        jars=number_text,
        mode=mode,
        heap_mb=320 if number >= (3,) else 256,
        log4j=2 if number >= (4,) else 1,
        idempotence=number >= (0, 11),
        administrators=number >= (2, 4),
        sessions=number >= (2, 8),
        coordinator_assigns=number >= (4,),
        shares=number >= (4, 2),
        voters_change=number >= (3, 9),
    )


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


TESTED: tuple[Release, ...] = tuple(
    map(_release, ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2", "3.9.1", "3.9.1-kraft", "4.1.0", "4.2.0"))
)


def release_named(version: str) -> Release:
    """The release of this version. UsageError if there cannot be one that runs here."""
    read = _VERSION.fullmatch(version)
    tested = f"tested are {', '.join(release.version for release in TESTED)}"
    if read is None:
        apart = f", or 4.1.0-apart3, with 1 to {CONTROLLERS_MAX} controllers apart from the brokers"
        raise UsageError(f"{version!r} is no version of kafka, such as 3.7.0 or 3.7.0-kraft{apart}; {tested}")
    number = _number(read[1])
    if is_too_old(read[1]):
        raise UsageError(f"kafka {version} has no listeners with names, which came with 0.10.2 (KIP-103); {tested}")
    if read[2] and not has_quorum(read[1]):
        raise UsageError(f"kafka {read[1]} has no KRaft for production, which came with 3.3 (KIP-833); {tested}")
    if read[2] and number >= _ONLY_QUORUM:
        raise UsageError(f"kafka {read[1]} has KRaft alone: name it kafka:{read[1]}")
    return _release(version)


def number_of(release: Release) -> tuple[int, ...]:
    """The number of a release, by which releases are ordered."""
    return _number(release.jars)


def protocol_of(release: Release) -> str:
    """What a release calls the protocol between its brokers, and its feature level: 3.9, and 0.11.0 before 1.0."""
    number = number_of(release)
    return ".".join(map(str, number[: 2 if number >= (1,) else 3]))


def can_have_both(release: Release) -> bool:
    """Whether a release runs with ZooKeeper and with KRaft."""
    return _QUORUM <= _number(release.jars) < _ONLY_QUORUM


def neighbours(release: Release, others: Iterable[Release]) -> tuple[Release | None, Release | None]:
    """The next older and the next newer one of the others in the same mode; twice the same one, if it has the same number."""
    number = _number(release.jars)
    alike = sorted((similar for similar in others if similar.mode == release.mode), key=lambda similar: _number(similar.jars))
    older = next((similar for similar in reversed(alike) if _number(similar.jars) <= number), None)
    newer = next((similar for similar in alike if _number(similar.jars) >= number), None)
    return older, newer


def is_too_old(number: str) -> bool:
    """Whether the release of this number has no listeners with names."""
    return _number(number) < _OLDEST


def has_quorum(number: str) -> bool:
    """Whether the release of this number has KRaft for production."""
    return _number(number) >= _QUORUM


def artifacts_of(release: Release) -> tuple[str, ...]:
    """The Maven artifacts of a release: its broker, and what it lacks, or brings in a version that fails under Java 17."""
    number = _number(release.jars)
    broker = f"org.apache.kafka:kafka_{'2.13' if number >= (2, 4) else '2.11'}:{release.jars}"
    if number < (1,):
        return broker, "javax.xml.bind:jaxb-api:2.3.1"
    if (2,) <= number < (2, 4):
        return broker, "org.apache.zookeeper:zookeeper:3.4.10"  # 3.4.13 and later of 3.4 do not connect under Java 17
    if number >= (4,):
        return broker, "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"
    return broker, "org.slf4j:slf4j-reload4j:1.7.36"


@cache
def _all_pins() -> dict[str, Pins]:
    return msgspec.json.decode(files(__package__).joinpath("pins.json").read_bytes(), type=dict[str, Pins])


def pins_of(release: Release, folder: Path) -> Pins | None:
    """The pinned artifacts and jars of a release whose jars lie in this folder; None if it was never fetched.

    HarnessError if the pins beside the jars cannot be read.
    """
    pinned = _all_pins().get(release.jars)
    beside = folder / PINNED_BESIDE
    if pinned is not None or not beside.exists():
        return pinned
    try:
        return msgspec.json.decode(beside.read_bytes(), type=Pins)
    except (OSError, msgspec.DecodeError) as error:
        raise HarnessError(f"{beside}: {error}; remove the folder, and fetch the release again") from error
