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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def user(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user of all but Spark and S3."""
    return installed(wheel, tmp_path_factory.mktemp("user"), "docker", "serve", "pytest")


def installed(wheel: Path, folder: Path, *extras: str) -> User:
    """Install the wheel, with these extras, into a new environment in a folder.

    The dependencies are links to the installed ones, since they take a gigabyte. pip has no index, so it fails if the wheel needs
    what is not linked; a command fails if the wheel does not declare what it imports.
    """
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    for distribution in closure(extras):
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))))
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--disable-pip-version-check"]
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    subprocess.run([*pip, "install", "--quiet", "--no-index", wanted], check=True, cwd=folder)
    return User(environment=environment)


def closure(extras: Iterable[str]) -> list[metadata.Distribution]:
    """The distributions that the wheel with these extras needs, directly or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    open_ones = [Requirement(text) for text in project["dependencies"]]
    open_ones += [Requirement(f"{project['name']}[{extra}]") for extra in extras]
    found: dict[str, metadata.Distribution] = {}
    while open_ones:
        requirement = open_ones.pop()
        if requirement.name == project["name"]:
            of_extras = [text for extra in requirement.extras for text in project["optional-dependencies"][extra]]
            open_ones += [Requirement(text) for text in of_extras]
        elif requirement.name not in found and (not requirement.marker or requirement.marker.evaluate({"extra": ""})):
            found[requirement.name] = metadata.distribution(requirement.name)
            open_ones += [Requirement(text) for text in found[requirement.name].requires or ()]
    return list(found.values())
