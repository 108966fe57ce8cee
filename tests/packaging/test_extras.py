"""The wheel without its extras: it judges recorded histories, and says of everything else which extra brings it."""

from importlib import metadata
from pathlib import Path

import pytest

from tests.packaging.conftest import SAMPLE, User, closure, installed
from tests.tidy.sources import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

_HISTORIES = ROOT / "corpus" / "histories"
_MAX_MB = 120


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user who installed the wheel alone."""
    return installed(wheel, tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize(
    ("history", "code"),
    [
        (SAMPLE / "history.edn", 10),
        (_HISTORIES / "linearizability" / "bad" / "register.edn", 10),
        (_HISTORIES / "linearizability" / "ok" / "register.edn", 0),
        (_HISTORIES / "elle" / "bad" / "list-append-G-single.edn", 10),
        (_HISTORIES / "kafka" / "bad" / "G1a.edn", 10),
    ],
)
def test_base_judges_a_history(history: Path, code: int, base: User, tmp_path: Path) -> None:
    page, proof = tmp_path / "out.html", tmp_path / "proof.json"
    completed = base.run("highwater", "check", str(history), "--report", str(page), "--certificate", str(proof), cwd=tmp_path)

    assert completed.returncode == code
    assert completed.stderr == "" or completed.stderr.startswith("highwater: no certificate: ")
    assert page.is_file()
    if proof.exists():
        assert base.run("highwater", "verify", str(history), str(proof), cwd=tmp_path).returncode == 0


def test_base_is_small() -> None:
    assert sum(_size(distribution) for distribution in closure(())) < _MAX_MB * 1_000_000


def _size(distribution: metadata.Distribution) -> int:
    """The bytes of a distribution, without what Python compiles of it."""
    files = (Path(str(distribution.locate_file(file))) for file in distribution.files or () if file.suffix != ".pyc")
    return sum(file.stat().st_size for file in files if file.is_file())


def test_base_checks_the_library_and_explores(base: User, tmp_path: Path) -> None:
    library = base.run("python", "-c", "import checkers; print(checkers.model_named('register', initial=0))", cwd=tmp_path)
    explored = base.run("highwater", "explore", "model", "kafka-replication", "--variant", "kip320", "--help", cwd=tmp_path)
    faults = base.run("highwater", "faults", cwd=tmp_path)

    assert (library.returncode, explored.returncode, faults.returncode) == (0, 0, 0), library.stderr + explored.stderr


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        (["run", "--seed", "1"], "polars", "sim"),
        (["campaign", "--seeds", "1..2"], "crc32c", "sim"),
        (["judge", "."], "polars", "sim"),
        (["check", str(_HISTORIES / "bad" / "duplicates-resent.jsonl")], "polars", "sim"),
        (["systems", "list"], "", "real"),
        (["clean"], "", ""),
    ],
)
def test_base_says_which_extra_a_command_needs(command: list[str], package: str, extra: str, base: User, tmp_path: Path) -> None:
    completed = base.run("highwater", *command, cwd=tmp_path)

    assert (completed.returncode, completed.stdout, completed.stderr.count("\n")) == (2, "", 1), completed.stderr
    assert completed.stderr.startswith(f"highwater: highwater {command[0]} needs {package}")
    assert completed.stderr.endswith(f"{extra}]'\n")


@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        ("sim", "highwater.runs.run, highwater.inspect.rows, pipeline.questions.in_process"),
        ("real", "highwater.backends.real.processes.backend, highwater.backends.real.systems.kafka.system, server.runtime.node"),
        ("docker", "highwater.backends.real.containers.backend"),
        ("spark", "pyspark.sql, pandas, pipeline.dataset_on_spark, pipeline.questions.on_spark"),
        ("connect", "pyspark.sql.connect.session, pipeline.session"),
        ("s3", "obstore, pipeline.lease"),
        ("serve", "uvicorn, highwater.serve.app"),
        ("pytest", "highwater.pytest_plugin, highwater.strategies"),
        ("all", "highwater.serve.app, pyspark.sql, highwater.backends.real.containers.backend, highwater.strategies"),
    ],
)
def test_each_extra_alone_brings_all_that_its_part_imports(extra: str, modules: str, wheel: Path, tmp_path: Path) -> None:
    alone = installed(wheel, tmp_path, extra)

    completed = alone.run("python", "-c", f"import {modules}", cwd=tmp_path)

    assert (completed.returncode, completed.stderr) == (0, "")


def test_command_has_the_name_of_the_package_too(base: User, tmp_path: Path) -> None:
    """As `uvx highwater-harness check FILE` runs it."""
    completed = base.run("highwater-harness", "check", str(SAMPLE / "history.edn"), cwd=tmp_path)

    assert (completed.returncode, completed.stderr) == (10, "")


def test_simulator_alone_says_what_real_brokers_need(wheel: Path, tmp_path: Path) -> None:
    of_sim = installed(wheel, tmp_path, "sim")
    plan = str(SAMPLE / "plans" / "failover.yaml")
    simulated = of_sim.run("highwater", "run", "--plan", plan, cwd=tmp_path)
    processes = of_sim.run("highwater", "run", "--plan", plan, "--backend", "process", cwd=tmp_path)
    containers = of_sim.run("highwater", "run", "--plan", plan, "--backend", "docker", cwd=tmp_path)

    assert (simulated.returncode, simulated.stderr) == (0, "")
    assert (processes.returncode, containers.returncode) == (2, 2)
    assert processes.stderr.endswith("which the extra real brings: pip install 'highwater-harness[real]'\n")
    assert containers.stderr.endswith("brings: pip install 'highwater-harness[docker]'\n")


def test_library_without_polars_says_what_is_missing(base: User, tmp_path: Path) -> None:
    done = base.run("python", "-c", "import highwater; highwater.load('store')", cwd=tmp_path)

    assert "No module named 'polars'" in done.stderr
