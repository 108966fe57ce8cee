"""The fault windows of a run, read from its events."""

import polars as pl

from checkers.causes.fault_windows import windows
from reports.windows import FaultWindow, category_of


def windows_of(events: pl.DataFrame, end_ns: int) -> tuple[FaultWindow, ...]:
    """All windows in the order in which they opened. Windows that are still open end at healing, else at `end_ns`."""
    return tuple(
        FaultWindow(
            id=id, kind=kind, category=category_of(kind), nodes=tuple(nodes), start_ns=start_ns, end_ns=last_ns, acted=acted
        )
        for id, kind, nodes, start_ns, last_ns, acted in windows(events, end_ns).iter_rows()
    )
