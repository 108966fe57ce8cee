"""The file that describes a user's cluster: the addresses of its nodes, and the commands that do something to one of them.

    version: 3.9.1
    nodes:
    - {id: 0, address: "127.0.0.1:9092"}
    hooks:
      kill: [./cluster, kill, "{node}"]
      start: [./cluster, start, "{node}"]

In a command, {node} is the id of the node, {peer} that of the other node of a link. Commands run in the folder of the file. Plans
number brokers from 1 on: b1 is the node with the smallest id, and so on.
"""

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from highwater.backends.real.site import HostPort
from highwater.errors import HarnessError, UsageError
from nemesis.text import Document, TextError
from reference.types import Address, BrokerId, broker_address

Hook = Literal["start", "kill", "terminate", "pause", "resume", "cut", "heal", "lose"]
HOOKS: tuple[Hook, ...] = get_args(Hook)
_PAIRS: tuple[tuple[Hook, Hook], ...] = (("kill", "start"), ("terminate", "start"), ("pause", "resume"), ("cut", "heal"))
LOSE: Hook = "lose"  # undoes what a node did not flush; it runs while the node is down

_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,100}")  # of the names of topics, as Kafka has them


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node: its id in the cluster and the address ("host:port") at which clients reach it.

    `harness`: where the harness asks its own questions, without encryption and password; the same address if not given.
    `door`: where the node listens for clients, if it tells them `address` and nothing listens there: then a proxy of the harness
    does, through which it can do something to the links of clients.
    """

    id: int
    address: str
    harness: str = ""
    door: str = ""


class Description(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user's cluster. `version` is for pages only; a hook that takes longer than `hook_timeout_s` has failed.

    `clients` are settings of librdkafka for the clients of the workload, which reach the nodes at their addresses (TLS, SASL …).
    `prefix` comes before the names of a plan's topics, so that they are not those of the user's own.
    """

    nodes: tuple[Entry, ...]
    version: str = ""
    hooks: dict[Hook, tuple[str, ...]] = {}
    hook_timeout_s: int = 30
    prefix: str = "highwater-"
    clients: dict[str, str | int | bool] = {}


class Hooks:
    """The commands of a user's cluster, run in the folder of its file."""

    def __init__(self, description: Description, folder: Path) -> None:
        self._description = description
        self._folder = folder
        self._ids = ids_of(description)

    def has(self, hook: Hook) -> bool:
        """Whether the file names a command for this."""
        return hook in self._description.hooks

    def run(self, hook: Hook, node: Address, peer: Address | None = None) -> None:
        """Run a command and wait for its end. HarnessError if the file names none, or it fails or takes too long."""
        if not self.has(hook):
            raise HarnessError(f"there is no hook {hook} for {node}")
        named = {"{node}": str(self._ids[node]), "{peer}": "" if peer is None else str(self._ids[peer])}
        command = [_filled_command(word, named) for word in self._description.hooks[hook]]
        what = f"hook {hook} of {node}"
        limit_s = self._description.hook_timeout_s
        with tempfile.TemporaryFile() as output:  # no pipe: a broker that the hook starts may keep it open
            try:
                process = subprocess.Popen(
                    command,
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            except OSError as error:
                raise HarnessError(f"{what}: {command[0]}: {error.strerror}") from error
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # a broker that it started has a session of its own, or dies with it
                process.wait()
                raise HarnessError(f"{what} did not end within {limit_s} s: {' '.join(command)}") from None
            if code:
                output.seek(0)
                output_lines = output.read().decode(errors="replace").strip().splitlines()
                raise HarnessError(
                    f"{what} ended with exit code {code}: {output_lines[-1] if output_lines else ' '.join(command)}"
                )


def load(path: Path) -> Description:
    """Read the description of a cluster. UsageError with file and line for a mistake."""
    try:
        document = Document(path.read_text(encoding="utf-8"), str(path))
        description: Description = document.convert(Description, document.value)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (TextError, UnicodeDecodeError) as error:
        raise UsageError(str(error)) from error
    _check_description(description, path)
    return description


def addresses_of(description: Description) -> dict[Address, HostPort]:
    """The address of each node for clients, by its name in plans: b1, b2 … in the order of their ids."""
    nodes = sorted(description.nodes, key=lambda node: node.id)
    return {broker_address(BrokerId(number)): _host_and_port(node.address) for number, node in enumerate(nodes, 1)}


def harness_addresses_of(description: Description) -> dict[Address, HostPort]:
    """The address of each node for the harness, by its name in plans."""
    nodes = sorted(description.nodes, key=lambda node: node.id)
    return {
        broker_address(BrokerId(number)): _host_and_port(node.harness or node.door or node.address)
        for number, node in enumerate(nodes, 1)
    }


def doors_of(description: Description) -> dict[Address, HostPort]:
    """Where each node listens for clients behind a proxy of the harness, by its name in plans; empty without proxies."""
    nodes = sorted(description.nodes, key=lambda node: node.id)
    return {broker_address(BrokerId(number)): _host_and_port(node.door) for number, node in enumerate(nodes, 1) if node.door}


def ids_of(description: Description) -> dict[Address, int]:
    """The id that each node has in the cluster, by its name in plans."""
    return {broker_address(BrokerId(number)): id for number, id in enumerate(sorted(node.id for node in description.nodes), 1)}


def _check_description(description: Description, path: Path) -> None:
    """Raises UsageError with what is wrong in the description of a cluster."""
    if not description.nodes:
        raise UsageError(f"{path}: nodes must not be empty")
    ids = [node.id for node in description.nodes]
    if min(ids) < 0 or len({*ids}) < len(ids):
        raise UsageError(f"{path}: the ids of the nodes must be different numbers from 0 on, not {ids}")
    _check_addresses(description, path)
    behind = [node.id for node in description.nodes if node.door]
    if behind and len(behind) < len(ids):
        raise UsageError(f"{path}: all nodes must have a door, or none: only {', '.join(map(str, behind))} have one")
    for hook, command in description.hooks.items():
        if not command:
            raise UsageError(f"{path}: the command of hook {hook} must not be empty")
    for does, undoes in _PAIRS:
        if does in description.hooks and undoes not in description.hooks:
            raise UsageError(f"{path}: hook {does} needs hook {undoes}, which undoes it")
    if LOSE in description.hooks and "kill" not in description.hooks:
        raise UsageError(f"{path}: hook {LOSE} needs hook kill, after which it runs")
    if not _PREFIX.fullmatch(description.prefix):
        raise UsageError(f"{path}: prefix must be at most 100 letters, digits, '.', '_' and '-', not {description.prefix!r}")
    if description.hook_timeout_s < 1:
        raise UsageError(f"{path}: hook_timeout_s must be at least 1, not {description.hook_timeout_s}")


def _check_addresses(description: Description, path: Path) -> None:
    """Raises UsageError for an address that is none, or that of two nodes."""
    found: dict[HostPort, int] = {}
    for node in description.nodes:
        for address in dict.fromkeys((node.address, node.harness or node.address, node.door or node.address)):
            try:
                where = _host_and_port(address)
            except ValueError:
                raise UsageError(f'{path}: the address of node {node.id} must be "host:port", not {address!r}') from None
            if where in found:
                raise UsageError(f"{path}: nodes {found[where]} and {node.id} have the same address {address}")
            found[where] = node.id


def _host_and_port(address: str) -> HostPort:
    """The parts of "host:port". Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not 0 < int(port) < 1 << 16:
        raise ValueError(address)
    return host, int(port)


def _filled_command(word: str, named: dict[str, str]) -> str:
    for name, value in named.items():
        word = word.replace(name, value)
    return word
