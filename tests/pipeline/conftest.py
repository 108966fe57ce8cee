"""One Spark session and one S3 server for all tests that need them, because they take seconds to start."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from bench.local_spark import CONF, local_spark
from pipeline.dataset import ingest
from pipeline.session import missing, session
from pipeline.storage import Storage, storage_at
from tests.pipeline.records import six_entries


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session, or a skip with the missing requirement: on two cores, or where HIGHWATER_TEST_MASTER says.

    The master `standalone` starts a cluster of two workers for the tests.
    """
    lack = missing()
    if lack is not None:
        pytest.skip(lack)
    master = os.environ.get("HIGHWATER_TEST_MASTER", "local[2]")
    if master != "standalone":
        with session(master) as started:
            yield started
    else:
        with local_spark() as cluster, session(cluster.master, CONF) as started:
            yield started


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server on this machine, with an empty bucket `bucket`."""
    from moto.server import ThreadedMotoServer  # takes half a second

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"access_key": "test", "secret_key": "test", "allow_bucket_creation": True}
    fs.S3FileSystem(**settings, scheme="http", endpoint_override=f"{host}:{port}").create_dir("bucket")
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The URI of an empty folder on the S3 server, with credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    return f"s3://bucket/{quote(request.node.name, safe='')}?endpoint_override={s3_server}"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A dataset of four runs in four parts."""
    place = storage_at(tmp_path / "dataset")
    for seed in range(4):
        ingest(place, "one", six_entries(seed, seed + 1))
    return place
