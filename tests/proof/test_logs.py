"""A part of the proof in every run of the tests; `make prove-checkers` takes the whole of it (docs/proof.md)."""

import pytest

from checkers.registry import ALL
from tests.proof.log_definitions import DEFINITIONS
from tests.proof.logs import prove

_HISTORIES = 1_500
# What no definition is written down for: of these docs/proof.md makes no claim.
_UNPROVEN = {
    "assertions", "assumptions", "vacuity", "availability", "availability-cluster", "convergence", "incarnations", "deletion",
    "committed-offsets", "progress",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", list(DEFINITIONS))
def test_log_checkers_find_what_their_definitions_say(what: str) -> None:
    """Kind by kind, partition by partition; each kind is there to be found."""
    for tally in prove(what, _HISTORIES):
        assert tally.wrong == []
        assert tally.total == _HISTORIES
        assert 0 < tally.good < _HISTORIES or (tally.name, what) == ("fencing", "operations"), tally


def test_every_checker_has_its_definition_or_is_named_here() -> None:
    proven = {name for names in DEFINITIONS.values() for name in names}

    assert proven | _UNPROVEN == {checker.name for checker in ALL}
    assert not proven & _UNPROVEN
