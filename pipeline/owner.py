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
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import OwnedError
from pipeline.lease import Lease, leased, objects_on_s3
from pipeline.storage import Storage, s3_options

_FILE = ".owner"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP)


@contextmanager
def owned(storage: Storage) -> Iterator[None]:
    """Own the folder of a storage within the context. Raises OwnedError if another process does, and says which.

    If the lease of a folder on S3 is lost, the main thread is interrupted as by Ctrl-C, and PipelineError is raised at the end.
    """
    if storage.folder is None:
        lease = Lease(objects_on_s3(storage.location, **s3_options(storage.location)), storage.location)
        with leased(lease, on_loss=interrupt_main):
            yield
        return
    with locked(storage.folder / _FILE, place=str(storage.folder), does="writes here"):
        yield


def is_owned(folder: Path) -> bool:
    """Whether a process owns a local folder at this moment, and so may leave it half written."""
    try:
        with (folder / _FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # nobody ever did, or its server has no locks
        pass
    return False


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
