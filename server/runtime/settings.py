"""The settings of a broker process: a JSON file. A bad file is refused with one line that names the field and the error.

A listener has the address that it binds to, and the addresses of all brokers, including this one, that it advertises to those
who connect there. Bound and advertised addresses differ if a proxy or another network is between.
"""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reference import switches
from reference.config import DOCUMENT_SETTINGS, KAFKA_NAMES, VARIANTS, BrokerConfig
from reference.types import Address, BrokerId, broker_address
from server.addresses import host_and_port, zookeeper_servers
from server.disk.log_dirs import SEGMENT_BYTES
from server.lab.dir_faults import DirFault
from server.lab.side_channel import PATH_BYTES_MAX
from server.runtime.gateway import Limits

NODE_NAMES = {"zookeeper.connect": "zookeeper", "log.dirs": "log_dirs", "log.segment.bytes": "segment_bytes"}  # Kafka's


class SettingsError(Exception):
    """A broker's settings file is not valid, or it cannot start with these settings; the message is one line."""


class Listener(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of a listener: `bind` is "host:port"; `advertised` maps each broker ("b1") to its "host:port"."""

    bind: str
    advertised: dict[Address, str]


class NodeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one broker process; all paths are files or directories of this machine."""

    broker: BrokerConfig
    life: int  # the number of this process among all processes of the node, from 1
    peers: Listener  # between brokers; `advertised` says where this broker reaches the others
    clients: tuple[Listener, ...] = ()
    limits: Limits = Limits()  # of all client listeners together
    zookeeper: str  # host:port,host:port/root, as Kafka's zookeeper.connect; the port is 2181 if not given
    log_dirs: tuple[str, ...]
    notes: str = "-"  # the file to which notes are appended as JSON lines, "-" for stdout
    end_with_stdin: bool = False
    segment_bytes: int = SEGMENT_BYTES
    # one for each log directory, in order, from the start of the process; may be shorter than log_dirs
    dir_faults: tuple[DirFault, ...] = ()
    metrics: str | None = None  # "host:port" that answers Prometheus's scrapes (`server.runtime.scrape`)
    side_channel: str | None = None  # a Unix socket for the harness (`server.lab.side_channel`)
    power_ledger: str | None = None  # a file outside of the log directories (`server.lab.flush_ledger`)
    # A node that is not registered in ZooKeeper by then prints the reason and ends; None waits forever.
    startup_timeout_ms: int | None = 30_000


def advertised(listener: Listener) -> dict[BrokerId, tuple[str, int]]:
    """The advertised host and port of each broker; SettingsError for a key that is not "b" and a number, or ValueError."""
    addresses = {}
    for address, where in listener.advertised.items():
        if not address.startswith("b") or not address[1:].isdecimal():
            raise SettingsError(f"a key of advertised must be like b1, not {address!r}")
        addresses[BrokerId(int(address[1:]))] = host_and_port(where)
    return addresses


def configured(settings: NodeSettings) -> BrokerConfig:
    """The broker's configuration, with the address to register: what its first listener for clients advertises (R-150)."""
    broker = settings.broker
    for listener in (*settings.clients[:1], settings.peers):
        if (address := advertised(listener).get(broker.broker)) is not None:
            host, port = address
            return replace(broker, host=host, port=port)
    return broker


def load(path: Path) -> NodeSettings:
    """Read and check a broker's settings file; SettingsError if it cannot be read or is not valid.

    A setting may be written under its name here or under the documents' one (`reference.config.KAFKA_NAMES`), and a variant as
    its switches or by its name. The name of a document's variant brings the settings that the document states, unless the file
    has others (`DOCUMENT_SETTINGS`).
    """
    try:
        settings = msgspec.convert(_settings_by_fields(msgspec.json.decode(path.read_bytes())), NodeSettings)
        _check(settings)
        return replace(settings, zookeeper=zookeeper_servers(settings.zookeeper))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, SettingsError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from None


def _settings_by_fields(found: object) -> object:
    """The settings with the documents' names replaced by those of fields. SettingsError for a name that neither has."""
    if not isinstance(found, dict):
        return found
    settings = _renamed(found, NodeSettings, NODE_NAMES, "")
    for name, fields, names in (("broker", BrokerConfig, KAFKA_NAMES), ("limits", Limits, {})):
        if isinstance(settings.get(name), dict):
            settings[name] = _renamed(settings[name], fields, names, f"{name}.")
    if isinstance(settings.get("broker"), dict):
        settings["broker"] = _with_switches_of_variant(settings["broker"])
    return settings


def _with_switches_of_variant(broker: dict[str, Any]) -> dict[str, Any]:
    """The broker's settings with the switches of a variant that is given by name."""
    name = broker.get("variant")
    if not isinstance(name, str):
        return broker
    if name not in VARIANTS:
        near = get_close_matches(name, VARIANTS, 1)
        raise SettingsError(f"there is no variant {name}{f'; did you mean {near[0]}?' if near else ''}")
    return {**DOCUMENT_SETTINGS.get(name, {}), **broker, "variant": msgspec.to_builtins(VARIANTS[name])}


def _renamed(found: dict[str, Any], fields: type[Struct], names: Mapping[str, str], where: str) -> dict[str, Any]:
    """The settings by the names of the struct's fields. SettingsError for an unknown one, and for one that is set twice."""
    settings: dict[str, Any] = {}
    for name, value in found.items():
        field = names.get(name, name)
        if field not in fields.__struct_fields__:
            near = get_close_matches(name, [*fields.__struct_fields__, *names], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(f"there is no setting {where}{name}{hint}")
        if field in settings:
            raise SettingsError(f"{where}{field} is set twice, also as {name}")
        settings[field] = value
    return settings


def _check(settings: NodeSettings) -> None:
    """Refuse settings that contradict each other, and switches that do nothing as others are set. Raises SettingsError."""
    # A user may ask for moves on any path, and other brokers may speak an older protocol.
    for _, sentence in switches.unmet(settings.broker.variant, asked=False, old=True):
        raise SettingsError(f"broker.variant: {sentence}")
    for listener in (settings.peers, *settings.clients):
        host_and_port(listener.bind)
        advertised(listener)
    if settings.metrics is not None:
        host_and_port(settings.metrics)
    me = broker_address(settings.broker.broker)
    for index, listener in enumerate(settings.clients):
        if me not in listener.advertised:
            raise SettingsError(f"clients[{index}].advertised must name {me}, this broker")
    if len(settings.log_dirs) != settings.broker.log_dirs:
        raise SettingsError(f"log_dirs must name broker.log_dirs={settings.broker.log_dirs} paths, not {len(settings.log_dirs)}")
    # As Kafka does: with one directory under two numbers, every replica would look like a second copy and be deleted.
    if len(set(map(os.path.realpath, settings.log_dirs))) < len(settings.log_dirs):
        raise SettingsError(f"log_dirs must not name a directory twice: {', '.join(settings.log_dirs)}")
    if len(settings.dir_faults) > len(settings.log_dirs):
        raise SettingsError(f"dir_faults must have at most {len(settings.log_dirs)} entries, not {len(settings.dir_faults)}")
    if settings.segment_bytes < 1:
        raise SettingsError(f"segment_bytes must be at least 1, not {settings.segment_bytes}")
    if settings.side_channel is not None and len(settings.side_channel.encode()) > PATH_BYTES_MAX:
        raise SettingsError(f"side_channel must have at most {PATH_BYTES_MAX} bytes, the longest name of a Unix socket")
    if settings.life < 1:
        raise SettingsError(f"life must be at least 1, not {settings.life}")
