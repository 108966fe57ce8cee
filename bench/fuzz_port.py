"""Fuzzes a broker's ports with damaged requests of stock clients (changed, cut, repeated, wrong lengths) and random bytes.

    python -m bench.fuzz_port --seconds 600 --requests tests/server/wire/stock_requests.txt

A cluster of three processes is started. One broker is the target, at its listener for clients and at the one for brokers.
Meanwhile a stock client produces records and reads them all at the end. Printed are the bytes sent, how the connections ended,
and ten times the broker's resident memory. The exit code is 1 if a record was lost or not acknowledged (as when the broker died),
or if memory grew by more than GROWTH_KB_MAX after the first tenth of the time. Fuzzed requests may be valid; their records stay
in memory like all others.
"""

import argparse
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.local_cluster import LocalCluster
from highwater.backends.real.zookeeper.local import LocalZooKeeper
from reference.types import BrokerId

GROWTH_KB_MAX = 30_000
TARGET = BrokerId(1)
TOPIC = "kept"  # not the topic of the fuzzed requests, some of which delete it
_PAUSE_S = 0.002
_FLUSH_S = 15.0


def load_requests(path: Path) -> list[bytes]:
    """Read Kafka request frames, without length prefixes: the last word of each line of the file, in hexadecimal."""
    return [bytes.fromhex(line.split()[-1]) for line in path.read_text(encoding="ascii").splitlines()]


def mutated(frame: bytes, draw: random.Random) -> bytes:
    """Return the bytes to send on one connection: this request with random damage, or rarely random bytes."""
    data = bytearray(frame)
    for _ in range(draw.choice((0, 1, 1, 2, 8))):
        at = draw.randrange(len(data))
        match draw.randrange(4):
            case 0:
                data[at] = draw.randrange(256)
            case 1:
                data[at : at + 4] = draw.choice(
                    (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x80\x00\x00\x00")
                )
            case 2:
                del data[at : at + draw.randrange(1, 20)]
            case _:
                data[at:at] = draw.randbytes(draw.randrange(1, 20))
        data = data or bytearray(b"\0")
    length = len(data) + draw.choice((0, 0, 0, 0, 0, 0, 1, -1, 1000, 2**31 - 1 - len(data), -len(data) - 5))
    sent = (length & 0xFFFFFFFF).to_bytes(4, "big") + bytes(data)
    return sent * draw.choice((1, 1, 1, 2, 50)) if draw.randrange(20) else draw.randbytes(draw.randrange(1, 5000))


class Fire:
    """A thread that sends damaged requests to one port, one connection after the other, until `stop`."""

    def __init__(self, address: tuple[str, int], requests: Sequence[bytes], seed: int) -> None:
        self.ends: Counter[str] = Counter()
        self.bytes = 0
        self._where = address
        self._requests = requests
        self._draw = random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending damaged requests and wait for the thread to end."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            data = mutated(self._draw.choice(self._requests), self._draw)
            self.bytes += len(data)
            self.ends[self._one(data)] += 1
            time.sleep(_PAUSE_S)

    def _one(self, data: bytes) -> str:
        """Send data over one connection; returns how it ended."""
        try:
            with socket.create_connection(self._where, 2.0) as connection:
                connection.settimeout(0.05)
                connection.sendall(data)
                if self._draw.randrange(4) == 0:
                    return "left"
                return "answered" if connection.recv(65536) else "closed"
        except TimeoutError:
            return "silent"
        except OSError:
            return "reset"


class Customer:
    """A stock client that produces single records and reads them all at the end."""

    def __init__(self, bootstrap: str) -> None:
        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result()
        self._producer = Producer({**settings, "acks": "all", "message.timeout.ms": 10_000})
        self._consumer = Consumer({**settings, "group.id": "fuzz", "enable.auto.commit": False})
        self.acknowledged: set[bytes] = set()
        self._sent = 0

    def produce(self) -> None:
        """Produce the next record of this client."""
        self._sent += 1
        self._producer.produce(TOPIC, str(self._sent).encode(), on_delivery=self._on_delivery)
        self._producer.poll(0)

    def _on_delivery(self, error: object, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.acknowledged.add(value)

    def lost(self) -> set[bytes]:
        """Return the records that were acknowledged and cannot be read, and the records that were not acknowledged."""
        self._producer.flush(_FLUSH_S)
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: set[bytes] = set()
        while messages := self._consumer.consume(1000, 2.0):
            found.update(value for message in messages if (value := message.value()) is not None)
        self._consumer.close()
        unanswered = {str(number).encode() for number in range(1, self._sent + 1)} - self.acknowledged
        return (self.acknowledged - found) | unanswered


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a cluster, fuzz it and print the result; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz_port")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=Path, required=True, metavar="FILE")
    options_given = parser.parse_args(arguments)
    requests = load_requests(options_given.requests)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalZooKeeper() as zookeeper,
        LocalCluster(Path(folder), zookeeper.address) as cluster,
    ):
        return _fire(cluster, requests, options_given.seconds, options_given.seed)


def _fire(cluster: LocalCluster, requests: Sequence[bytes], seconds: int, seed: int) -> int:
    customer = Customer(cluster.bootstrap)
    ports = (cluster.listening[TARGET], cluster.listening[TARGET], cluster.between[TARGET])
    fires = [Fire(address, requests, seed + number) for number, address in enumerate(ports)]
    sizes = [cluster.resident_kb(TARGET)]
    start_s = time.monotonic()
    while (passed_s := time.monotonic() - start_s) < seconds:
        customer.produce()
        time.sleep(0.05)
        if passed_s >= len(sizes) * seconds / 10:
            sizes.append(cluster.resident_kb(TARGET))
            sys.stdout.write(
                f"{passed_s:6.0f} s  {sizes[-1]:,} kB  {sum(sum(fire.ends.values()) for fire in fires):,} connections\n"
            )
            sys.stdout.flush()
    for fire in fires:
        fire.stop()
    sizes.append(cluster.resident_kb(TARGET))
    lost = customer.lost()
    answers: Counter[str] = sum((fire.ends for fire in fires), Counter())
    growth_kb = max(sizes[2:]) - sizes[1]
    sys.stdout.write(
        f"{sum(fire.bytes for fire in fires):,} bytes, {dict(sorted(answers.items()))}; resident {sizes[0]:,} kB at first,"
        f" {sizes[-1]:,} kB at last, at most {growth_kb:,} kB more than after a tenth;"
        f" {len(customer.acknowledged):,} records acknowledged, {len(lost)} lost\n"
    )
    return 1 if lost or growth_kb > GROWTH_KB_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
