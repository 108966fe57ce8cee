"""Switches that do nothing as others are set are refused, by one table (`reference.switches`)."""

from typing import get_args, get_type_hints

import pytest
from msgspec.structs import fields, replace

from reference.config import SAFE, V3, VARIANTS, Variant
from reference.switches import NEEDS, Need, is_unmet, unmet

_TYPES = get_type_hints(Variant)


def values_of(switch: str) -> tuple[object, ...]:
    """All settings of a switch."""
    return get_args(_TYPES[switch]) or (True, False)


def turned(need: Need) -> Variant:
    """`safe` with the row's switch turned, and without all that it needs."""
    switch = next(value for value in values_of(need.switch) if value != getattr(SAFE, need.switch))
    missing = {}
    for other, _ in need.needs:
        wanted = [value for name, value in need.needs if name == other]
        missing[other] = next(value for value in values_of(other) if value not in wanted)
    return replace(SAFE, **{**missing, need.switch: switch})


def name_of(need: Need) -> str:
    return f"{need.switch}-{need.needs[0][0]}"


@pytest.mark.parametrize("need", NEEDS, ids=name_of)
def test_switch_without_what_it_needs_is_told(need: Need) -> None:
    assert is_unmet(need, turned(need))


def test_switch_without_what_it_needs_is_refused() -> None:
    """All rows but those whose two settings a document has together."""
    refused = {need for need in NEEDS if need.switch in {switch for switch, _ in unmet(turned(need))}}

    assert {name_of(need) for need in NEEDS if need not in refused} == {
        "epoch_end_recheck-truncation",
        "controller_epoch_check-controller_epoch",
        "recovery_election-unclean_election",
        "reassign_widens-reassign_path",
        "reassign_complete-reassign_path",
    }


@pytest.mark.parametrize("need", NEEDS, ids=name_of)
def test_switch_with_what_it_needs_is_not_refused_by_that_row(need: Need) -> None:
    for other, value in need.needs:
        assert not is_unmet(need, replace(turned(need), **{other: value}))


def test_named_variants_are_not_refused() -> None:
    assert {name: list(unmet(variant)) for name, variant in VARIANTS.items() if list(unmet(variant))} == {}


def test_rows_name_switches_and_settings_that_exist() -> None:
    names = {field.name for field in fields(Variant)}
    for need in NEEDS:
        assert need.switch in names
        assert need.needs
        for other, value in need.needs:
            assert value in values_of(other)


def test_refusal_names_the_switch_its_need_and_what_is_given() -> None:
    variant = replace(SAFE, truncation="fetch", epoch_end_recheck=False)

    assert list(unmet(variant)) == [
        (
            "epoch_end_recheck",
            "epoch_end_recheck=false needs truncation=kip101 or truncation=kip279 or truncation=kip320, not fetch:"
            " nobody asks for the end of an epoch otherwise",
        )
    ]


def test_document_may_lack_what_belongs_to_a_rule_it_lacks() -> None:
    """V3 truncates to the HW, so it does not compare answers about the end of an epoch either: both are off together."""
    assert (V3.truncation, V3.epoch_end_recheck) == ("hw", False)

    assert list(unmet(replace(V3, isr_join="hw_only"))) == []
