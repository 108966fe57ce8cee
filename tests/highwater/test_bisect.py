"""`highwater bisect`: which build is called the first bad one, what is never called good, and how it goes on."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.systems.kafka import jars
from highwater.campaigns.bisection import NOTHING_MAX, Bisection, Found, trial_of
from highwater.cli import bisect
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.plans.systems import OwnJars
from highwater.runs.summary import Summary
from highwater.runs.workers import Task
from pipeline.ledger import Ledger
from pipeline.storage import storage_at
from tests.highwater.backends.real.systems.test_builds import build
from tests.highwater.test_chaos_on_systems import summary
from tests.tidy.sources import ROOT

PLAN = ROOT / "corpus" / "real" / "kip101.yaml"
Runs = dict[str, list[str]]  # what the runs of each build show, one after the other


def search(folder: Path, runs: Runs, wanted: int = 1, looks: list[str] | None = None) -> Found:
    """Bisect builds of these names, oldest first, each with the runs that it has left; `looks` gets what was performed."""
    left = {name: list(words) for name, words in runs.items()}

    def perform(own: OwnJars) -> Summary:
        if looks is not None:
            looks.append(own.path)
        words = left[own.path].pop(0)
        if words == "ctrl-c":
            raise KeyboardInterrupt
        return summary(words)

    builds = [(name, OwnJars(path=name, version="1", digest=f"digest-{name}")) for name in runs]
    return Bisection(builds, perform, Ledger(storage_at(str(folder / "ledger"))), wanted=wanted).find()


def result(found: Found) -> tuple[str | None, str | None, ExitCode]:
    return found.last_good, found.first_bad, found.exit


@pytest.mark.parametrize("first_bad", range(1, 9))
def test_first_bad_build_is_found_in_few_looks(tmp_path: Path, first_bad: int) -> None:
    looks: list[str] = []
    runs = {str(at): ["lost" if at >= first_bad else "kept"] for at in range(9)}

    bisection = search(tmp_path, runs, looks=looks)

    assert result(bisection) == (str(first_bad - 1), str(first_bad), ExitCode.INVALID)
    assert len(looks) <= 2 + 3
    assert {look.standing for look in bisection.builds if look.name not in looks} <= {"not tried"}


def test_build_that_is_not_live_is_bad(tmp_path: Path) -> None:
    assert result(search(tmp_path, {"a": ["kept"], "b": ["silent"]})) == ("a", "b", ExitCode.INVALID)


def test_good_newest_build_means_that_none_is_bad(tmp_path: Path) -> None:
    assert result(search(tmp_path, {"a": [], "b": ["kept"]})) == ("b", None, ExitCode.VALID)


def test_bad_oldest_build_is_the_first_bad_one(tmp_path: Path) -> None:
    assert result(search(tmp_path, {"a": ["lost"], "b": [], "c": ["lost"]})) == (None, "a", ExitCode.INVALID)


@pytest.mark.parametrize("nothing", ["unknown", "vacuous", "failed"])
def test_run_that_shows_nothing_is_never_called_good(tmp_path: Path, nothing: str) -> None:
    repeated = search(tmp_path / "repeated", {"a": ["kept"], "b": [nothing, "kept"], "c": ["lost"]})
    undecided = search(tmp_path / "undecided", {"a": ["kept"], "b": [nothing] * NOTHING_MAX, "c": ["lost"]})

    assert result(repeated) == ("b", "c", ExitCode.INVALID)
    assert result(undecided) == ("a", "c", ExitCode.UNKNOWN)
    assert undecided.builds[1].standing == "undecided"


def test_search_goes_on_beside_an_undecided_build(tmp_path: Path) -> None:
    runs = {"a": ["kept"], "b": ["kept"], "c": ["unknown"] * NOTHING_MAX, "d": ["lost"], "e": ["lost"]}

    assert result(search(tmp_path, runs)) == ("b", "d", ExitCode.UNKNOWN)


@pytest.mark.parametrize("end", ["a", "c"])
def test_undecided_end_makes_the_answer_unknown(tmp_path: Path, end: str) -> None:
    runs = {"a": ["kept"], "b": ["kept"], "c": ["lost"]} | {end: ["unknown"] * NOTHING_MAX}

    assert search(tmp_path, runs).exit is ExitCode.UNKNOWN


def test_one_bad_run_among_several_good_ones_decides(tmp_path: Path) -> None:
    bisection = search(tmp_path, {"a": ["kept"] * 3, "b": ["kept", "vacuous", "lost"]}, wanted=3)

    assert result(bisection) == ("a", "b", ExitCode.INVALID)
    assert bisection.builds[1].words.startswith("INVALID")


def test_ended_bisection_goes_on_where_it_was(tmp_path: Path) -> None:
    """The run that was interrupted is performed again, and no other one."""
    looks: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, {"a": ["kept"], "b": ["ctrl-c"], "c": ["lost"]}, looks=looks)
    assert looks == ["c", "a", "b"]

    bisection = search(tmp_path, {"a": [], "b": ["kept"], "c": []}, looks=looks)

    assert (result(bisection), looks) == (("b", "c", ExitCode.INVALID), ["c", "a", "b", "b"])


def test_more_runs_add_to_those_that_are_there(tmp_path: Path) -> None:
    search(tmp_path, {"a": [], "b": ["kept"]})

    assert result(search(tmp_path, {"a": ["kept", "kept"], "b": ["lost"]}, wanted=2))[1] == "b"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("kept", "VALID, live"),
        ("vacuous", "VALID, vacuous: the hazard was not met"),
        ("lost", "INVALID, live: lost-write t-0: gone"),
    ],
)
def test_verdict_of_a_run_has_its_reason_if_it_is_accused(run: str, words: str) -> None:
    """What no checker could judge is not why a run is good."""
    assert trial_of(replace(summary(run), unchecked=("no notes",))).words == words


def test_builds_are_ordered_by_the_numbers_in_their_names(tmp_path: Path) -> None:
    for name in ("b-10", "b-9", ".hidden", "b-9.1"):
        (tmp_path / name).mkdir()
    (tmp_path / "b-11.tgz").touch()
    (tmp_path / "notes.txt").touch()

    assert [path.name for path in bisect.builds_in(tmp_path, None)] == ["b-9", "b-9.1", "b-10", "b-11.tgz"]


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs `highwater bisect` on three builds, of which the runs with the last one lose records."""
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "java_major", lambda: jars.JAVA_MAJOR)
    monkeypatch.setattr("highwater.backends.real.processes.backend.missing", lambda: None)
    for name in ("1", "2", "3"):
        build(tmp_path / "builds" / name).joinpath(f"{name}.jar").write_bytes(
            (tmp_path / "builds" / name / "kafka-clients.jar").read_bytes()
        )

    def perform(task: Task) -> Summary:
        return summary("lost" if "--jars" in task.repeat and task.repeat.endswith("/3") else "kept")

    monkeypatch.setattr(bisect, "perform", perform)
    arguments = ["bisect", str(tmp_path / "builds"), "--plan", str(PLAN), "--store", str(tmp_path / "store")]
    return lambda *more: run_command_line([*arguments, *more])


def test_bisect_prints_each_build_and_one_line_of_result(
    three: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = three("--runs", "2")

    lines = capsys.readouterr().out.splitlines()
    assert code == 10
    assert [line.split()[:2] for line in lines[1:4]] == [["bad", "3"], ["good", "1"], ["good", "2"]]
    assert lines[4:] == ["first bad: 3 (3.9.1-3), after 2: INVALID, live: lost-write t-0: gone"]


def test_bisect_prints_one_json_object(three: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    code = three("--json")

    printed = json.loads(capsys.readouterr().out)
    assert (code, printed["exit"], printed["first_bad"], printed["last_good"]) == (10, 10, "3", "2")
    assert [look["standing"] for look in printed["builds"]] == ["good", "good", "bad"]


def test_file_gives_the_order_of_the_builds(
    three: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "order").write_text("2\n3\n1\n")

    assert three("--order", str(tmp_path / "order")) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no bad build: the newest, 1, is good"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--order", "nowhere"), "cannot read nowhere: No such file or directory"),
        (("--backend", "sim"), "builds of Kafka are run with --backend process or docker, not sim"),
        (("--system", "external"), "--jars is a build of the system kafka, not of external"),
        (("--system", "kafka:3.9.1"), "so the system is kafka, kafka:zookeeper or kafka:kraft, not kafka:3.9.1"),
        (("--runs", "0"), "--runs"),
    ],
)
def test_bisect_refuses_wrong_use_in_one_line(
    three: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], more: Sequence[str], message: str
) -> None:
    code = three(*more)

    error = capsys.readouterr().err
    assert (code, error.count("\n"), (tmp_path / "store").exists()) == (2, 1, False)
    assert message in error


@pytest.mark.parametrize(
    ("order", "message"),
    [("1\n", "has 1 builds"), ("1\n2\n1\n", "names 1 twice"), ("1\n4\n", "4: no such folder or tarball of jars")],
)
def test_bisect_refuses_an_order_without_builds(
    three: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str, message: str
) -> None:
    (tmp_path / "order").write_text(order)

    assert three("--order", str(tmp_path / "order")) == 2
    assert message in capsys.readouterr().err
