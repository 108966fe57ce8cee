"""What tests of other systems need: jars of Kafka (where they are missing, tests are skipped, in CI they fail), kfake, ports."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.porcupine.judging import go
from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.releases import release_named
from highwater.plans.systems import parsed_system
from tests.tidy.sources import ROOT

EXAMPLES = ROOT / "docs" / "examples"
UP_S = 90
BUILD_S = 500  # Go fetches and compiles ten modules when it builds kfake first; on a busy machine that takes minutes


def need(version: str) -> None:
    """Skip the test unless this release of Kafka can run here; fail it in CI, where `.ci/systems` fetches the jars."""
    missing = jars.missing(release_named(parsed_system(f"kafka:{version}").version))
    if missing is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)


KEPT: tuple[Any, ...] = (0, "VALID", True, None, [])


def outcome(code: int, summary: dict[str, Any]) -> tuple[Any, ...]:
    """What a run ended as, to be compared with KEPT: with its anomalies and complaints, which a red test then shows."""
    return code, summary["verdict"], summary["live"], summary["failure"], summary["anomalies"] + summary["not_live"]


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for base in range(29200 + os.getpid() % 100 * 20, 32000, 20):  # below those that the kernel gives away
        try:
            for port in range(base, base + count):
                with socket.socket() as taken:
                    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    taken.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


@pytest.fixture(scope="session")
def kfake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built."""
    command = go()
    if command is None:
        pytest.skip("there is no Go here, which builds kfake")
    program = tmp_path_factory.mktemp("kfake") / "kfake"
    path = f"{Path(command).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DATA": str(program.parent), "GOFLAGS": "-mod=readonly"}
    subprocess.run([EXAMPLES / "kfake" / "kfake.sh", "build"], check=True, env=environment, timeout=BUILD_S)
    return program


@pytest.fixture
def kfake_cluster(kfake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Starts a cluster of so many nodes, whose kills cut the stored records in half if `cut` is "1"; the path of its file."""
    script = EXAMPLES / "kfake" / "kfake.sh"

    def up(nodes: int, cut: str) -> Path:
        base = free_ports(nodes)
        settings = {"PROGRAM": kfake, "DATA": tmp_path / "kfake", "BASE": base, "NODES": nodes, "CUT": cut}
        for name, value in settings.items():
            monkeypatch.setenv(name, str(value))
        text = (EXAMPLES / "kfake" / "kfake.yaml").read_text()
        entries = (f'- {{id: {node}, address: "127.0.0.1:{base + node}"}}' for node in range(nodes))
        file = tmp_path / "kfake.yaml"
        hooks = text[text.index("hooks:") :].replace("./kfake.sh", str(script))
        file.write_text("\n".join(("nodes:", *entries, hooks)))
        subprocess.run([script, "up"], check=True, timeout=UP_S)
        return file

    yield up
    subprocess.run([script, "down"], check=True, timeout=UP_S)
