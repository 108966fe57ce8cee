"""Exit codes and their precedence: if several apply, the first of 2, 14, 10, 13, 12, 11, 0 is used.

Usage comes first because nothing was performed. A nondeterministic run outranks a verdict because its digest cannot be trusted. A
proven anomaly outranks a failure of the harness because a later failure does not disprove it.
"""

from collections.abc import Iterable
from enum import IntEnum

from checkers.engine.verdict import Validity


class ExitCode(IntEnum):
    """The exit codes of every command of `highwater`."""

    VALID = 0
    USAGE = 2
    INVALID = 10
    UNKNOWN = 11
    NOT_LIVE = 12
    LABORATORY_FAILED = 13
    NOT_DETERMINISTIC = 14


GOOD, BAD, SKIP = 0, 1, 125  # of `git bisect run`
REFUSED = 1  # of `highwater verify`: the certificate does not prove its verdict

# Worst first.
PRECEDENCE: tuple[ExitCode, ...] = (
    ExitCode.USAGE,
    ExitCode.NOT_DETERMINISTIC,
    ExitCode.INVALID,
    ExitCode.LABORATORY_FAILED,
    ExitCode.NOT_LIVE,
    ExitCode.UNKNOWN,
    ExitCode.VALID,
)

# As summaries and JUnit print them.
WORDS: dict[ExitCode, str] = {
    ExitCode.VALID: "valid",
    ExitCode.USAGE: "usage",
    ExitCode.INVALID: "invalid",
    ExitCode.UNKNOWN: "unknown",
    ExitCode.NOT_LIVE: "not live",
    ExitCode.LABORATORY_FAILED: "the harness failed",
    ExitCode.NOT_DETERMINISTIC: "not deterministic",
}


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of highest precedence; VALID if there are no codes."""
    return min(codes, key=PRECEDENCE.index, default=ExitCode.VALID)


def for_bisect(code: ExitCode) -> int:
    """The exit code that `git bisect run` wants: good, bad, or not to be judged at this commit."""
    match code:
        case ExitCode.VALID:
            return GOOD
        case ExitCode.INVALID | ExitCode.NOT_LIVE | ExitCode.NOT_DETERMINISTIC:
            return BAD
        case _:
            return SKIP


def of_verdict(validity: Validity, *, live: bool | None, laboratory_failed: bool = False) -> ExitCode:
    """The exit code of one judged run; `live` is None where liveness was not judged."""
    reasons = [ExitCode.VALID]
    if validity is Validity.INVALID:
        reasons.append(ExitCode.INVALID)
    if validity is Validity.UNKNOWN:
        reasons.append(ExitCode.UNKNOWN)
    if live is False:
        reasons.append(ExitCode.NOT_LIVE)
    if laboratory_failed:
        reasons.append(ExitCode.LABORATORY_FAILED)
    return worst(reasons)
