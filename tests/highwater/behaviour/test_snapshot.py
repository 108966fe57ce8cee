"""The file of the snapshot (`highwater.behaviour.snapshot`)."""

from pathlib import Path

import pytest

from highwater.behaviour.rows import Row
from highwater.behaviour.snapshot import load, recorded, save
from highwater.errors import UsageError

ROWS = tuple(Row(f"rule {number % 80}", f"words {number}", (), number) for number in range(200))


def test_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    plans = {"plans/b": recorded("p", ROWS), "corpus/a": recorded("q", ROWS[:1]), "plans/empty": recorded("r", ())}

    save(tmp_path / "behaviour.txt", plans, ["a summary", "    in two lines"])

    assert load(tmp_path / "behaviour.txt") == plans


def test_plans_of_a_snapshot_are_sorted_by_name(tmp_path: Path) -> None:
    """So that the diff of two snapshots shows what differs, and no order of workers."""
    path = tmp_path / "behaviour.txt"
    save(path, {"plans/b": recorded("p", ROWS), "corpus/a": recorded("q", ROWS)}, [])

    names = [line.split()[1] for line in path.read_text().splitlines() if line.startswith("plan ")]

    assert names == ["corpus/a", "plans/b"]


def test_missing_snapshot_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no snapshot of the behaviour; write it again with highwater chaos --accept"):
        load(tmp_path / "behaviour.txt")


@pytest.mark.parametrize("damage", ["cut", "letter", "empty", "bytes"])
def test_damaged_snapshot_is_refused(damage: str, tmp_path: Path) -> None:
    """A half merged file must not pass as what was accepted."""
    path = tmp_path / "behaviour.txt"
    save(path, {"plans/b": recorded("p", ROWS)}, [])
    text = path.read_text()
    path.write_bytes(
        {
            "cut": text[: len(text) // 2].encode(),
            "letter": text.replace("words", "words").replace("rule 7", "rule 8", 1).encode(),
            "empty": b"",
            "bytes": b"\xff\xfe",
        }[damage]
    )

    with pytest.raises(UsageError, match="snapshot"):
        load(path)
