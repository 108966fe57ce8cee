"""A real ZooKeeper for a run: one server on loopback, from the jars that come with PySpark, in a folder of its own.

Needs Java 17 or newer and the `pyspark` package; `missing()` says which is not there. The server is stopped and its folder
removed when the context ends, however it ends; a harness that is killed takes the server with it, where the system can do that.
Its tick is short so that sessions of half a second can be had and an expiry comes when it is due, and it does not sync its log:
what a run breaks is the brokers, not ZooKeeper's disk.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from highwater.errors import HarnessError

TICK_MS = 100
SESSION_MS_MAX = 60_000
JAVA_MAJOR_MIN = 17
START_TIMEOUT_S = 40
NO_JARS = "a real ZooKeeper needs the jars of PySpark: pip install 'highwater[spark]'"
_ATTEMPTS = 3  # another process may take the port between our choice and the server's bind
_JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=512")


def missing() -> str | None:
    """Why no ZooKeeper can be started on this machine, in a sentence; None where it can."""
    if _jars() is None:
        return NO_JARS
    java = shutil.which("java")
    if java is None:
        return f"a real ZooKeeper needs Java {JAVA_MAJOR_MIN} or newer, and there is no java on the PATH"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < JAVA_MAJOR_MIN:
        return f"a real ZooKeeper needs Java {JAVA_MAJOR_MIN} or newer; this one says: {printed.partition(chr(10))[0]}"
    return None


def _jars() -> Path | None:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    jars = Path(spec.origin).parent / "jars"
    return jars if next(jars.glob("zookeeper-[0-9]*.jar"), None) else None


def server_jars() -> list[Path]:
    """What ZooKeeper's server needs of PySpark's some 250 jars; the whole folder would cost seconds to open."""
    jars = _jars()
    if jars is None:
        raise HarnessError(NO_JARS)
    wanted = ("zookeeper-*.jar", "netty-*.jar", "slf4j-api-*.jar", "snappy-java-*.jar", "metrics-core-*.jar", "commons-*.jar")
    return [jar for pattern in wanted for jar in sorted(jars.glob(pattern))]


def _dying_with_us() -> list[str]:
    """What makes the kernel end the server when this thread ends, also by SIGKILL; nothing where util-linux is missing."""
    setpriv = shutil.which("setpriv")
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL"]


def free_port() -> int:
    """A port of loopback that nobody listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class LocalZooKeeper:
    """A context: `address` is "127.0.0.1:port" once it is entered. HarnessError where the server does not come up."""

    def __init__(self) -> None:
        self.address = ""
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "LocalZooKeeper":
        reason = missing()
        if reason is not None:
            raise HarnessError(reason)
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="highwater-zookeeper-"))
            for _ in range(_ATTEMPTS):
                if self._start():
                    return self
            raise HarnessError(f"ZooKeeper did not come up: {self._last_words()}")
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def data_dir(self) -> Path:
        """Where its transaction log lies (`highwater.zookeeper_log`), until it is stopped."""
        assert self._folder is not None
        return self._folder / "data"

    @property
    def pid(self) -> int:
        """Of the server, for those who pause it."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End the server and remove its folder. May be called again."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def pause(self) -> None:
        """Stand still: clients lose their connections, no session ends."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def _start(self) -> bool:
        java = shutil.which("java")
        assert self._folder is not None
        assert java is not None
        port = free_port()
        config = self._folder / "zoo.cfg"
        config.write_text(
            f"dataDir={self._folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime={TICK_MS}\n"
            f"minSessionTimeout={2 * TICK_MS}\nmaxSessionTimeout={SESSION_MS_MAX}\nmaxClientCnxns=0\n"
            "admin.enableServer=false\n4lw.commands.whitelist=srvr\n"
        )
        command = [
            *_dying_with_us(),
            java,
            *_JVM,
            "-cp",
            os.pathsep.join(map(str, server_jars())),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(config),
        ]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            if _answers(port):
                self.address = f"127.0.0.1:{port}"
                return True
            time.sleep(0.1)
        self._process.kill()
        self._process.wait()
        return False

    def _last_words(self) -> str:
        assert self._folder is not None
        lines = (self._folder / "server.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            # "ruok" is answered before requests for sessions are, which then hang.
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version:")
    except OSError:
        return False
