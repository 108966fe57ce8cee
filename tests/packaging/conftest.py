"""A clean environment with the wheel, as `pip install` makes it for a user."""

import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from msgspec import Struct
from packaging.requirements import Requirement

from tests.tidy.sources import ROOT

SAMPLE = Path(__file__).parent / "sample"


class User(Struct, frozen=True, kw_only=True):
    """A user with a virtual environment that has the wheel and what it depends on, and nothing else."""

    environment: Path

    def run(self, *command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the environment, from a folder outside of this checkout."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = f"{self.environment / 'bin'}:/usr/bin:/bin"
        return subprocess.run(
            command, cwd=cwd, env={**kept, "PATH": path, **variables}, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    """Build the wheel and install it, with the extra `pytest`, into a new environment.

    The dependencies are links to the installed ones, since they take a gigabyte. pip has no index, so it fails if the wheel needs
    what is not linked; a command fails if the wheel does not declare what it imports.
    """
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    _link(site, project["dependencies"] + project["optional-dependencies"]["pytest"])
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", f"{wheel}[pytest]"], check=True, cwd=folder)
    return User(environment=environment)


def _link(site: Path, wanted: Iterable[str]) -> None:
    """Link the distributions that these requirements need, directly or not, into an environment."""
    seen: set[str] = set()
    open_ones = [Requirement(text) for text in wanted]
    while open_ones:
        requirement = open_ones.pop()
        if requirement.name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(requirement.name)
        distribution = metadata.distribution(requirement.name)
        open_ones += [Requirement(text) for text in distribution.requires or ()]
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))))
