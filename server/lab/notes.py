"""What a broker reports to the harness ("notes"), as JSON lines; their reader; and ending a node when its stdin closes.

Each line is one write to a file opened for appending, so a kill can cut short only the last line. Times are CLOCK_MONOTONIC in
nanoseconds, which all processes of one machine share.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from reference.effects import Note


class NoteLine(Struct, frozen=True, kw_only=True):
    """One report of a broker to the harness. `life` numbers its processes from 1; `wall_ns` is its clock, perhaps wrong."""

    node: str
    life: int
    time_ns: int
    wall_ns: int = 0
    note: Note


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(NoteLine).decode


class NoteWriter:
    """Appends what a broker reports to the harness ("notes"), as JSON lines, to the file `target`; "-" is stdout."""

    def __init__(self, target: str, *, node: str, life: int) -> None:
        self._fd = 1 if target == "-" else os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._node = node
        self._life = life

    def write(self, note: Note) -> None:
        """Append one report of the broker to the file, with the current time."""
        line = NoteLine(node=self._node, life=self._life, time_ns=time.monotonic_ns(), wall_ns=time.time_ns(), note=note)
        os.write(self._fd, _encode(line) + b"\n")

    def close(self) -> None:
        """Close the file of notes, unless it is stdout."""
        if self._fd != 1:
            os.close(self._fd)


class NotesReader:
    """Reads a broker's reports from their file while the file grows. Format errors are msgspec's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[NoteLine] = []
        self._at = 0

    def read(self) -> list[NoteLine]:
        """All complete reports of the broker so far, in the order of writing; empty if there is no file.

        A line that a kill cut short is left out.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                whole, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._lines += [_decode(line) for line in whole.splitlines()]
        self._at += len(whole) + len(end)
        return self._lines


def end_with_stdin(loop: asyncio.AbstractEventLoop, end: asyncio.Event) -> None:
    """Set `end` when stdin closes, so that a node started by a harness ends with it."""
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            end.set()

    loop.add_reader(descriptor, readable)
