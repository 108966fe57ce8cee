"""The releases of Apache Kafka that can be put on the stage: how each coordinates, and the pinned jars of each.

`pins.json` names for each release the Maven artifacts and the SHA-256 of every jar that they bring with them.
"""

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct

Mode = Literal["zookeeper", "kraft"]
KRAFT = "-kraft"  # ends the version of a release that can also run with ZooKeeper


class Release(Struct, frozen=True, kw_only=True):
    """One release in one mode. `jars` is its version without the mode; `log4j` the major version of its logging library."""

    version: str
    jars: str
    mode: Mode
    heap_mb: int = 256
    log4j: Literal[1, 2] = 1
    idempotence: bool = True  # since 0.11
    sessions: bool = False  # whether the workloads of transactions and groups are performed: from 2.8 on


class Pins(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pinned files of a release: Maven artifacts ("group:artifact:version"), and the SHA-256 of each jar by its name."""

    artifacts: tuple[str, ...]
    jars: dict[str, str]


def _release(version: str, mode: Mode = "zookeeper", *, heap_mb: int = 256, log4j: Literal[1, 2] = 1) -> Release:
    """A release with what follows from its version."""
    jars = version.removesuffix(KRAFT)
    return Release(
        version=version,
        jars=jars,
        mode=mode,
        heap_mb=heap_mb,
        log4j=log4j,
        idempotence=not version.startswith("0.10"),
        sessions=tuple(map(int, jars.split("."))) >= (2, 8),
    )


RELEASES: tuple[Release, ...] = (
    _release("0.10.2.2"),
    _release("0.11.0.3"),
    _release("1.1.1"),
    _release("2.0.1"),
    _release("2.8.2"),
    _release("3.9.1", heap_mb=320),
    _release("3.9.1-kraft", "kraft", heap_mb=320),
    _release("4.1.0", "kraft", heap_mb=320, log4j=2),
)


def release_named(version: str) -> Release | None:
    """The release of this version; None if there is none."""
    return next((release for release in RELEASES if release.version == version), None)


@cache
def _all_pins() -> dict[str, Pins]:
    return msgspec.json.decode(files(__package__).joinpath("pins.json").read_bytes(), type=dict[str, Pins])


def pins_of(release: Release) -> Pins:
    """The pinned artifacts and jars of a release."""
    return _all_pins()[release.jars]
