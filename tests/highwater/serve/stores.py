"""Stores for the tests of `highwater serve`, and a server of one."""

import http.client
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from msgspec.structs import replace

from highwater.runs.findings import FoundAnomaly
from highwater.runs.run import SUMMARY
from highwater.runs.summary import Summary
from history import store
from history.manifest import FaultCount
from tests.strategies import MANIFEST

VALID = Summary(
    seed=1,
    protocol="safe",
    verdict="VALID",
    live=True,
    acked=10,
    faults=(FaultCount(kind="pause", begun=2, acted=1),),
    plan="seed-1",
    plan_digest="",
    backend="sim",
    outcome="completed",
    repeat="highwater run --seed 1",
)
LOST = replace(
    VALID,
    seed=2,
    plan="seed-2",
    protocol="v3",
    verdict="INVALID",
    acked=30,
    anomalies=(FoundAnomaly(kind="lost-write", checker="acked-loss", key="t-0", words="p1-15 is gone"),) * 2,
    signature="lost-write/acked-loss/truncate",
    cause="b3 truncated p1-15",
    repeat="highwater run --seed 2 --protocol v3 --faults crash",
)
EVIL = "<img src=x onerror=alert(1)>"


def put(root: Path, summary: Summary, *, run_id: str = "sim-1", page: str = "<!doctype html><title>page</title>the page") -> Path:
    """Store a run without its history."""
    folder = root / summary.plan / run_id
    folder.mkdir(parents=True, exist_ok=True)
    stored = replace(summary, store=f"{summary.plan}/{run_id}")
    store.write_file(folder / store.REPORT, page)
    store.write_file(folder / store.PLAN, "name: x\n")
    store.write_file(folder / SUMMARY, msgspec.json.encode(stored))
    store.write_file(folder / store.MANIFEST, store.encode_manifest(MANIFEST))
    return folder


@contextmanager
def serving(root: Path, *, read: bool = True) -> Iterator[int]:
    """Serve a store in this process; yields the port."""
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    import uvicorn

    from highwater.cli.serve import listening_on
    from highwater.serve.app import application
    from highwater.serve.catalog import Catalog

    with listening_on("127.0.0.1", 0) as listening, Catalog(root) as catalog:
        if read:
            catalog.refresh()
        config = uvicorn.Config(
            application(catalog, hosts=["127.0.0.1", "localhost"]), log_level="error", lifespan="off", ws="none"
        )
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request."""

    status: int
    text: str
    headers: dict[str, str]


def ask(port: int, target: str, *, host: str | None = None, method: str = "GET") -> Answer:
    """Send a request; the target goes over the wire as it is, unlike with a browser."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.putrequest(method, target, skip_host=host is not None)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        response = connection.getresponse()
        return Answer(
            status=response.status, text=response.read().decode(), headers={k.lower(): v for k, v in response.getheaders()}
        )
