"""A cluster of brokers as processes of this machine, for stock clients: to try them, to measure, to look around.

    with LocalZooKeeper() as zookeeper, LocalCluster(folder, zookeeper.address) as cluster:
        Producer({"bootstrap.servers": cluster.bootstrap})

No faults but SIGKILL, no proxies, no history: runs are performed by the backends. Every process ends with the
context, and with this process however it ends.
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
    """The context. `settings` change fields of each broker's `BrokerConfig`, `limits` those of its listener for clients.

    `harmed`: its disks can be made to fail, and to lose power, as a harness does it.
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
        self.between = {broker: (HOST, free_port()) for broker in ids}  # the listeners among brokers
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
        """What clients are given."""
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
        """A process on what the last one left. There must be none."""
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
        """Until it serves clients. HarnessError where it died, or does not come up."""
        end_s = time.monotonic() + START_S_MAX
        while not is_serving(self.listening[broker], broker):
            if self._processes[broker].poll() is not None or time.monotonic() > end_s:
                raise HarnessError(f"broker {broker} did not come up: {self._last_words(broker)}")
            time.sleep(LOOK_S)

    def kill(self, broker: BrokerId) -> None:
        """SIGKILL."""
        process = self._processes.pop(broker)
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def ended(self, broker: BrokerId, seconds: float) -> int:
        """The exit code of a process that ends by itself, within so long."""
        return self._processes[broker].wait(seconds)

    def pid(self, broker: BrokerId) -> int:
        """Of its process."""
        return self._processes[broker].pid

    def resident_kb(self, broker: BrokerId) -> int:
        """VmRSS of its process."""
        lines = Path(f"/proc/{self.pid(broker)}/status").read_text(encoding="ascii").splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))

    def notes(self, broker: BrokerId) -> list[str]:
        """What it has said so far, a kind for each note."""
        return [line.note.kind for line in NotesReader(Path(self._settings[broker].notes)).read()]

    def terminate(self, broker: BrokerId) -> int:
        """SIGTERM; the exit code, when it has come to its end."""
        process = self._processes.pop(broker)
        process.terminate()
        code = process.wait(START_S_MAX)
        if process.stdin is not None:
            process.stdin.close()
        return code

    def side_channel(self, broker: BrokerId) -> Path:
        """Where a harmed one is told of faults."""
        return self._folder / f"b{broker}.socket"

    def ledger(self, broker: BrokerId) -> Path:
        """What a harmed one knows to be durable."""
        return self._folder / f"b{broker}.ledger"

    def dir_of(self, broker: BrokerId, index: int = 0) -> Path:
        """One of its log directories."""
        return Path(self._settings[broker].log_dirs[index])

    @contextmanager
    def without(self, broker: BrokerId) -> Iterator[None]:
        """SIGKILL, and another process at the end of the context."""
        self.kill(broker)
        try:
            yield
        finally:
            self.start(broker)
            self.wait_for(broker)

    def _last_words(self, broker: BrokerId) -> str:
        lines = (self._folder / f"b{broker}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _end(self) -> None:
        for broker in list(self._processes):
            self.kill(broker)


def _config(broker: BrokerId) -> BrokerConfig:
    """Times short enough to be waited for."""
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
