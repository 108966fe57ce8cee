"""A row of a ledger counts as it was written, or not at all."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pipeline.errors import PipelineError
from pipeline.items import Item, Job
from pipeline.ledger import Ledger, Row
from pipeline.storage import storage_at
from pipeline.work import perform

ROW = Row(key="a", state="done", attempt=1, seconds=0.5, result=msgspec.Raw(b'{"verdict":"INVALID","acked":17}'))


def ledger_with_a_row(folder: Path) -> tuple[Ledger, Path]:
    ledger = Ledger(storage_at(folder))
    ledger.commit(ROW)
    return ledger, folder / "a.json"


def test_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    ledger = Ledger(storage_at(tmp_path))
    written = ledger.commit(ROW)

    assert ledger.read("a") == written
    assert written.code
    assert ledger.mend(written.code) == []


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another verdict": (lambda data: data.replace(b"INVALID", b"VALID"), "its checksum is another"),
    "another count": (lambda data: data.replace(b"17", b"18"), "its checksum is another"),
    "another state": (lambda data: data.replace(b'"done"', b'"late"'), "its checksum is another"),
    "no checksum": (lambda data: data[: data.rindex(b',"seal"')] + b"}", "a row without checksum"),
    "empty": (lambda data: b"", "an empty row"),
    "zeros": (lambda data: b"\0" * len(data), "not a row of a ledger"),
    "cut": (lambda data: data[:-9], "not a row of a ledger"),
    "another item's": (lambda data: data.replace(b'"a"', b'"b"'), "the row of another item, b"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_row_does_not_count_and_is_named(name: str, tmp_path: Path) -> None:
    ledger, path = ledger_with_a_row(tmp_path)
    damage, words = DAMAGE[name]
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(PipelineError, match=words):
        ledger.read("a")
    (message,) = ledger.mend()
    assert words in message
    assert ledger.keys() == set()


def test_no_drawn_damage_changes_what_a_row_says(tmp_path: Path) -> None:
    ledger, path = ledger_with_a_row(tmp_path)
    good, draws = path.read_bytes(), random.Random(7)
    found = 0
    for _ in range(2_000):
        data = bytearray(good)
        for _ in range(draws.randint(1, 3)):
            at = draws.randrange(len(data))
            data[at : at + draws.randint(0, 4)] = draws.randbytes(draws.randint(0, 4))
        path.write_bytes(data)
        try:
            row = ledger.read("a")
        except PipelineError:
            found += 1
            continue
        assert (row.state, row.result) == (ROW.state, ROW.result)
    assert found > 1_900


def test_rows_of_lost_items_and_of_other_code_are_forgotten(tmp_path: Path) -> None:
    ledger = Ledger(storage_at(tmp_path))
    own_row = ledger.commit(ROW)
    ledger.commit(Row(key="b", state="lost", attempt=1, seconds=0.0, words="OSError: No space left on device"))
    ledger.commit(Row(key="c", state="failed", attempt=1, seconds=0.0, words="ValueError: x"))

    (lost,) = ledger.mend(own_row.code)
    assert "the environment failed: OSError: No space left on device; done again" in lost
    assert ledger.keys() == {"a", "c"}
    assert len(ledger.mend("another")) == 2


def no_space(payload: bytes) -> bytes:
    raise OSError(28, "No space left on device")


def test_item_whose_disk_is_full_is_lost_not_failed(tmp_path: Path) -> None:
    rows: list[Row] = []
    perform([Item("a", b"")], Job(function=no_space, ledger=str(tmp_path)), on_row=rows.append)

    assert [(row.state, row.words) for row in rows] == [("lost", "OSError: [Errno 28] No space left on device")]
