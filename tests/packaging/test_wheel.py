"""What a user gets from `pip install`: every command works outside of this checkout, and without Spark."""

import shlex
import shutil
from pathlib import Path

import pytest

from tests.packaging.conftest import SAMPLE, User
from tests.shown import examples, is_shown
from tests.tidy.sources import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

INVALID = 10


def test_wheel_prints_what_the_readme_shows(user: User, tmp_path: Path) -> None:
    """README.md, docs/commands.md: runs by seed, and from `pip install` to a verdict on a file of one's own, with its picture."""
    shutil.copy(SAMPLE / "history.edn", tmp_path)
    path = Path("corpus/explored/kip101.yaml")  # a counterexample, which the wheel does not have
    (tmp_path / path).parent.mkdir(parents=True)
    shutil.copy(ROOT / path, tmp_path / path)
    text = "".join((ROOT / name).read_text() for name in ("README.md", "docs/commands.md"))
    text += (ROOT / "docs" / "triage.md").read_text().partition("## A look inside")[2]  # of the README's run
    shown = [(shlex.split(command, comments=True), output) for command, output in examples(text)]
    codes = []

    for command, output in shown:
        if command[0] != "highwater":
            assert output == "", command
            continue
        completed = user.run(*command, cwd=tmp_path)
        assert completed.stderr == ""
        assert is_shown(output, completed.stdout), (command, completed.stdout)
        codes.append(completed.returncode)

    assert codes == [0, INVALID, INVALID, 0, 0]
    assert "<svg" in (tmp_path / "out.html").read_text()


def test_wheel_performs_a_run_and_writes_its_page(user: User, tmp_path: Path) -> None:
    completed = user.run("highwater", "run", "--plan", str(SAMPLE / "plans" / "failover.yaml"), cwd=tmp_path)

    (page,) = tmp_path.glob("store/failover/*/report.html")
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "VALID, live" in completed.stdout
    assert "<svg" in page.read_text()


def test_wheel_has_the_catalogue_of_statements(user: User, tmp_path: Path) -> None:
    completed = user.run("highwater", "protocol", "R-057", cwd=tmp_path)

    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout.startswith("R-057")


def test_command_for_spark_says_what_to_install(user: User, tmp_path: Path) -> None:
    completed = user.run("highwater", "campaign", "--seeds", "1..2", "--spark", "local[1]", cwd=tmp_path)

    assert completed.returncode == 2
    assert completed.stderr.count("\n") == 1
    assert "pip install 'highwater-harness[spark]'" in completed.stderr


def test_wheel_brings_the_plugin_of_pytest(user: User, tmp_path: Path) -> None:
    (tmp_path / "test_failover.py").write_text(
        "import pytest\n"
        f"@pytest.mark.highwater(plan='{SAMPLE / 'plans' / 'failover.yaml'}')\n"
        "def test_failover_keeps_records(highwater_run):\n"
        "    assert highwater_run.summary.acked > 0\n"
    )

    completed = user.run("python", "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", cwd=tmp_path)

    assert "1 passed" in completed.stdout, completed.stdout
