"""Settings that all tests share: Hypothesis profiles, and skips that say why.

`dev` (default) tries few examples, `ci` more and derandomised, `night` many. HYPOTHESIS_PROFILE chooses.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from highwater.backends.real.zookeeper.local import LocalZooKeeper, missing

settings.register_profile("dev", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("night", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with real processes run one after the other: two clusters at once on a small machine starve each other."""
    for item in items:
        if item.get_closest_marker("zookeeper") is not None:
            item.add_marker(pytest.mark.xdist_group("real"))


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[str]:
    """The address of a real ZooKeeper, one for the whole session; tests keep to paths of their own."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with LocalZooKeeper() as server:
        yield server.address
