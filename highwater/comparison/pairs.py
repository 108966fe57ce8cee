"""The same plans on two variants of the protocol: each pair of runs gives a difference, and the differences an interval.

The two runs of a pair share cluster, workload, faults and draws, so the difference within a pair is compared, and not the two
groups. The interval is that of the median difference by resampling the pairs (the percentile bootstrap of Efron and Tibshirani,
1993, chapter 13); it draws from a generator of its own with a fixed seed, so that equal runs give equal intervals.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from statistics import median

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.verdict import Validity
from highwater.backends.sim.backend import SimBackend
from highwater.comparison.coordination import Looking
from highwater.comparison.measures import MEASURES, Performed
from highwater.plans.plan import Plan, checked
from highwater.runs.provenance import Build
from highwater.runs.run import judge, perform

LEVEL = 95  # per cent
PAIRS_MIN = 6  # of fewer pairs no interval at this level is told: all could lie on one side by chance
_RESAMPLES = 5_000
_SEED = 1993


class Measured(Struct, frozen=True, kw_only=True):
    """A judged run and its figures by the names of the measures."""

    valid: bool
    live: bool | None
    figures: dict[str, float]


class Pair(Struct, frozen=True, kw_only=True):
    """One plan on both variants."""

    plan: str
    first: Measured
    second: Measured


class Weighed(Struct, frozen=True, kw_only=True):
    """One measure over all pairs in which both runs have a figure: medians with quartiles, and the median of the differences.

    `low` and `high` are the ends of its interval, None for fewer than PAIRS_MIN pairs.
    """

    measure: str
    words: str
    pairs: int
    first: float
    first_q1: float
    first_q3: float
    second: float
    second_q1: float
    second_q3: float
    difference: float
    low: float | None
    high: float | None

    @property
    def shown(self) -> str:
        """What the interval shows of the second variant."""
        if self.low is None or self.high is None:
            return "too few pairs"
        return "less" if self.high < 0 else "more" if self.low > 0 else "not told apart"


def measured(plan: Plan, build: Build) -> Measured:
    """Perform, judge and measure a plan in the simulator. UsageError if it cannot perform it."""
    looking = Looking()
    history = perform(plan, SimBackend(watch=looking.watch), build).history
    verdict = judge(history)
    run = Performed(history=history, coordination=looking.seen)
    figures = {measure.name: figure for measure in MEASURES if (figure := measure.of(run)) is not None}
    return Measured(valid=verdict.validity is Validity.VALID, live=verdict.live, figures=figures)


def pair_of(plan: Plan, first: str, second: str, build: Build) -> Pair:
    """One plan on both variants; the plan's own protocol means nothing."""
    sides = [checked(replace(plan, protocol=protocol, variant=None)) for protocol in (first, second)]
    return Pair(plan=plan.name, first=measured(sides[0], build), second=measured(sides[1], build))


def pairs_of(plans: Sequence[Plan], first: str, second: str, build: Build, *, jobs: int) -> Iterator[Pair]:
    """Perform all plans on both variants, in worker processes; the pairs in the order of the plans."""
    work = partial(pair_of, first=first, second=second, build=build)
    if jobs == 1:
        yield from map(work, plans)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(work, plans)
        finally:
            pool.shutdown(cancel_futures=True)


def weighed(pairs: Sequence[Pair]) -> list[Weighed]:
    """Each measure that at least one pair has."""
    rows = []
    for measure in MEASURES:
        name = measure.name
        both = [
            (p.first.figures[name], p.second.figures[name]) for p in pairs if name in p.first.figures and name in p.second.figures
        ]
        if not both:
            continue
        differences = [after - before for before, after in both]
        low, high = interval(differences)
        (first_q1, first, first_q3), (second_q1, second, second_q3) = np.percentile(
            np.array(both, dtype=float), (25, 50, 75), axis=0
        ).T
        rows.append(
            Weighed(
                measure=name,
                words=measure.words,
                pairs=len(both),
                first=float(first),
                first_q1=float(first_q1),
                first_q3=float(first_q3),
                second=float(second),
                second_q1=float(second_q1),
                second_q3=float(second_q3),
                difference=median(differences),
                low=low,
                high=high,
            )
        )
    return rows


def interval(differences: Sequence[float]) -> tuple[float | None, float | None]:
    """The ends of the interval of the median difference; None, None for fewer than PAIRS_MIN."""
    if len(differences) < PAIRS_MIN:
        return None, None
    drawn = np.random.default_rng(_SEED).choice(np.array(differences, dtype=float), (_RESAMPLES, len(differences)))
    tail = (100 - LEVEL) / 2
    low, high = np.percentile(np.median(drawn, axis=1), (tail, 100 - tail))
    return float(low), float(high)
