"""The only builder of a SparkSession, and the only module that knows the requirements of Spark.

It chooses Java and Python and splits work by cores, not by bytes, because judging is bound by the processor and runs are small. A
session takes 5 to 15 s to start, so it is made once and passed on. On a master other than `local` the executors need this
distribution with its `spark` extra, and a file system shared with the driver.

This module can be imported without PySpark and Java; `missing` reports what is absent.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
JAVA_ANSWERS_WITHIN_S = 30
_PACKAGE = Path(__file__).parent
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # Java 8 and older report 1.8
_MASTER = re.compile(r"local(\[(\*|\d+)(,\d+)?\])?|yarn|(spark|k8s)://.+")


def missing() -> str | None:
    """Say in one sentence what this machine lacks to run Spark; None if nothing is missing."""
    if find_spec("pyspark") is None:
        return "Spark needs PySpark: install highwater with its extra, pip install 'highwater[spark]'"
    wanted = f"Spark needs Java {JAVA_MIN} or later: install it (Debian and Ubuntu: apt-get install openjdk-17-jre-headless)"
    java = _java()
    if java is None:
        return f"{wanted}, or set JAVA_HOME to it; no java was found"
    version = _java_version(java)
    if version is None:
        return f"{wanted}; {java} does not report its version"
    return f"{wanted}; {java} is Java {version}" if version < JAVA_MIN else None


def _java() -> str | None:
    """Return the Java executable that Spark's launcher would use; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWERS_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr)
    return int(found[1]) if found else None


@contextmanager
def session(master: str = "local[*]") -> "Iterator[SparkSession]":
    """Start a Spark session and stop it when the context ends. Inside another session, yield that one and leave it running.

    Raises PipelineError where a requirement is missing or the master cannot be reached.
    """
    if not _MASTER.fullmatch(master):
        raise PipelineError(
            f"{master!r} is not a Spark master; use 'local[*]', 'local[4]', 'spark://host:port', 'k8s://...' or 'yarn'"
        )
    lack = missing()
    if lack is not None:
        raise PipelineError(lack)
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    spark = _build(master)
    try:
        yield spark
    finally:
        spark.stop()


def _build(master: str) -> "SparkSession":
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("highwater")
    for key, value in _settings(master):
        builder = builder.config(key, value)
    # The executors must run this Python with its libraries.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        spark = builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise PipelineError(f"Spark did not start with master {master!r}: {_first_line(error)}") from error
    partitions = 2 * spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return spark


def _settings(master: str) -> tuple[tuple[str, str], ...]:
    everywhere = (
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        # Adaptive plans merge partitions of few bytes: ten small runs would become one task.
        ("spark.sql.adaptive.enabled", "false"),
        ("spark.executorEnv.PYTHONPATH", str(_PACKAGE.parent)),
        # Spark starts a worker for each core; a thread pool in each worker would compete for the same cores.
        ("spark.executorEnv.POLARS_MAX_THREADS", "1"),
    )
    logging = f"-Dlog4j2.configurationFile={(_PACKAGE / 'log4j2.properties').as_uri()}"
    if not master.startswith("local"):
        return (*everywhere, ("spark.driver.extraJavaOptions", logging))
    return (
        *everywhere,
        # The host name of a laptop often does not resolve, and no other machine needs it.
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        # The JVM lives for a minute and Python does the work: the optimizing compiler costs more than it saves.
        ("spark.driver.extraJavaOptions", f"{logging} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
