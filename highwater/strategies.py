"""Seeds and plans as strategies of Hypothesis, for property tests of another project (docs/pytest.md).

A failing example is shrunk to a smaller seed, which is another run and not a smaller one; `highwater shrink` makes plans smaller.
So `@settings(phases=[Phase.explicit, Phase.generate])` saves the runs that shrinking a seed costs.
"""

from typing import Unpack

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from highwater.cli.choosing import Chosen, Options, choose
from highwater.plans.plan import DRAWS_END


def seeds() -> SearchStrategy[int]:
    """Seeds of plans, from 0 to 2^64-1."""
    return st.integers(min_value=0, max_value=DRAWS_END - 1)


@st.composite
def plans(draw: st.DrawFn, **options: Unpack[Options]) -> Chosen:
    """Plans of seeds, with the options of `highwater run`: `plans(faults="crash", seconds=10)`. PlanError for wrong options."""
    return choose(seed=str(draw(seeds())), **options)
