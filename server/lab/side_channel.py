"""The side-channel of a node: its harness makes log directories fail, and hears what came of it. Off unless the settings ask.

A Unix socket, so that nobody but the machine's own users reaches it; made by the node when it starts, replaced where one is left
from an earlier life. Requests and answers are JSON lines, one answer for each request. What is no request is answered with
`Refused`; a line of more than LINE_BYTES_MAX bytes ends its connection.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from server.lab.dir_faults import Counts, DirFault, DirFaults

LINE_BYTES_MAX = 64 * 1024
PATH_BYTES_MAX = 107  # of the name of a Unix socket


class SetDir(Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A log directory is so from now on; the sound one heals."""

    dir: int
    fault: DirFault


class Look(Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Say what came of the faults so far."""


class Evidence(Struct, frozen=True, tag=True):
    """For each directory, how many accesses were refused and flushes delayed in this life."""

    dirs: tuple[Counts, ...]


class Refused(Struct, frozen=True, tag=True):
    """Not done, and why."""

    why: str


Ask = SetDir | Look
Answer = Evidence | Refused

_encode = msgspec.json.Encoder().encode
_decode_ask: Callable[[bytes], Ask] = msgspec.json.Decoder(Ask).decode
_decode_answer: Callable[[bytes], Answer] = msgspec.json.Decoder(Answer).decode


class SideChannel:
    """The node's end."""

    def __init__(self, faults: DirFaults) -> None:
        self._faults = faults
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def listen(self, path: Path) -> None:
        """Take connections. OSError where the socket cannot be made."""
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path, limit=LINE_BYTES_MAX)
        self._path = path

    async def close(self) -> None:
        """Stop, and take the socket away."""
        if self._server is not None and self._path is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(_encode(self._answer(line)) + b"\n")
                await writer.drain()
        except (ValueError, ConnectionError):  # a line beyond the limit; somebody who went
            pass
        finally:
            writer.close()

    def _answer(self, line: bytes) -> Answer:
        try:
            ask = _decode_ask(line)
            if isinstance(ask, SetDir):
                self._faults.set(ask.dir, ask.fault)
        except msgspec.MsgspecError as error:
            return Refused(str(error))
        except IndexError:
            return Refused("no such directory")
        return Evidence(tuple(self._faults.counts))


async def ask(path: Path, question: Ask) -> Answer:
    """The harness's end: one question. OSError where nobody answers."""
    reader, writer = await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX)
    try:
        writer.write(_encode(question) + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line.endswith(b"\n"):
        raise ConnectionError(f"{path}: no answer")
    return _decode_answer(line)
