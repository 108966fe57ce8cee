"""Closing a site of containers when the engine refuses once."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from highwater.backends.real.containers import site as container_site
from highwater.backends.real.containers.engine import Labels, Left, Network
from highwater.backends.real.containers.site import ContainerSite
from highwater.backends.real.systems.registry import system_for
from highwater.errors import HarnessError
from tests.zookeeper.test_process_backend import plan

KINDS: tuple[Literal["container", "network"], ...] = ("container", "network")


class BusyEngine:
    """Creates a container with the first network, refuses a second network, and refuses the first removal of the container."""

    def __init__(self) -> None:
        self.labels = Labels("", Path())
        self.there: list[str] = []  # kinds
        self.is_busy = True
        self.is_closed = False

    def create_network(self, name: str, labels: Labels) -> Network:
        if self.there:
            raise HarnessError("no room for another network")
        self.labels, self.there = labels, list(KINDS)
        return Network(id=name, gateway="")

    def left(self, run: str) -> list[Left]:
        assert run == self.labels.run
        everything = [Left(kind=kind, id=kind, name=kind, labels=self.labels) for kind in KINDS]
        return [leftover for leftover in everything if leftover.kind in self.there]

    def remove(self, leftover: Left) -> None:
        if leftover.kind == "container" and self.is_busy:
            self.is_busy = False
            raise HarnessError("removing the container: busy")
        self.there.remove(leftover.kind)

    def close(self) -> None:
        self.is_closed = True


def test_container_cleanup_goes_on_after_an_error_and_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder holds logs and mounts, and each network takes one of the engine's few address ranges."""
    engine = BusyEngine()
    monkeypatch.setattr(container_site, "Engine", lambda: engine)
    shape = plan(faults_ms=1000)
    site = ContainerSite(shape, system_for(shape))
    with pytest.raises(HarnessError, match="no room for another network"):
        asyncio.run(site.open())
    folder = engine.labels.folder
    assert folder.is_dir()

    with pytest.raises(HarnessError, match="removing the container: busy"):
        site.close()

    assert (engine.there, folder.exists(), engine.is_closed) == (["container"], False, False)

    site.close()
    site.close()

    assert (engine.there, engine.is_closed) == ([], True)
