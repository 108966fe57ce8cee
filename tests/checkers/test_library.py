"""`checkers` as a library: its names, the examples in its docstrings, and its wheel."""

import doctest
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import checkers
from checkers.elle.consistency import FORBIDS
from checkers.foreign import JUDGES
from checkers.registry import ALL
from checkers.sketches import sketch
from tests.checkers.corpus import QUEUES
from tests.tidy.sources import ROOT

_MODULES = ["checkers", *sorted(module.name for module in walk_packages(checkers.__path__, "checkers."))]


@pytest.mark.parametrize("name", _MODULES)
def test_examples_in_docstrings_of_checkers_run(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_example_of_the_library_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").replace("```", "")
    tried = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(text, {}, "docs/api.md", None, 0))

    assert (tried.failed, tried.attempted) == (0, 3)


def test_every_checker_and_judge_has_an_example() -> None:
    """In the docstring of its module, or of the package."""
    doc_tests = [test for name in _MODULES for test in doctest.DocTestFinder().find(import_module(name))]
    examples = "".join(example.source for test in doc_tests for example in test.examples)
    calls = ["judge_calls(", "judge_transactions(", *(f'sketch("{checker.name}"' for checker in ALL)]

    assert [call for call in calls if call not in examples] == []
    assert ">>> [a.kind for a in judge(" in (import_module("checkers.kafka.judge").__doc__ or "")


def test_example_history_for_an_unknown_checker_is_refused() -> None:
    with pytest.raises(KeyError, match="nobody"):
        sketch("nobody", "ok poll")


def test_names_exported_by_package_checkers_exist() -> None:
    assert [name for name in checkers.__all__ if not hasattr(checkers, name)] == []
    assert dir(checkers) == sorted(checkers.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = checkers.nothing


def test_every_judge_lists_its_anomaly_kinds() -> None:
    """All kinds that a level forbids, and all kinds in the corpus of queues."""
    kinds = {judge.name: set(judge.kinds) for judge in JUDGES}

    assert kinds["list-append"] | kinds["rw-register"] == frozenset[str]().union(*FORBIDS.values())
    assert {kind for story in QUEUES.values() for kind in story.kinds} == kinds["kafka"]


@pytest.mark.slow
def test_installed_wheel_judges_in_a_fresh_environment(tmp_path: Path) -> None:
    """Built, installed in an environment without the tree, asked from another folder. Dependencies are those installed here."""
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    here = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    (site / "dependencies.pth").write_text(f"{here}\n", encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)], check=True
    )  # fmt: skip
    command = "import checkers, doctest; print(checkers.__file__); raise SystemExit(doctest.testmod(checkers).failed)"
    ran = subprocess.run([str(python), "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False, env={})

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith(str(site))
