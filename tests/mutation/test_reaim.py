"""`--reaim` finds the new place of an edit whose function was moved or renamed, and code that was edited a little."""

from pathlib import Path

import pytest

from mutation.__main__ import reaim
from mutation.aims.aim import read
from mutation.aims.reaim import reaimed

MODULE = '''"""A module."""


def choose(state, live):
    """The first that lives."""
    return next((m for m in state.isr if m.broker in live), None)
'''
OTHER = '"""Another module."""\n\n\ndef drop(state):\n    return state.replicas[1:]\n'
AIM = "controller.selection.choose m.broker in live => True"


def tree(root: Path, *, selection: str | None, election_text: str = OTHER) -> Path:
    """A repository with two modules."""
    folder = root / "reference" / "controller"
    folder.mkdir(parents=True)
    if selection is not None:
        (folder / "selection.py").write_text(selection, encoding="utf-8")
    (folder / "election.py").write_text(election_text, encoding="utf-8")
    return root


def test_edit_that_fits_needs_no_proposal(tmp_path: Path) -> None:
    assert reaimed(read(AIM), tree(tmp_path, selection=MODULE)) is None


@pytest.mark.parametrize(
    ("selection", "election_text", "how", "now"),
    [
        (OTHER, MODULE, "moved: ", "controller.election.choose m.broker in live => True"),
        (None, MODULE, "moved: ", "controller.election.choose m.broker in live => True"),
        (MODULE.replace("choose", "select"), OTHER, "renamed: ", "controller.selection.select m.broker in live => True"),
        (None, MODULE.replace("choose", "pick"), "moved and renamed: ", "controller.election.pick m.broker in live => True"),
        (
            MODULE.replace("m.broker in live", "m.id in live"),
            OTHER,
            "near: ",
            "controller.selection.choose m.id in live => True",
        ),
    ],
    ids=["moved", "module gone", "renamed", "moved and renamed", "near"],
)
def test_reaim_proposes_the_new_place(tmp_path: Path, selection: str | None, election_text: str, how: str, now: str) -> None:
    proposal = reaimed(read(AIM), tree(tmp_path, selection=selection, election_text=election_text))

    assert proposal is not None
    assert proposal.aim is not None
    assert (proposal.how[: len(how)], proposal.aim.words) == (how, now)


def test_reaim_gives_new_code_the_new_words(tmp_path: Path) -> None:
    aim = read("controller.selection.choose m.broker in live => m.broker not in live")
    proposal = reaimed(aim, tree(tmp_path, selection=MODULE.replace("m.broker", "m.node_id")))

    assert proposal is not None
    assert proposal.aim is not None
    assert proposal.aim.words == "controller.selection.choose m.node_id in live => m.node_id not in live"


def test_reaim_proposes_nothing_if_two_places_fit(tmp_path: Path) -> None:
    twice = MODULE.replace("choose", "one") + MODULE.replace("choose", "two")
    proposal = reaimed(read(AIM), tree(tmp_path, selection=twice))

    assert proposal is not None
    assert proposal.aim is None
    assert proposal.how.startswith("nowhere: 0 functions or classes")


def test_reaim_writes_the_new_place_into_the_register(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path, selection=OTHER, election_text=MODULE)
    register = tmp_path / "some.yaml"
    register.write_text(f"# A head.\n- H-1: what is lost\n  edit: {AIM}\n  plan: x\n- H-2: more\n", encoding="utf-8")

    assert [reaim(tmp_path, root, (), write=write) for write in (False, True, False)] == [1, 1, 0]
    assert capsys.readouterr().out.endswith("every edit fits\n")
    assert register.read_text(encoding="utf-8") == (
        "# A head.\n- H-1: what is lost\n  edit: controller.election.choose m.broker in live => True\n  plan: x\n- H-2: more\n"
    )
