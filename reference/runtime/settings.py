"""What a node is started with, as a JSON file. A bad file is refused with one line that says what is wrong where."""

from pathlib import Path

import msgspec
from msgspec import Struct

from reference.config import BrokerConfig
from reference.types import Address


class SettingsError(Exception):
    """The file cannot be used; the message is one line."""


class NodeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One life of one node. Addresses of sockets are "host:port"."""

    broker: BrokerConfig
    life: int  # how-many-th process of this node, from 1
    listen: str
    peers: dict[Address, str]  # the other brokers, by their address in the protocol
    zookeeper: str  # host:port,host:port
    log_dirs: tuple[str, ...]
    notes: str = "-"  # a file that JSON lines are appended to, "-" for stdout
    end_with_stdin: bool = False


def host_and_port(text: str) -> tuple[str, int]:
    """ "127.0.0.1:9092" in two; SettingsError where it is no such thing."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"not a host and a port: {text!r}")
    return host, int(port)


def load(path: Path) -> NodeSettings:
    """Read and check a file."""
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=NodeSettings)
        for address in (settings.listen, *settings.peers.values(), *settings.zookeeper.split(",")):
            host_and_port(address)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, SettingsError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    if len(settings.log_dirs) != settings.broker.log_dirs:
        raise SettingsError(f"{path}: broker.log_dirs is {settings.broker.log_dirs}, log_dirs has {len(settings.log_dirs)}")
    if settings.life < 1:
        raise SettingsError(f"{path}: life counts from 1, not {settings.life}")
    return settings
