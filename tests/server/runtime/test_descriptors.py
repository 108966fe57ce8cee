"""A node survives more connections than it may have descriptors, and raises its limit of descriptors."""

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from highwater.backends.real.zookeeper.local import free_port
from reference.config import SAFE, BrokerConfig
from reference.types import Address, BrokerId
from server.runtime.settings import Listener, NodeSettings

pytestmark = pytest.mark.slow

PATIENCE_S = 20
FEW = 64
CONNECTIONS = 100
NOBODY = "127.0.0.1:1"  # a port that nothing listens on


@contextmanager
def node(folder: Path, port: int, most: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A listening node without ZooKeeper; its descriptor limit is FEW and it may raise it to `most`."""
    listener = Listener(bind=f"127.0.0.1:{port}", advertised={Address("b1"): f"127.0.0.1:{port}"})
    settings = NodeSettings(
        broker=BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=()),
        life=1,
        peers=Listener(bind="127.0.0.1:0", advertised={}),
        clients=(listener,),
        zookeeper=NOBODY,
        log_dirs=(str(folder / "data"),),
        notes=str(folder / "notes.jsonl"),
        startup_timeout_ms=None,
    )
    (folder / "node.json").write_bytes(msgspec.json.encode(settings))
    process = subprocess.Popen(
        [sys.executable, "-m", "server.runtime", "--config", str(folder / "node.json")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, most)),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def dialled(port: int) -> socket.socket:
    """A connection to `port`, as soon as a node listens there."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        except ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def is_taken(connection: socket.socket) -> bool:
    """True if the node accepted the connection: it closes a connection that sends a malformed request."""
    try:
        connection.sendall(b"nonsense, and more of it")
        return connection.recv(1) == b""
    except ConnectionError:
        return False


def test_broker_accepts_connections_once_descriptors_are_free(tmp_path: Path) -> None:
    port = free_port()
    with node(tmp_path, port, FEW) as process:
        with ExitStack() as connections_open:
            for _ in range(CONNECTIONS):
                connections_open.enter_context(dialled(port))
            time.sleep(0.5)
            assert process.poll() is None
        with dialled(port) as another:
            assert is_taken(another)


def test_broker_process_raises_its_file_descriptor_limit(tmp_path: Path) -> None:
    port = free_port()
    with node(tmp_path, port, 1000), ExitStack() as connections_open:
        connections = [connections_open.enter_context(dialled(port)) for _ in range(CONNECTIONS)]
        assert is_taken(connections[-1])
