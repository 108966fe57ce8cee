"""R-316, R-205: two rolls lead a cluster to a new version: first the code, then the setting."""

import pytest
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.errors import UsageError
from highwater.plans.derive import derive
from highwater.plans.plan import Plan, checked, on_system
from highwater.plans.systems import SystemSpec, parsed_system
from highwater.rig.releases import rolled
from highwater.rig.scene import broker_config
from nemesis.faults import Roll
from reference.config import BrokerConfig, asks_controller, layouts_of, sends_heartbeats
from reference.messages import UpdateMetadata
from reference.types import Address, BrokerId, ControllerEpoch, Incarnation
from server.runtime.process import _dialect_of
from server.runtime.transport import Transport, _Outgoing
from server.wire.framing import read_request_header
from server.wire.versions import Api, sent_by
from tests.server.runtime.test_settings import GOOD


def plan(system: str, protocol: str = "safe") -> Plan:
    return replace(derive(1, protocol=protocol, workload="produce-consume"), schedule=(), system=parsed_system(system))


def spoken(config: BrokerConfig) -> tuple[str, str]:
    return config.release, config.inter_broker_protocol


def test_double_roll_changes_code_first_then_setting() -> None:
    """R-205, R-316: with the setting first, a broker would send heartbeats to a controller that does not know them."""
    cluster = replace(plan("reference:kip112..kip343"), cluster=replace(plan("reference").cluster, legacy_brokers=()))
    old = broker_config(cluster, BrokerId(2))
    coded = rolled(cluster, Roll(), old)
    final = rolled(cluster, Roll(finalize=True), coded)

    assert [spoken(each) for each in (old, coded, final)] == [("kip112", "kip112"), ("kip343", "kip112"), ("kip343", "kip343")]
    assert [sends_heartbeats(each) for each in (old, coded, final)] == [False, False, True]
    assert [asks_controller(each) for each in (old, coded, final)] == [False, False, True]


def test_roll_back_ends_what_the_first_roll_began() -> None:
    cluster = plan("reference:kip112..kip343_v0")
    old = broker_config(cluster, BrokerId(1))

    assert rolled(cluster, Roll(back=True), rolled(cluster, Roll(), old)) == old


def test_half_rolled_cluster_writes_as_its_oldest_broker() -> None:
    """R-316, B-67: a new broker that wrote in its newest layouts would be refused by the old ones."""
    cluster = plan("reference:kip112..kip343")
    coded = rolled(cluster, Roll(), broker_config(cluster, BrokerId(1)))

    assert sent_by(layouts_of(coded), Api.LEADER_AND_ISR) == 1
    assert sent_by(layouts_of(coded), Api.UPDATE_METADATA) == 0
    dialect = _dialect_of(replace(GOOD, broker=coded))
    connection = _Outgoing(Transport(Address("b1"), {}, lambda *_: None, lambda _: None, dialect=dialect), Address("b2"))
    connection.ask(UpdateMetadata(1, BrokerId(1), ControllerEpoch(1), Incarnation(2), (), ()))
    (frame,) = connection._frames_waiting
    header, _ = read_request_header(frame[4:])
    assert (header.api_key, header.api_version) == (Api.UPDATE_METADATA, 0)


def test_new_broker_of_a_mixed_cluster_speaks_the_old_version() -> None:
    """R-316: the first roll changes the code alone, also of a broker that starts with the new one."""
    count = plan("reference").cluster.brokers
    cluster = plan(f"reference:{'_'.join(['kip112', *['kip343'] * (count - 1)])}..kip343")

    configs = [broker_config(cluster, BrokerId(id_)) for id_ in (1, 2)]
    assert [spoken(config) for config in configs] == [("kip112", "kip112"), ("kip343", "kip112")]
    assert [_dialect_of(replace(GOOD, broker=config)).protocol for config in configs] == ["kip112", "kip112"]


def test_broker_refuses_a_setting_that_its_code_lacks() -> None:
    config = broker_config(plan("reference:kip112"), BrokerId(1))

    with pytest.raises(ValueError, match="inter_broker_protocol must be one that release kip112 knows, not kip343"):
        replace(config, inter_broker_protocol="kip343")


@pytest.mark.parametrize(
    ("system", "sentence"),
    [
        ("reference:kip113..kip343", "the versions of the reference are v3, kip112, kip343_v0, kip343, not kip113"),
        ("reference:v3..kip343", "the version v3 needs a protocol without one, --protocol v3"),
        ("reference:kip112_kip343..kip343", "starts must name one version for all brokers, or one for each of the"),
    ],
)
def test_versions_that_cannot_run_are_refused_in_a_sentence(system: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        checked(plan(system))


@pytest.mark.parametrize("workload", ["create-delete", "everything"])
def test_roll_beside_deleted_topics_is_refused(workload: str) -> None:
    """R-316, KIP-516: an old version cannot tell a topic from the next one of its name, so its records may come back."""
    sentence = "beside a roll no topic may be deleted: an old version cannot tell it from the next one of its name (KIP-516)"

    assert SimBackend().refuse(derive(1, faults=("roll",), workload=workload)) == sentence
    assert SimBackend().refuse(derive(1, faults=("roll",), workload="admin-storm")) is None


def test_seed_with_a_roll_starts_as_an_older_version() -> None:
    """R-316: it draws no request that old metadata cannot tell, such as the deletion of a topic."""
    plans = [derive(seed, faults=("roll",), workload="mixed") for seed in range(12)]

    assert {plan.system.starts for plan in plans if isinstance(plan.system, SystemSpec)} == {("kip112",), ("kip343_v0",)}
    assert {plan.workload.name for plan in plans} == {"produce-consume"}
    assert {plan.audit_ms for plan in plans} == {0}


@pytest.mark.parametrize("name", ["kafka:4.1.0", "external", "toy"])
def test_plan_on_another_system_has_no_release_of_ours(name: str) -> None:
    """Each run on Kafka once ended here, because 4.1.0 is no release of the reference."""
    plan = derive(3)

    assert broker_config(on_system(plan, parsed_system(name)), BrokerId(1)) == broker_config(plan, BrokerId(1))
