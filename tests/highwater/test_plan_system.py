"""The system of a plan: named by the plan or the command line, and no part of plans without one."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.plans.derive import derive
from highwater.plans.plan import PlanError, checked, is_foreign, on_system, plan_digest
from highwater.plans.systems import SystemSpec, parsed_system, words_of
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
    every = ["kafka:3.9.1", "external", "kafka:2.8.2..3.9.1", "kafka:4.1.0-apart3", "kafka:3.9.1-kraft-apart1"]

    assert [words_of(parsed_system(text)) for text in every] == every


def test_controllers_apart_are_counted_behind_the_version() -> None:
    assert parsed_system("kafka:3.9.1-kraft-apart3") == SystemSpec(name="kafka", version="3.9.1-kraft", controllers=3)


@pytest.mark.parametrize("words", ["kafka:4.1.0-apart", "kafka:4.1.0-apart0", "kafka:4.1.0-apart10", "kafka:4.1.0-apartx"])
def test_number_of_controllers_that_is_none_is_kept_as_a_version(words: str) -> None:
    """Then the version is unknown, and says so."""
    assert parsed_system(words) == SystemSpec(name="kafka", version=words.removeprefix("kafka:"))


@pytest.mark.parametrize("count", [0, 10])
def test_plan_with_another_number_of_controllers_is_refused(count: int) -> None:
    plan = replace(PLAN, system=SystemSpec(name="kafka", version="4.1.0", controllers=count))

    with pytest.raises(PlanError, match=f"system.controllers must be 1 to 9, not {count}"):
        checked(plan)


@pytest.mark.parametrize("words", ["reference:2", "reference:1..2", "reference:.."])
def test_versions_of_the_reference_are_refused(words: str) -> None:
    """A run that names one that it has not would be told as a run of that one."""
    with pytest.raises(PlanError, match=r"the versions of the reference are v3, .*, not .*, as in reference:"):
        checked(on_system(PLAN, parsed_system(words)))


def test_dots_without_a_version_before_them_are_kept() -> None:
    """Without them, brokers that were to start as another version would silently start as this one."""
    assert parsed_system("kafka:..3.9.1") == SystemSpec(name="kafka", version="3.9.1", starts=("",))
