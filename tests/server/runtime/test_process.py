"""A node as a program: one line when it cannot start, the health check, and the controlled shutdown on SIGTERM."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from bench.local_cluster import LocalCluster
from highwater.backends.real.zookeeper.local import LocalZooKeeper, free_port, missing
from reference.config import SAFE, BrokerConfig
from reference.types import Address, BrokerId, Millis
from server.lab.notes import NotesReader
from server.runtime.settings import Listener, NodeSettings

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

TIMEOUT_S = 30
B1 = Address("b1")
NOBODY = "127.0.0.1:1"  # a port that nothing listens on


@pytest.fixture(scope="module")
def own_zookeeper() -> Iterator[str]:
    """A ZooKeeper of its own, because brokers keep their znodes at the root."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with LocalZooKeeper() as server:
        yield server.address


def settings(folder: Path, zookeeper: str) -> NodeSettings:
    """The settings of broker 1."""
    peers, clients = (f"127.0.0.1:{free_port()}" for _ in range(2))
    return NodeSettings(
        broker=BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=(), session_timeout_ms=Millis(1000)),
        life=1,
        peers=Listener(bind=peers, advertised={B1: peers}),
        clients=(Listener(bind=clients, advertised={B1: clients}),),
        zookeeper=zookeeper,
        log_dirs=(str(folder / "data"),),
        notes=str(folder / "notes.jsonl"),
        startup_timeout_ms=1500,
    )


def program(folder: Path, expected_settings: NodeSettings, *more: str) -> list[str]:
    path = folder / "node.json"
    path.write_bytes(msgspec.json.encode(expected_settings))
    return [sys.executable, "-m", "server.runtime", "--config", str(path), *more]


def ended(folder: Path, expected_settings: NodeSettings, *more: str) -> tuple[int, str]:
    """Exit code and output of a node that ends by itself."""
    completed = subprocess.run(
        program(folder, expected_settings, *more), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return completed.returncode, (completed.stdout + completed.stderr).strip()


def test_broker_error_names_a_port_in_use(tmp_path: Path) -> None:
    expected_settings = settings(tmp_path, NOBODY)
    both = replace(expected_settings, clients=(replace(expected_settings.clients[0], bind=expected_settings.peers.bind),))

    assert ended(tmp_path, both) == (2, f"cannot listen on {expected_settings.peers.bind}: Address already in use")


def test_broker_error_names_an_unreachable_zookeeper(tmp_path: Path) -> None:
    code, message = ended(tmp_path, settings(tmp_path, NOBODY))

    assert (code, message) == (2, f"ZooKeeper at {NOBODY} is out of reach, still after 1.5 s")
    assert NotesReader(tmp_path / "notes.jsonl").read()[-1].note.kind == "node-stopped"


def test_broker_error_names_an_unusable_log_directory(tmp_path: Path) -> None:
    """R-292: a broker without a working log directory ends."""
    (tmp_path / "data").write_text("a file")

    code, message = ended(tmp_path, settings(tmp_path, NOBODY))

    assert code == 1
    assert message.splitlines() == [f"log directory {tmp_path}/data: File exists", "log directory 0 failed"]


def test_broker_error_names_an_unwritable_notes_file(tmp_path: Path) -> None:
    expected_settings = replace(settings(tmp_path, NOBODY), notes=str(tmp_path / "none" / "notes"))

    assert ended(tmp_path, expected_settings) == (
        2,
        f"cannot write notes to {expected_settings.notes}: No such file or directory",
    )


def test_broker_error_names_a_broker_id_already_registered(tmp_path: Path, own_zookeeper: str) -> None:
    with LocalCluster(tmp_path, own_zookeeper, brokers=1) as cluster:
        second_folder = tmp_path / "other"
        second_folder.mkdir()
        code, message = ended(second_folder, settings(second_folder, own_zookeeper))

        assert (code, message) == (2, "id 1 is registered by another process, still after 1.5 s")
        cluster.wait_for(BrokerId(1))


def test_health_is_ok_until_sigterm_shuts_the_broker_down(tmp_path: Path, own_zookeeper: str) -> None:
    """The clean-shutdown marker is written, so that the next start trusts the logs."""
    quick = {"controlled_shutdown_retry_backoff_ms": Millis(200)}
    with LocalCluster(tmp_path, own_zookeeper, brokers=1, settings=quick) as cluster:
        broker = BrokerId(1)
        probe = [sys.executable, "-m", "server.runtime", "--config", str(tmp_path / "b1.json"), "--health"]
        healthy = subprocess.run(probe, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        os.kill(cluster.pid(broker), signal.SIGTERM)

        assert cluster.ended(broker, TIMEOUT_S) == 0
        assert (healthy.returncode, healthy.stdout) == (0, "broker 1 is registered and serves clients\n")
        assert (cluster.dir_of(broker) / ".kafka_cleanshutdown").exists()
        removed_process = subprocess.run(probe, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert (removed_process.returncode, removed_process.stdout) == (1, "broker 1 does not serve clients\n")
