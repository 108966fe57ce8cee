"""The plans of history's bugs: the reference suffers each with the bug, is spared without it, and meets the hazard both times."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.plans.text import load_plan
from highwater.runs.provenance import Build
from highwater.runs.run import Judged, Keep, backend_named, carry_out
from tests.tidy.sources import ROOT

REAL = ROOT / "corpus" / "real"
SPARED_BY = {  # plan -> the variant of the reference with no other mistake than the bug's, and the step that repaired it
    "kip101": "kip101",
    "kip101-quorum": "kip101",
    "kip279": "kip279",
    "kip320": "kip320",
    "kafka7128": "safe",
    "unclean": "safe",
    "unclean-forbidden": "safe",
}


def simulated(name: str, protocol: str | None = None) -> Judged:
    """A simulated run of the plan on the reference; with the plan's own protocol if none is given."""
    plan = replace(load_plan(REAL / f"{name}.yaml"), system=UNSET)
    plan = plan if protocol is None else replace(plan, protocol=protocol)
    build = Build(commit="", dirty=False, versions={})
    return carry_out(plan, backend_named("sim"), build=build, repeat="", keep=Keep(store=None))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*SPARED_BY} - {"unclean-forbidden"}))
def test_plan_loses_or_diverges_on_its_own_protocol(name: str) -> None:
    summary = simulated(name).summary

    assert (summary.verdict, summary.hazard) == ("INVALID", "shown")
    assert {"lost-write", "inconsistent-offsets"} & {anomaly.kind for anomaly in summary.anomalies}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SPARED_BY))
def test_plan_meets_its_hazard_on_the_repaired_protocol(name: str) -> None:
    """Else the run would be VALID because nothing was at stake."""
    summary = simulated(name, SPARED_BY[name]).summary

    assert (summary.words, summary.hazard) == ("VALID, live", "shown")
