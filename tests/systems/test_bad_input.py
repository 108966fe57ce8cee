"""Bad input about systems is one line and exit 2; a system that does not come up is exit 13 and leaves nothing."""

import socket
import sys
from pathlib import Path

import pytest

from highwater.backends.real import stage
from highwater.backends.real.node.plain import PlainNode
from highwater.backends.real.node.runner import Launch, Runner
from highwater.backends.real.systems import registry
from highwater.backends.real.systems.external import cluster, site
from highwater.backends.real.systems.external.file import Hooks, load
from highwater.backends.real.systems.external.system import External
from highwater.backends.real.systems.kafka import quorum
from highwater.backends.real.systems.metadata import BrokerMetadata
from highwater.backends.real.systems.port import Wiring
from highwater.cli.main import run_command_line
from highwater.errors import HarnessError, UsageError
from highwater.plans.plan import Plan, on_system
from highwater.plans.systems import SystemSpec
from highwater.plans.text import load_plan, plan_to_yaml
from nemesis.faults import Clog, Crash, DiskSwap, ExpireSession, Partition
from reference.types import Address, broker_address
from tests.systems.test_toy import PLAN
from tests.systems.toy import Toy
from tests.tidy.sources import ROOT

KIP101 = str(ROOT / "corpus" / "real" / "kip101.yaml")
FILE = """\
nodes:
- {id: 1, address: "127.0.0.1:1"}
hooks:
  kill: ["false"]
  start: [sh, -c, "sleep 60"]
hook_timeout_s: 1
"""


EXAMPLE = str(ROOT / "docs" / "examples" / "my-system.yaml")


def described(folder: Path, text: str = FILE) -> Path:
    path = folder / "my-system.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--system", "kafak:3.9.1"), "unknown system 'kafak'; did you mean 'kafka'?"),
        (("--system", "kafka:3.9.99"), "the jars of kafka 3.9.99 are not here: highwater systems get kafka:3.9.99"),
        (
            ("--system", "kafka"),
            "'' is no version of kafka, such as 3.7.0 or 3.7.0-kraft, or 4.1.0-apart3, with 1 to 9",
        ),
        (("--system", "kafka:3.9.1", "--backend", "sim"), "the simulator runs the reference only, not kafka:3.9.1"),
        (("--system", "external", "--with", EXAMPLE, "--backend", "docker"), "external does not run in containers"),
        (("--system", "external"), "system external needs the file that describes the cluster: --with FILE"),
        (("--system", "kafka:3.9.1", "--with", "x.yaml"), "--with describes the system external, not kafka"),
        (("--system", "external", "--with", "no.yaml"), "cannot read no.yaml: No such file or directory"),
    ],
)
def test_wrong_system_is_refused_in_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_command_line(["run", "--plan", KIP101, *arguments, "--store", str(tmp_path / "store")])

    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (2, 1)
    assert message in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get",), "name what to get"),
        (("get", "kafka:9"), "'9' is no version of kafka"),
        (("get", "reference"), "there is nothing to get for system 'reference'"),
        (("check",), "name the file to check"),
        (("list", "kafka:3.9.1"), "takes no name"),
    ],
)
def test_wrong_use_of_systems_is_refused(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command_line(["systems", *arguments])

    assert code == 2
    assert message in capsys.readouterr().err


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of tests beside this one may name the same nodes, and their locks lie in the cache."""
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))


def test_absent_cluster_is_a_failure_of_the_harness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # the first attempt leaves no lock on the nodes
        code = run_command_line(["systems", "check", str(described(tmp_path))])

        assert code == 13
        assert "b1 does not answer at 127.0.0.1:1: is the cluster running?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("nodes:", "node:"), "unknown key 'node'"),
        (("id: 1", "id: -1"), r"the ids of the nodes must be different numbers from 0 on, not \[-1\]"),
        (("hooks:", '- {id: 1, address: "127.0.0.1:2"}\nhooks:'), r"must be different numbers from 0 on, not \[1, 1\]"),
        (("hooks:", '- {id: 2, address: "127.0.0.1:1"}\nhooks:'), "nodes 1 and 2 have the same address 127.0.0.1:1"),
        (("127.0.0.1:1", "here"), 'the address of node 1 must be "host:port"'),
        (("start:", "heal:"), "hook kill needs hook start"),
        (("kill:", "lose:"), "hook lose needs hook kill, after which it runs"),
        (('["false"]', "[]"), "the command of hook kill must not be empty"),
        (('127.0.0.1:1"', '127.0.0.1:1", harness: "here"'), "the address of node 1 must be \"host:port\", not 'here'"),
        (("hook_timeout_s: 1", "prefix: 'a b'"), "prefix must be at most 100 letters"),
        (("hook_timeout_s: 1", "hook_timeout_s: 0"), "hook_timeout_s must be at least 1, not 0"),
    ],
)
def test_mistake_in_the_description_is_named(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        load(described(tmp_path, FILE.replace(*change)))


@pytest.mark.slow
def test_hook_that_fails_or_hangs_is_named(tmp_path: Path) -> None:
    hooks = Hooks(load(described(tmp_path)), tmp_path)

    with pytest.raises(HarnessError, match="hook kill of b1 ended with exit code 1"):
        hooks.run("kill", Address("b1"))
    with pytest.raises(HarnessError, match="hook start of b1 did not end within 1 s"):
        hooks.run("start", Address("b1"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill", "message"),
    [
        ("exit 3", "hook kill of b1 ended with exit code 3"),
        ("echo $$ > pid; exec sleep 300", "hook kill of b1 did not end within 1 s"),
    ],
)
def test_check_names_the_hook_and_leaves_no_process(
    kill: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = BrokerMetadata(brokers={1: ("127.0.0.1", 1)}, controller=1, partitions=())
    monkeypatch.setattr(quorum, "told_by", lambda where, *, partitions, internal: here)
    for module in (quorum, site, cluster):
        monkeypatch.setattr(module, "served_version", lambda where, api: 8)
    text = FILE.replace('kill: ["false"]', f'kill: [sh, -c, "{kill}"]').replace("sleep 60", "true")

    code = run_command_line(["systems", "check", str(described(tmp_path, text))])

    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (13, 1)
    assert message in error
    pid = tmp_path / "pid"
    assert not pid.exists() or not Path("/proc", pid.read_text().strip()).exists()


@pytest.mark.slow
def test_run_on_an_absent_cluster_is_a_failure_of_the_harness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "".join(f'- {{id: {number}, address: "127.0.0.1:{number}"}}\n' for number in (1, 2, 3))
    file = described(tmp_path, f"nodes:\n{nodes}hooks: {{kill: [x], start: [x], pause: [x], resume: [x]}}\n")
    plan = str(ROOT / "corpus" / "real" / "failover.yaml")

    code = run_command_line(["run", "--plan", plan, "--system", "external", "--with", str(file), "--store", str(tmp_path)])

    captured = capsys.readouterr()
    assert code == 13
    assert "does not answer at 127.0.0.1:" in captured.out + captured.err


class Silent(Toy):
    """A toy whose broker listens nowhere."""

    mark = ""  # an argument of its process

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> PlainNode:
        command = (sys.executable, "-c", "import time; time.sleep(600)", self.mark)
        return PlainNode(folder, broker_address(wiring.broker), runner, lambda prepared: Launch(command=command))


@pytest.mark.slow
def test_broker_that_never_serves_ends_the_run_and_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Silent, "mark", str(tmp_path))
    monkeypatch.setitem(registry.SYSTEMS, "toy", Silent)
    monkeypatch.setattr(stage, "LED_S_MAX", 2.0)
    plan = tmp_path / "toy.yaml"
    plan.write_text(plan_to_yaml(PLAN))

    code = run_command_line(["run", "--plan", str(plan), "--store", str(tmp_path / "store")])

    captured = capsys.readouterr()
    assert code == 13
    assert "not every broker listed all 1 brokers within 2 s" in captured.out + captured.err
    arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.name != "self"]
    assert not [argument for argument in arguments if str(tmp_path).encode() in argument]


def test_fault_without_a_hook_is_refused(tmp_path: Path) -> None:
    system = External(_plan(tmp_path))

    assert system.lacks(Crash()) is None
    assert str(system.lacks(Partition(links=("peers",)))).endswith("names no hook cut")
    for fault in (Partition(), Clog(kinds=("fetch",)), DiskSwap(), ExpireSession()):
        assert system.lacks(fault) == "no hook can inject it"


def test_plan_with_another_number_of_brokers_is_refused(tmp_path: Path) -> None:
    assert str(External(_plan(tmp_path)).refuse()).endswith("has 1 nodes, and window nothing-fetched (clog) names b3")


def _plan(folder: Path) -> Plan:
    return on_system(load_plan(Path(KIP101)), SystemSpec(name="external", settings={"with": str(described(folder))}))


def test_proxy_port_that_is_taken_is_named() -> None:
    """Two runs may draw the same loopback network."""
    import asyncio
    import random

    from highwater.backends.real.processes.links import ProxyLinks

    async def scene() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            links = ProxyLinks("127.0.0.1", random.Random(1))
            await links.wire(Address("b1"), Address("b2"), ("127.0.0.1", 1), at=taken.getsockname())

    with pytest.raises(HarnessError, match="the proxy from b1 to b2 cannot listen at 127"):
        asyncio.run(scene())
