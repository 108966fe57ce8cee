"""The progress of long commands: on a terminal it is shown on stderr, elsewhere nothing is."""

import io
import re
from contextlib import redirect_stderr
from threading import Event
from time import monotonic, sleep

import pytest

from highwater.cli import output
from highwater.cli.output import show_while_working, status


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        """What it shows, without colours."""
        return re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", self.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    """A terminal to put in the place of stderr; pytest's own would replace it between fixture and test."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return _Terminal()


def test_line_of_a_long_command_changes_on_a_terminal(terminal: _Terminal) -> None:
    with redirect_stderr(terminal), status() as tell:
        tell("7 states")
        tell("9 states, depth 2")
        deadline = monotonic() + 10
        while "9 states, depth 2" not in terminal.text:  # rich draws from a thread
            assert monotonic() < deadline
            sleep(0.01)


def test_work_that_says_nothing_is_asked_for_its_line(terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_FOLLOW_S", 0.001)
    event = Event()

    def words() -> str:
        event.set()
        return "61 s simulated"

    with redirect_stderr(terminal), show_while_working(words):
        assert event.wait(10)


@pytest.mark.parametrize("quiet", [True, False])
def test_no_progress_is_shown_without_a_terminal(quiet: bool) -> None:
    with redirect_stderr(io.StringIO()) as printed, show_while_working(lambda: "words", quiet=quiet):
        pass
    assert printed.getvalue() == ""


def test_failure_ends_the_line_and_its_thread(terminal: _Terminal) -> None:
    with pytest.raises(ValueError, match="broken"), redirect_stderr(terminal), show_while_working(lambda: "words"):
        raise ValueError("broken")
