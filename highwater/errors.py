"""Exceptions of the harness, each with the exit code of the command that raises it.

    HighwaterError
    ├── UsageError       invalid input: one line on stderr, exit 2, nothing written
    ├── HarnessError     the harness failed; the message says what it attempted: exit 13, never VALID
    │   └── CrashError   an exception of the protocol ended the run: exit 10
    └── Nondeterminism   the same plan gave another history: exit 14

A wrong answer of the system under test is an anomaly in a verdict, not an exception.
"""

from highwater.exit_codes import ExitCode


class HighwaterError(Exception):
    """Base class of the harness's errors; the message is one line for the user."""

    exit_code = ExitCode.LABORATORY_FAILED


class UsageError(HighwaterError):
    """Invalid input: an unknown name, an unreadable file, an invalid plan."""

    exit_code = ExitCode.USAGE


class HarnessError(HighwaterError):
    """The harness failed, for example a container disappeared or the disk is full."""

    exit_code = ExitCode.LABORATORY_FAILED


class CrashError(HarnessError):
    """The simulated protocol raised an exception. `where` names the line of `reference/` and the exception."""

    exit_code = ExitCode.INVALID

    def __init__(self, message: str, where: str) -> None:
        super().__init__(message)
        self.where = where


class Nondeterminism(HighwaterError):  # noqa: N818 - named like its exit code
    """A repeated run gave another digest than the stored run."""

    exit_code = ExitCode.NOT_DETERMINISTIC
