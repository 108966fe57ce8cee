"""A folder for temporary files with too long a name is refused before a run, and no other is."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.real.run_folder import RunFolder, tmpdir_too_long
from tests.zookeeper.test_process_backend import plan

REFUSED = "the folder for temporary files has a name of 67 bytes, and sockets of a run leave it 66: set TMPDIR to another"


@pytest.fixture
def temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        yield Path(folder)


def with_a_name_of(size: int, below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = below / ("x" * (size - len(os.fsencode(below)) - 1))
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))


def test_where_a_run_is_not_refused_its_sockets_can_be_made(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_a_name_of(66, temporary, monkeypatch)

    assert tmpdir_too_long() is None
    folder = RunFolder()
    (folder.path / "b999").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder.path / "b999" / "side-channel"))
    folder.remove()


def test_a_longer_name_is_refused_before_the_run(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broker refused it in its own words, and the run had failed by itself a minute later."""
    with_a_name_of(67, temporary, monkeypatch)

    assert ProcessBackend().refuse(plan(faults_ms=1000)) == REFUSED
