"""Isolation levels (consistency models) of transactions, and the anomalies that each of them forbids.

`strong-session-` adds the order within each process, `strong-` real time. Neither affects anomalies within one transaction.
Sources: Adya's thesis (PL-1, PL-2, PL-2+, PL-2.99, PL-3); Cerone, Bernardi and Gotsman for read atomicity, parallel snapshot
isolation (no cycle with one rw) and snapshot isolation (none without two rw in a row).
"""

from checkers.elle.cycles import KINDS

# A history with one of the first three has no order of writes. A phantom is nobody's write, so no level can explain its read.
_UNCOMMITTED = frozenset({"G0", "duplicate-elements", "cyclic-versions", "phantom-read"})
# A transaction that reads its own later write depends on itself: a G1c of one. To write over an aborted write is to have read it
# (G1a).
_COMMITTED = _UNCOMMITTED | {"G1a", "G1b", "G1c", "incompatible-order", "dirty-update", "future-read"}
_ATOMIC = _COMMITTED | {"internal", "fractured-read"}
# Where a cycle with an rw is forbidden, an order of the writes that no read shows must make none.
_CONSISTENT_VIEW = _COMMITTED | {"G-single", "lost-update", "no-version-order"}
_PARALLEL = _ATOMIC | _CONSISTENT_VIEW
_SNAPSHOT = _PARALLEL | {"G-nonadjacent"}
_SERIALIZABLE = _SNAPSHOT | {"G2-item"}
_REPEATABLE = _SERIALIZABLE


def _time_kinds(kinds: frozenset[str], *times: str) -> frozenset[str]:
    return kinds | {kind + time for kind in kinds if kind in KINDS for time in times}


_SESSION = ("-process",)
_REAL = ("-process", "-realtime")

# With several models, an anomaly that any of them forbids is forbidden.
FORBIDS: dict[str, frozenset[str]] = {
    "read-uncommitted": _UNCOMMITTED,
    "read-committed": _COMMITTED,
    "read-atomic": _ATOMIC,
    "cursor-stability": _COMMITTED | {"lost-update"},
    "update-atomic": _ATOMIC | {"lost-update"},
    "consistent-view": _CONSISTENT_VIEW,
    "parallel-snapshot-isolation": _PARALLEL,
    "snapshot-isolation": _SNAPSHOT,
    "repeatable-read": _REPEATABLE,
    "serializable": _SERIALIZABLE,
    "strong-session-read-uncommitted": _time_kinds(_UNCOMMITTED, *_SESSION),
    "strong-session-read-committed": _time_kinds(_COMMITTED, *_SESSION),
    "strong-session-consistent-view": _time_kinds(_CONSISTENT_VIEW, *_SESSION),
    "strong-session-snapshot-isolation": _time_kinds(_SNAPSHOT, *_SESSION),
    "strong-session-serializable": _time_kinds(_SERIALIZABLE, *_SESSION),
    "strong-read-uncommitted": _time_kinds(_UNCOMMITTED, *_REAL),
    "strong-read-committed": _time_kinds(_COMMITTED, *_REAL),
    "strong-consistent-view": _time_kinds(_CONSISTENT_VIEW, *_REAL),
    "strong-snapshot-isolation": _time_kinds(_SNAPSHOT, *_REAL),
    "strong-serializable": _time_kinds(_SERIALIZABLE, *_REAL),
    "strict-serializable": _time_kinds(_SERIALIZABLE, *_REAL),
}
