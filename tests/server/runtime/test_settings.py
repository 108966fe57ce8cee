"""Settings files: valid ones round-trip, invalid ones are refused with one line."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reference.config import KAFKA_NAMES, SAFE, VARIANTS, BrokerConfig
from reference.types import Address, BrokerId
from server.lab.dir_faults import DirFault
from server.runtime.__main__ import main
from server.runtime.gateway import Limits
from server.runtime.settings import NODE_NAMES, Listener, NodeSettings, SettingsError, configured, load

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


def test_settings_take_the_names_of_the_documents(tmp_path: Path) -> None:
    """R-062, R-139, R-204: as in Kafka's server.properties."""
    written = msgspec.to_builtins(GOOD)
    del written["zookeeper"], written["segment_bytes"]
    del written["broker"]["replica_lag_time_max_ms"]
    written |= {"zookeeper.connect": "one,two:2182/kafka", "log.segment.bytes": 4096}
    written["broker"] |= {"replica.lag.time.max.ms": 10_000}
    (tmp_path / "node.json").write_bytes(msgspec.json.encode(written))
    settings = load(tmp_path / "node.json")

    assert (settings.broker.replica_lag_time_max_ms, settings.segment_bytes) == (10_000, 4096)
    assert settings.zookeeper == "one:2181,two:2182/kafka"


def test_name_of_the_documents_stands_for_one_field_each() -> None:
    assert set(KAFKA_NAMES.values()) <= set(BrokerConfig.__struct_fields__)
    assert set(NODE_NAMES.values()) <= set(NodeSettings.__struct_fields__)
    assert len({*KAFKA_NAMES.values()}) == len(KAFKA_NAMES)


def _broker(**changes: object) -> bytes:
    written = msgspec.to_builtins(GOOD)
    written["broker"] |= changes
    return bytes(msgspec.json.encode(written))


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
        (_with(zookeeper="localhost:x"), "an address must be host or host:port, not 'localhost:x'"),
        (_with(zookeeper="localhost/"), "the path behind the servers of ZooKeeper must be like /kafka or /a/b, not /"),
        (
            _broker(**{"replica.lag.time.max.m": 1}),
            "no setting broker.replica.lag.time.max.m; did you mean replica.lag.time.max.ms?",
        ),
        (_broker(session_timout_ms=1), "there is no setting broker.session_timout_ms; did you mean session_timeout_ms?"),
        (_broker(frobnicate=1), "there is no setting broker.frobnicate"),
        (
            _broker(**{"replica.lag.time.max.ms": 1}),
            "broker.replica_lag_time_max_ms is set twice, also as replica.lag.time.max.ms",
        ),
        (
            msgspec.json.encode({**msgspec.to_builtins(GOOD), "limits": {"in_flihgt": 1}}),
            "limits.in_flihgt; did you mean in_flight?",
        ),
        (_with(log_dirs=("a", "b")), "log_dirs must name broker.log_dirs=1 paths, not 2"),
        (_with(broker=replace(GOOD.broker, log_dirs=2), log_dirs=("/tmp/a", "/tmp/b/../a")), "a directory twice: /tmp/a, "),
        (
            _with(broker=replace(GOOD.broker, variant=replace(SAFE, topic_id=False, unnamed_log="deleted"))),
            "broker.variant: unnamed_log=deleted needs topic_id=true, not false: no log has a topic id otherwise",
        ),
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


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("article", {"replica_lag_time_max_ms": 10_000, "lag_max_records": 4000, "request_timeout_ms": 30_000}),
        ("v3", {"reassign_interval_ms": 30_000}),
        ("safe", {"replica_lag_time_max_ms": 4000}),
    ],
)
def test_named_variant_brings_the_settings_of_its_document(name: str, stated: dict[str, int], tmp_path: Path) -> None:
    """R-138, R-139, V3 §F: 10,000 ms, 4,000 messages, 30 s."""
    written = {"broker": 1, "topics": [], "variant": name}
    path = tmp_path / "node.json"
    path.write_bytes(msgspec.json.encode({**msgspec.to_builtins(GOOD), "broker": written}))

    broker = load(path).broker
    assert (broker.variant, {field: getattr(broker, field) for field in stated}) == (VARIANTS[name], stated)


def test_setting_in_the_file_beats_that_of_the_document(tmp_path: Path) -> None:
    written = {"broker": 1, "topics": [], "variant": "article", "replica.lag.time.max.ms": 5000}
    path = tmp_path / "node.json"
    path.write_bytes(msgspec.json.encode({**msgspec.to_builtins(GOOD), "broker": written}))

    assert load(path).broker.replica_lag_time_max_ms == 5000


def test_unknown_variant_in_the_file_gets_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_bytes(_broker(variant="artcle"))

    with pytest.raises(SettingsError, match="there is no variant artcle; did you mean article"):
        load(path)
