"""The list of checkers."""

import subprocess
import sys

from checkers.registry import ALL


def test_list_of_checkers_imports_no_foreign_judge() -> None:
    """Every command imports the list; scipy and rustworkx would double its start."""
    command = "import sys, checkers.registry; print([name for name in ('scipy', 'rustworkx') if name in sys.modules])"

    completed = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)

    assert completed.stdout == "[]\n"


def test_names_of_checkers_are_unique() -> None:
    names = [checker.name for checker in ALL]

    assert len(names) == len(set(names))


def test_loss_checker_runs_before_checkers_that_use_its_result() -> None:
    phases = [checker.phase for checker in ALL]

    assert phases == sorted(phases)
    assert phases.count("ledger") == 1


def test_checker_reads_the_event_kinds_that_it_requires() -> None:
    assert [checker.name for checker in ALL if not set(checker.needs) <= set(checker.events)] == []
