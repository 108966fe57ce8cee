"""What can go wrong around a run, and what the command line makes of it.

    HighwaterError
    ├── UsageError       the caller asked for something that cannot be: one line, exit 2, nothing written
    ├── HarnessError     the laboratory failed, with what was being attempted: exit 13, never VALID
    └── Nondeterminism   the same plan gave another history: exit 14

A wrong answer of the system under test is none of these: it is an anomaly in a verdict.
"""

from highwater.exit_codes import ExitCode


class HighwaterError(Exception):
    """Base of the package's errors; the message is one line for the user."""

    exit_code = ExitCode.LABORATORY_FAILED


class UsageError(HighwaterError):
    """Bad input: an unknown name, an unreadable file, a plan that cannot be."""

    exit_code = ExitCode.USAGE


class HarnessError(HighwaterError):
    """The laboratory failed."""

    exit_code = ExitCode.LABORATORY_FAILED


class Nondeterminism(HighwaterError):  # noqa: N818 - the word of the exit code
    """A replay differs from what it replays."""

    exit_code = ExitCode.NOT_DETERMINISTIC
