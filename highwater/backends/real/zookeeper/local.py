"""A real ZooKeeper for a run: one server or a quorum of three on loopback, from the jars that come with PySpark.

It needs Java 17 or newer and the `pyspark` package; `missing()` says which of them is absent. Leaving the context stops the
servers and removes their folder. If the harness is killed, the kernel kills the servers too, provided that setpriv (util-linux)
is installed. The tick is short, so sessions can be as short as 200 ms and expire on time. Logs are not synced: runs break
brokers, not ZooKeeper's disk.
"""

import errno
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from highwater.errors import HarnessError
from highwater.run_folder import ZOOKEEPER_PREFIX, RunFolder
from reference.types import Address

HOST = "127.0.0.1"
TICK_MS = 100
INIT_TICKS = 50  # for a server to catch up with its leader
SYNC_TICKS = 10  # a server that hears nothing from its leader for so long starts an election
CONNECT_MS = 1000
SESSION_MS_MAX = 60_000
JAVA_MAJOR_MIN = 17
START_TIMEOUT_S = 40
NO_JARS = "a real ZooKeeper needs the jars that come with PySpark, which is not installed: pip install 'highwater-harness[spark]'"
INSTALL_JAVA = f"install a Java {JAVA_MAJOR_MIN} runtime (Debian, Ubuntu: apt install default-jre-headless)"
_PORTS_FIRST = 10_000
_PORTS = 1_000  # drawn among at least so many, where the kernel's own begin lower
_DRAWS = 100
_given: set[int] = set()
_ATTEMPTS = 3  # another process may take a port between `free_port` and the server's bind
_JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=512")


class Ports(NamedTuple):
    """The three ports of one ZooKeeper server: for clients, for followers, for elections."""

    client: int
    follow: int
    elect: int


def missing() -> str | None:
    """What this machine lacks to run ZooKeeper and how to install it, in a sentence; None if nothing."""
    if _jars() is None:
        return NO_JARS
    java = shutil.which("java")
    if java is None:
        return f"a real ZooKeeper needs Java {JAVA_MAJOR_MIN} or newer, but there is no java on the PATH: {INSTALL_JAVA}"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < JAVA_MAJOR_MIN:
        first_line = printed.partition("\n")[0]
        return f"a real ZooKeeper needs Java {JAVA_MAJOR_MIN} or newer, but {java} says: {first_line}; {INSTALL_JAVA}"
    return None


def _jars() -> Path | None:
    """PySpark's folder of jars, if it has ZooKeeper's."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    jars = Path(spec.origin).parent / "jars"
    return jars if next(jars.glob("zookeeper-[0-9]*.jar"), None) else None


def server_jars() -> list[Path]:
    """The jars that ZooKeeper's server needs. PySpark has about 250, which would take Java seconds to open."""
    jars = _jars()
    if jars is None:
        raise HarnessError(NO_JARS)
    patterns = ("zookeeper-*.jar", "netty-*.jar", "slf4j-api-*.jar", "snappy-java-*.jar", "metrics-core-*.jar", "commons-*.jar")
    return [jar for pattern in patterns for jar in sorted(jars.glob(pattern))]


def _dying_with_us() -> list[str]:
    """A command prefix that makes the kernel kill the server when the harness dies; empty without setpriv."""
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL"]


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that is free at this address now, and that this process was not given before. Raises HarnessError.

    A server binds it later. A port that the kernel picks could go to an outgoing connection of any process before that, so
    the port is drawn from below those (`net.ipv4.ip_local_port_range`).
    """
    end = max(_outgoing_first(), _PORTS_FIRST + _PORTS)
    if len(_given) > (end - _PORTS_FIRST) // 2:
        _given.clear()
    for _ in range(_DRAWS):
        port = _PORTS_FIRST + secrets.randbelow(end - _PORTS_FIRST)
        if port not in _given and _is_free(host, port):
            _given.add(port)
            return port
    raise HarnessError(f"no free port at {host}: {_DRAWS} ports drawn from {_PORTS_FIRST} to {end - 1} are taken")


def _is_free(host: str, port: int) -> bool:
    """Whether the port can be bound now."""
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def _outgoing_first() -> int:
    """The lowest port that the kernel gives to outgoing connections."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32768


def configuration(data_dir: Path, client: tuple[str, int], quorum: Sequence[str]) -> str:
    """The zoo.cfg of one ZooKeeper server. `client` is its client address; `quorum`: "host:port:port" of all servers."""
    lines = [
        f"dataDir={data_dir}",
        f"clientPort={client[1]}",
        f"clientPortAddress={client[0]}",
        f"tickTime={TICK_MS}",
        f"minSessionTimeout={2 * TICK_MS}",
        f"maxSessionTimeout={SESSION_MS_MAX}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr",
    ]
    if len(quorum) > 1:
        lines += [f"initLimit={INIT_TICKS}", f"syncLimit={SYNC_TICKS}", f"cnxTimeout={CONNECT_MS}"]
        lines += [f"server.{number}={where}" for number, where in enumerate(quorum, 1)]
    return "\n".join(lines) + "\n"


def answers(client: tuple[str, int]) -> bool:
    """Whether the ZooKeeper server at this address serves clients; one without a quorum does not."""
    try:
        with socket.create_connection(client, timeout=1) as connection:
            # A server answers "ruok" before it accepts sessions; a client that connected then would hang.
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version:")
    except OSError:
        return False


class Server:
    """One ZooKeeper server and its processes. `address` is its name ("z1"), `client` the address at which it serves.

    The kernel kills a server when the thread that started it ends, so call `start` in a thread that outlives the server.
    """

    def __init__(self, number: int, folder: Path, ports: Sequence[Ports]) -> None:
        self.address = Address(f"z{number}")
        self.client = (HOST, ports[number - 1].client)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(f"{number}\n")
        quorum = [f"{HOST}:{port.follow}:{port.elect}" for port in ports]
        (folder / "zoo.cfg").write_text(configuration(self.data_dir, self.client, quorum))

    @property
    def data_dir(self) -> Path:
        """The folder of the ZooKeeper server's transaction log."""
        return self._folder / "data"

    @property
    def pid(self) -> int | None:
        """The process id; None if no process runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the ZooKeeper server on its previous process's data; `answers` says when it serves."""
        assert self.pid is None
        java = shutil.which("java")
        assert java is not None
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [
            *_dying_with_us(),
            java,
            *_JVM,
            "-cp",
            os.pathsep.join(map(str, server_jars())),
            main,
            str(self._folder / "zoo.cfg"),
        ]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )

    def kill(self) -> None:
        """Send the ZooKeeper server SIGKILL and wait for the end. Does nothing if no process was started."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def process(self) -> "subprocess.Popen[bytes] | None":
        """The ZooKeeper server's process that was started last, which may have ended."""
        return self._process

    def signal(self, number: int) -> None:
        """Send the ZooKeeper server a signal; does nothing if no process runs."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)

    def answers(self) -> bool:
        """Whether the ZooKeeper server serves clients."""
        return answers(self.client)

    def last_words(self) -> str:
        """The last line that the ZooKeeper server printed."""
        lines = (self._folder / "server.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"


class LocalZooKeeper:
    """A context that runs ZooKeeper servers; inside it, `address` is their "127.0.0.1:port", separated by commas.

    Entering raises HarnessError if Java or the jars are missing or the servers do not come up.
    """

    def __init__(self, servers: int = 1) -> None:
        self.address = ""
        self.servers: tuple[Server, ...] = ()
        self._count = servers
        self._folder: RunFolder | None = None

    def __enter__(self) -> "LocalZooKeeper":
        """Start the servers; another attempt with other ports if one did not come up."""
        reason = missing()
        if reason is not None:
            raise HarnessError(reason)
        try:
            self._folder = RunFolder(ZOOKEEPER_PREFIX)
            for attempt in range(_ATTEMPTS):
                if self._start_servers(self._folder.path / str(attempt)):
                    return self
                self._kill()
            raise HarnessError(f"ZooKeeper did not come up in {_ATTEMPTS} attempts: {self.servers[0].last_words()}")
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def data_dir(self) -> Path:
        """The data folder of the first ZooKeeper server; it is removed by `stop`."""
        return self.servers[0].data_dir

    @property
    def pid(self) -> int:
        """The process id of the first ZooKeeper server, for callers that pause it."""
        pid = self.servers[0].pid
        assert pid is not None
        return pid

    def stop(self) -> None:
        """Kill the ZooKeeper servers and remove their folder. May be called again."""
        self._kill()
        self.servers = ()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()

    def pause(self) -> None:
        """Freeze all ZooKeeper servers with SIGSTOP: clients lose their connections, but no session expires."""
        for server in self.servers:
            server.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue all ZooKeeper servers after `pause`."""
        for server in self.servers:
            server.signal(signal.SIGCONT)

    def _kill(self) -> None:
        for server in self.servers:
            server.kill()

    def _start_servers(self, folder: Path) -> bool:
        """Start all servers on fresh ports; False if one died (its port was taken) or they do not serve clients."""
        ports = [Ports(free_port(), free_port(), free_port()) for _ in range(self._count)]
        self.servers = tuple(Server(number, folder / f"z{number}", ports) for number in range(1, self._count + 1))
        for server in self.servers:
            server.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if any(server.pid is None for server in self.servers):
                return False
            if all(server.answers() for server in self.servers):
                self.address = ",".join(f"{host}:{port}" for host, port in (server.client for server in self.servers))
                return True
            time.sleep(0.1)
        return False
