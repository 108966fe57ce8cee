"""Made-up answers: one row or two of each question, and a comparison of two campaigns."""

from reports.analytics import AnalyticsPage, Comparison, DiffPage, Part, Row, page_of, protocol_views

MS = 1_000_000


def part(name: str, *rows: Row) -> Part:
    """An answer whose columns are those of its first row."""
    columns = tuple((column, f"meaning of {column}") for column in (rows[0] if rows else {}))
    return Part(name=name, title=name.capitalize(), words=f"Words of {name}?", columns=columns, rows=rows)


def detected(protocol: str, k: int, low: int, median: int | None, high: int | None) -> Row:
    return {
        "campaign": "now",
        "protocol": protocol,
        "mix": "",
        "seeds": 50,
        "detected": k,
        "share": k / 50,
        "median_seeds": median,
        "low_seeds": low,
        "high_seeds": high,
    }


def reached(state: str, fault: str, runs: int) -> Row:
    return {
        "campaign": "now",
        "protocol": "safe",
        "state": state,
        "fault": fault,
        "runs": runs,
        "of_runs": 50,
        "times": 2 * runs,
    }


def recovered(fault: str, p50: int, longest: int | None) -> Row:
    quantiles = {"recovery_p50_ns": p50 * MS, "recovery_p90_ns": 2 * p50 * MS, "recovery_max_ns": longest}
    unavailable = {"unavailable_p50_ns": 300 * MS, "unavailable_p90_ns": 2_500 * MS, "unavailable_max_ns": 3_000 * MS}
    return {"campaign": "now", "protocol": "safe", "fault": fault, **unavailable, **quantiles, "never": int(longest is None)}


def timed(fault: str, p50: int | None) -> Row:
    quantiles = {f"{name}_ns": None if p50 is None else p50 * n * MS for n, name in enumerate(("p50", "p95", "p99", "max"), 1)}
    return {"campaign": "now", "protocol": "safe", "f": "produce", "fault": fault, "calls": 9, "ok_share": 0.875, **quantiles}


def cause(signature: str, runs: int) -> Row:
    return {
        "campaign": "now",
        "protocol": "v3",
        "signature": signature,
        "runs": runs,
        "failed": 40,
        "words": "b3 truncated <p1-15> at offset 0",
        "in_effect": "clog,crash-leader",
        "fault_windows": 3,
        "repeat": "highwater run --seed 15 --protocol v3",
    }


def parts() -> list[Part]:
    reaching = (("a", "", 50), ("a", "clog", 1), ("b", "", 20), ("b", "clog", 0))
    return [
        part(
            "detection",
            detected("safe", k=0, low=10, median=None, high=None),
            detected("v3", k=25, low=1, median=1, high=2),
            detected("weak", k=3, low=6, median=12, high=41),
        ),
        part(
            "coverage",
            *(reached(state, fault, runs) for state, fault, runs in reaching),
        ),
        part("recovery", recovered("clog", 800, 4_000 * MS), recovered("pause-long", 1_500, None)),
        part("latency", timed("outside", 2), timed("inside", 30), timed("clog", None)),
        part("flaky"),
        part("triage", cause("truncated-committed/log-matching/truncate", 30), cause("", 10)),
    ]


def analytics_page() -> AnalyticsPage:
    return page_of(parts(), title="All questions", dataset="d", repeat="highwater query all --dataset d")


def compared(what: str, subject: str, before: int | None, after: int | None, *, worse: bool = False) -> Comparison:
    return Comparison(
        protocol="safe",
        what=what,
        subject=subject,
        before=before,
        of_before=50,
        after=after,
        of_after=40,
        changed=None if what == "coverage" else 2,
        p=None if what == "invalid" else 0.0001 if worse else 1.0,
        worse=worse,
    )


def comparisons() -> list[Comparison]:
    return [
        compared("invalid", "", 0, 2, worse=True),
        compared("recovery", "pause-long", 1_000 * MS, after=None, worse=True),
        compared("coverage", "truncate, clog", 30, 0, worse=True),
        compared("not-live", "", 1, 0),
        compared("new-anomaly", "lost-write", 3, 1),
        compared("recovery", "clog", 1_000 * MS, 900 * MS),
        compared("coverage", "became-leader, clog", 30, 24),
        compared("coverage", "became-leader, no fault", 1, 0),
    ]


def diff_page() -> DiffPage:
    rows = comparisons()
    return DiffPage(
        before="one",
        after="two",
        result="Worse, invalid",
        tone="invalid",
        repeat="highwater diff one two --dataset d",
        rules=("A rule.",),
        worse=tuple(row for row in rows if row.worse),
        protocols=protocol_views(rows, before="one", after="two"),
    )
