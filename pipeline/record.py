"""The record of a run: what the dataset keeps of it, as one Arrow table for each table of `pipeline.tables`.

A record is made where the run was judged, and stored (`pipeline.record_file`) until `pipeline.dataset` takes it apart again. A
run that the harness could not perform has a record, too: its row in `runs` and nothing else.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import polars as pl
import pyarrow as pa
from msgspec import Struct

from checkers.causes.fault_windows import kinds_in_effect, windows
from checkers.causes.signature import proof, signature
from checkers.causes.steps import leader_changes, steps
from checkers.engine.verdict import Verdict
from history.history import History
from history.manifest import Outcome
from history.op import OpType
from pipeline.tables import OF_A_RECORD, Table, arrow_schema

HARNESS_FAILED = "harness-fault"


class Known(Struct, frozen=True, kw_only=True):
    """What the harness knows of a run beside its history and its verdict. The columns of `runs` say what each field means."""

    plan: str
    run_id: str
    protocol: str
    seed: int | None = None
    plan_digest: str = ""
    mix: str = ""
    profile: str = "within"
    workload: str = ""
    backend: str = "sim"
    commit: str = ""
    checkers: str = ""  # digest of the checkers that judged
    outcome: Outcome = "completed"
    exit: int = 0
    repeat: str = ""
    failure: str | None = None
    sim_seconds: float = 0.0
    wall_seconds: float = 0.0

    @property
    def run(self) -> str:
        """The key of the run within its campaign."""
        return f"{self.plan}/{self.run_id}"


class Record(Struct, frozen=True, kw_only=True):
    """The tables of one run, one for each name in `OF_A_RECORD`, with the schemas of `pipeline.tables`."""

    protocol: str
    tables: dict[Table, pa.Table]

    @property
    def run(self) -> str:
        """The key of the run within its campaign."""
        return str(self.tables["runs"]["run"][0].as_py())


def record_of(facts: Known, history: History, verdict: Verdict) -> Record:
    """The record of a run that was judged."""
    events, end_ns = history.events_frame, history.manifest.end_ns
    calls, faults = calls_of(history.operations_frame), windows(events, end_ns)
    rows: dict[Table, pl.DataFrame | Sequence[Mapping[str, object]]] = {
        "runs": [_unjudged_run(facts) | _columns_of_outcome(history, verdict, calls, faults)],
        "verdicts": [_row_of_verdict(facts, verdict)],
        "anomalies": _frame_of_anomalies(history, verdict, faults),
        "faults": [msgspec.structs.asdict(count) for count in history.manifest.faults],
        "windows": _with_unavailability(faults, calls),
        "calls": calls.with_columns(kinds_in_effect(faults, calls["invoked_ns"])),
        "coverage": _frame_of_coverage(events, faults),
    }
    return Record(protocol=facts.protocol, tables={table: _arrow_table(table, rows[table], facts.run) for table in OF_A_RECORD})


def record_of_failure(facts: Known) -> Record:
    """The record of a run without a history, because the harness failed."""
    rows: dict[Table, Sequence[Mapping[str, object]]] = {"runs": [_unjudged_run(facts)]}
    return Record(
        protocol=facts.protocol, tables={table: _arrow_table(table, rows.get(table, ()), facts.run) for table in OF_A_RECORD}
    )


def _arrow_table(table: Table, rows: pl.DataFrame | Sequence[Mapping[str, object]], run: str) -> pa.Table:
    """Rows as an Arrow table of this schema, with the run's key in each."""
    schema = arrow_schema(table)
    if not isinstance(rows, pl.DataFrame):
        return pa.Table.from_pylist([{**row, "run": run} for row in rows], schema=schema)
    named = rows.with_columns(pl.lit(run).alias("run")).select(schema.names)
    return named.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)


# --- runs, verdicts, anomalies --------------------------------------------------------------------------------------------------


_COUNTED = ("recovery_elections", "elections_from_elr", "wounds_counted_on")  # by checkers
_COUNTS = (
    *("operations", "acked", "excused", "leader_changes", *_COUNTED),
    *("operation_rows", "event_rows", "fault_windows", "end_ns"),
)


def _unjudged_run(facts: Known) -> dict[str, object]:
    """The row of `runs` before anything was judged: UNKNOWN, with no rows."""
    failed: dict[str, object] = {}
    if facts.outcome == HARNESS_FAILED:
        failed = {"signature": HARNESS_FAILED, "cause": facts.failure, "cause_faults": ()}
    own = {name: value for name, value in msgspec.structs.asdict(facts).items() if name not in ("run_id", "protocol", "checkers")}
    return {**dict.fromkeys(_COUNTS, 0), "verdict": "UNKNOWN", "digest": "", **failed, **own}


def _columns_of_outcome(history: History, verdict: Verdict, calls: pl.DataFrame, faults: pl.DataFrame) -> dict[str, object]:
    """The columns of a run that depend on its history and verdict."""
    manifest, counts = history.manifest, verdict.counts
    failure = signature(history, verdict)
    own: dict[str, object] = {}
    if failure is not None:
        own = {"signature": failure.text, "cause": failure.sentence, "cause_faults": failure.in_effect}
    return own | {
        "verdict": verdict.validity.name,
        "live": verdict.live,
        "digest": manifest.digest,
        "operations": calls.height,
        "acked": calls.filter(_IS_ACKED).height,
        "excused": len(verdict.excused),
        "leader_changes": leader_changes(history.events_frame),
        **{name: counts.get(name, 0) for name in _COUNTED},
        "operation_rows": history.operation_rows,
        "event_rows": history.events_frame.height,
        "fault_windows": faults.height,
        "healed_ns": manifest.healed_at_ns,
        "end_ns": manifest.end_ns,
    }


def _row_of_verdict(facts: Known, verdict: Verdict) -> dict[str, object]:
    """The row of one judgement."""
    return {
        "checkers": facts.checkers,
        "verdict": verdict.validity.name,
        "live": verdict.live,
        "unchecked": verdict.unchecked,
        "not_live": verdict.not_live,
        "judgement": msgspec.json.encode(verdict).decode(),
    }


def _frame_of_anomalies(history: History, verdict: Verdict, faults: pl.DataFrame) -> pl.DataFrame:
    """A row for each anomaly: its words, its proof's index and time, and the faults in effect then."""
    columns = ("kind", "checker", "key", "words", "witness")
    texts: dict[str, pl.DataType] = {name: pl.String() for name in columns[:4]}
    rows = [(*(getattr(anomalies, name) for name in columns), proof(anomalies)) for anomalies in verdict.anomalies]
    anomalies = pl.DataFrame(rows, schema=texts | {"witness": pl.List(pl.Int64), "index": pl.Int64()}, orient="row")
    times = pl.concat([frame.select("index", "time_ns") for frame in (history.operations_frame, history.events_frame)])
    proofs = times.filter(pl.col("index").is_in(anomalies["index"].to_list())).unique("index")
    timed = anomalies.join(proofs, on="index", how="left", maintain_order="left").rename({"time_ns": "at_ns"})
    in_effect = kinds_in_effect(faults, timed["at_ns"])
    return timed.with_columns(in_effect.alias("in_effect"))


# --- calls ----------------------------------------------------------------------------------------------------------------------

_IS_ACKED = (pl.col("f") == "produce") & (pl.col("type") == str(OpType.OK))


def calls_of(operations: pl.DataFrame) -> pl.DataFrame:
    """The calls of clients, in the order of invocation: an invocation with the completion that follows it in its process.

    Columns: those of `calls` without `run` and `in_effect`, and `ended_ns`, `acks`.
    """
    records = operations.group_by("index").agg(pl.col("value").is_not_null().sum().alias("records"))
    first = operations.sort("index", "slot").unique("index", keep="first", maintain_order=True)
    following = {name: pl.col(name).shift(-1).over("process") for name in ("index", "type", "time_ns", "error")}
    calls = first.with_columns(expression.alias(f"next_{name}") for name, expression in following.items())
    calls = calls.filter(pl.col("type") == str(OpType.INVOKE))
    answered = pl.col("next_type") != str(OpType.INVOKE)
    counted = pl.when(answered & (pl.col("f") == "poll")).then("next_index").otherwise("index")
    return (
        calls.with_columns(counted.alias("counted"))
        .join(records, left_on="counted", right_on="index", how="left", maintain_order="left")
        .with_columns(ended_ns=pl.when(answered).then("next_time_ns"))
        .select(
            "process",
            "f",
            "topic",
            "partition",
            pl.when(answered).then("next_type").otherwise(pl.lit(str(OpType.INFO))).alias("type"),
            pl.col("time_ns").alias("invoked_ns"),
            (pl.col("ended_ns") - pl.col("time_ns")).alias("latency_ns"),
            pl.col("records").cast(pl.Int64),
            pl.when(answered).then("next_error").alias("error"),
            "ended_ns",
            "acks",
        )
    )


# --- windows --------------------------------------------------------------------------------------------------------------------

_PARTITION = ("topic", "partition")


def _with_unavailability(faults: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The windows with `unavailable_ns` and `recovery_ns`, from the produce calls of all partitions.

    A silence begins when a window begins or a produce is acknowledged within it, if a client waits for an answer then, else with
    the next try. It ends with the next acknowledgement of the partition, else with the last sign of a client.
    """
    produced = calls.filter((pl.col("f") == "produce") & pl.col("topic").is_not_null())
    acks = produced.filter(_IS_ACKED & (pl.col("acks") != 0)).select(*_PARTITION, acked_ns="ended_ns")
    last = produced.group_by(_PARTITION).agg(pl.max_horizontal("invoked_ns", "ended_ns").max().alias("last_ns"))
    places = faults.select("window", "begun_ns", "ended_ns").join(last, how="cross")
    recovery = (
        _joined_frame(places.filter(pl.col("last_ns") >= pl.col("ended_ns")), acks, "acked_ns", at="ended_ns")
        .group_by("window")
        .agg(pl.when(pl.col("acked_ns").is_not_null().all()).then((pl.col("acked_ns") - pl.col("ended_ns")).max()))
        .rename({"acked_ns": "recovery_ns"})
    )
    within = places.join(acks, on=_PARTITION).filter(pl.col("acked_ns").is_between("begun_ns", "ended_ns"))
    columns = ("window", *_PARTITION, "ended_ns", "last_ns")
    points = pl.concat([places.select(*columns, at_ns="begun_ns"), within.select(*columns, at_ns="acked_ns")])
    silent = _joined_frame(_with_next_try(points, produced), acks, "acked_ns", strictly=True)
    until = pl.col("acked_ns").fill_null(pl.col("last_ns"))
    unavailable = (
        silent.filter((pl.col("from_ns") <= pl.col("ended_ns")) & (pl.col("from_ns") < until))
        .group_by("window")
        .agg((until - pl.col("from_ns")).max().alias("unavailable_ns"))
    )
    joined = faults.join(unavailable, on="window", how="left").join(recovery, on="window", how="left")
    return joined.sort("begun_ns", maintain_order=True).with_columns(pl.col("unavailable_ns").fill_null(0))


def _with_next_try(points: pl.DataFrame, produced: pl.DataFrame) -> pl.DataFrame:
    """The points with `from_ns`, when a client next waits for an answer: at once if a call is open, else with the next try."""
    tries = produced.select(*_PARTITION, tried_ns="invoked_ns")
    begun = produced.select(*_PARTITION, change_ns="invoked_ns", change=pl.lit(1))
    ended = produced.select(*_PARTITION, change_ns="ended_ns", change=pl.lit(-1)).drop_nulls("change_ns")
    changes = pl.concat([begun, ended]).sort("change_ns").with_columns(open_calls=pl.col("change").cum_sum().over(_PARTITION))
    counted = changes.group_by(*_PARTITION, "change_ns", maintain_order=True).agg(pl.col("open_calls").last())
    now = _joined_frame(points, counted, "change_ns", strategy="backward")
    waiting = pl.when(pl.col("open_calls") > 0).then("at_ns").otherwise("tried_ns")
    return _joined_frame(now, tries, "tried_ns").with_columns(waiting.alias("from_ns"))


def _joined_frame(
    points: pl.DataFrame,
    moments: pl.DataFrame,
    moment: str,
    *,
    at: str = "at_ns",
    strategy: Literal["forward", "backward"] = "forward",
    strictly: bool = False,
) -> pl.DataFrame:
    """Join to each point of a partition the next (or last) moment of this partition; null where there is none."""
    return points.sort(at).join_asof(
        moments.sort(moment),
        left_on=at,
        right_on=moment,
        by=_PARTITION,
        strategy=strategy,
        allow_exact_matches=not strictly,
        coalesce=False,
        check_sortedness=False,
    )


# --- coverage -------------------------------------------------------------------------------------------------------------------


def _frame_of_coverage(events: pl.DataFrame, faults: pl.DataFrame) -> pl.DataFrame:
    """How often each state was reached under each kind of fault, "" for none."""
    reached = steps(events)
    counted = reached.with_columns(kinds_in_effect(faults, reached["time_ns"]).alias("fault"))
    return (
        counted.explode("fault", empty_as_null=True)
        .group_by(pl.col("step").alias("state"), pl.col("fault").fill_null(""))
        .agg(pl.len().cast(pl.Int64).alias("count"))
        .sort("state", "fault")
    )
