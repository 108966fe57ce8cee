"""A node's folder: faults of its disk layer are set and measured through all its lives."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from highwater.backends.real.means import Means
from highwater.backends.real.node.folder import NodeFolder, Start
from highwater.backends.real.site import DirCondition, Proof
from highwater.errors import HarnessError
from nemesis.faults import Roll
from reference.config import SAFE, BrokerConfig, Protocol
from reference.effects import Note
from reference.messages import Batch
from reference.types import Address, BrokerId, Incarnation, LeaderEpoch, Offset, TopicId, TopicPartition
from server.disk.log_dirs import Disk
from server.lab.dir_faults import DirFault, DirFaults
from server.lab.flush_ledger import FlushLedger
from server.lab.notes import NoteLine
from server.lab.power import Loss
from server.lab.side_channel import SideChannel
from server.runtime.settings import Listener
from server.wire.records import sealed

B1 = Address("b1")
TP = TopicPartition("t-0")
SLOW = DirFault(flush_ms=1)
SLOW_START_S = 0.2
CONFIG = BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=())
BROKEN = "[Errno 5] Input/output error"


@pytest.fixture
def node() -> Iterator[NodeFolder]:
    """A node without a process. Unix socket paths have at most 107 bytes, so tmp_path is too long."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        yield new_folder(Path(folder), frozenset())


def new_folder(folder: Path, needs: frozenset[Means]) -> NodeFolder:
    """The folder of broker 1, which needs these means."""
    listener = Listener(bind="127.0.0.1:1", advertised={B1: "127.0.0.1:1"})
    start = Start(
        config=CONFIG,
        zookeeper="127.0.0.1:1",
        peers=listener,
        clients=(listener,),
        metrics=listener.bind,
        needs=needs,
        rolled=lambda _, config: replace(config, inter_broker_protocol="kip112"),
    )
    return NodeFolder(folder, start)


def flushed(times: int) -> DirFaults:
    """The disk layer of a life with this number of delayed flushes."""
    faults = DirFaults(1)
    faults.counts[0].delayed = times
    return faults


def proof_after_restart(node: NodeFolder, before: DirFaults, after: DirFaults, *, flushes: int) -> Proof:
    """What a probe finds if a life ends right after its directory was made slow, and the next life flushes `flushes` times."""

    async def scene() -> Proof:
        lives = [SideChannel(before, CONFIG), SideChannel(after, CONFIG)]
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


def test_restarted_broker_without_delayed_flush_proves_no_fault(node: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each life counts from 0. The drop of the count from 5 to 0 must not pass for a hit."""
    monkeypatch.setattr("highwater.backends.real.node.folder.MET_LOOKS_MAX", 2)

    assert proof_after_restart(node, flushed(5), flushed(0), flushes=0).holds is None


def test_dir_fault_is_proven_by_refusals_after_a_restart(node: NodeFolder) -> None:
    assert proof_after_restart(node, flushed(5), flushed(0), flushes=2).holds


@pytest.mark.parametrize(
    ("dir_", "detail", "holds"),
    [
        (0, "[Errno 5] Input/output error", True),
        (0, "[Errno 13] Permission denied", None),
        (1, "[Errno 5] Input/output error", None),
    ],
)
def test_dir_failure_report_of_halted_broker_proves_the_fault(
    node: NodeFolder, dir_: int, detail: str, holds: bool | None
) -> None:
    """A broker halts when its last directory fails and cannot be asked for its counts then."""
    failed = NoteLine(node="b1", life=1, time_ns=0, note=Note(kind="dir-failed", dir=dir_, detail=detail))
    notes = node._folder / "notes.jsonl"
    notes.write_bytes(msgspec.json.encode(failed) + b"\n")  # of an earlier fault

    async def scene() -> tuple[Proof, Proof]:
        probe = await node.set_dir_fault(0, DirFault(broken=True))
        before = await probe()
        notes.write_bytes(notes.read_bytes() * 2)
        return before, await probe()

    before, after = asyncio.run(scene())

    assert before.holds is None
    assert after.holds is holds


@pytest.mark.parametrize("fault", [DirCondition(flush_ms=100), DirCondition(broken=True)])
def test_failing_or_slow_log_dir_can_be_swapped(node: NodeFolder, fault: DirCondition) -> None:
    """Windows of different kinds may overlap on one directory."""
    with closing(Disk(node.log_dirs)) as disk:
        disk.recover()
        disk.create(0, TP, Incarnation(1), TopicId(9))

    async def scene() -> list[str]:
        await node.set_dir(0, fault)
        return [wound.tp for wound in await node.swap_dir(0)]

    assert asyncio.run(scene()) == [TP]
    assert node._dir_faults[0] == DirFault(broken=fault.broken, flush_ms=fault.flush_ms)
    assert list(node.log_dirs[0].iterdir()) == []


async def runs() -> bool:
    return True


async def has_ended() -> bool:
    return False


def test_broker_start_waits_for_its_slow_side_channel(node: NodeFolder) -> None:
    """The process starts with a fault that may end before it listens; healing could not reach it then."""

    async def scene() -> bool:
        await node.set_dir_fault(0, SLOW)
        telling = asyncio.ensure_future(node.tell_faults(runs))
        done, _ = await asyncio.wait([telling], timeout=SLOW_START_S)
        life = SideChannel(DirFaults(1), CONFIG)
        await life.listen(node._folder / "side-channel")
        await telling
        await life.close()
        return not done

    assert asyncio.run(scene())


@pytest.mark.parametrize("spoken", ["kip112", "kip343"])
def test_roll_is_proved_by_what_the_broker_says_it_is(node: NodeFolder, spoken: Protocol) -> None:
    """A process that runs has not rolled if it is what it was before."""

    async def scene() -> tuple[Proof | None, Proof | None]:
        node.roll(Roll())
        life = SideChannel(DirFaults(1), replace(CONFIG, inter_broker_protocol=spoken))
        before = await node.says_version()
        await life.listen(node._folder / "side-channel")
        said = await node.says_version()
        await life.close()
        return before, said

    assert asyncio.run(scene()) == (None, Proof(spoken == "kip112", f"release kip343 that speaks {spoken}"))


def test_broker_start_does_not_wait_for_an_ended_process(node: NodeFolder) -> None:
    """A broker ends at once if all its directories are broken."""

    async def scene() -> None:
        await node.set_dir_fault(0, SLOW)
        async with asyncio.timeout(5):
            await node.tell_faults(has_ended)

    asyncio.run(scene())


def test_broker_that_never_listens_is_a_harness_error(node: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.backends.real.node.folder.LISTENS_S_MAX", 0.1)

    async def scene() -> None:
        await node.set_dir_fault(0, SLOW)
        with pytest.raises(HarnessError, match="b1 does not listen"):
            await node.tell_faults(runs)

    asyncio.run(scene())


def test_power_loss_works_on_a_full_directory(tmp_path: Path) -> None:
    """Undoing an unflushed truncation needs room; on a real disk those bytes would still be there."""
    if os.geteuid():
        pytest.skip("only root can mount a small file system")
    node = new_folder(tmp_path, frozenset({"small-dirs"}))
    try:
        kept_batch = Batch(Offset(0), LeaderEpoch(0), sealed(["x" * 100_000]))
        with closing(FlushLedger(tmp_path / B1 / "power-ledger")) as ledger, closing(Disk(node.log_dirs, ledger=ledger)) as disk:
            disk.recover()
            disk.create(0, TP, Incarnation(1), TopicId(9))
            disk.append(0, TP, [kept_batch])
            disk.flush_job(0)()
            disk.truncate(0, TP, Offset(0))

        async def scene() -> Proof:
            probe = await node.set_dir(0, DirCondition(full=True))
            await node.lose_unflushed([0], Loss(seed=1, lose_all=True))
            return await probe()

        assert asyncio.run(scene()).holds  # it is full again

        ((log,),) = [image.logs for image in node.disks()]
        assert [batch.base_offset for batch in log.batches] == [0]
    finally:
        node.release()
