"""A plan on a user's cluster has as many brokers as that has; what does not fit is named, not performed without its faults."""

from pathlib import Path

import pytest

from highwater.campaigns.campaign import Request
from highwater.campaigns.systems import CORPUS, PHASES, PLANS, Cases, cases_on
from highwater.errors import UsageError
from highwater.plans.plan import Plan, checked, complaints, topics_of
from highwater.plans.scaled import beyond, prefixed, scaled
from highwater.plans.text import load_plan
from nemesis.targets import INTERNAL, IsrMember, Named
from tests.tidy.sources import ROOT

REAL = ROOT / "corpus" / "real"
FOUR_HOOKS = "kill: [x], start: [x], pause: [x], resume: [x]"
ALL_HOOKS = f"{FOUR_HOOKS}, terminate: [x], cut: [x], heal: [x]"


def plan(name: str) -> Plan:
    return load_plan(REAL / f"{name}.yaml")


def request(folder: Path, nodes: int, hooks: str = ALL_HOOKS) -> Request:
    """A user's cluster with these nodes, the first with the id 0."""
    file = folder / "my.yaml"
    entries = "".join(f'- {{id: {id}, address: "127.0.0.1:{9000 + id}"}}\n' for id in range(nodes))
    file.write_text(f"nodes:\n{entries}hooks: {{{hooks}}}\n")
    return Request(system="external", described=str(file), backend="process")


def cases(request: Request) -> dict[str, Cases]:
    found = cases_on(request, PHASES, corpus=ROOT / CORPUS, plans=ROOT / PLANS, seeds=range(6))
    return {str(phase): of for phase, of in found.items()}


def test_larger_cluster_performs_the_plan_with_more_brokers() -> None:
    larger = scaled(plan("failover"), 9)

    assert (larger.cluster.brokers, larger.cluster.topics[0].replication_factor) == (9, 3)
    assert (larger.schedule, complaints(larger)) == (plan("failover").schedule, ())


def test_smaller_cluster_has_fewer_replicas_and_promises_as_many() -> None:
    smaller = scaled(plan("failover"), 2)

    (topic,), (promised,) = smaller.cluster.topics, smaller.promise.topics
    assert (smaller.cluster.brokers, topic.replication_factor, topic.min_insync_replicas) == (2, 2, 2)
    assert (promised.min_insync_replicas, complaints(smaller)) == (2, ())


def test_internal_topics_keep_their_names() -> None:
    """A run of many on one cluster has topics of its own; those of Kafka are everybody's."""
    windows = prefixed(plan("coordinators"), "mine.").schedule

    assert windows == plan("coordinators").schedule


@pytest.mark.parametrize(
    ("name", "brokers", "reason"),
    [
        ("failover", 1, "window follower-hangs (pause-long) hits a follower, and there is none"),
        ("groups", 2, "window hangs (pause-long) names b3"),
        ("kafka7128", 3, "window b4-silent (clog) names b4"),
        ("kip101", 2, "window nothing-fetched (clog) names b3"),
        ("kip101", 3, None),
    ],
)
def test_plan_that_names_missing_brokers_stays_as_it_is(name: str, brokers: int, reason: str | None) -> None:
    assert beyond(plan(name), brokers) == reason
    assert scaled(plan(name), brokers) == plan(name)


def test_topics_of_a_plan_are_not_those_of_the_user(tmp_path: Path) -> None:
    """Seeds have topics such as `orders`, and a user may have one, too."""
    plans = [case.plan for phase in cases(request(tmp_path, 3)).values() for case in phase.fit]

    topics = [topic.name for plan in plans for topic in plan.cluster.topics]
    targets = [getattr(window.target, "topic", "highwater-") for plan in plans for window in plan.schedule]
    assert {"highwater-failover", "highwater-t", "highwater-orders"} <= {*topics}
    assert all(name.startswith(("highwater-", INTERNAL)) for name in (*topics, *targets))
    assert [plan for plan in plans if plan != prefixed(plan, "highwater-")] == []


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 9])
def test_gate_of_any_cluster_performs_what_fits_it(tmp_path: Path, nodes: int) -> None:
    """Each window has a broker to hit, and each plan and seed that is left out a reason."""
    found = cases(request(tmp_path, nodes))

    performed = [case.plan for phase in found.values() for case in phase.fit]
    windows = [(window, plan) for plan in performed for window in plan.schedule]
    assert performed
    assert {plan.cluster.brokers for plan in performed} == {nodes}
    assert all(plan.schedule and not complaints(plan) for plan in performed)
    assert all(max(window.target.brokers) <= nodes for window, _ in windows if isinstance(window.target, Named))
    assert nodes > 1 or not any(isinstance(window.target, IsrMember) for window, _ in windows)
    named = {name for phase in found.values() for name in [case.entry for case in phase.fit] + [name for name, _ in phase.unfit]}
    assert named == {path.stem for path in REAL.glob("*.yaml")} | {f"seed-{seed}" for seed in range(6)}


def test_reasons_say_what_the_cluster_or_its_file_lacks(tmp_path: Path) -> None:
    found = cases(request(tmp_path, 1))

    unfit = dict(found["plans"].unfit + found["seeds"].unfit)
    assert unfit["kip101"].endswith("my.yaml has 1 nodes, and window nothing-fetched (clog) names b3")
    assert unfit["seed-1"] == "none of its faults can be injected"
    assert {case.entry for case in found["seeds"].fit} == {"seed-2", "seed-5"}


def test_gate_without_any_plan_is_never_green(tmp_path: Path) -> None:
    """A file without hooks would let every run pass, as nothing happens to the cluster."""
    with pytest.raises(UsageError, match=r"names no doors of its nodes, before which proxies for clients could stand$"):
        cases(request(tmp_path, 3, hooks=""))


def test_topics_of_administrators_are_scaled_and_renamed_too() -> None:
    made_again = plan("create-delete")

    larger = prefixed(scaled(made_again, 4), "mine-")
    assert [topic.name for topic in topics_of(checked(larger))] == ["mine-t", "mine-again", "mine-scratch"]
    assert {step.topic for step in larger.script} == {"mine-again"}
    assert beyond(made_again, 2) == "its script names b3"
