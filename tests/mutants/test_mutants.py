"""Every known-bad protocol is caught by the checker that guards the missing fix; `safe` is clean in the same run."""

from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Verdict
from checkers.judge import judge
from checkers.registry import ALL, OF_BLACK_BOXES
from highwater.backends.sim.backend import SimBackend
from highwater.catalogue.mutants import (
    INVARIANTS,
    Catch,
    Caught,
    Masked,
    by_invariant,
    catches,
    declared,
    document,
    is_caught,
    is_clean,
    load_mutants,
    plans_of,
)
from highwater.catalogue.trace import bugs
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance
from reference.config import VARIANTS

ROOT = Path(__file__).parents[2]
MUTANTS = load_mutants(ROOT / "corpus" / "mutants.yaml")

CATCHES = tuple(catches(MUTANTS))


def verdict_of(plan: Plan) -> Verdict:
    """Perform a plan in the simulator and judge it."""
    return judge(SimBackend().perform(plan, Provenance(run_id="mutant", plan_digest="")).history)


@cache
def safe_verdict_of(row_plan: str | None, seed: int | None, faults: tuple[str, ...]) -> Verdict:
    """The verdict of `safe` on the plan of a row; cached, because rows share plans."""
    row = Masked(protocol="safe", out="", why="", plan=row_plan) if row_plan is not None else _seeded(seed, faults)
    return verdict_of(next(iter(plans_of(row, ROOT / "corpus"))))


def _seeded(seed: int | None, faults: tuple[str, ...]) -> Caught:
    assert seed is not None
    return Caught(protocol="safe", out="", seeds=(seed, seed), first=seed, faults=faults)


@pytest.mark.slow
@pytest.mark.parametrize("catch", CATCHES, ids=lambda catch: f"{catch.protocol}-{catch.kind}")
def test_known_bad_protocol_is_caught_and_safe_is_not(catch: Catch) -> None:
    """A checker that misses it has gone blind; one that accuses `safe` gives false alarms."""
    row = catch.row
    plan = next((plan for plan in plans_of(row, ROOT / "corpus") if is_caught(catch, verdict_of(plan))), None)

    assert plan is not None, f"{row.protocol}: no {catch.kind} by {catch.checker}"
    assert is_clean(safe_verdict_of(row.plan, plan.seed, row.faults))
    assert [name for name in row.spares if is_caught(catch, verdict_of(replace(plan, protocol=name)))] == []


@pytest.mark.slow
@pytest.mark.parametrize("row", MUTANTS.masked, ids=lambda row: row.protocol)
def test_masked_protocol_mistake_has_a_valid_verdict_as_listed(row: Masked) -> None:
    """When this fails, the variant can be caught, and its row belongs under `caught`."""
    assert is_clean(verdict_of(next(iter(plans_of(row, ROOT / "corpus")))))


def test_every_bad_protocol_variant_is_listed_with_its_checker() -> None:
    """Without a row it is unknown whether the fix is needed."""
    rows = [row.protocol for row in MUTANTS.caught] + [row.protocol for row in MUTANTS.masked]

    assert sorted({"safe", *rows}) == sorted(VARIANTS)
    assert not {row.protocol for row in MUTANTS.caught} & {row.protocol for row in MUTANTS.masked}


def test_caught_mistake_breaks_one_of_its_listed_invariants() -> None:
    """A variant that is caught for another reason does not show its own mistake."""
    rows = [(catch.protocol, catch.checker, catch.kind) for catch in CATCHES]

    assert [(variant, bug) for variant, bug, _, by in by_invariant(rows) if not by] == []


def test_every_anomaly_kind_breaks_a_known_invariant() -> None:
    """Except a failed assertion, which breaks no invariant of the catalogue."""
    kinds = {kind.name: kind.breaks for checker in ALL for kind in checker.reports if kind.is_anomaly}

    assert [name for name, breaks in kinds.items() if not breaks] == ["assertion"]
    assert {name for checker in ALL for kind in checker.reports for name in kind.breaks} == set(INVARIANTS)


def test_catalogue_names_existing_invariants() -> None:
    assert [id_ for id_, bug in bugs().items() if not bug.raises or not set(bug.raises) <= set(INVARIANTS)] == []


def test_each_finding_is_shown_by_a_variant_or_says_why_not() -> None:
    """A checker that has caught no planted mistake is not known to work."""
    kinds = [(checker.name, kind) for checker in (*ALL, *OF_BLACK_BOXES) for kind in checker.reports]

    assert [(checker, kind.name) for checker, kind in kinds if bool(kind.shown_by) == bool(kind.unshown)] == []
    assert [checker.name for checker in ALL if not checker.reports] == []


def test_declared_variant_has_a_run_for_each_of_its_findings() -> None:
    """A declaration without a run would be a claim that nobody checks."""
    variants_shown = {name for checker in ALL for kind in checker.reports for name in kind.shown_by}
    shown = {(catch.protocol, catch.checker, catch.kind) for catch in CATCHES}

    assert sorted(variants_shown) == sorted({row.protocol for row in MUTANTS.caught})
    assert [(name, *said) for name in sorted(variants_shown) for said in declared(name) if (name, *said) not in shown] == []


def test_row_that_shows_an_undeclared_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mutants.yaml"
    path.write_text("caught:\n- {protocol: v3, out: x, shows: [offset-order], plan: x.yaml}\n", encoding="utf-8")

    with pytest.raises(UsageError, match=r"mutants\.yaml:2: v3: no checker declares that it shows offset-order"):
        load_mutants(path)


def test_mutants_document_is_up_to_date() -> None:
    """`python -m highwater.catalogue.mutants corpus/mutants.yaml > docs/mutants.md` after a change."""
    assert (ROOT / "docs" / "mutants.md").read_text(encoding="utf-8") == document(MUTANTS)


def test_known_bad_protocol_row_has_either_plan_or_seeds(tmp_path: Path) -> None:
    path = tmp_path / "mutants.yaml"
    path.write_text("caught:\n- {protocol: v3, out: x}\n", encoding="utf-8")

    with pytest.raises(UsageError, match=r"mutants\.yaml:2: v3: exactly one of plan and seeds must be given"):
        load_mutants(path)
