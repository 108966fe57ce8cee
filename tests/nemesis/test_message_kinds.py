"""Faults of single messages: seeds of systems other than the reference draw some of them, and simulated seeds draw none."""

from itertools import chain

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.campaigns.campaign import Request
from highwater.plans.derive import derive
from highwater.plans.plan import Plan, checked, plan_digest
from history.fault_kinds import FAMILIES, family_of
from nemesis.faults import Clog, LinkFault, Packets, Reset, Slow, kinds_of
from nemesis.kinds import kind, select
from nemesis.messages import KINDS, QUORUM_FETCH, requests
from nemesis.schedule import Window
from nemesis.targets import ClientPlace
from workloads.registry import OF_SESSIONS, WORKLOADS, requests_of

SEEDS = range(60)


def messages_of(plan: Plan) -> list[Window]:
    return [window for window in plan.schedule if family_of(window.kind) == "message"]


def on_kafka(seed: int, workload: str = "transactions", version: str = "4.1.0", faults: tuple[str, ...] = ()) -> Plan:
    return Request(system=f"kafka:{version}", backend="process", workload=workload, faults=faults).plan(seed)


def test_seeds_of_the_reference_draw_no_single_messages() -> None:
    """Its digests stay; the simulator's connections pick no messages."""
    assert not set(select(["all"])) & set(FAMILIES["message"])
    assert all(kind(name).named_only for name in FAMILIES["message"])
    assert not [window for seed in SEEDS for window in messages_of(derive(seed, profile="beyond"))]


def test_seeds_of_kafka_draw_single_messages_beside_the_rest() -> None:
    """Two draws of three have some; what else a seed gives is what it gave the reference."""
    shares = [bool(messages_of(derive(seed, workload="transactions", foreign=True))) for seed in SEEDS]
    for seed in SEEDS:
        plan, before = (derive(seed, workload="transactions", foreign=foreign) for foreign in (True, False))
        others = tuple(replace(window, id="") for window in plan.schedule if family_of(window.kind) != "message")
        assert others == tuple(replace(window, id="") for window in before.schedule)
        assert plan_digest(replace(plan, schedule=())) == plan_digest(replace(before, schedule=()))

    assert 0.4 < sum(shares) / len(shares) < 0.9


def test_seeds_with_another_mix_draw_no_single_messages() -> None:
    assert not [window for seed in SEEDS for window in messages_of(on_kafka(seed, faults=("partitions",)))]
    assert [window for seed in SEEDS for window in messages_of(on_kafka(seed, faults=("all",)))]


def test_drawn_messages_have_all_parameters_of_plans_by_hand() -> None:
    """Kinds, chance, direction and connection; requests and answers; late, held, lost and dropped."""
    windows = list(chain.from_iterable(messages_of(derive(seed, workload="groups", foreign=True)) for seed in range(300)))
    faults = [window.fault for window in windows]
    assert all(isinstance(fault, Slow | Clog | Reset | Packets) for fault in faults)
    picking = [fault for fault in faults if isinstance(fault, Slow | Clog | Reset)]

    assert {type(fault) for fault in faults} == {Slow, Clog, Reset, Packets}
    assert {name.endswith("-reply") for fault in faults for name in kinds_of(fault)} == {True, False}
    assert {fault.chance_per_mille for fault in picking} == {100, 250, 500}
    assert {fault.connection for fault in picking} == {"one", UNSET}
    assert {fault.direction for fault in picking} >= {"inbound", "outbound", UNSET}
    assert {isinstance(window.target, ClientPlace) for window in windows} == {True, False}
    assert {"offset-commit", "join-group", "heartbeat"} <= {name for fault in faults for name in kinds_of(fault)}


@pytest.mark.parametrize("workload", ["produce-consume", *OF_SESSIONS])
def test_drawn_messages_are_those_of_the_workload(workload: str) -> None:
    plans = [derive(seed, workload=workload, foreign=True) for seed in SEEDS]
    doors = [window for plan in plans for window in messages_of(checked(plan)) if isinstance(window.target, ClientPlace)]

    assert {name for window in doors for name in requests(kinds_of(window.fault))} <= set(requests_of(workload))
    assert len(doors) > 5


@pytest.mark.parametrize("workload", WORKLOADS)
def test_requests_of_a_workload_are_requests_of_kafka(workload: str) -> None:
    assert set(requests_of(workload)) <= {*KINDS.values(), QUORUM_FETCH}


@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_messages_that_a_release_does_not_have_are_left_out(version: str) -> None:
    """With KRaft no controller sends LeaderAndIsr; with ZooKeeper nobody fetches a metadata log."""
    windows = [window for seed in range(200) for window in messages_of(on_kafka(seed, version=version, faults=("message-late",)))]
    among_brokers = {
        name
        for window in windows
        if isinstance(window.fault, LinkFault) and not isinstance(window.target, ClientPlace)
        for name in requests(kinds_of(window.fault))
    }

    of_quorum, of_zookeeper = {"broker-heartbeat", QUORUM_FETCH}, {"leader-and-isr", "update-metadata"}
    expected, other = (of_zookeeper, of_quorum) if version == "3.9.1" else (of_quorum, of_zookeeper)
    assert expected <= among_brokers
    assert not other & among_brokers


def test_simulator_refuses_a_named_kind_of_single_messages() -> None:
    plan = next(plan for seed in SEEDS if (plan := derive(seed, faults=("message-late",))).schedule)

    assert "its connections cannot pick single messages" in str(SimBackend().refuse(plan))
