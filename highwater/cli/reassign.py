"""`highwater admin reassign`: move partitions to other brokers through ZooKeeper (KIP-236)."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from highwater.admin import reassign_tool
from highwater.admin.reassign_tool import Command
from highwater.backends.real.zookeeper.admin import Admin
from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from reference.types import BrokerId
from server.addresses import zookeeper_servers

_File = Annotated[Path | None, typer.Option(metavar="FILE", help="Reassignment in the JSON format that --generate prints.")]


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater admin reassign`."""

    zookeeper: Annotated[
        str,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Address of ZooKeeper, port 2181 if not given; a path after it is the root of the cluster's znodes.",
        ),
    ]
    generate: Annotated[bool, typer.Option("--generate", help="Propose a reassignment; change nothing.")] = False
    execute: _File = None
    verify: _File = None
    cancel: Annotated[bool, typer.Option("--cancel", help="Roll back all pending reassignments.")] = False
    remove_cancel: Annotated[
        bool, typer.Option("--remove-cancel", help="Remove the cancellation, so that new reassignments are accepted.")
    ] = False
    generate_extra: Annotated[bool, typer.Option("--generate-extra", help="Same as --generate.")] = False
    verify_extra: _File = None
    execute_extra: _File = None
    requests: Annotated[bool, typer.Option("--requests", help="The cluster implements proposal B of KIP-236.")] = False
    topics: Annotated[str, typer.Option(help="Topics for --generate, separated by commas; all if not given.")] = ""
    brokers: Annotated[str, typer.Option(help="Brokers for --generate, separated by commas; all live ones if not given.")] = ""
    json: options.AsJson = False


@takes(Options)
def reassign(arguments: Options) -> int:
    """Move partitions to other brokers: propose, execute, verify, cancel, also while other moves are in flight."""
    # R-240: --cancel, --remove-cancel, --generate-extra, --verify-extra, --execute-extra, besides the three older options
    try:
        servers = zookeeper_servers(arguments.zookeeper)
    except ValueError as error:
        raise UsageError(f"--zookeeper {arguments.zookeeper}: {error}") from None
    unfit = (
        arguments.cancel
        or arguments.remove_cancel
        or arguments.generate_extra
        or arguments.verify_extra
        or arguments.execute_extra
    )
    if arguments.requests and unfit:
        raise UsageError(
            "--requests goes with --generate, --execute and --verify only; "
            "to add or change a move, --execute another FILE; to cancel, --execute the saved FILE"
        )
    executes, verifies = reassign_tool.execute, reassign_tool.verify
    if arguments.requests:
        executes, verifies = reassign_tool.request, reassign_tool.verify_requests
    chosen: list[Command] = []
    if arguments.generate or arguments.generate_extra:
        chosen.append(reassign_tool.generate(options.names_of(arguments.topics), _broker_ids(arguments.brokers)))
    for file, command in ((arguments.execute, executes), (arguments.execute_extra, reassign_tool.execute_extra)):
        if file is not None:
            chosen.append(command(reassign_tool.entries_of(_read_file(file), str(file))))
    for file in (arguments.verify, arguments.verify_extra):
        if file is not None:
            chosen.append(verifies(reassign_tool.entries_of(_read_file(file), str(file))))
    chosen += [reassign_tool.cancel()] if arguments.cancel else []
    chosen += [reassign_tool.remove_cancel()] if arguments.remove_cancel else []
    if len(chosen) != 1:
        raise UsageError(
            "give exactly one of --generate, --execute, --verify, --cancel, --remove-cancel, --generate-extra, --execute-extra, "
            f"--verify-extra; {len(chosen)} were given"
        )
    lines = asyncio.run(_perform_command(servers, chosen[0]))
    if arguments.json:
        say_json({"exit": 0, "lines": lines})
    else:
        for line in lines:
            say(line)
    return 0


async def _perform_command(zookeeper: str, command: Command) -> tuple[str, ...]:
    """Perform a command: do what it asks of ZooKeeper until it returns its lines."""
    admin = Admin(zookeeper)
    try:
        step = next(command)
        while True:
            step = command.send(await admin.ask(*step.ops, atomic=step.atomic))
    except StopIteration as done:
        lines: tuple[str, ...] = done.value
        return lines
    finally:
        admin.close()


def _read_file(file: Path) -> bytes:
    """The content of a file. UsageError if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None


def _broker_ids(text: str) -> tuple[BrokerId, ...]:
    """The broker ids of --brokers. Raises UsageError."""
    names = options.names_of(text)
    wrong = next((name for name in names if not name.isdecimal()), None)
    if wrong is not None:
        raise UsageError(f"--brokers must be broker ids separated by commas, not {text} ({wrong} is not a number)")
    return tuple(BrokerId(int(name)) for name in dict.fromkeys(names))
