"""The questions of `pipeline.questions`, computed a second time with Polars, with no code of the package."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
from scipy import stats

GROUP = ["campaign", "protocol"]
RUN = [*GROUP, "run"]
FAILED = (pl.col("verdict") == "INVALID") | pl.col("live").eq_missing(False)


class Store:
    """The tables of a dataset as Polars frames."""

    def __init__(self, folder: Path, campaigns: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._campaigns = campaigns

    def table(self, name: str) -> pl.DataFrame:
        text = {"campaign": pl.String, "protocol": pl.String}
        frame = pl.read_parquet(self._folder / name / "**/*.parquet", hive_partitioning=True, hive_schema=text)
        return frame.filter(pl.col("campaign").is_in(self._campaigns)) if self._campaigns else frame


def at_rank(column: str, share: float) -> pl.Expr:
    """The smallest value that at least `share` of the values do not exceed; null without a value."""
    ordered = pl.col(column).drop_nulls().sort()
    rank = (pl.lit(share) * ordered.len()).ceil().cast(pl.Int64).clip(1)
    return pl.when(ordered.len() > 0).then(ordered.get(rank - 1, null_on_oob=True))


def _detection(tried: pl.DataFrame, by: str) -> list[dict[str, object]]:
    rows = []
    for key, own in tried.sort([*GROUP, by, "seed", "run"]).group_by([*GROUP, by], maintain_order=True):
        detects = own["detects"].to_list()
        k, n = sum(detects), len(detects)
        interval = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
        rows.append(
            {
                **dict(zip([*GROUP, by], key, strict=True)),
                "seeds": n,
                "detected": k,
                "share": k / n,
                "share_low": float(interval.low),
                "share_high": float(interval.high),
                "median_seeds": _seeds(k / n),
                "low_seeds": _seeds(float(interval.high)),
                "high_seeds": _seeds(float(interval.low)) if k else None,
                "first_after": detects.index(True) + 1 if k else None,
            }
        )
    return rows


def _seeds(probability: float) -> int | None:
    if probability in (0, 1):
        return int(probability) or None
    return int(stats.geom.median(probability))


def detection(store: Store) -> list[dict[str, object]]:
    return _detection(store.table("runs").with_columns(detects=FAILED), "mix")


def detection_by_fault(store: Store) -> list[dict[str, object]]:
    acted = store.table("faults").filter(pl.col("acted") > 0).select([*RUN, pl.col("kind").alias("fault")])
    return _detection(store.table("runs").with_columns(detects=FAILED).join(acted, on=RUN), "fault")


def _pairs(store: Store) -> pl.DataFrame:
    seen_frame = store.table("coverage")
    kinds = store.table("faults").filter(pl.col("begun") > 0)["kind"].unique().to_list()
    every = store.table("runs").group_by(GROUP).agg(of_runs=pl.len().cast(pl.Int64))
    every = every.join(seen_frame.select("state").unique(), how="cross").join(pl.DataFrame({"fault": ["", *kinds]}), how="cross")
    reached = seen_frame.group_by([*GROUP, "state", "fault"]).agg(runs=pl.col("run").n_unique(), times=pl.col("count").sum())
    joined = every.join(reached, on=[*GROUP, "state", "fault"], how="left").with_columns(pl.col("runs", "times").fill_null(0))
    return joined.select([*GROUP, "state", "fault", pl.col("runs").cast(pl.Int64), "of_runs", "times"])


def coverage(store: Store) -> list[dict[str, object]]:
    return _pairs(store).sort([*GROUP, "state", "fault"]).to_dicts()


def never_reached(store: Store) -> list[dict[str, object]]:
    lacking = pl.col("state").filter(pl.col("runs") == 0)
    frame = (
        _pairs(store)
        .group_by([*GROUP, "fault"])
        .agg(missing=lacking.len(), of_states=pl.len(), states=lacking.sort().str.join(","))
    )
    order = [*GROUP, "missing", "fault"]
    return (
        frame.filter(pl.col("missing") > 0)
        .sort(order, descending=[False, False, True, False])
        .select([*GROUP, "fault", "missing", "of_states", "states"])
        .to_dicts()
    )


def _acted(store: Store) -> pl.DataFrame:
    frame = store.table("runs").select([*RUN, "seed", "repeat"])
    worst = pl.col("recovery_ns").fill_null(2**62).alias("worst")
    return store.table("windows").filter(pl.col("acted") > 0).join(frame, on=RUN).rename({"kind": "fault"}).with_columns(worst)


def recovery(store: Store) -> list[dict[str, object]]:
    def finite(share: float) -> pl.Expr:
        value = at_rank("worst", share)
        return pl.when(value < 2**62).then(value)

    slowest = _acted(store).sort(["worst", "run", "window"], descending=True)
    frame = slowest.group_by([*GROUP, "fault"]).agg(
        windows=pl.len(),
        runs=pl.col("run").n_unique(),
        unavailable_p50_ns=at_rank("unavailable_ns", 0.5),
        unavailable_p90_ns=at_rank("unavailable_ns", 0.9),
        unavailable_max_ns=pl.col("unavailable_ns").max(),
        recovery_p50_ns=finite(0.5),
        recovery_p90_ns=finite(0.9),
        recovery_max_ns=finite(1.0),
        never=pl.col("recovery_ns").is_null().sum(),
        slowest_seed=pl.col("seed").first(),
        slowest_window=pl.col("window").first(),
        slowest_run=pl.col("run").first(),
        repeat=pl.col("repeat").first(),
    )
    return frame.sort([*GROUP, "fault"]).to_dicts()


def slowest(store: Store) -> list[dict[str, object]]:
    ordered = _acted(store).sort(
        [*GROUP, "fault", "worst", "run", "window"], descending=[False, False, False, True, False, False]
    )
    placed = ordered.with_columns(place=pl.int_range(1, pl.len() + 1).over([*GROUP, "fault"])).filter(pl.col("place") <= 3)
    own = ["fault", "place", "recovery_ns", "unavailable_ns", "seed", "run", "window", "nodes", "begun_ns", "repeat"]
    return placed.with_columns(pl.col("nodes").list.join(",")).select([*GROUP, *own]).to_dicts()


def latency(store: Store) -> list[dict[str, object]]:
    calls = store.table("calls")
    outside = calls.filter(pl.col("in_effect").list.len() == 0).with_columns(fault=pl.lit("outside"), place=0)
    within = calls.filter(pl.col("in_effect").list.len() > 0)
    inside = within.with_columns(fault=pl.lit("inside"), place=1)
    each = within.explode("in_effect").with_columns(fault=pl.col("in_effect"), place=2).drop("in_effect")
    cut = pl.col("latency_ns").map_elements(lambda ns: int(str(ns)[:4].ljust(len(str(ns)), "0")), return_dtype=pl.Int64)
    every = pl.concat([outside.drop("in_effect"), inside.drop("in_effect"), each]).with_columns(
        cut=pl.when(pl.col("type") == "ok").then(cut)
    )
    frame = every.group_by([*GROUP, "f", "place", "fault"]).agg(
        calls=pl.len(),
        ok_share=(pl.col("type") == "ok").mean(),
        fail_share=(pl.col("type") == "fail").mean(),
        info_share=(pl.col("type") == "info").mean(),
        p50_ns=at_rank("cut", 0.5),
        p95_ns=at_rank("cut", 0.95),
        p99_ns=at_rank("cut", 0.99),
        max_ns=pl.col("cut").max(),
    )
    return frame.sort([*GROUP, "f", "place", "fault"]).drop("place").to_dicts()


def flaky(store: Store) -> list[dict[str, object]]:
    found = []
    key = ["protocol", "backend", "commit", "plan_digest"]
    runs = (
        store.table("runs")
        .filter(pl.col("outcome") == "completed")
        .sort(["protocol", "backend", "commit", "plan", "plan_digest"])
    )
    for (protocol, backend, commit, digest), own in runs.group_by(key, maintain_order=True):
        words = [f"{v}{' not live' if live is False else ''}" for v, live in own.select("verdict", "live").iter_rows()]
        digests = [d if backend == "sim" else "" for d in own["digest"]]
        ordered = sorted(zip(digests, words, (f"{c}/{r}" for c, r in own.select("campaign", "run").iter_rows()), strict=True))
        if len(set(words)) > 1 or len(set(digests)) > 1:
            found.append(
                {
                    "protocol": protocol,
                    "backend": backend,
                    "commit": commit,
                    "plan_digest": digest,
                    "plan": own["plan"].min(),
                    "runs": len(own),
                    "digests": own["digest"].n_unique(),
                    "verdicts": ",".join(sorted(set(words))),
                    "one": ordered[0][2],
                    "other": ordered[-1][2],
                    "repeat": own["repeat"].min(),
                }
            )
    return found


def triage(store: Store) -> list[dict[str, object]]:
    runs = store.table("runs").filter((pl.col("verdict") != "VALID") | pl.col("live").eq_missing(False))
    failed = runs.with_columns(pl.col("signature").fill_null(""))
    anomalies = (
        store.table("anomalies").join(failed.select([*RUN, "signature"]), on=RUN).with_columns(pl.col("at_ns").fill_null(2**62))
    )
    named = pl.col("signature").str.starts_with(pl.col("kind") + "/" + pl.col("checker"))
    ordered = anomalies.with_columns(other=~named).sort(["other", "at_ns", "kind", "key", "words"])
    first = ordered.group_by(RUN, maintain_order=True).first().select([*RUN, "words", pl.col("in_effect").list.join(",")])
    reasons = store.table("verdicts").select([*RUN, pl.concat_list("not_live", "unchecked").list.first().alias("reason")])
    frame = failed.join(first, on=RUN, how="left").join(reasons, on=RUN, how="left").sort(["fault_windows", "end_ns", "run"])
    frame = frame.with_columns(
        pl.coalesce("words", "failure", "reason", pl.lit("")).alias("words"), pl.col("in_effect").fill_null("")
    )
    shown = ["words", "in_effect", "plan", "seed", "fault_windows", "run", "repeat"]
    counts = [pl.len().alias("runs"), (pl.col("verdict") == "INVALID").sum().alias("invalid")]
    causes = frame.group_by([*GROUP, "signature"]).agg(*counts, *[pl.col(name).first() for name in shown])
    counted = causes.with_columns(pl.col("runs").sum().over(GROUP).alias("failed"))
    by_count = counted.sort([*GROUP, "runs", "signature"], descending=[False, False, True, False])
    return by_count.select([*GROUP, "signature", "runs", "failed", "invalid", *shown]).to_dicts()


ANSWERS: dict[str, Callable[[Store], list[dict[str, object]]]] = {
    "detection": detection,
    "detection-by-fault": detection_by_fault,
    "coverage": coverage,
    "never-reached": never_reached,
    "recovery": recovery,
    "slowest": slowest,
    "latency": latency,
    "flaky": flaky,
    "triage": triage,
}
