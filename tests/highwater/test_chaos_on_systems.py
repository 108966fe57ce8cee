"""The `chaos` job on another system than the reference: what is repeated, what is red, what is refused."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.campaigns.campaign import Request
from highwater.campaigns.chaos import RED, Means, Part, Phase, RunLine
from highwater.campaigns.corpus import Case, Expectation, load_corpus
from highwater.campaigns.systems import CORPUS, PLANS, TRIES, cases_on, settle
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.plans.systems import parsed_system
from highwater.plans.text import load_plan
from highwater.runs.findings import FoundAnomaly
from highwater.runs.provenance import Build
from highwater.runs.run import Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import Task
from tests.tidy.sources import ROOT

MEANS = Means(build=Build(commit="", dirty=False, versions={}), keep=Keep(), jobs=1, on_line=lambda line: None)
LOST = FoundAnomaly(kind="lost-write", checker="client-log", key="t-0", words="gone")
KIP101 = load_plan(ROOT / "corpus" / "real" / "kip101.yaml")
KEEPS = Case(entry="kip101", expectation=Expectation(system="kafka:3.9.1", verdict="VALID", live=True), plan=KIP101, repeat="")
LOSES = replace(KEEPS, expectation=Expectation(system="kafka:0.10.2.2", verdict="INVALID"))


def summary(words: str) -> Summary:
    """A run that was kept, vacuous, unknown, silent, lost, or that failed."""
    return Summary(
        seed=None,
        protocol="safe",
        system="kafka:3.9.1",
        verdict={"unknown": "UNKNOWN", "failed": "UNKNOWN", "lost": "INVALID"}.get(words, "VALID"),  # type: ignore[arg-type]
        live=words != "silent",
        anomalies=(LOST,) if words == "lost" else (),
        plan="kip101",
        plan_digest="",
        backend="process",
        outcome="harness-fault" if words == "failed" else "completed",
        hazard="not shown" if words == "vacuous" else UNSET,
        repeat="",
    )


def part_of_runs(monkeypatch: pytest.MonkeyPatch, case: Case, *runs: str, means: Means = MEANS) -> Part:
    """The part of these cases whose runs end like this, one after the other."""
    left: Iterator[str] = iter(runs)

    def perform(task: Task) -> Summary:
        return summary(next(left))

    monkeypatch.setattr("highwater.runs.workers.perform", perform)
    return settle("corpus", [case], means)


@pytest.mark.parametrize("nothing", ["unknown", "vacuous"])
def test_run_that_shows_nothing_is_repeated(monkeypatch: pytest.MonkeyPatch, nothing: str) -> None:
    part = part_of_runs(monkeypatch, KEEPS, nothing, "kept")

    assert (part.code, len(part.summaries), part.expected) == (ExitCode.VALID, 2, (True, True))


@pytest.mark.parametrize("nothing", ["unknown", "vacuous"])
def test_case_that_never_shows_anything_is_unknown(monkeypatch: pytest.MonkeyPatch, nothing: str) -> None:
    part = part_of_runs(monkeypatch, KEEPS, *[nothing] * TRIES)

    assert (part.code, len(part.summaries), part.checks[0].met) == (ExitCode.UNKNOWN, TRIES, False)


@pytest.mark.parametrize(
    ("accused", "code"),
    [("lost", ExitCode.INVALID), ("silent", ExitCode.NOT_LIVE), ("failed", ExitCode.LABORATORY_FAILED)],
)
def test_accused_run_is_never_repeated(monkeypatch: pytest.MonkeyPatch, accused: str, code: ExitCode) -> None:
    """Else a second run would hide what the first one showed."""
    part = part_of_runs(monkeypatch, KEEPS, accused, "kept")

    assert (part.code, len(part.summaries), part.checks[0].met) == (code, 1, False)


def test_known_loss_is_tried_again_when_the_system_was_lucky(monkeypatch: pytest.MonkeyPatch) -> None:
    part = part_of_runs(monkeypatch, LOSES, "kept", "silent", "lost")

    assert (part.code, len(part.summaries)) == (ExitCode.VALID, 3)


def test_known_loss_that_is_not_found_is_a_harness_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    part = part_of_runs(monkeypatch, LOSES, *["kept"] * TRIES)

    assert part.code is ExitCode.LABORATORY_FAILED


def test_red_case_ends_its_part_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[RunLine] = []
    part = part_of_runs(monkeypatch, KEEPS, "lost", means=replace(MEANS, fail_fast=True, on_line=lines.append))

    assert (part.stopped, [(line.protocol, line.red) for line in lines]) == (RED, [("kafka:3.9.1", True)])


def test_interrupted_case_ends_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(task: Task) -> Summary:
        raise KeyboardInterrupt

    monkeypatch.setattr("highwater.runs.workers.perform", interrupted)
    part = settle("corpus", [KEEPS, KEEPS], MEANS)

    assert (part.interrupted, part.code) == (True, ExitCode.UNKNOWN)


def test_entries_of_systems_name_plans_and_known_releases() -> None:
    from highwater.backends.real.systems.kafka.releases import TESTED

    specs = map(parsed_system, {case.expectation.system for case in load_corpus(ROOT / CORPUS)})

    assert {(spec.name, spec.version) for spec in specs} <= {("external", ""), *(("kafka", each.version) for each in TESTED)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--system", "kafak:3.9.1"), "unknown system 'kafak'; did you mean 'kafka'?"),
        (("--system", "kafka:9"), "'9' is no version of kafka"),
        (("--system", "kafka:3.9.1", "--against", "HEAD"), "--against compares two commits of the reference, not of kafka:3.9.1"),
        (("--system", "kafka:3.9.1", "--parts", "determinism"), "unknown part for kafka:3.9.1 'determinism'"),
        (("--system", "kafka:3.9.1", "--parts", "containers"), "unknown part for kafka:3.9.1 'containers'"),
        (("--system", "kafka:3.9.1", "--jobs", "2"), "--jobs must be 1 with --system, not 2: one cluster runs at a time"),
        (("--system", "external"), "system external needs the file that describes the cluster: --with FILE"),
        (("--client", "java:4.1.0"), "--client needs --system: the reference has clients of its own"),
        (("--system", "kafka:3.9.1", "--client", ""), "--client needs a library and its version, such as java:4.1.0"),
        (("--system", "kafka:3.9.1", "--client", "java"), "client java needs a version, such as java:4.1.0"),
        (("--with", "x.yaml"), "--with describes the system external, not reference"),
    ],
)
def test_chaos_refuses_what_a_system_has_not(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code = run_command_line(["chaos", *arguments, "--store", str(tmp_path / "store")])

    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (2, 1)
    assert message in error
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_chaos_on_an_absent_cluster_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))  # tests beside this one may hold locks of the same nodes
    file = tmp_path / "my.yaml"
    nodes = "".join(f'- {{id: {number}, address: "127.0.0.1:{number}"}}\n' for number in (1, 2, 3))
    file.write_text(f"nodes:\n{nodes}hooks: {{kill: [x], start: [x], pause: [x], resume: [x]}}\n")

    arguments = ("--system", "external", "--with", str(file), "--parts", "plans", "--store", str(tmp_path))
    code = run_command_line(["chaos", *arguments])

    message = capsys.readouterr().out
    assert code == 13
    assert "unfit   trouble: window session-ends (expire-session): the external system cannot suffer it" in message
    assert "failover on external: UNKNOWN instead of VALID: b" in message
    assert "is the cluster running?" in message
    assert f"repeat  highwater run --plan corpus/real/failover.yaml --system external --with {file}" in message


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Performs `chaos` on a toy with these entries of its plan; gives the exit code and the JUnit file."""
    from highwater.backends.real.systems import registry
    from highwater.plans.text import plan_to_yaml
    from tests.systems.test_toy import PLAN
    from tests.systems.toy import Toy

    monkeypatch.setitem(registry.SYSTEMS, "toy", Toy)
    for folder in ("real", "systems"):
        (tmp_path / folder).mkdir()
    (tmp_path / "real" / "toy.yaml").write_text(plan_to_yaml(PLAN))

    def chaos(*arguments: str, entries: str = "") -> tuple[int, str]:
        if entries:
            text = f"name: toy\nstory: A kill loses what was not written.\nplan: ../real/toy.yaml\nexpect:\n{entries}"
            (tmp_path / "systems" / "toy.yaml").write_text(text)
        folders = ("--corpus", str(tmp_path / "systems" if entries else tmp_path / "none"), "--plans", str(tmp_path / "real"))
        code = run_command_line(["chaos", *arguments, *folders, "--store", str(tmp_path / "store")])
        return code, (tmp_path / "store" / "junit.xml").read_text()

    return chaos


@pytest.mark.slow
@pytest.mark.systems
def test_chaos_accuses_a_toy_that_loses_records(toys: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    code, junit = toys("--system", "toy:eager", "--parts", "plans")

    assert code == 10
    assert 'name="toy on toy:eager"' in junit
    assert "lost-write" in junit
    assert (tmp_path / "store" / "index.html").exists()


@pytest.mark.slow
@pytest.mark.systems
@pytest.mark.parametrize(("version", "phase"), [("eager", "known-bad"), ("careful", "corpus")])
def test_chaos_passes_a_toy_that_does_as_its_entry_says(toys: Callable[..., tuple[int, str]], version: str, phase: str) -> None:
    entries = '- {system: "toy:eager", verdict: INVALID, kinds: [lost-write]}\n'
    entries += '- {system: "toy:careful", verdict: VALID, live: true}\n'
    code, junit = toys("--system", f"toy:{version}", "--parts", phase, entries=entries)

    assert code == 0
    assert f'name="toy on toy:{version}"' in junit


@pytest.fixture
def every_plan_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No jars are looked for."""

    class Anything:
        def refuse(self, plan: object) -> None:
            return None

    monkeypatch.setattr("highwater.campaigns.systems.backend_named", lambda name: Anything())


def test_entries_of_both_neighbours_tell_of_a_release_between(every_plan_fits: None) -> None:
    """KAFKA-6880 was repaired between 2.0.1 and 2.8.2, so nobody knows of 2.2.2; KIP-101 is the same in both."""
    request = Request(system="kafka:2.2.2", backend="process")

    cases = cases_on(request, ("corpus", "known-bad"), corpus=ROOT / CORPUS, plans=ROOT / PLANS, seeds=())

    found = {case.entry: case for phase in cases.values() for case in phase.fit}
    assert {*found} == {
        "end-txn-late",
        "process-end-txn-late",
        "kafka7128",
        "kip101",
        "kip279",
        "kip966",
        "unclean",
        "unclean-forbidden",
    }
    assert found["kip101"].expectation.system == "kafka:2.2.2"
    assert found["kip101"].repeat.endswith("corpus/real/kip101.yaml --system kafka:2.2.2")
    reason = "it is INVALID on kafka:2.0.1 and VALID on kafka:2.8.2, so nobody knows for kafka:2.2.2"
    unfit = dict(cases["corpus"].unfit)
    assert unfit["kip320"] == reason
    assert unfit["trouble-quorum"] == "no release like this one was tried with it"  # it is for KRaft


def test_loss_of_an_older_release_says_nothing_of_a_newer_one(every_plan_fits: None) -> None:
    """It may be repaired; the release of which it is known is the last one that has the loss."""
    request = Request(system="kafka:3.9.0", backend="process")

    cases = cases_on(request, ("corpus", "known-bad"), corpus=ROOT / CORPUS, plans=ROOT / PLANS, seeds=())

    assert {case.entry for case in cases["corpus"].fit} >= {"kip101", "kip279", "kip320", "kafka7128"}
    request = Request(system="kafka:3.9.2", backend="process")
    later = cases_on(request, ("corpus", "known-bad"), corpus=ROOT / CORPUS, plans=ROOT / PLANS, seeds=())
    assert dict(later["corpus"].unfit)["kip966"] == "it is INVALID on kafka:3.9.1, so nobody knows for kafka:3.9.2"
    assert later["known-bad"].fit == ()


def test_other_clients_perform_all_but_the_known_losses(every_plan_fits: None) -> None:
    """KAFKA-17754 needs a client that speaks the first version of transactions; Java's of 4.1.0 speaks the second."""
    request = Request(system="kafka:4.1.0", backend="process", client="java:4.1.0")

    phases: tuple[Phase, ...] = ("corpus", "plans", "seeds", "known-bad")
    cases = cases_on(request, phases, corpus=ROOT / CORPUS, plans=ROOT / PLANS, seeds=range(1))

    performed = [case for phase in cases.values() for case in phase.fit]
    assert {case.plan.workload.client for case in performed} == {"java:4.1.0"}
    assert all(case.repeat.endswith(" --system kafka:4.1.0 --client java:4.1.0") for case in performed if case.file)
    assert dict(cases["corpus"].unfit)["end-txn-late"] == "what it loses was seen with librdkafka alone"
