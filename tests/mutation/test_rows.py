"""Rows of the register are read as they are written, and a malformed one is refused with file and line."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from mutation.rows import (
    MutationError,
    Proof,
    Row,
    load,
    present_proof,
    proofs,
    rows,
    status,
    store,
    store_proofs,
    texts_with,
)

ROW = Row(id="H-1", text="what is lost: all", edit="log.log.truncate log.leo => 0", plan="steps/shutdown-in-peace")
LONG = replace(ROW, id="H-2", text="It's a long sentence, " * 9 + "and # no comment.", missing="because")
LINES = replace(ROW, id="H-3", edit="log.log.truncate\nif x:\n    a()\nelse:\n    b()\n=>\na()\nwhere c.d")


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text("# A head\n# of two lines.\n- H-1: gone\n", encoding="utf-8")
    store(path, [ROW, LONG, LINES])

    assert load(path) == (ROW, LONG, LINES)
    assert path.read_text(encoding="utf-8").startswith("# A head\n# of two lines.\n- H-1: ")
    assert LINES.aim.where == "c.d"
    assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 130


def test_edits_are_read_as_they_were_written() -> None:
    assert [row.id for row in rows() if row.edit for alone in row.by_edit if alone.aim.words != alone.edit] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- H-1: x\n- H-2: y\n  harm: z\n", r"some\.yaml:3: "),
        ("- H-1: x\n- H-2: y\n  tests: z\n", r"some\.yaml:3: "),
        ("- H-1: x\n- H-2: y\n  edit: log.log.truncate nothing\n", r"some\.yaml:2: .*not of the form"),
        ("- H-1: x\n  edit: log.log.truncate a => b\n  second: log.log.truncate a b => c\n", r"some\.yaml:1: .*invalid syntax"),
        ("- H-1: x\n  edit: log.log.truncate a b => c\n", r"some\.yaml:1: .*invalid syntax"),
        ("- H-1: x\n  second: log.log.truncate a => b\n", r"some\.yaml:1: a second edit without a first one"),
        ("H-1\n", r"some\.yaml:1: "),
    ],
)
def test_malformed_row_is_refused_with_file_and_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "some.yaml").write_text(text, encoding="utf-8")

    with pytest.raises(MutationError, match=complaint):
        load(tmp_path / "some.yaml")


def test_edits_of_several_rows_stand_in_one_text() -> None:
    first_row, second_row = (next(row for row in rows("drawn") if row.id == id_) for id_ in ("M-001", "M-002"))
    texts = texts_with([first_row, second_row])

    assert sorted(texts) == sorted({first_row.file, second_row.file})
    with pytest.raises(MutationError, match="two edits change line"):
        texts_with([first_row, replace(first_row, id="M-1")])


def test_edited_row_is_unproved_until_it_is_applied() -> None:
    row = next(row for row in rows() if row.tests)
    stored = {row.id: present_proof(row)}

    assert status(row, stored) == "proved"
    assert status(replace(row, edit=f"{row.edit.partition(' =>')[0]} => 0"), stored) == "unproved"
    assert status(replace(row, tests=row.tests[:-1]), stored) == "unproved"
    assert status(replace(row, second="log.log.truncate log.leo => 0"), stored) == "unproved"
    assert status(row, {}) == "unproved"


def test_proofs_are_a_line_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mutation.rows.PROOFS", tmp_path / "proofs.txt")
    store_proofs({"R-2": Proof("a", "b"), "R-1": Proof("c", "d")})

    assert (tmp_path / "proofs.txt").read_text() == "R-1 c d\nR-2 a b\n"
    assert proofs() == {"R-1": Proof("c", "d"), "R-2": Proof("a", "b")}
