"""`python -m highwater` and the entry point `highwater`; and what a signal does to a command.

SIGTERM and SIGHUP end a command as Ctrl-C does: what was recorded is kept, marked as interrupted, and no process is left. An
interrupt that no command turns into an outcome is one line and exit 11 (unknown), also while packages are still being imported.
"""

import signal
import sys
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_UNKNOWN = 11  # ExitCode.UNKNOWN, whose module may not have been imported yet


def main() -> None:
    """Run the command line and exit with its code."""
    end_like_ctrl_c()
    try:
        # Not at the top: importing takes a second, in which people press Ctrl-C; and worker processes import this module.
        from highwater.cli.main import run_command_line

        code = run_command_line(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("highwater: interrupted\n")
        code = _UNKNOWN
        # An interrupt that passed through an `exec` of a string (so dataclasses are made) leaves a mark in the interpreter,
        # which then ends by SIGINT whatever it was told to exit with; the next such call takes the mark away.
        exec("")
    sys.exit(code)


def end_like_ctrl_c() -> None:
    """From now on SIGTERM and SIGHUP do in this process what Ctrl-C does."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` has said that SIGHUP is not meant for us
            signal.signal(number, _as_interrupt)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    """Whatever is done on Ctrl-C just now: asyncio has its own handler while it runs, which lets a run put away its processes."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    if not callable(on_interrupt):  # a shell's background job ignores SIGINT
        raise KeyboardInterrupt
    on_interrupt(number, frame)


if __name__ == "__main__":  # worker processes import this module again
    main()
