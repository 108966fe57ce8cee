"""docs/faults.md says what the code does."""

from pathlib import Path
from typing import get_args

from nemesis.document import document
from nemesis.faults import AnyFault
from nemesis.kinds import KIND_NAMES

ROOT = Path(__file__).parents[2]


def test_the_document_is_up_to_date() -> None:
    """`python -m nemesis.document > docs/faults.md` after a change."""
    assert (ROOT / "docs" / "faults.md").read_text(encoding="utf-8") == document()


def test_every_kind_and_every_fault_is_in_it() -> None:
    text = document()

    assert [name for name in KIND_NAMES if f"| `{name}` |" not in text] == []
    assert [fault for fault in get_args(AnyFault) if f"### `{fault.__struct_config__.tag}`" not in text] == []
