"""The only builder of a SparkSession, and the only module that knows the requirements and settings of Spark.

It chooses Java, Python and settings that fit jobs of hours: work is split by cores, not by bytes, because judging is bound by the
processor and runs are small. A session takes 5 to 15 s to start, so it is made once and passed on.

This module can be imported without PySpark and Java; `missing` reports what is absent.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pipeline.errors import PipelineError
from pipeline.jvm_errors import without_start_warning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
JAVA_ANSWERS_WITHIN_S = 30
_PACKAGE = Path(__file__).parent
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # Java 8 and older report 1.8
CONNECT = "sc://"  # the master is a server of Spark Connect
SUBMITTED = "submitted"  # the master that `spark-submit` was given
TASK_FAILURES_MAX = 4
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,(\d+))?\])?")
_MASTER = re.compile(r"local-cluster\[\d+,\d+,\d+\]|yarn|submitted|(spark|k8s|sc)://.+")
_LOGGING = _PACKAGE / "log4j2.properties"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_EXECUTOR_JAVA_OPTIONS = "spark.executor.extraJavaOptions"
_PYTHON = "spark.pyspark.python"
# Lines of Spark's error text that say where, or that one thread waited for another.
_SAYS_NOTHING = re.compile(r"An error occurred while calling|at |.*Exception thrown in awaitResult")
_FORMS = {
    "a size such as 512m or 2g": re.compile(r"\d+[kmgt]b?", re.IGNORECASE),
    "a time such as 30s or 5min": re.compile(r"\d+(us|ms|s|m|min|h|d)"),
    "true or false": re.compile(r"true|false"),
    "a whole number": re.compile(r"\d+"),
}


class Setting(Struct, frozen=True):
    """A setting of Spark that every session starts with, unless `--spark-conf` gives another value."""

    key: str
    value: str
    why: str


SETTINGS = (
    Setting("spark.driver.memory", "1g", "memory of the driver's JVM; the ledger is read in Python, so it stays small"),
    Setting("spark.executor.memory", "1g", "memory of an executor's JVM; the Python workers are beside it"),
    Setting(
        "spark.executor.memoryOverhead", "2g", "memory for the Python workers of an executor, where YARN or Kubernetes counts it"
    ),
    Setting(
        "spark.network.timeout", "600s", "an executor that does not answer this long is dead; one that ends is noticed at once"
    ),
    Setting("spark.executor.heartbeatInterval", "30s", "how often an executor reports to the driver"),
    Setting("spark.task.maxFailures", str(TASK_FAILURES_MAX), "how often one task may fail before the job ends"),
    Setting("spark.excludeOnFailure.enabled", "false", "one item that kills its worker must not exclude a machine"),
    Setting("spark.speculation", "false", "a second copy of a slow task would only do its items twice"),
    Setting("spark.python.worker.reuse", "true", "a Python worker imports Polars and the checkers once"),
    Setting("spark.sql.adaptive.enabled", "true", "questions get as many tasks after a shuffle as their bytes need"),
    Setting(
        "spark.sql.sources.parallelPartitionDiscovery.threshold",
        "1000000",
        "files of a dataset are listed by the driver: a Spark job for it takes twenty times as long",
    ),
    Setting("spark.ui.enabled", "false", "no web page of Spark"),
    Setting("spark.ui.showConsoleProgress", "false", "no progress bar of Spark"),
    Setting(
        "spark.executorEnv.POLARS_MAX_THREADS", "1", "Spark starts a worker for each core, and thread pools would compete for it"
    ),
)

_DEFAULTS = {setting.key: setting.value for setting in SETTINGS}


def missing() -> str | None:
    """Say in one sentence what this machine lacks to run Spark; None if nothing is missing."""
    if find_spec("pyspark") is None:
        return "Spark needs PySpark: install highwater with its extra, pip install 'highwater-harness[spark]'"
    advice = f"Spark needs Java {JAVA_MIN} or later: install it (Debian and Ubuntu: apt-get install openjdk-17-jre-headless)"
    java = _java()
    if java is None:
        return f"{advice}, or set JAVA_HOME to it; no java was found"
    version = _java_version(java)
    if version is None:
        return f"{advice}; {java} does not report its version"
    return f"{advice}; {java} is Java {version}" if version < JAVA_MIN else None


def missing_to_connect() -> str | None:
    """As `missing`, for a session of Spark Connect: it needs no Java here."""
    if find_spec("pyspark") is None or find_spec("grpc") is None:
        return "Spark Connect needs its client: install highwater with its extra, pip install 'highwater-harness[connect]'"
    return None


def _java() -> str | None:
    """Return the Java executable that Spark's launcher would use; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _java_version(java: str) -> int | None:
    """The major version of this Java; None if it does not answer."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWERS_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr)
    return int(match[1]) if match else None


def parse_conf(texts: Sequence[str]) -> dict[str, str]:
    """Parse settings of Spark given as `key=value`, the later one counts. Raises PipelineError for a text that is none."""
    conf = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not re.fullmatch(r"spark\.[A-Za-z0-9._-]+", key) or not value:
            raise PipelineError(f"a Spark setting is key=value with a key that begins with spark., not {text!r}")
        if key == "spark.master":
            raise PipelineError("the master of Spark is not a setting; give it as --spark MASTER")
        form = next((form for form, rule in _FORMS.items() if rule.fullmatch(_DEFAULTS.get(key, ""))), None)
        if form is not None and not _FORMS[form].fullmatch(value):
            raise PipelineError(f"{key} must be {form}, not {value!r}")
        conf[key] = value
    return conf


def watched(folder: str) -> dict[str, str]:
    """The settings with which Spark shows its web pages, and writes its event log to a folder that exists, or to a URI."""
    place = folder if "://" in folder else Path(folder).absolute().as_uri()
    return {"spark.ui.enabled": "true", "spark.eventLog.enabled": "true", "spark.eventLog.dir": place}


def full_master(master: str) -> str:
    """The master in Spark's words: a local one repeats failed tasks, which `local[N]` alone does not.

    Raises PipelineError for a text that is no master.
    """
    local = _LOCAL.fullmatch(master)
    if local is not None:
        return f"local[{local[1] or 1},{local[2] or TASK_FAILURES_MAX}]"
    if not _MASTER.fullmatch(master):
        raise PipelineError(
            f"{master!r} is not a Spark master; use 'local[*]', 'local[4]', 'spark://host:port', 'sc://host:port', 'k8s://...', "
            f"'yarn', or {SUBMITTED!r} under spark-submit"
        )
    if master == SUBMITTED and "PYSPARK_GATEWAY_PORT" not in os.environ:
        raise PipelineError(f"the master {SUBMITTED!r} is only known under spark-submit")
    return master


@contextmanager
def session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> "Iterator[SparkSession]":
    """Start a Spark session and stop it when the context ends. Inside another session, yield that one and leave it running.

    `conf`: settings that replace or extend `SETTINGS` (`parse_conf`). Raises PipelineError where a requirement is missing, the
    master cannot be reached, or a Spark job within the context fails.
    """
    full = full_master(master)
    connects = full.startswith(CONNECT)
    lack = missing_to_connect() if connects else missing()
    if lack is not None:
        raise PipelineError(lack)
    from pyspark.sql import SparkSession

    running = None if connects else SparkSession.getActiveSession()
    if running is not None:
        with _errors_in_one_line():
            yield running
        return
    spark = _connected_session(full, dict(conf or {})) if connects else _started_session(full, dict(conf or {}))
    try:
        with _errors_in_one_line():
            yield spark
    finally:
        spark.stop()


@contextmanager
def session_if_asked(master: str | None, conf: Mapping[str, str]) -> "Iterator[SparkSession | None]":
    """Start a session as `session` does; without a master give None."""
    if master is None:
        yield None
        return
    with session(master, conf=conf) as started:
        yield started


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Turn the error of a Spark job, with its stack traces of Java and Python, into one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise PipelineError(f"the Spark job ended: {cause(str(error))}") from error


def cause(text: str) -> str:
    """The line of Spark's error text that says what happened: the last of a Python traceback, else the first sentence."""
    python = re.findall(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", text, re.MULTILINE)
    if "Traceback (most recent call last)" in text and python:
        kind, words = python[-1] if python[-1][0] != "PythonException" else python[0]
        return words.strip() if kind == "PipelineError" else f"{kind}: {words.strip()}"
    lines = [line.strip() for line in text.strip().splitlines()]
    said = (line.removeprefix("Caused by: ").removeprefix(": ") for line in lines if line)
    useful = [line for line in said if not _SAYS_NOTHING.match(line)]
    found = useful[0] if useful else "Spark does not say why"
    # A job that is aborted says in one line how often it was tried and what happened last.
    return re.sub(r"^(?:(?:[a-z]\w*\.)+\w+: )+", "", found)


def _connected_session(address: str, conf: dict[str, str]) -> "SparkSession":
    """Open a session of Spark Connect. The server has settings of its own. Raises PipelineError with Spark's reason."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(address).getOrCreate()
        for key, value in conf.items():
            spark.conf.set(key, value)
    except (PySparkException, OSError, RuntimeError) as error:
        raise PipelineError(f"Spark did not answer at {address!r}: {cause(str(error))}") from error
    return spark


def _started_session(master: str, conf: dict[str, str]) -> "SparkSession":
    """Start a Spark session. Raises PipelineError with Spark's reason."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # The executors must run this Python with its libraries, or the one of an environment that was shipped to them.
    own_python = master.startswith("local") or (_PYTHON not in conf and "PYSPARK_PYTHON" not in os.environ)
    if own_python or _PYTHON in conf:
        os.environ["PYSPARK_PYTHON"] = sys.executable if own_python else conf[_PYTHON]
    settings = _spark_settings(master, conf, own_python=own_python)
    builder = SparkSession.builder.appName("highwater")
    try:
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            SparkContext._ensure_initialized()
            settings = _without_submitted(settings, conf)
        if master != SUBMITTED:
            builder = builder.master(master)
        for key, value in settings.items():
            builder = builder.config(key, value)
        with without_start_warning():
            return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise PipelineError(f"Spark did not start with master {master!r}: {cause(str(error))}") from error


def _without_submitted(settings: dict[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """The settings without those that `spark-submit` was given, unless `--spark-conf` repeats them.

    Its JVM runs already, with Spark's way to log: a line and a stack trace for each task that is tried again.
    """
    from pyspark import SparkConf

    submitted = SparkConf()
    quiet = {"spark.log.level": "FATAL"} | settings
    return {key: value for key, value in quiet.items() if key in conf or not submitted.contains(key)}


def _spark_settings(master: str, conf: Mapping[str, str], *, own_python: bool) -> dict[str, str]:
    """Spark's settings: our defaults, those of this machine, then the user's."""
    settings = dict(_DEFAULTS)
    # A worker that runs this Python on this file system imports this code. A shipped environment has its own.
    if own_python:
        settings["spark.executorEnv.PYTHONPATH"] = str(_PACKAGE.parent)
    # The host name of a laptop often does not resolve, and no other machine needs it.
    if re.match(r"local|spark://(127\.0\.0\.1|localhost):", master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= conf
    # Python does the work: the optimizing compiler and the collector's threads of a short-lived JVM cost more than they save.
    short_lived = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" if master.startswith("local") else ""
    if short_lived:
        settings.setdefault(_EXECUTOR_JAVA_OPTIONS, short_lived)
    java = conf.get(_JAVA_OPTIONS, short_lived)
    settings[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {java}".strip()
    return settings
