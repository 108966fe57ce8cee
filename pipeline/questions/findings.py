"""What a comparison of two campaigns finds: one row for each thing compared, and the levels by which it counts as worse."""

from collections.abc import Iterable
from typing import Literal

import pyarrow as pa
from msgspec import Struct, structs

from pipeline.questions.question import columns

LEVEL = 0.01
TOLERATED = 10  # percent of recovery

What = Literal["new-anomaly", "invalid", "not-live", "unknown", "recovery", "coverage", "protocol"]


class Finding(Struct, frozen=True, kw_only=True):
    """One comparison: `before` of `of_before` plans against `after` of `of_after`; of recovery, medians in ns of that many plans.

    `changed` counts plans of both campaigns that became worse. `p` is corrected for the number of tests; null without a test.
    """

    protocol: str
    what: What
    subject: str  # kind of anomaly, fault kind, or `state, fault`
    before: int | None
    of_before: int
    after: int | None
    of_after: int
    changed: int | None = None
    p: float | None = None
    worse: bool = False


COLUMNS = columns(
    protocol="protocol variant",
    what="`new-anomaly`, `invalid`, `not-live`, `unknown`, `recovery`, `coverage` or `protocol`",
    subject="kind of anomaly, fault kind, or protocol state and fault",
    before="plans of the first campaign that show it; for recovery the median in ns (null: never)",
    of_before="plans of the first campaign; for recovery those whose fault took effect",
    after="the same of the second campaign",
    of_after="the same of the second campaign",
    changed="plans of both campaigns that became worse; null where plans are not paired",
    p="one-sided p, corrected for the number of tests; null where no test was needed",
    worse="whether the second campaign is worse",
)


def table_of(findings: Iterable[Finding]) -> pa.Table:
    """The findings as a table with `COLUMNS`."""
    texts, numbers = ("protocol", "what", "subject"), ("before", "of_before", "after", "of_after", "changed")
    fields = [(n, pa.string()) for n in texts] + [(n, pa.int64()) for n in numbers] + [("p", pa.float64()), ("worse", pa.bool_())]
    return pa.Table.from_pylist([structs.asdict(finding) for finding in findings], schema=pa.schema(fields))
