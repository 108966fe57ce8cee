"""`python -m highwater`, the entry point `highwater`, and the handling of signals.

SIGTERM and SIGHUP end a command as Ctrl-C does: the recorded history is kept, marked as interrupted, and no process is left. If
the command does not handle the interrupt itself, one line is printed and the exit code is 11 (unknown), also during the imports.
"""

import signal
import sys
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_USAGE, _UNKNOWN = 2, 11  # ExitCode.USAGE and UNKNOWN, whose module may not have been imported yet


def main() -> None:
    """Run the command line, then exit with its code."""
    let_signals_act_like_ctrl_c()
    try:
        code = _run_command(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("highwater: interrupted\n")
        code = _UNKNOWN
    # All is said and stored: one more Ctrl-C would only hide the exit code.
    for number in (signal.SIGINT, *_ENDING):
        signal.signal(number, signal.SIG_IGN)
    # A KeyboardInterrupt raised inside `exec` of a string (as dataclasses do) sets a flag in CPython, which then ends by SIGINT
    # and ignores the exit code, also if a command has caught it. The next `exec` clears the flag.
    exec("")
    sys.exit(code)


def _run_command(arguments: list[str]) -> int:
    """Run the command line, and return its exit code; also if a file that each command needs cannot be imported."""
    # Imported here because it takes a second, during which Ctrl-C must work; worker processes import this module too.
    try:
        from highwater.cli.main import run_command_line
    except Exception as error:
        from highwater.cli.imports import failed_import

        found = failed_import(error)
        if found is None:
            raise
        sys.stderr.write(f"highwater: {found}\n")
        return _USAGE
    return run_command_line(arguments)


def let_signals_act_like_ctrl_c() -> None:
    """Make SIGTERM and SIGHUP act like Ctrl-C in this process."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP; leave that
            signal.signal(number, _as_interrupt)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    """Call the present SIGINT handler; while asyncio runs it is asyncio's own, which lets a run stop its processes."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    if not callable(on_interrupt):  # SIGINT is ignored in a shell's background job
        raise KeyboardInterrupt
    on_interrupt(number, frame)


if __name__ == "__main__":  # worker processes import this module again
    main()
