"""The metrics of a broker over HTTP, in Prometheus's text format; and their reader, for the harness and for operators' tools.

A scrape is answered by a thread of prometheus_client, which asks the broker's own loop for the values: they are those of one
moment between two events, and a broker that handles nothing any more does not answer.

A metric has the name that exporters of Kafka's JMX give it: kafka_server_replicamanager_leadercount.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from reference.metrics import METRICS

ANSWER_S_MAX = 1.0
_BEAN = re.compile(r"(.*):name=(.*),type=(.*)")


class ScrapeError(Exception):
    """A broker did not answer a scrape, or not with its metrics; the message is one line."""


def prometheus_name(name: str) -> str:
    """The name of a metric in a scrape, without the ending _total of a counter."""
    bean = _BEAN.fullmatch(name)
    assert bean is not None, name
    domain, about, kind = bean.groups()
    return f"{domain.replace('.', '_')}_{kind}_{about}".lower()


_FAMILIES = {prometheus_name(metric.name): metric.name for metric in METRICS}


class _Metrics(Collector):
    """Collects the values on the broker's loop, for the thread that answers a scrape."""

    def __init__(self, read: Callable[[], Mapping[str, int]], loop: asyncio.AbstractEventLoop) -> None:
        self._read = read
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        """The metrics, each with its present value. TimeoutError if the loop does not run."""
        values = asyncio.run_coroutine_threadsafe(self._now(), self._loop).result(ANSWER_S_MAX)
        for metric in METRICS:
            family = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
            yield family(prometheus_name(metric.name), metric.words, values[metric.name])

    async def _now(self) -> Mapping[str, int]:
        return self._read()


def serve(host: str, port: int, read: Callable[[], Mapping[str, int]]) -> Callable[[], None]:
    """Answer scrapes at this address; returns what stops that. Call it on the broker's loop. OSError if it cannot be bound."""
    registry = CollectorRegistry()
    registry.register(_Metrics(read, asyncio.get_running_loop()))
    server, thread = start_http_server(port, host, registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def scrape(where: tuple[str, int]) -> dict[str, int]:
    """The metrics of the broker that serves them there, by their names in `reference.metrics`. Raises ScrapeError.

    Never through a proxy: brokers of a run are on this machine.
    """
    host, port = where
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with build_opener(ProxyHandler({})).open(f"http://{shown}/metrics", timeout=ANSWER_S_MAX) as answer:
            text = answer.read()
    except (OSError, HTTPException, ValueError) as error:
        raise ScrapeError(f"{shown}: {_reason(error)}") from None
    try:
        families = text_string_to_metric_families(text.decode())
        values = {_FAMILIES[f.name]: int(f.samples[0].value) for f in families if f.name in _FAMILIES and f.samples}
    except (ValueError, OverflowError):  # the parser's, and of a value that is no whole number
        values = {}
    if len(values) < len(METRICS):
        raise ScrapeError(f"{shown}: these are not the metrics of a broker")
    return values


def _reason(error: Exception) -> str:
    """Why a request failed, without the words of urllib around the system's."""
    cause = error.reason if isinstance(error, URLError) else error
    return cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
