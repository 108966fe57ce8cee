"""A user's own build of Kafka: read from a folder or a tarball, named, compared with the plan's, and refused in one sentence."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.systems.kafka import builds, jars
from highwater.backends.real.systems.kafka.jvm import JvmNode
from highwater.backends.real.systems.kafka.releases import release_named
from highwater.backends.real.systems.kafka.system import Kafka
from highwater.backends.real.systems.registry import Akin, akin, system_for
from highwater.campaigns.campaign import Request
from highwater.campaigns.order import Order
from highwater.cli.main import run_command_line
from highwater.errors import HarnessError, UsageError
from highwater.plans.plan import Plan, on_system
from highwater.plans.systems import OwnJars, SystemSpec, parsed_system, words_of
from highwater.plans.text import load_plan, plan_from_yaml, plan_to_yaml
from tests.tidy.sources import ROOT

PLAN_FILE = ROOT / "corpus" / "real" / "kip101.yaml"
PLAN = load_plan(PLAN_FILE)
BOTH = ("kafka/server/KafkaServer.class", "kafka/server/KafkaRaftServer.class")
JAVA_17 = 61


def jar(path: Path, *classes: str, java: int = JAVA_17) -> Path:
    """A jar with these classes, each of which has a header and no more."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in classes:
            archive.writestr(name, b"\xca\xfe\xba\xbe\x00\x00" + java.to_bytes(2, "big"))
    return path


def build(folder: Path, version: str = "3.9.1", *classes: str) -> Path:
    """A folder with the jar of a broker and another one."""
    folder.mkdir(parents=True)
    jar(folder / f"kafka_2.13-{version}.jar", "kafka/Kafka.class", *(classes or BOTH))
    jar(folder / "kafka-clients.jar", "x.class")
    return folder


def packed(archive: Path, libs: Path, prefix: str = "kafka_2.13-3.9.1/libs/") -> Path:
    """The tarball of a build, as Kafka's releases have it."""
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(libs.iterdir()):
            tar.add(path, prefix + path.name)
    return archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "java_major", lambda: jars.JAVA_MAJOR)
    return tmp_path / "cache"


def on_build(path: Path, version: str = "") -> Plan:
    return on_system(PLAN, SystemSpec(name="kafka", version=version, jars=builds.named(path)))


def test_folder_is_named_and_known_by_the_digest_of_its_jars(cache: Path, tmp_path: Path) -> None:
    own = builds.named(build(tmp_path / "patched" / "libs"))

    assert (own.path, own.version) == (str(tmp_path / "patched" / "libs"), "3.9.1-patched")
    assert own == builds.named(tmp_path / "patched" / "libs")
    assert len(own.digest) == 32


def test_tarball_is_the_same_build_as_its_folder(cache: Path, tmp_path: Path) -> None:
    folder = build(tmp_path / "libs")
    jar(folder / "kafka_2.13-3.9.1-sources.jar", "Kafka.scala")
    archive = packed(tmp_path / "kafka-fast.tgz", folder)

    own = builds.named(archive)

    assert (own.digest, own.version) == (builds.named(folder).digest, "3.9.1-kafka-fast")
    assert {*builds.build_at(archive).files} == {"kafka_2.13-3.9.1.jar", "kafka-clients.jar"}
    assert [path.name[:1] != "." for path in (cache / "builds").iterdir()] == [True]


@pytest.mark.parametrize(
    ("version", "classes", "coordination", "mode", "words"),
    [
        ("3.9.1", BOTH, "", "zookeeper", "kafka:3.9.1-own"),
        ("3.9.1", BOTH, "kraft", "kraft", "kafka:3.9.1-own-kraft"),
        ("3.9.1", BOTH, "zookeeper", "zookeeper", "kafka:3.9.1-own-zookeeper"),
        ("2.8.2", BOTH, "", "zookeeper", "kafka:2.8.2-own"),
        ("4.3.0-SNAPSHOT", BOTH[1:], "", "kraft", "kafka:4.3.0-SNAPSHOT-own"),
    ],
)
def test_build_coordinates_as_its_classes_can(
    cache: Path, tmp_path: Path, version: str, classes: tuple[str, ...], coordination: str, mode: str, words: str
) -> None:
    """The same words stand in the plan, in the manifest and in the name of the run."""
    plan = on_build(build(tmp_path / "own", version, *classes), coordination)

    system = Kafka(plan)

    assert isinstance(plan.system, SystemSpec)
    assert (system.release.mode, f"kafka:{system.version}", words_of(plan.system)) == (mode, words, words)
    assert (system.zookeeper, system.refuse()) == (mode == "zookeeper", None)


def test_files_of_the_run_are_the_jars_of_the_build(cache: Path, tmp_path: Path) -> None:
    folder = build(tmp_path / "own")

    files = system_for(on_build(folder)).files

    assert files == {path.name: jars.sha256_of(path) for path in sorted(folder.iterdir())}


def test_plan_with_a_build_survives_writing_and_reading(cache: Path, tmp_path: Path) -> None:
    plan = on_build(build(tmp_path / "own"))

    assert plan_from_yaml(plan_to_yaml(plan)) == plan


def test_plan_that_names_a_path_alone_takes_what_is_there(cache: Path, tmp_path: Path) -> None:
    spec = SystemSpec(name="kafka", version="kraft", jars=OwnJars(path=str(build(tmp_path / "own"))))

    assert Kafka(on_system(PLAN, spec)).version == "3.9.1-own-kraft"


def test_plan_of_another_build_is_refused(cache: Path, tmp_path: Path) -> None:
    """Else a stored run would be repeated with other code under the same name."""
    folder = build(tmp_path / "own")
    plan = on_build(folder)
    jar(folder / "kafka-clients.jar", "y.class")

    with pytest.raises(UsageError, match=r"the plan was made for [0-9a-f]{32}: another build; --system kafka --jars \S+ takes"):
        system_for(plan)


def test_build_that_changes_during_the_run_is_a_failure(cache: Path, tmp_path: Path) -> None:
    """A broker or controller that is started again would run other code than the rest."""
    import asyncio

    folder = build(tmp_path / "own")
    node = object.__new__(JvmNode)
    node._release = release_named("4.1.0")
    node._builds = {"4.1.0": builds.build_at(folder)}
    jar(folder / "kafka-clients.jar", "another.class")

    with pytest.raises(HarnessError, match="were changed during the run"):
        asyncio.run(node.start())


def test_campaigns_of_two_builds_are_two_campaigns(cache: Path, tmp_path: Path) -> None:
    """Else --resume would mix their runs."""
    own = builds.named(build(tmp_path / "own"))
    order = Order(first=0, last=1, backend="process", system="kafka", jars=own)

    assert order.name != replace(order, jars=replace(own, digest="0" * 32)).name
    assert order.command().endswith(f" --system kafka --jars {own.path}")


@pytest.mark.parametrize(
    ("version", "classes", "near"),
    [
        ("4.1.0", BOTH[1:], Akin(same="kafka:4.1.0")),
        ("4.1.1", BOTH[1:], Akin(older="kafka:4.1.0", newer="kafka:4.2.0")),
        ("4.3.0-SNAPSHOT", BOTH[1:], Akin(older="kafka:4.2.0")),
        ("2.4.1", BOTH, Akin(older="kafka:2.0.1", newer="kafka:2.8.2")),
        ("0.10.2.1", BOTH[:1], Akin(newer="kafka:0.10.2.2")),
    ],
)
def test_build_is_expected_to_behave_like_its_neighbours(
    cache: Path, tmp_path: Path, version: str, classes: tuple[str, ...], near: Akin
) -> None:
    spec = SystemSpec(name="kafka", jars=builds.named(build(tmp_path / "own", version, *classes)))
    tested = ("kafka:0.10.2.2", "kafka:2.0.1", "kafka:2.8.2", "kafka:3.9.1", "kafka:3.9.1-kraft", "kafka:4.1.0", "kafka:4.2.0")

    assert akin(spec, (*tested, "external")) == near


@pytest.mark.parametrize(
    ("system", "near"),
    [
        ("kafka:4.1.0", Akin()),
        ("kafka:4.1.0-apart3", Akin(same="kafka:4.1.0-apart3")),
        ("kafka:4.2.0-apart1", Akin(older="kafka:4.1.0-apart3")),
    ],
)
def test_controllers_apart_behave_like_no_combined_ones(system: str, near: Akin) -> None:
    assert akin(parsed_system(system), ("kafka:3.9.1", "kafka:4.1.0-apart3")) == near


def test_repeat_line_of_a_seed_names_the_build(cache: Path, tmp_path: Path) -> None:
    request = Request(backend="process", system="kafka:kraft", jars=builds.named(build(tmp_path / "my build")))

    assert request.command(7).endswith(f" --system kafka:kraft --jars '{tmp_path}/my build'")
    assert words_of(request.spec) == "kafka:3.9.1-my-build-kraft"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], store: Path) -> str:
    """The one line with which `highwater run` refuses these options."""
    code = run_command_line(["run", "--plan", str(PLAN_FILE), *arguments, "--store", str(store)])
    error = capsys.readouterr().err
    assert (code, error.count("\n"), store.exists()) == (2, 1, False)
    return error


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("kafka:3.9.1", "so the system is kafka, kafka:zookeeper or kafka:kraft, not kafka:3.9.1"),
        ("external", "--jars is a build of the system kafka, not of external"),
        (None, "--jars is a build of the system kafka, not of reference"),
    ],
)
def test_build_of_another_system_is_refused(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], system: str | None, message: str
) -> None:
    named = [] if system is None else ["--system", system]

    assert message in refused([*named, "--jars", str(build(tmp_path / "own"))], capsys, tmp_path / "store")


def test_every_mistake_of_a_folder_is_one_sentence(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def sentence(path: Path, system: str = "kafka") -> str:
        return refused(["--system", system, "--jars", str(path)], capsys, tmp_path / "store")

    (tmp_path / "empty").mkdir()
    (tmp_path / "clients").mkdir()
    jar(tmp_path / "clients" / "kafka-clients-4.1.0.jar", "x.class")
    two_brokers = build(tmp_path / "two")
    jar(two_brokers / "kafka_2.12-3.9.1.jar", "kafka/Kafka.class")
    cut = build(tmp_path / "cut")
    (cut / "kafka-clients.jar").write_bytes((cut / "kafka-clients.jar").read_bytes()[:20])
    other_folder = build(tmp_path / "other")
    jar(other_folder / "kafka_2.13-3.9.1.jar", "x.class")
    new = build(tmp_path / "new")
    jar(new / "kafka_2.13-3.9.1.jar", "kafka/Kafka.class", *BOTH, java=JAVA_17 + 4)

    assert "no such folder or tarball of jars" in sentence(tmp_path / "nowhere")
    assert "empty has no jars; give a folder with the jars of a broker" in sentence(tmp_path / "empty")
    assert "has 1 jars, but no broker (kafka_2.13-VERSION.jar)" in sentence(tmp_path / "clients")
    assert "has more than one broker: kafka_2.12-3.9.1.jar, kafka_2.13-3.9.1.jar" in sentence(two_brokers)
    assert "kafka-clients.jar is no jar, or was cut off" in sentence(cut)
    assert "has no class kafka.Kafka, which starts a broker" in sentence(other_folder)
    assert "was compiled for Java 21; brokers run on Java 17 here" in sentence(new)
    assert "kafka 0.10.1.0 has no listeners with names" in sentence(build(tmp_path / "old", "0.10.1.0"))
    assert "(kafka 4.1.0) cannot run with zookeeper" in sentence(build(tmp_path / "v4", "4.1.0", BOTH[1]), "kafka:zookeeper")
    assert "(kafka 2.8.2) cannot run with kraft" in sentence(build(tmp_path / "v2", "2.8.2"), "kafka:kraft")
    assert "a class path cannot have a folder with a colon" in sentence(build(tmp_path / "a:b"))


def test_every_mistake_of_a_tarball_is_one_sentence(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing of it is left in the cache, nor written elsewhere."""

    def sentence(path: Path) -> str:
        return refused(["--system", "kafka", "--jars", str(path)], capsys, tmp_path / "store")

    whole = packed(tmp_path / "whole.tgz", build(tmp_path / "libs"))
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    text = tmp_path / "text.tgz"
    text.write_text("no tarball")
    twice = packed(tmp_path / "twice.tgz", build(tmp_path / "more"), "libs/")
    with tarfile.open(twice, "w:gz") as tar:
        for folder in ("a/libs", "b/libs"):
            tar.add(tmp_path / "libs" / "kafka-clients.jar", f"{folder}/kafka-clients.jar")
    link = tmp_path / "link.tgz"
    with tarfile.open(link, "w:gz") as tar:
        member = tarfile.TarInfo("libs/kafka_2.13-3.9.1.jar")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    for name in ("../../evil.jar", "/evil.jar"):
        outside = tmp_path / "outside.tgz"
        with tarfile.open(outside, "w:gz") as tar:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
        assert f"has the member {name!r}, which lies outside of the tarball" in sentence(outside)

    assert "cut.tgz is no tarball of jars that can be read: " in sentence(cut)
    assert "text.tgz is no tarball of jars that can be read: " in sentence(text)
    assert "twice.tgz is no tarball of jars that can be read: " in sentence(twice)
    assert "has the member 'libs/kafka_2.13-3.9.1.jar', which is no file" in sentence(link)
    assert list((cache / "builds").iterdir()) == []
