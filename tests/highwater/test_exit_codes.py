"""Exit codes: which of several reasons wins."""

from hypothesis import given
from hypothesis import strategies as st

from checkers.verdict import Validity
from highwater.exit_codes import PRECEDENCE, ExitCode, of_verdict, worst


def test_the_first_that_applies_wins() -> None:
    assert [int(code) for code in PRECEDENCE] == [2, 14, 10, 13, 12, 11, 0]
    assert worst([ExitCode.UNKNOWN, ExitCode.LABORATORY_FAILED, ExitCode.INVALID]) is ExitCode.INVALID
    assert worst([]) is ExitCode.VALID


@given(st.lists(st.sampled_from(ExitCode)), st.sampled_from(ExitCode))
def test_one_more_reason_never_makes_it_better(codes: list[ExitCode], more: ExitCode) -> None:
    assert PRECEDENCE.index(worst([*codes, more])) <= PRECEDENCE.index(worst(codes))


@given(st.sampled_from(Validity), st.sampled_from([True, False, None]), st.booleans())
def test_only_a_valid_run_that_is_not_dead_exits_with_zero(validity: Validity, live: bool | None, failed: bool) -> None:
    code = of_verdict(validity, live=live, laboratory_failed=failed)

    assert (code == 0) == (validity is Validity.VALID and live is not False and not failed)


def test_a_proven_anomaly_outranks_a_failed_laboratory() -> None:
    assert of_verdict(Validity.INVALID, live=False, laboratory_failed=True) is ExitCode.INVALID
