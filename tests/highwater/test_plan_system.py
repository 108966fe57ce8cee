"""The system of a plan: named by the plan or the command line, and no part of plans without one."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.plans.derive import derive
from highwater.plans.plan import PlanError, SystemSpec, checked, is_foreign, on_system, parsed_system, plan_digest, words_of
from highwater.plans.text import plan_from_yaml, plan_to_yaml

PLAN = derive(1, protocol="safe", faults=(), profile="within", seconds=2, workload="produce-consume")
KAFKA = SystemSpec(name="kafka", version="3.9.1", settings={"log.roll.ms": 1000, "compression.type": "gzip", "x": True})


def test_plan_without_a_system_says_nothing_of_it() -> None:
    """The digests of all stored plans stay."""
    assert PLAN.system is UNSET
    assert "system" not in plan_to_yaml(PLAN)
    assert plan_digest(on_system(PLAN, parsed_system("reference"))) == plan_digest(PLAN)


def test_plan_with_a_system_survives_writing_and_reading() -> None:
    plan = replace(PLAN, system=KAFKA)

    assert plan_from_yaml(plan_to_yaml(plan)) == plan
    assert is_foreign(plan)


def test_settings_stay_with_another_version_of_the_system() -> None:
    plan = on_system(replace(PLAN, system=KAFKA), parsed_system("kafka:0.10.2.2"))

    assert plan.system == replace(KAFKA, version="0.10.2.2")


def test_settings_go_with_another_system() -> None:
    assert on_system(replace(PLAN, system=KAFKA), parsed_system("external")).system == SystemSpec(name="external")


def test_words_of_a_system_are_parsed_again() -> None:
    assert [words_of(parsed_system(text)) for text in ("kafka:3.9.1", "external")] == ["kafka:3.9.1", "external"]


@pytest.mark.parametrize("words", ["reference:2", "reference:1..2", "reference:.."])
def test_versions_of_the_reference_are_refused(words: str) -> None:
    """A run that names one that it has not would be told as a run of that one."""
    with pytest.raises(PlanError, match=r"the versions of the reference are v3, .*, not .*, as in reference:"):
        checked(on_system(PLAN, parsed_system(words)))


def test_dots_without_a_version_before_them_are_kept() -> None:
    """Without them, brokers that were to start as another version would silently start as this one."""
    assert parsed_system("kafka:..3.9.1") == SystemSpec(name="kafka", version="3.9.1", starts=("",))
