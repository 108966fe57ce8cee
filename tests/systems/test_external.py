"""Nothing is sent to an address that the file of a user's cluster does not name, and its cluster is left as it was."""

import asyncio
from pathlib import Path

import pytest

from highwater.backends.real.systems.external.file import Hooks, load
from highwater.backends.real.systems.external.site import ExternalSite
from highwater.backends.real.systems.external.system import ExternalCluster
from highwater.backends.real.systems.kafka import quorum
from highwater.backends.real.systems.metadata import Told
from highwater.errors import HarnessError
from reference.types import Address, BrokerId

B1, WHERE = Address("b1"), ("127.0.0.1", 1)
FILE = """\
nodes:
- {id: 1, address: "127.0.0.1:1"}
hooks:
  kill: [sh, -c, "echo kill {node} >> done"]
  start: [sh, -c, "echo start {node} >> done"]
  pause: [sh, -c, "echo pause {node} >> done"]
  resume: [sh, -c, "echo resume {node} >> done"]
  cut: [sh, -c, "echo cut {node} {peer} >> done"]
  heal: [sh, -c, "echo heal {node} {peer} >> done"]
"""


def test_broker_that_advertises_another_address_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would connect to what the broker advertises."""
    elsewhere = Told(brokers=(1,), addresses=(("192.0.2.1", 9092),), partitions=())
    monkeypatch.setattr(quorum, "told_by", lambda where, *, partitions: elsewhere)
    monkeypatch.setattr(quorum, "served_version", lambda where, api: 8)

    with pytest.raises(HarnessError, match=r"b1 advertises 192\.0\.2\.1:9092, which my\.yaml does not name$"):
        asyncio.run(ExternalCluster({B1: WHERE}, Path("my.yaml")).gathered())


@pytest.fixture
def site(tmp_path: Path) -> ExternalSite:
    path = tmp_path / "my.yaml"
    path.write_text(FILE)
    return ExternalSite({B1: WHERE}, Hooks(load(path), tmp_path))


def test_node_that_a_fault_left_down_is_started_at_the_end(site: ExternalSite, tmp_path: Path) -> None:
    asyncio.run(site.nodes[BrokerId(1)].kill())

    site.stop()
    site.close()

    assert (tmp_path / "done").read_text().splitlines() == ["kill 1", "start 1"]


def test_node_that_a_fault_left_paused_is_resumed_at_the_end(site: ExternalSite, tmp_path: Path) -> None:
    asyncio.run(site.nodes[BrokerId(1)].pause())

    site.stop()

    assert (tmp_path / "done").read_text().splitlines() == ["pause 1", "resume 1"]


def test_first_start_of_a_run_leaves_the_users_node_alone(site: ExternalSite, tmp_path: Path) -> None:
    """The user's cluster runs already."""
    asyncio.run(site.nodes[BrokerId(1)].start())

    assert not (tmp_path / "done").exists()
