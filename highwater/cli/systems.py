"""`highwater systems`: the systems that can be put on the stage, what each supports, and what is missing here; fetch one."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec import Struct

from highwater.backends.real.systems.external.system import NAME as EXTERNAL
from highwater.backends.real.systems.external.system import try_hooks
from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.releases import TESTED, Release, release_named
from highwater.backends.real.systems.kafka.system import NAME as KAFKA
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.systems import REFERENCE, parsed_system
from workloads.registry import COMPACTED, OF_SESSIONS, SHARE_GROUPS

Action = Annotated[Literal["list", "get", "check"], typer.Argument(help="list all, get the jars of one, check a user's cluster.")]
What = Annotated[
    str | None, typer.Argument(metavar="NAME:VERSION|FILE", help="For get: a system, such as kafka:3.9.1. For check: a file.")
]


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the list: a system, how it is run, what it supports, and what is missing on this machine ("" if nothing).

    `tested`: the project's own tests perform it; a release that is not was fetched by its user.
    """

    system: str
    backends: tuple[str, ...]
    coordination: str
    supports: str
    missing: str = ""
    tested: bool = True


def systems(action: Action = "list", what: What = None, *, json: options.AsJson = False) -> int:
    """List the systems under test with what is missing here, or get the jars of one into the cache folder."""
    if action == "get":
        return _get_jars(what, json=json)
    if action == "check":
        return _check_cluster(what, json=json)
    if what is not None:
        raise UsageError(f"`highwater systems list` takes no name, not {what!r}")
    entries = [_reference(), *map(_list_entry, TESTED), *map(_list_entry, jars.fetched_beside()), _external()]
    if json:
        say_json({"systems": entries, "cache": str(jars.cache_folder())})
        return ExitCode.VALID
    width = max(len(entry.system) for entry in entries)
    for entry in entries:
        say(f"{entry.system:<{width}}  {entry.coordination:<9}  {', '.join(entry.backends)}: {entry.supports}")
        if not entry.tested:
            say(f"{'':<{width}}  fetched here, and pinned then; the project's own tests do not perform it")
        if entry.missing:
            say(f"{'':<{width}}  missing: {entry.missing}")
    return ExitCode.VALID


def _reference() -> Entry:
    supports = "every workload, every fault of `highwater faults`, all checkers"
    return Entry(system=REFERENCE, backends=("sim", "process", "docker"), coordination="zookeeper", supports=supports)


def _list_entry(release: Release) -> Entry:
    """A release as the list shows it."""
    idempotence = "" if release.idempotence else " without idempotent producers"
    sessions = "ZooKeeper's sessions and servers, " if release.mode == "zookeeper" else ""
    faults = f"kill, pause, power loss, links, {sessions}unreadable and full directories"
    of_sessions = (name for name in OF_SESSIONS if release.sessions and (release.shares or name != SHARE_GROUPS))
    workloads = ", ".join(("produce-consume", *of_sessions, COMPACTED))
    return Entry(
        system=f"{KAFKA}:{release.version}",
        backends=("process", "docker"),
        coordination=release.mode,
        supports=f"{workloads}{idempotence}; {faults}; judged from clients, coordination and disks",
        tested=release in TESTED,
        missing=jars.missing(release) or "",
    )


def _external() -> Entry:
    workloads = ", ".join(("produce-consume", *OF_SESSIONS))
    supports = f"{workloads} on the cluster that --with FILE describes; the faults for which it has hooks"
    return Entry(system=EXTERNAL, backends=("process",), coordination="its own", supports=supports)


def _check_cluster(what: str | None, *, json: bool) -> int:
    """Compare a user's cluster with its file, and try each hook on each of its nodes."""
    if what is None:
        raise UsageError("name the file to check, for example: highwater systems check my-system.yaml")
    attempts = asyncio.run(try_hooks(Path(what)))
    failed = sum(not holds for _, holds, _ in attempts)
    if json:
        say_json({"failed": failed, "tried": [{"what": name, "good": holds, "words": words} for name, holds, words in attempts]})
    else:
        for name, holds, words in attempts:
            say(f"{'ok    ' if holds else 'FAILED'}  {name}: {words}")
        say(f"{len(attempts)} checks, {failed} failed")
    return ExitCode.LABORATORY_FAILED if failed else ExitCode.VALID


def _get_jars(what: str | None, *, json: bool) -> int:
    """Fetch the jars of a release into the cache."""
    if what is None:
        raise UsageError("name what to get, for example: highwater systems get kafka:3.9.1")
    system_asked = parsed_system(what)
    if system_asked.name != KAFKA:
        raise UsageError(f"there is nothing to get for system {system_asked.name!r}; known: {KAFKA}")
    release = release_named(system_asked.version)
    folder, fetched = jars.get(release)
    count = len(jars.digests(release))
    if json:
        say_json({"system": what, "folder": str(folder), "jars": count, "fetched": fetched})
    else:
        say(f"{'fetched' if fetched else 'already here'}  {count} jars in {folder}")
    return ExitCode.VALID
