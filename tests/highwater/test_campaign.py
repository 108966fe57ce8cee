"""Campaigns: counts, limits and exit codes."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec.structs import FieldInfo, fields, replace

from highwater.backends.real.containers import backend as docker
from highwater.backends.real.containers.backend import with_time_for_containers
from highwater.campaigns.campaign import Campaign, Limits, Request, exit_code, run_campaign
from highwater.campaigns.load import Load
from highwater.campaigns.order import Order
from highwater.campaigns.tally import Counts, Tally, tally
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.derive import DERIVATION
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance
from highwater.runs.findings import FoundAnomaly
from highwater.runs.provenance import Build
from highwater.runs.run import Keep
from highwater.runs.summary import CLIENTS, Summary
from highwater.runs.workers import Task
from history.manifest import FaultCount, MessageCount
from nemesis.capability import refusals

HERE = Build(commit="", dirty=False, versions={})
GOOD = Summary(
    seed=1,
    protocol="safe",
    verdict="VALID",
    live=True,
    acked=10,
    faults=(FaultCount(kind="pause", begun=2, acted=1), FaultCount(kind="crash", begun=1, acted=0)),
    plan="seed-1",
    plan_digest="",
    backend="sim",
    outcome="completed",
    repeat="highwater run --seed 1",
)
_NOTHING = Keep(store=None)
UNKNOWN = replace(GOOD, verdict="UNKNOWN")
LOST = FoundAnomaly(kind="lost-write", checker="acked-loss", key="t-0", words="gone")
BAD = replace(GOOD, seed=2, verdict="INVALID", anomalies=(LOST, LOST), repeat="highwater run --seed 2")


def _campaign(*summaries: Summary, wanted: int | None = None) -> Campaign:
    return Campaign(wanted=len(summaries) if wanted is None else wanted, summaries=summaries, tally=tally(summaries))


def test_docker_plan_lengthens_bound_and_quiet_time_by_20_s() -> None:
    """An engine creates and starts containers: B is 20 s longer for them, and nothing else differs."""
    simulated = Request(faults=("crash",)).plan(1)
    real = with_time_for_containers(simulated)

    assert (simulated.promise.containers, real.promise.containers) == (False, True)
    assert real.quiet_ms - real.promise.bound_ms == simulated.quiet_ms - simulated.promise.bound_ms
    assert real.promise.bound_ms == simulated.promise.bound_ms + 20_000
    assert real.schedule == simulated.schedule
    assert with_time_for_containers(real) == real


def test_docker_backend_lengthens_the_quiet_time_of_any_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/promise.md §6: for a seed, a plan file and a repeated run."""
    performed: list[Plan] = []
    monkeypatch.setattr(docker, "ContainerSite", lambda plan, _: performed.append(plan))
    monkeypatch.setattr(docker, "perform", lambda plan, *_, **__: performed.append(plan))
    plan = Request(faults=("crash",)).plan(1)
    docker.DockerBackend().perform(plan, Provenance(run_id="test", plan_digest=""))

    assert performed == [with_time_for_containers(plan)] * 2


def test_campaign_counts_an_anomaly_once_per_run() -> None:
    (anomaly_tally,) = tally([GOOD, BAD]).anomalies

    assert (anomaly_tally.kind, anomaly_tally.runs, anomaly_tally.first_seed, anomaly_tally.repeat) == (
        "lost-write",
        1,
        2,
        BAD.repeat,
    )
    assert anomaly_tally.faults == {"pause": 1}


def test_campaign_counts_recovery_elections_and_data_losses() -> None:
    """docs/promise.md VAC-3."""
    numbers = tally([replace(GOOD, recovery_elections=2, elections_from_elr=1), replace(GOOD, wounds_counted_on=3)])

    assert (numbers.recovery_elections, numbers.elections_from_elr, numbers.wounds_counted_on) == (2, 1, 3)


def test_campaign_counts_faults_begun_and_effective() -> None:
    faults = {f.kind: (f.runs, f.begun, f.acted) for f in tally([GOOD, GOOD]).faults}

    assert faults == {"pause": (2, 4, 2), "crash": (0, 2, 0)}


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("goals", [(), ("message:leader-and-isr", "message:log-info")])
def test_total_of_tallies_is_the_tally_of_all_runs(size: int, goals: tuple[str, ...]) -> None:
    """Workers count the runs of a block each, and the driver adds up."""
    talked = (MessageCount(kind="leader-and-isr", count=3), MessageCount(kind=CLIENTS, error="NONE", count=2))
    lost = replace(BAD, seed=3, repeat="another", sim_seconds=0.1, signature="b", faults=())
    runs = [
        GOOD,
        replace(GOOD, messages=talked, sim_seconds=0.2),
        BAD,
        replace(lost, anomalies=(*lost.anomalies, replace(LOST, checker="order"))),
        replace(UNKNOWN, outcome="harness-fault", live=None, signature="a", acked=7),
        replace(GOOD, live=False, sim_seconds=0.7),
    ]
    parts = [tally(runs[first : first + size]) for first in range(0, len(runs), size)]
    sent = [msgspec.json.decode(msgspec.json.encode(part), type=Tally) for part in parts]

    assert sent == parts
    counts = Counts()
    for part in sent:
        counts.add_tally(part)

    assert counts.told(goals) == tally(runs, goals)


@pytest.mark.parametrize(
    ("summaries", "expected"),
    [
        ((GOOD,), ExitCode.VALID),
        ((GOOD, BAD, UNKNOWN), ExitCode.INVALID),
        ((GOOD, replace(GOOD, live=False)), ExitCode.NOT_LIVE),
        ((GOOD, replace(UNKNOWN, outcome="harness-fault")), ExitCode.LABORATORY_FAILED),
        ((GOOD, UNKNOWN), ExitCode.UNKNOWN),
        ((*[GOOD] * 19, UNKNOWN), ExitCode.VALID),
        ((*[GOOD] * 18, UNKNOWN, UNKNOWN), ExitCode.UNKNOWN),
        ((), ExitCode.UNKNOWN),
    ],
)
def test_campaign_exit_code_is_the_worst_of_its_runs(summaries: tuple[Summary, ...], expected: ExitCode) -> None:
    assert exit_code(_campaign(*summaries), unknown_allowed_percent=5) is expected


def test_campaign_with_missing_runs_is_unknown() -> None:
    assert exit_code(_campaign(GOOD, wanted=2), unknown_allowed_percent=5) is ExitCode.UNKNOWN


def test_campaign_keeps_finished_runs_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted campaign reports its finished runs and does not exit with 0."""
    monkeypatch.setattr("highwater.runs.workers.perform", lambda task: replace(GOOD, seed=task.plan.seed))

    def tasks() -> Iterator[Task]:
        yield Request().task(1, build=HERE, keep=_NOTHING)
        yield Request().task(2, build=HERE, keep=_NOTHING)
        raise KeyboardInterrupt

    campaign = run_campaign(tasks(), wanted=3, jobs=1, limits=Limits(), on_summary=lambda summary: None)

    assert ([s.seed for s in campaign.summaries], campaign.stopped) == ([1, 2], "interrupted")
    assert exit_code(campaign, unknown_allowed_percent=100) is ExitCode.UNKNOWN


def test_campaign_stops_at_its_limit_of_invalid_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.runs.workers.perform", lambda task: BAD)
    tasks = (Request().task(seed, build=HERE, keep=_NOTHING) for seed in range(9))

    campaign = run_campaign(tasks, wanted=9, jobs=1, limits=Limits(invalid_runs=2), on_summary=lambda summary: None)

    assert (len(campaign.summaries), campaign.stopped) == (2, "stopped after 2 INVALID runs")


def test_repeat_command_has_only_non_default_options() -> None:
    assert Request().command(7) == f"highwater run --seed 7 --derivation {DERIVATION}"
    assert (
        Request(protocol="v3", faults=("pause", "clock"), profile="beyond", seconds=9).command(7)
        == f"highwater run --seed 7 --derivation {DERIVATION} --protocol v3 --faults pause,clock --profile beyond --seconds 9"
    )


@pytest.mark.parametrize("field", fields(Load), ids=lambda field: field.name)
def test_load_option_is_in_repeat_command_and_folder_name(field: FieldInfo) -> None:
    """A campaign that asks for another load must not go on in the folder of an earlier one."""
    plain = Order(first=7, last=7)

    other_order = replace(plain, **{field.name: "other"})

    assert other_order.command() == f"{plain.command()} --{field.name.replace('_', '-')} other"
    assert other_order.name != plain.name


@pytest.mark.parametrize("faults", [(), ("all",), ("network", "point"), ("clog", "commands")])
def test_docker_plan_leaves_out_faults_that_docker_cannot_do(faults: tuple[str, ...]) -> None:
    request = Request(faults=faults, profile="beyond", backend="docker", seconds=120)

    request.check(range(10))

    in_simulator = replace(request, backend="sim")
    assert any(refusals("docker", in_simulator.plan(seed).schedule) for seed in range(10))


def test_named_fault_that_docker_cannot_inject_is_refused() -> None:
    request = Request(faults=("crash-leader", "packets"), backend="docker", seconds=120)
    seed = next(seed for seed in range(100) if refusals("docker", request.plan(seed).schedule))

    with pytest.raises(UsageError, match=f"^seed {seed}: window .* \\(packets\\): the docker backend cannot: TCP hides"):
        request.check(range(seed + 1))


@pytest.mark.parametrize(
    ("request_made", "sentence"),
    [
        (
            Request(system="kafka:3.9.1", backend="process", metrics=500),
            "metrics_ms reads the metrics of the reference's brokers",
        ),
        (Request(system="kafka:2.8.2..3.9.1", backend="process"), "all brokers start as kafka 2.8.2, and no window"),
    ],
    ids=["scrapes of Kafka", "versions without a roll"],
)
def test_campaign_refuses_what_each_run_would_refuse(request_made: Request, sentence: str) -> None:
    """Or a night of runs would end as so many failures of the harness."""
    with pytest.raises(UsageError, match=sentence):
        request_made.check([1])
