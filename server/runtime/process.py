"""One broker process: builds its parts, connects them and runs until it ends. The protocol machine is a parameter.

SIGTERM asks the machine for a controlled shutdown. A node that is not registered within its startup timeout prints the reason
and ends.
"""

import asyncio
import errno
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from reference.broker import heartbeats
from reference.config import BrokerConfig, layouts_of
from reference.coordination.api import AnyAnswer, Change, SessionState
from reference.effects import SHUT_DOWN, Note
from reference.errors import ErrorCode
from reference.events import DirImage, ShutDown
from reference.messages import AnyMessage, Request
from reference.metrics import read
from reference.node import Node
from reference.types import Address, BrokerId, TopicPartition, broker_address
from server.addresses import host_and_port
from server.disk.log_dirs import Disk, replica_folders
from server.kazoo_client import KazooCoordination
from server.lab.dir_faults import DirFaults
from server.lab.flush_ledger import FlushLedger
from server.lab.notes import NoteWriter, end_with_stdin
from server.lab.side_channel import SideChannel
from server.lab.watched import Watched
from server.runtime.administration import Administration
from server.runtime.gateway import PREFIX, Gateway
from server.runtime.node import Handles, Host
from server.runtime.scrape import serve
from server.runtime.settings import Listener, NodeSettings, SettingsError, advertised, configured
from server.runtime.transport import Transport
from server.wire.clients.exchange import Facing
from server.wire.clients.tasks import AnyResult, AnyTask, Directory, Dirs, ListDirs, Pause
from server.wire.codec import Dialect
from server.wire.control import Sender

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
Boot = Callable[[BrokerConfig, tuple[DirImage, ...], int], Handles]  # settings, what is on disk, life


async def run(settings: NodeSettings, boot: Boot) -> int:
    """Run a broker until its machine halts, an assertion fails or stdin closes (if set); exit code 0 after a shutdown, else 1."""
    process = _Process(settings, boot)
    try:
        await process.listen()
        return await process.live()
    finally:
        await process.close()


class _Process:
    """The parts of a broker process (listeners, ZooKeeper session, disk, machine), and the calls from one to another."""

    def __init__(self, settings: NodeSettings, boot: Boot) -> None:
        loop = asyncio.get_running_loop()
        me = broker_address(settings.broker.broker)
        self._settings = settings
        self._loop = loop
        self._end = asyncio.Event()
        self._reasons: list[str] = []
        self._broken: list[BaseException] = []
        self._is_registered = False
        self._has_session = False
        self._bad_dirs: set[int] = set()
        self._faults = DirFaults(len(settings.log_dirs))
        for index, fault in enumerate(settings.dir_faults):
            self._faults.set(index, fault)
        self._disk = _disk_of(settings, self._faults)
        config = configured(settings)
        self._machine = boot(config, self._disk.recover(), settings.life)
        machine = Watched(self._machine, config)
        self._notes = _note_writer(settings, me)
        self._host = Host(machine, self._disk, loop=loop, note=self._note, stopped=self._on_node_stopped)
        peers = {peer: host_and_port(where) for peer, where in settings.peers.advertised.items() if peer != me}
        # A machine repeats an unanswered request after this time; after twice this time without a response the connection is bad.
        patience_s = (settings.broker.request_timeout_ms + settings.broker.fetch_wait_max_ms) / 1000
        self._transport = Transport(
            me,
            peers,
            self._host.received,
            self._host.connection_lost,
            silence_s_max=2 * patience_s,
            dialect=_dialect_of(settings),
        )
        self._gateway = Gateway(self, settings.limits)
        timeout_ms = settings.broker.session_timeout_ms
        self._zookeeper = KazooCoordination(settings.zookeeper, timeout_ms, self, loop.call_soon_threadsafe)
        self._administration = Administration(settings.zookeeper, timeout_ms)
        self._side_channel = SideChannel(self._faults, config)
        self._stop_metrics: Callable[[], None] | None = None

    async def listen(self) -> None:
        """Open all listeners, the metrics and the side-channel of the broker; SettingsError if an address cannot be bound."""
        peers, clients = self._settings.peers, self._settings.clients
        await _open_at(peers.bind, self._transport.listen)
        for listener in clients:
            await _open_at(listener.bind, partial(self._gateway.listen, facing=_facing_of(self._settings, listener)))
        if self._settings.metrics is not None:
            await _open_at(self._settings.metrics, self._serve_metrics)
        await self._open_side_channel()

    async def _serve_metrics(self, host: str, port: int) -> None:
        """Answer scrapes, also before the broker serves clients."""
        machine = self._machine
        assert isinstance(machine, Node), "only the reference has metrics"
        self._stop_metrics = serve(host, port, lambda: read(machine))

    async def _open_side_channel(self) -> None:
        """Listen on the side-channel's socket, if the settings name one."""
        path = self._settings.side_channel
        if path is not None:
            try:
                await self._side_channel.listen(Path(path))
            except OSError as error:
                raise SettingsError(f"cannot make the side-channel {path}: {error.strerror or error}") from None

    async def live(self) -> int:
        """Run the broker until it ends; SettingsError if it was not registered within its startup timeout."""
        # By default asyncio logs an exception of a callback and goes on; a node must end when a callback was broken off.
        self._loop.set_exception_handler(self._on_loop_error)
        if self._settings.end_with_stdin:
            end_with_stdin(self._loop, self._end)
        self._loop.add_signal_handler(signal.SIGTERM, self._host.deliver, ShutDown())
        if self._settings.startup_timeout_ms is not None:
            self._loop.call_later(self._settings.startup_timeout_ms / 1000, self._end_unless_registered)
        self._host.start(self, self._zookeeper)
        await self._end.wait()
        if self._broken:
            raise self._broken[0]
        for reason in self._reasons:
            self._notes.write(Note(kind="node-stopped", detail=reason))
            if reason != f"halt:{SHUT_DOWN}":
                sys.stderr.write(f"{reason.removeprefix('halt:')}\n")
        # The session is not closed but times out, as after a crash: closing it would inform the other brokers at once.
        return 1 if [reason for reason in self._reasons if reason != f"halt:{SHUT_DOWN}"] else 0

    async def close(self) -> None:
        """Close all connections and listeners of the broker."""
        if self._stop_metrics is not None:
            await asyncio.to_thread(self._stop_metrics)  # a scrape in progress waits for this loop
        await self._side_channel.close()
        await self._gateway.close()
        await self._administration.close()
        await self._transport.close()

    def _on_node_stopped(self, reason: str) -> None:
        self._reasons.append(reason)
        self._end.set()

    def _on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record an exception of a callback, and end the process."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _NO_ROOM and "socket" in context:
            return  # accept() failed: asyncio pauses accepting for a second, and no callback was broken off
        self._broken.append(error or RuntimeError(context["message"]))
        self._end.set()

    def _end_unless_registered(self) -> None:
        """End the process if the broker has not registered by the startup timeout."""
        if self._is_registered or self._end.is_set():
            return
        me, zookeeper = self._settings.broker.broker, self._settings.zookeeper
        trouble = (
            f"id {me} is registered by another process" if self._has_session else f"ZooKeeper at {zookeeper} is out of reach"
        )
        waited_s = (self._settings.startup_timeout_ms or 0) / 1000
        self._broken.append(SettingsError(f"{trouble}, still after {waited_s:g} s"))
        self._notes.write(Note(kind="node-stopped", detail=f"not started: {trouble}"))
        self._end.set()

    # --- node.Network: called by the machine's host --------------------------------------------------------------------------

    def send(self, to: Address, message: AnyMessage) -> None:
        """Send a message to a broker, or a reply to the connection of a client."""
        if to.startswith(PREFIX):
            assert not isinstance(message, Request), "clients are sent replies only"
            self._gateway.send(to, message)
        else:
            self._transport.send(to, message)

    def disconnect(self, peer: Address) -> None:
        """Break the connection that this peer or client opened, if there is one."""
        if peer.startswith(PREFIX):
            self._gateway.disconnect(peer)
        else:
            self._transport.disconnect(peer)

    # --- gateway.GatewayNode: requests of clients -------------------------------------------------------------------------------

    def received(self, source: Address, message: Request) -> None:
        """Hand a client's request to the broker machine."""
        self._host.received(source, message)

    def lost(self, source: Address) -> None:
        """Tell the broker machine that the connection of a client broke."""
        self._host.connection_lost(source)

    def perform(self, task: AnyTask, answer: Callable[[AnyResult], None]) -> None:
        """Perform a task (administration, log directories) for a client's request."""
        assert not isinstance(task, Pause), "the gateway performs Pause itself"
        if isinstance(task, ListDirs):
            answer(directories_told(self._machine, task.correlation, self._directories()))
        else:
            self._administration.perform(task, answer)

    def _directories(self) -> tuple[Directory, ...]:
        """The log directories with the bytes of each log; a directory that failed or cannot be read is offline."""
        directories = []
        for index, path in enumerate(self._settings.log_dirs):
            try:
                sizes = _sizes(Path(path)) if index not in self._bad_dirs else None
            except OSError:
                sizes = None
            directories.append(Directory(path, online=sizes is not None, sizes=sizes or ()))
        return tuple(directories)

    # --- coordination.api.Listener: called by the ZooKeeper client; and notes of the machine --------------------------------

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """Hand ZooKeeper's answer to the broker machine."""
        self._host.replied(request_id, answers)

    def watch_fired(self, path: str, change: Change) -> None:
        """Hand a ZooKeeper watch event to the broker machine."""
        self._host.watch_fired(path, change)

    def state_changed(self, state: SessionState, session: int) -> None:
        """Hand a change of the ZooKeeper session to the broker machine; remember that ZooKeeper was reached."""
        self._has_session = self._has_session or state == "connected"
        self._host.state_changed(state, session)

    def _note(self, note: Note) -> None:
        """Write a note; remember registration and failed directories, and name the latter on stderr."""
        self._is_registered = self._is_registered or note.kind == "registered"
        if note.kind == "dir-failed" and note.dir is not None:
            self._bad_dirs.add(note.dir)
            path = self._settings.log_dirs[note.dir]
            sys.stderr.write(f"log directory {path}: {_error_of_path(Path(path)) or note.detail}\n")
        self._notes.write(note)


def directories_told(machine: Handles, correlation: int, directories: tuple[Directory, ...]) -> Dirs:
    """What a client is told of the log directories. R-186: a fenced broker takes no new requests, and names them only."""
    if isinstance(machine, Node) and heartbeats.is_fenced(machine.state.broker):
        named = tuple(Directory(directory.path, online=directory.online) for directory in directories)
        return Dirs(correlation, named, ErrorCode.BROKER_NOT_AVAILABLE)
    return Dirs(correlation, directories)


def _disk_of(settings: NodeSettings, faults: DirFaults) -> Disk:
    """The disk of this broker, with its flush ledger if the settings name one."""
    try:
        ledger = None if settings.power_ledger is None else FlushLedger(Path(settings.power_ledger))
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError(f"cannot write the flush ledger {settings.power_ledger}: {error}") from None
    paths = [Path(path) for path in settings.log_dirs]
    return Disk(paths, segment_bytes=settings.segment_bytes, ledger=ledger, faults=faults)


def _error_of_path(path: Path) -> str | None:
    """The file system's error on listing a log directory or writing to it; None if both work."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        next(path.iterdir(), None)
        with tempfile.TemporaryFile(dir=path):
            return None
    except OSError as error:
        return error.strerror


def _dialect_of(settings: NodeSettings) -> Dialect:
    """How the broker speaks to others: in the version of its setting, with the addresses at which brokers reach each other."""
    config = settings.broker
    sender = Sender(ack_timeout_ms=config.request_timeout_ms, addresses=advertised(settings.peers))
    return Dialect(protocol=layouts_of(config), release=config.release, sender=sender)


def _note_writer(settings: NodeSettings, me: Address) -> NoteWriter:
    """The writer of this life's notes. SettingsError if their file cannot be written."""
    try:
        return NoteWriter(settings.notes, node=me, life=settings.life)
    except OSError as error:
        raise SettingsError(f"cannot write notes to {settings.notes}: {error.strerror}") from None


async def _open_at(where: str, listen: Callable[[str, int], Awaitable[object]]) -> None:
    """Open a listener at "host:port". Raises SettingsError with the system's reason."""
    try:
        await listen(*host_and_port(where))
    except OSError as error:
        # asyncio rewords the system's message, so take it from errno; an unknown host name has no errno of the system
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
        raise SettingsError(f"cannot listen on {where}: {reason}") from None


def _facing_of(settings: NodeSettings, listener: Listener) -> Facing:
    """What clients of this listener are told: the broker, the advertised addresses and the limits."""
    return Facing(
        broker=BrokerId(settings.broker.broker),
        advertised=advertised(listener),
        batch_bytes_max=settings.limits.batch_bytes,
        response_bytes_max=settings.limits.response_bytes,
    )


def _sizes(path: Path) -> tuple[tuple[TopicPartition, int], ...]:
    """The bytes that each log in a log directory takes on disk."""
    return tuple((TopicPartition(f.name), sum(file.stat().st_size for file in f.iterdir())) for f in replica_folders(path))
