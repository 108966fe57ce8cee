"""Exit codes: precedence and the code of a verdict."""

from hypothesis import given
from hypothesis import strategies as st

from checkers.engine.verdict import Validity
from highwater.exit_codes import PRECEDENCE, ExitCode, for_bisect, of_verdict, worst


def test_worst_exit_code_is_the_first_by_precedence() -> None:
    assert [int(code) for code in PRECEDENCE] == [2, 14, 10, 13, 12, 11, 0]
    assert worst([ExitCode.UNKNOWN, ExitCode.LABORATORY_FAILED, ExitCode.INVALID]) is ExitCode.INVALID
    assert worst([]) is ExitCode.VALID


@given(st.lists(st.sampled_from(ExitCode)), st.sampled_from(ExitCode))
def test_additional_exit_code_never_improves_the_worst(codes: list[ExitCode], more: ExitCode) -> None:
    assert PRECEDENCE.index(worst([*codes, more])) <= PRECEDENCE.index(worst(codes))


@given(st.sampled_from(Validity), st.sampled_from([True, False, None]), st.booleans())
def test_only_a_valid_live_run_exits_with_zero(validity: Validity, live: bool | None, failed: bool) -> None:
    code = of_verdict(validity, live=live, laboratory_failed=failed)

    assert (code == 0) == (validity is Validity.VALID and live is not False and not failed)


def test_anomaly_outranks_a_harness_failure() -> None:
    assert of_verdict(Validity.INVALID, live=False, laboratory_failed=True) is ExitCode.INVALID


def test_git_bisect_skips_commits_that_cannot_be_judged() -> None:
    """Any other code from 1 to 127 would make git take the commit for bad."""
    codes = {int(code): for_bisect(code) for code in ExitCode}

    assert codes == {0: 0, 2: 125, 10: 1, 11: 125, 12: 1, 13: 125, 14: 1}
