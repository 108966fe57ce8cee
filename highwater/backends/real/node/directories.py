"""Faults of a broker's log directories, done from outside: no permissions, a file in its place, no space left, an empty disk.

Each directory lies in a folder of its own, so it can be moved away and put back. That folder can be a small tmpfs, which a
ballast file fills. Open files stay open whatever happens to their directory: a broker notices a fault at its next access by name,
as on any Unix.
"""

import asyncio
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from highwater.backends.real.means import Means
from highwater.backends.real.site import SOUND, DirCondition, Probe, Proof
from highwater.errors import HarnessError
from reference.broker.startup import is_left_over
from reference.types import Offset
from server.disk.log_dirs import look
from server.lab.power import Wound

SMALL_BYTES = 64 * 1024 * 1024
MOUNT_NEEDS_ROOT = "a full disk is a small mounted file system, and only root can mount one: run highwater as root"
NO_SETPRIV = "root ignores file permissions unless setpriv prevents it: install setpriv (util-linux), or run as another user"
_ASIDE = "aside"
_BALLAST = "ballast"
_TRIED_BYTES = 64 * 1024


def unprivileged_prefix(user: int | None = None) -> list[str] | None:
    """A command prefix under which file permissions hold, also for root; None if setpriv is needed and not installed.

    Root ignores permissions by two capabilities; a process without them obeys the permissions of its own files.
    """
    if os.geteuid():
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return None
    if user is not None:
        return [setpriv, f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    return [setpriv, "--bounding-set", "-dac_override,-dac_read_search", "--"]


class LogDirs:
    """The log directories of one broker. `user` owns them if the broker runs under another uid than the harness.

    `needs` is what they are prepared for: permissions that the broker obeys, file systems that can be filled.
    """

    def __init__(self, paths: Sequence[Path], user: int | None = None, needs: frozenset[Means] = frozenset()) -> None:
        self._user = user
        self._needs = needs
        self.paths = tuple(paths)
        self._conditions = [SOUND] * len(self.paths)
        self._mounted = False

    def make(self) -> None:
        """Create the log directories empty; for a fault that fills one, each on a tmpfs of SMALL_BYTES."""
        for path in self.paths:
            path.parent.mkdir(parents=True)
            self._give_to_user(path.parent)
            if "small-dirs" in self._needs:
                _run("mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES},mode=755", "highwater", str(path.parent))
                self._mounted = True
                self._give_to_user(path.parent)
            path.mkdir()
            self._give_to_user(path)

    def set(self, dir_: int, condition: DirCondition) -> Probe:
        """Apply or end a fault of a log directory; the probe writes a file in it as the broker's user.

        HarnessError for what cannot be done from outside of the broker, or was not prepared.
        """
        self._check_possible(condition)
        path, before = self.paths[dir_], self._conditions[dir_]
        self._conditions[dir_] = condition
        if condition.is_file != before.is_file:
            (_replace_by_file if condition.is_file else _restore_from_file)(path)
        if condition.unreadable != before.unreadable:
            target = path.parent / _ASIDE if condition.is_file else path
            target.chmod(0o000 if condition.unreadable else 0o755)
        if condition.full != before.full:
            _fill_up(path.parent) if condition.full else (path.parent / _BALLAST).unlink()
        error_number = errno.EACCES if condition.unreadable else errno.ENOSPC if condition.full else 0
        error_number = errno.ENOTDIR if condition.is_file else error_number

        async def probe() -> Proof:
            return await asyncio.to_thread(self._try_to_write, path, error_number)

        return probe

    def _check_possible(self, condition: DirCondition) -> None:
        """Raises HarnessError for a condition that this site cannot make, or that the plan does not announce."""
        if condition.broken or condition.flush_ms:
            raise HarnessError("a log directory fails or becomes slow only within a broker of the reference")
        if condition.full and not self._mounted:
            raise HarnessError("no window of the plan's schedule fills a log directory, so it is not on a file system of its own")
        if condition.unreadable and not ("permissions" in self._needs or self._user is not None or os.geteuid()):
            raise HarnessError("no window of the plan's schedule needs permissions, so the broker runs as root and ignores them")

    @contextmanager
    def sound(self, dirs: Iterable[int]) -> Iterator[None]:
        """A context in which these log directories have no fault; afterwards their faults are applied again."""
        conditions = {dir_: self._conditions[dir_] for dir_ in dirs}
        for dir_ in conditions:
            self.set(dir_, SOUND)
        try:
            yield
        finally:
            for dir_, condition in conditions.items():
                self.set(dir_, condition)

    def swap(self, dir_: int) -> tuple[Wound, ...]:
        """Replace a log directory by an empty one; returns what was lost: one record for each log that the broker would use.

        An empty log is a wound too, because other replicas cannot know that it was empty. Faults of other windows on this
        directory hold for the new one as well.
        """
        with self.sound([dir_]):
            images = look(self.paths)
            # Move it away first: while a probe of another window writes in it, rmtree could fail.
            old_folder = Path(tempfile.mkdtemp(prefix="swapped-", dir=self.paths[dir_].parent))
            self.paths[dir_].rename(old_folder / "logs")
            shutil.rmtree(old_folder, ignore_errors=True)
            self.paths[dir_].mkdir()
            self._give_to_user(self.paths[dir_])
        return tuple(
            Wound(tp=log.tp, topic_id=log.topic_id, dir=dir_, offset=log.batches[0].base_offset if log.batches else Offset(0))
            for log in images[dir_].logs
            if not is_left_over(log, dir_, images)
        )

    def close(self) -> None:
        """End all faults of the log directories and unmount them. May be called again."""
        for dir_, path in enumerate(self.paths):
            with suppress(OSError):
                self.set(dir_, SOUND)
            if self._mounted:
                subprocess.run(["umount", "-l", str(path.parent)], capture_output=True, check=False)
        self._mounted = False

    def _give_to_user(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user, self._user)

    def _try_to_write(self, path: Path, error_number: int) -> Proof:
        """Write a file in a log directory as the broker's user; `error_number` is the expected errno, 0 for success."""
        script = f'head -c {_TRIED_BYTES} /dev/zero > "$1/.probe"; code=$?; rm -f "$1/.probe"; exit $code'
        attempt = subprocess.run(
            [*(unprivileged_prefix(self._user) or []), "sh", "-c", script, "sh", str(path)],
            capture_output=True,
            text=True,
            check=False,
            env={"LC_ALL": "C", "PATH": os.defpath},
        )
        error_text = (attempt.stderr.strip().splitlines() or ["no error"])[0].rpartition(": ")[2]
        detail = f"writing {_TRIED_BYTES // 1024} KiB in {path.parent.name}: {error_text}"
        # The shell's message for ENOTDIR differs from strerror's.
        expected = "irectory" if error_number == errno.ENOTDIR else os.strerror(error_number)
        return Proof(expected in error_text if error_number else attempt.returncode == 0, detail)


def _replace_by_file(path: Path) -> None:
    path.rename(path.parent / _ASIDE)
    path.write_bytes(b"")


def _restore_from_file(path: Path) -> None:
    path.unlink()
    (path.parent / _ASIDE).rename(path)


def _fill_up(folder: Path) -> None:
    """Fill a file system with a file until no byte fits."""
    with (folder / _BALLAST).open("wb", buffering=0) as ballast:
        piece = bytes(SMALL_BYTES // 64)
        while piece:
            try:
                ballast.write(piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece = piece[: len(piece) // 2]


def _run(*command: str) -> None:
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise HarnessError(f"{' '.join(command)}: {completed.stderr.strip()}")
