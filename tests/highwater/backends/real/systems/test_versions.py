"""Brokers of several releases in one run: what each of them is, what they speak meanwhile, and what is refused before a run."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.node import KafkaNode
from highwater.backends.real.systems.kafka.releases import release_named
from highwater.backends.real.systems.kafka.system import Kafka
from highwater.backends.real.systems.kafka.versions import too_old, unfit, versions_of
from highwater.errors import UsageError
from highwater.plans.plan import on_system
from highwater.plans.systems import SystemSpec, parsed_system, words_of
from highwater.plans.text import load_plan, plan_from_yaml, plan_to_yaml
from highwater.rig.scene import scene_of
from nemesis.faults import AnyFault, Crash, Roll
from nemesis.schedule import Window
from nemesis.targets import Everyone, Named
from reference.types import BrokerId
from tests.highwater.backends.real.systems.test_kafka_node import broker
from tests.tidy.sources import ROOT

ROLL = load_plan(ROOT / "corpus" / "real" / "roll.yaml")
QUORUM = load_plan(ROOT / "corpus" / "real" / "roll-quorum.yaml")


def window(name: str, until_ms: int, fault: AnyFault, *brokers: int) -> Window:
    target = Named(brokers=brokers) if brokers else Everyone()
    return Window(id=name, kind="roll", at_ms=until_ms - 1, until_ms=until_ms, fault=fault, target=target)


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        ("kafka:2.8.2..3.9.1", SystemSpec(name="kafka", version="3.9.1", starts=("2.8.2",))),
        (
            "kafka:3.9.1-kraft_4.1.0_4.1.0..4.1.0",
            SystemSpec(name="kafka", version="4.1.0", starts=("3.9.1-kraft", "4.1.0", "4.1.0")),
        ),
        ("kafka:3.9.1", SystemSpec(name="kafka", version="3.9.1")),
    ],
)
def test_words_of_a_system_name_what_its_brokers_start_as(words: str, spec: SystemSpec) -> None:
    """They name runs and folders, and the command that repeats a run has them."""
    assert parsed_system(words) == spec
    assert words_of(spec) == words
    plan = on_system(QUORUM, spec)
    assert plan_from_yaml(plan_to_yaml(plan)) == plan


def test_mixed_cluster_has_a_release_for_each_broker() -> None:
    named = replace(ROLL, schedule=(*ROLL.schedule, window("w", 9, Roll(to="3.6.2"), 2)))
    plan = on_system(named, parsed_system("kafka:2.8.2_3.7.0_3.9.1..3.9.1"))
    versions = versions_of(plan, release_named("3.9.1"))

    assert [versions.first(BrokerId(number)).version for number in (1, 2, 3)] == ["2.8.2", "3.7.0", "3.9.1"]
    assert versions.after(Roll(), BrokerId(1)).version == "3.9.1"
    assert versions.after(Roll(back=True), BrokerId(2)).version == "3.7.0"
    assert versions.after(Roll(to="3.6.2"), BrokerId(2)).version == "3.6.2"
    assert versions.oldest.version == "2.8.2"
    assert Kafka(plan).version == "2.8.2_3.7.0_3.9.1..3.9.1"


def test_scene_of_kafka_asks_for_no_release_of_the_reference() -> None:
    """Its words are no release of ours: a run of two releases of Kafka ended before it began."""
    assert len(scene_of(on_system(QUORUM, parsed_system("kafka:3.9.1-kraft..4.1.0"))).brokers) == 3


def test_release_that_a_roll_names_counts_among_those_of_the_run() -> None:
    plan = replace(ROLL, schedule=(window("w", 9, Roll(to="2.4.1"), 1),))

    assert versions_of(on_system(plan, parsed_system("kafka:3.9.1")), release_named("3.9.1")).oldest.version == "2.4.1"


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("kafka:2.8.2_3.9.1..3.9.1", "starts must name one version for all brokers, or one for each of the 3, not 2"),
        ("kafka:3.9.1..4.1.0", "no roll leads from ZooKeeper to KRaft or back, as between kafka 3.9.1 and 4.1.0"),
        ("kafka:2.8..3.9.1", "'2.8' is no version of kafka, such as 3.7.0 or 3.7.0-kraft"),
        ("kafka:0.10.0.1..3.9.1", "kafka 0.10.0.1 has no listeners with names"),
    ],
)
def test_versions_that_do_not_fit_are_refused(system: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Kafka(on_system(ROLL, parsed_system(system)))


def test_missing_release_of_a_mixed_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "java_missing", lambda release: None)
    monkeypatch.setattr(jars, "wrong_jars", lambda folder, pins: ["kafka.jar is missing"])

    refusal = Kafka(on_system(ROLL, parsed_system("kafka:2.8.2..3.9.1"))).refuse()

    assert refusal == "the jars of kafka 3.9.1 are not here: highwater systems get kafka:3.9.1"


@pytest.mark.parametrize(
    ("schedule", "refused"),
    [
        ((window("up", 5, Roll(finalize=True), 1, 2, 3),), None),
        ((window("up", 5, Roll(finalize=True)),), None),
        ((window("up", 5, Roll()), window("dies", 6, Crash(), 1), window("final", 9, Roll(finalize=True), 2)), None),
        ((window("up", 5, Roll()), window("back", 9, Roll(back=True))), None),
        (
            (window("up", 5, Roll(finalize=True), 1),),
            "window up (roll) makes 3.9.1 final at 5 ms, but b2 is 2.8.2 at 5 ms, and no older broker may join then",
        ),
        (
            (window("up", 5, Roll(finalize=True)), window("back", 9, Roll(back=True), 3)),
            "window up (roll) makes 3.9.1 final at 5 ms, but b3 is 2.8.2 at 9 ms, and no older broker may join then",
        ),
    ],
)
def test_older_broker_beside_a_final_upgrade_is_refused(schedule: tuple[Window, ...], refused: str | None) -> None:
    plan = on_system(replace(ROLL, schedule=schedule), parsed_system("kafka:2.8.2..3.9.1"))

    assert too_old(versions_of(plan, release_named("3.9.1")), schedule, 3) == refused


def test_run_that_never_has_the_version_under_test_is_refused() -> None:
    """It would say something of the older release alone."""
    never = on_system(replace(ROLL, schedule=()), parsed_system("kafka:2.8.2..3.9.1"))

    refusal = Kafka(never).refuse()

    assert refusal == "all brokers start as kafka 2.8.2, and no window (fault: roll) makes one of them 3.9.1"


def launched(node: KafkaNode) -> tuple[str, str]:
    """The settings and the command of the broker's next start."""
    command = node._launch().command
    return (node._folder / "server.properties").read_text(), " ".join(command)


def test_rolled_broker_speaks_the_oldest_protocol_until_final(tmp_path: Path) -> None:
    """2.8 does not understand what 3.9 would send by default, so all hold to 2.8 until no broker is older."""
    node = broker(tmp_path, Kafka(on_system(ROLL, parsed_system("kafka:2.8.2..3.9.1"))))

    first, old = launched(node)
    node.change(Roll())
    second, new = launched(node)
    node.change(Roll(finalize=True))
    third, _ = launched(node)
    node.change(Roll(back=True))
    _, back = launched(node)

    assert ["kafka_2.13-2.8.2.jar" in command for command in (old, new, back)] == [True, False, True]
    assert ["kafka_2.13-3.9.1.jar" in command for command in (old, new, back)] == [False, True, False]
    assert ["inter.broker.protocol.version=2.8\n" in text for text in (first, second, third)] == [True, True, False]
    assert ["log.message.format.version=2.8\n" in text for text in (first, second, third)] == [True, False, False]


def test_nodes_of_a_mixed_quorum_are_formatted_for_the_oldest(tmp_path: Path) -> None:
    mixed = broker(tmp_path, Kafka(on_system(QUORUM, parsed_system("kafka:3.9.1-kraft..4.1.0"))))
    alone = broker(tmp_path, Kafka(on_system(QUORUM, parsed_system("kafka:4.1.0"))), 2)

    assert "--release-version 3.9" in launched(mixed)[1]
    assert "--release-version" not in launched(alone)[1]
    assert "inter.broker.protocol.version" not in launched(mixed)[0]


APART = load_plan(ROOT / "corpus" / "real" / "roll-apart.yaml")


def test_controllers_apart_are_rolled_before_an_upgrade_is_final() -> None:
    """A controller that does not know the feature level could not follow it."""
    two = replace(APART, schedule=tuple(window for window in APART.schedule if window.id != "last-rolls"))
    message = "window b3-rolls (roll) makes 4.1.0 final at 73000 ms, but of 3 controllers 1 are older then"

    tested = release_named("4.1.0")
    assert unfit(versions_of(APART, tested), APART) is None
    assert unfit(versions_of(two, tested), two) == f"{message} (zookeeper-down, how: roll)"


def test_run_may_roll_controllers_alone() -> None:
    alone = replace(APART, schedule=APART.schedule[:1])

    assert unfit(versions_of(alone, release_named("4.1.0")), alone) is None
