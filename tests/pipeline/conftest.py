"""One Spark session for all tests that need one, because it takes seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.session import missing, session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores, or a skip with the missing requirement."""
    lack = missing()
    if lack is not None:
        pytest.skip(lack)
    with session("local[2]") as started:
        yield started
