"""The gate that mutants must pass: the first three phases of `make test-chaos FIRST=1`, all on `safe`."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from highwater.campaigns.chaos import cases_of
from highwater.campaigns.corpus import SAFE, load_corpus, load_plans
from highwater.plans.derive import derive
from highwater.plans.plan import Plan
from mutation.worker import SERVES

FIRST, SEEDS = 1, 128  # of `make test-chaos FIRST=1`
_CORPUS = Path(__file__).resolve().parents[1] / "corpus"


def plans() -> dict[str, Plan]:
    """The plan of each run of the gate by name, in the gate's order; before them the run without faults."""
    return dict(_gate_plans())


def _gate_plans() -> Iterator[tuple[str, Plan]]:
    """The plans of the gate: the corpus, the stored plans and the first seeds."""
    entries = load_corpus(_CORPUS / "seeds")
    corpus = [case for case in entries if case.expectation.protocol == SAFE]
    yield SERVES, replace(derive(FIRST, seconds=10), schedule=())
    for phase, cases in (
        ("corpus", corpus),
        ("plans", load_plans(_CORPUS / "plans", entries)),
        ("seeds", cases_of(range(FIRST, FIRST + SEEDS))),
    ):
        yield from ((f"{phase}/{case.entry}", case.plan) for case in cases)
