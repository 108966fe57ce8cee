"""A run that did not meet its plan's hazard is vacuous: VALID, and no evidence."""

from pathlib import Path
from typing import get_args

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from checkers.engine.verdict import Findings, merge
from checkers.sketches import history_of
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Hazard, Plan, PlanError, checked
from highwater.plans.text import load_plan, plan_to_yaml
from highwater.runs.hazards import WORDS, hazard_of
from highwater.runs.page import write_page
from highwater.runs.summary import Summary
from tests.tidy.sources import ROOT

PLAN = load_plan(ROOT / "corpus" / "real" / "kip101.yaml")
AWAY = (
    "node-started node=b3",
    "state-written leader=b1 leader_epoch=0",
    "session-ended node=b3",
    "state-written leader=b2 leader_epoch=1",
)
HISTORIES: dict[Hazard, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    # hazard -> rows that show it, rows that show that it was not met, rows that do not tell
    "unknown-hw": (
        ("ok produce value=a offset=0", "became-leader node=b2 leo=1 hw=0"),
        ("ok produce value=a offset=0", "became-leader node=b2 leo=1 hw=1"),
        ("ok produce value=a offset=0", "became-leader node=b2 leo=1"),
    ),
    "parted-logs": (
        ("became-leader node=b3 leo=9", "truncate node=b2 offset=5", "became-leader node=b2 leo=20"),
        ("became-leader node=b3 leo=9", "truncate node=b2 offset=9", "became-leader node=b2 leo=20", "truncate node=b1 offset=5"),
        ("truncate node=b2 offset=5",),
    ),
    "missed-elections": (
        (*AWAY, "state-written leader=b1 leader_epoch=2"),
        (*AWAY, "registered node=b3", "state-written leader=b1 leader_epoch=2"),
        (),
    ),
    "outlived-isr": (
        ("registered node=b1", "registered node=b3", "state-written leader=b1 isr=b1", "session-ended node=b1"),
        ("registered node=b1", "registered node=b3", "state-written leader=b1 isr=b1", "session-ended node=b3"),
        ("registered node=b1", "registered node=b3", "session-ended node=b1"),
    ),
    "last-replica": (
        ("ok produce value=a offset=0", "state-written leader=b1 isr=b1", "wound node=b1 offset=0"),
        ("ok produce value=a offset=0", "state-written leader=b1 isr=b1,b2", "wound node=b1 offset=0"),
        ("ok produce value=a offset=0", "wound node=b1 offset=0"),
    ),
    "orphan-request": (("fault-probed node=p1 count=2",), ("fault-probed node=p1 count=0",), ("fault-probed node=p1",)),
}


def about(hazard: Hazard) -> Plan:
    return replace(PLAN, hazard=hazard)


@pytest.mark.parametrize("hazard", sorted(HISTORIES))
def test_hazard_is_read_from_the_rows_of_a_run(hazard: Hazard) -> None:
    found = [hazard_of(about(hazard), history_of(*lines), accused=False) for lines in HISTORIES[hazard]]

    assert found == ["shown", "not shown", "not told"]


@pytest.mark.parametrize(
    ("hazard", "lines"),
    [
        ("missed-elections", (*AWAY, "node-stopped node=b3", "state-written leader=b1 leader_epoch=2")),
        ("parted-logs", ("became-leader node=b3 leo=9", "truncate node=b2 offset=5")),
    ],
)
def test_hazard_that_ended_early_was_not_met(hazard: Hazard, lines: tuple[str, ...]) -> None:
    """A replica that is down misses nothing; with a single election no logs part."""
    assert hazard_of(about(hazard), history_of(*lines), accused=False) == "not shown"


def test_anomaly_shows_the_hazard_where_no_row_does() -> None:
    assert hazard_of(PLAN, history_of(), accused=True) == "shown"


def test_plan_without_a_hazard_has_none_to_show() -> None:
    assert hazard_of(replace(PLAN, hazard=UNSET), history_of(), accused=True) is UNSET


def test_plan_with_a_hazard_has_a_single_partition() -> None:
    """The rows of two partitions would be taken for those of one."""
    second_topic_spec = replace(PLAN.cluster.topics[0], partitions=2)

    with pytest.raises(PlanError, match="a plan with a hazard must have one partition, not 2"):
        checked(replace(PLAN, cluster=replace(PLAN.cluster, topics=(second_topic_spec,))))


def test_valid_run_that_missed_its_hazard_counts_as_unknown() -> None:
    summary = Summary(
        seed=None,
        protocol="safe",
        verdict="VALID",
        live=True,
        plan="kip101",
        plan_digest="",
        backend="process",
        outcome="completed",
        hazard="not shown",
        repeat="",
    )

    assert summary.exit_code is ExitCode.UNKNOWN
    assert summary.words == "VALID, live, vacuous (the plan's hazard was not met)"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, ": met. Exit code 0: valid."),
        (1, ": not met, so that the run shows nothing about it. Exit code 11: unknown."),
        (2, ": the rows do not tell whether it was met. Exit code 0: valid."),
    ],
)
def test_page_shows_hazard_and_exit_code(number: int, words: str, tmp_path: Path) -> None:
    """A green page of a run that met nothing would be taken for evidence."""
    page = tmp_path / "page.html"
    history, verdict = history_of(*HISTORIES["unknown-hw"][number]), merge([Findings(live_judged=True)])
    write_page(page, history, verdict, plan=plan_to_yaml(about("unknown-hw")), repeat="again")
    html = page.read_text(encoding="utf-8")

    assert f"Hazard unknown-hw ({WORDS['unknown-hw']}){words}" in html
    assert ('<header class="banner unknown">' in html) == (number == 1)


def test_page_without_a_hazard_names_no_exit_code(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for plan in (plan_to_yaml(replace(PLAN, hazard=UNSET)), "", "no plan"):
        write_page(page, history_of(), merge([Findings()]), plan=plan, repeat="again")

        assert "Exit code" not in page.read_text(encoding="utf-8")


def test_every_hazard_has_its_words() -> None:
    assert sorted(WORDS) == sorted(get_args(Hazard))
