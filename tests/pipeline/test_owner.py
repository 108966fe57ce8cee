"""A folder of work has one writer at a time; whoever is killed frees it."""

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cli.main import run_command_line
from pipeline.dataset import compact, ingest
from pipeline.errors import PipelineError
from pipeline.owner import owned
from pipeline.storage import Storage, storage_at

_HOLDS = """
import sys, time
from pipeline.owner import owned
from pipeline.storage import Storage, storage_at
with owned(storage_at(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    storage = storage_at(tmp_path)
    with owned(storage), pytest.raises(PipelineError, match=r"process \d+ on .*, since 20.* UTC, writes here"), owned(storage):
        pass
    with owned(storage):
        assert storage.names() == []  # the lock is no file of the store


@pytest.mark.parametrize("command", ["compact", "mend"])
def test_folder_that_cannot_be_written_is_refused(command: str, storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    assert storage.folder is not None
    (storage.folder / ".owner").unlink()
    (storage.folder / ".owner").mkdir()  # as on a read-only file system, also for root

    assert run_command_line(["store", command, storage.location]) == 2
    assert capsys.readouterr().err == f"highwater: {storage.location}: cannot be written: Is a directory\n"


@pytest.mark.slow
def test_killed_writer_leaves_the_folder_free(tmp_path: Path) -> None:
    storage = storage_at(tmp_path)
    with subprocess.Popen([sys.executable, "-c", _HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        with pytest.raises(PipelineError, match=f"process {owner.pid} on"), owned(storage):
            pass
        owner.kill()
    with owned(storage):
        pass


def test_two_writers_of_a_dataset_do_not_meet(tmp_path: Path) -> None:
    """One's sweep would delete the files that the other has just written."""
    storage = storage_at(tmp_path)
    with owned(storage):
        with pytest.raises(PipelineError, match="writes here"):
            ingest(storage, "one", [])
        with pytest.raises(PipelineError, match="writes here"):
            compact(storage)


def test_second_driver_of_a_campaign_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would forget the rows of the first one, or mix its own with them."""
    with owned(storage_at(tmp_path / "campaigns" / "safe-1-2")):
        assert run_command_line(["campaign", "--seeds", "1..2", "--jobs", "1", "--store", str(tmp_path)]) == 2
    assert "writes here; wait for its end" in capsys.readouterr().err
