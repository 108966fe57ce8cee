"""The tables of a dataset of runs: the one definition of their columns. Spark, Polars and DuckDB read them as plain Parquet.

A dataset is partitioned by campaign and protocol. These two columns are in the folder names and not in the files:

    DATASET/<table>/campaign=<name>/protocol=<name>/<part>.parquet

`run` is the key of a run within its campaign. Times are in ns since the start of the run, durations in ns. A column is null where
its meaning does not apply.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
from msgspec import Struct

from history import schema as history_schema

DATASET_VERSION = 1
HIVE = ("campaign", "protocol")  # columns in folder names

Table = Literal["runs", "verdicts", "anomalies", "faults", "windows", "calls", "coverage", "operations", "events"]
TABLES: tuple[Table, ...] = get_args(Table)
OF_A_RECORD = TABLES[:-2]  # kept of every run; operations and events are kept of failures, unless all are asked for

_VERSION_KEY = b"highwater.dataset_version"
_TABLE_KEY = b"highwater.table"
_TEXTS = pa.list_(pa.string())


class Column(Struct, frozen=True, kw_only=True):
    """One column of a table; `words` is its meaning. `required`: never null. `among`: its only values; () if any.

    A number that `counts` is not negative.
    """

    name: str
    type: pa.DataType
    words: str
    required: bool = True
    among: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it holds counts or lengths, and not moments of a run's clock or names."""
        return not self.name.endswith(("_ns", "seed", "process", "partition"))


def _of(name: str, type: pa.DataType, words: str, *, among: tuple[str, ...] = ()) -> Column:
    return Column(name=name, type=type, words=words, among=among)


def _maybe(name: str, type: pa.DataType, words: str) -> Column:
    return Column(name=name, type=type, words=words, required=False)


_RUN = _of("run", pa.string(), "the run: plan name, a slash, run id; unique within a campaign")
_INT, _TEXT, _FLOAT, _FLAG = pa.int64(), pa.string(), pa.float64(), pa.bool_()

_VERDICTS = ("VALID", "UNKNOWN", "INVALID")
_OUTCOMES = ("completed", "interrupted", "incomplete", "harness-fault")

COLUMNS: dict[Table, tuple[Column, ...]] = {
    "runs": (
        _RUN,
        _maybe("seed", _INT, "the seed of the plan; null for a plan written by hand"),
        _of("plan", _TEXT, "name of the plan"),
        _of("plan_digest", _TEXT, "digest of the plan; equal digests are equal plans"),
        _of(
            "mix",
            _TEXT,
            "the fault kinds or mixes that were asked for, joined by commas; empty for the default kinds or if not known",
        ),
        _of("profile", _TEXT, "the profile of the promise: `within` or `beyond`", among=("within", "beyond")),
        _of("workload", _TEXT, "the workload that was asked for; empty where it is not known"),
        _of("backend", _TEXT, "`sim`, `process`, `docker` or another system"),
        _of("commit", _TEXT, "commit of the build that performed the run"),
        _of("outcome", _TEXT, "`completed`, `interrupted`, `incomplete` or `harness-fault`", among=_OUTCOMES),
        _of("verdict", _TEXT, "`VALID`, `UNKNOWN` or `INVALID`", among=_VERDICTS),
        _maybe("live", _FLAG, "whether the cluster was live after healing; null where it was not judged"),
        _of("exit", _INT, "exit code of the run alone"),
        _of("digest", _TEXT, "digest of the history's rows"),
        _maybe("signature", _TEXT, "signature of the cause of a failure (docs/triage.md); null for a run without one"),
        _maybe("cause", _TEXT, "the same in a sentence"),
        _maybe("cause_faults", _TEXTS, "kinds of the faults in effect at that moment, sorted; null as the signature"),
        _of("operations", _INT, "calls of clients"),
        _of("acked", _INT, "acknowledged produce calls"),
        _of("excused", _INT, "lost records that a wound excuses"),
        _of("leader_changes", _INT, "how often a partition's leader changed to another broker"),
        _of("recovery_elections", _INT, "elections of a leader outside of the last ISR that a wound allows"),
        _of("elections_from_elr", _INT, "elections of an eligible leader replica"),
        _of("wounds_counted_on", _INT, "wounds of replicas that the promise counts on"),
        _of("operation_rows", _INT, "rows of the history's operations"),
        _of("event_rows", _INT, "rows of the history's events"),
        _of("fault_windows", _INT, "windows of the schedule"),
        _maybe("healed_ns", _INT, "time at which all faults had ended"),
        _of("end_ns", _INT, "time at which the run ended"),
        _of("sim_seconds", _FLOAT, "simulated seconds"),
        _of("wall_seconds", _FLOAT, "seconds that performing and judging took; differs when a run is repeated"),
        _of("repeat", _TEXT, "the command that repeats the run"),
        _maybe("failure", _TEXT, "failure of the harness, in words"),
    ),
    "verdicts": (
        _RUN,
        _of("checkers", _TEXT, "digest of the checkers that judged; empty where it is not known"),
        _of("verdict", _TEXT, "`VALID`, `UNKNOWN` or `INVALID`", among=_VERDICTS),
        _maybe("live", _FLAG, "whether the cluster was live after healing; null where it was not judged"),
        _of("unchecked", _TEXTS, "what could not be judged, and why"),
        _of("not_live", _TEXTS, "why the cluster was not live"),
        _of("judgement", _TEXT, "the whole verdict as JSON (`verdict.json` of a stored run)"),
    ),
    "anomalies": (
        _RUN,
        _of("kind", _TEXT, "kind of the anomaly"),
        _of("checker", _TEXT, "the checker that found it"),
        _of("key", _TEXT, "`topic-partition`, a client, or empty for the whole run"),
        _of("words", _TEXT, "the anomaly in words"),
        _of("witness", pa.list_(_INT), "indices of the rows that prove it"),
        _maybe("at_ns", _INT, "time at which it was proven: of its last witness"),
        _of("in_effect", _TEXTS, "kinds of the faults in effect at that time, sorted; a window that never acted does not count"),
    ),
    "faults": (
        _RUN,
        _of("kind", _TEXT, "kind of fault"),
        _of("begun", _INT, "how often it was begun"),
        _of("acted", _INT, "how often it took effect"),
    ),
    "windows": (
        _RUN,
        _of("window", _TEXT, "id of the fault window"),
        _of("kind", _TEXT, "kind of fault"),
        _of("nodes", _TEXTS, "brokers that it hurts, sorted"),
        _of("begun_ns", _INT, "begin of the window"),
        _of("ended_ns", _INT, "end of the window; of healing or of the run where it has no end of its own"),
        _of("acted", _INT, "how often it took effect; 0: never"),
        _of(
            "unavailable_ns",
            _INT,
            "the longest time for which clients of one partition tried to produce without an acknowledgement; it began within "
            "the window, or is counted from its begin on",
        ),
        _maybe(
            "recovery_ns",
            _INT,
            "from the end of the window to the first acknowledged produce on the last partition to have one; null where a "
            "partition whose clients went on had none, or no client went on",
        ),
    ),
    "calls": (
        _RUN,
        _of("process", _INT, "the client process"),
        _of("f", _TEXT, "operation: produce, poll, latest, ..."),
        _maybe("topic", _TEXT, "name of the topic"),
        _maybe("partition", _INT, "partition of the topic"),
        _of("type", _TEXT, "`ok`, `fail` or `info`; a call without an answer is `info`", among=("ok", "fail", "info")),
        _of("invoked_ns", _INT, "time of the invocation"),
        _maybe("latency_ns", _INT, "from invocation to completion; null without an answer"),
        _of("records", _INT, "records that it carried or returned"),
        _maybe("error", _TEXT, "why it failed or why its outcome is unknown"),
        _of("in_effect", _TEXTS, "kinds of the faults in effect at the invocation, sorted; empty outside of all windows"),
    ),
    "coverage": (
        _RUN,
        _of("state", _TEXT, "a step or state of the protocol that a broker, controller or ZooKeeper showed (docs/triage.md)"),
        _of("fault", _TEXT, "kind of a fault in effect at that time; empty: none was"),
        _of("count", _INT, "how often"),
    ),
}


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table's files, with the table's name and the dataset version in its metadata."""
    metadata = {_VERSION_KEY: str(DATASET_VERSION).encode(), _TABLE_KEY: table.encode()}
    if table == "operations" or table == "events":
        rows = history_schema.arrow_schema(table)
        return pa.schema([pa.field("run", pa.string(), nullable=False), *rows], metadata=metadata)
    fields = [pa.field(column.name, column.type, nullable=not column.required) for column in COLUMNS[table]]
    return pa.schema(fields, metadata=metadata)


# --- the document ---------------------------------------------------------------------------------------------------------------

MARKER = "<!-- generated: python -m pipeline.tables --rewrite docs/data.md -->\n"


def document() -> str:
    """The tables in docs/data.md, below the marker."""
    return f"\nThe dataset version is {DATASET_VERSION}.\n\n" + "\n".join(map(_section, OF_A_RECORD))


def _section(table: Table) -> str:
    rows = [f"| `{c.name}` | {_type(c.type)} | {'yes' if c.required else ''} | {c.words} |" for c in COLUMNS[table]]
    return "\n".join([f"### {table}", "", "| column | type | always | meaning |", "|---|---|---|---|", *rows, ""])


def _type(type: pa.DataType) -> str:
    return f"list of {type.value_type}" if pa.types.is_list(type) else str(type)


def main(arguments: Sequence[str]) -> int:
    """Write the tables into a document with `--rewrite FILE`. Any other arguments are a usage error (exit code 2)."""
    if len(arguments) != 2 or arguments[0] != "--rewrite":
        sys.stderr.write("usage: python -m pipeline.tables --rewrite docs/data.md\n")
        return 2
    path = Path(arguments[1])
    head, _, _ = path.read_text(encoding="utf-8").partition(MARKER)
    path.write_text(head + MARKER + document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
