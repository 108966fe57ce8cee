"""A seed keeps its meaning: what it derives changes only with the version of the derivation."""

import re

import pytest

from highwater.plans import derive
from highwater.plans.plan import PlanError
from tests.tidy import derivation


def test_seeds_derive_the_plans_of_their_version() -> None:
    """Raise DERIVATION if draws changed, then `python -m tests.tidy.derivation --rewrite`; else old repeat lines lie."""
    assert derivation.derived() == derivation.stored_digest()


def test_each_earlier_derivation_names_its_last_commit() -> None:
    """Without it nobody can repeat a seed of that version."""
    for commits, present in ((derive.LAST_COMMITS, derive.DERIVATION), (derive.LAST_COMMITS_OF_SYSTEMS, derive.OF_SYSTEMS)):
        assert list(commits) == list(range(1, present))
        assert [commit for commit in commits.values() if not re.fullmatch("[0-9a-f]{7,40}", commit)] == []


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (
            1,
            "a seed of derivation 1 gives another plan here (derivation 2); check out commit abcdef0, or perform",
        ),
        (3, "a seed of derivation 3 gives another plan here (derivation 2); update highwater, or perform"),
        (0, "derivation must be from 1 to 2, not 0"),
    ],
)
def test_seed_of_another_derivation_is_refused(version: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same number would silently be another run."""
    monkeypatch.setattr(derive, "DERIVATION", 2)
    monkeypatch.setattr(derive, "LAST_COMMITS", {1: "abcdef0"})

    with pytest.raises(PlanError, match=re.escape(words)):
        derive.check_derivation(version)


def test_seed_of_a_system_without_the_system_is_told() -> None:
    with pytest.raises(PlanError, match="is of another system than the reference: name it with --system"):
        derive.check_derivation(derive.OF_SYSTEMS)


def test_seed_of_a_system_has_a_version_of_its_own() -> None:
    """Seeds of Kafka draw faults that simulated seeds do not have, so what changes the one leaves the other."""
    derive.check_derivation(derive.OF_SYSTEMS, foreign=True)
    derive.check_derivation(derive.DERIVATION)

    earlier, commit = max(derive.LAST_COMMITS_OF_SYSTEMS.items())
    words = f"a seed of derivation {earlier} gives another plan here (derivation {derive.OF_SYSTEMS}); check out commit {commit}"
    with pytest.raises(PlanError, match=re.escape(words)):
        derive.check_derivation(earlier, foreign=True)
