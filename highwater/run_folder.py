"""Temporary folders. A lock file in each shows whether the process that made it is still alive.

Everything that a run on real brokers creates on this machine is named after its folder. If the lock can be taken, the harness is
gone and `highwater clean` may remove what it left behind.
"""

import errno
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "highwater-run-"
ZOOKEEPER_PREFIX = "highwater-zookeeper-"  # ZooKeeper on this machine has a folder of its own
_LOCK = "lock"
_DRAWN = 8  # letters that mkdtemp adds
_LONGEST_BELOW = "/b999/side-channel"  # the Unix socket of a broker
_SOCKET_BYTES_MAX = 107  # sun_path of sockaddr_un, without its closing zero


class RunFolder:
    """The folder of one run: creates and locks it; `remove` deletes it and releases the lock."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        # Other users may traverse it: brokers that run as another user reach their own folders.
        self.path.chmod(0o711)
        # The lock file gets its name only once it is locked: `is_abandoned` leaves a folder without a lock file alone.
        self._lock: int | None = os.open(self.path / f"{_LOCK}.new", os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / f"{_LOCK}.new").rename(self.path / _LOCK)

    @property
    def run(self) -> str:
        """The name of the run: containers, networks and labels use it."""
        return self.path.name

    def remove(self) -> None:
        """Delete the folder of the run with everything in it. May be called again."""
        remove(self.path)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """An empty folder for a while; `highwater clean` removes it if this process is killed."""
    folder = RunFolder(f"highwater-{purpose}-")
    try:
        below = folder.path / purpose
        below.mkdir()
        yield below
    finally:
        folder.remove()


def tmpdir_too_long() -> str | None:
    """Why a run's Unix sockets would have too long a path below the temporary folder, in a sentence; None if they fit."""
    temporary = tempfile.gettempdir()
    room = _SOCKET_BYTES_MAX - len(f"/{PREFIX}") - _DRAWN - len(_LONGEST_BELOW)
    length = len(os.fsencode(temporary))
    if length <= room:
        return None
    return (
        f"the path of the temporary folder has {length} bytes, but Unix sockets of a run allow at most {room}: "
        "set TMPDIR to a folder with a shorter path"
    )


def is_abandoned(folder: Path) -> bool:
    """Whether a run's harness was killed and left this folder; False if the lock file cannot be opened."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return not folder.exists()  # another user's folder cannot be judged
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def abandoned() -> list[Path]:
    """The temporary folders of killed processes of highwater, sorted."""
    folders = sorted(Path(tempfile.gettempdir()).glob("highwater-*"))
    return [path for path in folders if path.is_dir() and is_abandoned(path)]


def remove(folder: Path) -> None:
    """Unmount everything below a run's folder and delete the folder. Raises OSError on failure."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((place for place in mounted if place.startswith(f"{folder}/")), reverse=True):
        completed = subprocess.run(["umount", place], capture_output=True, text=True, check=False)
        if completed.returncode:
            raise OSError(errno.EBUSY, completed.stderr.strip(), place)
    for path, names, _ in os.walk(folder):
        for name in names:
            entry = Path(path) / name
            if not entry.is_symlink():
                entry.chmod(0o700)  # a fault may have removed the permissions
    if folder.exists():
        shutil.rmtree(folder)
