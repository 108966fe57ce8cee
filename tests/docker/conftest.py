"""Tests that need a Docker engine. Without one they are skipped with the reason, or fail if CI=true. They build the images."""

import os
from collections.abc import Iterator

import pytest

from highwater.backends.real.containers.engine import Engine, missing
from highwater.backends.real.containers.images import build_all


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A connection to the engine, with images that are up to date."""
    reason = missing()
    if reason is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true requires a Docker engine: {reason}")
        pytest.skip(reason)
    with Engine() as connection:
        build_all(connection)
        yield connection
