"""Each fault of the catalogue that a system with ZooKeeper does not refuse is performed, and its effect measured.

Kafka's programs are stand-ins (tests/highwater/backends/real/systems/played.py); ZooKeeper is real, and so is the reference.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from msgspec.structs import replace

from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.real.systems.kafka import node as kafka
from highwater.plans.plan import on_system
from highwater.plans.systems import parsed_system
from nemesis.faults import LinkFault
from reference.coordination import paths
from reference.types import BrokerId
from tests.highwater.backends.real.systems.played import PLAN, ROUNDS, in_turn, performable, sleeping_java, unseen_on_kafka
from tests.zookeeper.test_process_backend import PROVENANCE, plan, without_java

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

OPEN_MS = 1200
LOOK_S = 0.05


@contextmanager
def registered(zookeeper: str) -> Iterator[None]:
    """Keep b1 registered: by a client with a new session, whenever the znode is gone."""
    over = threading.Event()
    clients = [KazooClient(zookeeper)]
    clients[0].start()

    def register() -> None:
        while not over.wait(LOOK_S):
            with suppress(KazooException, KazooTimeoutError):
                if clients[0].exists(paths.broker_path(BrokerId(1))) is None:
                    clients.append(KazooClient(zookeeper))
                    clients[-1].start()
                    clients[-1].create(paths.broker_path(BrokerId(1)), b"{}", ephemeral=True, makepath=True)

    thread = threading.Thread(target=register)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for client in clients:
            client.stop()
            client.close()


def test_every_fault_acts_on_nodes_of_kafka_with_zookeeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_java()
    monkeypatch.setenv("PATH", sleeping_java(tmp_path, os.environ["PATH"]))
    monkeypatch.setattr(kafka, "SESSION_SLACK_S", 0.0)

    plan = performable(on_system(PLAN, parsed_system("kafka:3.9.1")), open_ms=400)

    assert unseen_on_kafka(plan, registered) == {}


def test_every_fault_acts_on_brokers_of_the_reference() -> None:
    """One after another on each broker, beside those on the other brokers. Its links are those of Kafka."""
    without_java()
    whole = plan(faults_ms=60_000)
    whole = replace(whole, cluster=replace(whole.cluster, zookeeper=3))
    late_windows = [window for window in performable(whole).schedule if not isinstance(window.fault, LinkFault)]
    for _ in range(ROUNDS):
        schedule = in_turn(late_windows, places=3, open_ms=OPEN_MS)
        run = ProcessBackend().perform(replace(whole, schedule=schedule, faults_ms=schedule[-1].until_ms), PROVENANCE)
        assert run.failure is None
        idle = [count.kind for count in run.history.manifest.faults if not count.acted]
        late_windows = [window for window in late_windows if window.kind in idle]
        if not late_windows:
            break

    assert idle == []
