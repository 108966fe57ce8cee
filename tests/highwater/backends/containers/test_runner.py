"""Running a broker's processes in a container, with a fake engine whose container is a process of this machine."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from highwater.backends.real.containers.backend import DockerBackend
from highwater.backends.real.containers.engine import Engine, Labels, Network, Service
from highwater.backends.real.containers.place import Grounds, Place
from highwater.backends.real.containers.runner import ContainerRunner
from highwater.backends.real.node.runner import Launch
from highwater.backends.real.systems.port import Packing
from highwater.run_folder import RunFolder
from reference.types import Address
from tests.systems.test_toy import PLAN
from tests.systems.toy import Toy

NETWORK = Network(id="n", gateway="")
JARS = Path("/somewhere/cache/kafka-3.9.1")
GROUNDS = Grounds(folder=cast(RunFolder, None), labels=Labels("run", Path("/")), network=NETWORK, harness=NETWORK, user=10001)
PLACE = Place(name=Address("b1"), container="place", address="", harness="", socket=Path("/"))


class OneContainer:
    """An engine with one container, whose process sleeps until it is killed; it keeps what containers were made of."""

    def __init__(self) -> None:
        self.created: list[Service] = []
        self.started: list[str] = []
        self.process = subprocess.Popen(["sleep", "60"])
        self.too_much_memory = False

    def create(self, service: Service) -> str:
        self.created.append(service)
        return service.name

    def start(self, container: str) -> None:
        self.started.append(container)
        if self.process.poll() is not None:
            self.process = subprocess.Popen(["sleep", "60"])

    def pid(self, container: str) -> int:
        return self.process.pid

    def kill(self, container: str, signal: str = "KILL") -> None:
        self.process.kill()

    def wait(self, container: str, timeout_s: int) -> None:
        self.process.wait(timeout_s)

    def exit_code(self, container: str) -> int | None:
        return self.process.poll()

    def used_too_much_memory(self, container: str) -> bool:
        return self.too_much_memory

    def end_process(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def one_container() -> Iterator[tuple[OneContainer, ContainerRunner]]:
    engine = OneContainer()
    try:
        yield engine, ContainerRunner(cast(Engine, engine), GROUNDS, PLACE, Packing(image="base", memory_mb=7))
    finally:
        engine.end_process()


def started(runner: ContainerRunner) -> None:
    asyncio.run(runner.start(Launch(command=("java", "-version"), environment={"A": "b"}), Path("/b1")))


def test_container_reads_jars_where_an_ordinary_user_may_look() -> None:
    """The cache may lie below a home that nobody else can enter."""
    with one_container() as (engine, runner):
        there = runner.reads(JARS)
        started(runner)

    (service,) = engine.created
    assert service.reads == ((JARS, there),)
    assert there.parent == Path("/opt/highwater-reads")
    assert (service.user, service.memory_mb, service.capabilities) == ("10001:10001", 7, ())


def test_container_appends_what_its_process_prints_to_a_file() -> None:
    """The engine keeps the last 16 MB only."""
    with one_container() as (engine, runner):
        started(runner)

    (service,) = engine.created
    assert (service.entrypoint, service.folders, service.environment) == ("sh", (Path("/b1"),), ("A=b",))
    assert service.command == ("-c", 'exec "$@" >>"$0" 2>&1', "/b1/output.log", "java", "-version")


def test_container_is_made_once_for_all_lives_of_a_broker() -> None:
    with one_container() as (engine, runner):
        for _ in range(2):
            started(runner)
            engine.end_process()

        assert len(engine.created) == 1


def test_rolled_broker_has_another_container_for_its_command() -> None:
    """The one before it stays until the run ends: a probe may still ask the engine how its process ended."""
    with one_container() as (engine, runner):
        for release in ("3.9.1", "4.1.0", "4.1.0"):
            asyncio.run(runner.start(Launch(command=("java", release)), Path("/b1")))
            engine.end_process()

    assert [(service.name, service.command[-1]) for service in engine.created] == [("run-b1", "3.9.1"), ("run-b1-2", "4.1.0")]
    assert engine.started == ["run-b1", "run-b1-2", "run-b1-2"]


def test_exit_code_is_of_a_process_that_the_harness_did_not_end() -> None:
    with one_container() as (engine, runner):
        found = [runner.exit_code()]
        started(runner)
        found.append(runner.exit_code())
        engine.end_process()
        found.append(runner.exit_code())
        started(runner)
        runner.end()
        found.append(runner.exit_code())

    assert found == [None, None, -9, None]


def test_broker_that_needs_too_much_memory_did_not_stop_itself() -> None:
    """The limit is the harness's, so its run must fail and no system be blamed."""
    with one_container() as (engine, runner):
        started(runner)
        engine.too_much_memory = True
        engine.end_process()

        assert runner.exit_code() is None


def test_system_without_a_container_is_refused_before_the_run() -> None:
    assert DockerBackend(Toy).refuse(PLAN) == "toy:eager does not run in containers; run it with --backend process"
