"""A cluster of brokers as processes on this machine, for tests and benchmarks with stock clients.

    with LocalZooKeeper() as zookeeper, LocalCluster(folder, zookeeper.address) as cluster:
        Producer({"bootstrap.servers": cluster.bootstrap})

Its only fault is SIGKILL (with `harmed`, also those of the disk layer); it has no proxies and records no history. For runs see
the backends. All processes end with the context, and when this process ends.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import msgspec

import reference
from highwater.backends.real.zookeeper.local import free_port
from highwater.errors import HarnessError
from reference.config import SAFE, BrokerConfig
from reference.types import Address, BrokerId, Millis, broker_address
from server.lab.notes import NotesReader
from server.runtime.gateway import Limits
from server.runtime.health import is_serving
from server.runtime.settings import Listener, NodeSettings

HOST = "127.0.0.1"
START_S_MAX = 30.0
LOOK_S = 0.02


class LocalCluster:
    """A context manager that starts brokers as processes on this machine and stops them at its end.

    `settings` change fields of each broker's `BrokerConfig`, `limits` those of its listener for clients.

    `harmed`: disk faults and power losses can be caused through `side_channel` and `ledger`, as the harness does.
    """

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        *,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        limits: Limits | None = None,
        harmed: bool = False,
    ) -> None:
        self.zookeeper = zookeeper
        self._folder = folder
        self._processes: dict[BrokerId, subprocess.Popen[bytes]] = {}
        ids = [BrokerId(number) for number in range(1, brokers + 1)]
        self.between = {broker: (HOST, free_port()) for broker in ids}  # each broker's listener for other brokers
        self.listening: Mapping[BrokerId, tuple[str, int]] = {broker: (HOST, free_port()) for broker in ids}
        peers = {broker_address(broker): f"{HOST}:{port}" for broker, (_, port) in self.between.items()}
        clients = {broker_address(broker): f"{HOST}:{port}" for broker, (_, port) in self.listening.items()}
        self._settings = {
            broker: NodeSettings(
                broker=msgspec.structs.replace(_config(broker), **(settings or {})),
                life=0,
                peers=_listener(broker, peers),
                clients=(_listener(broker, clients),),
                limits=Limits() if limits is None else limits,
                zookeeper=zookeeper,
                log_dirs=(),
                notes=str(folder / f"b{broker}.jsonl"),
                end_with_stdin=True,
                side_channel=str(self.side_channel(broker)) if harmed else None,
                power_ledger=str(self.ledger(broker)) if harmed else None,
            )
            for broker in ids
        }

    @property
    def bootstrap(self) -> str:
        """The value of a client's `bootstrap.servers`."""
        return ",".join(f"{host}:{port}" for host, port in self.listening.values())

    def __enter__(self) -> "LocalCluster":
        for broker in self._settings:
            self.start(broker)
        try:
            for broker in self._settings:
                self.wait_for(broker)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def start(self, broker: BrokerId) -> None:
        """Start a broker on the data that its previous process left. That process must have ended."""
        settings = self._settings[broker]
        dirs = tuple(str(self._folder / f"b{broker}-{index}") for index in range(settings.broker.log_dirs))
        settings = self._settings[broker] = msgspec.structs.replace(settings, life=settings.life + 1, log_dirs=dirs)
        path = self._folder / f"b{broker}.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(settings)))
        environment = {**os.environ, "PYTHONPATH": str(Path(next(iter(reference.__path__))).parent)}
        with (self._folder / f"b{broker}.log").open("ab") as output:
            self._processes[broker] = subprocess.Popen(
                [sys.executable, "-m", "server.runtime", "--config", str(path)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def wait_for(self, broker: BrokerId) -> None:
        """Wait until a broker serves clients. Raises HarnessError if it ends, or does not serve within START_S_MAX."""
        end_s = time.monotonic() + START_S_MAX
        while not is_serving(self.listening[broker], broker):
            if self._processes[broker].poll() is not None or time.monotonic() > end_s:
                raise HarnessError(
                    f"broker {broker} ended, or does not serve clients; end of its output: {self._last_words(broker)}"
                )
            time.sleep(LOOK_S)

    def kill(self, broker: BrokerId) -> None:
        """Send SIGKILL to a broker and wait for its end."""
        process = self._processes.pop(broker)
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def ended(self, broker: BrokerId, seconds: float) -> int:
        """Wait at most `seconds` for a broker to end by itself; return its exit code."""
        return self._processes[broker].wait(seconds)

    def pid(self, broker: BrokerId) -> int:
        """The process id of a broker."""
        return self._processes[broker].pid

    def resident_kb(self, broker: BrokerId) -> int:
        """The resident memory of a broker (VmRSS), in KiB."""
        lines = Path(f"/proc/{self.pid(broker)}/status").read_text(encoding="ascii").splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))

    def notes(self, broker: BrokerId) -> list[str]:
        """Return the kinds of the notes (recorded protocol events) that a broker has written so far."""
        return [line.note.kind for line in NotesReader(Path(self._settings[broker].notes)).read()]

    def terminate(self, broker: BrokerId) -> int:
        """Send SIGTERM to a broker and wait at most START_S_MAX for its end; return its exit code."""
        process = self._processes.pop(broker)
        process.terminate()
        code = process.wait(START_S_MAX)
        if process.stdin is not None:
            process.stdin.close()
        return code

    def side_channel(self, broker: BrokerId) -> Path:
        """The Unix socket over which a broker started with `harmed` is given disk faults."""
        return self._folder / f"b{broker}.socket"

    def ledger(self, broker: BrokerId) -> Path:
        """The file in which a broker started with `harmed` records up to which byte each of its files is flushed."""
        return self._folder / f"b{broker}.ledger"

    def dir_of(self, broker: BrokerId, index: int = 0) -> Path:
        """Return the path of one log directory of a broker."""
        return Path(self._settings[broker].log_dirs[index])

    @contextmanager
    def without(self, broker: BrokerId) -> Iterator[None]:
        """A context in which a broker is down: kill it, and start it again at the end of the context."""
        self.kill(broker)
        try:
            yield
        finally:
            self.start(broker)
            self.wait_for(broker)

    def _last_words(self, broker: BrokerId) -> str:
        lines = (self._folder / f"b{broker}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"

    def _end(self) -> None:
        for broker in list(self._processes):
            self.kill(broker)


def _config(broker: BrokerId) -> BrokerConfig:
    """A broker configuration with timeouts that are short enough for tests to wait for."""
    return BrokerConfig(
        broker=broker,
        variant=SAFE,
        topics=(),
        session_timeout_ms=Millis(2000),
        replica_lag_time_max_ms=Millis(2000),
        controller_heartbeat_timeout_ms=Millis(2000),
        broker_heartbeat_timeout_ms=Millis(3000),
    )


def _listener(broker: BrokerId, where: dict[Address, str]) -> Listener:
    return Listener(bind=where[broker_address(broker)], advertised=where)
