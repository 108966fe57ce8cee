"""One writer at a time: the owner of a folder of work (a campaign, a ledger, a dataset).

The owner holds a lock of the kernel on a hidden file of the folder, so it loses the folder only by its end: a killed process, and
a machine that goes down, leave nothing to clear away. The file says in words who holds it. On S3 the owner holds a lease
(`pipeline.lease`). In a shared folder whose server has no locks, nothing keeps two writers apart (docs/gaps.md).
"""

import errno
import fcntl
import os
import socket
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import OwnedError, PipelineError
from pipeline.lease import Lease, leased, objects_on_s3
from pipeline.storage import Storage, s3_options

_FILE = ".owner"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP)


@contextmanager
def owned(storage: Storage) -> Iterator[None]:
    """Own the folder of a storage within the context. Raises OwnedError if another process does, and says which.

    Raises PipelineError where nobody can write to it. If the lease of a folder on S3 is lost, the main thread is interrupted as
    by Ctrl-C, and PipelineError is raised at the end.
    """
    if storage.folder is None:
        lease = Lease(objects_on_s3(storage.location, **s3_options(storage.location)), storage.location)
        with leased(lease, on_loss=interrupt_main):
            yield
        return
    with ExitStack() as held:
        try:
            held.enter_context(locked(storage.folder / _FILE, place=str(storage.folder), does="writes here"))
        except OSError as error:  # a read-only file system
            raise PipelineError(f"{storage.folder}: cannot be written: {error.strerror}") from error
        yield


def owned_since(folder: Path) -> int | None:
    """When the process that owns a local folder at this moment took it, in nanoseconds by its files; None if nobody owns it.

    What is half written and older is not that process's work.
    """
    try:
        with (folder / _FILE).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return os.fstat(file.fileno()).st_mtime_ns
    except OSError:  # nobody ever did, or its server has no locks
        pass
    return None


@contextmanager
def locked(path: Path, *, place: str, does: str) -> Iterator[None]:
    """Hold the kernel's lock on a file, which says who holds it. OwnedError if another does: `place`: it `does`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = file.read().strip() or "another process"
            raise OwnedError(f"{place}: {who} {does}; wait for its end") from None
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC,")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
