"""The command line: its output, and that bad input is refused before anything is written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from highwater import __version__
from highwater.backends.sim.world import World
from highwater.cli.commands import COMMANDS
from highwater.cli.main import run_command_line
from highwater.cli.options import seed_of, seeds_of
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.actions import Crash
from highwater.plans.derive import derive
from highwater.plans.text import plan_to_yaml
from history import parquet, store
from history.fault_kinds import KIND_NAMES
from history.history import History
from history.seed import format_seed
from reference.config import VARIANTS
from tests.strategies import MANIFEST

BAD_PLAN = "name: x\ndraws: 1\ncluster: {topics: [}\n"
UNKNOWN_KEY = "name: x\ndraws: 1\nfrobnicate: 3\n"
GOOD_PLAN = plan_to_yaml(derive(1, seconds=3))
EXPLORED = plan_to_yaml(replace(derive(1, seconds=3), path=(Crash(node="b1"),)))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


BAD_INPUT = [
    ["run", "--seed", "x"],
    ["run", "--seed", "-1"],
    ["run", "--seed", str(1 << 64)],
    ["run", "--seed", "1", "--protocol", "paxos"],
    ["run", "--seed", "1", "--faults", "earthquake"],
    ["run", "--seed", "1", "--faults", "message"],
    ["campaign", "--seeds", "1..2", "--guided", "--faults", "message,step"],
    ["run", "--seed", "1", "--workload", "mining"],
    ["run", "--seed", "1", "--profile", "reckless"],
    ["run", "--seed", "1", "--seconds", "soon"],
    ["run", "--seed", "1", "--seconds", "0"],
    ["run", "--seed", "1", "--backend", "moon"],
    ["run", "--seed", "1", "--client", "java:4.1.0"],
    ["run", "--seed", "1", "--backend", "process", "--client", "cobol:1"],
    ["campaign", "--seeds", "1..2", "--client", "java:4.1.0"],
    ["campaign", "--seeds", "1..2", "--webhook", "example.org/hook"],
    ["campaign", "--seeds", "1..2", "--webhook-when", "always"],
    ["chaos", "--webhook", "file:///etc/passwd"],
    ["chaos", "--webhook", "http://host:port/"],
    ["campaign", "--seeds", "1..2", "--backend", "process", "--client", "cobol:1"],
    ["run"],
    ["run", "--plan", "absent.yaml"],
    ["run", "--plan", "bad.yaml"],
    ["run", "--plan", "unknown-key.yaml"],
    ["run", "--plan", "bad.yaml", "--seed", "1"],
    ["replay", "absent"],
    ["replay", "."],
    ["replay", "absent/run"],
    ["campaign", "--seeds", "5..1"],
    ["campaign", "--seeds", "a..b"],
    ["campaign", "--seeds", "0..3", "--protocol", "paxos"],
    ["campaign", "--seeds", "0..3", "--protocol", "safe,paxos"],
    ["campaign", "--seeds", "0..3", "--protocol", ""],
    ["campaign", "--seeds", "0..3", "--faults", "crash", "--faults", "earthquake"],
    ["campaign", "--seeds", "0..3", "--spark", "nowhere"],
    ["campaign", "--seeds", "0..3", "--spark", "local[2]", "--spark-conf", "cores"],
    ["campaign", "--seeds", "0..3", "--spark-conf", "spark.task.cpus=2"],
    ["campaign", "--seeds", "0..3", "--spark", "local[2]", "--backend", "process"],
    ["campaign", "--seeds", "0..3", "--store", "moon://bucket/store"],
    ["campaign", "--seeds", "0..3", "--store", "s3://bucket/store", "--backend", "process"],
    ["campaign", "--seeds", "0..3", "--deadline", "0"],
    ["campaign", "--seeds", "0..3", "--jobs", "0"],
    ["campaign", "--seeds", "0..3", "--goals", "absent.yaml"],
    ["campaign", "--seeds", "0..3", "--goals", "bad.yaml"],
    ["check", "absent.jsonl"],
    ["check", "foreign.jsonl"],
    ["check", "foreign.jsonl", "--model", "sudoku"],
    ["check", "foreign.jsonl", "--model", "list-append"],
    ["judge", "absent"],
    ["report", "absent"],
    ["chaos", "--corpus", "absent"],
    ["chaos", "--parts", "corpus,luck"],
    ["chaos", "--derivation", "9"],
    ["chaos", "--against", "nowhere"],
    ["chaos", "--against", "HEAD", "--parts", "known-bad"],
    ["run", "--seed", "1", "--derivation", "9"],
    ["run", "--plan", "good.yaml", "--derivation", "1"],
    ["replay", "1", "--derivation", "9"],
    ["replay", "good.yaml", "--derivation", "1"],
    ["campaign", "--seeds", "0..3", "--derivation", "9"],
    ["campaign", "--seeds", "0..3", "--generation", "4"],
    ["campaign", "--seeds", "0..3", "--guided", "--generation", "0"],
    ["campaign", "--seeds", "3..2", "--guided"],
    ["campaign", "--seeds", "0..3", "--guided", "--protocol", "paxos"],
    ["campaign", "--seeds", "0..3", "--guided", "--protocol", "safe,v3"],
    ["campaign", "--seeds", "0..3", "--guided", "--spark", "local[2]"],
    ["campaign", "--seeds", "0..3", "--guided", "--backend", "process"],
    ["campaign", "--seeds", "0..3", "--guided", "--store", "s3://bucket/store"],
    ["campaign", "--seeds", "0..3", "--branches", "--spark", "local[2]"],
    ["campaign", "--seeds", "0..3", "--branches", "--backend", "docker"],
    ["campaign", "--seeds", "0..3", "--branches", "--system", "kafka:4.1.0"],
    ["campaign", "--seeds", "0..3", "--guided", "--system", "kafka:4.1.0", "--backend", "docker"],
    ["campaign", "--seeds", "0..3", "--together", "2"],
    ["campaign", "--seeds", "0..3", "--together", "2", "--system", "kafka:4.1.0"],
    ["campaign", "--seeds", "0..3", "--together", "2", "--system", "kafka:4.1.0", "--settings", "alike", "--jobs", "2"],
    ["run", "--seed", "1", "--system", "reference:-apart3"],
    ["run", "--seed", "1", "--store", "foreign.jsonl"],
    ["run", "--seed", "1", "--store", "foreign.jsonl/deeper"],
    ["run", "--seed", "1", "--store", "/proc/nowhere"],
    ["run", "--seed", "1", "--seconds", "1000000000"],
    ["run", "--plan", "escape.yaml"],
    ["run", "--plan", "escape.yaml", "--no-store"],
    ["run", "--plan", "negative.yaml"],
    ["run", "--plan", "explored.yaml", "--backend", "process"],
    ["campaign", "--seeds", "0..1", "--junit", "."],
    ["campaign", "--seeds", "0..1", "--junit", "foreign.jsonl/junit.xml"],
    ["explore", "machines", "--plan", "."],
    ["replay", "good.yaml", "--protocol", "v3"],
    ["replay", ".", "--protocol", "nope"],
    ["check", "no.parquet"],
    ["report", "unplanned"],
    ["serve", "absent"],
    ["serve", ".", "--host", "everywhere"],
    ["serve", ".", "--port", "70000"],
    ["check", "foreign.jsonl", "--report", "."],
    ["frobnicate"],
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", BAD_INPUT, ids=" ".join)
def test_bad_input_prints_one_line_exits_2_and_writes_nothing(
    arguments: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "bad.yaml").write_text(BAD_PLAN)
    (place / "unknown-key.yaml").write_text(UNKNOWN_KEY)
    (place / "foreign.jsonl").write_text('{"hello": 1}\n')
    (place / "good.yaml").write_text(GOOD_PLAN)
    (place / "escape.yaml").write_text(GOOD_PLAN.replace("name: seed-1", "name: ../../escape"))
    (place / "negative.yaml").write_text(re.sub("draws: .*", "draws: -4", GOOD_PLAN))
    (place / "explored.yaml").write_text(EXPLORED)
    store.save(place / "unplanned", History(MANIFEST))
    before = sorted(place.rglob("*"))

    code = run_command_line(arguments)

    message = capsys.readouterr().err
    assert code == ExitCode.USAGE, message
    assert message.count("\n") == 1
    assert message.startswith("highwater: ")
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    "command",
    [
        ["campaign", "--seeds", "1"],
        ["judge", "."],
        *([*words, "--dataset", "x"] for words in (["query", "all"], ["triage"], ["diff", "a", "b"])),
    ],
    ids=" ".join,
)
def test_invalid_spark_setting_is_refused_by_every_command(
    command: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_command_line([*command, "--spark", "local", "--spark-conf", "cores"])

    message = capsys.readouterr().err
    assert (code, message) == (
        ExitCode.USAGE,
        "highwater: a Spark setting is key=value with a key that begins with spark., not 'cores'\n",
    )


def test_malformed_yaml_error_names_the_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "bad.yaml").write_text(BAD_PLAN)

    run_command_line(["run", "--plan", "bad.yaml"])

    assert "bad.yaml:3:" in capsys.readouterr().err


@pytest.mark.slow
def test_python_without_assertions_is_refused() -> None:
    """Failed assertions of the system under test are part of the verdict."""
    completed = subprocess.run(
        [sys.executable, "-O", "-m", "highwater", "protocols"], capture_output=True, text=True, check=False
    )

    assert (completed.returncode, completed.stdout) == (2, "")
    assert completed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["judge", "stored", "--spark", "local"], ["run", "--seed", "1", "--backend", "process", "--faults", "crash"]]
)
def test_command_that_needs_java_is_refused_without_it(
    arguments: list[str], place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store.save(place / "stored", History(MANIFEST))
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    assert run_command_line(arguments) == ExitCode.USAGE

    assert re.fullmatch(r"highwater: .*Java 17 .*no java.*\n", capsys.readouterr().err)


@pytest.mark.slow
def test_truncated_history_is_refused_and_its_verdict_kept(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(["run", "--seed", "1", "--seconds", "3"])
    (run,) = store.find_runs(place)
    verdict = (run / store.VERDICT).read_bytes()
    events = parquet.read(run / store.EVENTS, "events")
    store.write_file(run / store.EVENTS, parquet.encode(events.slice(0, events.num_rows // 2)))
    capsys.readouterr()

    codes = [run_command_line([verb, str(run)]) for verb in ("check", "report")]

    captured = capsys.readouterr()
    assert codes == [ExitCode.USAGE] * 2
    assert captured.out == ""
    assert captured.err.count("the tables do not belong to the manifest") == captured.err.count("\n") == 2
    # `judge` may have others to judge, so it does not stop here.
    assert run_command_line(["judge", str(run)]) == ExitCode.UNKNOWN
    assert "the tables do not belong to the manifest" in capsys.readouterr().out
    assert (run / store.VERDICT).read_bytes() == verdict


def test_interrupted_replay_is_unknown_not_nondeterministic(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(world: World) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(World, "play", interrupted)

    assert run_command_line(["replay", "1"]) == ExitCode.UNKNOWN

    assert capsys.readouterr().err == "highwater: interrupted\n"


def test_protocols_lists_every_variant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["protocols", "--json"]) == 0

    assert [entry["name"] for entry in msgspec.json.decode(capsys.readouterr().out)["protocols"]] == list(VARIANTS)


def test_faults_lists_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["faults", "--json"]) == 0

    assert [entry["name"] for entry in msgspec.json.decode(capsys.readouterr().out)["kinds"]] == list(KIND_NAMES)


@pytest.mark.parametrize("verb", [command.name for command in COMMANDS])
def test_every_command_has_help_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([verb, "--help"]) == 0

    assert "--json" in capsys.readouterr().out


@pytest.mark.slow
def test_closed_pipe_prints_no_traceback() -> None:
    """As in `highwater protocols | head -1`."""
    command = f"{sys.executable} -m highwater protocols | head -1"
    completed = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=dict(os.environ))

    assert "Traceback" not in completed.stderr


def test_command_alone_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([]) == 0

    assert "Gate a change: corpus, stored plans, seeds" in capsys.readouterr().out


def test_list_of_commands_shows_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(["--help"])

    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_imports_no_heavy_library(arguments: list[str]) -> None:
    """`highwater --help` takes 0.2 s of CPU; with these libraries it took 1.3 s."""
    heavy = "polars pyarrow pyspark scipy numpy confluent_kafka kazoo jinja2 highwater.explore highwater.runs highwater.cli.run"
    code = (
        "import sys; from highwater.cli.main import run_command_line as run\n"
        f"assert run({arguments}) == 0; print([name for name in {heavy.split()} if name in sys.modules], file=sys.stderr)"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert completed.stderr == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rum", "--seed", "1"], "No such command 'rum'. Did you mean 'run'? (highwater --help)"),
        (["run", "--seed", "1", "--protocol", "saf"], "unknown protocol 'saf'; did you mean 'safe'?"),
        (["run", "--seed", "1", "--faults", "crsh-leader"], "unknown fault 'crsh-leader'; did you mean 'crash-leader'?"),
        (["run", "--seed", "1", "--workload", "everythin"], "unknown workload 'everythin'; did you mean 'everything'?"),
        (["chaos", "--parts", "corpos"], "unknown part 'corpos'; did you mean 'corpus'?"),
        (["query", "detectio", "--dataset", "x"], "unknown question 'detectio'; did you mean 'detection'?"),
    ],
)
def test_misspelt_name_is_corrected(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(arguments) == ExitCode.USAGE

    assert capsys.readouterr().err == f"highwater: {sentence}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "give either --seed S or --plan FILE; given: neither"),
        (["run", "--seed", "1", "--seconds", "0"], "greater than or equal to 1; given: 0 (highwater run --help)"),
        (["run", "--seed", "1", "--seconds=soon"], "as an integer; given: soon (highwater run --help)"),
        (["run", "--seed", "1", "--profile", "no"], "'no' is not one of 'within', 'beyond'. (highwater run --help)"),
    ],
)
def test_message_says_what_was_given(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(arguments) == ExitCode.USAGE

    assert capsys.readouterr().err.endswith(f"{sentence}\n")


@pytest.mark.slow
def test_names_are_read_in_capitals(capsys: pytest.CaptureFixture[str]) -> None:
    """The document is called V3."""
    run_command_line(["run", "--seed", "1", "--protocol", "V3", "--faults", "CALM", "--seconds", "1", "--no-store"])

    assert "protocol v3" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("highwater cha", ["chaos"]),
        ("highwater run --profi", ["--profile"]),
        ("highwater run --protocol kip1", ["kip101"]),
        ("highwater run --faults calm,zk", ["calm,zk-flap"]),
        ("highwater campaign --system kafka:4", ["kafka:4.1.0", "kafka:4.2.0"]),
        ("highwater check --model unordered", ["unordered-queue"]),
        ("highwater judge --model list-a", ["list-append"]),
        ("highwater explore model async", ["async-isr"]),
    ],
)
def test_shell_completes_commands_options_and_names(line: str, offered: list[str]) -> None:
    """As bash asks for it after `highwater --install-completion`."""
    asks = {"_HIGHWATER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    completed = subprocess.run(
        [sys.executable, "-m", "highwater"], capture_output=True, text=True, check=False, env=dict(os.environ, **asks)
    )

    assert completed.stdout.split() == offered


def test_version_is_printed_with_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command_line(["--version"])

    assert (code, capsys.readouterr().out) == (ExitCode.VALID, f"highwater {__version__}\n")


def test_absent_folder_is_not_reported_as_a_bad_seed(capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(["replay", "absent/run"])

    assert capsys.readouterr().err == "highwater: absent/run: no such run folder or plan file, and not a seed\n"


@pytest.mark.parametrize("seed", [0, 1, 10, (1 << 64) - 1])
def test_seed_is_read_in_every_printed_form(seed: int) -> None:
    assert seed_of(format_seed(seed)) == seed
    assert seed_of(str(seed)) == seed
    assert seed_of(hex(seed)) == seed


def test_seed_range_includes_both_ends() -> None:
    assert list(seeds_of("3..5")) == [3, 4, 5]
    assert list(seeds_of("7")) == [7]
    with pytest.raises(UsageError):
        seeds_of("..")


@pytest.mark.slow
def test_campaign_lists_branches_and_fails_on_a_missed_one(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A guard that no run takes is not tested, however many runs are VALID."""
    goal = "controller.controller.on_watch: if path == paths.LOG_DIR_EVENTS"
    (place / "goals.yaml").write_text(f'- "branch:{goal}"\n', encoding="utf-8")
    options = ["--seeds", "3..3", "--seconds", "1", "--faults", "pause", "--jobs", "1", "--goals", "goals.yaml"]
    code = run_command_line(["campaign", *options, "--branches"])
    message = capsys.readouterr().out
    (page,) = place.rglob("branches.txt")

    assert code == ExitCode.LABORATORY_FAILED
    assert f"missed  branch:{goal}: goals that no run reached" in message
    assert f"never: {page.relative_to(place)}" in message
    assert "  if path == paths.LOG_DIR_EVENTS\n" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "--seed", "x", "--json"], ExitCode.USAGE),
        (["report", "absent", "--json"], ExitCode.USAGE),
        (["check", "absent.edn", "--json"], ExitCode.USAGE),
        (["run", "--unheard-of", "--json"], ExitCode.USAGE),
    ],
)
def test_error_with_json_is_an_object_too(arguments: list[str], code: ExitCode, capsys: pytest.CaptureFixture[str]) -> None:
    """A program reads stdout; without an object it would read nothing."""
    assert run_command_line(arguments) == code
    captured = capsys.readouterr()
    error = json.loads(captured.out)

    assert error["exit"] == code
    assert captured.err.startswith("highwater: ")
    assert " ".join(error["error"].split()) in captured.err


_LISTED_MAX = 13


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_help_lists_few_options_under_one_heading(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Forty options in one list are read by nobody."""
    assert run_command_line([command, "--help"]) == ExitCode.VALID
    headings = re.split(r"^[A-Z].*:$", capsys.readouterr().out, flags=re.MULTILINE)

    assert max(len(re.findall(r"^  -", text, re.MULTILINE)) for text in headings) <= _LISTED_MAX
