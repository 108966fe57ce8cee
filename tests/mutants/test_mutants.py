"""Every known-bad protocol is caught by the checker that guards the missing fix; `safe` is clean in the same run."""

from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Verdict
from checkers.registry import ALL
from checkers.single import judge
from highwater.backends.sim.backend import SimBackend
from highwater.catalogue.invariants import INVARIANTS, table
from highwater.catalogue.mutants import Caught, Masked, document, is_caught, is_clean, load_mutants, plans_of
from highwater.catalogue.trace import bugs
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance
from reference.config import VARIANTS

ROOT = Path(__file__).parents[2]
MUTANTS = load_mutants(ROOT / "corpus" / "mutants.yaml")

# Checkers that no protocol switch sets off, because they judge machines, clients or histories. test_machines, test_usurpers,
# tests/checkers and the corpus of histories show that they work.
ELSEWHERE = (
    "advance",
    "assertions",
    "assumptions",
    "availability-cluster",
    "brokers",
    "clients",
    "demotions",
    "committed-offsets",
    "convergence",
    "electorate",
    "fencing",
    "flushes",
    "incarnations",
    "metadata",
    "laggards",
    "polls",
    "progress",
    "promptness",
    "succession",
)


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
    return Caught(protocol="safe", out="", checker="", kind="", seeds=(seed, seed), first=seed, faults=faults)


@pytest.mark.slow
@pytest.mark.parametrize("row", MUTANTS.caught, ids=lambda row: f"{row.protocol}-{row.kind}")
def test_known_bad_protocol_is_caught_and_safe_is_not(row: Caught) -> None:
    """A checker that misses it has gone blind; one that accuses `safe` gives false alarms."""
    plan = next((plan for plan in plans_of(row, ROOT / "corpus") if is_caught(row, verdict_of(plan))), None)

    assert plan is not None, f"{row.protocol}: no {row.kind} by {row.checker}"
    assert is_clean(safe_verdict_of(row.plan, plan.seed, row.faults))
    assert [name for name in row.spares if is_caught(row, verdict_of(replace(plan, protocol=name)))] == []


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
    rows = [(row.protocol, row.checker, row.kind) for row in MUTANTS.caught]

    assert [(variant, bug) for variant, bug, _, by in table(rows) if not by] == []


def test_every_anomaly_kind_belongs_to_an_invariant() -> None:
    """Except a failed assertion, which is no invariant of the catalogue."""
    kinds = {kind for checker in ALL for kind in checker.kinds}
    spoken = {kind for invariant in INVARIANTS.values() for kind in invariant.kinds}

    assert kinds - spoken == {"assertion"}
    assert spoken - kinds == set()


def test_catalogue_names_existing_invariants() -> None:
    assert [id_ for id_, bug in bugs().items() if not bug.raises or not set(bug.raises) <= set(INVARIANTS)] == []


def test_every_checker_catches_a_known_bad_protocol() -> None:
    """A checker that has caught no planted mistake is not known to work."""
    assert sorted({row.checker for row in MUTANTS.caught} | set(ELSEWHERE)) == sorted(checker.name for checker in ALL)


def test_known_bad_protocol_row_names_kinds_of_its_checker() -> None:
    """A row with a kind that its checker never reports could never pass."""
    kinds = {checker.name: (*checker.kinds, "not-live", "unknown") for checker in ALL}

    assert [row.kind for row in MUTANTS.caught if row.kind not in kinds[row.checker]] == []


def test_mutants_document_is_up_to_date() -> None:
    """`python -m highwater.catalogue.mutants corpus/mutants.yaml > docs/mutants.md` after a change."""
    assert (ROOT / "docs" / "mutants.md").read_text(encoding="utf-8") == document(MUTANTS)


def test_known_bad_protocol_row_has_either_plan_or_seeds(tmp_path: Path) -> None:
    path = tmp_path / "mutants.yaml"
    path.write_text("caught:\n- {protocol: v3, out: x, checker: order, kind: offset-order}\n", encoding="utf-8")

    with pytest.raises(UsageError, match=r"mutants\.yaml:2: v3: exactly one of plan and seeds must be given"):
        load_mutants(path)
