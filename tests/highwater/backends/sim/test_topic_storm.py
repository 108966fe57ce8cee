"""A topic is deleted and made again under its name, over and over, under chaos: each is judged by itself (docs/promise.md
DUR-8).
"""

import pytest

from checkers.engine.verdict import Validity
from checkers.judge import judge
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.world import World
from highwater.plans.derive import derive
from highwater.rig.backend import Provenance
from highwater.rig.scene import manifest, scene_of
from history.event import EventKind
from reference.coordination import paths
from reference.coordination.api import Create
from workloads.client import Phase


class Storm(World):
    """An administrator deletes the first topic one second after its creation, and creates it again when it is gone."""

    def _phase(self, phase: Phase) -> None:
        super()._phase(phase)
        if phase == "faults":
            self.topic = self.plan.cluster.topics[0].name
            self.sim.scheduler.after(2000 * MS, self._delete)

    def _delete(self) -> None:
        if self.healed_at_ns is None:
            payload = paths.delete_topics_payload((self.topic,))
            self.server.administer((Create("/admin", b""), Create(paths.DELETE_TOPICS, payload)))
            self.sim.scheduler.after(50 * MS, self._make)

    def _make(self) -> None:
        if paths.topic_path(self.topic) in self.server.tree.nodes:
            self.sim.scheduler.after(50 * MS, self._make)
        else:
            payload = paths.topic_payload(self._assignment[self.topic])
            self.server.administer((Create(paths.topic_path(self.topic), payload),))
            self.sim.scheduler.after(1000 * MS, self._delete)


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "validity"), [("safe", Validity.VALID), ("no-topic-id", Validity.INVALID)])
def test_recreated_topic_has_no_records_of_the_old_one(protocol: str, validity: Validity) -> None:
    """B-61, B-62: without topic ids a log of the old topic stays below the records of the new one."""
    plan = derive(4, protocol=protocol, seconds=12)
    scene = scene_of(plan)
    world = Storm(scene)
    world.play()
    facts = manifest(
        scene, Provenance(run_id="r", plan_digest=""), backend="sim", outcome="completed", faults=world.faults.counts()
    )
    history = world.sim.recorder.history(facts)

    assert sum(event.kind is EventKind.TOPIC_DELETED for event in history.events) > 2
    assert judge(history).validity is validity
