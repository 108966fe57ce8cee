"""Reader of ZooKeeper's transaction log: every committed write of a run, in order.

A watch misses values that are overwritten before the next read; the log has them all. The format is that of ZooKeeper 3.6 and
later (FileTxnLog, records of zookeeper.jute, module org.apache.zookeeper.txn): after a file header, for each transaction a
checksum, a length, a header (session, cxid, zxid, wall-clock time in ms, type), its record, and a closing byte. Reading ends at
the zeros with which the file is padded. The log holds failed transactions as errors; they are left out here.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from highwater.rig.commits import AnyCommit, NodeCreated, NodeDeleted, NodeWritten, SessionEnded

_MAGIC = b"ZKLG"
_FILE_HEADER_BYTES = 16
_CREATE, _DELETE, _SET_DATA, _MULTI, _CREATE2, _CLOSE_SESSION = 1, 2, 5, 14, 15, -11


class LogError(Exception):
    """A file is not a ZooKeeper transaction log of the expected format."""


def read_log(folder: Path) -> list[AnyCommit]:
    """All committed changes in a ZooKeeper data directory, in commit order. Raises LogError for another format."""
    files = sorted((folder / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
    return [commit for file in files for commit in _read_file(file)]


def _read_file(path: Path) -> Iterator[AnyCommit]:
    """The commits of one log file, up to a torn entry. Raises LogError for another file."""
    data = path.read_bytes()
    if not data:
        return  # a server was killed between creating the file and writing its header
    if data[:4] != _MAGIC:
        raise LogError(f"{path} is not a transaction log of ZooKeeper: it begins with {data[:4]!r}, not {_MAGIC!r}")
    at = _FILE_HEADER_BYTES
    while at + 12 <= len(data):
        checksum, length = struct.unpack_from(">qi", data, at)
        if length <= 0:
            return
        body = data[at + 12 : at + 12 + length]
        if zlib.adler32(body) != checksum:
            return  # torn by a kill: it was not acknowledged, and a server stops reading here too
        entry = _Jute(body)
        at += 12 + length + 1
        session = entry.read_long()
        _ = entry.read_int()
        zxid = entry.read_long()
        time_ms = entry.read_long()
        kind = entry.read_int()
        yield from _commits_of_entry(kind, entry, {"session": session, "zxid": zxid, "time_ms": time_ms})


def _commits_of_entry(kind: int, record: "_Jute", header: dict[str, int]) -> Iterator[AnyCommit]:
    """The commits of one entry; a multi has several."""
    if kind in (_CREATE, _CREATE2):
        path, payload = record.read_text(), record.read_buffer()
        for _ in range(record.read_int()):  # access control: permissions, scheme, id
            record.read_int()
            record.read_text()
            record.read_text()
        yield NodeCreated(path=path, data=payload, ephemeral=record.read_bool(), **header)
    elif kind == _DELETE:
        yield NodeDeleted(path=record.read_text(), **header)
    elif kind == _SET_DATA:
        yield NodeWritten(path=record.read_text(), data=record.read_buffer(), version=record.read_int(), **header)
    elif kind == _CLOSE_SESSION:
        yield SessionEnded(**header)
    elif kind == _MULTI:
        for _ in range(record.read_int()):
            part = record.read_int()
            yield from _commits_of_entry(part, _Jute(record.read_buffer()), header)
    # Other kinds (new sessions, checks, errors) change no znode.


class _Jute:
    """A sequential reader of Hadoop's Jute record encoding."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take_bytes(self, size: int) -> bytes:
        """The next bytes of the record. Raises LogError if it ends before."""
        piece = self._data[self._at : self._at + size]
        if len(piece) != size:
            raise LogError(f"a record of the transaction log ends early: {len(piece)} of {size} bytes are left")
        self._at += size
        return piece

    def read_int(self) -> int:
        return int.from_bytes(self._take_bytes(4), "big", signed=True)

    def read_long(self) -> int:
        return int.from_bytes(self._take_bytes(8), "big", signed=True)

    def read_bool(self) -> bool:
        return self._take_bytes(1) != b"\0"

    def read_buffer(self) -> bytes:
        return self._take_bytes(max(0, self.read_int()))

    def read_text(self) -> str:
        return self.read_buffer().decode()
