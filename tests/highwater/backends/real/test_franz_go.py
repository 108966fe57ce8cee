"""franz-go as a client: what is refused before a run, and how its program is compiled, by a stand-in for Go."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.clients import franz_go, libraries
from highwater.backends.real.systems.kafka.administration import administrators_of, unadministrable
from highwater.backends.real.systems.kafka.releases import release_named
from highwater.errors import HarnessError, UsageError
from highwater.plans.plan import Membership, Plan
from highwater.plans.text import load_plan
from highwater.rig.versions import Versions
from tests.tidy.sources import ROOT

PLAN = load_plan(ROOT / "corpus" / "real" / "groups.yaml")
GO = """#!/bin/sh
echo "$@" >>"{folder}/asked"
case "$*" in
"env GOVERSION GOOS GOARCH") echo go1.25.1 ;;
"env -json") echo '{{"GOVERSION": "go1.25.1", "GOTOOLCHAIN": "local"}}' ;;
list*) {listed} ;;
build*) {built} ;;
esac
"""
COMPILES = 'while [ "$1" != -o ]; do shift; done; mkdir -p "$(dirname "$2")"; cp go.mod "$2"'


def with_client(version: str, name: str = "groups", **workload: object) -> Plan:
    return replace(PLAN, workload=replace(PLAN.workload, name=name, client=f"franz-go:{version}", **workload))


def go_on_the_path(monkeypatch: pytest.MonkeyPatch, folder: Path, *, listed: str = "echo {}", built: str = COMPILES) -> Path:
    """Put a stand-in for Go on the PATH, and the cache beside it; returns the file of what it is asked."""
    program = folder / "bin" / "go"
    program.parent.mkdir()
    program.write_text(GO.format(folder=folder, listed=listed, built=built))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HIGHWATER_CACHE", str(folder / "cache"))
    return folder / "asked"


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("", "client franz-go needs a version, such as franz-go:1.22.3"),
        ("latest", "the version of franz-go must be three numbers, such as 1.22.3, not 'latest'"),
        ("1.9.0", "franz-go must be 1.20.0 or later, and below 2, not 1.9.0"),
        ("2.0.0", "franz-go must be 1.20.0 or later, and below 2, not 2.0.0"),
    ],
)
def test_version_of_franz_go_is_three_numbers(version: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        libraries.refusal(with_client(version))


def test_franz_go_has_no_share_groups_here() -> None:
    plan = with_client("1.22.3", "share-groups")

    assert str(libraries.refusal(plan)).startswith("client franz-go:1.22.3 has no share consumer")


@pytest.mark.parametrize("name", ["produce-consume", "groups", "transactions", "read-process-write", "zombies", "compacted"])
def test_franz_go_performs_workloads(name: str) -> None:
    assert libraries.refusal(with_client("1.20.4", name)) is None


@pytest.mark.parametrize(
    ("version", "membership", "refused"),
    [
        ("1.21.7", "consumer", "client franz-go:1.21.7 has no members with membership 'consumer'"),
        ("1.21.7", "cooperative", None),
        ("1.22.0", "consumer", None),
    ],
)
def test_old_franz_go_lets_no_coordinator_assign(version: str, membership: Membership, refused: str | None) -> None:
    """Before 1.22 it is a beta, which a value in a context opts into."""
    assert libraries.refusal(with_client(version, membership=membership)) == refused


def test_franz_go_without_go_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(franz_go, "_INSTALLED", tmp_path / "go")

    message = "client franz-go:1.22.3: it is compiled here, and there is no go on the PATH (Debian"
    assert str(libraries.missing(with_client("1.22.3"))).startswith(message)


def test_franz_go_that_go_does_not_find_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go_on_the_path(monkeypatch, tmp_path, listed="""echo '{"Error": {"Err": "unknown revision v1.99.0\\\\nmore"}}'""")

    assert franz_go.missing("1.99.0") == "client franz-go:1.99.0: Go does not find this version: unknown revision v1.99.0"


def test_franz_go_that_needs_a_newer_go_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go_on_the_path(monkeypatch, tmp_path, listed="""echo '{"GoVersion": "1.26.0"}'""")

    go = tmp_path / "bin" / "go"
    assert franz_go.missing("1.22.3") == f"client franz-go:1.22.3: it needs Go 1.26.0 or later, and {go} is 1.25.1"


def test_franz_go_that_go_knows_is_not_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go_on_the_path(monkeypatch, tmp_path, listed="""echo '{"GoVersion": "1.24.0"}'""")

    assert franz_go.missing("1.20.4") is None


def test_go_that_fails_is_named_in_the_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go_on_the_path(monkeypatch, tmp_path, listed="echo 'go: no such proxy' >&2; exit 1")

    assert franz_go.missing("1.22.3") == "client franz-go:1.22.3: compiling franz-go: go: no such proxy"


def test_program_is_compiled_once_against_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = go_on_the_path(monkeypatch, tmp_path)

    (program,) = franz_go.command("1.22.3")
    assert franz_go.command("1.22.3") == [program]
    assert Path(program).read_text().endswith("\nrequire github.com/twmb/franz-go v1.22.3\n")
    builds = [line for line in asked.read_text().splitlines() if line.startswith("build")]
    assert len(builds) == 1
    assert builds[0].startswith("build -mod=mod -tags kgo122 -o ")
    assert franz_go.missing("1.22.3") is None  # nothing is asked of the module that is compiled
    assert "list" not in asked.read_text()


def test_old_version_is_compiled_without_new_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = go_on_the_path(monkeypatch, tmp_path)

    (program,) = franz_go.command("1.20.4")
    assert "-1.20.4-" in program
    assert "kgo122" not in asked.read_text()


def test_program_that_does_not_compile_names_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = "go: downloading a module\\n# highwater-clients\\n./logs.go:3:1: undefined: kgo.Nothing\\n"
    go_on_the_path(monkeypatch, tmp_path, built=f"printf '{said}' >&2; exit 1")

    with pytest.raises(HarnessError, match=r"^compiling franz-go: \./logs\.go:3:1: undefined: kgo\.Nothing$"):
        franz_go.command("1.22.3")
    assert not [*tmp_path.glob("cache/clients/*")]


def test_go_mod_has_no_version_of_its_own() -> None:
    """The user names it; the hashes of those that were tried are in go.sum."""
    sources = ROOT / "highwater" / "backends" / "real" / "clients" / "go"

    assert "require" not in (sources / "go.mod").read_text()
    assert "toolchain" not in (sources / "go.mod").read_text()
    assert all(f"franz-go v{version} h1:" in (sources / "go.sum").read_text() for version in ("1.20.4", "1.22.3"))


def test_java_administers_beside_franz_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of franz-go is none of Kafka: administrators are those of the release."""
    monkeypatch.setattr("highwater.backends.real.clients.java.missing", lambda version: f"asked for {version}")
    release = release_named("4.1.0")
    plan = with_client("1.22.3", "admin-storm")

    assert unadministrable(plan, Versions(tested=release, starts=(release,), named={}, age=id)) == "asked for 4.1.0"
    assert administrators_of(plan, release) is not None
