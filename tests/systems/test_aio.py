"""aiokafka as the client library of a run on a release of Kafka: what it keeps, and what it does not."""

from pathlib import Path

import pytest

from highwater.backends.real.clients import aio_kafka
from tests.systems.conftest import KEPT, need, outcome
from tests.systems.test_kafka import last_run_with

VERSION = "0.14.0"

pytestmark = [pytest.mark.slow, pytest.mark.systems_all]


def run(name: str, folder: Path) -> tuple[int, dict[str, object]]:
    """Run a plan on Kafka 4.1.0 with aiokafka, which is installed at its first use; skip the test where it cannot be."""
    need("4.1.0")
    missing = aio_kafka.missing(VERSION)
    if missing is not None:
        pytest.skip(missing)
    return last_run_with(name, "--system", "kafka:4.1.0", "--client", f"aiokafka:{VERSION}", folder=folder)


@pytest.mark.parametrize("name", ["failover", "transactions", "groups", "groups-static", "zombies", "compacted"])
def test_plan_is_kept_with_aiokafka(name: str, tmp_path: Path) -> None:
    assert outcome(*run(name, tmp_path)) == KEPT
