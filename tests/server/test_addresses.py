"""Addresses are taken as Kafka's tools take them, and refused with a sentence."""

import pytest

from server.addresses import host_and_port, zookeeper_servers


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("kafkazk80-sjc1/kafka-sjc1-secpoc", "kafkazk80-sjc1:2181/kafka-sjc1-secpoc"),
        ("localhost:2182", "localhost:2182"),
        ("a,b:2182,c/x/y", "a:2181,b:2182,c:2181/x/y"),
        ("[::1]", "[::1]:2181"),
        ("[::1]:2182/kafka", "[::1]:2182/kafka"),
    ],
)
def test_zookeeper_listens_on_2181_unless_said_otherwise(text: str, servers: str) -> None:
    assert zookeeper_servers(text) == servers


@pytest.mark.parametrize("text", ["", ":2181", "a,,b", "a:", "a:65536", "a:x", "a b:1", "::1", "[::1", "[a]:1", "a/", "a//b"])
def test_bad_address_of_zookeeper_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        zookeeper_servers(text)


def test_listener_needs_a_port() -> None:
    assert host_and_port("[::1]:9092") == ("::1", 9092)
    with pytest.raises(ValueError, match="an address must be host:port, not 'localhost'"):
        host_and_port("localhost")
