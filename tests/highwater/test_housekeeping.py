"""Old runs are removed, one run is packed, and `store/latest` leads to the last one."""

import os
import zipfile
from pathlib import Path

import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from history import store

_FAILS = "corpus/plans/shrunk-v3-truncated-committed.yaml"
Printed = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with a run that fails, two that do not, and one that is not finished, from old to new."""
    folder = tmp_path / "store"
    for protocol in ("v3", "safe", "kip320"):
        run_command_line(["run", "--plan", _FAILS, "--protocol", protocol, "--store", str(folder), "--no-report"])
    failed, *passed = sorted(store.find_runs(folder), key=lambda run: "v3" not in run.name)
    for age, run in enumerate((failed, *passed)):
        os.utime(run / store.MANIFEST, (age, age))
    return folder


def _left(folder: Path) -> list[str]:
    return sorted(run.name.split("-")[1] for run in store.find_runs(folder))


def test_prune_removes_the_oldest_runs_that_did_not_fail(place: Path, capsys: Printed) -> None:
    assert run_command_line(["store", "prune", str(place), "--keep", "1"]) == ExitCode.VALID
    assert len(_left(place)) == 3
    assert "1 runs, " in capsys.readouterr().out

    assert run_command_line(["store", "prune", str(place), "--keep", "1", "--yes"]) == ExitCode.VALID
    assert len(_left(place)) == 2
    assert "v3" in _left(place)

    assert run_command_line(["store", "prune", str(place), "--keep", "0", "--failures", "--yes"]) == ExitCode.VALID
    assert [path.name for path in place.iterdir() if not path.is_symlink()] == []


def test_prune_leaves_a_run_that_is_being_recorded(place: Path) -> None:
    run = store.find_runs(place)[0]
    (run / store.VERDICT).unlink()

    run_command_line(["store", "prune", str(place), "--keep", "0", "--failures", "--yes"])

    assert store.find_runs(place) == (run,)


def test_latest_leads_to_the_run_that_was_stored_last(tmp_path: Path, capsys: Printed) -> None:
    for protocol in ("safe", "v3"):
        run_command_line(["run", "--plan", _FAILS, "--protocol", protocol, "--store", str(tmp_path), "--no-report"])

    assert (tmp_path / "latest").resolve().name.startswith("sim-v3-")
    assert len(store.find_runs(tmp_path)) == 2
    capsys.readouterr()
    assert run_command_line(["check", str(tmp_path / "latest")]) == ExitCode.INVALID


def test_packed_run_is_the_same_file_and_the_same_run(tmp_path: Path, capsys: Printed) -> None:
    run_command_line(["run", "--plan", _FAILS, "--store", str(tmp_path / "store")])
    (run,) = store.find_runs(tmp_path / "store")
    for name in ("a.zip", "b.zip"):
        assert run_command_line(["store", "pack", str(run), str(tmp_path / name)]) == ExitCode.VALID
    zipfile.ZipFile(tmp_path / "a.zip").extractall(tmp_path / "there")

    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert store.load_run(tmp_path / "there" / run.name).digest == store.load_run(run).digest
    assert run_command_line(["store", "pack", str(tmp_path), str(tmp_path / "c.zip")]) == ExitCode.USAGE


def test_plan_named_as_the_link_is_refused(tmp_path: Path, capsys: Printed) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(Path(_FAILS).read_text().replace("name: shrunk-v3-truncated-committed", "name: latest", 1))

    assert run_command_line(["run", "--plan", str(plan), "--store", str(tmp_path / "store")]) == ExitCode.USAGE
    assert "plan name 'latest': it is the link" in capsys.readouterr().err
