"""What a node tells whoever started it: its notes as JSON lines, and when to end.

A line is written with one write to a file opened for appending, so that a kill leaves whole lines but perhaps the last. Times are
CLOCK_MONOTONIC in nanoseconds, which all processes of one machine share.
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
    """One line: which life of which node said what, when; and what its wall clock showed, which may be wrong."""

    node: str
    life: int
    time_ns: int
    wall_ns: int = 0
    note: Note


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(NoteLine).decode


class NoteWriter:
    """Appends lines to a file; "-" is stdout."""

    def __init__(self, target: str, *, node: str, life: int) -> None:
        self._fd = 1 if target == "-" else os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._node = node
        self._life = life

    def write(self, note: Note) -> None:
        """One line, now."""
        line = NoteLine(node=self._node, life=self._life, time_ns=time.monotonic_ns(), wall_ns=time.time_ns(), note=note)
        os.write(self._fd, _encode(line) + b"\n")

    def close(self) -> None:
        """Give the file back."""
        if self._fd != 1:
            os.close(self._fd)


class NotesReader:
    """Reads a file of notes while it grows. Its format errors are msgspec's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[NoteLine] = []
        self._at = 0

    def read(self) -> list[NoteLine]:
        """All whole lines so far, in the order of writing; what a kill cut short is left out. None where there is no file."""
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
    """Set `end` when stdin is closed: a node that was started by a harness does not outlive it."""
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            end.set()

    loop.add_reader(descriptor, readable)
