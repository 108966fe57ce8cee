"""The plugin of pytest, as the test suite of a user's project uses it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from highwater import strategies, testing
from tests.tidy.sources import ROOT

pytest_plugins = ["pytester"]
# pytester forgets what a suite imports, and numpy cannot be imported twice in one process.
PRELOADED = (strategies, testing)

PLAN = "corpus/plans/kip101-scenario-1.yaml"
SUITE = """
    import pytest

    @pytest.mark.highwater(plan="plans/*.yaml", protocol="safe")
    def test_failover_keeps_records(highwater_run, highwater_plan):
        assert highwater_run.summary.acked > 0
        assert highwater_run.plan == highwater_plan.plan

    @pytest.mark.highwater(plan="plans/failover.yaml", protocol="truncate-to-hw", kinds=["lost-write"])
    def test_known_mistake_is_caught():
        pass

    @pytest.mark.highwater(plan="plans/failover.yaml", protocol="truncate-to-hw")
    def test_that_is_red():
        raise AssertionError("the run is red, so this is not reached")

    @pytest.mark.highwater(plan="plans/failover.yaml", protocol="safe", kinds=["lost-write"])
    def test_that_expects_a_loss():
        pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of a user with one plan."""
    pytester.mkdir("plans").joinpath("failover.yaml").write_text((ROOT / PLAN).read_text())
    return pytester


@pytest.mark.slow
def test_suite_of_a_user_tells_anomaly_page_and_command(suite: pytest.Pytester) -> None:
    suite.makepyfile(SUITE)

    result = suite.runpytest_inprocess("-q", "--strict-markers", "-p", "no:cacheprovider", "--junitxml=junit.xml")

    result.assert_outcomes(passed=2, failed=2)
    message = result.stdout.str()
    assert re.search(
        r"^kip101-scenario-1 on truncate-to-hw: INVALID instead of VALID: truncated-committed t-0: ", message, re.MULTILINE
    )
    assert "    plan    plans/failover.yaml\n" in message
    assert "    repeat  highwater run --plan plans/failover.yaml --protocol truncate-to-hw\n" in message
    page = re.search(r"^    page    (store/\S+/report\.html)$", message, re.MULTILINE)
    assert page is not None
    assert (suite.path / page[1]).is_file()
    assert "kip101-scenario-1 on safe: VALID instead of INVALID" in message
    assert "the run is red" not in message
    junit = (suite.path / "junit.xml").read_text()
    assert 'name="highwater" value="highwater run --plan plans/failover.yaml --protocol truncate-to-hw"' in junit


@pytest.mark.slow
def test_strategies_draw_plans_whose_repr_is_the_command(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        from hypothesis import Phase, given, settings
        from highwater.strategies import plans, seeds
        from highwater.testing import complaint, perform

        quick = settings(max_examples=1, deadline=None, derandomize=True, database=None, phases=[Phase.generate])

        @quick
        @given(plans(seconds=5, faults="crash-leader", workload="produce-consume"))
        def test_crashes_of_leaders_lose_nothing(chosen):
            assert complaint(perform(chosen)) is None

        @quick
        @given(plans(seconds=1, faults="calm"), seeds())
        def test_that_is_red(chosen, seed):
            assert chosen.plan.seed == seed + 1
        """
    )

    result = suite.runpytest_inprocess("-q", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines([r".*chosen=highwater run --seed \d+ --derivation \d+ --faults calm --seconds 1.*"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "needs plan=… or seed=…, and may have kinds, protocol, "),
        ("plan='a.yaml', seed=1", "given: plan, seed"),
        ("'a.yaml'", "given: 'a.yaml'"),
        ("seed=1, protocl='v3'", "given: seed, protocl"),
        ("plan='absent.yaml'", "no plan absent.yaml in "),
        ("seed=1, protocol='saf'", "unknown protocol 'saf'; did you mean 'safe'?"),
        (
            "plan='plans/failover.yaml', seconds=3",
            "only --protocol, --backend, --system, --client and --metrics may be combined with --plan",
        ),
    ],
)
def test_wrong_marker_is_one_line(arguments: str, sentence: str, suite: pytest.Pytester) -> None:
    suite.makepyfile(f"import pytest\n@pytest.mark.highwater({arguments})\ndef test_it(): pass")

    result = suite.runpytest_inprocess("-q", "-p", "no:cacheprovider")

    assert result.ret != 0
    assert sentence in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


def test_fixture_without_a_marker_says_what_it_needs(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_it(highwater_run): pass")

    result = suite.runpytest_inprocess("-q", "-p", "no:cacheprovider")

    assert "highwater_plan and highwater_run need @pytest.mark.highwater" in result.stdout.str()


def test_plugin_imports_nothing_heavy_for_other_projects(tmp_path: Path) -> None:
    """pytest imports the plugin in every project of the environment."""
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    ours = {name for name in sys.modules if name.split('.')[0] == 'highwater'}\n"
        "    assert ours == {'highwater', 'highwater.pytest_plugin'}\n"
        "    assert not {'polars', 'msgspec', 'hypothesis', 'numpy'} & sys.modules.keys()\n"
    )

    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 passed" in completed.stdout, completed.stdout
