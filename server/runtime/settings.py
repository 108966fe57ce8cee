"""What a node is started with, as a JSON file. A bad file is refused with one line that says what is wrong where.

A listener is where others come in: the address it is bound to, and under which addresses those who come in by it reach every
broker of the cluster, this one too. They differ where a proxy or another network stands between.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from reference.config import BrokerConfig
from reference.types import Address, BrokerId, broker_address
from server.disk.disk import SEGMENT_BYTES
from server.lab.dir_faults import DirFault
from server.lab.side_channel import PATH_BYTES_MAX
from server.runtime.gateway import Limits


class SettingsError(Exception):
    """The file cannot be used, or the node cannot start with it; the message is one line."""


class Listener(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses are "host:port"; those that are told by the broker's address in the protocol ("b1")."""

    bind: str
    advertised: dict[Address, str]


class NodeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One life of one node."""

    broker: BrokerConfig
    life: int  # how-many-th process of this node, from 1
    peers: Listener  # between brokers; where this one reaches the others stands among `advertised`
    clients: tuple[Listener, ...] = ()
    limits: Limits = Limits()  # of all listeners for clients together
    zookeeper: str  # host:port,host:port
    log_dirs: tuple[str, ...]
    notes: str = "-"  # a file that JSON lines are appended to, "-" for stdout
    end_with_stdin: bool = False
    segment_bytes: int = SEGMENT_BYTES  # log.segment.bytes
    dir_faults: tuple[DirFault, ...] = ()  # which the log directories meet from the first look on, by their number
    side_channel: str | None = None  # a Unix socket for the harness (`server.lab.side_channel`)
    power_ledger: str | None = None  # a file outside of the log directories (`server.lab.flush_ledger`)
    # A node that has not been registered by then gives up and says why; None waits for ever.
    startup_timeout_ms: int | None = 30_000


def host_and_port(text: str) -> tuple[str, int]:
    """ "127.0.0.1:9092" in two; SettingsError where it is no such thing."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"not a host and a port: {text!r}")
    return host, int(port)


def advertised(listener: Listener) -> dict[BrokerId, tuple[str, int]]:
    """Where each broker is reached by those who come in there; SettingsError for a name that no broker has."""
    found = {}
    for address, where in listener.advertised.items():
        if not address.startswith("b") or not address[1:].isdecimal():
            raise SettingsError(f"not the address of a broker: {address!r}")
        found[BrokerId(int(address[1:]))] = host_and_port(where)
    return found


def load(path: Path) -> NodeSettings:
    """Read and check a file."""
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=NodeSettings)
        _check(settings)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, SettingsError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    return settings


def _check(settings: NodeSettings) -> None:
    for listener in (settings.peers, *settings.clients):
        host_and_port(listener.bind)
        advertised(listener)
    for address in settings.zookeeper.split(","):
        host_and_port(address)
    me = broker_address(settings.broker.broker)
    for index, listener in enumerate(settings.clients):
        if me not in listener.advertised:
            raise SettingsError(f"clients[{index}] does not say where {me} itself is reached")
    if len(settings.log_dirs) != settings.broker.log_dirs:
        raise SettingsError(f"broker.log_dirs is {settings.broker.log_dirs}, log_dirs has {len(settings.log_dirs)}")
    # As Kafka does: each would take the other's replicas for a second copy, and the younger of two goes.
    if len(set(map(os.path.realpath, settings.log_dirs))) < len(settings.log_dirs):
        raise SettingsError(f"log_dirs names a directory twice: {', '.join(settings.log_dirs)}")
    if len(settings.dir_faults) > len(settings.log_dirs):
        raise SettingsError(f"dir_faults has {len(settings.dir_faults)}, log_dirs {len(settings.log_dirs)}")
    if settings.segment_bytes < 1:
        raise SettingsError(f"segment_bytes is not above 0: {settings.segment_bytes}")
    if settings.side_channel is not None and len(settings.side_channel.encode()) > PATH_BYTES_MAX:
        raise SettingsError(f"side_channel has more than {PATH_BYTES_MAX} bytes, the most that a Unix socket's name may have")
    if settings.life < 1:
        raise SettingsError(f"life counts from 1, not {settings.life}")
