"""Scrapes of a broker over HTTP, read as Prometheus reads them."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater.backends.real.zookeeper.local import free_port
from reference.metrics import METRICS
from server.runtime.scrape import ScrapeError, prometheus_name, scrape, serve
from server.runtime.settings import SettingsError, load

Found = TypeVar("Found")
VALUES = {metric.name: number for number, metric in enumerate(METRICS)}


def answer_once(server: socket.socket, body: bytes) -> None:
    """Answer one connection with these bytes."""
    connection, _ = server.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(body)


def served(look: Callable[[int], Found]) -> Found:
    """What `look` finds at the port of a broker with these values, while its loop runs."""

    async def main() -> Found:
        port = free_port("127.0.0.1")
        stop = serve("127.0.0.1", port, lambda: VALUES)
        try:
            return await asyncio.to_thread(look, port)
        finally:
            await asyncio.to_thread(stop)

    return asyncio.run(main())


def test_scrape_is_read_by_prometheus_own_parser() -> None:
    """Each metric has a type, a sentence and one sample."""

    def look(port: int) -> tuple[str, list[object]]:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
            kind = answer.headers["Content-Type"]
        families = list(text_string_to_metric_families(text))
        return str(kind), [(f.name, f.type, f.documentation, [(s.name, s.labels, s.value) for s in f.samples]) for f in families]

    kind, families = served(look)

    assert kind.startswith("text/plain; version=")
    assert families == [
        (
            name := prometheus_name(metric.name),
            metric.kind,
            metric.words,
            [(f"{name}_total" if metric.kind == "counter" else name, {}, float(VALUES[metric.name]))],
        )
        for metric in METRICS
    ]


def test_metrics_are_named_like_exports_of_kafkas_jmx() -> None:
    name = "kafka.server:name=UnderReplicatedPartitions,type=ReplicaManager"

    assert prometheus_name(name) == "kafka_server_replicamanager_underreplicatedpartitions"


def test_reader_of_scrapes_gives_the_values_by_name() -> None:
    assert served(lambda port: scrape(("127.0.0.1", port))) == VALUES


def test_scrape_of_no_broker_is_refused_in_one_line() -> None:
    with pytest.raises(ScrapeError, match=r"^127\.0\.0\.1:1: Connection refused$"):
        scrape(("127.0.0.1", 1))


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_scrape_of_values_that_are_no_numbers_is_refused(value: str) -> None:
    """Another server may answer there; the run, or `highwater describe`, must not end in a traceback."""
    lines = "".join(f"{prometheus_name(metric.name)} {value}\n" for metric in METRICS)
    body = f"HTTP/1.0 200 OK\r\n\r\n{lines}".encode()

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        answered = threads.submit(answer_once, server, body)
        with pytest.raises(ScrapeError, match="these are not the metrics of a broker"):
            scrape(("127.0.0.1", server.getsockname()[1]))
        answered.result()


def test_scrape_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers of a run are on this machine: a proxy that operators use for the web does not reach them."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    assert served(lambda port: scrape(("127.0.0.1", port))) == VALUES


def test_scrape_of_a_broker_that_handles_nothing_fails() -> None:
    """A value from a broker that hangs would look like one from a broker that works."""

    async def main() -> None:
        port = free_port("127.0.0.1")
        stop = serve("127.0.0.1", port, lambda: VALUES)
        try:
            with pytest.raises(ScrapeError):
                scrape(("127.0.0.1", port))  # in the loop's own thread: the loop does not run meanwhile
        finally:
            await asyncio.to_thread(stop)

    asyncio.run(main())


def test_port_of_metrics_in_use_is_told() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
            serve("127.0.0.1", taken.getsockname()[1], lambda: VALUES)

    asyncio.run(main())


def test_address_of_metrics_must_have_a_port(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text(
        '{"broker": {"broker": 1, "variant": {}, "topics": []}, "life": 1, "peers": {"bind": "a:1", "advertised": {}},'
        ' "zookeeper": "z", "log_dirs": ["d"], "metrics": "localhost"}'
    )

    with pytest.raises(SettingsError, match="an address must be host:port, not 'localhost'"):
        load(path)
