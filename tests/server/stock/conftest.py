"""A cluster of three broker processes, shared by all stock client tests of a test process."""

import gc
import warnings
from collections.abc import Iterator

import pytest

from bench.local_cluster import LocalCluster
from highwater.backends.real.zookeeper.local import LocalZooKeeper, missing
from reference.types import Millis

# A killed broker counts as alive for this long, so that a test has time to request a reassignment to it.
_SETTINGS = {
    "log_dirs": 2,
    "session_timeout_ms": Millis(5000),
    "controller_heartbeat_timeout_ms": Millis(5000),
    "broker_heartbeat_timeout_ms": Millis(7500),
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Has its own ZooKeeper, because brokers keep their znodes at the root. Each test uses its own topics."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("cluster")
    with LocalZooKeeper() as zookeeper, LocalCluster(folder, zookeeper.address, settings=_SETTINGS) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """Collect the sockets that kafka-python leaves open, so that the next test gets no ResourceWarning."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
