"""Branches of the protocol: their names and marks, and runs that are watched."""

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.backends.sim.scheduler import MS
from highwater.coverage.branches import MARK, MARKS, Reach, branches, counting, is_excluded, marked, steps_of
from highwater.coverage.reach import CALM, LINGER_MS, Timeline, watching
from highwater.plans.derive import MIXED, derive
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.runs.provenance import Build
from highwater.runs.run import Keep, carry_out, perform
from history.store import REPORT
from nemesis.faults import Crash
from nemesis.schedule import Window
from reference.config import VARIANTS
from reference.replica import isr
from tests.tidy.sources import ROOT

HERE = Build(commit="", dirty=False, versions={})

TOY = '''
def judge(x, others):
    """What a toy says of a number."""
    if x > 5 and x < 9 or x == 100:
        return "some" if x == 7 else "other"
    for other in others:
        match other:
            case 1:
                return "one"
            case _ if other > x:
                return "greater"
    try:
        return others[x]
    except IndexError:
        return "none"


class Toy:
    def twice(self, x):
        return 2 * x
'''


def _branches_taken(source: str, call: str) -> list[str]:
    """The names of the branches that a call takes, without module and function, in their order."""
    code, branches_found = marked(source, module="toy", file="toy.py", first=0)
    marks = bytearray(len(branches_found))
    space: dict[str, object] = {MARKS: marks, MARK: marks.__setitem__}
    exec(code, space)
    eval(call, space)
    return [branch.name.partition(": ")[2] for branch, mark in zip(branches_found, marks, strict=True) if mark]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("judge(7, [])", ["if x > 5 and x < 9 or x == 100", "and x < 9", "if x == 7"]),
        ("judge(8, [])", ["if x > 5 and x < 9 or x == 100", "and x < 9", "not x == 7"]),
        ("judge(100, [])", ["if x > 5 and x < 9 or x == 100", "or x == 100", "and x < 9", "not x == 7"]),
        ("judge(0, [0])", ["not (x > 5 and x < 9 or x == 100)", "or x == 100", "for other in others"]),
        ("judge(0, [1])", ["not (x > 5 and x < 9 or x == 100)", "or x == 100", "for other in others", "case 1 of other"]),
        ("judge(0, [])", ["not (x > 5 and x < 9 or x == 100)", "or x == 100", "except IndexError"]),
        ("Toy().twice(1)", ["called"]),
    ],
)
def test_marks_show_exactly_the_branches_that_were_taken(call: str, expected: list[str]) -> None:
    assert sorted(_branches_taken(TOY, call)) == sorted(expected)


def test_branch_keeps_its_name_when_other_lines_change() -> None:
    """A name in a list of goals must not depend on line numbers, spaces or other functions."""
    edited = TOY.replace("def judge", "def added(x):\n    return 1 if x else 2\n\n\ndef judge").replace("x == 7", "x   ==   7")
    names = [{branch.name for branch in marked(text, module="toy", file="toy.py", first=0)[1]} for text in (TOY, edited)]

    assert names[0] < names[1]


def test_equal_conditions_of_a_function_are_numbered() -> None:
    text = "def f(x):\n    if x:\n        x += 1\n    if x:\n        x += 2\n    return x\n"
    names = [branch.name for branch in marked(text, module="toy", file="toy.py", first=0)[1]]

    assert names == ["toy.f: if x", "toy.f: not x", "toy.f: if x #2", "toy.f: not x #2"]


@pytest.mark.slow
def test_every_branch_of_the_protocol_has_its_own_name() -> None:
    names = [branch.name for branch in branches()]

    assert len(set(names)) == len(names) > 1000


def test_impossible_branches_have_no_name() -> None:
    assert not [branch for branch in branches() if "as unreachable" in branch.name]


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        ("safe", "replica.isr._laggards: not config.variant.lag_clock == 'monotonic'"),
        ("lag-by-wall-clock", "replica.isr._laggards: if config.variant.lag_clock == 'monotonic'"),
        ("safe", "replica.isr._may_join: case 'hw_only' of turn.config.variant.isr_join"),
        ("isr-join-hw-only", "replica.isr._may_join: case 'epoch_start' of turn.config.variant.isr_join"),
        ("safe", "replica.isr._laggards: or now - last.changed_ms > config.replica_lag_time_max_ms"),
        ("safe", "replica.isr._may_join: and f.broker in brokers_of(leader.isr)"),
    ],
)
def test_branches_of_another_variant_are_excluded(protocol: str, name: str) -> None:
    """They would stand in every list of what was never taken."""
    branch = next(branch for branch in branches() if branch.name == name)

    assert is_excluded(branch, VARIANTS[protocol])
    assert not all(is_excluded(branch, variant) for variant in VARIANTS.values())


def test_counting_gives_functions_their_own_code_back() -> None:
    """Ordinary runs of a process that has counted must cost what they did."""
    own = isr.maybe_shrink.__code__
    with counting():
        assert isr.maybe_shrink.__code__ is not own
        assert isr.maybe_shrink.__code__.co_firstlineno == own.co_firstlineno

    assert isr.maybe_shrink.__code__ is own


def _plan(seed: int) -> Plan:
    return derive(seed, workload=MIXED, faults=("crash", "partition"), seconds=3)


def _watched(plan: Plan) -> tuple[str, Reach]:
    with watching() as (backend, watcher):
        return perform(plan, backend, HERE).history.manifest.digest, watcher.reach()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_watched_run_has_the_history_of_an_ordinary_run(seed: int) -> None:
    ordinary = perform(_plan(seed), SimBackend(), HERE).history.manifest.digest

    assert _watched(_plan(seed))[0] == ordinary


@pytest.mark.slow
def test_watched_run_reaches_the_same_twice() -> None:
    _, reach = _watched(_plan(1))

    assert reach == _watched(_plan(1))[1]
    assert all(earlier.at_ms <= later.at_ms for earlier, later in pairwise(steps_of(reach)))


@pytest.mark.slow
def test_watched_run_tells_roles_and_faults_apart() -> None:
    _, reach = _watched(_plan(1))
    names = [branch.name for branch in branches()]
    by_role: dict[str, set[str]] = {}
    for step in steps_of(reach):
        by_role.setdefault(step.context.split()[0], set()).update(names[number] for number in step.branches)

    assert {"controller", "leader", "follower", "client"} <= set(by_role)
    assert {step.context.split()[1] for step in steps_of(reach)} <= {CALM, *(window.kind for window in _plan(1).schedule)}
    assert not [name for name in by_role["controller"] | by_role["leader"] if name.startswith("client.client.")]
    assert [name for name in by_role["client"] if name.startswith("client.client.")]


def test_fault_is_in_effect_until_some_time_after_its_end() -> None:
    """Restarts and elections follow the end of a fault."""
    line = Timeline((Window(id="f1", kind="crash-random", at_ms=10, until_ms=20, fault=Crash()),))
    times = (0, 9, 10, 20, 20 + LINGER_MS - 1, 20 + LINGER_MS)

    assert [line.at(ms * MS)[0] for ms in times] == [CALM, CALM, "crash-random", "crash-random", "crash-random", CALM]


def test_overlapping_faults_are_all_in_effect() -> None:
    windows = [Window(id=kind, kind=kind, at_ms=at, until_ms=at + 10, fault=Crash()) for kind, at in (("b", 0), ("a", 5))]

    assert Timeline(tuple(windows)).at(6 * MS) == ("a", "b")


@pytest.mark.slow
def test_page_with_states_adds_nothing_to_the_reach(tmp_path: Path) -> None:
    """The page of a failed run performs it again, in the same process and while branches are marked."""
    plan = replace(load_plan(ROOT / "corpus/plans/kip101-scenario-1.yaml"), protocol="truncate-to-hw")
    _, alone = _watched(plan)

    with watching() as (backend, watcher):
        carry_out(plan, backend, build=HERE, repeat="", keep=Keep(store=tmp_path))

    assert watcher.reach() == alone
    assert "data-states=" in next(tmp_path.rglob(REPORT)).read_text(encoding="utf-8")
