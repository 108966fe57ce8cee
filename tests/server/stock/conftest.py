"""A cluster of three processes for the tests of stock clients, one for all of them in this process."""

import gc
import warnings
from collections.abc import Iterator

import pytest

from bench.local_cluster import LocalCluster
from highwater.backends.real.zookeeper.local import LocalZooKeeper, missing
from reference.types import Millis

# A broker that was killed is taken for alive for so long: a test has that time to ask for something that it must do.
_SETTINGS = {
    "log_dirs": 2,
    "session_timeout_ms": Millis(5000),
    "controller_heartbeat_timeout_ms": Millis(5000),
    "broker_heartbeat_timeout_ms": Millis(7500),
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """It has its own ZooKeeper: brokers have their paths at its root. Tests keep to topics of their own."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("cluster")
    with LocalZooKeeper() as zookeeper, LocalCluster(folder, zookeeper.address, settings=_SETTINGS) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """kafka-python leaves sockets open that it has shut down; whoever comes next is not to be blamed for them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
