"""Plans that the simulator performs too, in containers: INVALID on the protocol with the mistake, VALID and live on `safe`.

Two seeds: the plan's own draws, and other ones.
"""

from pathlib import Path

import msgspec
import pytest

from checkers.single import judge
from checkers.verdict import Validity
from highwater.backends.api import Provenance
from highwater.backends.docker import DockerBackend
from highwater.containers.engine import Engine
from highwater.text import load_plan
from history.event import EventKind

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PLANS = Path(__file__).parents[2] / "corpus" / "plans"
BAD = {
    "jepsen-2013.yaml": ("unclean-election", "lost-write"),
    "log-dirs/leader.yaml": ("offline-replica-recreated", "lost-write"),
}


def performed(name: str, protocol: str, *, other_draws: bool) -> tuple[Validity, bool | None, set[str], set[str]]:
    """Verdict, liveness, kinds of anomalies, and what probes found, as words."""
    plan = load_plan(PLANS / name)
    plan = msgspec.structs.replace(plan, protocol=protocol, draws=plan.draws + int(other_draws))
    backend = DockerBackend()
    assert backend.refuse(plan) is None
    run = backend.perform(plan, Provenance(run_id="test", plan_digest=""))
    assert (run.history.manifest.outcome, run.failure) == ("completed", None)
    verdict = judge(run.history)
    probed = {str(row.detail).partition(":")[0] for row in run.history.of_kind(EventKind.FAULT_PROBED)}
    return verdict.validity, verdict.live, {anomaly.kind for anomaly in verdict.anomalies}, probed


@pytest.mark.parametrize("other_draws", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_the_known_mistake_is_caught(engine: Engine, name: str, other_draws: bool) -> None:
    protocol, kind = BAD[name]

    validity, _, kinds, probed = performed(name, protocol, other_draws=other_draws)

    assert validity is Validity.INVALID
    assert kind in kinds
    assert {"acts", "healed"} <= probed


@pytest.mark.parametrize("other_draws", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_safe_keeps_its_promise(engine: Engine, name: str, other_draws: bool) -> None:
    validity, live, kinds, probed = performed(name, "safe", other_draws=other_draws)

    assert (validity, live, kinds) == (Validity.VALID, True, set())
    assert {"acts", "healed"} <= probed
