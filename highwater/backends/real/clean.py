"""Removing what runs on real nodes left behind when their harness was killed, and nothing else.

A run is recognised by its folder, and is over when nobody holds the folder's lock (`run_folder`). Of a run that is
over, its containers, networks and volumes go, processes whose command line names its folder, mounts below the folder, and the
folder itself. A run that still has its harness is left alone.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from highwater.backends.real.node.clocks import remove_all_faketime_memory
from highwater.backends.real.os_process import state_of
from highwater.backends.real.run_folder import abandoned, is_abandoned, remove
from highwater.errors import HarnessError

_END_S_MAX = 10.0


def clean() -> Iterator[str]:
    """Remove; a line for each thing that was removed. HarnessError where something cannot be."""
    yield from _containers()
    for folder in abandoned():
        for pid in _processes_of(folder):
            _kill(pid)
            yield f"process {pid} of {folder.name}"
        remove_all_faketime_memory(folder)
        try:
            remove(folder)
        except OSError as error:
            raise HarnessError(f"{folder} cannot be removed: {error.strerror}") from error
        yield f"folder {folder}"


def _containers() -> Iterator[str]:
    from highwater.backends.real.containers.engine import Engine, missing  # those who have no engine need not have its SDK

    if missing() is not None:
        return
    with Engine() as engine:
        for left in engine.left():
            if is_abandoned(left.labels.folder):
                engine.remove(left)
                yield f"{left.kind} {left.name}"


def _processes_of(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has ended meanwhile
            if any(word.startswith(f"{folder}/") for word in words):
                found.append(int(entry.name))
    return sorted(found)


def _kill(pid: int) -> None:
    end = time.monotonic() + _END_S_MAX
    try:
        os.kill(pid, signal.SIGKILL)
        while time.monotonic() < end and state_of(pid) not in ("", "Z", "X"):
            time.sleep(0.02)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise HarnessError(f"process {pid} belongs to another user") from error
