"""`highwater clean`: remove what runs on real brokers left behind when their harness was killed.

A run is over when no process holds the lock of its folder (`run_folder`). Its containers, networks and volumes are then removed,
the processes whose command line names the folder, the mounts below the folder, and the folder. Runs with a living harness are
left alone.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from highwater.backends.real.node.clocks import remove_all_faketime_memory
from highwater.backends.real.os_process import state_of
from highwater.errors import HarnessError
from highwater.run_folder import abandoned, is_abandoned, remove

_END_S_MAX = 10.0


def clean() -> Iterator[str]:
    """Remove processes, containers and folders of killed runs; yields one line per removed item. HarnessError on failure."""
    yield from _remove_containers()
    for folder in abandoned():
        for pid in _processes_of(folder):
            _kill_and_wait(pid)
            yield f"process {pid} of {folder.name}"
        remove_all_faketime_memory(folder)
        try:
            remove(folder)
        except OSError as error:
            raise HarnessError(f"{folder} cannot be removed: {error.strerror}") from error
        yield f"folder {folder}"


def _remove_containers() -> Iterator[str]:
    """Remove what killed harnesses left in Docker; yield its names. Yields nothing without Docker."""
    from highwater.backends.real.containers.engine import Engine, missing  # users without containers need not have Docker's SDK

    if missing() is not None:
        return
    with Engine() as engine:
        for leftover in engine.left():
            if is_abandoned(leftover.labels.folder):
                engine.remove(leftover)
                yield f"{leftover.kind} {leftover.name}"


def _processes_of(folder: Path) -> list[int]:
    """The processes whose command names this folder."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # the process ended meanwhile
            if any(word.startswith(f"{folder}/") for word in words):
                pids.append(int(entry.name))
    return sorted(pids)


def _kill_and_wait(pid: int) -> None:
    """Kill a process and wait until it has ended. Raises HarnessError for that of another user."""
    end = time.monotonic() + _END_S_MAX
    try:
        os.kill(pid, signal.SIGKILL)
        while time.monotonic() < end and state_of(pid) not in ("", "Z", "X"):
            time.sleep(0.02)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise HarnessError(f"cannot kill process {pid} of another user: run highwater clean as that user") from error
