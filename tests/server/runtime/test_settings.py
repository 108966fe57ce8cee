"""Settings files: valid ones round-trip, invalid ones are refused with one line."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reference.config import SAFE, BrokerConfig
from reference.types import Address, BrokerId
from server.lab.dir_faults import DirFault
from server.runtime.__main__ import main
from server.runtime.gateway import Limits
from server.runtime.settings import Listener, NodeSettings, configured, load

B1 = Address("b1")

GOOD = NodeSettings(
    broker=BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=()),
    life=1,
    peers=Listener(bind="127.0.0.1:9001", advertised={B1: "127.0.0.1:9001", Address("b2"): "127.0.0.1:9002"}),
    clients=(Listener(bind="0.0.0.0:9092", advertised={B1: "broker-1:9092"}),),
    zookeeper="127.0.0.1:2181,127.0.0.1:2182",
    log_dirs=("/tmp/a",),
)


def _with(**changes: object) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(GOOD, **changes))


def test_broker_settings_round_trip_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_bytes(msgspec.json.encode(GOOD))

    assert load(tmp_path / "node.json") == GOOD


def test_broker_registers_the_address_that_clients_reach() -> None:
    """R-150: host and port of the broker, as its first listener for clients advertises them, else that for brokers."""
    alone = replace(GOOD, clients=())
    unreachable = replace(alone, peers=Listener(bind="127.0.0.1:9001", advertised={}))
    broker_configs = [configured(settings) for settings in (GOOD, alone, unreachable)]

    assert [(c.host, c.port) for c in broker_configs] == [("broker-1", 9092), ("127.0.0.1", 9001), ("localhost", 9092)]
    assert replace(broker_configs[0], host="localhost") == GOOD.broker


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", "Input data was truncated"),
        (b'{"life": "one"}', "`$.life`"),
        (b"\xff\xfe", ""),
        (msgspec.json.encode({**msgspec.to_builtins(GOOD), "liffe": 1}), "liffe"),
        (_with(peers=Listener(bind="9001", advertised={})), "an address must be host:port, not '9001'"),
        (_with(peers=Listener(bind="a:1", advertised={Address("c1"): "a:1"})), "a key of advertised must be like b1, not 'c1'"),
        (_with(clients=(Listener(bind="a:1", advertised={B1: "a"}),)), "an address must be host:port, not 'a'"),
        (_with(clients=(Listener(bind="a:1", advertised={}),)), "clients[0].advertised must name b1"),
        (msgspec.json.encode({**msgspec.to_builtins(GOOD), "limits": {"in_flight": 0}}), "in_flight must be at least 1, not 0"),
        (_with(zookeeper="localhost:x"), "an address must be host:port, not 'localhost:x'"),
        (_with(log_dirs=("a", "b")), "log_dirs must name broker.log_dirs=1 paths, not 2"),
        (_with(broker=replace(GOOD.broker, log_dirs=2), log_dirs=("/tmp/a", "/tmp/b/../a")), "a directory twice: /tmp/a, "),
        (_with(life=0), "life must be at least 1, not 0"),
        (_with(segment_bytes=0), "segment_bytes must be at least 1, not 0"),
        (_with(side_channel="/tmp/" + "x" * 110), "side_channel must have at most 107 bytes"),
        (_with(dir_faults=(DirFault(), DirFault())), "dir_faults must have at most 1 entries, not 2"),
        (_with(dir_faults=({"wet": True},)), "wet"),
    ],
)
def test_bad_broker_settings_are_refused_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, complaint: str
) -> None:
    path = tmp_path / "node.json"
    path.write_bytes(content)

    code = main(["--config", str(path)])

    error = capsys.readouterr().err
    assert code == 2
    assert error.count("\n") == 1
    assert error.startswith(f"{path}: ")
    assert complaint in error


def test_missing_settings_file_is_refused_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--config", str(tmp_path / "none.json")])

    assert code == 2
    assert capsys.readouterr().err == f"{tmp_path}/none.json: No such file or directory\n"


def test_settings_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "brokers.md").read_text(encoding="utf-8")
    (tmp_path / "node.json").write_text(text.split("```json")[1].split("```")[0])

    settings = load(tmp_path / "node.json")
    assert settings.broker.variant == SAFE
    assert settings.limits == Limits()
