"""The plugin of pytest: `@pytest.mark.highwater(plan=…)` performs a plan or a seed, and fails the test if the run is red.

    @pytest.mark.highwater(plan="plans/failover.yaml", system="external", described="cluster.yaml")
    def test_failover_keeps_records(highwater_run): ...

pytest imports this module in every project of an environment, so everything that takes time is imported when a marked test runs.
docs/pytest.md has the marker's arguments and the fixtures.
"""

from collections.abc import Iterable
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # takes a second to import
    from highwater.testing import Chosen, Judged

_ONE = "_highwater_one"  # the parameter of a test with several plans or seeds
_FILES = ("described", "jars")
_OF_RUN = ("protocol", "faults", "profile", "seconds", "workload", "backend", "system", "client", "settings", "metrics")
_KNOWN = ("plan", "seed", "kinds", *_OF_RUN, *_FILES)
_CHOSEN: "pytest.StashKey[Chosen]" = pytest.StashKey()
_JUDGED: "pytest.StashKey[Judged]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The setting `highwater_store`."""
    parser.addini("highwater_store", "Folder for the runs that are not as expected, below the root directory.", default="store")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "highwater(plan=FILE, seed=N, kinds=[], **options): perform a plan or a seed; the run must be VALID and live."
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each plan file or seed that a marker names."""
    mark = metafunc.definition.get_closest_marker("highwater")
    if mark is None:
        return
    named = _runs_named(mark, metafunc.config.rootpath)
    metafunc.fixturenames.append(_ONE)
    ids = [Path(str(name)).stem if kind == "plan" else f"seed-{name}" for kind, name in named]
    metafunc.parametrize(_ONE, named, ids=ids, indirect=True)


def _runs_named(mark: pytest.Mark, root: Path) -> list[tuple[str, str]]:
    """The plan files or seeds of a marker, as `("plan", "plans/failover.yaml")`; fails the collection if it names none."""
    unknown = sorted(set(mark.kwargs) - set(_KNOWN))
    if mark.args or unknown or ("plan" in mark.kwargs) == ("seed" in mark.kwargs):
        arguments = ", ".join([*map(repr, mark.args), *mark.kwargs]) or "nothing"
        usage = f"needs plan=… or seed=…, and may have {', '.join(_KNOWN[2:])}"
        pytest.fail(f"@pytest.mark.highwater {usage}; given: {arguments}", pytrace=False)
    if "seed" in mark.kwargs:
        return [("seed", str(seed)) for seed in _several(mark.kwargs["seed"])]
    return [("plan", file) for pattern in _several(mark.kwargs["plan"]) for file in _matching(root, str(pattern))]


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def _matching(root: Path, pattern: str) -> list[str]:
    """The plan files of a pattern below the root of the tests, as one would name them in a command now."""
    paths = [pattern] if Path(pattern).is_absolute() else sorted(map(relpath, root.glob(pattern)))
    if not paths:
        pytest.fail(f"@pytest.mark.highwater: no plan {pattern} in {root}", pytrace=False)
    return paths


@pytest.fixture(name=_ONE)
def _named_run(request: pytest.FixtureRequest) -> tuple[str, str]:
    named: tuple[str, str] = request.param
    return named


@pytest.fixture
def highwater_plan(request: pytest.FixtureRequest) -> "Chosen":
    """The plan of a marked test, with its backend and the command that repeats it, before it is performed."""
    return _chosen_run(request.node)


@pytest.fixture
def highwater_run(request: pytest.FixtureRequest) -> "Judged":
    """The run of a marked test: plan, history, verdict and summary."""
    return _judged_run(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Perform the run of a marked test, and fail the test if the run is not as expected; else run the test."""
    mark = item.get_closest_marker("highwater")
    if mark is not None:
        _must_be_as_expected(item, mark)
    return (yield)


def _must_be_as_expected(item: pytest.Item, mark: pytest.Mark) -> None:
    """Fail the test if the run is not as expected."""
    from highwater.testing import complaint

    kind, name = _plan_or_seed(item)
    run = _judged_run(item)
    item.user_properties.append(("highwater", run.summary.repeat))
    plan = Path(name) if kind == "plan" else None
    complaint_text = complaint(run, kinds=_several(mark.kwargs.get("kinds", ())), folder=_folder(item), plan=plan)
    if complaint_text is not None:
        pytest.fail(complaint_text, pytrace=False)


def _plan_or_seed(item: pytest.Item) -> tuple[str, str]:
    """What the test names: "plan" or "seed", and which."""
    spec = getattr(item, "callspec", None)
    if spec is None or _ONE not in spec.params:
        pytest.fail("highwater_plan and highwater_run need @pytest.mark.highwater(plan=…) or (seed=…)", pytrace=False)
    named: tuple[str, str] = spec.params[_ONE]
    return named


def _chosen_run(item: pytest.Item) -> "Chosen":
    """The plan and backend of the test's mark, chosen once."""
    from highwater.errors import HighwaterError
    from highwater.testing import choose

    if _CHOSEN not in item.stash:
        kind, name = _plan_or_seed(item)
        mark = item.get_closest_marker("highwater")
        assert mark is not None
        options = {key: value for key, value in mark.kwargs.items() if key not in ("plan", "seed", "kinds")}
        options |= {option: Path(options[option]) for option in _FILES if options.get(option) is not None}
        try:
            item.stash[_CHOSEN] = choose(seed=name, **options) if kind == "seed" else choose(plan=Path(name), **options)
        except HighwaterError as error:
            pytest.fail(f"highwater: {error}", pytrace=False)
    return item.stash[_CHOSEN]


def _judged_run(item: pytest.Item) -> "Judged":
    """The run of the test, performed and judged once."""
    from highwater.errors import HighwaterError
    from highwater.testing import perform

    if _JUDGED not in item.stash:
        chosen = _chosen_run(item)
        try:
            item.stash[_JUDGED] = perform(chosen, folder=_folder(item))
        except HighwaterError as error:
            pytest.fail(f"highwater: {error}", pytrace=False)
    return item.stash[_JUDGED]


def _folder(item: pytest.Item) -> Path:
    return Path(relpath(item.config.rootpath / str(item.config.getini("highwater_store"))))
