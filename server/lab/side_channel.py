"""The side-channel of a node: a Unix socket over which the harness makes log directories fail and reads how often they failed.

The node says there which version it is, too.

The node opens it only if its settings name a path, and replaces a socket left over from an earlier process. Only users of this
machine can reach it. Requests and answers are JSON lines, one answer for each request. An invalid request is answered with
`Refused`; a line of more than LINE_BYTES_MAX bytes closes its connection.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from reference.config import BrokerConfig, Protocol, Release
from server.lab.dir_faults import Counts, DirFault, DirFaults

LINE_BYTES_MAX = 64 * 1024
PATH_BYTES_MAX = 107  # the longest path of a Unix socket


class SetDir(Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Side-channel request: replace the fault of a log directory; `DirFault()` heals it."""

    dir: int
    fault: DirFault


class Look(Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Side-channel request: what of the node is known to it alone; answered by `Evidence`."""


class Evidence(Struct, frozen=True, tag=True):
    """Side-channel answer: for each log directory, how many accesses were refused and flushes delayed by this process.

    Beside it stand the release of the node's code and the inter-broker protocol that it speaks.
    """

    dirs: tuple[Counts, ...]
    release: Release
    protocol: Protocol


class Refused(Struct, frozen=True, tag=True):
    """Side-channel answer to a request that the node refuses; `why` is the reason."""

    why: str


Ask = SetDir | Look
Answer = Evidence | Refused

_encode = msgspec.json.Encoder().encode
_decode_ask: Callable[[bytes], Ask] = msgspec.json.Decoder(Ask).decode
_decode_answer: Callable[[bytes], Answer] = msgspec.json.Decoder(Answer).decode


class SideChannel:
    """The node's end of the side-channel, a Unix socket over which the harness breaks log directories."""

    def __init__(self, faults: DirFaults, config: BrokerConfig) -> None:
        self._faults = faults
        self._config = config
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def listen(self, path: Path) -> None:
        """Open the side-channel's socket. OSError if it cannot be created."""
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path, limit=LINE_BYTES_MAX)
        self._path = path

    async def close(self) -> None:
        """Stop listening on the side-channel and remove its socket."""
        if self._server is not None and self._path is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the lines of one connection until it closes."""
        try:
            while line := await reader.readline():
                writer.write(_encode(self._answer_to(line)) + b"\n")
                await writer.drain()
        except (ValueError, ConnectionError):  # a line beyond the limit; a disconnected client
            pass
        finally:
            writer.close()

    def _answer_to(self, line: bytes) -> Answer:
        """Set the fault that is asked for, and answer with the counts of refused effects."""
        try:
            ask = _decode_ask(line)
            if isinstance(ask, SetDir):
                self._faults.set(ask.dir, ask.fault)
        except msgspec.MsgspecError as error:
            return Refused(str(error))
        except IndexError:
            return Refused("no such directory")
        return Evidence(tuple(self._faults.counts), self._config.release, self._config.inter_broker_protocol)


async def ask(path: Path, question: Ask) -> Answer:
    """The harness's end of the side-channel: send a node one request, return the answer. OSError if the node does not answer."""
    reader, writer = await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX)
    try:
        writer.write(_encode(question) + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line.endswith(b"\n"):
        raise ConnectionError(f"{path}: no answer")
    return _decode_answer(line)
