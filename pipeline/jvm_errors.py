"""What Spark's JVM writes to stderr, without the warning about incubator modules that Java 17 prints whenever Spark 4 starts."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_WARNING = b"WARNING: Using incubator modules: "


@contextmanager
def without_start_warning() -> Iterator[None]:
    """A process that is started within the context writes to a pipe instead of stderr; a thread copies that to its end."""
    read, write = os.pipe()
    stderr = os.dup(2)
    os.dup2(write, 2)
    os.close(write)
    threading.Thread(target=_copy_but_warning, args=(read, stderr), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(stderr, 2)


def _copy_but_warning(read: int, stderr: int) -> None:
    """Copy the lines of one file descriptor to another, to the end, without the JVM's warning."""
    with os.fdopen(read, "rb") as lines, os.fdopen(stderr, "wb", buffering=0) as out:
        for line in lines:
            if not line.startswith(_WARNING):
                out.write(line)
