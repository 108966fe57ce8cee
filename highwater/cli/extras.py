"""Which extra of the package brings what a command lacks.

`pip install highwater-harness` brings the judges of recorded histories alone (docs/decisions/0057-extras.md). A command whose
import fails for another package ends with one sentence that names the extra.
"""

PACKAGE = "highwater-harness"

# Names of imports, by the extra that brings them; an extra that includes another one comes after it.
EXTRAS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("sim", ("polars", "pyarrow", "scipy", "crc32c", "duckdb", "sqlglot")),
    ("real", ("kazoo", "kio", "prometheus_client", "aiokafka", "cramjam", "confluent_kafka")),
    ("docker", ("docker", "requests", "packaging")),
    ("spark", ("pyspark", "py4j", "pandas")),
    ("connect", ("grpc", "zstandard")),
    ("s3", ("obstore",)),
    ("serve", ("starlette", "uvicorn")),
    ("pytest", ("pytest", "hypothesis")),
)


def missing_extra(error: ModuleNotFoundError, command: str) -> str | None:
    """Say in one sentence which extra a command lacks; None if the module that was not found is of no extra."""
    missing = (error.name or "").partition(".")[0]
    extra = next((extra for extra, names in EXTRAS if missing in names), None)
    if extra is None:
        return None
    return f"{command} needs {missing}, which the extra {extra} brings: pip install '{PACKAGE}[{extra}]'"
