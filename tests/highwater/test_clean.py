"""`clean` removes the leftovers of a killed harness and keeps those of a running one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.backends.real import clean as cleaning
from highwater.errors import HarnessError
from highwater.run_folder import PREFIX, RunFolder, abandoned, is_abandoned


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for runs; no Docker engine is asked."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(cleaning, "_remove_containers", lambda: iter(()))
    return tmp_path


def left_by_a_dead_harness() -> Path:
    """A run folder whose lock is free."""
    folder = RunFolder()
    aside = folder.path.with_name("aside")
    folder.path.rename(aside)
    folder.remove()
    path = folder.path
    aside.rename(path)
    return path


def test_run_folder_with_a_free_lock_is_abandoned() -> None:
    living, dead = RunFolder(), left_by_a_dead_harness()

    assert not is_abandoned(living.path)
    assert is_abandoned(dead)
    assert abandoned() == [dead]
    living.remove()


def test_folder_without_a_lock_file_is_kept(temporary: Path) -> None:
    """It belongs to another program or is just being created."""
    (temporary / f"{PREFIX}other").mkdir()

    assert abandoned() == []


def _asleep(argument: str) -> subprocess.Popen[bytes]:
    """A sleeping process with this argument; it has started, so its arguments are readable in /proc."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", argument], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as out:
        out.readline()
    return process


def test_clean_removes_processes_and_folders_of_dead_runs_only(temporary: Path) -> None:
    living, dead = RunFolder(), left_by_a_dead_harness()
    locked = dead / "b1" / "data-0"
    locked.mkdir(parents=True)
    (locked / "log").write_text("x")
    locked.chmod(0o000)
    of_dead, of_living = _asleep(f"{dead}/settings.json"), _asleep(f"{living.path}/settings.json")
    try:
        lines = list(cleaning.clean())

        assert lines == [f"process {of_dead.pid} of {dead.name}", f"folder {dead}"]
        assert of_dead.wait(10) == -9
        assert of_living.poll() is None
        assert sorted(temporary.iterdir()) == [living.path]
        assert list(cleaning.clean()) == []
    finally:
        for process in (of_dead, of_living):
            process.kill()
            process.wait()
        living.remove()


def test_clean_reports_a_mount_that_is_in_use() -> None:
    """An open file is enough; the error has umount's reason, and the next `clean` succeeds."""
    if os.geteuid():
        pytest.skip("only root can mount a small file system")
    place = left_by_a_dead_harness() / "data-0"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "highwater", str(place)], check=True)
    try:
        with (place / "log").open("w"), pytest.raises(HarnessError, match=r"cannot be removed: umount: "):
            list(cleaning.clean())

        assert list(cleaning.clean()) == [f"folder {place.parent}"]
    finally:
        subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def test_clean_removes_the_temporary_folder_of_a_killed_process(temporary: Path) -> None:
    """A campaign that is killed leaves its ledger, `chaos --against` the other protocol."""
    program = (
        "import os, signal, tempfile\n"
        f"tempfile.tempdir = {str(temporary)!r}\n"
        "from highwater.run_folder import temporary_folder\n"
        "with temporary_folder('ledger') as folder:\n"
        "    (folder / 'row').write_text('x')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    (left,) = temporary.iterdir()

    assert killed.returncode == -9
    assert list(cleaning.clean()) == [f"folder {left}"]
    assert list(temporary.iterdir()) == []
