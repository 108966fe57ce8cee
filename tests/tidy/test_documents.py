"""Generated documents are up to date, checkers have their histories, links and named files exist."""

import importlib
import re
import subprocess
from pathlib import Path

import pytest

from highwater.cli.commands import COMMANDS, GROUPS
from tests.tidy.documents import GENERATED, generated_part, text_of
from tests.tidy.sources import ROOT

HISTORIES = ROOT / "corpus" / "histories"


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_generated_document_is_up_to_date(name: str) -> None:
    """After a change: `python -m tests.tidy.documents --rewrite`."""
    assert generated_part(name) == text_of(name)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.jsonl"))


@pytest.mark.parametrize("side", ["ok", "bad"])
def test_every_checker_has_histories_in_the_corpus(side: str) -> None:
    """Without a bad history a checker may be blind; without a good one it may accuse every run."""
    registry = importlib.import_module("checkers.registry")
    names = _names(HISTORIES / side)

    assert [c.name for c in registry.ALL if not any(n.startswith(c.name.replace("_", "-")) for n in names)] == []


def test_links_between_documents_resolve() -> None:
    link = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
    documents = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    broken = [f"{d.name} -> {m[1]}" for d in documents for m in link.finditer(d.read_text()) if not (d.parent / m[1]).exists()]

    assert broken == []


def test_every_command_and_target_has_its_row() -> None:
    """What `highwater --help` and `make` list is explained in docs/commands.md."""
    text = (ROOT / "docs" / "commands.md").read_text()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    grouped = [f"{group.name} {member.name}" for group in GROUPS for member in group.members]
    wanted = [*(f"make {target}" for target in targets if target != "help"), *(command.name for command in COMMANDS), *grouped]
    cells = re.findall(r"^\| (`[^|]*?) \|", text.replace("\\|", "/"), re.MULTILINE)
    explained = [f"{name} " for cell in cells for name in re.findall(r"`([^`]+)`", cell)]

    assert [name for name in wanted if not any(shown.startswith(f"{name} ") for shown in explained)] == []


def test_make_alone_tells_what_each_target_does() -> None:
    """In one line of all names nobody finds the one that is wanted."""
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    printed = subprocess.run(["make", "-C", str(ROOT), "-s"], capture_output=True, text=True, check=True).stdout

    assert re.findall(r"^make (\S+) +\S", printed, re.MULTILINE) == [target for target in targets if target != "help"]


def test_index_of_decisions_names_every_decision() -> None:
    decisions = ROOT / "docs" / "decisions"
    titles = {path.name: path.read_text().splitlines()[0].partition(". ")[2] for path in decisions.glob("0*.md")}
    rows = dict(re.findall(r"^\| \[\d+\]\((\S+)\) \| (.+) \|$", (decisions / "README.md").read_text(), re.MULTILINE))

    assert rows == titles


def test_files_named_in_documents_exist() -> None:
    names_found = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9.]+\.(?:py|md|yaml|css|j2))`")
    documents = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "ARCHITECTURE.md",
        ROOT / "docs" / "READING_ORDER.md",
    ]
    missing = [
        f"{d.name} -> {m[1]}" for d in documents for m in names_found.finditer(d.read_text()) if not (ROOT / m[1]).exists()
    ]

    assert missing == []
