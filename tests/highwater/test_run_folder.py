"""A temporary folder whose path is too long for Unix sockets is refused before a run."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.backends.real.processes.backend import ProcessBackend
from highwater.run_folder import RunFolder, tmpdir_too_long
from tests.zookeeper.test_process_backend import plan

REFUSED = (
    "the path of the temporary folder has 67 bytes, but Unix sockets of a run allow at most 66: "
    "set TMPDIR to a folder with a shorter path"
)


@pytest.fixture
def temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        yield Path(folder)


def temporary_path_of(size: int, below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = below / ("x" * (size - len(os.fsencode(below)) - 1))
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))


def test_run_folder_of_the_longest_path_has_room_for_sockets(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary_path_of(66, temporary, monkeypatch)

    assert tmpdir_too_long() is None
    folder = RunFolder()
    (folder.path / "b999").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder.path / "b999" / "side-channel"))
    folder.remove()


def test_run_folder_with_a_too_long_path_is_refused(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check every broker fails by itself, and the run ends a minute later."""
    temporary_path_of(67, temporary, monkeypatch)

    assert ProcessBackend().refuse(plan(faults_ms=1000)) == REFUSED
