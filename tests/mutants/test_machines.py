"""Machines that are broken by hand set off checkers that no protocol switch sets off."""

from pathlib import Path

from msgspec.structs import replace

from checkers.judge import judge
from checkers.liveness import availability, convergence
from checkers.validity import assertions
from highwater.backends.sim.backend import SimBackend
from highwater.plans.text import load_plan
from highwater.rig.backend import Provenance
from history.history import History
from reference.config import BrokerConfig
from reference.effects import AnyEffect, CreateReplica
from reference.events import AnyEvent, Booted, DirImage, ZkState
from reference.machine import Now
from reference.node import Node
from reference.types import TopicPartition

PLAN = Path(__file__).parents[2] / "corpus" / "plans" / "kafka-7164.yaml"


class Deaf:
    """A node whose session handler hangs: it never hears that its session is over (KAFKA-4360)."""

    def __init__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> None:
        self._node = Node.boot(config, image, life)
        self._life = life

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Handle every event as a node does, except one."""
        if isinstance(event, ZkState) and event.state == "expired":
            return []
        return self._node.handle(event, now=now)


class Touchy(Deaf):
    """A node that asserts that its session never ends."""

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Handle every event as a node does, except one."""
        assert not (isinstance(event, ZkState) and event.state == "expired"), "sessions last"
        return self._node.handle(event, now=now)


class Forgetful(Deaf):
    """A node that ignores every later metadata of a partition (B-54, from the receiving end)."""

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Handle every event as a node does; acknowledge later metadata without applying it."""
        known_states = dict(self._node.state.broker.metadata)
        effects = self._node.handle(event, now=now)
        self._node.state.broker.metadata.update(known_states)
        return effects


class Hoarder(Deaf):
    """A node whose first process creates a log that no command asked for, and keeps it."""

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Handle every event as a node does, and create the extra log."""
        effects = self._node.handle(event, now=now)
        return (
            [*effects, CreateReplica(0, TopicPartition("orders-7"))] if isinstance(event, Booted) and self._life == 1 else effects
        )


def history_of(machine: type[Deaf]) -> History:
    """The plan with two expired sessions, `safe`, on these machines."""
    plan = replace(load_plan(PLAN), protocol="safe")
    return SimBackend(machine).perform(plan, Provenance(run_id="mutant", plan_digest="")).history


def test_broker_that_never_reregisters_fails_the_liveness_check() -> None:
    """A broker that lost its session must be registered again (LIVE-1)."""
    verdict = judge(history_of(Deaf), (availability.CLUSTER,))

    assert verdict.live is False
    assert "b1 is not registered at the end" in verdict.not_live


def test_failed_assertion_in_a_broker_is_an_anomaly() -> None:
    """No other checker reports a process that ended itself if the cluster does without it."""
    verdict = judge(history_of(Touchy), (assertions.CHECKER,))

    assert {anomaly.kind for anomaly in verdict.anomalies} == {"assertion"}
    assert {anomaly.key for anomaly in verdict.anomalies} == {"b1", "b2"}


def test_stale_broker_metadata_fails_the_convergence_check() -> None:
    """B-54: if a dropped request is not sent again, two brokers disagree for ever."""
    verdict = judge(history_of(Forgetful), (convergence.CHECKER,))

    assert verdict.live is False
    assert any("tells clients that" in message and "ZooKeeper names" in message for message in verdict.not_live)


def test_stray_log_is_found_on_the_disk() -> None:
    """No broker notes the log, so only the inspection of the disks at the end shows it."""
    verdict = judge(history_of(Hoarder), (convergence.CHECKER,))

    assert verdict.not_live == tuple(
        f"a log of orders-7, which is not in ZooKeeper, is on {node}, directory 0 at the end" for node in ("b1", "b2", "b3", "b4")
    )
