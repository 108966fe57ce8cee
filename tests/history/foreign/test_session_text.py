"""Transactions by session in the text of PolySI, IsoVista and Plume: one read or write a line."""

from pathlib import Path

import pytest

from checkers.engine.verdict import Validity
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.foreign.files import ModelChoice, judge_file
from history.errors import HistoryError
from history.foreign.read import Form, calls, form_of
from history.foreign.session_text import UNTIMED

# Two sessions read 0 of a key before all writes, and each writes it then.
_LOST_UPDATE = "r(7,0,0,0)\nw(7,1,0,0)\nr(7,0,1,1)\nw(7,2,1,1)\n"


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "history.txt"
    file.write_text(text)
    return file


def test_transactions_are_the_lines_that_stand_together(tmp_path: Path) -> None:
    file = _file(tmp_path, _LOST_UPDATE + "r(8,5,1,2)")
    calls_read = calls(file)

    assert form_of(file) is Form.SESSIONS
    assert [(call.line, call.process, call.result) for call in calls_read.calls] == [
        (1, 0, (("r", 7, None), ("w", 7, 1))),
        (3, 1, (("r", 7, None), ("w", 7, 2))),
        (5, 1, (("r", 8, 5),)),
    ]
    assert (calls_read.untimed, calls_read.notes) == (True, (UNTIMED,))


def test_check_judges_transactions_by_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["check", str(_file(tmp_path, _LOST_UPDATE))]) == ExitCode.INVALID

    said = capsys.readouterr().out
    assert said.startswith("model rw-register, guessed from r, w: --model chooses another\nINVALID")
    assert "lost-update" in said
    assert f"  {UNTIMED}\n" in said


def test_sessions_have_an_order_and_no_time_among_them(tmp_path: Path) -> None:
    """A file lists one session after another: what stands later in it is not later."""
    writer, reader = "w(1,1,0,0)\nw(1,2,0,1)\n", "r(1,2,1,2)\nr(1,{},1,3)\n"
    validities = [
        judge_file(_file(tmp_path, text), ModelChoice(model="rw-register")).validity
        for text in (writer + "r(1,0,1,2)\n", "r(1,2,1,2)\n" + writer, writer + reader.format(2), writer + reader.format(1))
    ]

    assert validities == [Validity.VALID, Validity.VALID, Validity.VALID, Validity.INVALID]


def test_read_of_a_written_0_is_no_read_of_nothing(tmp_path: Path) -> None:
    """Some files begin with a transaction that writes 0 to every key."""
    (first, second) = calls(_file(tmp_path, "w(1,0,0,0)\nr(1,0,1,1)\n")).calls

    assert (first.result, second.result) == ((("w", 1, 0),), (("r", 1, 0),))


@pytest.mark.parametrize("model", ["kafka", "multi-register"])
def test_model_that_needs_times_refuses_sessions(model: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"cannot be judged without invocations|order in time is not told"):
        judge_file(_file(tmp_path, _LOST_UPDATE), ModelChoice(model=model))


def test_sessions_are_not_exported_as_if_they_had_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checker of EDN would take the order of the lines for an order in time."""
    out = tmp_path / "out.edn"

    assert run_command_line(["export", str(_file(tmp_path, _LOST_UPDATE)), str(out)]) == ExitCode.USAGE
    assert "EDN cannot tell that sessions have no order in time" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("r(1,0,0,0)\nr(1,0,0\n", "line 2: not r or w (key,value,session,transaction): 'r(1,0,0'"),
        ("r(1,0,0,0)\nw(2,3,1,1)\nw(2,4,0,0)\n", "line 3: the lines of transaction 0 of session 0 must stand together"),
        ("r(1,0,0,0)\nw(1,0,1,1)\n", "line 2: 0 must not be written to key 1: line 1 read it as the value before all writes"),
    ],
    ids=["cut", "apart", "late 0"],
)
def test_bad_session_text_is_refused_with_its_line(
    text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["check", str(_file(tmp_path, text))]) == ExitCode.USAGE

    said = capsys.readouterr().err
    assert reason in said
    assert "looks like" not in said
