"""The coordination contract on a ZooKeeper of three servers in containers: the model's contract also holds for a quorum."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from highwater.backends.real.containers.engine import Engine
from highwater.backends.real.containers.site import ContainerSite
from highwater.backends.real.systems.registry import system_for
from tests.contract.coordination import CoordinationContract
from tests.docker.test_places import plan
from tests.zookeeper.bench import KazooBench

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.xdist_group("quorum")]

roots = itertools.count()


@pytest.fixture(scope="module")
def ensemble(engine: Engine) -> Iterator[str]:
    """host:port of one server of the quorum."""
    shape = plan(zookeeper=3)
    site = ContainerSite(shape, system_for(shape))

    async def begin() -> None:
        try:
            await site.open()
        finally:
            await site.leave()

    try:
        asyncio.run(begin())
        yield site.zookeeper.split(",")[0]
    finally:
        site.stop()
        site.close()


class TestQuorum(CoordinationContract):
    @pytest.fixture
    def bench(self, ensemble: str) -> Iterator[KazooBench]:
        bench = KazooBench(ensemble, f"/contract-{next(roots)}")
        yield bench
        bench.close()
