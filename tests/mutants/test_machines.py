"""Checkers that no switch of the protocol sets off are caught out by machines that are broken by hand."""

from pathlib import Path

from msgspec.structs import replace

from checkers import assertions, availability
from checkers.single import judge
from highwater.backends.api import Provenance
from highwater.backends.sim import SimBackend
from highwater.text import load_plan
from history.history import History
from reference.config import BrokerConfig
from reference.effects import AnyEffect
from reference.events import AnyEvent, DirImage, ZkState
from reference.machine import Now
from reference.node import Node

PLAN = Path(__file__).parents[2] / "corpus" / "plans" / "kafka-7164.yaml"


class Deaf:
    """A node whose session handler hangs: it never hears that its session is over (KAFKA-4360)."""

    def __init__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> None:
        self._node = Node.boot(config, image, life)

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """As a node, but for one event."""
        if isinstance(event, ZkState) and event.state == "expired":
            return []
        return self._node.handle(event, now=now)


class Touchy(Deaf):
    """A node that takes it for impossible that its session is ever over."""

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """As a node, but for one event."""
        assert not (isinstance(event, ZkState) and event.state == "expired"), "sessions last"
        return self._node.handle(event, now=now)


def history_of(machine: type[Deaf]) -> History:
    """The plan with two expired sessions, `safe`, on these machines."""
    plan = replace(load_plan(PLAN), protocol="safe")
    return SimBackend(machine).perform(plan, Provenance(run_id="mutant", plan_digest="")).history


def test_a_broker_that_stays_away_is_not_registered() -> None:
    """Availability of the cluster: whoever lost its session must be registered again."""
    verdict = judge(history_of(Deaf), (availability.CLUSTER,))

    assert verdict.live is False
    assert "b1 is not registered at the end" in verdict.not_live


def test_an_assertion_that_fails_is_an_anomaly() -> None:
    """Nothing else would be said of a process that ended itself and is missed by nobody."""
    verdict = judge(history_of(Touchy), (assertions.CHECKER,))

    assert {anomaly.kind for anomaly in verdict.anomalies} == {"assertion"}
    assert {anomaly.key for anomaly in verdict.anomalies} == {"b1", "b2"}
