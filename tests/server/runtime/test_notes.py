"""Notes are read back as they were written, except a last line that a kill cut short."""

import time
from pathlib import Path

from reference.effects import Note
from reference.messages import Batch
from reference.types import LeaderEpoch, Offset, TopicPartition
from server.lab.notes import NotesReader, NoteWriter


def test_node_notes_of_several_processes_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    append = Note(kind="append", tp=TopicPartition("t-0"), batches=(Batch(Offset(0), LeaderEpoch(1), ("a", "b")),))
    before = time.monotonic_ns()
    for life in (1, 2):
        writer = NoteWriter(str(path), node="b1", life=life)
        writer.write(append)
        writer.write(Note(kind="hw", hw=Offset(2), detail="leader\nwith a line break"))
        writer.close()

    lines = NotesReader(path).read()

    assert [(line.node, line.life, line.note.kind) for line in lines] == [
        ("b1", 1, "append"),
        ("b1", 1, "hw"),
        ("b1", 2, "append"),
        ("b1", 2, "hw"),
    ]
    assert lines[0].note == append
    times = [before, *(line.time_ns for line in lines), time.monotonic_ns()]
    assert times == sorted(times)


def test_notes_reader_skips_a_line_cut_short_by_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    writer = NoteWriter(str(path), node="b1", life=1)
    writer.write(Note(kind="one"))
    writer.write(Note(kind="two"))
    writer.close()
    path.write_bytes(path.read_bytes()[:-5])

    assert [line.note.kind for line in NotesReader(path).read()] == ["one"]


def test_notes_reader_continues_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    reader = NotesReader(path)
    assert reader.read() == []
    writer = NoteWriter(str(path), node="b1", life=1)
    writer.write(Note(kind="one"))
    assert [line.note.kind for line in reader.read()] == ["one"]
    writer.write(Note(kind="two"))
    writer.close()

    assert [line.note.kind for line in reader.read()] == ["one", "two"]
