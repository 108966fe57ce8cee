"""A counterexample as a story, as a plan, and as a run that the checkers judge."""

from msgspec.structs import replace

from checkers.engine.verdict import Validity
from highwater.explore.backend import ExploreBackend
from highwater.explore.machine_world import MachineWorld
from highwater.explore.path import bounds_of, plan_of
from highwater.explore.sentences import tell
from highwater.explore.state import Bounds
from highwater.plans.actions import AnyAction, Crash, Deliver, Expire, Fire, Lose, Produce, Restart
from highwater.plans.plan import Plan
from highwater.plans.text import plan_from_yaml, plan_to_yaml
from highwater.rig.backend import Provenance
from highwater.runs.run import judge
from history.event import EventKind
from history.op import OpType
from reference.config import VARIANTS

V3_CLEAN = replace(VARIANTS["v3"], unclean_election=False)
REPLICATED: tuple[AnyAction, ...] = (
    Produce(node="b1"),
    Deliver(message="FetchReply", source="b1", to="b2"),
    Deliver(message="Fetch", source="b2", to="b1"),
)
LOSS: tuple[AnyAction, ...] = (
    *REPLICATED,
    Crash(node="b2"),
    Expire(node="b1"),
    Expire(node="b2"),
    Restart(node="b2"),
    Deliver(message="LeaderAndIsr", source="b2", to="b2"),
    Deliver(message="LeaderAndIsr", source="b2", to="b2"),
)
PROVENANCE = Provenance(run_id="explored", plan_digest="0" * 32)


def plan(path: tuple[AnyAction, ...] = LOSS) -> Plan:
    return plan_of(name="loss", story=("It is lost",), protocol="v3", variant=V3_CLEAN, bounds=Bounds(), path=path)


def test_counterexample_text_names_truncation_and_election() -> None:
    text = " ".join(tell(MachineWorld(V3_CLEAN, bounds_of(plan())), LOSS))

    assert "b2 truncates its log at offset 0, to its high watermark" in text
    assert "b2 becomes leader of epoch 1 with LEO 0" in text


def test_explored_path_is_unchanged_after_writing_and_reading() -> None:
    expected_plan = plan((*LOSS, Lose(message="Fetch", source="b2", to="b1", nth=1)))

    text = plan_to_yaml(expected_plan)

    assert "  - {do: deliver, message: Fetch, source: b2, to: b1}\n" in text
    assert plan_from_yaml(text) == expected_plan


def test_replayed_counterexample_is_judged_a_lost_write() -> None:
    run = ExploreBackend().perform(plan(), PROVENANCE)

    verdict = judge(run.history)

    assert run.failure is None
    assert verdict.validity is Validity.INVALID
    assert "lost-write" in {anomaly.kind for anomaly in verdict.anomalies}
    assert [op.type for op in run.history.operations] == [OpType.INVOKE, OpType.OK]


def test_counterexample_path_is_valid_on_protocol_safe() -> None:
    run = ExploreBackend().perform(replace(plan(), protocol="safe", variant=None), PROVENANCE)

    verdict = judge(run.history)

    assert (verdict.validity, verdict.anomalies, verdict.unchecked) == (Validity.VALID, (), ())


def test_explored_path_with_kip343_replays_as_such() -> None:
    """The plan says which inter-broker protocol the explored brokers had."""
    bounds = Bounds(kip343=True)
    path = (*REPLICATED, Fire(node="b1", timer="silent:2"), Fire(node="b2", timer="heartbeat"), Crash(node="b2"))
    expected_plan = plan_of(name="silence", story=(), protocol="safe", variant=VARIANTS["safe"], bounds=bounds, path=path)

    run = ExploreBackend().perform(plan_from_yaml(plan_to_yaml(expected_plan)), PROVENANCE)

    assert bounds_of(expected_plan).kip343
    assert not bounds_of(plan()).kip343
    assert (run.failure, judge(run.history).validity) == (None, Validity.VALID)


def test_explored_path_performed_twice_gives_one_digest() -> None:
    digests = {ExploreBackend().perform(plan(), PROVENANCE).history.manifest.digest for _ in range(2)}

    assert len(digests) == 1


def test_replayed_path_records_the_true_zk_versions() -> None:
    """The search renumbers versions to present and older; a recorded history has the real ones."""
    run = ExploreBackend().perform(plan(), PROVENANCE)

    versions = [event.zk_version for event in run.history.events if event.kind is EventKind.STATE_WRITTEN]

    assert versions == list(range(len(versions)))
    assert len(versions) >= 2


def test_impossible_action_is_a_harness_failure() -> None:
    run = ExploreBackend().perform(plan((*REPLICATED, Restart(node="b1"))), PROVENANCE)

    assert run.failure == "action 4 of the path is not possible: b1 is up"
    assert run.history.manifest.outcome == "harness-fault"


def test_explorer_refuses_a_plan_without_a_path() -> None:
    plan_of_short_sessions = replace(plan(), cluster=replace(plan().cluster, session_timeout_ms=1000))

    assert ExploreBackend().refuse(plan()) is None
    assert ExploreBackend().refuse(plan(())) == "backend explore performs only plans with a path"
    assert "default cluster settings" in str(ExploreBackend().refuse(plan_of_short_sessions))
