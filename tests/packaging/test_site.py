"""`make site`: every document is a page, and a dead link fails the build."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT


def _build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    strict = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-c", str(ROOT / "docs")]
    places = ["-d", str(target / "doctrees"), str(source), str(target / "site")]
    return subprocess.run([*strict, *places], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_site_has_a_page_for_every_document(tmp_path: Path) -> None:
    completed = _build(ROOT / "docs", tmp_path)

    assert (completed.returncode, completed.stderr) == (0, "")
    documents = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert [str(page) for page in sorted(documents) if not (tmp_path / "site" / page).is_file()] == []
    assert "checkers.judge_transactions" in (tmp_path / "site" / "api.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("link", ["absent.md", "other.md#absent", "#absent"])
def test_dead_link_fails_the_build(link: str, tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("# Start\n\n```{toctree}\nother\n```\n")
    (tmp_path / "other.md").write_text(f"# Other\n\n[Somewhere]({link})\n")

    completed = _build(tmp_path, tmp_path / "built")

    assert completed.returncode != 0
    assert "other.md:3: WARNING: " in completed.stderr


@pytest.mark.slow
def test_example_store_has_every_page_that_is_linked(tmp_path: Path) -> None:
    """`make site` performs the runs; what a page leads to must be there, because nobody can make it from the site."""
    script = ["bash", str(ROOT / ".ci" / "example-store"), str(tmp_path)]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    completed = subprocess.run(
        script, env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )

    assert (completed.returncode, completed.stderr) == (0, "")
    linked = re.findall(r'href="(example/[^"]+)"', (ROOT / "docs" / "example.md").read_text())
    assert len(linked) == 4
    index = tmp_path / "example" / "campaign" / "campaigns" / "first" / "index.html"
    runs = re.findall(r'href="([^"#]+report.html)"', index.read_text())
    assert [name for name in linked if not (tmp_path / name).is_file()] == []
    assert runs
    assert [name for name in runs if not (index.parent / name).is_file()] == []
