"""The side-channel: directories fail on demand, refused accesses are counted, invalid requests are refused."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from reference.config import NEWEST, SAFE, BrokerConfig
from reference.types import BrokerId
from server.lab.dir_faults import Counts, DirFault, DirFaults
from server.lab.side_channel import LINE_BYTES_MAX, Evidence, Look, Refused, SetDir, SideChannel, ask

CONFIG = BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=(), inter_broker_protocol="kip112")


def play(path: Path, faults: DirFaults, scene: Callable[[Path], Awaitable[None]]) -> None:
    """Run a scene with a side-channel that listens on this path."""

    async def main() -> None:
        channel = SideChannel(faults, CONFIG)
        await channel.listen(path)
        try:
            await scene(path)
        finally:
            await channel.close()

    asyncio.run(main())


def test_directories_fail_and_heal_by_side_channel(tmp_path: Path) -> None:
    faults = DirFaults(2)

    async def scene(path: Path) -> None:
        assert await ask(path, SetDir(1, DirFault(broken=True))) == Evidence((Counts(), Counts()), NEWEST, "kip112")
        with pytest.raises(OSError, match="Input/output error"):
            faults.meet(1, needs_room=False)
        faults.meet(0, needs_room=True)
        assert await ask(path, Look()) == Evidence((Counts(), Counts(refused=1)), NEWEST, "kip112")
        await ask(path, SetDir(1, DirFault()))
        faults.meet(1, needs_room=True)

    play(tmp_path / "s", faults, scene)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("dir_", [2, -1])
def test_side_channel_refuses_an_unknown_directory(tmp_path: Path, dir_: int) -> None:
    async def scene(path: Path) -> None:
        assert await ask(path, SetDir(dir_, DirFault(full=True))) == Refused("no such directory")

    play(tmp_path / "s", DirFaults(2), scene)


@pytest.mark.parametrize("line", [b"{}\n", b"\xff\xfe\n", b'{"type":"SetDir","dir":0,"fault":{"wet":true}}\n', b"[]\n"])
def test_side_channel_survives_an_invalid_request(tmp_path: Path, line: bytes) -> None:
    async def scene(path: Path) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(line + b'{"type":"Look"}\n')
        assert b'"Refused"' in await reader.readline()
        assert b'"Evidence"' in await reader.readline()
        writer.close()

    play(tmp_path / "s", DirFaults(1), scene)


def test_endless_line_closes_only_its_side_channel_connection(tmp_path: Path) -> None:
    async def scene(path: Path) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"x" * (LINE_BYTES_MAX + 2))
        assert await reader.read() == b""
        writer.close()
        assert isinstance(await ask(path, Look()), Evidence)

    play(tmp_path / "s", DirFaults(1), scene)


def test_side_channel_replaces_a_leftover_socket(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("left over")

    async def scene(path: Path) -> None:
        assert isinstance(await ask(path, Look()), Evidence)

    play(tmp_path / "s", DirFaults(1), scene)


def test_side_channel_ask_fails_without_a_node(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        asyncio.run(ask(tmp_path / "s", Look()))
