"""A node is started with good settings or says in one line what is wrong."""

from pathlib import Path

import msgspec
import pytest

from reference.config import SAFE, BrokerConfig
from reference.runtime.__main__ import main
from reference.runtime.settings import NodeSettings, load
from reference.types import Address, BrokerId

GOOD = NodeSettings(
    broker=BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=()),
    life=1,
    listen="127.0.0.1:9001",
    peers={Address("b2"): "127.0.0.1:9002"},
    zookeeper="127.0.0.1:2181,127.0.0.1:2182",
    log_dirs=("/tmp/a",),
)


def test_settings_survive_the_file(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_bytes(msgspec.json.encode(GOOD))

    assert load(tmp_path / "node.json") == GOOD


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", "Input data was truncated"),
        (b'{"life": "one"}', "`$.life`"),
        (b"\xff\xfe", ""),
        (msgspec.json.encode({**msgspec.to_builtins(GOOD), "liffe": 1}), "liffe"),
        (msgspec.json.encode(msgspec.structs.replace(GOOD, listen="9001")), "not a host and a port: '9001'"),
        (msgspec.json.encode(msgspec.structs.replace(GOOD, zookeeper="localhost:x")), "not a host and a port: 'localhost:x'"),
        (msgspec.json.encode(msgspec.structs.replace(GOOD, log_dirs=("a", "b"))), "broker.log_dirs is 1, log_dirs has 2"),
        (msgspec.json.encode(msgspec.structs.replace(GOOD, life=0)), "life counts from 1"),
    ],
)
def test_bad_settings_are_refused_with_one_line(
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


def test_a_file_that_is_not_there_is_one_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--config", str(tmp_path / "none.json")])

    assert code == 2
    assert capsys.readouterr().err == f"{tmp_path}/none.json: No such file or directory\n"
