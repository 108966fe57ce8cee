"""How many seeds it takes to detect that a protocol breaks its promise.

Each seed is an independent draw of a plan, so the number of seeds from one detection to the next is geometrically distributed.
The end of a campaign cuts off the last gap, but the likelihood depends only on how many of the seeds detected: p is estimated by
detected / seeds, the cut-off gap included. The median number of seeds is the smallest m with 1 - (1 - p)^m >= 1/2.

The median falls as p grows, so the ends of the 95 % Wilson interval of p give the ends of the interval of the median. Wilson's
interval holds for p near 0 and 1, where campaigns end up: without a detection it still gives a lower end of the median.
"""

from pipeline.questions.question import CAMPAIGN, PROTOCOL, Question, columns

Z = 1.959963984540054  # of the normal distribution, for 95 %
_SQUARE = f"{Z * Z!r}D"


def _bound(sign: str) -> str:
    """SQL of one end of the Wilson interval."""
    spread = f"{Z!r}D * sqrt(detected * (seeds - detected) / seeds + {_SQUARE} / 4)"
    return f"(detected + {_SQUARE} / 2 {sign} {spread}) / (seeds + {_SQUARE})"


def _median(probability: str) -> str:
    """SQL of the median of the geometric distribution; null for a probability of 0, where no number of seeds is enough."""
    return f"""case when {probability} >= 1 then 1 when {probability} > 0
                     then greatest(1, cast(ceil(ln(0.5D) / ln(1 - {probability})) as bigint)) end"""


def _sql_of_detections(tried: str, group: str) -> str:
    """Count detections in the rows of `tried`: campaign, protocol, the column `group`, detects, place in the order of seeds."""
    return f"""
with tried as ({tried}),
counted as (
  select campaign, protocol, {group}, count(*) as seeds, count_if(detects) as detected,
         min(if(detects, place, null)) as first_after
  from tried group by campaign, protocol, {group}),
bounded as (
  select *, detected / seeds as share,
         if(detected = 0, 0D, {_bound("-")}) as share_low, if(detected = seeds, 1D, {_bound("+")}) as share_high
  from counted)
select campaign, protocol, {group}, seeds, detected, share, share_low, share_high,
       {_median("share")} as median_seeds, {_median("share_high")} as low_seeds, {_median("share_low")} as high_seeds, first_after
from bounded order by campaign, protocol, {group}"""


_DETECTS = "(verdict = 'INVALID' or live is false)"
_MEANINGS = {
    "seeds": "seeds that were performed, whatever their outcome",
    "detected": "seeds whose run is INVALID or not live",
    "share": "detected / seeds",
    "share_low": "lower end of the 95 % Wilson interval of the share",
    "share_high": "its upper end",
    "median_seeds": "seeds until a detection in half of all attempts; null without a detection",
    "low_seeds": "lower end of its 95 % interval",
    "high_seeds": "upper end; null without a detection: then the median is at least `low_seeds`, and nothing bounds it above",
    "first_after": "place of the first detection in the order of seeds, from 1",
}

DETECTION = Question(
    name="detection",
    title="Seeds to detect",
    words="How many seeds does it take to detect that a protocol variant breaks its promise, for each fault mix?",
    columns=columns(
        campaign=CAMPAIGN, protocol=PROTOCOL, mix="fault mix that was asked for; empty for the default kinds", **_MEANINGS
    ),
    sql=_sql_of_detections(
        f"""select campaign, protocol, mix, {_DETECTS} as detects,
                   row_number() over (partition by campaign, protocol, mix order by seed nulls last, run) as place from runs""",
        "mix",
    ),
)

DETECTION_BY_FAULT = Question(
    name="detection-by-fault",
    title="Seeds to detect, by fault",
    words="The same for each fault kind, over the runs in which it took effect. Another fault of such a run may be the cause.",
    columns=columns(campaign=CAMPAIGN, protocol=PROTOCOL, fault="fault kind that took effect", **_MEANINGS),
    sql=_sql_of_detections(
        f"""select campaign, protocol, f.kind as fault, {_DETECTS} as detects,
                   row_number() over (partition by campaign, protocol, f.kind order by seed nulls last, run) as place
            from runs join faults f using (campaign, protocol, run) where f.acted > 0""",
        "fault",
    ),
)
