"""Fault windows as a frame: when and where each fault of the schedule was in force, and which kinds were in effect at a time.

A window without an end of its own lasts until the cluster was healed, else to the end of the run. A time belongs to a window from
its first to its last nanosecond, so that a fault of a moment (a session that expires) is in effect at that moment.
"""

import polars as pl

from history.event import EventKind as K

_ROWS = [str(K.FAULT_BEGUN), str(K.FAULT_ENDED), str(K.FAULT_ACTED)]
_NS_MAX = 2**63 - 1


def windows(events: pl.DataFrame, end_ns: int) -> pl.DataFrame:
    """The fault windows of a run, in the order in which they opened.

    Columns: window, kind, nodes (sorted), begun_ns, ended_ns, acted (0: it never took effect).
    """
    healed = events.filter(pl.col("kind") == str(K.HEALED))["time_ns"]
    closed = end_ns if healed.is_empty() else int(healed[-1])
    is_begun, is_ended, is_acted = (pl.col("kind") == kind for kind in _ROWS)
    found = (
        events.filter(pl.col("kind").is_in(_ROWS) & pl.col("fault").is_not_null())
        .group_by(pl.col("fault").alias("window"), maintain_order=True)
        .agg(
            pl.col("detail").filter(is_begun).first().fill_null("fault").alias("kind"),
            pl.col("node").filter(is_begun).drop_nulls().unique().sort().alias("nodes"),
            pl.col("time_ns").filter(is_begun).first().alias("begun_ns"),
            pl.col("time_ns").filter(is_ended).last().fill_null(closed).alias("ended_ns"),
            pl.col("count").fill_null(1).filter(is_acted).sum().alias("acted"),
        )
    )
    return found.filter(pl.col("begun_ns").is_not_null()).with_columns(
        pl.max_horizontal("begun_ns", "ended_ns").alias("ended_ns")
    )


def kinds_in_effect(window_frame: pl.DataFrame, times: pl.Series) -> pl.Series:
    """For each time in ns (or null) the kinds of the windows that it falls into and that acted, sorted and without repetition.

    `window_frame`: from `windows`. Windows that never took effect, such as a delay of commands when none is sent, are left out.
    """
    acting = list(window_frame.filter(pl.col("acted") > 0).select("begun_ns", "ended_ns", "kind").iter_rows())
    # Between two ends of windows nothing changes: a few dozen intervals answer for all times.
    changes = sorted({begun for begun, _, _ in acting} | {min(ended + 1, _NS_MAX) for _, ended, _ in acting})
    open_at = [sorted({kind for begun, ended, kind in acting if begun <= at <= ended}) for at in changes]
    intervals = pl.DataFrame(
        {"from_ns": changes, "in_effect": open_at}, schema={"from_ns": pl.Int64, "in_effect": pl.List(pl.String)}
    )
    wanted = pl.DataFrame({"time_ns": times}, schema={"time_ns": pl.Int64}).with_row_index("place").sort("time_ns")
    joined = wanted.join_asof(intervals, left_on="time_ns", right_on="from_ns", strategy="backward")
    return joined.sort("place")["in_effect"].fill_null(pl.Series([[]], dtype=pl.List(pl.String)))
