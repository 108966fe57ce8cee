"""What a user gets from `pip install`: every command works outside of this checkout, and without Spark."""

import shutil
from pathlib import Path

import pytest

from tests.packaging.conftest import SAMPLE, User

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

INVALID = 10


def test_wheel_judges_a_history_of_the_user_and_draws_it(user: User, tmp_path: Path) -> None:
    """README.md: from `pip install` to a verdict on a file of one's own, with its picture."""
    shutil.copy(SAMPLE / "history.edn", tmp_path)

    done = user.run("highwater", "check", "history.edn", "--report", "out.html", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (INVALID, "")
    assert "INVALID: history.edn: 3 operations" in done.stdout
    assert "<svg" in (tmp_path / "out.html").read_text()


def test_wheel_performs_a_run_and_writes_its_page(user: User, tmp_path: Path) -> None:
    done = user.run("highwater", "run", "--plan", str(SAMPLE / "plans" / "failover.yaml"), cwd=tmp_path)

    (page,) = tmp_path.glob("store/failover/*/report.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "VALID, live" in done.stdout
    assert "<svg" in page.read_text()


def test_wheel_has_the_catalogue_of_statements(user: User, tmp_path: Path) -> None:
    done = user.run("highwater", "protocol", "R-057", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("R-057")


def test_command_for_spark_says_what_to_install(user: User, tmp_path: Path) -> None:
    done = user.run("highwater", "query", "detection", "--dataset", "x", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'highwater-harness[spark]'" in done.stderr


def test_wheel_brings_the_plugin_of_pytest(user: User, tmp_path: Path) -> None:
    (tmp_path / "test_failover.py").write_text(
        "import pytest\n"
        f"@pytest.mark.highwater(plan='{SAMPLE / 'plans' / 'failover.yaml'}')\n"
        "def test_failover_keeps_records(highwater_run):\n"
        "    assert highwater_run.summary.acked > 0\n"
    )

    done = user.run("python", "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", cwd=tmp_path)

    assert "1 passed" in done.stdout, done.stdout
