"""Jars of Kafka: where they are missing, its tests are skipped, in CI they fail."""

import os

import pytest

from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.releases import release_named


def need(version: str) -> None:
    """Skip the test unless this release of Kafka can run here; fail it in CI, where `.ci/systems` fetches the jars."""
    missing = jars.missing(release_named(version))
    if missing is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
