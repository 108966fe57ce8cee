"""A stored run beside its neighbour: what differs in the plans, the page, and the link to it; parts of long runs."""

import io
import shutil
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.plans.text import load_plan
from highwater.runs import revisions
from highwater.runs.beside import links_of, plan_changes
from highwater.runs.repeating import holds_elsewhere
from history import store

LOSS = Path("corpus/plans/shrunk-v3-truncated-committed.yaml")


def failing_run(tmp_path: Path, plan: Path = LOSS) -> Path:
    """The folder of a short run of `v3` that fails."""
    assert run_command_line(["run", "--plan", str(plan), "--store", str(tmp_path)]) == ExitCode.INVALID
    (folder,) = (path.parent for path in tmp_path.glob("*/*/manifest.json"))
    return folder


def test_plans_differ_in_a_fault_and_in_their_protocol() -> None:
    plan = load_plan(LOSS)
    changes = list(plan_changes(plan, replace(plan, schedule=(), protocol="safe")))
    assert [change.what for change in changes] == [f"fault {plan.schedule[0].id}", "protocol"]
    assert changes[0].right == ""
    assert changes[0].left.startswith("power-loss-everyone from ")


def test_report_puts_a_run_beside_its_plan_on_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = failing_run(tmp_path)
    assert run_command_line(["report", str(folder), "--beside", "safe"]) == ExitCode.INVALID
    ((words, page),) = links_of(folder)
    assert words == "safe"
    printed = capsys.readouterr().out
    assert f"beside  VALID, live: {folder / page}\nparts   The first " in printed
    assert " rows are the same, up to " in printed
    assert "b2 on events-0 truncates to offset 0 (to its high watermark)" in printed
    assert "truncates to offset" in (folder / page).read_text(encoding="utf-8")
    assert f'<a href="{page}">safe</a>' in (folder / store.REPORT).read_text(encoding="utf-8")


def test_report_warns_of_a_neighbour_that_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a branch `safe` is the code of the branch: the run would be compared with itself."""
    folder = failing_run(tmp_path)
    assert run_command_line(["report", str(folder), "--beside", load_plan(LOSS).protocol]) == ExitCode.INVALID
    assert capsys.readouterr().err == "highwater: --beside v3: the run beside this one is the same, row by row\n"
    assert run_command_line(["report", str(folder), "--beside", "safe"]) == ExitCode.INVALID
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_report_puts_a_run_beside_its_plan_by_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The protocol of the commit: followers truncate by epoch in `v3`, too, so nothing is lost."""
    folder = failing_run(tmp_path)
    shutil.copytree(revisions.ROOT / "reference", tmp_path / "old/reference", ignore=shutil.ignore_patterns("__pycache__"))
    config = tmp_path / "old/reference/config.py"
    config.write_text(config.read_text().replace('"v3": V3,', '"v3": SAFE,'))
    archive = _archive(tmp_path / "old")
    monkeypatch.setattr(revisions, "_git", lambda *asked, what: archive if "archive" in asked else b"c0ffee" * 7)

    assert run_command_line(["report", str(folder), "--beside", "main"]) == ExitCode.INVALID
    ((words, page),) = links_of(folder)
    assert (words, page) == ("main", "beside-commit-c0ffeec0ffee.html")
    assert capsys.readouterr().err == ""
    assert "truncates to offset" in (folder / page).read_text(encoding="utf-8")


def _archive(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as files:
        for file in folder.rglob("*.py"):
            files.write(file, file.relative_to(folder))
    return packed.getvalue()


@pytest.mark.parametrize("wrong", [["--beside", "unheard-of"], ["--window", "9..3"], ["--window", "x"]])
def test_report_refuses_other_neighbours_and_windows(tmp_path: Path, wrong: list[str]) -> None:
    assert run_command_line(["report", str(failing_run(tmp_path)), *wrong]) == ExitCode.USAGE


def test_pages_of_a_temporary_store_say_what_holds_elsewhere(tmp_path: Path) -> None:
    """The store is gone when the page is read: it has the plan, and names no folder of this machine."""
    (tmp_path / "own.yaml").write_bytes(LOSS.read_bytes())
    folder = failing_run(tmp_path, tmp_path / "own.yaml")
    assert run_command_line(["report", str(folder), "--beside", "safe"]) == ExitCode.INVALID

    page = (folder / store.REPORT).read_text(encoding="utf-8")
    ((_, name),) = links_of(folder)
    beside = (folder / name).read_text(encoding="utf-8")

    assert "<code>highwater run --plan plan.yaml</code>" in page
    assert f"({name} in the folder of the run)" in page
    assert "<code>highwater report . --beside safe</code>" in beside
    assert [str(tmp_path) in text for text in (page, beside)] == [False, False]


@pytest.mark.parametrize(
    ("command", "holds"),
    [
        ("highwater run --seed 21 --derivation 3 --protocol v3", True),
        ("highwater run --plan corpus/plans/kip101-scenario-1.yaml --protocol v3", True),
        ("highwater replay 21 --derivation 3", True),
        ("highwater replay store/seed-21/sim-v3-3e53dd08141a", False),
        ("highwater run --plan=/tmp/plan.yaml", False),
        ("highwater run --plan corpus/../own.yaml", False),
        ("highwater run --seed 1 --system external --with my.yaml", False),
        ("highwater run --plan o'p.yaml", False),
        ("", False),
    ],
)
def test_command_holds_elsewhere_unless_it_names_a_file(command: str, holds: bool) -> None:
    assert holds_elsewhere(command) is holds


def test_page_of_a_seed_repeats_the_seed_when_written_again(tmp_path: Path) -> None:
    run_command_line(["run", "--seed", "1", "--seconds", "3", "--no-report", "--store", str(tmp_path)])
    (folder,) = (path.parent for path in tmp_path.glob("*/*/manifest.json"))
    run_command_line(["report", str(folder)])

    assert "<code>highwater run --seed 1 --derivation" in (folder / store.REPORT).read_text(encoding="utf-8")
