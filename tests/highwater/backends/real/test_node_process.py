"""Kill and terminate of a broker's process, and what their probes prove."""

import asyncio
import os
import signal
from pathlib import Path

from highwater.backends.real.node.folder import Start
from highwater.backends.real.node.reference import ReferenceNode
from highwater.backends.real.processes.runner import ProcessRunner
from highwater.backends.real.site import Proof
from reference.config import SAFE, BrokerConfig
from reference.types import Address, BrokerId
from server.runtime.settings import Listener

B1 = Address("b1")
NOBODY = "127.0.0.1:1"  # a port that nothing listens on


def node(folder: Path, runner: ProcessRunner) -> ReferenceNode:
    """Broker 1, which finds nobody at the addresses of ZooKeeper and its peers."""
    listener = Listener(bind="127.0.0.1:0", advertised={B1: NOBODY})
    config = BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=())
    start = Start(config=config, zookeeper=NOBODY, peers=listener, clients=(listener,), metrics="127.0.0.1:0")
    return ReferenceNode(folder, start, runner)


def test_proof_of_a_kill_fails_if_the_process_was_down_already(tmp_path: Path) -> None:
    """Otherwise an earlier end, of any cause, would prove every later kill."""

    async def scene() -> list[Proof]:
        runner = ProcessRunner(B1)
        broker = node(tmp_path, runner)
        await broker.start()
        assert runner._process is not None
        os.kill(runner._process.pid, signal.SIGKILL)
        runner._process.wait()
        proofs = [await (await broker.terminate())(), await (await broker.kill())()]
        await broker.start()
        proofs.append(await (await broker.kill())())
        proofs.append(await (await broker.terminate())())
        broker.end()
        broker.release()
        return proofs

    proofs = asyncio.run(scene())

    assert [proof.holds for proof in proofs] == [False, False, True, False]
