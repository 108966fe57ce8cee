"""The corpus: malformed entries are refused; a case that does not hold has a complaint."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.campaigns import corpus
from highwater.campaigns.corpus import Case, Expectation, load_corpus, load_entry, load_plans
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.derive import DERIVATION, derive
from highwater.plans.text import plan_to_yaml
from highwater.runs.findings import FoundAnomaly
from highwater.runs.provenance import Build
from highwater.runs.run import Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import perform

ENTRY = f"""\
name: example
story: Why it is here.
seed: 3
derivation: {DERIVATION}
faults: [pause]
expect:
  - {{protocol: v3, verdict: INVALID, kinds: [lost-write]}}
  - {{protocol: safe, verdict: VALID}}
"""
LOST = FoundAnomaly(kind="lost-write", checker="acked-loss", key="t-0", words="gone")
INVALID = Summary(
    seed=3,
    protocol="v3",
    verdict="INVALID",
    live=True,
    anomalies=(LOST,),
    plan="seed-3",
    plan_digest="",
    backend="sim",
    outcome="completed",
    repeat="",
)
VALID = replace(INVALID, verdict="VALID", anomalies=())


def _case(**expected: object) -> Case:
    return Case(
        entry="example",
        expectation=Expectation(**{"protocol": "v3", "verdict": "INVALID", "kinds": ("lost-write",), **expected}),  # type: ignore[arg-type]
        plan=derive(3),
        repeat="",
    )


def test_corpus_entry_becomes_a_case_per_expected_verdict(tmp_path: Path) -> None:
    (tmp_path / "example.yaml").write_text(ENTRY)

    cases = load_corpus(tmp_path)

    assert [case.plan.protocol for case in cases] == ["v3", "safe"]
    assert (
        cases[0].repeat
        == f"highwater run --seed 3 --derivation {DERIVATION} --workload produce-consume --protocol v3 --faults pause"
    )
    assert cases[0].plan.schedule == cases[1].plan.schedule


def test_corpus_entry_may_name_a_plan_file(tmp_path: Path) -> None:
    (tmp_path / "plan.yml").write_text(plan_to_yaml(derive(5)))
    (tmp_path / "example.yaml").write_text(ENTRY.replace(f"seed: 3\nderivation: {DERIVATION}\nfaults: [pause]", "plan: plan.yml"))

    assert [case.plan.draws for case in load_entry(tmp_path / "example.yaml")] == [derive(5).draws] * 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (ENTRY.replace("VALID}", "GOOD}"), "example.yaml:8"),
        (ENTRY.replace("seed: 3\n", ""), "example.yaml:1"),
        (ENTRY.replace(f"derivation: {DERIVATION}\n", ""), "example.yaml:1"),
        (ENTRY + "colour: red\n", "example.yaml:9"),
        ("name: [", "example.yaml:1"),
    ],
)
def test_malformed_corpus_entry_is_refused_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "example.yaml").write_text(text)

    with pytest.raises(UsageError, match=place):
        load_corpus(tmp_path)


def test_corpus_without_entries_is_refused(tmp_path: Path) -> None:
    """Otherwise a wrong folder would pass."""
    with pytest.raises(UsageError):
        load_corpus(tmp_path)


@pytest.mark.parametrize(
    ("case", "summary", "code"),
    [
        (_case(), INVALID, ExitCode.VALID),
        (_case(), VALID, ExitCode.LABORATORY_FAILED),
        (_case(kinds=("split-brain",)), INVALID, ExitCode.LABORATORY_FAILED),
        (_case(verdict="VALID", kinds=()), VALID, ExitCode.VALID),
        (_case(verdict="VALID", kinds=()), INVALID, ExitCode.INVALID),
        (_case(verdict="VALID", kinds=()), replace(VALID, verdict="UNKNOWN"), ExitCode.UNKNOWN),
        (_case(verdict="VALID", kinds=(), live=True), replace(VALID, live=False), ExitCode.NOT_LIVE),
        (_case(verdict="VALID", kinds=(), live=True), replace(VALID, live=None), ExitCode.LABORATORY_FAILED),
    ],
)
def test_corpus_case_with_another_verdict_is_reported(case: Case, summary: Summary, code: ExitCode) -> None:
    assert corpus.exit_code(case, summary) is code
    assert (corpus.complaint(case, summary) is None) == (code is ExitCode.VALID)


CASES = load_corpus(Path(__file__).resolve().parents[2] / "corpus" / "seeds")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.entry} on {case.expectation.protocol}")
def test_corpus_cases_get_their_expected_verdicts(case: Case) -> None:
    """Each known bug is still found, and `safe` does not have it."""
    here = Build(commit="", dirty=False, versions={})
    (task,) = corpus.tasks_of([case], build=here, keep=Keep())

    assert corpus.complaint(case, perform(task)) is None


def test_folder_without_stored_plans_is_refused(tmp_path: Path) -> None:
    """Otherwise a mistyped folder would make the gate pass without its plans."""
    with pytest.raises(UsageError, match="no plan"):
        load_plans(tmp_path, ())
