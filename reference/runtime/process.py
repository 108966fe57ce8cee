"""The life of one node process: its parts put together, run until it ends. The machine is a parameter.

SIGTERM asks the machine to end in good order.
"""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reference.config import BrokerConfig
from reference.coordination.kazoo_client import KazooCoordination
from reference.effects import SHUT_DOWN, Note
from reference.events import DirImage, ShutDown
from reference.runtime.control import NoteWriter, end_with_stdin
from reference.runtime.disk import Disk
from reference.runtime.node import Handles, Host
from reference.runtime.settings import NodeSettings, SettingsError, host_and_port
from reference.runtime.transport import Transport
from reference.types import broker_address

Boot = Callable[[BrokerConfig, tuple[DirImage, ...], int], Handles]  # settings, what is on disk, life


async def run(settings: NodeSettings, boot: Boot) -> int:
    """Live until the machine halts, an assertion fails or the harness is gone; returns the exit code: 0 ended, 1 halted."""
    loop = asyncio.get_running_loop()
    address = broker_address(settings.broker.broker)
    notes = NoteWriter(settings.notes, node=address, life=settings.life)
    disk = Disk([Path(path) for path in settings.log_dirs])
    machine = boot(settings.broker, disk.recover(), settings.life)
    reasons: list[str] = []
    end = asyncio.Event()

    def stopped(reason: str) -> None:
        reasons.append(reason)
        end.set()

    broken: list[BaseException] = []

    def failed(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # asyncio would log it and go on; a node of which one callback was broken off must not.
        broken.append(context.get("exception") or RuntimeError(context["message"]))
        end.set()

    loop.set_exception_handler(failed)
    host = Host(machine, disk, loop=loop, note=notes.write, stopped=stopped)
    peers = {peer: host_and_port(where) for peer, where in settings.peers.items()}
    transport = Transport(address, peers, host.received, host.connection_lost)
    zookeeper = KazooCoordination(settings.zookeeper, settings.broker.session_timeout_ms, host, loop.call_soon_threadsafe)
    try:
        await transport.listen(*host_and_port(settings.listen))
    except OSError as error:
        raise SettingsError(f"cannot listen on {settings.listen}: {error.strerror}") from None
    if settings.end_with_stdin:
        end_with_stdin(loop, end)
    loop.add_signal_handler(signal.SIGTERM, host.deliver, ShutDown())
    host.start(transport, zookeeper)
    await end.wait()
    await transport.close()
    if broken:
        raise broken[0]
    for reason in reasons:
        notes.write(Note(kind="node-stopped", detail=reason))
    # The session is left to time out, as that of a process that died: closing it would tell the others at once.
    return 1 if [reason for reason in reasons if reason != f"halt:{SHUT_DOWN}"] else 0
