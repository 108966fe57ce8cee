"""What a node's folder shows of its process, through all its lives."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.local.node_folder import Needs, NodeFolder, Start
from highwater.local.site import Proof
from reference.config import SAFE, BrokerConfig
from reference.runtime.faults import DirFault, DirFaults
from reference.runtime.settings import Listener
from reference.runtime.side_channel import SideChannel
from reference.types import Address, BrokerId

B1 = Address("b1")
SLOW = DirFault(flush_ms=1)


@pytest.fixture
def node() -> Iterator[NodeFolder]:
    """One that is not started; the name of a Unix socket has 107 bytes at most, of which tmp_path takes too many."""
    where = Listener(bind="127.0.0.1:1", advertised={B1: "127.0.0.1:1"})
    config = BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=())
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        yield NodeFolder(Path(folder), Start(config=config, zookeeper="127.0.0.1:1", peers=where, clients=where, needs=Needs()))


def flushed(times: int) -> DirFaults:
    """The disk layer of a life whose flushes were delayed so often."""
    faults = DirFaults(1)
    faults.counts[0].delayed = times
    return faults


def proven(node: NodeFolder, before: DirFaults, after: DirFaults, *, flushes: int) -> Proof:
    """What a probe finds where a life ends right after its directory was made slow, and the next one flushes so often."""

    async def scene() -> Proof:
        lives = [SideChannel(before), SideChannel(after)]
        await lives[0].listen(node._folder / "side-channel")
        probe = await node.set_dir_fault(0, SLOW)
        await lives[0].close()
        await lives[1].listen(node._folder / "side-channel")
        after.set(0, SLOW)
        for _ in range(flushes):
            after.wait(0)
        proof = await probe()
        await lives[1].close()
        return proof

    return asyncio.run(scene())


def test_a_life_that_has_met_nothing_yet_does_not_prove_a_fault(node: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each life counts from 0, which is not what was counted before, and still nothing."""
    monkeypatch.setattr("highwater.local.node_folder.MET_LOOKS_MAX", 2)

    assert proven(node, flushed(5), flushed(0), flushes=0).holds is None


def test_a_fault_is_proven_by_the_life_that_meets_it(node: NodeFolder) -> None:
    assert proven(node, flushed(5), flushed(0), flushes=2).holds
