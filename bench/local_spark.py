"""A standalone Spark cluster on this machine: one master, some workers of one core, and the executors that they start.

PySpark's wheel has no start scripts, so the processes are started by `spark-class`. Ports are drawn by the system and bound to
127.0.0.1. When the context ends no process and no file of the cluster is left, also after kills.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from highwater.errors import HarnessError
from pipeline.session import missing

START_S_MAX = 60.0
END_S_MAX = 20.0
WORKER_MEMORY = "1g"
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for a minute: cheap compiler, no threads to collect
# Of Spark, for a driver of such a cluster.
CONF = {
    "spark.executor.memory": "512m",  # of a worker's 1 GiB
    "spark.driver.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.extraJavaOptions": _SHORT_LIVED,
}
_LOOK_S = 0.1
_MARK = "HIGHWATER_LOCAL_SPARK"  # in the environment of every process of a cluster
_BIN = Path(pyspark.__file__).parent / "bin"
_REGISTERED = re.compile(r"(?:Starting Spark master at|Successfully registered with master) (spark://\S+)")
_LISTENS = re.compile(r"Spark Connect server started at: \S+:(\d+)")
_DAEMON = "org.apache.spark.deploy"


class LocalSpark:
    """A running cluster. `master` is its address, `spark://127.0.0.1:port`; `submit` the path of spark-submit."""

    submit = _BIN / "spark-submit"

    def __init__(self, folder: Path, *, memory: str = "256m") -> None:
        self.folder = folder
        self._memory = memory  # of each daemon's JVM
        self.master = ""
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start_daemon(self, name: str, *arguments: str) -> re.Match[str]:
        """Start a master or worker; wait until it reports its address in its log. Raises HarnessError if it does not."""
        command = [
            str(_BIN / "spark-class"),
            f"{_DAEMON}.{name.lower()}.{name}",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0",
        ]
        return self.start([*command, *arguments], name, _REGISTERED)

    def start(self, command: Sequence[str], name: str, says: re.Pattern[str]) -> re.Match[str]:
        """Start a process; wait until its log matches. Raises HarnessError if it does not."""
        log = self.folder / f"{name}-{len(self._daemons)}.log"
        with log.open("wb") as output:
            daemon = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                start_new_session=True,
            )
        self._daemons.append(daemon)
        end_s = time.monotonic() + START_S_MAX
        while time.monotonic() < end_s and daemon.poll() is None:
            match = says.search(log.read_text())
            if match is not None:
                return match
            time.sleep(_LOOK_S)
        words = (log.read_text().strip().splitlines() or ["it printed nothing"])[-1]
        raise HarnessError(f"Spark's {name} ended, or does not start within {START_S_MAX:.0f} s; end of its output: {words}")

    def pids(self, words: str = "") -> list[int]:
        """The processes of the cluster, driver excluded, whose command line contains these words."""
        return [pid for pid in _pids_with(f"{_MARK}={self.folder}") if words in _command(pid)]

    def executors(self) -> list[int]:
        """The executor JVMs."""
        return self.pids("CoarseGrainedExecutorBackend")

    def python_workers(self) -> list[int]:
        """The Python workers; their parent, the daemon that forks them, is left out."""
        forked = self.pids("pyspark.daemon")
        return [pid for pid in forked if _parent(pid) in forked]

    def end(self) -> None:
        """End all processes of the cluster: workers end their executors, and these their Python workers."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(END_S_MAX)
        end_s = time.monotonic() + END_S_MAX
        while (left := self.pids()) and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for daemon in self._daemons:
            daemon.wait()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            _MARK: str(self.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": self._memory,
            "SPARK_DAEMON_JAVA_OPTS": _SHORT_LIVED,
        }


@contextmanager
def local_spark(workers: int = 2) -> Iterator[LocalSpark]:
    """Start a standalone cluster and end it with the context. Raises HarnessError where it does not start."""
    lack = missing()
    if lack is not None:
        raise HarnessError(lack)
    with TemporaryDirectory(prefix="highwater-spark-") as name:
        cluster = LocalSpark(Path(name))
        try:
            cluster.master = cluster.start_daemon("Master")[1]
            for number in range(workers):
                work = ("--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(cluster.folder / f"work-{number}"))
                cluster.start_daemon("Worker", *work, cluster.master)
            yield cluster
        finally:
            cluster.end()


@contextmanager
def connect_server() -> Iterator[str]:
    """Start a server of Spark Connect with two cores; yields its address, `sc://127.0.0.1:port`. HarnessError if it does not."""
    with TemporaryDirectory(prefix="highwater-spark-") as name:
        cluster = LocalSpark(Path(name), memory="1g")
        conf = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}
        words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        service = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
        try:
            port = cluster.start([str(LocalSpark.submit), "--master", "local[2,4]", *words, *service], "Connect", _LISTENS)[1]
            yield f"sc://127.0.0.1:{port}"
        finally:
            cluster.end()


def _pids_with(setting: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end at any moment, and others' environments cannot be read.
        with suppress(OSError):
            if setting.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return sorted(found)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def main() -> None:
    """Run a cluster of two workers until Ctrl-C or SIGTERM; print its address."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores SIGINT
        signal.signal(number, signal.default_int_handler)
    with local_spark() as cluster, suppress(KeyboardInterrupt):
        sys.stdout.write(f"{cluster.master}\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
