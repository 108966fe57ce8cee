"""Plans of the corpus in containers: INVALID on the protocol with the bug, VALID and live on `safe`, as in the simulator.

Each plan is performed with its own draws and with others.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge
from highwater.backends.real.containers.backend import DockerBackend
from highwater.backends.real.containers.engine import Engine
from highwater.backends.sim.backend import SimBackend
from highwater.plans.text import load_plan
from highwater.rig.backend import Backend, Provenance
from history.event import EventKind

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PLANS = Path(__file__).parents[2] / "corpus" / "plans"
# The first anomaly of a bug depends on timing. A replica that is created anew while it is in the ISR is seen there without the
# records, or it becomes leader before anything is read and the followers have truncated the records by then.
BAD = {
    "jepsen-2013.yaml": ("unclean-election", {"lost-write"}),
    "kip101-scenario-1-frozen.yaml": ("truncate-to-hw", {"truncated-committed"}),
    "log-dirs/bootstrap.yaml": ("offline-replica-recreated", {"truncated-committed", "strong-isr", "weak-isr", "lost-write"}),
    "log-dirs/leader.yaml": ("offline-replica-recreated", {"lost-write"}),
    "log-dirs/follower.yaml": ("offline-replica-recreated", {"strong-isr", "weak-isr", "truncated-committed"}),
}


class Played(NamedTuple):
    """The verdict of a run and the words that its probes began with, such as "acts"."""

    verdict: Verdict
    probed: set[str]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the anomalies."""
        return {anomaly.kind for anomaly in self.verdict.anomalies}


def run_of_plan(backend: Backend, name: str, protocol: str, *, other_draws: bool) -> Played:
    plan = load_plan(PLANS / name)
    plan = msgspec.structs.replace(plan, protocol=protocol, draws=plan.draws + int(other_draws))
    assert backend.refuse(plan) is None
    run = backend.perform(plan, Provenance(run_id="test", plan_digest=""))
    assert (run.history.manifest.outcome, run.failure) == ("completed", None)
    probed = {str(row.detail).partition(":")[0] for row in run.history.of_kind(EventKind.FAULT_PROBED)}
    return Played(judge(run.history), probed)


def test_brokers_roll_twice_in_containers(engine: Engine) -> None:
    """R-316: each broker says after each start what it has become; a leader is killed on the way."""
    plan = load_plan(PLANS / "steps" / "rolled-twice.yaml")
    backend = DockerBackend()
    assert backend.refuse(plan) is None
    run = backend.perform(plan, Provenance(run_id="test", plan_digest=""))

    assert (run.history.manifest.outcome, run.failure) == ("completed", None)
    verdict = judge(run.history)
    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())
    acted = [row for row in run.history.of_kind(EventKind.FAULT_PROBED) if str(row.detail).startswith("acts: ")]
    became = [(row.node, str(row.detail).partition(", as release ")[2]) for row in acted if "release" in str(row.detail)]
    assert became == [(f"b{number}", f"kip343 that speaks {spoken}") for spoken in ("kip112", "kip343") for number in (1, 2, 3)]


@pytest.mark.parametrize("other_draws", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_known_bad_protocol_is_caught_on_containers(engine: Engine, name: str, other_draws: bool) -> None:
    protocol, kinds = BAD[name]

    simulated = run_of_plan(SimBackend(), name, protocol, other_draws=other_draws)
    real = run_of_plan(DockerBackend(), name, protocol, other_draws=other_draws)

    for run in (simulated, real):
        assert run.verdict.validity is Validity.INVALID
        assert kinds & run.kinds
    assert {"acts", "healed"} <= real.probed


@pytest.mark.parametrize("other_draws", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_protocol_safe_is_valid_and_live_on_containers(engine: Engine, name: str, other_draws: bool) -> None:
    simulated = run_of_plan(SimBackend(), name, "safe", other_draws=other_draws)
    real = run_of_plan(DockerBackend(), name, "safe", other_draws=other_draws)

    for verdict in (simulated.verdict, real.verdict):
        assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())
    assert {"acts", "healed"} <= real.probed
