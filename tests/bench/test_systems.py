"""docs/real-kafka.md tells what is recorded, and of each plan both outcomes on real Kafka."""

from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from bench.systems import HAZARDS, PLANS, counted, page, plan_named, recorded, stored
from highwater.runs.provenance import Build
from highwater.runs.run import Keep, backend_named, carry_out
from tests.tidy.sources import ROOT


def test_page_of_real_kafka_tells_the_recorded_runs() -> None:
    """After new runs: `python -m bench.systems --page > docs/real-kafka.md`."""
    assert page(counted(recorded())) == (ROOT / "docs" / "real-kafka.md").read_text()


def test_record_has_a_loss_for_each_plan_of_a_bug_of_kafka() -> None:
    lost = {one.plan for one in counted(recorded()) if one.outcome == "lost or diverged" and one.subject.startswith("kafka")}

    assert lost == {*PLANS} - {"unclean-forbidden"}


def test_page_explains_the_hazard_of_each_plan() -> None:
    assert all(f"* **{plan_named(name).hazard}**: " in HAZARDS for name in PLANS)


@pytest.mark.slow
def test_run_that_is_recorded_is_not_read_again(tmp_path: Path) -> None:
    plan = replace(plan_named("unclean-forbidden"), system=UNSET)
    build = Build(commit="", dirty=False, versions={})
    carry_out(plan, backend_named("sim"), build=build, repeat="", keep=Keep(store=tmp_path, report=False))

    (run,) = stored(tmp_path, known=set())

    assert run.outcome == "kept"
    assert not [*stored(tmp_path, known={run.run})]
