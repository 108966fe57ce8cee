"""The coordination contract with kazoo and a real ZooKeeper."""

import itertools
from collections.abc import Iterator

import pytest

from tests.contract.coordination import CoordinationContract
from tests.zookeeper.bench import KazooBench

pytestmark = pytest.mark.zookeeper

roots = itertools.count()


class TestKazoo(CoordinationContract):
    @pytest.fixture
    def bench(self, zookeeper: str) -> Iterator[KazooBench]:
        bench = KazooBench(zookeeper, f"/contract-{next(roots)}")
        yield bench
        bench.close()
