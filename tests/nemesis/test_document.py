"""docs/faults.md is the generated document."""

from pathlib import Path
from typing import get_args

from history.fault_kinds import KIND_NAMES
from nemesis.document import document
from nemesis.faults import AnyFault

ROOT = Path(__file__).parents[2]


def test_faults_document_is_up_to_date() -> None:
    """After a change run `python -m nemesis.document > docs/faults.md`."""
    assert (ROOT / "docs" / "faults.md").read_text(encoding="utf-8") == document()


def test_faults_document_lists_every_kind_and_fault() -> None:
    text = document()

    assert [name for name in KIND_NAMES if f"| `{name}` |" not in text] == []
    assert [fault for fault in get_args(AnyFault) if f"### `{fault.__struct_config__.tag}`" not in text] == []
