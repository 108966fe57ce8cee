"""However a run ends, its recorded rows are kept and its site is removed."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from msgspec.structs import replace

from highwater.backends.real.faults import Faults
from highwater.backends.real.site import Site
from highwater.backends.real.stage import Stage, perform, unplayable
from highwater.backends.real.systems.port import Cluster
from highwater.backends.real.systems.reference import Reference
from highwater.errors import HarnessError
from highwater.rig.backend import Run
from highwater.rig.commits import AnyCommit
from highwater.rig.scene import scene_of
from reference.types import Address
from tests.zookeeper.test_process_backend import PROVENANCE, plan


class Nowhere:
    """A site whose `open` raises `trouble`, and whose methods named in `failing` fail too."""

    nodes: dict[int, object] = {}
    servers: tuple[object, ...] = ()

    def __init__(self, trouble: BaseException, *failing: str) -> None:
        self.trouble = trouble
        self.failing = failing
        self.is_closed = False

    def _does(self, name: str) -> None:
        if name in self.failing:
            raise HarnessError(f"{name} fails")

    async def open(self) -> None:
        raise self.trouble

    async def leave(self) -> None:
        """Does nothing."""

    def stop(self) -> None:
        self._does("stop")

    def commits(self) -> Sequence[AnyCommit]:
        self._does("commits")
        return ()

    def close(self) -> None:
        self.is_closed = True
        self._does("close")


NO_ENGINE = HarnessError("no engine")


@pytest.mark.parametrize("failing", [("stop",), ("commits",), ("close",), ("stop", "commits", "close")])
@pytest.mark.parametrize("trouble", [KeyboardInterrupt(), NO_ENGINE])
def test_backend_failure_after_the_run_keeps_the_history(trouble: BaseException, failing: tuple[str, ...]) -> None:
    """The history may prove an anomaly, even if the harness fails afterwards."""
    site = Nowhere(trouble, *failing)

    short = plan(faults_ms=1000)
    run: Run = perform(short, PROVENANCE, cast(Site, site), Reference(short), backend="process")

    failure_expected = "no engine" if trouble is NO_ENGINE else f"{failing[0]} fails"
    assert (run.history.manifest.outcome, run.failure) == ("harness-fault", failure_expected)
    assert site.is_closed


def test_write_time_of_zookeeper_is_of_the_simulator() -> None:
    """A real server would take its own time, and the run would be compared as if it had taken the plan's."""
    shape = plan(faults_ms=1000)
    timed = replace(shape, cluster=replace(shape.cluster, zookeeper_write_ms=4))

    assert "zookeeper_write_ms" in (unplayable(timed) or "")
    assert unplayable(shape) is None


class Ended:
    """A controller whose process ended by itself."""

    address = "z2"

    async def is_running(self) -> bool:
        return False

    def last_words(self) -> str:
        return "Error: no memory"


class Alone:
    """A cluster whose brokers find no controller."""

    absent: frozenset[Address] = frozenset()

    async def gathered(self) -> bool:
        return False


def test_controller_that_dies_at_its_start_is_named() -> None:
    """Else the run waited for a minute, and blamed the brokers."""
    site, short = Nowhere(NO_ENGINE), plan(faults_ms=1000)
    site.servers = (Ended(),)
    stage = Stage(scene_of(short), cast(Site, site), Reference(short))

    with pytest.raises(HarnessError, match="z2 stopped before the brokers served: Error: no memory"):
        asyncio.run(stage._wait_for_brokers(cast(Cluster, Alone()), cast(Faults, None)))


class Kept:
    """Faults that keep a server down, or none."""

    def __init__(self, *, down: bool) -> None:
        self._down = down

    def keeps_server_down(self, _: object) -> bool:
        return self._down


@pytest.mark.parametrize("down", [True, False], ids=["by a fault", "by itself"])
def test_server_that_dies_during_the_run_is_named(*, down: bool) -> None:
    """ZooKeeper and controllers apart, as brokers: a run whose cluster fell apart by itself is no evidence."""
    site, short = Nowhere(NO_ENGINE), plan(faults_ms=1000)
    site.servers = (Ended(),)
    stage = Stage(scene_of(short), cast(Site, site), Reference(short))
    watched = stage._sleep_and_watch(0.01, cast(Faults, Kept(down=down)))

    if down:
        asyncio.run(watched)
        return
    with pytest.raises(HarnessError, match="the process of z2 died: Error: no memory"):
        asyncio.run(watched)
