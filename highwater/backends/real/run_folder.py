"""The folder of a run on real nodes, which says by a lock whether its harness still lives.

Everything that a run makes on this machine is named after its folder, so that what a killed harness left behind can be told from
what a living one uses: a folder that can be locked has lost its owner.
"""

import errno
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PREFIX = "highwater-run-"
ZOOKEEPER_PREFIX = "highwater-zookeeper-"  # a server on this machine has one of its own
_LOCK = "lock"
_DRAWN = 8  # letters that mkdtemp adds
_LONGEST_BELOW = "/b999/side-channel"  # a Unix socket of a node
_SOCKET_BYTES_MAX = 107  # sun_path of sockaddr_un, without its closing zero


class RunFolder:
    """Made and locked on creation; `remove` ends both."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        # Others may pass through, so that nodes which run as another user find theirs.
        self.path.chmod(0o711)
        # Locked before it has its name: a folder without a lock is nobody's to remove.
        self._lock: int | None = os.open(self.path / f"{_LOCK}.new", os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / f"{_LOCK}.new").rename(self.path / _LOCK)

    @property
    def run(self) -> str:
        """What everything of this run is named after."""
        return self.path.name

    def remove(self) -> None:
        """Nothing of it is left. May be called again."""
        remove(self.path)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def tmpdir_too_long() -> str | None:
    """Why no run can have its folder here, in a sentence; None where it can: below it lie Unix sockets, whose names are short."""
    temporary = tempfile.gettempdir()
    room = _SOCKET_BYTES_MAX - len(f"/{PREFIX}") - _DRAWN - len(_LONGEST_BELOW)
    taken = len(os.fsencode(temporary))
    if taken <= room:
        return None
    return (
        f"the folder for temporary files has a name of {taken} bytes, and sockets of a run leave it {room}: set TMPDIR to another"
    )


def is_abandoned(folder: Path) -> bool:
    """Has the run of this folder no living harness (any more)?"""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return not folder.exists()  # a folder of another user is not ours to judge
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def abandoned() -> list[Path]:
    """Folders whose harness is gone, sorted."""
    temporary = Path(tempfile.gettempdir())
    found = sorted(path for prefix in (PREFIX, ZOOKEEPER_PREFIX) for path in temporary.glob(f"{prefix}*"))
    return [path for path in found if path.is_dir() and is_abandoned(path)]


def remove(folder: Path) -> None:
    """Unmount what is mounted below it and remove it. OSError where that cannot be done."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((place for place in mounted if place.startswith(f"{folder}/")), reverse=True):
        done = subprocess.run(["umount", place], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(errno.EBUSY, done.stderr.strip(), place)
    for path, names, _ in os.walk(folder):
        for name in names:
            entry = Path(path) / name
            if not entry.is_symlink():
                entry.chmod(0o700)  # a fault may have taken it away
    if folder.exists():
        shutil.rmtree(folder)
