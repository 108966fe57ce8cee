"""What Spark is given, and the one sentence that a machine, an argument or a job gets where it does not work."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from history.packages import PACKAGES
from pipeline import session as module
from pipeline.errors import PipelineError
from pipeline.session import SETTINGS, _spark_settings, cause, full_master, missing, parse_conf, session
from pipeline.stamp import MISMATCH, check_stamp, present_stamp


def _java(folder: Path, script: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / "java").chmod(0o755)


def test_missing_java_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PipelineError, match=r"^Spark needs Java 17 or later: install it .*; no java was found$"), session():
        raise AssertionError("no session without Java")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("""echo 'openjdk version "11.0.2" 2019-01-15' >&2""", r"bin/java is Java 11$"),
        ("""echo 'java version "1.8.0_392"' >&2""", r"bin/java is Java 8$"),
        ("exit 1", r"bin/java does not report its version$"),
    ],
)
def test_old_or_broken_java_is_named(script: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _java(tmp_path, script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PipelineError, match=words), session():
        raise AssertionError("no session with this Java")


def test_current_java_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _java(tmp_path, """echo 'openjdk version "21" 2023-09-19' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert missing() is None


def test_missing_pyspark_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)

    with pytest.raises(PipelineError, match=r"^Spark needs PySpark: .*pip install 'highwater-harness\[spark\]'$"), session():
        raise AssertionError("no session without PySpark")


@pytest.mark.parametrize("master", ["", "locale", "local[many]", "local[2", "local-cluster[2]", "spark:", "http://host"])
def test_invalid_master_is_refused(master: str) -> None:
    with pytest.raises(PipelineError, match="is not a Spark master"), session(master):
        raise AssertionError("no session with this master")


@pytest.mark.parametrize(
    ("master", "full"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
        ("k8s://https://host", "k8s://https://host"),
        ("yarn", "yarn"),
    ],
)
def test_local_master_repeats_failed_tasks(master: str, full: str) -> None:
    """`local[2]` alone ends the job with the first Python worker that is killed."""
    assert full_master(master) == full


def test_submitted_master_is_refused_without_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)

    with pytest.raises(PipelineError, match="'submitted' is only known under spark-submit"):
        full_master("submitted")


def test_settings_are_parsed_and_the_later_counts() -> None:
    texts = ["spark.a=1", "spark.driver.memory = 4g", "spark.a=x=y z"]

    assert parse_conf(texts) == {"spark.a": "x=y z", "spark.driver.memory": "4g"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("spark.ui.enabled", "is key=value with a key that begins with spark., not 'spark.ui.enabled'"),
        ("spark.ui.enabled=", "is key=value"),
        ("driver.memory=1g", "is key=value with a key that begins with spark."),
        ("spark.a b=1", "is key=value"),
        ("spark.master=local", "give it as --spark MASTER"),
        ("spark.driver.memory=lots", "spark.driver.memory must be a size such as 512m or 2g, not 'lots'"),
        ("spark.network.timeout=soon", "spark.network.timeout must be a time such as 30s or 5min, not 'soon'"),
        ("spark.speculation=yes", "spark.speculation must be true or false, not 'yes'"),
        ("spark.task.maxFailures=few", "spark.task.maxFailures must be a whole number, not 'few'"),
    ],
)
def test_invalid_setting_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_conf([text])

    assert words in str(caught.value)


def test_default_settings_pass_their_own_check() -> None:
    assert parse_conf([f"{setting.key}={setting.value}" for setting in SETTINGS]) == {s.key: s.value for s in SETTINGS}


_PYTHON_ERROR = """An error occurred while calling o76.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: Lost
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise ValueError("ValueError: inner")
{}: the bucket is gone

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Caused by: java.io.EOFException: at the end
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (_PYTHON_ERROR.format("pipeline.errors.PipelineError"), "the bucket is gone"),
        (_PYTHON_ERROR.format("ValueError"), "ValueError: the bucket is gone"),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `nowhere` cannot be found.\n'Project 'x",
            "[TABLE_OR_VIEW_NOT_FOUND] The table `nowhere` cannot be found.",
        ),
        (
            "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Job 1 cancelled\n\tat org.x",
            "Job 1 cancelled",
        ),
        (
            "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
            "\tat org.x\n"
            "Caused by: java.util.concurrent.ExecutionException: org.apache.spark.SparkException: [FILE_NOT_EXIST] It is gone.",
            "[FILE_NOT_EXIST] It is gone.",
        ),
        ("", "Spark does not say why"),
    ],
)
def test_error_of_spark_is_told_in_one_line(text: str, line: str) -> None:
    assert cause(text) == line


@pytest.mark.parametrize(("master", "is_local"), [("local[2]", True), ("local-cluster[2,1,1024]", True), ("spark://a:1", False)])
def test_java_of_a_local_master_has_the_cheap_compiler(master: str, is_local: bool) -> None:
    """The executors of a cluster answer questions for hours, and have the optimizing one."""
    settings = _spark_settings(master, {}, own_python=True)
    own = _spark_settings(master, {"spark.executor.extraJavaOptions": "-Xint"}, own_python=True)

    assert ("TieredStopAtLevel=1" in settings["spark.driver.extraJavaOptions"]) == is_local
    assert ("TieredStopAtLevel=1" in settings.get("spark.executor.extraJavaOptions", "")) == is_local
    assert own["spark.executor.extraJavaOptions"] == "-Xint"


def test_code_stamp_covers_the_packages_of_the_wheel() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())

    assert sorted(PACKAGES) == sorted(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_executor_with_equal_code_and_versions_is_accepted() -> None:
    check_stamp(present_stamp())


def test_executor_with_other_code_or_python_is_refused() -> None:
    here = present_stamp()
    driver = replace(here, code="0" * 12, versions={**here.versions, "Python": "3.12.0", "other": "1"})

    with pytest.raises(PipelineError) as caught:
        check_stamp(driver)

    python = here.versions["Python"]
    expected = (
        f"highwater's code {here.code} and {'0' * 12}, Python {python} and 3.12.0, other missing and 1; install the same on both"
    )
    assert str(caught.value).partition(f"{MISMATCH}: ")[2] == expected


def test_documented_settings_are_those_of_a_session() -> None:
    """docs/campaigns.md has a table of them."""
    text = (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `spark.")]

    assert rows == [f"| `{setting.key}` | {setting.value} | {setting.why} |" for setting in SETTINGS]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_says_nothing_when_it_starts() -> None:
    """Also of the JVM: Java warns of the modules with which Spark starts it."""
    lack = missing()
    if lack is not None:
        pytest.skip(lack)
    script = "from pipeline.session import session\nwith session('local[1]') as spark:\n    print(spark.range(3).count())"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)

    assert (completed.stdout, completed.stderr) == ("3\n", "")


@pytest.mark.spark
@pytest.mark.slow
def test_event_log_is_switched_on_by_one_option(tmp_path: Path) -> None:
    """Its settings are those of a session on any master; the log can be read by Spark's history server while the job runs."""
    lack = missing()
    if lack is not None:
        pytest.skip(lack)
    script = (
        "import sys\nfrom pipeline.session import session, watched\nwith session('local[1]', watched(sys.argv[1])) as spark:\n"
        "    print(spark.sparkContext.uiWebUrl)\n    spark.range(3).count()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    sizes = {path.name: path.stat().st_size for path in tmp_path.rglob("*") if not path.name.startswith(".")}

    assert completed.stdout.startswith("http://")
    assert any(name.startswith("events_1_") and size for name, size in sizes.items()), sizes
    assert any(name.startswith("appstatus_") and not name.endswith(".inprogress") for name in sizes), sizes
