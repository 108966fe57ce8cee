"""Settings of all tests: Hypothesis profiles, the real ZooKeeper, groups for parallel runs.

`dev` (default) tries few examples, `ci` more and derandomised, `night` many. HYPOTHESIS_PROFILE chooses.
"""

import gc
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings

from highwater.backends.real.zookeeper.local import LocalZooKeeper, missing
from history.fault_kinds import FAMILIES
from nemesis import kinds, profiles

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A failing assert of a helper shows its values, as one of a test does. `tests` itself is imported by now, its rooms are not.
pytest.register_assert_rewrite(*(f"tests.{path.stem}" for path in Path(__file__).parent.iterdir() if path.stem != "conftest"))

SLOW_S = 1.0

settings.register_profile("dev", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("night", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m NAME`, import only the test files that contain the name: every worker of a parallel run imports them."""
    mark = config.option.markexpr
    if mark.isidentifier() and collection_path.match("test_*.py"):
        return True if mark not in collection_path.read_text(encoding="utf-8") else None
    return None


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules of all tests, which stay to the end."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that share a fixture of their module, a cluster or the Spark session on one worker.

    Otherwise each worker makes the fixture. Tests of a file share one cluster; each test in tests/zookeeper starts its own.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("zookeeper") is not None and item.path.parent.name != "zookeeper":
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        if _shares_a_fixture(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def _shares_a_fixture(item: pytest.Item) -> bool:
    fixtures_known = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    return any(fixture.scope == "module" for fixture_defs in fixtures_known.values() for fixture in fixture_defs)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """List the tests that took over a second and are not marked `slow`: `make test-fast` would run them."""
    passed = terminalreporter.stats.get("passed", [])
    long = [r for r in passed if r.when == "call" and r.duration > SLOW_S and not {"slow", "docker"} & set(r.keywords)]
    if long:
        terminalreporter.section(f"over {SLOW_S:g} s without the mark slow")
    for report in sorted(long, key=lambda report: -report.duration):
        terminalreporter.write_line(f"{report.duration:.2f}s {report.nodeid}")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """The Chromium of this machine. If there is none, tests are skipped with the reason; in CI they fail."""
    playwright_api = pytest.importorskip("playwright.sync_api")
    with playwright_api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        except playwright_api.Error as error:
            reason = f"no Chromium to look with: {error.message.splitlines()[0]}"
            if os.environ.get("CI"):
                pytest.fail(reason)
            pytest.skip(reason)
        yield found
        found.close()


@pytest.fixture(params=["as it is", "one more of each family"])
def catalogue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kinds of faults as they are, and with one more of each family: laws of schedules and plans hold for any."""
    if request.param != "as it is":
        first = {entry.family: entry for entry in reversed(kinds.KINDS)}
        kinds_found = [*kinds.KINDS, *(replace(entry, name=f"{family}-more") for family, entry in first.items())]
        grown = tuple(sorted(kinds_found, key=lambda entry: [*FAMILIES].index(entry.family)))
        monkeypatch.setattr(kinds, "KINDS", grown)
        monkeypatch.setattr(kinds, "KIND_NAMES", tuple(entry.name for entry in grown))
        monkeypatch.setattr(profiles, "KINDS", grown)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[str]:
    """The address of a real ZooKeeper, shared by the whole session; each test uses its own paths."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with LocalZooKeeper() as server:
        yield server.address
